"""Extract measurements from a table, by the roles of its columns that `columns.py` finds.

A table is *long*, one measurement per row (n, error, maybe seed, model, metric), or *wide*, one
seed or model per column. Any other column either distinguishes nothing and is reported as not
used, or it splits what would be one curve: then the table is ambiguous, and the error names the
options to pass. `Measurements.read_as` notes how a table was read.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from korisk.curves import cells as parsing
from korisk.curves import columns as roles
from korisk.curves.cells import CellError, begins_as_number, folded, is_empty, rough
from korisk.curves.columns import FLAGS, NAMED, SPLITS, Layout, Options, names_n
from korisk.curves.formats import Answer, Grid, Question, Source, in_short
from korisk.curves.unit import listed_words, words
from korisk.errors import KoriskError, shown
from korisk.texts import counted

DIGEST = "digest"  # the column of checksums, in tables that korisk wrote

_FINISHED, _PROGRESS, _BAD = listed_words("finished", "progress", "bad")
_TYPED = re.compile(r"[<>]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z]\.")  # of numbers with a typing error
_NUMBER = r"[-+\u2212]?[\d.,]+(?:[eEdD][-+]?\d+)?"
# Marks around a number: about ~, a unit, stars of significance, a comment.
_DRESSED = re.compile(
    rf"(?P<about>[~\u2248]\s*|[Nn]\s*=\s*)?(?P<number>{_NUMBER})\s*(?P<unit>%|[kKM]|[dD][bB]|[A-Za-z]{{2,12}})?"
    r"(?P<stars>[*\u2020\u2021]+)?(?P<comment>\s+#.*)?"
)
# 0.12 ± 0.01, 0.12 (0.01), 31.2(15), 0.61 [0.55, 0.67] and 0.71 (0.62-0.80)
_SPREAD = re.compile(
    rf"(?P<mean>{_NUMBER}\s*%?)\s*(?:(?:±|\+/-|\+-)\s*{_NUMBER}\s*%?"
    rf"|\({_NUMBER}\)|[\[(]\s*{_NUMBER}\s*(?:[,;]|-|\u2013|to)\s*{_NUMBER}\s*[\])])(?:\s*\(n\s*=\s*\d+\))?"
)


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
    text: str  # of its cell


@dataclass(frozen=True)
class Measurements:
    """The measurements of a table, and how it was read."""

    source: Source
    rows: list[Measurement]
    percent: set[str]  # columns of values with percent signs
    notes: list[str]  # how the table was read, where that was not a matter of course
    unused: list[str] = field(default_factory=list)  # columns

    @property
    def read_as(self) -> str:
        """How the table was read, in one line."""
        names = ", ".join(map(shown, self.unused[:5])) + " and others" * bool(self.unused[5:])
        return "; ".join([*self.notes, *[f"not used: {names}"] * bool(self.unused)])


class _Row(NamedTuple):
    """A row of the table, with its N and labels."""

    position: int
    cells: list[Any]
    n: float
    model: str
    metric: str
    seed: str
    unit: str


def measurements(grid: Grid, options: Options) -> Measurements:
    """The measurements of a table."""
    return _Reader(roles.filtered(_cleaned(_verified(grid)), options), options).measurements()


class _Reader(Layout):
    """Reads the rows of a table by its layout."""

    def __init__(self, grid: Grid, options: Options) -> None:
        super().__init__(grid, options)
        self.left_out = Counter[str]()
        heads = [*map(shown, grid.header)]
        groups = [self.roles["model"]], [self.roles["metric"]], self.seeds
        self.labels = [[(col, heads[col]) for col in cols if col is not None] for cols in groups]
        # One decimal mark for the whole table, by all columns of numbers that are read.
        places = [self.n, *(value.place for value in self.values)]
        cells = ((row[col], line, self.header[col]) for line, row in grid.rows for col in places)
        self.mark = parsing.decimal_mark(cells, grid.delimiter, self.source)
        self.check_marks()

    def check_marks(self) -> None:
        """Raise if the mark in a number may separate thousands or decimals."""
        for role, cols in (("n", [self.n]), ("error", [v.place for v in self.values])):
            unclear = [
                (position, col, shown(row[col]))
                for col in cols
                for position, row in self.grid.rows
                if parsing.is_unclear(row[col], self.mark, is_count=role == "n")
            ]
            if unclear:
                position, col, text = min(unclear)  # the first row
                problem = f"{text} may be a thousand or a decimal; write thousands without a mark"
                raise self.wrong(position, col, f"{problem}, decimals with points between commas")

    def measurements(self) -> Measurements:
        """The measurements of all rows."""
        summaries = self.summaries()
        self.left_out["summary row"] = len(summaries)
        places = (place for place in self.grid.rows if place[0] not in summaries)
        rows = [row for place in places if (row := self.row(*place))]
        skipped = [f"{counted(n, reason)} left out" for reason, n in self.left_out.items() if n]
        if not rows:
            but = f" but {', '.join(skipped)}" if skipped else ""
            raise self.source.error(f"holds no measurements{but}; add rows with n and error")
        odd = [row for row in rows if row.n % 1 or row.n < 2]
        if odd:
            texts = [f"!{folded(row.cells[self.n])}" for row in odd]
            head = self.header[self.n]
            answer: Answer = ("filter", {head: [*dict.fromkeys(texts)]}, "to leave these rows out")
            problem = f"N must be a whole number of samples from 2 to 10^15, got {odd[0].n!r}"
            answers = [answer] if len(odd) < len(rows) else []
            raise self.wrong(odd[0].position, self.n, problem, *answers)
        self.check_others(rows)
        if seeds := self.repetitions(rows):
            rows = [row._replace(seed=seed) for row, seed in zip(rows, seeds, strict=True)]
            self.notes.append("rows of one N are repetitions")
        table = [value for row in rows for value in self.measured(row)]
        commas = ["decimal commas"] * (self.mark == ",")
        notes = [*self.notes, *self.grid.notes, *commas, *skipped]
        unused = [self.header[col] for col in self.rest if self.filled[col]]
        return Measurements(self.source, table, self.percent_signs(rows), notes, unused)

    def summaries(self) -> set[int]:
        """The positions of rows that sum up others: a mean of seeds, a total at the end."""
        positions = {
            position
            for col in (self.n, *self.seeds)
            for position, cells in self.grid.rows
            if isinstance(cells[col], str) and roles.SUMMARIES & {*words(cells[col])}
        }
        return positions if len(positions) < len(self.grid.rows) else set()

    def repetitions(self, rows: list[_Row]) -> list[str]:
        """Seeds of rows that only repeat their N, each as often; empty if there is no need."""
        if self.seeds or any(v.seed for v in self.values):
            return []
        keys = [(row.n, row.model, row.metric) for row in rows]
        values = [tuple(folded(row.cells[v.place]) for v in self.values) for row in rows]
        # Blocks of all N below each other may be two models; a row may be there twice.
        blocks = [len(list(block)) for _, block in groupby(keys)]
        once = len({*zip(keys, values, strict=True)}) == len(rows)
        if len({*blocks}) > 1 or blocks[0] == 1 or len(blocks) > len({*keys}) or not once:
            return []
        return [str(k % blocks[0] + 1) for k in range(len(rows))]

    def wrong(self, position: int, col: int, problem: str, *answers: Answer) -> Question:
        """The question about a cell."""
        return self.ask(f"{self.source.at(position, self.header[col])}: {problem}", *answers)

    def number(self, position: int, row: list[Any], col: int) -> float | None:
        """The number in a cell; None if it is empty."""
        if is_empty(row[col]):
            return None
        try:
            return parsing.number(row[col], self.mark)
        except CellError as error:
            # Texts among numbers may be left out; 2S6 and 1O are numbers with a typing error.
            texts = [str(c) for c in self.filled[col] if not begins_as_number(c)]
            typed = any(map(_TYPED.search, texts))
            filters = {self.header[col]: [f"!{text}" for text in dict.fromkeys(texts)]}
            out = [("filter", filters, "to leave these out")] if texts and not typed else []
            problem, remedy = error.args
            more = f", and so are {len(texts) - 1} more" * (len(texts) > 1)
            raise self.wrong(position, col, f"{problem}{more}; {remedy}", *out) from None

    def row(self, position: int, cells: list[Any]) -> _Row | None:
        """A row with its N and labels; None if it is left out."""
        if reason := self.reason_to_leave_out(cells):
            self.left_out[reason] += 1
            return None
        n = self.number(position, cells, self.n)
        filled = sum(not is_empty(cells[value.place]) for value in self.values)
        if n is None and filled:
            raise self.wrong(position, self.n, "N is missing; write it")
        try:
            model, metric, seed = (
                "/".join([parsing.label(head, cells[col]) for col, head in places])
                for places in self.labels
            )
        except KoriskError as error:
            raise self.source.error(f"{self.source.at(position)}: {error}") from None
        self.left_out["empty cell"] += len(self.values) - filled
        if n is None or not filled:
            return None
        unit = "" if self.roles["unit"] is None else str(cells[self.roles["unit"]] or "")
        return _Row(position, cells, n, model, metric, seed, unit)

    def reason_to_leave_out(self, cells: list[Any]) -> str:
        """Why a row is left out: its run did not finish, or a flag excludes it."""
        status = self.roles["status"]
        text = "" if status is None else folded(cells[status])
        if text and text not in _FINISHED:
            return f"{text[:20]} run"
        flags = self.flags.items()
        return "excluded row" * any(FLAGS.get(folded(cells[col]), 0) == flag for col, flag in flags)

    def measured(self, row: _Row) -> Iterable[Measurement]:
        """The measurements of a row: one for each column of values that is filled."""
        for column in self.values:
            if (value := self.number(row.position, row.cells, column.place)) is None:
                continue
            yield Measurement(
                row.position,
                row.n,
                value,
                column.seed or row.seed,
                column.model or row.model,
                row.metric or column.metric,
                "dB" if self.header[column.place] in self.grid.decibels else row.unit,
                (self.header[self.n], self.header[column.place]),
                folded(row.cells[column.place]),
            )

    def percent_signs(self, rows: list[_Row]) -> set[str]:
        """The columns whose values or header are in percent."""
        percent = set[str]()
        for column in self.values:
            head = self.header[column.place]
            cells = (row.cells[column.place] for row in rows)
            signs = {str(cell).endswith("%") for cell in cells if not is_empty(cell)}
            if len(signs) > 1:
                problem = f"{self.source.column} {shown(head)}: some values have percent signs"
                raise self.source.error(f"{problem}; write all with or without")
            if signs == {True} or roles.in_percent(head) or roles.in_percent(column.metric):
                percent.add(head)
        return percent

    def check_others(self, rows: list[_Row]) -> None:
        """Raise for a column that splits what would be one curve, and for remarks."""
        sizes, curves = [row.n for row in rows], [(row.model, row.metric) for row in rows]
        for col in self.rest:
            name, numeric = self.header[col], col in self.numeric
            cells = [folded(row.cells[col]) for row in rows]
            present, unused = [cell for cell in cells if cell], self.ignoring([col])
            if not present:
                continue
            if not numeric and len(present) < len(cells):
                remark = f"{len(present)} of {len(cells)} rows have a remark in {shown(name)}"
                answers: list[Answer] = [unused, ("filter", {name: ""}, "to leave these rows out")]
                if _BAD & {word for cell in present for word in words(cell)}:
                    answers.reverse()
                raise self.ask(f"{remark}, such as {shown(present[0])}", *answers)
            # A text splits a curve; a number splits an N, and does not only follow from N.
            groups = list(zip(curves, sizes, strict=True)) if numeric else curves
            splits = len({*zip(groups, cells, strict=True)}) > len({*groups})
            distinct = len({*cells})
            recurs = len({*zip(sizes, cells, strict=True)}) > distinct
            if not splits or distinct == len(cells) or (numeric and not recurs):
                continue
            spelled = {folded(row.cells[col]): str(row.cells[col]) for row in rows}
            of_split, progress = {*present} <= {*SPLITS}, _PROGRESS & {*words(name)}
            order = filter({*present}.__contains__, SPLITS) if of_split else dict.fromkeys(present)
            texts = [spelled[cell] for cell in order]  # of splits, test data first
            if progress:
                texts.sort(key=rough)
            picked = texts[-1:] if progress or len(texts) > roles.MOST_ANSWERS else texts
            single = [("filter", {name: text}, "for that alone") for text in picked]
            model = self.columns("model", [col], "if it tells models apart")
            seed = self.columns("seed", [col], "if it numbers repetitions")
            if of_split:
                answers = [*single]
            elif progress:
                answers = [*single, *model, *seed, unused]
            elif self.keys[col] in NAMED["run"] and max(map(len, texts)) <= 2:  # A, B
                answers = [*seed, *model, *single, unused]
            else:
                answers = [*model, *single, *seed, unused]
            names = in_short(map(shown, texts), roles.MOST_ANSWERS)
            raise self.ask(f"{shown(name)} has {names} in one curve", *answers)


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
    if wrong := [rows[k][0] for k, digest in enumerate(digests) if digest != stored[k]]:
        rows_changed = in_short(map(grid.source.at, wrong))
        which = "the header or the number of rows" if len(wrong) == len(rows) else rows_changed
        remedy = f"remove the {grid.source.column} {DIGEST!r} if you changed them on purpose"
        changed = f"{which}: changed after korisk wrote them; write the file again, or"
        raise grid.source.error(f"{changed} {remedy}")
    return replace(grid, header=header, rows=rows)


def _cleaned(grid: Grid) -> Grid:
    """The table with plain numbers: without marks around them, spreads, and merged cells."""
    notes = list(grid.notes)
    columns = [[row[col] for _, row in grid.rows] for col in range(len(grid.header))]
    keys = ["_".join(words(head)) for head in grid.header]
    labels = set().union(*NAMED.values())
    decibels = set[str]()
    for col, head in enumerate(grid.header):
        # Names such as "3 seeds" look like numbers with units.
        if keys[col] in labels:
            continue
        cells = [_plain(cell) for cell in columns[col]]
        pairs = _matches(_SPREAD, cells)
        if any(pairs):
            notes.append(f"spreads in {shown(head)} are not used")
        cells = [pair["mean"].strip() if pair else cells[k] for k, pair in enumerate(pairs)]
        dressed = _matches(_DRESSED, cells)
        units = {(match["unit"] or "").casefold() for match in dressed if match}
        every = all(match or is_empty(cells[k]) for k, match in enumerate(dressed))
        decibels |= {head} if every and units == {"db"} else set()
        # A unit is left out if it is the same in all cells, such as "10 patients".
        if units <= {"", "%", "k", "m"} or (every and len(units) == 1):
            cells = [*map(_undressed, dressed, cells)]
        columns[col] = cells
    # Merged cells are filled in their first row alone.
    seeds = any(key in NAMED["seed"] | NAMED["run"] for key in keys)
    for col, key in enumerate(keys):
        if key in NAMED["model"] or (seeds and names_n(key)):
            cells = columns[col]
            columns[col] = [*accumulate(cells, lambda up, cell: up if is_empty(cell) else cell)]
            notes += ["empty cells filled from above"] * (columns[col] != cells)
    positions = (position for position, _ in grid.rows)
    rows = [*zip(positions, map(list, zip(*columns, strict=True)), strict=True)]
    return replace(grid, rows=rows, notes=notes, decibels=frozenset(decibels))


def _matches(pattern: re.Pattern[str], cells: list[Any]) -> list[re.Match[str] | None]:
    """The cells that are texts of this form."""
    return [pattern.fullmatch(cell) if isinstance(cell, str) else None for cell in cells]


def _plain(cell: Any) -> Any:
    """A cell without LaTeX around its numbers."""
    return cell.replace("$", "").replace("\\pm", "±") if isinstance(cell, str) else cell


def _undressed(match: re.Match[str] | None, cell: Any) -> Any:
    """The number in a cell without the marks around it."""
    if not match:
        return cell
    unit, text = (match["unit"] or ""), match["number"]
    if unit in ("k", "K", "M"):
        return rough(text) * (1e6 if unit == "M" else 1e3)
    text = re.sub("[dD]", "e", text)
    return f"{text}%" if unit == "%" else text
