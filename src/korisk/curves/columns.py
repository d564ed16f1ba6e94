"""Find the roles of a table's columns: N, values, seeds, models.

Names decide: columns with the names below have the role of their name, unless the user assigns
another. Where names leave it open, a `Question` names the options to pass; the numbers in a column
only ever raise such a question.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple, TypedDict

from korisk._checks import one_of, require
from korisk.curves.cells import MAX_LABEL, begins_as_number, folded, is_empty, rough
from korisk.curves.formats import Answer, Grid, Question, in_short
from korisk.curves.unit import NAMES, listed_words, metric_units, words
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.texts import counted

_OF_N, _BESIDE_N, _SETS, _OTHER_SETS = listed_words("of_n", "beside_n", "sets", "other_sets")
# Roles of other columns, by their whole names.
_COLUMNS = ("seed", "run", "model", "metric", "status", "exclude", "include", "unit")
NAMED = dict(zip(_COLUMNS, listed_words(*_COLUMNS), strict=True))
FLAGS = dict.fromkeys(NAMES["true"].split(), 1) | dict.fromkeys(NAMES["false"].split(), 0)
# Errors of no particular metric, and values.
_PLAIN_ERRORS, _PLAIN = listed_words("plain_errors", "plain_values")
_PLAIN |= _PLAIN_ERRORS
_SPLITS = {0: "tested_on", 2: "validated_on", 3: "trained_on"}
_SPLIT_OF = {word: rank for rank, kind in _SPLITS.items() for word in NAMES[kind].split()}
SPLITS = [*_SPLIT_OF]  # test data first
_MEANS, _DEVIATIONS, _ASIDE, _NEVER, SUMMARIES, _BESIDE_METRICS = listed_words(
    "means", "deviations", "aside", "never", "sums", "beside_metrics"
)
_BESIDE_METRICS |= _MEANS.union(SPLITS)
_OF_SPLITS = _BESIDE_METRICS - {"relative", "rel"}
SUMMARIES |= _MEANS | _DEVIATIONS
_ROLES = ("n", "error", "seed", "model", "metric")  # that a user can name
_MEASURES, PERCENT = listed_words("measures", "percent_words")
PERCENT |= {"%"}
_TITLE = 6  # words of one that names a metric
MOST_ANSWERS = 4  # columns or values that a question lists

_PREFIX = re.compile(r"(params|metrics|config|summary|tags)[./]", re.IGNORECASE)  # of trackers
_LOGARITHM = re.compile(r"(?i)^(log10|log|ln)[ _(]*((?:n?r?mse|mae|loss|error|risk)\b[^)]*)\)?$")
_BRACKET = re.compile(r"\s*[\[(]([^\])]*)[\])]\s*$")
SEED_AT_END = re.compile(
    r"(?:(?P<rest>.+?)[\s_\-/.,:]+)?"
    r"(?:seed|run|rep|repeat|repetition|replicate|fold|trial|lauf)[\s_\-#=]*(?P<seed>[0-9]+)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?P<model>.+?)[\s_\-/.]+(?P<seed>(?P<letter>[A-Za-z]?)[0-9]+)")
_SHORT = re.compile(r"[A-Za-z]?[\s_-]?[0-9]+")  # a seed, a site, a width or an N
_SIZE = re.compile(r"(?i)(n\s*=?\s*)?([2-9]|[1-9][0-9]+)(\s+[a-z]+)?")
_SCALED = re.compile(
    r"(?i)(x|\*|\u00d7|\u00b7)\s*(1e|10)|1e[-+]?\d|10\s*\^|10[\u2070-\u207f\u00b9\u00b2\u00b3]|thousand|tsd|\bk\b"
)
_TRANSFORMED = re.compile(r"(?i)(\b|_)(log|ln|sqrt|inv\w*)(\d|\b|_)|^\s*1\s*/|\^\s*-")


class Options(TypedDict, total=False):
    """Options for tables whose names are ambiguous; every such error names one of them.

    Parameters
    ----------
    columns : dict, optional
        Our names and the table's, as {"n": "train_size"}: n, error, seed, model, metric.
    filter : dict, optional
        Rows to read, as {"set": "test"}; {"set": "!train"} leaves rows out, a list names several.
    ignore : str or sequence of str, optional
        Columns without a role.
    wide : {"seed", "model"}, optional
        What each column with an unknown name is: a seed or a model.
    """

    columns: Mapping[str, str] | None
    filter: Mapping[str, str | Sequence[str]] | None
    ignore: str | Sequence[str] | None
    wide: str | None


class Values(NamedTuple):
    """A column of values, with the labels in its name."""

    place: int
    model: str = ""
    seed: str = ""
    metric: str = ""
    split: int = 1  # 0: of test data; 2 of validation, 3 of training data
    aside: bool = False  # a standard deviation or another statistic


class Layout:
    """The roles of columns, by their indices, and notes on them.

    Roles are assigned one after the other; a column that has one is not considered again.
    """

    def __init__(self, grid: Grid, options: Options) -> None:
        self.grid, self.header, self.source, self.options = grid, grid.header, grid.source, options
        self.notes, self.ask = list[str](), grid.source.ask
        self.keys = list(map(key_of, grid.header))
        columns = checked_columns(options.get("columns"))
        self.given = {role: place(grid, theirs) for role, theirs in columns.items()}
        settled = {place(grid, name) for name in listed(options.get("ignore"))}
        settled |= {*self.given.values()}
        self.free = [col for col in range(len(self.header)) if col not in settled]
        # A column is numeric if half of its filled cells are: a few may hold a remark.
        cells = zip(*(row for _, row in grid.rows), strict=True)
        self.filled = [[cell for cell in column if not is_empty(cell)] for column in cells]
        counts = [sum(map(begins_as_number, column)) for column in self.filled]
        self.numeric = {k for k, count in enumerate(counts) if 2 * count >= len(self.filled[k]) > 0}
        # N first, because other roles depend on it; then labels; the rest may hold values.
        self.n = self.size()
        self.seeds = self.named("seed")
        if "seed" not in self.given:
            self.seeds += [col for col in self.named("run") if self.counts_runs(col)]
        if len(self.seeds) > 1:
            self.notes.append(f"each of {self.names(self.seeds)} together is a seed")
        # Trackers export runs that crashed or still run; their rows are left out.
        roles = "model", "metric", "status", "unit"
        self.roles = {role: self.one(role, self.named(role)) for role in roles}
        # Columns of flags, and the flag that leaves a row out.
        self.flags = {
            col: flag
            for role, flag in (("exclude", 1), ("include", 0))
            for col in self.named(role)
            if {*map(folded, self.filled[col])} <= {*FLAGS}
        }
        filters = (name for name in options.get("filter") or {} if not names_values(name))
        assigned = {self.n, *self.seeds, *self.roles.values(), *self.flags}
        assigned |= {place(grid, name) for name in filters}
        self.rest = [col for col in self.free if col not in assigned]
        self.values = self.values_found()
        assigned |= {value.place for value in self.values}
        self.rest = [col for col in self.rest if col not in assigned]
        self.check_factors()

    def named(self, role: str) -> list[int]:
        """The columns with a name of this role, or the one that the user assigned."""
        if role in self.given:
            return [self.given[role]]
        # A column "model" may hold the errors of one, beside those of others.
        return [
            col
            for col in self.free
            if self.keys[col] in NAMED[role]
            and not any(rough(cell) % 1 > 0 for cell in self.filled[col])
        ]

    def one(self, role: str, places: list[int]) -> int | None:
        """The only column of a role; raises if there are several."""
        if len(places) > 1:
            problem = f"{'N' if role == 'n' else role} may be in {self.names(places)}"
            raise self.ask(problem, *self.columns(role, places, "if that is right"))
        return places[0] if places else None

    def size(self) -> int:
        """The column of N; of several counts of samples, those named n or train are preferred."""
        if "n" in self.given:
            return self.given["n"]
        places = [col for col in self.free if names_n(self.keys[col])]
        places = [col for col in places if not {*words(self.header[col])} & _OTHER_SETS] or places
        sizes = [head for head in self.header if _SIZE.fullmatch(head)]
        counted_in_rows = self.numeric.intersection(places) or self.options.get("wide")
        if len(sizes) > 1 and not counted_in_rows:
            problem = f"N is in the heads of columns ({in_short(map(shown, sizes), 5)})"
            raise self.source.error(f"{problem}; write a row for each N")
        if (col := self.one("n", places)) is None:
            raise self.missing("n")
        if self.header[col] != "n":
            self.notes.append(f"N from {shown(self.header[col])}")
        return col

    def missing(self, role: str) -> KoriskError:
        """The question where no name says which column holds N or the values."""
        heads = in_short(shown(head, limit=30) for head in self.header)
        candidates = [
            col
            for col, head in enumerate(self.header)
            if col in self.free and col in self.numeric and not _TRANSFORMED.search(head)
            if role != "n"
            or all(size >= 2 and size % 1 == 0 for size in map(rough, self.filled[col]))
        ]
        problem = f"no {self.source.column} {role!r}, found {heads}; needed are n and error"
        return self.ask(problem, *self.columns(role, candidates, "if that is right"))

    def counts_runs(self, col: int) -> bool:
        """Whether a column run, fold or trial counts repetitions; names of runs do not."""
        # Names such as unet-1 and ko-1 have several stems, and 1, 2 or run1, run2 have one.
        texts = set(map(str, self.filled[col]))
        stems = {re.sub(r"\d+", "", text) for text in texts}
        return len(stems) == 1 and stems != texts

    # --- Questions ---

    def names(self, places: Iterable[int]) -> str:
        """The names of columns, for a message."""
        return in_short(shown(self.header[col]) for col in places)

    def columns(self, role: str, places: Sequence[int], when: str) -> list[Answer]:
        """The options that assign a role to one of these columns."""
        heads = [self.header[col] for col in places[:MOST_ANSWERS]]
        return [("columns", {role: head}, when) for head in heads if len(head) <= MAX_LABEL]

    def ignoring(self, places: Sequence[int], when: str = "if it says nothing") -> Answer:
        """The option that ignores columns."""
        names = [self.header[col] for col in places]
        return "ignore", names[0] if len(names) == 1 else names, when

    def unsure(self, odd: list[int], fine: list[int]) -> Question:
        """The question about columns with unknown names; the likeliest option comes first."""
        heads = [self.header[col] for col in odd]
        model = ("wide", "model", "if each column is a model")
        seed = ("wide", "seed", "if each is a seed")
        alone = self.columns("error", fine or odd, "for one alone")
        out = self.ignoring(odd, "to leave that out")
        answers = [out, model, seed, *alone] if fine else [*alone, model, seed]
        if all(_SHORT.fullmatch(re.split(r"[\s_]", head)[-1]) for head in heads):  # 1, 2 and s1, s2
            answers = [seed, model]
        return self.ask(f"{self.names(odd)} may be models, seeds, or no errors at all", *answers)

    def check_factors(self) -> None:
        """Raise if numbers may be in thousands or the like, or N may not count samples."""
        head, unit = self.header[self.n], _stated_unit(self.header[self.n])
        marked = any(str(cell).endswith("%") for cell in self.filled[self.n])
        if marked or "%" in unit or PERCENT & {*words(head)}:
            problem = f"{shown(head)} is a share of the data, and N counts samples"
            raise self.source.error(f"{problem}; write their number")
        counts = unit == head or set(words(unit)) <= _OF_N | _BESIDE_N
        for col in (self.n, *(value.place for value in self.values)):
            unit = _stated_unit(self.header[col])
            if _SCALED.search(unit) or (col == self.n and not counts):
                problem = f"{shown(self.header[col])} may count in {shown(unit)}"
                raise self.source.error(f"{problem}; write plain numbers below a head without it")

    # --- Columns of values ---

    def values_found(self) -> list[Values]:
        """The columns of values, by the user's options or by their names."""
        wide, header = self.options.get("wide"), self.header
        one_of("wide", wide or "seed", ("seed", "model"))
        if "error" in self.given:
            col = self.given["error"]
            metric = "" if self.keys[col] in _PLAIN else base(header[col])
            return [Values(col, metric=metric)]
        places = [col for col in self.rest if col in self.numeric or self.keys[col] == "error"]
        if not places:
            raise self.missing("error")
        names = {col: base(header[col]) for col in places}
        if len({*names.values()}) < len(names):  # then brackets distinguish columns: no units
            names = {col: " ".join(re.split(r"[\[\]()\s]+", header[col])).strip() for col in places}
        heads = {col: parted(col, name) for col, name in names.items()}
        if wide in ("model", "seed"):
            means = {col: names[col] for col in places if not heads[col].aside} or names
            values = [Values(col, name) for col, name in means.items()]
            if wide == "seed":
                seeds = _seeds_of_models([*means.values()])
                values = [
                    Values(col, *seeds.get(name, ("", name)), heads[col].metric)
                    for col, name in means.items()
                ]
        else:
            values = self.chosen(heads)
        # A title such as "PSNR [dB]" above the models names their metric.
        titles = (text for text in self.grid.titles if len(words(text)) <= _TITLE)
        title = next((text for text in titles if metric_units(words(text))), "")
        if title and not any(v.metric or self.keys[v.place] in _PLAIN for v in values):
            values = [value._replace(metric=title[:MAX_LABEL]) for value in values]
        return values

    def kind(self, head: Values) -> str:
        """What a column may hold, by its name."""
        key = self.keys[head.place]
        if head.aside:
            return "statistic"
        if head.metric or key in _PLAIN:
            return "plain" if key in _PLAIN else "metric"
        if key in _MEANS or key == "median":
            return "mean"
        if head.seed and not head.model:
            return "seed"
        if key in _SPLIT_OF:
            return "split"
        return "other" if _is_aside(self.header[head.place]) else "model"

    def chosen(self, heads: dict[int, Values]) -> list[Values]:
        """The columns that hold values: those named by metrics, else by seeds, else by models."""
        kinds = {col: self.kind(head) for col, head in heads.items()}
        metrics, plain, means, seeds, splits, models, rest = (
            [col for col in heads if kinds[col] == kind]
            for kind in ("metric", "plain", "mean", "seed", "split", "model", "other")
        )
        spread = [col for col in plain if self.keys[col] in _PLAIN_ERRORS]
        beside = metrics + means
        if spread and not beside:  # far smaller than what a column of another name has
            rows = [row for _, row in self.grid.rows]
            beside = [
                col
                for col in models
                if all(0 < rough(row[spread[0]]) < rough(row[col]) / 3 < 0.33 for row in rows)
            ]
        if spread and beside:
            # `dice, error`: the spread of the metric, or a metric of its own?
            problem = f"{self.names(spread)} may be the spread of {self.names(beside)}, or errors"
            out = ("ignore", self.header[spread[0]], "if it is a spread")
            raise self.ask(problem, out, *self.columns("error", spread, "if that is the metric"))
        by_metric = metrics + plain
        if seeds and by_metric:
            raise self.unsure(by_metric, seeds)
        if splits and not (by_metric or models or seeds):  # train, test
            return self.of_metrics([Values(c, split=_SPLIT_OF[self.keys[c]]) for c in splits])
        if splits and by_metric:  # train, test, gap
            by_metric = sorted(splits, key=lambda col: _SPLIT_OF[self.keys[col]]) + by_metric
            answers = self.columns("error", by_metric, "for that one alone")
            raise self.ask(f"values may be in {self.names(by_metric)}", *answers)
        if by_metric:
            return self.of_metrics([heads[c] for c in metrics] or [Values(c) for c in plain])
        models = [col for col in heads if col in models or col in splits]
        if len(means) == 1 and not seeds and not models:
            return [Values(means[0])]
        if seeds and not models and not self.seeds:
            labels = in_short(heads[col].seed for col in seeds)
            self.notes.append(f"one column for each seed ({labels})")
            return [heads[col] for col in seeds]
        # A constant is no learning curve.
        texts = {col: [*map(str, self.filled[col])] for col in models}  # a cell may be a list
        varied = [c for c in models if len({*texts[c]}) != 1 or len(texts[c]) < 2]
        models = varied or models or means + rest
        odd = models if seeds or self.roles["model"] is not None else self.odd(models)
        if odd or seeds or not models:
            fine = [*seeds, *(col for col in models if col not in odd)]
            raise self.unsure(odd or self.seeds or [*heads], fine)
        return self.of_models([heads[col] for col in models])

    def of_models(self, values: list[Values]) -> list[Values]:
        """Columns of models, told apart by their whole names if need be."""
        ends = [words(value.model) for value in values]
        if all(len(end) > 1 and end[-1] in _MEANS for end in ends):  # unet_mean
            last = re.compile(r"[\W_]*[^\W_]+[\W_]*$")
            values = [value._replace(model=last.sub("", value.model)) for value in values]
        models = in_short(shown(value.model) for value in values)
        seeds = " and seed" * any(value.seed for value in values)
        self.notes.append(f"one column for each model{seeds} ({models})")
        return values

    def odd(self, places: list[int]) -> list[int]:
        """Columns that may be something else than the errors of a model: numbers, statistics, names
        that extend another's, seeds of a model, and columns that rise where others fall.
        """
        heads = {col: self.header[col] for col in places}
        tokens_of = {col: words(head) for col, head in heads.items()}
        numbered = _seeds_of_models([h for h in heads.values() if not SEED_AT_END.fullmatch(h)])
        odd, falls = [], {}
        for col, head in heads.items():
            tokens = tokens_of[col]
            starts = (tokens[:length] for length in range(1, len(tokens)))
            longer = any(start in tokens_of.values() for start in starts)
            known = set(tokens) <= _BESIDE_METRICS | SUMMARIES | _ASIDE | _OF_N | _BESIDE_N
            if longer or head in numbered or _SHORT.fullmatch(head) or known:
                odd.append(col)
                continue
            # From the smallest to the largest N, an error falls; times and counts rise.
            cells = ((row[self.n], row[col]) for _, row in self.grid.rows)
            pairs = [(rough(n, is_count=True), rough(value)) for n, value in cells]
            pairs = [pair for pair in pairs if not math.isnan(sum(pair))]
            if len(pairs) > 1:
                falls[col] = max(pairs)[1] < min(pairs)[1]
        return odd + [col for col in falls if not falls[col] and any(falls.values())]

    def of_metrics(self, heads: list[Values]) -> list[Values]:
        """Columns named by metrics; of each metric and model, the split of a plan alone."""
        splits = dict[tuple[str, str, str], dict[int, int]]()  # columns by their split
        for head in heads:
            key = head.model, _stem(head.metric), head.seed
            splits.setdefault(key, {})[head.split] = head.place
        if all(min(columns) == 3 for columns in splits.values()):
            col = heads[0].place
            problem = f"{self.names([col])} is of the training data, not of test data"
            raise self.ask(problem, *self.columns("error", [col], "if it is not"))
        # Keras calls training errors `loss`, beside `val_loss`.
        bare = {cols[1]: cols[2] for cols in splits.values() if {*cols} == {1, 2}}
        if bare:
            tested = self.columns("error", [*bare.values()], "if so, for that one")
            answers = *tested, *self.columns("error", [*bare], "if not")
            raise self.ask(f"{self.names(bare)} may be of the training data", *answers)
        chosen = {
            head.place: head
            for head in heads
            if head.split == min(splits[head.model, _stem(head.metric), head.seed]) < 3
        }
        alone = [col for col, head in chosen.items() if not head.model and not head.seed]
        others = [col for col in chosen if col not in alone]
        seeds = bool(others) and all(chosen[c].seed and not chosen[c].model for c in others)
        if seeds and all({*words(self.header[col])} & _MEANS for col in alone):  # beside their mean
            chosen, alone = {col: chosen[col] for col in others}, []
        if (alone and others) or (self.roles["metric"] is not None and len(alone) > 1):
            single = self.columns("error", [*alone, *others], "for that one alone")
            rest = self.ignoring(alone, "to read the others")
            raise self.ask(f"values may be in {self.names([*alone, *others])}", *single, rest)
        values = list(chosen.values())
        if len(values) > 1 and all(_SHORT.fullmatch(value.model) for value in values):
            raise self.unsure([value.place for value in values], [])  # mse_1, mse_2
        if len(values) > 1 and all(v.model and {*words(v.model)} <= _MEASURES for v in values):
            single = self.columns("error", [*chosen], "for that one alone")  # MAE mm, MAE HU
            raise self.ask(f"{self.names(chosen)} may be one metric in several units", *single)
        # All words of a single column are of its metric's name.
        if len(values) == 1 and values[0].metric and not values[0].seed:
            values = [values[0]._replace(model="", metric=base(self.header[values[0].place]))]
        if any(value.model for value in values):
            return self.of_models(values)
        names = in_short((shown(value.metric) for value in values if value.metric), 5)
        labels = {value.seed for value in values if value.seed}
        self.notes += [f"values from {names}"] * bool(names)
        self.notes += [f"one column for each seed ({len(labels)})"] * bool(labels)
        return values


def filtered(grid: Grid, options: Options) -> Grid:
    """The rows that match the user's filter."""
    rows, notes = grid.rows, list(grid.notes)
    for name, values in (options.get("filter") or {}).items():
        col, texts = place(grid, name), listed(values)
        negated = all(text.startswith("!") for text in texts)
        wanted_texts = {folded(text.removeprefix("!")) for text in texts}
        keep = [(folded(row[col]) in wanted_texts) != negated for _, row in rows]
        if not any(keep):
            known = ", ".join(dict.fromkeys(shown(row[col]) for _, row in rows[:100]))
            raise grid.source.error(f"no row has {name}={', '.join(texts)}; it has {known[:200]}")
        out = counted(keep.count(False), "row")
        notes.append(f"{out} left out by {name}={', '.join(texts)}")
        rows = list(compress(rows, keep))
    return replace(grid, rows=rows, notes=notes)


def listed(names: str | Sequence[str] | None) -> list[str]:
    """One name or several as a list."""
    return [names] if isinstance(names, str) else list(names or ())


def base(head: str) -> str:
    """The name in a header cell, without a tracker's prefix and a unit in brackets."""
    name = _LOGARITHM.sub(r"\1 \2", _PREFIX.sub("", head.strip(), count=1))
    name = re.sub(r"\s*(±|\+/-).*$", "", name)
    return _BRACKET.sub("", name).strip() or head.strip()


def key_of(head: str) -> str:
    """The words of a header, by which its role is known."""
    return "_".join(words(base(head)))


def _stated_unit(head: str) -> str:
    """The brackets at the end of a header, or all of it, where a factor such as x 1e3 may stand."""
    inside = _BRACKET.search(head)
    return inside[1] if inside else head


def place(grid: Grid, name: object) -> int:
    """The index of a column by its name, ignoring case."""
    heads, column = [head.casefold() for head in grid.header], str(name).strip()
    if column.casefold() in heads:
        return heads.index(column.casefold())
    hint = did_you_mean(column[:MAX_LABEL], grid.header[:100])
    raise grid.source.error(f"no {grid.source.column} {shown(column)}{hint}")


def names_values(head: str) -> bool:
    """Whether a name is one of values: a metric, or a seed's column."""
    tokens, seed = words(head), SEED_AT_END.fullmatch(head)
    return bool(metric_units(tokens) or _PLAIN & {*tokens} or (seed and not seed["rest"]))


def in_percent(head: str) -> bool:
    """Whether a header states percent, other than in a model's name."""
    head = re.sub(r"\d+\s*%", "", head)  # 95% CI
    percent = "%" in head or not PERCENT.isdisjoint(words(head))
    return percent and (names_values(head) or base(head) != head)


def checked_columns(mapping: Any) -> Mapping[str, str]:
    """Check the keys and values of the columns that the user named."""
    mapped = {} if mapping is None else mapping
    require(isinstance(mapped, Mapping), "columns", "map our names to yours", mapped, "pass a dict")
    for key, value in mapped.items():
        one_of("a key of columns", key, _ROLES)
        rule = "be a column's name"
        require(isinstance(value, str), f"columns[{key!r}]", rule, value, "write one")
    return mapped


def names_n(key: str) -> bool:
    """Whether the words of a name are those of a number of samples."""
    tokens = set(key.split("_"))
    return (bool(tokens & _OF_N) and tokens <= _OF_N | _BESIDE_N) or key in _SETS


def _is_aside(head: str) -> bool:
    """Whether a column names another quantity than values: a time, a rank, a p-value, log N."""
    tokens = {*words(head)}
    aside = tokens & _NEVER or (tokens & _OF_N and _TRANSFORMED.search(head))
    return bool(aside) and not metric_units(words(head))


def _seeds_of_models(heads: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Models and seeds in headers such as KO_s1, or KO 1, KO 2, FC 1, FC 2; empty for others."""
    matches = [_NUMBERED.fullmatch(head) for head in heads]
    pairs = [(match["model"], match["seed"]) for match in matches if match]
    models, seeds = ({pair[k] for pair in pairs} for k in (0, 1))
    # Plain numbers are seeds only if every model has each of them; KO 1, FC 2 may be two models.
    every = len(models) * len(seeds) == len(set(pairs)) == len(heads) > len(models)
    lettered = all(match and match["letter"] for match in matches)
    return dict(zip(heads, pairs, strict=True)) if every and (lettered or len(models) > 1) else {}


def parted(col: int, name: str) -> Values:
    """Split the name of a column into seed, metric and model; what is known of it otherwise."""
    # The seed is at the end; words of metrics are taken out; what remains is the model.
    match = SEED_AT_END.fullmatch(name)
    seed, rest = (match["seed"], match["rest"] or "") if match else ("", name)
    if match and not rest:
        return Values(col, seed=name)
    tokens = re.split(r"[\s_/:]+", rest)
    flat = [(word, k) for k, token in enumerate(tokens) for word in words(token)]
    spans = metric_units([word for word, _ in flat])
    in_metric = {k for start, end in spans for k in range(start, end)}
    metric_tokens = {flat[k][1] for k in in_metric}
    if re.fullmatch(r"[qp]?\d+\s*%", name):  # a quantile
        return Values(col, aside=True)
    spreads = _DEVIATIONS | _ASIDE
    # An error that is the only metric, as in "test error", is one; "erreur type" is a spread.
    spread = {word for k, (word, _) in enumerate(flat) if word in spreads and k not in in_metric}
    of_model = {
        k
        for j, (word, k) in enumerate(flat)
        if not (j in in_metric or word in _BESIDE_METRICS)
        and not (word.isdigit() and k in metric_tokens)  # AP50
    }
    of_metric = {*range(len(tokens))} - of_model
    spoken = {word for word, of in flat if of in of_metric}
    split = min((_SPLIT_OF[word] for word in spoken & _SPLIT_OF.keys()), default=1)
    model = " ".join(token for k, token in enumerate(tokens) if k not in of_metric).strip(" -")
    if not metric_tokens & of_metric:
        return Values(col, model if spread else rest, seed, aside=bool(spread))
    metric = "_".join(token for k, token in enumerate(tokens) if k in of_metric) if model else rest
    return Values(col, model, seed, metric, split, bool(spread))


def _stem(metric: str) -> str:
    """A metric without its split."""
    return " ".join(word for word in words(metric) if word not in _OF_SPLITS)
