"""Extract measurements from a table, by the roles of its columns that `columns.py` finds.

A table is *long*, one measurement per row (n, error, maybe seed, model, metric), or *wide*, one
seed, model or N per column. Any other column either distinguishes nothing and is reported as not
used, or it splits what would be one curve: then the table is ambiguous, and the error names the
options to pass. `Measurements.read_as` notes how a table was read.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from korisk.curves.cells import CellError, decimal_mark, folded, is_empty, label, number, rough
from korisk.curves.columns import (
    FLAGS,
    NAMED,
    SUMMARIES,
    Layout,
    Options,
    filtered,
    in_short,
    short,
)
from korisk.curves.formats import Grid, Source, grid_of_records
from korisk.curves.unit import UNITS, vocabulary, words
from korisk.errors import Argument, KoriskError, Message, invalid, shown

DIGEST = "digest"  # the column of checksums, in tables that korisk wrote
MAX_PROBLEMS = 10  # that one message names

_FINISHED = vocabulary("finished done completed complete success succeeded ok")
_PROGRESS = vocabulary("epoch epochs step steps iteration iterations iter checkpoint")
# Parts of a data set; errors of the first one that is there are those of a plan.
_SPLITS = ["test", "testing", "val", "valid", "validation", "train", "training"]
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d+:\d\d(:\d\d.*)?")
_SPREAD = re.compile(
    r"(?P<mean>[^±(]+?)\s*(?:(?:±|\+/-|\+-)\s*|(?=\([\d.,]+\)$))(?P<spread>.+)"
)  # 0.12 ± 0.01 and 0.12 (0.01)


class Measurement(NamedTuple):
    """One value in the user's unit, and what it belongs to."""

    position: int  # of its row
    n: float
    value: float
    seed: str
    model: str
    metric: str
    unit: str  # by a column of that name, else ""
    heads: tuple[str, str]  # the names of the columns of N and of the value
    order: float = 0.0  # in the column of `last`


@dataclass(frozen=True)
class Measurements:
    """The measurements of a table, and how it was read."""

    source: Source
    rows: list[Measurement]
    percent: set[str]  # columns of values with percent signs
    notes: list[str]  # how the table was read, where that was not a matter of course
    unused: list[str] = field(default_factory=list)  # columns
    pick_best: bool = False

    @property
    def read_as(self) -> str:
        """How the table was read, in one line."""
        names = ", ".join(map(shown, self.unused[:5])) + " and others" * bool(self.unused[5:])
        return "; ".join([*self.notes, *[f"not used: {names}"] * bool(self.unused)])

    def where(self, row: Measurement, name: str) -> str:
        """Describe the cell of a measurement's `n` or `error`."""
        cell = self.source.at(row.position, row.heads[name != "n"])
        return f"{self.source.name}, {cell}" if self.source.name else cell


class _Row(NamedTuple):
    """A row of the table, with its N and labels."""

    position: int
    cells: list[Any]
    n: float | None
    model: str
    metric: str
    seed: str


def record_measurements(records: object, options: Options) -> Measurements:
    """The measurements of mappings such as {"n": 64, "error": 0.1, "seed": 1}."""
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        remedy = "use Curve.read for files and Curve.from_frame for data frames"
        raise invalid("records", "be a list of mappings with n and error", records, remedy)
    return measurements(grid_of_records(records, Source("", "record", "key")), options)


def measurements(grid: Grid, options: Options) -> Measurements:
    """The measurements of a table."""
    grid = filtered(_with_deviations(_verified(grid)), options)
    return _Reader(grid, options).measurements()


class _Reader:
    """Reads all rows and collects their problems, so that one message can list them."""

    def __init__(self, grid: Grid, options: Options) -> None:
        self.layout = Layout(grid, options)
        self.grid, self.options, self.source = grid, options, grid.source
        self.problems: list[str] = []
        self.remedies: dict[str | Message, None] = {}
        self.left_out = Counter[str]()
        # One decimal mark for the whole table, by all columns of numbers that are read.
        places = [value.place for value in self.layout.values]
        places += [col for col in (self.layout.n,) if col is not None]
        where, head = self.source.at, grid.header
        cells = ((row[col], where(line, head[col])) for line, row in grid.rows for col in places)
        try:
            self.mark = decimal_mark(cells, grid.delimiter)
        except CellError as error:
            raise self.source.error("; ".join(error.args)) from None

    def measurements(self) -> Measurements:
        """The measurements of all rows; raises one error for all problems."""
        layout, options = self.layout, self.options
        rows, table = list[_Row](), list[Measurement]()
        for position, cells in self.grid.rows:
            if row := self.row(position, cells):
                rows.append(row)
                table += self.values(row)
        signs = self.percent_signs(rows)
        if self.problems:
            unlisted = len(self.problems) - MAX_PROBLEMS
            listing = self.problems[:MAX_PROBLEMS] + [f"and {unlisted} more"] * (unlisted > 0)
            pieces = [piece for remedy in self.remedies for piece in (", ", remedy)]
            raise self.source.error(", ".join(listing), "; ", *pieces[1:])
        left_out = self.left_out.items()
        skipped = [f"{n} {reason}{'s' * (n > 1)} left out" for reason, n in left_out if n]
        if not table:
            but = f" but {', '.join(skipped)}" if skipped else ""
            raise self.source.error(f"holds no measurements{but}; add rows with n and error")
        # Fractions of N are shares of a training set, whose size the table does not say.
        shares = [row for row in table if row.n % 1 and row.n < math.inf]
        if shares and "n" not in layout.scale:
            cell = self.source.at(shares[0].position, shares[0].heads[0])
            problem = f"{cell}: N must be a whole number from 2 to 10^15, got {shares[0].n!r}"
            answer = ("scale", {"n": ...}, "to multiply a share by the size of all")
            raise layout.ask(problem, answer)
        _check_labels(layout, rows)
        _check_others(layout, rows)
        commas = ["decimal commas"] * (self.mark == ",")
        notes = [*layout.notes, *self.grid.notes, *commas, *skipped]
        notes += [f"{name} times {by:g}" for name, by in layout.scale.items() if by != 1]
        orders = (("last", options.get("last")), ("best", options.get("best")))
        notes += [f"the {how} {shown(column)} of each run" for how, column in orders if column]
        # The last row of each run wins, whatever the order of rows in the table.
        if options.get("last"):
            table.sort(key=lambda row: row.order)
            table = list({(r.n, r.seed, r.model, r.metric): r for r in table}.values())
            table.sort(key=lambda row: row.position)
        unused = [layout.header[col] for col in layout.rest if layout.filled[col]]
        return Measurements(self.source, table, signs, notes, unused, bool(options.get("best")))

    def wrong(self, position: int, col: int | None, problem: str, remedy: str | Message) -> None:
        """Record a problem with a cell or a row."""
        place = self.source.at(position, None if col is None else self.grid.header[col])
        self.problems.append(f"{place}: {problem}")
        self.remedies[remedy] = None

    def number(self, position: int, row: list[Any], col: int) -> float | None:
        """The number in a cell; None if it is empty or invalid."""
        cell, is_n = row[col], col == self.layout.n
        if is_empty(cell):
            return None
        try:
            return number(cell, self.mark, is_count=is_n and "n" not in self.layout.scale)
        except CellError as error:
            problem, remedy = error.args
            head = self.grid.header[col]
            # Several tables in one file repeat their header.
            if folded(cell) == head.casefold():
                problem, remedy = "another head", "save each table in a file of its own"
            elif is_n and isinstance(cell, str) and cell.replace(" ", "").isalpha():  # Mean, Total
                out = Argument("filter", {head: f"!{cell}"})
                remedy = Message("pass ", out, " to leave such rows out")
            self.wrong(position, col, problem, remedy)
            return None

    def row(self, position: int, cells: list[Any]) -> _Row | None:
        """A row with its N and labels; None if it is left out or invalid."""
        layout = self.layout
        if reason := self.reason_to_leave_out(cells):
            self.left_out[reason] += 1
            return None
        n = None if layout.n is None else self.number(position, cells, layout.n)
        filled = sum(not is_empty(cells[value.place]) for value in layout.values)
        if layout.n is not None and n is None:
            if filled and is_empty(cells[layout.n]):
                self.wrong(position, layout.n, "is missing", "write N")
            return None
        groups = ([layout.roles["model"]], [layout.roles["metric"]], layout.seeds)
        heads = layout.header
        try:
            model, metric, seed = (
                "/".join(label(shown(heads[k]), cells[k]) for k in places if k is not None)
                for places in groups
            )
        except KoriskError as error:
            self.wrong(position, None, *str(error).split("; ", 1))
            return None
        self.left_out["empty cell"] += len(layout.values) - filled
        return _Row(position, cells, n, model, metric, seed) if filled else None

    def reason_to_leave_out(self, cells: list[Any]) -> str:
        """Why a row is left out: its run did not finish, or a flag excludes it."""
        roles = self.layout.roles
        labels = {role: folded(cells[col]) for role, col in roles.items() if col is not None}
        if labels.get("status") and labels["status"] not in _FINISHED:
            return f"{labels['status'][:20]} run"
        excluded = FLAGS.get(labels.get("exclude", ""), 0) == 1
        return "excluded row" * (excluded or FLAGS.get(labels.get("include", ""), 1) == 0)

    def values(self, row: _Row) -> Iterable[Measurement]:
        """The measurements of a row; a mean with a deviation becomes one for each seed."""
        layout, header = self.layout, self.grid.header
        unit_at = layout.roles["unit"]
        unit = "" if unit_at is None else str(row.cells[unit_at])
        factors = {"n": 1.0, "error": 1.0, **layout.scale}
        for column in layout.values:
            value = self.number(row.position, row.cells, column.place)
            if value is None:
                continue
            n = row.n if row.n is not None else column.n or math.nan
            spread = column.deviation
            deviation = None if spread is None else self.number(row.position, row.cells, spread)
            first = Measurement(
                row.position,
                n * factors["n"],
                value * factors["error"],
                column.seed or row.seed,
                column.model or row.model,
                row.metric or column.metric,
                unit if unit in UNITS else "",
                (header[column.place if layout.n is None else layout.n], header[column.place]),
                0.0 if layout.order is None else rough(row.cells[layout.order]),
            )
            if deviation is None:
                yield first
                continue
            # Values at normal scores have exactly this mean and standard deviation.
            for seed, score in enumerate(_scores(layout, self.options.get("seeds")), start=1):
                value = first.value + deviation * factors["error"] * score
                yield first._replace(value=value, seed=str(seed))

    def percent_signs(self, rows: list[_Row]) -> set[str]:
        """The columns whose values or header are in percent."""
        percent = set()
        for col in (value.place for value in self.layout.values):
            head = self.grid.header[col]
            cells = [row.cells[col] for row in rows if not is_empty(row.cells[col])]
            count = sum(str(cell).endswith("%") for cell in cells)
            if 0 < count < len(cells):
                problem = f"{count} of {len(cells)} values have percent signs"
                self.problems.append(f"{self.source.column} {shown(head)}: {problem}")
                self.remedies["write all with or without"] = None
            if count or self.layout.in_percent(col):
                percent.add(head)
        return percent


# --- Before columns have a meaning ---------------------------------------------------------------


def _verified(grid: Grid) -> Grid:
    """The table without korisk's column of checksums, after verifying its rows."""
    col = grid.header.index(DIGEST) if DIGEST in grid.header else -1
    stored = [row[col] for _, row in grid.rows] if col >= 0 and grid.source.name else []
    if not any(re.fullmatch("[a-fq-z]{0,16}", str(text or "")) for text in stored):
        return grid
    # Anyone may call a column "digest"; only korisk's checksums have this alphabet.
    header = grid.header[:col] + grid.header[col + 1 :]
    rows = [(position, row[:col] + row[col + 1 :]) for position, row in grid.rows]
    from korisk.store.cells import row_digests  # `import korisk` needs no store

    digests = row_digests(header, [row for _, row in rows])
    wrong = [rows[k][0] for k, digest in enumerate(digests) if digest != stored[k]]
    if wrong:
        names = ", ".join(map(grid.source.at, wrong[:MAX_PROBLEMS]))
        names += f" and {len(wrong) - MAX_PROBLEMS} more" if wrong[MAX_PROBLEMS:] else ""
        which = "the header or the number of rows" if len(wrong) == len(rows) else names
        remedy = f"remove the {grid.source.column} {DIGEST!r} if you changed them on purpose"
        changed = f"{which}: changed after korisk wrote them; write the file again, or"
        raise grid.source.error(f"{changed} {remedy}")
    return replace(grid, header=header, rows=rows)


def _with_deviations(grid: Grid) -> Grid:
    """The table with an extra column for standard deviations after a ± in cells."""
    header, rows = list(grid.header), [(position, list(row)) for position, row in grid.rows]
    # Names such as "fold (1)" look like a mean with its deviation: columns of labels are skipped.
    for col, head in enumerate(grid.header):
        pairs = [_SPREAD.fullmatch(str(row[col])) for _, row in rows]
        if any(pairs) and not any("_".join(words(head)) in names for names in NAMED.values()):
            header.append(f"{head} std")
            for (_, row), pair in zip(rows, pairs, strict=True):
                row.append(pair["spread"].strip("()") if pair else None)
                row[col] = pair["mean"] if pair else row[col]
    return replace(grid, header=header, rows=rows)


# --- After all rows are read ---------------------------------------------------------------------


def _scores(layout: Layout, seeds: int | None) -> list[float]:
    """Normal scores with mean 0 and sample standard deviation 1, one for each seed."""
    if not isinstance(seeds, int) or not 2 <= seeds <= 1000:
        places = [value.deviation for value in layout.values if value.deviation is not None]
        number = ("seeds", ..., "with the number of seeds behind each mean (2 to 1000)")
        means = layout.ignoring(places, "to read the means alone")
        raise layout.ask(f"{layout.names(places)} has standard deviations", number, means)
    from statistics import NormalDist  # it loads fractions, which `import korisk` need not

    scores = [NormalDist().inv_cdf((k + 0.5) / seeds) for k in range(seeds)]
    unit = math.sqrt(sum(score * score for score in scores) / (seeds - 1))
    return [score / unit for score in scores]


def _check_labels(layout: Layout, rows: list[_Row]) -> None:
    """Raise for rows without a model among rows with one, and for rows that summarise seeds."""
    col, models = layout.roles["model"], [row.model for row in rows]
    if col is not None and any(models) and not all(models):
        problem = f"{shown(layout.header[col])} is missing in some rows, as where cells are merged"
        raise layout.grid.source.error(f"{problem}; name the model in every row")
    for col in layout.seeds:
        labels = {str(row.cells[col]) for row in rows}
        texts = sorted(text for text in labels if SUMMARIES.intersection(words(text)))[:10]
        if texts and len(texts) < len(labels):
            head = layout.header[col]
            problem = f"{shown(head)} has rows that sum up others ({', '.join(texts)})"
            out = {head: [f"!{text}" for text in texts]}
            raise layout.ask(problem, ("filter", out, "to leave such rows out"))


def _check_others(layout: Layout, rows: list[_Row]) -> None:
    """Raise for a column that splits what would be one curve, and for remarks."""
    # Rows with the same N, model, metric and seed need a column that distinguishes them.
    times = Counter(row[2:] for row in rows)
    (n, *_), most = times.most_common(1)[0]
    telling, seeds = [], [row.seed for row in rows]
    for col in layout.rest:
        name, numeric = layout.header[col], col in layout.numeric
        cells = [folded(row.cells[col]) for row in rows]
        present = [cell for cell in cells if cell]
        distinct = len(set(cells))
        unused = layout.ignoring([col], "if it says nothing")
        if not present or (not numeric and all(map(_DATE.fullmatch, present))):
            continue
        if not numeric and len(present) < len(cells):
            remark = f"{len(present)} of {len(cells)} rows have a remark in {shown(name)}, such as "
            out = ("filter", {name: ""}, "to leave these rows out")
            raise layout.ask(f"{remark}{shown(present[0])}", out, unused)
        sizes, curves = [row.n for row in rows], [(row.model, row.metric) for row in rows]
        if most > 1 and len({*zip(sizes, curves, seeds, cells, strict=True)}) == len(cells):
            telling.append(col)
        # A text splits a curve; a number splits an N, and does not only follow from N.
        groups = list(zip(curves, sizes, strict=True)) if numeric else curves
        splits = len({*zip(groups, cells, strict=True)}) > len({*groups})
        recurs = len({*zip(sizes, cells, strict=True)}) > distinct
        if not splits or distinct == len(cells) or (numeric and not recurs):
            continue
        model = layout.column("model", col, "if it tells models apart")
        seed = layout.column("seed", col, "if it numbers repetitions")
        single = ("filter", {name: short(str(rows[-1].cells[col]))}, "for one of them")
        last, best = ("last", name, "for the last of each run"), ("best", name, "for the best")
        answers = [model, single, seed] if not numeric else [model, seed, single, last]
        progress = bool(_PROGRESS & {*words(name)}) or layout.seeds or distinct > 10
        if numeric and most > 1 and progress:
            answers = [last, best, single, model, seed]
        if {*present} <= {*_SPLITS}:
            split = next(split for split in _SPLITS if split in present)
            answers = [("filter", {name: split}, "for one of them"), model]
        values = [shown(str(row.cells[col])) for row in rows if not is_empty(row.cells[col])]
        names = in_short(values, 4)
        raise layout.ask(f"{shown(name)} has {names} in one curve", *answers, unused)
    if telling:
        row_name = "a row" if n is None else f"N = {n:g}"  # columns may be named after N
        problem = f"{row_name} is there {most} times, and no column tells the seed"
        raise layout.ask(problem, layout.column("seed", telling[0], "if rows repeat one model"))
