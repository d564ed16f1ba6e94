"""What a table means: the measurements in its rows, by the columns that `columns.py` finds.

A table is *long*, one measurement in a row (n, error and maybe seed, model, metric), or *wide*, one
seed, model or N in a column. A column that has no part in this either tells nothing apart and is
named as not used, or it splits what would be one curve: then it is asked about, whatever its name,
with the options that answer. `Measurements.read_as` notes how a table was read.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
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
from korisk.store.cells import row_digests

DIGEST = "digest"  # the column of checksums, in tables that korisk wrote
MAX_PROBLEMS = 10  # that one message names

_FINISHED = vocabulary("finished done completed complete success succeeded ok")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d+:\d\d(:\d\d.*)?")
_SPREAD = re.compile(
    r"(?P<mean>[^±(]+?)\s*(?:(?:±|\+/-|\+-)\s*|(?=\([\d.,]+\)$))(?P<spread>.+)"
)  # 0.12 ± 0.01 and 0.12 (0.01)


class Measurement(NamedTuple):
    """One value, still in the user's unit, and whose it is."""

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
    """What a table holds."""

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
        return "; ".join([*self.notes, *([f"not used: {names}"] if self.unused else [])])

    def where(self, row: Measurement, name: str) -> str:
        """The place of one measurement's `n` or `error`."""
        cell = self.source.at(row.position, row.heads[name != "n"])
        return f"{self.source.name}, {cell}" if self.source.name else cell


class _Row(NamedTuple):
    """A row that is read, and whose it is."""

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
        rule = "be a list of mappings with the keys n and error"
        raise invalid("records", rule, records, remedy)
    return measurements(grid_of_records(records, Source("", "record", "key")), options)


def measurements(grid: Grid, options: Options) -> Measurements:
    """The measurements of a table."""
    grid = filtered(_with_deviations(_verified(grid)), options)
    return _Reader(grid, options).measurements()


class _Reader:
    """Reads row after row, and gathers what is wrong, so that one message can name all of it."""

    def __init__(self, grid: Grid, options: Options) -> None:
        self.layout = Layout(grid, options)
        self.grid, self.options, self.source = grid, options, grid.source
        self.problems: list[str] = []
        self.remedies: dict[str | Message, None] = {}
        self.left_out = Counter[str]()
        places = [value.place for value in self.layout.values]
        places += [at for at in (self.layout.n,) if at is not None]
        cells = (
            (row[at], self.source.at(position, grid.header[at]))
            for position, row in grid.rows
            for at in places
        )
        try:
            self.mark = decimal_mark(cells, grid.delimiter)
        except CellError as error:
            raise self.source.error("; ".join(error.args)) from None

    def measurements(self) -> Measurements:
        """The values of all rows, or one error about them."""
        layout, options = self.layout, self.options
        rows, table = list[_Row](), list[Measurement]()
        for position, cells in self.grid.rows:
            if row := self.row(position, cells):
                rows.append(row)
                table += self.values(row)
        signs = self.percent_signs(rows)
        if self.problems:
            more = len(self.problems) - MAX_PROBLEMS
            listing = self.problems[:MAX_PROBLEMS] + [f"and {more} more"] * (more > 0)
            parts = [part for remedy in self.remedies for part in (", ", remedy)]
            raise self.source.error(", ".join(listing), "; ", *parts[1:])
        skipped = [f"{n} {what}{'s' * (n > 1)} left out" for what, n in self.left_out.items() if n]
        if not table:
            but = f" but {', '.join(skipped)}" if skipped else ""
            raise self.source.error(f"holds no measurements{but}; add rows with n and error")
        shares = [
            row for row in table if row.n % 1 and row.n < math.inf and "n" not in layout.scale
        ]
        if shares:
            cell = self.source.at(shares[0].position, shares[0].heads[0])
            problem = f"{cell}: N must be a whole number from 2 to 10^15, got {shares[0].n!r}"
            answer = ("scale", {"n": ...}, "to multiply a share by the size of all")
            raise layout.ask(problem, answer)
        _check_labels(layout, rows)
        _check_others(layout, rows)
        notes = [
            *layout.notes,
            *self.grid.notes,
            *["decimal commas"] * (self.mark == ","),
            *skipped,
        ]
        notes += [
            f"{name} times {factor:g}" for name, factor in layout.scale.items() if factor != 1
        ]
        for how, column in (("last", options.get("last")), ("best", options.get("best"))):
            notes += [f"the {how} {shown(column)} of each run"] if column else []
        if options.get("last"):
            table.sort(key=lambda row: row.order)
            table = list({(r.n, r.seed, r.model, r.metric): r for r in table}.values())
            table.sort(key=lambda row: row.position)
        unused = [layout.header[at] for at in layout.rest if layout.filled[at]]
        return Measurements(self.source, table, signs, notes, unused, bool(options.get("best")))

    def wrong(self, position: int, at: int | None, what: str, remedy: str | Message) -> None:
        """Note a problem with a cell or a row."""
        where = self.source.at(position, None if at is None else self.grid.header[at])
        self.problems.append(f"{where}: {what}")
        self.remedies[remedy] = None

    def number(self, position: int, row: list[Any], at: int) -> float | None:
        """The number in a cell; None where it is empty, or not as it should be."""
        cell, whole = row[at], at == self.layout.n
        if is_empty(cell):
            return None
        try:
            return number(cell, self.mark, whole=whole and "n" not in self.layout.scale)
        except CellError as error:
            what, remedy = error.args
            head = self.grid.header[at]
            if folded(cell) == head.casefold():
                what, remedy = "another head", "save each table in a file of its own"
            elif whole and isinstance(cell, str) and cell.replace(" ", "").isalpha():  # Mean, Total
                out = Argument("filter", {head: f"!{cell}"})
                remedy = Message("pass ", out, " to leave such rows out")
            self.wrong(position, at, what, remedy)
            return None

    def row(self, position: int, cells: list[Any]) -> _Row | None:
        """A row with its N and labels; None where it is left out, or wrong."""
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
        try:
            model, metric, seed = (
                "/".join(
                    label(shown(layout.header[at]), cells[at]) for at in places if at is not None
                )
                for places in groups
            )
        except KoriskError as error:
            self.wrong(position, None, *str(error).split("; ", 1))
            return None
        self.left_out["empty cell"] += len(layout.values) - filled
        return _Row(position, cells, n, model, metric, seed) if filled else None

    def reason_to_leave_out(self, cells: list[Any]) -> str:
        """Why a row is not read: its run did not finish, or a column of flags says so."""
        roles = self.layout.roles
        said = {role: folded(cells[at]) for role, at in roles.items() if at is not None}
        if said.get("status") and said["status"] not in _FINISHED:
            return f"{said['status'][:20]} run"
        excluded = FLAGS.get(said.get("exclude", ""), 0) == 1
        return "excluded row" * (excluded or FLAGS.get(said.get("include", ""), 1) == 0)

    def values(self, row: _Row) -> Iterable[Measurement]:
        """The measurements of a row; a mean with its deviation becomes one for each seed."""
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
            for seed, score in enumerate(_scores(layout, self.options.get("seeds")), start=1):
                value = first.value + deviation * factors["error"] * score
                yield first._replace(value=value, seed=str(seed))

    def percent_signs(self, rows: list[_Row]) -> set[str]:
        """The columns whose values, or whose head, are in percent."""
        percent = set()
        for at in (value.place for value in self.layout.values):
            head = self.grid.header[at]
            cells = [row.cells[at] for row in rows if not is_empty(row.cells[at])]
            count = sum(str(cell).endswith("%") for cell in cells)
            if 0 < count < len(cells):
                what = f"{count} of {len(cells)} values have percent signs"
                self.problems.append(f"{self.source.column} {shown(head)}: {what}")
                self.remedies["write all with or without"] = None
            if count or self.layout.in_percent(at):
                percent.add(head)
        return percent


# --- Before columns have a meaning ---------------------------------------------------------------


def _verified(grid: Grid) -> Grid:
    """The table without the digests that korisk wrote into a file, if its rows fit them."""
    at = grid.header.index(DIGEST) if DIGEST in grid.header else -1
    stored = [row[at] for _, row in grid.rows] if at >= 0 and grid.source.name else []
    if not any(re.fullmatch("[a-fq-z]{0,16}", str(text or "")) for text in stored):
        return grid
    header = grid.header[:at] + grid.header[at + 1 :]
    rows = [(position, row[:at] + row[at + 1 :]) for position, row in grid.rows]
    digests = row_digests(header, [row for _, row in rows])
    wrong = [rows[k][0] for k, digest in enumerate(digests) if digest != stored[k]]
    if wrong:
        names = ", ".join(map(grid.source.at, wrong[:MAX_PROBLEMS]))
        names += f" and {len(wrong) - MAX_PROBLEMS} more" if wrong[MAX_PROBLEMS:] else ""
        which = "the header or the number of rows" if len(wrong) == len(rows) else names
        raise grid.source.error(
            f"{which}: changed after korisk wrote them; write the file again, or remove the "
            f"{grid.source.column} {DIGEST!r} if you changed them on purpose"
        )
    return replace(grid, header=header, rows=rows)


def _with_deviations(grid: Grid) -> Grid:
    """The table with a column of its own for what follows a ± in cells."""
    header, rows = list(grid.header), [(position, list(row)) for position, row in grid.rows]
    for at, head in enumerate(grid.header):
        pairs = [_SPREAD.fullmatch(str(row[at])) for _, row in rows]
        if any(pairs) and not any("_".join(words(head)) in names for names in NAMED.values()):
            header.append(f"{head} std")
            for (_, row), pair in zip(rows, pairs, strict=True):
                row.append(pair["spread"].strip("()") if pair else None)
                row[at] = pair["mean"] if pair else row[at]
    return replace(grid, header=header, rows=rows)


# --- After all rows are read ---------------------------------------------------------------------


def _scores(layout: Layout, seeds: int | None) -> list[float]:
    """Normal scores with mean 0 and sample deviation 1, for as many seeds as the user says."""
    if not isinstance(seeds, int) or not 2 <= seeds <= 1000:
        places = [value.deviation for value in layout.values if value.deviation is not None]
        raise layout.ask(
            f"{layout.names(places)} has standard deviations",
            ("seeds", ..., "with the number of seeds behind each mean (2 to 1000)"),
            layout.ignoring(places, "to read the means alone"),
        )
    scores = [NormalDist().inv_cdf((k + 0.5) / seeds) for k in range(seeds)]
    unit = math.sqrt(sum(score * score for score in scores) / (seeds - 1))
    return [score / unit for score in scores]


def _check_labels(layout: Layout, rows: list[_Row]) -> None:
    """Refuse rows without a model among those with one, and rows that sum up seeds."""
    at, models = layout.roles["model"], [row.model for row in rows]
    if at is not None and any(models) and not all(models):
        problem = f"{shown(layout.header[at])} is missing in some rows, as where cells are merged"
        raise layout.grid.source.error(f"{problem}; name the model in every row")
    for at in layout.seeds:
        labels = {str(row.cells[at]) for row in rows}
        texts = sorted(text for text in labels if SUMMARIES.intersection(words(text)))[:10]
        if texts and len(texts) < len(labels):
            head = layout.header[at]
            problem = f"{shown(head)} has rows that sum up others ({', '.join(texts)})"
            out = {head: [f"!{text}" for text in texts]}
            raise layout.ask(problem, ("filter", out, "to leave such rows out"))


def _check_others(layout: Layout, rows: list[_Row]) -> None:
    """Ask about a column that splits what would be one curve, and about remarks."""
    times = Counter(row[2:] for row in rows)
    (n, *_), most = times.most_common(1)[0]
    telling, seeds = [], [row.seed for row in rows]
    for at in layout.rest:
        name, numeric = layout.header[at], at in layout.numeric
        cells = [folded(row.cells[at]) for row in rows]
        present = [cell for cell in cells if cell]
        distinct = len(set(cells))
        unused = layout.ignoring([at], "if it says nothing")
        if not present or (not numeric and all(map(_DATE.fullmatch, present))):
            continue
        if not numeric and len(present) < len(cells):
            remark = f"{len(present)} of {len(cells)} rows have a remark in {shown(name)}, such as "
            out = ("filter", {name: ""}, "to leave these rows out")
            raise layout.ask(f"{remark}{shown(present[0])}", out, unused)
        sizes, curves = [row.n for row in rows], [(row.model, row.metric) for row in rows]
        if most > 1 and len({*zip(sizes, curves, seeds, cells, strict=True)}) == len(cells):
            telling.append(at)
        # A text splits a curve; a number splits an N, and does not only follow from N.
        whole = list(zip(curves, sizes, strict=True)) if numeric else curves
        splits = len({*zip(whole, cells, strict=True)}) > len({*whole})
        recurs = len({*zip(sizes, cells, strict=True)}) > distinct
        if not splits or distinct == len(cells) or (numeric and not recurs):
            continue
        model = layout.column("model", at, "if it tells models apart")
        seed = layout.column("seed", at, "if it numbers repetitions")
        one = ("filter", {name: short(str(rows[-1].cells[at]))}, "for one of them")
        last, best = ("last", name, "for the last of each run"), ("best", name, "for the best")
        answers = [model, one, seed] if not numeric else [model, seed, one, last]
        if numeric and most > 1 and (layout.seeds or distinct > 10):  # such as an epoch
            answers = [last, best, one, model, seed]
        values = [shown(str(row.cells[at])) for row in rows if not is_empty(row.cells[at])]
        names = in_short(values, 4)
        raise layout.ask(f"{shown(name)} has {names} in one curve", *answers, unused)
    if telling:
        problem = f"N = {n or 0:g} is there {most} times, and no column tells the seed"
        raise layout.ask(problem, layout.column("seed", telling[0], "if rows repeat one model"))
