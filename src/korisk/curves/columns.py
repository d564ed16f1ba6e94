"""Find the roles of a table's columns: N, errors, seeds, models.

Columns with the names below have the role of their name, unless the user assigns another. Where
columns may be models, seeds or something else, the error names the options to pass.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple, TypedDict

from korisk._checks import one_of, require
from korisk.curves.cells import MAX_LABEL, begins_as_number, folded, is_empty, rough
from korisk.curves.formats import Grid
from korisk.curves.unit import suggested_unit, vocabulary, words
from korisk.errors import Argument, KoriskError, shown

# The name of the column with N has at least one word of the first list, and all in both.
_OF_N = vocabulary(
    "n samples size sizes images examples scans slices volumes cases subjects patients anzahl "
    "bilder stichproben umfang trainingsdaten trainingsbilder échantillons echantillons exemples "
    "muestras"
)
_BESIDE_N = vocabulary(
    "sample num number no nr of the train training set data dataset labelled labeled der daten "
    "trainings nombre d de número numero"
)
# Roles of other columns, by their whole names.
NAMED = {
    "seed": {"seed", "random_seed", "random_state", "graine"},
    "run": vocabulary("run fold trial rep repeat repetition replicate lauf wiederholung"),
    "model": vocabulary("model method network net arch architecture algorithm modell netz")
    | {"model_name", "verfahren"},
    "metric": vocabulary("metric measure metrik kennzahl"),
    "status": {"status", "state"},
    "exclude": vocabulary("exclude excluded outlier ignore skip diverged failed"),
    "include": vocabulary("include included valid keep use ok"),
    "unit": {"unit"},
}
FLAGS = dict.fromkeys(vocabulary("true yes ja 1 x wahr y"), 1) | dict.fromkeys(
    vocabulary("false no nein 0 falsch n"), 0
)
_NAMES_OF_ERRORS = vocabulary("error fehler erreur errore")  # but of no particular metric
_ERROR = _NAMES_OF_ERRORS | {"value", "wert"}
ERROR_NAMES = _NAMES_OF_ERRORS | vocabulary(
    "errors err mse rmse nmse nrmse mae mape loss risk nll ce bce hd95 wer cer distance deviation"
)
_VALUES = ERROR_NAMES | vocabulary("value wert score scores")
_TRAINED_ON, _VALIDATED_ON = {"train", "training"}, {"val", "valid", "validation", "dev"}
_BESIDE_METRICS = _TRAINED_ON | _VALIDATED_ON
_BESIDE_METRICS |= vocabulary(
    "test eval holdout final best rel relative normalised normalized neg drop gap decrease squared "
    "absolute root rate top1 top5 image log log10 ln db m 1"
)
_PERCENT = vocabulary("percent pct percentage prozent pourcent pourcentage")
_MEANS = vocabulary("mean average avg mittelwert mittel")
_DEVIATIONS = vocabulary("std stdev stddev sd streuung standardabweichung deviation")
SUMMARIES = _MEANS | _DEVIATIONS | vocabulary("median total sum summe sem min max")
# Headers made of these words alone name neither a model nor a seed.
_STATISTICS = SUMMARIES | _BESIDE_METRICS | _OF_N | _BESIDE_N
_STATISTICS |= vocabulary(
    "se stderr var variance lower upper lo hi ci iqr count ratio difference diff delta gain rank "
    "id index p"
)
_ROLES = ("n", "error", "seed", "model", "metric", "deviation")  # that a user can name

_PREFIX = re.compile(r"(params|metrics|config|summary|tags)[./]", re.IGNORECASE)  # of trackers
_LOGARITHM = re.compile(r"(?i)^(log10|log|ln)[ _(]*((?:n?r?mse|mae|loss|error|risk)\b[^)]*)\)?$")
_BRACKET = re.compile(r"\s*[\[(]([^\])]*)[\])]\s*$")
_SEED_AT_END = re.compile(
    r"(?:(?P<rest>.+?)[\s_\-/.,:]+)?"
    r"(?:seed|run|rep|repeat|repetition|replicate|fold|trial|lauf)[\s_\-#]*(?P<seed>[0-9]+)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?P<model>.+?)[\s_\-/.]+(?P<seed>(?P<letter>[A-Za-z]?)[0-9]+)")
_SHORT = re.compile(r"[A-Za-z]?[\s_-]?[0-9]+")  # a seed, a site, a width or an N
_SIZE = re.compile(r"(?i)(n\s*=?\s*)?[0-9]+")
_SCALED = re.compile(
    r"(?i)(x|\*|\u00d7|\u00b7)\s*(1e|10)|1e[-+]?\d|10\s*\^|10[\u2070-\u207f\u00b9\u00b2\u00b3]|thousand|tsd|\bk\b"
)
_THOUSANDS = re.compile(
    r"(?i)1e[-+]?0*3(?!\d)|10\s*\^[\s({]*[-\u2212]?3(?!\d)|10\u207b?\u00b3|1[,.\s]?000(?!\d)|thousand|tsd|\bk\b"
)
_LOG_N = re.compile(r"(?i)(\b|_)(log|ln)(\d|\b|_)")


class Options(TypedDict, total=False):
    """Options for tables whose names are ambiguous; every such error names one of them.

    Parameters
    ----------
    columns : dict, optional
        Our names and the table's, as {"n": "train_size"}: n, error, seed, model, metric, deviation.
    filter : dict, optional
        Rows to read, as {"set": "test"}; {"set": "!train"} leaves rows out, a list names several.
    ignore : str or sequence of str, optional
        Columns without a role.
    last : str, optional
        A column such as epoch: of rows that differ only in it, the last is read.
    best : str, optional
        A column such as epoch: of rows that differ only in it, the one with the best value is read.
    scale : dict, optional
        Factors for n and error, as {"n": 1000} where a table counts in thousands.
    wide : {"seed", "model", "n"}, optional
        What each column with an unknown name is: a seed, a model, or one N.
    seeds : int, optional
        Number of seeds behind each mean, for tables with means and standard deviations.
    """

    columns: Mapping[str, str] | None
    filter: Mapping[str, str | Sequence[str]] | None
    ignore: str | Sequence[str] | None
    last: str | None
    best: str | None
    scale: Mapping[str, float] | None
    wide: str | None
    seeds: int | None


Answer = tuple[str, object, str]  # an option, its value, and when it is right


class Values(NamedTuple):
    """A column of values, with the labels in its name."""

    place: int
    n: float | None = None  # in a table with one column for each N
    model: str = ""
    metric: str = ""
    seed: str = ""
    deviation: int | None = None  # the column of its standard deviations


class Layout:
    """The roles of columns, by their indices, and notes on them.

    Roles are assigned one after the other; a column that has one is not considered again.
    """

    def __init__(self, grid: Grid, options: Options) -> None:
        self.grid, self.header, self.options = grid, grid.header, options
        self.notes: list[str] = []
        self.keys = ["_".join(words(base(head))) for head in grid.header]
        self.scale = _checked("scale", options.get("scale"), _ROLES[:2])
        columns = _checked("columns", options.get("columns"), _ROLES)
        self.given = {role: place(grid, theirs, role) for role, theirs in columns.items()}
        ignored = {place(grid, name) for name in _listed(options.get("ignore"))}
        self.free = [
            col for col in range(len(self.header)) if col not in ignored | {*self.given.values()}
        ]
        # A column is numeric if half of its filled cells are: a few may hold a remark.
        cells = zip(*(row for _, row in grid.rows), strict=True)
        self.filled = [[cell for cell in column if not is_empty(cell)] for column in cells]
        shares = [(sum(map(begins_as_number, cells)), len(cells)) for cells in self.filled]
        self.numeric = {col for col, (count, total) in enumerate(shares) if 2 * count >= total > 0}
        # N first, because other roles depend on it; then labels; the rest may hold values.
        self.n = self.one("n", [col for col in self.free if _names_n(self.keys[col])])
        self.seeds = [col for col in self.named("seed") if col != self.n]
        if "seed" not in self.given:
            self.seeds += [col for col in self.named("run") if self.counts_runs(col)]
        if len(self.seeds) > 1:
            self.notes.append(f"each of {self.names(self.seeds)} together is a seed")
        self.roles = {role: self.one(role, self.named(role)) for role in ("model", "metric")}
        # Trackers export runs that crashed or still run; their rows are left out.
        self.roles["status"] = self.one("status", self.named("status"))
        self.roles["unit"] = next(iter(self.named("unit")), None)
        for role in ("exclude", "include"):
            candidates, filled = self.named(role), self.filled
            flags = [col for col in candidates if {*map(folded, filled[col])} <= {*FLAGS}]
            self.roles[role] = self.one(role, flags)
        order = options.get("last") or options.get("best")
        self.order = place(grid, order) if order else None
        assigned = {self.n, self.order, *self.seeds, *self.roles.values()}
        assigned |= {place(grid, name) for name in options.get("filter") or ()}
        self.rest = [col for col in self.free if col not in assigned]
        self.values = self.values_found()
        used = {value.place for value in self.values} | {value.deviation for value in self.values}
        self.rest = [col for col in self.rest if col not in used]
        self.check_scales()

    def named(self, role: str) -> list[int]:
        """The columns with a name of this role, or the one that the user assigned."""
        if role in self.given:
            return [self.given[role]]
        return [col for col in self.free if self.keys[col] in NAMED[role]]

    def one(self, role: str, places: list[int]) -> int | None:
        """The only column of a role; raises if there are several."""
        if role in self.given:
            return self.given[role]
        if role == "n":
            places = [col for col in places if col in self.numeric] or places
            # Of several counts of samples, those named n or train are preferred.
            plain = {"n", "train"}
            places = [col for col in places if plain & set(words(self.header[col]))] or places
        if len(places) > 1:
            problem = f"{'N' if role == 'n' else role} may be in {self.names(places)}"
            raise self.ask(problem, self.column(role, places[0], "if that is right"))
        return places[0] if places else None

    def counts_runs(self, col: int) -> bool:
        """Whether a column run, fold or trial counts repetitions; names of runs do not."""
        # Names such as unet-1 and ko-1 have several stems, and 1, 2 or run1, run2 have one.
        texts = set(map(str, self.filled[col]))
        stems = {re.sub(r"\d+", "", text) for text in texts}
        return col != self.n and (col in self.numeric or (len(stems) == 1 and stems != texts))

    def in_percent(self, col: int) -> bool:
        """Whether the header of a column states percent, other than in a model's name."""
        head = self.header[col]
        percent = "%" in head or not _PERCENT.isdisjoint(words(head))
        return percent and (_names_metric(head) or base(head) != head)

    # --- Errors for ambiguous tables ---

    def names(self, places: Iterable[int]) -> str:
        """The names of columns, for a message."""
        return in_short([shown(self.header[col]) for col in places])

    def column(self, role: str, col: int, when: str) -> Answer:
        """The option that assigns a role to a column."""
        return "columns", {role: short(self.header[col])}, when

    def ignoring(self, places: Sequence[int], when: str) -> Answer:
        """The option that ignores columns."""
        names = [self.header[col] for col in places]
        return "ignore", short(names[0]) if len(names) == 1 else names, when

    def ask(self, problem: str, *answers: Answer) -> KoriskError:
        """The error for an ambiguous table, with the options that resolve it."""
        parts: list[str | Argument] = []
        for k, (name, value, when) in enumerate(answers):
            # "a", "a, or b", "a, b, or c"
            between = "" if k == 0 else ", or " if k == len(answers) - 1 else ", "
            parts += [between, Argument(name, value), f" {when}"]
        return self.grid.source.error(f"{problem}; pass ", *parts)

    def unsure(self, odd: list[int], fine: list[int]) -> KoriskError:
        """The error for columns with unknown names; the likeliest option comes first."""
        heads = [self.header[col] for col in odd]
        model = ("wide", "model", "if each column is a model")
        seed, size = ("wide", "seed", "if each is a seed"), ("wide", "n", "if each is an N")
        alone = self.column("error", (fine or odd)[0], "for one alone")
        out = self.ignoring(odd, "to leave that out")
        answers = [out, model, seed, alone] if fine else [alone, model, seed, out]
        if all(map(_SHORT.fullmatch, heads)):  # 1, 2, 3 and s1, s2, s3
            answers = [seed, model, size, out]
        elif not fine and _seeds_of_models(heads):
            answers = [("wide", "seed", "if each is a seed of a model"), model, out]
        return self.ask(f"{self.names(odd)} may be models, seeds, or no errors at all", *answers)

    def check_scales(self) -> None:
        """Raise if numbers may be in thousands or the like, or N may not count samples."""
        if self.n is not None and "n" not in self.scale:
            head, unit = self.header[self.n], _stated_unit(self.header[self.n])
            if _LOG_N.search(head):
                raise self.grid.source.error(f"{shown(head)} has logarithms; add a column n with N")
            bracket = unit if unit != head else "n"
            if not set(words(bracket) or "%") <= _OF_N | _BESIDE_N or _SCALED.search(unit):
                raise self.ask_scale("n", head)
        means = [value.place for value in self.values]
        spreads = [v.deviation for v in self.values if v.deviation is not None]
        factors = {col: _stated_factor(self.header[col]) for col in (*means, *spreads)}
        scaled = [col for col, factor in factors.items() if factor]
        # Deviations without a factor have that of the means.
        distinct = {factors[col] for col in (*means, *scaled)}
        # One factor would be wrong for columns in different units.
        if len(distinct) > 1 and self.scale.get("error") != 1:
            odd = [col for col in scaled if factors[col] != factors[means[0]]] or scaled
            raise self.ask(
                f"{self.names(odd)} may count in other units than the other columns",
                ("scale", {"error": 1}, "if all are plain numbers"),
                self.ignoring(odd, "to leave that out"),
            )
        if scaled and "error" not in self.scale:
            raise self.ask_scale("error", self.header[scaled[0]])

    def ask_scale(self, role: str, head: str) -> KoriskError:
        """The error for a column whose header states a unit; the likeliest option comes first."""
        unit = _stated_unit(head)
        # Any other factor than a thousand is left to the user: a wrong one would be taken.
        thousands = 1000 if role == "n" else 0.001
        factor = thousands if _THOUSANDS.search(unit) else ...
        scaled: Answer = ("scale", {role: factor}, "to multiply them")
        plain: Answer = ("scale", {role: 1}, "if they are plain numbers")
        answers = (scaled, plain) if _SCALED.search(unit) else (plain, scaled)
        return self.ask(f"{shown(head)} may count in {shown(unit)}", *answers)

    # --- Columns of values ---

    def values_found(self) -> list[Values]:
        """The columns of values, by the user's options or by their names."""
        wide, header = self.options.get("wide"), self.header
        if wide is not None:
            one_of("wide", wide, ("seed", "model", "n"))
        # Without a column of N, several headers that are numbers are taken as N.
        sizes = [col for col in self.rest if _SIZE.fullmatch(header[col])]
        if wide == "n" or (self.n is None and len(sizes) > 1 and not wide):
            return self.by_size(sizes)
        if self.n is None:
            raise missing(self.grid, "n", "n")
        if header[self.n] != "n":
            self.notes.append(f"N from {shown(header[self.n])}")
        if "error" in self.given:
            col = self.given["error"]
            metric = "" if self.keys[col] in _ERROR else base(header[col])
            return [Values(col, metric=metric, deviation=self.given.get("deviation"))]
        places = [col for col in self.rest if col in self.numeric or self.keys[col] == "error"]
        if not places:
            if len(header) < 2 or any(self.filled[col] for col in self.rest):
                raise missing(self.grid, "error", "error")
            raise self.grid.source.error("holds no measurements; add rows with n and error")
        names = {col: base(header[col]) for col in places}
        if len({*names.values()}) < len(names):  # then brackets distinguish columns: no units
            names = {col: re.sub(r"[\[\]()]+", " ", header[col]).strip() for col in places}
        heads = {col: _parted(col, name) for col, name in names.items()}
        # A column of standard deviations belongs to the means with the same words in its header.
        spreads = [col for col in places if set(words(header[col])) & _DEVIATIONS]
        means = [col for col in places if col not in spreads] or places
        partner = {_plain(heads[col]): col for col in spreads}
        if wide == "model":
            values = [Values(col, model=names[col]) for col in means]
        elif wide == "seed":
            parted = _seeds_of_models([names[col] for col in means])
            pairs = ((col, parted.get(names[col], ("", names[col]))) for col in means)
            values = [Values(col, model=model, seed=seed) for col, (model, seed) in pairs]
        else:
            values = self.chosen({col: heads[col] for col in means}, bool(spreads))
        return [v._replace(deviation=partner.get(_plain(heads[v.place]))) for v in values]

    def chosen(self, heads: dict[int, Values], spread: bool) -> list[Values]:
        """The columns that hold errors: those named by metrics, else by seeds, else by models."""
        # In order of certainty: headers that name an error or a metric leave no doubt; columns of
        # seeds need no other columns beside them; only then are unknown names models.
        means = _MEANS if spread or len(heads) == 1 else set()
        plain = [col for col in heads if self.keys[col] in _ERROR | means]
        pure = [col for col in plain if self.keys[col] == "error"]
        metrics = [col for col, head in heads.items() if head.metric and not head.model]
        if pure := pure or metrics or plain:
            return self.of_metrics(heads, pure, plain)
        seeds = [col for col, head in heads.items() if head.seed and not head.model]
        others = [col for col in heads if col not in seeds]
        if seeds and not others and not self.seeds:
            labels = in_short([heads[col].seed for col in seeds])
            self.notes.append(f"one column for each seed ({labels})")
            return [heads[col] for col in seeds]
        texts = {col: list(map(str, self.filled[col])) for col in others}  # a cell may be a list
        varied = [col for col in others if len(set(texts[col])) != 1 or len(texts[col]) < 2]
        others = varied or others  # a constant is no learning curve
        odd = others if seeds or self.roles["model"] is not None else self.odd(others)
        if odd or seeds:
            fine = [*seeds, *(col for col in others if col not in odd)]
            raise self.unsure(odd or self.seeds, fine)
        repeated = all(heads[col].seed for col in others) and not self.seeds
        # A number at the end is a seed if every column has one, and else part of a model's name.
        values = [heads[col]._replace(seed=heads[col].seed * repeated) for col in others]
        if not repeated and not all(heads[col].metric for col in others):
            values = [Values(col, model=base(self.header[col])) for col in others]
        if len({value[1:5] for value in values}) < len(values):
            values = [Values(col, model=self.header[col].strip()) for col in others]
        models = in_short([shown(value.model) for value in values])
        self.notes.append(f"one column for each model{' and seed' * repeated} ({models})")
        return values

    def odd(self, places: list[int]) -> list[int]:
        """Columns that may be something else than the errors of a model.

        Numbers, statistics, names that extend another's (FC and FC CI95), seeds of a model, and
        columns that rise where others fall, such as times.
        """
        tokens_of = {col: words(self.header[col]) for col in places}
        numbered = _seeds_of_models(
            [head for col in places if not _SEED_AT_END.fullmatch(head := self.header[col])]
        )
        odd, falls = [], {}
        for col, tokens in tokens_of.items():
            head = self.header[col]
            starts = (tokens[:length] for length in range(1, len(tokens)))
            longer = any(start in tokens_of.values() for start in starts)
            if longer or head in numbered or _SHORT.fullmatch(head) or set(tokens) <= _STATISTICS:
                odd.append(col)
                continue
            # From the smallest to the largest N, an error falls; times and counts rise.
            pairs = [(rough(row[self.n or 0]), rough(row[col])) for _, row in self.grid.rows]
            pairs = [pair for pair in pairs if not math.isnan(sum(pair))]
            if len(pairs) > 1:
                falls[col] = max(pairs)[1] < min(pairs)[1]
        return odd + [col for col in falls if not falls[col] and any(falls.values())]

    def of_metrics(
        self, heads: dict[int, Values], pure: list[int], plain: list[int]
    ) -> list[Values]:
        """Columns named by metrics, without those of training and validation data."""
        others = [col for col, head in heads.items() if head.seed or (head.model and head.metric)]
        others = [col for col in others if col not in pure]
        # Test errors, if there are any; else validation errors; training errors are no pilot.
        for unwanted in (_TRAINED_ON, _VALIDATED_ON):
            pure = [col for col in pure if not unwanted & {*words(heads[col].metric)}] or pure
        pure.sort(key=lambda col: "test" not in words(self.header[col]))  # which a question names
        if all(_TRAINED_ON & {*words(heads[col].metric)} for col in pure):
            problem = f"{self.names(pure[:1])} is of the training data, not of test data"
            raise self.ask(problem, self.column("error", pure[0], "if it is not"))
        if others or (self.roles["metric"] is not None and len(pure) > 1):
            alone = self.column("error", pure[0], "for that one alone")
            rest = [self.ignoring(pure, "to read the others")] if others else []
            raise self.ask(f"values may be in {self.names([*pure, *others])}", alone, *rest)
        if self.seeds and any(heads[col].seed for col in pure):
            raise self.unsure(self.seeds, pure)
        values = [Values(col, seed=heads[col].seed) if col in plain else heads[col] for col in pure]
        metrics = dict.fromkeys(shown(value.metric) for value in values if value.metric)
        seeds = {value.seed for value in values if value.seed}
        self.notes += [f"values from {', '.join([*metrics][:5])}"] if metrics else []
        self.notes += [f"one column for each seed ({len(seeds)})"] if seeds else []
        return values

    def by_size(self, sizes: list[int]) -> list[Values]:
        """The columns of a table with one column for each N, and a row for each seed or model."""
        others = [col for col in (*self.rest, self.n) if col not in (None, *sizes, *self.seeds)]
        self.n = None
        if not sizes:
            raise missing(self.grid, "n", "n")
        self.notes.append("one column for each N")
        for col in others if self.roles["model"] is None and not self.seeds else []:
            assert col is not None
            labels = [_SEED_AT_END.fullmatch(str(cell)) for cell in self.filled[col]]
            seeded = all(match and not match["rest"] for match in labels)
            if len(others) == 1 and col not in self.numeric:  # the only other column names the rows
                self.seeds += [col] * seeded
                self.roles["model"] = None if seeded else col
                role = "seeds" if seeded else "models"
                self.notes.append(f"{role} from {shown(self.header[col])}")
                self.rest = [rest_col for rest_col in self.rest if rest_col != col]
            elif len(self.grid.rows) > 1:
                problem = f"columns are named after N, and {shown(self.header[col])} names the rows"
                role = "seed" if col in self.numeric else "model"
                raise self.ask(problem, self.column(role, col, f"if it has {role}s"))
        return [Values(col, n=float(re.sub(r"\D", "", self.header[col]))) for col in sizes]


def filtered(grid: Grid, options: Options) -> Grid:
    """The rows that match the user's filter."""
    rows, notes = grid.rows, list(grid.notes)
    for name, values in (options.get("filter") or {}).items():
        col, texts = place(grid, name), _listed(values)
        negated = all(text.startswith("!") for text in texts)
        wanted_texts = {folded(text.removeprefix("!")) for text in texts}
        matching = [row for row in rows if (folded(row[1][col]) in wanted_texts) != negated]
        if not matching:
            known = ", ".join(dict.fromkeys(shown(row[col]) for _, row in rows[:100]))
            raise grid.source.error(f"no row has {name}={', '.join(texts)}; it has {known[:200]}")
        out = len(rows) - len(matching)
        notes.append(f"{out} row{'s' * (out != 1)} left out by {name}={', '.join(texts)}")
        rows = matching
    return replace(grid, rows=rows, notes=notes)


def in_short(texts: Sequence[str], most: int = 10) -> str:
    """Join distinct texts for a message, at most `most` of them."""
    distinct = list(dict.fromkeys(texts))
    return ", ".join(distinct[:most]) + ", ..." * bool(distinct[most:])


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def short(head: str) -> str:
    """A name for a message, "..." if it is too long."""
    return head if len(head) <= MAX_LABEL else "..."


def base(head: str) -> str:
    """The name in a header cell, without a tracker's prefix and a unit in brackets."""
    name = _LOGARITHM.sub(r"\1 \2", _PREFIX.sub("", head.strip(), count=1))
    return _BRACKET.sub("", name).strip() or head.strip()


def _stated_unit(head: str) -> str:
    """The brackets at the end of a header, or all of it, where a factor such as x 1e3 may stand."""
    inside = _BRACKET.search(head)
    return inside[1] if inside else head


def _stated_factor(head: str) -> str:
    """The factor in a header, such as x1e3; empty without one."""
    unit = _stated_unit(head)
    factor = _SCALED.search(unit)
    return re.sub(r"\s+", "", unit[factor.start() :].casefold()) if factor else ""


def place(grid: Grid, name: object, role: str = "") -> int:
    """The index of a column by its name, ignoring case."""
    heads, column = [head.casefold() for head in grid.header], str(name).strip()
    if column.casefold() not in heads:
        raise missing(grid, role, column)
    return heads.index(column.casefold())


def missing(grid: Grid, role: str, column_name: str) -> KoriskError:
    """The error for a missing column, with the closest name."""
    names = in_short([shown(column, limit=30) for column in grid.header])
    known = {head.casefold(): head for head in grid.header[:100] if len(head) <= MAX_LABEL}
    near = difflib.get_close_matches(column_name.casefold(), known, n=1)
    similar = [known[head] for head in near]
    problem = f"no {grid.source.column} {shown(column_name)}, found {names}; "
    problem += f"did you mean {shown(similar[0])}? " if similar else ""
    if not role:
        return grid.source.error(f"{problem}name one of these")
    needed = "needed are n and error, or n and one column per seed or model: pass "
    example = Argument("columns", {role: similar[0] if similar else "..."})
    return grid.source.error(f"{problem}{needed}", example)


def _names_metric(token: str) -> bool:
    return any(suggested_unit(word) is not None or word in _VALUES for word in words(token))


def _checked(name: str, mapping: Any, known: Sequence[str]) -> Mapping[str, Any]:
    """Check the keys and values of a mapping that the user gave."""
    mapped = {} if mapping is None else mapping
    require(isinstance(mapped, Mapping), name, "map our names to yours", mapped, "pass a dict")
    kind, rule = (str, "be a column's name") if name == "columns" else (Real, "be a number")
    for key, value in mapped.items():
        one_of(f"a key of {name}", key, tuple(known))
        require(isinstance(value, kind), f"{name}[{key!r}]", rule, value, "write one")
    return mapped


def _names_n(key: str) -> bool:
    parts = set(key.split("_"))
    return bool(parts & _OF_N) and parts <= _OF_N | _BESIDE_N


def _seeds_of_models(heads: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Models and seeds in headers such as KO_s1, or KO 1, KO 2, FC 1, FC 2; empty for others."""
    matches = [_NUMBERED.fullmatch(head) for head in heads]
    pairs = [(match["model"], match["seed"]) for match in matches if match]
    models, seeds = ({pair[k] for pair in pairs} for k in (0, 1))
    # Plain numbers are seeds only if every model has each of them; KO 1, FC 2 may be two models.
    every = len(models) * len(seeds) == len(set(pairs)) == len(heads) > len(models)
    lettered = all(match and match["letter"] for match in matches)
    return dict(zip(heads, pairs, strict=True)) if every and (lettered or len(models) > 1) else {}


def _parted(col: int, name: str) -> Values:
    """Split the name of a column into seed, metric and model."""
    # The seed is at the end; words of metrics are taken out; what remains is the model.
    match = _SEED_AT_END.fullmatch(name)
    seed, rest = (match["seed"], match["rest"] or "") if match else ("", name)
    if match and not rest:
        return Values(col, seed=name)
    tokens = re.split(r"[\s_/:]+", rest)
    known = _VALUES | _BESIDE_METRICS | _MEANS | _PERCENT
    if not _PERCENT.isdisjoint(words(rest)):
        known |= {"in"}  # "error in percent"
    metric_words = [
        token
        for token in tokens
        if words(token) and all(word in known or suggested_unit(word) for word in words(token))
    ]
    if not any(map(_names_metric, metric_words)):
        return Values(col, model=rest, seed=seed)
    model = " ".join(token for token in tokens if token not in metric_words).strip(" -")
    return Values(col, model=model, metric="_".join(metric_words) if model else rest, seed=seed)


def _plain(head: Values) -> str:
    """The words that a column of means shares with that of its standard deviations."""
    tokens = words(f"{head.model} {head.metric} {head.seed}")
    return " ".join(word for word in tokens if word not in _MEANS | _DEVIATIONS | _ERROR)
