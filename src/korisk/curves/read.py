"""What a table means: which column is N, which are errors, and of which seed, model and metric.

A table is *long*, one measurement in a row (n, error and maybe seed, model, metric), or *wide*, one
seed, model or N in a column. Columns of the names below mean what they say. Any other column either
tells nothing apart and is named as not used, or it splits what would be one curve: then it is asked
about, whatever its name, with the options that answer. `Measurements.read_as` notes how a table was
read.
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Real
from statistics import NormalDist
from typing import Any, NamedTuple, TypedDict, TypeGuard

from korisk.curves.formats import Grid, Source, grid_of_records
from korisk.curves.unit import UNITS, suggested_unit, vocabulary, words
from korisk.errors import Argument, KoriskError, Message, did_you_mean, invalid, shown
from korisk.store.cells import row_digests

DIGEST = "digest"  # the column of checksums, in tables that korisk wrote
MAX_LABEL = 80
MAX_PROBLEMS = 10  # that one message names

_ROLES = ("n", "error", "seed", "model", "metric", "deviation")
# Words of which the name of the column with N consists, and those of which it has at least one.
_OF_N = vocabulary(
    "n samples size sizes images examples scans slices volumes cases subjects patients anzahl "
    "bilder stichproben umfang trainingsdaten trainingsbilder échantillons echantillons exemples "
    "muestras"
)
_BESIDE_N = vocabulary(
    "sample num number no nr of the train training set data dataset labelled labeled der daten "
    "trainings nombre d de número numero"
)
_NAMED = {
    "seed": {"seed", "random_seed", "random_state", "graine"},
    "run": vocabulary("run fold trial rep repeat repetition replicate lauf wiederholung"),
    "model": vocabulary("model method network net arch architecture algorithm modell netz")
    | {"model_name", "verfahren"},
    "metric": {"metric", "measure", "metrik", "kennzahl"},
    "status": {"status", "state"},
    "exclude": {"exclude", "excluded", "outlier", "ignore", "skip", "diverged", "failed"},
    "include": {"include", "included", "valid", "keep", "use", "ok"},
}
_FINISHED = {"finished", "done", "completed", "complete", "success", "succeeded", "ok"}
_FLAGS = {"true": 1, "yes": 1, "ja": 1, "1": 1, "x": 1, "false": 0, "no": 0, "nein": 0, "0": 0}
_FLAGS |= {"wahr": 1, "falsch": 0, "y": 1, "n": 0}
_ERROR = {"error", "fehler", "erreur", "errore", "value", "wert"}  # which names no metric
ERROR_NAMES = (_ERROR - {"value", "wert"}) | vocabulary(
    "errors err mse rmse nmse nrmse mae mape loss risk nll ce bce hd95 wer cer distance deviation"
)
_VALUES = ERROR_NAMES | {"value", "wert", "score", "scores"}
_TRAINED_ON, _VALIDATED_ON = {"train", "training"}, {"val", "valid", "validation", "dev"}
_BESIDE_METRICS = vocabulary(
    "test eval holdout final best rel relative normalised normalized neg drop gap decrease squared "
    "absolute root rate top1 top5 image log log10 ln db m 1"
)
_BESIDE_METRICS |= _TRAINED_ON | _VALIDATED_ON
_MEANS = {"mean", "average", "avg", "mittelwert", "mittel"}
_DEVIATIONS = vocabulary("std stdev stddev sd streuung standardabweichung deviation")
_SUMMARIES = _MEANS | _DEVIATIONS | {"median", "total", "sum", "summe", "sem", "min", "max"}
# Heads of these words alone name neither a model nor a seed.
_STATISTICS = _BESIDE_METRICS | _MEANS | _DEVIATIONS | _OF_N | _BESIDE_N
_STATISTICS |= vocabulary(
    "sem se stderr var variance lower upper lo hi ci iqr min max median count sum total ratio "
    "difference diff delta gain rank id index p"
)
_EMPTY = {"-", "--", "–", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "#div/0!", "?"}  # noqa: RUF001
_PREFIX = re.compile(r"(params|metrics|config|summary|tags)[./]", re.IGNORECASE)
_LOGARITHM = re.compile(r"(?i)^(log10|log|ln)[ _(]*((?:n?r?mse|mae|loss|error|risk)\b[^)]*)\)?$")
_BRACKET = re.compile(r"\s*[\[(]([^\])]*)[\])]\s*$")
_SEED_AT_END = re.compile(
    r"(?:(?P<rest>.+?)[\s_\-/.,:]+)?"
    r"(?:seed|run|rep|repeat|repetition|replicate|fold|trial|lauf)[\s_\-#]*(?P<seed>[0-9]+)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d+:\d\d(:\d\d.*)?")
_SCALED = re.compile(
    r"(?i)(x|\*|\u00d7|\u00b7)\s*(1e|10)|1e[-+]?\d|10\s*\^|10[\u2070-\u207f\u00b9\u00b2\u00b3]|thousand|tsd|\bk\b"
)
_SPREAD = re.compile(r"(?P<mean>[^±(]+?)\s*(?:(?:±|\+/-|\+-)\s*|(?=\([\d.,]+\)$))(?P<spread>.+)")
_NUMBERED = re.compile(r"(?P<model>.+?)[\s_\-/.]+(?P<seed>(?P<letter>[A-Za-z]?)[0-9]+)")
# Numbers as people write them.
_SPACES = re.compile(r"(?<=\d)[\u00a0\u202f\u2009 '’_](?=\d{3}(?:\D|$))")  # noqa: RUF001
_PLAIN = {
    ".": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"),
    ",": re.compile(r"[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?"),
}
_GROUPS = {  # thousands between the other mark
    ".": re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
_MARKED = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)\s*[^\d\s:-]{0,8}")  # such as 0.10*
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")  # 1,024 and 1.024: which is it?


class Options(TypedDict, total=False):
    """How a table is read where its names do not say it; every question names one of these.

    Parameters
    ----------
    columns : dict, optional
        Our names and the table's, as {"n": "train_size"}: n, error, seed, model, metric, deviation.
    filter : dict, optional
        Rows to read, as {"set": "test"}; {"set": "!train"} leaves rows out, a list names several.
    ignore : str or sequence of str, optional
        Columns that tell nothing apart.
    last : str, optional
        A column such as epoch: of rows that differ only in it, the last is read.
    best : str, optional
        A column such as epoch: of rows that differ only in it, the one with the best value is read.
    scale : dict, optional
        Factors for n and error, as {"n": 1000} where a table counts in thousands.
    wide : {"seed", "model", "n"}, optional
        What each column is that is named after nothing known: a seed, a model, or one N.
    seeds : int, optional
        How many seeds are behind each mean, where a table has means and standard deviations.
    """

    columns: Mapping[str, str] | None
    filter: Mapping[str, str | Sequence[str]] | None
    ignore: str | Sequence[str] | None
    last: str | None
    best: str | None
    scale: Mapping[str, float] | None
    wide: str | None
    seeds: int | None


_Answer = tuple[str, object, str]  # an option, its value, and when it is right


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
        listed = ", ".join(map(shown, self.unused[:5])) + " and others" * bool(self.unused[5:])
        return "; ".join([*self.notes, *([f"not used: {listed}"] if self.unused else [])])

    def where(self, row: Measurement, name: str) -> str:
        """The place of one measurement's `n` or `error`."""
        place = self.source.at(row.position, row.heads[name != "n"])
        return f"{self.source.name}, {place}" if self.source.name else place


def record_measurements(records: object, options: Options) -> Measurements:
    """The measurements of mappings such as {"n": 64, "error": 0.1, "seed": 1}."""
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        remedy = "use Curve.read for files and Curve.from_frame for data frames"
        rule = "be a list of mappings with the keys n and error"
        raise invalid("records", rule, records, remedy)
    return measurements(grid_of_records(records, Source("", "record", "key")), options)


def label(what: str, value: object) -> str:
    """`value` as the text of a seed, model or metric; empty where there is none."""
    text = (value or "").strip() if isinstance(value, str | None) else None
    number: Any = value
    if _is_number(value):
        with suppress(OverflowError, ValueError):  # not finite, or too many digits
            text = str(int(number)) if number == int(number) else repr(float(number))
    if text is None or not text.isprintable() or len(text) > MAX_LABEL:
        rule = f"be a printable text of at most {MAX_LABEL} characters"
        raise invalid(what, rule, value, "rename it")
    return text


def _is_number(value: object) -> TypeGuard[Real]:
    return type(value) in (int, float) or (isinstance(value, Real) and not isinstance(value, bool))


# --- Where each thing stands ---------------------------------------------------------------------


class _Values(NamedTuple):
    """A column of values: whose they are, as far as its name says it."""

    place: int
    n: float | None = None  # in a table with one column for each N
    model: str = ""
    metric: str = ""
    seed: str = ""
    deviation: int | None = None  # the column of its standard deviations


class _Fact(NamedTuple):
    """A row that is read, and whose it is."""

    row: list[Any]
    n: float | None
    model: str
    metric: str
    seed: str


class _Layout:
    """The places of columns, found one after the other, and notes on them."""

    model: int | None
    metric: int | None
    status: int | None
    exclude: int | None
    include: int | None

    def __init__(self, grid: Grid, options: Options) -> None:
        self.grid, self.header, self.options = grid, grid.header, options
        self.notes: list[str] = []
        self.keys = ["_".join(words(_base(head))) for head in grid.header]
        self.given = {}
        for role, theirs in _checked("columns", options.get("columns"), _ROLES).items():
            self.given[role] = _place(grid, theirs, role)
        ignored = {_place(grid, name) for name in _listed(options.get("ignore"))}
        named = ignored | {*self.given.values()}
        self.free = [at for at in range(len(self.header)) if at not in named]
        columns = zip(*(row for _, row in grid.rows), strict=True)
        self.filled = [[cell for cell in column if not _is_empty(cell)] for column in columns]
        shares = [(sum(map(_begins_as_number, cells)), len(cells)) for cells in self.filled]
        self.numeric = {at for at, (count, total) in enumerate(shares) if 2 * count >= total > 0}
        self.n = self.one("n", [at for at in self.free if _names_n(self.keys[at])])
        self.seeds = [at for at in self.named("seed") if at != self.n]
        if "seed" not in self.given:
            self.seeds += [at for at in self.named("run") if self.counts_runs(at)]
        for role in ("model", "metric", "status", "exclude", "include"):
            places = self.named(role)
            if role in ("exclude", "include"):
                places = [at for at in places if set(map(_folded, self.filled[at])) <= set(_FLAGS)]
            setattr(self, role, self.one(role, places))
        if len(self.seeds) > 1:
            self.notes.append(f"each of {self.names(self.seeds)} together is a seed")
        self.unit = self.keys.index("unit") if "unit" in self.keys else None
        taken = {self.n, self.model, self.metric, self.status, self.exclude, self.include}
        answered = [*(options.get("filter") or {}), options.get("last"), options.get("best")]
        taken |= {_place(grid, name) for name in answered if name} | {*self.seeds, self.unit}
        self.rest = [at for at in self.free if at not in taken]
        self.values = self.values_found()
        used = {value.place for value in self.values} | {value.deviation for value in self.values}
        self.rest = [at for at in self.rest if at not in used]
        self.check_scales()

    def named(self, role: str) -> list[int]:
        """The columns of the listed names, or the one that the user named."""
        if role in self.given:
            return [self.given[role]]
        return [at for at in self.free if self.keys[at] in _NAMED[role]]

    def one(self, role: str, places: list[int]) -> int | None:
        """The column of a role that has one column."""
        if role in self.given:
            return self.given[role]
        if role == "n":
            places = [at for at in places if at in self.numeric] or places
            places = [at for at in places if {"n", "train"} & set(words(self.header[at]))] or places
        if len(places) > 1:
            problem = f"{'N' if role == 'n' else role} may be in {self.names(places)}"
            raise self.ask(problem, self.column(role, places[0], "if that is right"))
        return places[0] if places else None

    def names(self, places: Iterable[int]) -> str:
        """The names of columns, in a message."""
        listed = list(dict.fromkeys(shown(self.header[at]) for at in places))
        return ", ".join(listed[:10]) + ", ..." * bool(listed[10:])

    def column(self, role: str, at: int, when: str) -> _Answer:
        """The answer that a column has a role; a name too long for a message is left open."""
        return "columns", {role: _short(self.header[at])}, when

    def ignoring(self, places: Sequence[int], when: str) -> _Answer:
        """The answer that columns say nothing."""
        names = [self.header[at] for at in places]
        return "ignore", _short(names[0]) if len(names) == 1 else names, when

    def ask(self, problem: str, *answers: _Answer) -> KoriskError:
        """The error for what can be meant in several ways, with the options that answer."""
        parts: list[str | Argument] = []
        for k, (name, value, when) in enumerate(answers):
            between = "" if k == 0 else ", or " if k == len(answers) - 1 else ", "
            parts += [between, Argument(name, value), f" {when}"]
        return self.grid.source.error(f"{problem}; pass ", *parts)

    def check_scales(self) -> None:
        """Ask where numbers may be multiples, or N something else than a count of samples."""
        scale, first = (
            _checked("scale", self.options.get("scale"), _ROLES[:2]),
            self.values[0].place,
        )
        for role, at in (("n", self.n), ("error", first)):
            head = "" if at is None else self.header[at]
            inside = _BRACKET.search(head)
            scaled = _SCALED.search(inside[1] if inside else head)
            if (
                role == "n"
                and role not in scale
                and re.search(r"(?i)(\b|_)(log|ln)(\d|\b|_)", head)
            ):
                raise self.grid.source.error(f"{shown(head)} has logarithms; add a column n with N")
            unknown = inside and not set(words(inside[1]) or "%") <= _OF_N | _BESIDE_N
            if role in scale or not (scaled or (role == "n" and unknown)):
                continue
            factor = 1000 if role == "n" else 0.001
            plain = ("scale", {role: 1}, "if they are plain numbers")
            multiples = ("scale", {role: factor if scaled else ...}, "to multiply them")
            answers = (multiples, plain) if scaled else (plain, multiples)
            raise self.ask(
                f"{shown(head)} may count in {shown(inside[1] if inside else head)}", *answers
            )

    def counts_runs(self, at: int) -> bool:
        """Whether a column run, fold or trial numbers repetitions: `unet-1` and `ko-1` do not."""
        texts = set(map(str, self.filled[at]))
        stems = {re.sub(r"\d+", "", text) for text in texts}
        return at != self.n and (at in self.numeric or (len(stems) == 1 and stems != texts))

    def values_found(self) -> list[_Values]:
        """The columns of values: as the user named them, else by what their names say."""
        wide, header = self.options.get("wide"), self.header
        if wide not in (None, "seed", "model", "n"):
            raise invalid("wide", "be one of seed, model, n", wide, "leave it out")
        sizes = [at for at in self.rest if re.fullmatch(r"(?i)(n\s*=?\s*)?[0-9]+", header[at])]
        if wide == "n" or (self.n is None and len(sizes) > 1 and not wide):
            return self.by_size(sizes)
        if self.n is None:
            raise _missing(self.grid, "n", "n")
        if header[self.n] != "n":
            self.notes.append(f"N from {shown(header[self.n])}")
        if "error" in self.given:
            at = self.given["error"]
            metric = "" if self.keys[at] in _ERROR else _base(header[at])
            return [_Values(at, metric=metric, deviation=self.given.get("deviation"))]
        places = [at for at in self.rest if at in self.numeric or self.keys[at] == "error"]
        if not places and (len(header) < 2 or any(self.filled[at] for at in self.rest)):
            raise _missing(self.grid, "error", "error")
        if not places:
            raise self.grid.source.error("holds no measurements; add rows with n and error")
        names = [_base(header[at]) for at in places]
        if len(set(names)) < len(names):  # then brackets tell columns apart, and are no units
            names = [re.sub(r"[\[\]()]+", " ", header[at]).strip() for at in places]
        heads = {at: _parted(at, name) for at, name in zip(places, names, strict=True)}
        spreads = [at for at in places if set(words(header[at])) & _DEVIATIONS]
        means = [at for at in places if at not in spreads] or places
        partner = {_plain(heads[at]): at for at in spreads}
        if wide:
            named, seeded = dict(zip(places, names, strict=True)), wide == "seed"
            parted = _seeds_of_models([named[at] for at in means]) if seeded else {}
            pairs = [parted.get(named[at], ("", named[at])[:: 1 if seeded else -1]) for at in means]
            values = [
                _Values(at, model=model, seed=seed)
                for at, (model, seed) in zip(means, pairs, strict=True)
            ]
        else:
            values = self.chosen({at: heads[at] for at in means}, bool(spreads))
        return [v._replace(deviation=partner.get(_plain(heads[v.place]))) for v in values]

    def chosen(self, heads: dict[int, _Values], spread: bool) -> list[_Values]:
        """Which of the columns hold errors: those of metrics, else of seeds, else of models."""
        means = _MEANS if spread or len(heads) == 1 else set()
        plain = [at for at in heads if self.keys[at] in _ERROR | means]
        pure = [at for at in plain if self.keys[at] == "error"]
        pure = pure or [at for at, head in heads.items() if head.metric and not head.model] or plain
        if pure:
            return self.of_metrics(heads, pure, plain)
        seeds = [at for at, head in heads.items() if head.seed and not head.model]
        others = [at for at in heads if at not in seeds]
        if seeds and not others and not self.seeds:
            listed = ", ".join(heads[at].seed for at in seeds[:10]) + ", ..." * bool(seeds[10:])
            self.notes.append(f"one column for each seed ({listed})")
            return [heads[at] for at in seeds]
        varied = [at for at in others if len(set(self.filled[at])) != 1 or len(self.filled[at]) < 2]
        others = varied or others  # a constant is no learning curve
        odd = others if seeds or self.model is not None else self.odd(others)
        if odd or seeds:
            raise self.unsure(odd or self.seeds, [*seeds, *(at for at in others if at not in odd)])
        metrics = all(heads[at].metric for at in others)
        repeated = all(heads[at].seed for at in others) and not self.seeds
        values = [heads[at]._replace(seed=heads[at].seed * repeated) for at in others]
        if not metrics and not repeated:
            values = [_Values(at, model=_base(self.header[at])) for at in others]
        if len({value[1:5] for value in values}) < len(values):
            values = [_Values(at, model=self.header[at].strip()) for at in others]
        models = list(dict.fromkeys(shown(value.model) for value in values))
        listed = ", ".join(models[:10]) + ", ..." * bool(models[10:])
        self.notes.append(f"one column for each model{' and seed' * repeated} ({listed})")
        return values

    def unsure(self, odd: list[int], fine: list[int]) -> KoriskError:
        """The question what columns are that are named after nothing known."""
        model = ("wide", "model", "if each column is a model")
        seed, size = ("wide", "seed", "if each is a seed"), ("wide", "n", "if each is an N")
        alone = self.column("error", (fine or odd)[0], "for one alone")
        out = self.ignoring(odd, "to leave that out")
        answers = [out, model, seed, alone] if fine else [alone, model, seed, out]
        if all(_is_short(self.header[at]) for at in odd):  # 1, 2, 3 and s1, s2, s3
            answers = [seed, model, size, out]
        elif not fine and _seeds_of_models([self.header[at] for at in odd]):
            answers = [("wide", "seed", "if each is a seed of a model"), model, out]
        return self.ask(f"{self.names(odd)} may be models, seeds, or no errors at all", *answers)

    def odd(self, places: list[int]) -> list[int]:
        """Columns that may be something else than the errors of a model.

        Numbers, statistics, names that extend another's (FC and FC CI95), and what rises where
        others fall, such as times.
        """
        named = {at: words(self.header[at]) for at in places}
        odd, falls = [], {}
        unnamed = [head for at in places if not _SEED_AT_END.fullmatch(head := self.header[at])]
        grid = _seeds_of_models(unnamed)
        for at, own in named.items():
            longer = any(own[: len(other)] == other != own for other in named.values() if other)
            numbered = self.header[at] in grid or _is_short(self.header[at])
            if longer or numbered or set(own) <= _STATISTICS:
                odd.append(at)
                continue
            pairs = [(_rough(row[self.n or 0]), _rough(row[at])) for _, row in self.grid.rows]
            pairs = [pair for pair in pairs if not math.isnan(sum(pair))]
            if len(pairs) > 1:
                falls[at] = max(pairs)[1] < min(pairs)[1]
        return odd + [at for at in falls if not falls[at] and any(falls.values())]

    def of_metrics(
        self, heads: dict[int, _Values], pure: list[int], plain: list[int]
    ) -> list[_Values]:
        """Columns that are named after metrics; those of the training data are left out."""
        named = [at for at, head in heads.items() if head.seed or (head.model and head.metric)]
        others = [at for at in named if at not in pure]
        for unwanted in (_TRAINED_ON, _VALIDATED_ON):
            tested = [at for at in pure if not unwanted.intersection(words(heads[at].metric))]
            pure = tested or pure
        pure.sort(
            key=lambda at: "test" not in words(self.header[at])
        )  # which a question then names
        alone = self.column("error", pure[0], "for that one alone")
        if all(_TRAINED_ON.intersection(words(heads[at].metric)) for at in pure):
            problem = f"{self.names(pure[:1])} is of the training data, not of test data"
            raise self.ask(problem, self.column("error", pure[0], "if it is not"))
        if others or (self.metric is not None and len(pure) > 1):
            answers = [alone, self.ignoring(pure, "to read the others")][: 1 + bool(others)]
            raise self.ask(f"values may be in {self.names([*pure, *others])}", *answers)
        if self.seeds and any(heads[at].seed for at in pure):
            raise self.unsure(self.seeds, pure)
        values = [_Values(at, seed=heads[at].seed) if at in plain else heads[at] for at in pure]
        metrics = list(dict.fromkeys(shown(value.metric) for value in values if value.metric))
        if metrics:
            self.notes.append(f"values from {', '.join(metrics[:5])}")
        if any(value.seed for value in values):
            self.notes.append(f"one column for each seed ({len({v.seed for v in values})})")
        return values

    def by_size(self, sizes: list[int]) -> list[_Values]:
        """A table whose columns are named after N, with a row for each seed or model."""
        others = [at for at in self.rest if at not in sizes]
        others += [at for at in (self.n,) if at is not None and at not in self.seeds]
        self.n = None
        if not sizes:
            raise _missing(self.grid, "n", "n")
        self.notes.append("one column for each N")
        for at in others if self.model is None and not self.seeds else []:
            seeds = [_SEED_AT_END.fullmatch(str(cell)) for cell in self.filled[at]]
            if len(others) == 1 and all(seed and not seed["rest"] for seed in seeds):
                self.seeds = [at]
                self.notes.append(f"seeds from {shown(self.header[at])}")
            elif len(others) == 1 and at not in self.numeric:
                self.model = at  # the only other column names the rows
                self.notes.append(f"models from {shown(self.header[at])}")
            elif len(self.grid.rows) > 1:
                problem = f"columns are named after N, and {shown(self.header[at])} names the rows"
                role = "seed" if at in self.numeric else "model"
                raise self.ask(problem, self.column(role, at, f"if it has {role}s"))
        self.rest = [at for at in self.rest if at != self.model]
        return [_Values(at, n=float(re.sub(r"\D", "", self.header[at]))) for at in sizes]


def _checked(name: str, given: object, known: Sequence[str]) -> Mapping[str, Any]:
    """The mapping that the user gave, if its keys are names of ours."""
    mapped = {} if given is None else given
    if not isinstance(mapped, Mapping):
        raise invalid(name, "map our names to yours", mapped, "pass a dict")
    for key, value in mapped.items():
        if key not in known:
            hint = did_you_mean(str(key)[:MAX_LABEL], known).removeprefix("; ")
            raise invalid(name, f"map {', '.join(known)}", key, hint)
        if not isinstance(value, str if name == "columns" else Real):
            kind = "a column's name" if name == "columns" else "a number"
            raise invalid(f"{name}[{key!r}]", f"be {kind}", value, "write one")
    return mapped


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def _short(head: str) -> str:
    return head if len(head) <= MAX_LABEL else "..."


def _base(head: str) -> str:
    """The name in a head, without a tracker's prefix and without a unit in brackets."""
    name = _LOGARITHM.sub(r"\1 \2", _PREFIX.sub("", head.strip(), count=1))
    return _BRACKET.sub("", name).strip() or head.strip()


def _place(grid: Grid, name: object, role: str = "") -> int:
    """The column of a name that the user gave."""
    heads, wanted = [head.casefold() for head in grid.header], str(name).strip()
    if wanted.casefold() not in heads:
        raise _missing(grid, role, wanted)
    return heads.index(wanted.casefold())


def _missing(grid: Grid, role: str, wanted: str) -> KoriskError:
    header, source = grid.header, grid.source
    listed = ", ".join(shown(column, limit=30) for column in header[:10]) + ", ..." * bool(
        header[10:]
    )
    short = {head.casefold(): head for head in header[:100] if len(head) <= MAX_LABEL}
    meant = difflib.get_close_matches(wanted.casefold(), short, n=1)
    hint = f"did you mean {shown(short[meant[0]])}? " if meant else ""
    problem = f"no {source.column} {shown(wanted)}, found {listed}; {hint}"
    if not role:
        return source.error(f"{problem}name one of these")
    example = Argument("columns", {role: short[meant[0]] if meant else "..."})
    needed = "needed are n and error, or n and one column per seed or model: pass "
    return source.error(f"{problem}{needed}", example)


def _names_n(key: str) -> bool:
    parts = set(key.split("_"))
    return bool(parts & _OF_N) and parts <= _OF_N | _BESIDE_N


def _is_short(head: str) -> bool:
    """Whether a head is a number or a letter with one: a seed, a site, a width or an N."""
    return bool(re.fullmatch(r"[A-Za-z]?[\s_-]?[0-9]+", head.strip()))


def _seeds_of_models(heads: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The model and the seed in heads such as KO_s1, or KO 1, KO 2, FC 1, FC 2; else none."""
    matches = [_NUMBERED.fullmatch(head) for head in heads]
    pairs = [(match["model"], match["seed"]) for match in matches if match]
    models, seeds = ({pair[k] for pair in pairs} for k in (0, 1))
    every = len(models) * len(seeds) == len(set(pairs)) == len(heads) > len(models)
    lettered = all(match and match["letter"] for match in matches)
    return dict(zip(heads, pairs, strict=True)) if every and (lettered or len(models) > 1) else {}


def _parted(at: int, name: str) -> _Values:
    """The seed, the metric and the model in the name of a column."""
    match = _SEED_AT_END.fullmatch(name)
    seed, rest = (match["seed"], match["rest"] or "") if match else ("", name)
    if match and not rest:
        return _Values(at, seed=name)
    tokens = re.split(r"[\s_/:]+", rest)
    named = [token for token in tokens if _of_metric(token)]
    if not any(_names_metric(token) for token in named):
        return _Values(at, model=rest, seed=seed)
    model = " ".join(token for token in tokens if token not in named).strip(" -")
    return _Values(at, model=model, metric="_".join(named) if model else rest, seed=seed)


def _plain(head: _Values) -> str:
    """What a column of means and that of its standard deviations have in common."""
    named = words(f"{head.model} {head.metric} {head.seed}")
    return " ".join(word for word in named if word not in _MEANS | _DEVIATIONS | _ERROR)


def _names_metric(token: str) -> bool:
    return any(suggested_unit(w) is not None or w in _VALUES for w in words(token))


def _of_metric(token: str) -> bool:
    """Whether a token consists of words that names of metrics have, such as `val` and `mse`."""
    known = _VALUES | _BESIDE_METRICS | _MEANS
    return bool(words(token)) and all(w in known or suggested_unit(w) for w in words(token))


# --- Numbers as people write them ----------------------------------------------------------------


def _bare(text: str) -> str:
    """A number without percent sign, without spaces between thousands, with a plain minus."""
    return _SPACES.sub("", text.removesuffix("%").strip().replace("\u2212", "-"))


def _folded(cell: object) -> str:
    """A cell as a text to compare with others."""
    if _is_number(cell) and float(cell).is_integer():
        return str(int(float(cell)))
    return "" if _is_empty(cell) else str(cell).strip().casefold()


def _is_empty(cell: object) -> bool:
    """Whether a cell for a number has none, as where a run has crashed."""
    return cell is None or (isinstance(cell, str) and cell.casefold() in _EMPTY)


def _looks_numeric(cell: object) -> bool:
    return _is_numeric(cell) if isinstance(cell, str) else _is_number(cell)


def _begins_as_number(cell: object) -> bool:
    """Whether a cell is a number, maybe with a mark that is then refused, such as 0.10*."""
    return _looks_numeric(cell) or bool(isinstance(cell, str) and _MARKED.fullmatch(cell))


@lru_cache(maxsize=4096)
def _is_numeric(cell: str) -> bool:
    text, forms = _bare(cell), (*_PLAIN.values(), *_GROUPS.values())
    return len(text) <= MAX_LABEL and text.isascii() and any(f.fullmatch(text) for f in forms)


def _rough(cell: object) -> float:
    """The number in a cell, where only order matters."""
    try:
        return float(str(cell) if _is_number(cell) else _bare(str(cell)).replace(",", "."))
    except ValueError:
        return math.nan


def _decimal_mark(grid: Grid, places: Sequence[int]) -> str | None:
    """The mark of decimals in a table: the point, the comma, or None where nothing tells."""
    first: dict[str, str] = {}
    texts = [
        (_bare(row[at]), position, at)
        for position, row in grid.rows
        for at in places
        if isinstance(row[at], str) and _is_numeric(row[at])
    ]
    for text, position, at in texts:
        marks = [m for m in ".," if _PLAIN[m].fullmatch(text) or _GROUPS[m].fullmatch(text)]
        if len(marks) == 1 and not _EITHER.fullmatch(text):
            where = grid.source.at(position, grid.header[at])
            first.setdefault(marks[0], f"{where}: {shown(text)}")
    if len(first) > 1:
        problem = f"decimal points ({first['.']}) and commas ({first[',']}) are mixed"
        raise grid.source.error(f"{problem}; write all numbers in one way")
    if not first and grid.delimiter in (",", " "):  # which no table with decimal commas has
        return "." if set("".join(text for text, *_ in texts)) & {".", ","} == {"."} else None
    return next(iter(first), None)


class _CellError(Exception):
    """What is wrong with a cell, and a remedy."""


def _number(cell: object, mark: str | None, *, whole: bool) -> float:
    """The number in a cell."""
    if _is_number(cell):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    text = _bare(cell) if isinstance(cell, str) else ""
    if not _looks_numeric(text):
        if re.fullmatch(r"(?i)[-+]?inf(inity)?", text):
            raise _CellError(f"is {shown(cell)}", "leave the cell empty if the run failed")
        raise _CellError(f"{shown(cell)} is no number", "write numbers as 64, 0.001 or 1e-3")
    if whole and mark == "." and _EITHER.fullmatch(text) and mark in text:
        thousands, decimals = (Argument("scale", {"n": factor}) for factor in (1000, 1))
        answers = Message("pass ", thousands, " for thousands, or ", decimals, " for decimals")
        raise _CellError(f"{shown(cell)} may be a thousand or a decimal", answers)
    if _EITHER.fullmatch(text) and (mark is None or (not whole and mark not in text)):
        if mark is None and whole and not text.endswith("000"):
            return float(re.sub("[.,]", "", text))
        remedy = "write thousands without the mark"
        if mark is None:
            remedy = f"add a zero to one of them if they are decimals, or {remedy}"
        raise _CellError(f"{shown(cell)} may be a thousand or a decimal", remedy)
    if _GROUPS[mark or "."].fullmatch(text):
        text = text.replace("," if mark != "," else ".", "")
    try:
        return float(text.replace(",", ".") if mark == "," else text)
    except ValueError:
        remedy = f"write all with a decimal {'comma' if mark == ',' else 'point'}"
        raise _CellError(f"{shown(cell)} has another mark", remedy) from None


# --- Rows that are read --------------------------------------------------------------------------


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
        listed = ", ".join(map(grid.source.at, wrong[:MAX_PROBLEMS]))
        more = f" and {len(wrong) - MAX_PROBLEMS} more" if wrong[MAX_PROBLEMS:] else ""
        if len(wrong) == len(rows):
            listed, more = "the header or the number of rows", ""
        raise grid.source.error(
            f"{listed}{more}: changed after korisk wrote them; write the file again, or remove the "
            f"{grid.source.column} {DIGEST!r} if you changed them on purpose"
        )
    return replace(grid, header=header, rows=rows)


def _with_deviations(grid: Grid) -> Grid:
    """The table with a column of its own for what follows a ± in cells."""
    header, rows = list(grid.header), [(position, list(row)) for position, row in grid.rows]
    for at, head in enumerate(grid.header):
        pairs = [_SPREAD.fullmatch(str(row[at])) for _, row in rows]
        labels = any("_".join(words(head)) in names for names in _NAMED.values())
        if any(pairs) and not labels:
            header.append(f"{head} std")
            for (_, row), pair in zip(rows, pairs, strict=True):
                row[at], spread = (
                    (pair["mean"], pair["spread"].strip("()")) if pair else (row[at], None)
                )
                row.append(spread)
    return replace(grid, header=header, rows=rows)


def _filtered(grid: Grid, options: Options) -> Grid:
    """The rows that the user asked for."""
    rows, notes = grid.rows, list(grid.notes)
    for name, wanted in (options.get("filter") or {}).items():
        at, texts = _place(grid, name), _listed(wanted)
        negated = all(text.startswith("!") for text in texts)
        chosen = {_folded(text.removeprefix("!")) for text in texts}
        matching = [row for row in rows if (_folded(row[1][at]) in chosen) != negated]
        if not matching:
            known = ", ".join(dict.fromkeys(shown(row[at]) for _, row in rows[:100]))
            raise grid.source.error(f"no row has {name}={', '.join(texts)}; it has {known[:200]}")
        out = len(rows) - len(matching)
        notes.append(f"{out} row{'s' * (out != 1)} left out by {name}={', '.join(texts)}")
        rows = matching
    return replace(grid, rows=rows, notes=notes)


def measurements(grid: Grid, options: Options) -> Measurements:
    """The measurements of a table."""
    grid = _filtered(_with_deviations(_verified(grid)), options)
    layout, source, header = _Layout(grid, options), grid.source, grid.header
    scale = {"n": 1.0, "error": 1.0, **(options.get("scale") or {})}
    scaled = options.get("scale") or {}
    problems, remedies = list[str](), dict[str | Message, None]()
    left_out, signs, totals = Counter[str](), Counter[str](), Counter[str]()
    numbers = [value.place for value in layout.values] + [
        at for at in (layout.n,) if at is not None
    ]
    mark = _decimal_mark(grid, numbers)
    order = options.get("last") or options.get("best")
    order_at = _place(grid, order) if order else None
    table: list[Measurement] = []
    facts: list[_Fact] = []

    def wrong(position: int, place: int | None, what: str, remedy: str | Message) -> None:
        at = source.at(position, None if place is None else header[place])
        problems.append(f"{at}: {what}")
        remedies[remedy] = None

    def number(position: int, row: list[object], place: int, *, whole: bool) -> float | None:
        """The number in a cell; None where it is empty, or not as it should be."""
        cell = row[place]
        if _is_empty(cell):
            return None
        try:
            return _number(cell, mark, whole=whole and "n" not in scaled)
        except _CellError as error:
            what, remedy = error.args
            if _folded(cell) == header[place].casefold():
                what, remedy = "another head", "save each table in a file of its own"
            elif whole and isinstance(cell, str) and cell.replace(" ", "").isalpha():  # Mean, Total
                out = Argument("filter", {header[place]: f"!{cell}"})
                remedy = Message("pass ", out, " to leave such rows out")
            wrong(position, place, what, remedy)
            return None

    for position, row in grid.rows:
        if reason := _left_out(row, layout):
            left_out[reason] += 1
            continue
        n = None if layout.n is None else number(position, row, layout.n, whole=True)
        filled = [value for value in layout.values if not _is_empty(row[value.place])]
        if layout.n is not None and n is None:
            if filled and _is_empty(row[layout.n]):
                wrong(position, layout.n, "is missing", "write N")
            continue
        try:
            model, metric, seed = (
                "/".join(label(shown(header[at]), row[at]) for at in places if at is not None)
                for places in ([layout.model], [layout.metric], layout.seeds)
            )
        except KoriskError as error:
            wrong(position, None, *str(error).split("; ", 1))
            continue
        left_out["empty cell"] += len(layout.values) - len(filled)
        unit = str(row[layout.unit]) if layout.unit is not None else ""
        if filled:
            facts.append(_Fact(row, n, model, metric, seed))
        for column in filled:
            value = number(position, row, column.place, whole=False)
            if value is None:
                continue
            name = header[column.place]
            signs[name] += str(row[column.place]).endswith("%")
            totals[name] += 1
            spread = column.deviation
            deviation = None if spread is None else number(position, row, spread, whole=False)
            first = Measurement(
                position,
                (n if n is not None else column.n or math.nan) * scale["n"],
                value * scale["error"],
                column.seed or seed,
                column.model or model,
                metric or column.metric,
                unit if unit in UNITS else "",
                (header[column.place if layout.n is None else layout.n], name),
                0.0 if order_at is None else _rough(row[order_at]),
            )
            if deviation is None:
                table.append(first)
            else:
                spreads = _scores(layout, options.get("seeds"))
                table += [
                    first._replace(
                        value=first.value + deviation * scale["error"] * z, seed=str(k + 1)
                    )
                    for k, z in enumerate(spreads)
                ]
    for name, count in signs.items():
        if 0 < count < totals[name]:
            what = f"{count} of {totals[name]} values have percent signs"
            problems.append(f"{source.column} {shown(name)}: {what}")
            remedies["write all with or without"] = None
    if problems:
        more = len(problems) - MAX_PROBLEMS
        listed = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
        parts = [part for remedy in remedies for part in (", ", remedy)]
        raise source.error(", ".join(listed), "; ", *parts[1:])
    skipped = [f"{n} {what}{'s' * (n > 1)} left out" for what, n in left_out.items() if n]
    if not table:
        but = f" but {', '.join(skipped)}" if skipped else ""
        raise source.error(f"holds no measurements{but}; add rows with n and error")
    shares = [row for row in table if row.n % 1 and row.n < math.inf and "n" not in scaled]
    if shares:
        place = source.at(shares[0].position, shares[0].heads[0])
        problem = f"{place}: N must be a whole number from 2 to 10^15, got {shares[0].n!r}"
        raise layout.ask(problem, ("scale", {"n": ...}, "to multiply a share by the size of all"))
    _check_labels(layout, facts)
    _check_others(layout, facts)
    if options.get("last"):
        table.sort(key=lambda row: row.order)
        table = list({(r.n, r.seed, r.model, r.metric): r for r in table}.values())
        table.sort(key=lambda row: row.position)
    marked = {
        head for head in totals if "%" in head and (_names_metric(head) or _base(head) != head)
    }
    notes = [*layout.notes, *grid.notes, *(["decimal commas"] if mark == "," else []), *skipped]
    notes += [f"{name} times {factor:g}" for name, factor in scale.items() if factor != 1]
    notes += [
        f"the {how} {shown(options[how])} of each run"
        for how in ("last", "best")
        if options.get(how)
    ]
    percent = marked | {head for head, count in signs.items() if count}
    unused = [header[at] for at in layout.rest if layout.filled[at]]
    return Measurements(source, table, percent, notes, unused, bool(options.get("best")))


def _left_out(row: list[object], layout: _Layout) -> str:
    """Why a row is not read: its run did not finish, or a column of flags says so."""
    state = "" if layout.status is None else _folded(row[layout.status])
    flags = [
        layout.exclude is not None and _FLAGS.get(_folded(row[layout.exclude]), 0) == 1,
        layout.include is not None and _FLAGS.get(_folded(row[layout.include]), 1) == 0,
    ]
    if state and state not in _FINISHED:
        return f"{state[:20]} run"
    return "excluded row" if any(flags) else ""


def _scores(layout: _Layout, seeds: int | None) -> list[float]:
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


def _check_labels(layout: _Layout, facts: list[_Fact]) -> None:
    """Refuse rows without a model among those with one, and rows that sum up seeds."""
    models, header = [fact.model for fact in facts], layout.header
    if layout.model is not None and any(models) and not all(models):
        problem = (
            f"{shown(header[layout.model])} is missing in some rows, as where cells are merged"
        )
        raise layout.grid.source.error(f"{problem}; name the model in every row")
    for at in layout.seeds:
        labels = {str(fact.row[at]) for fact in facts}
        texts = sorted(text for text in labels if _SUMMARIES.intersection(words(text)))
        if texts and len(texts) < len(labels):
            problem = f"{shown(header[at])} has rows that sum up others ({', '.join(texts[:10])})"
            out = (
                "filter",
                {header[at]: [f"!{text}" for text in texts[:10]]},
                "to leave such rows out",
            )
            raise layout.ask(problem, out)


def _check_others(layout: _Layout, facts: list[_Fact]) -> None:
    """Ask about a column that splits what would be one curve, and about remarks."""
    times = Counter((fact.n, fact.model, fact.metric, fact.seed) for fact in facts)
    (n, *_), most = times.most_common(1)[0]
    telling = []
    for at in layout.rest:
        name, numeric = layout.header[at], at in layout.numeric
        cells = [_folded(fact.row[at]) for fact in facts]
        present = [cell for cell in cells if cell]
        unused = layout.ignoring([at], "if it says nothing")
        if not present or (not numeric and all(map(_DATE.fullmatch, present))):
            continue
        if not numeric and len(present) < len(cells):
            remark = f"{len(present)} of {len(cells)} rows have a remark in {shown(name)}, such as "
            out = ("filter", {name: ""}, "to leave these rows out")
            raise layout.ask(f"{remark}{shown(present[0])}", out, unused)
        pairs = list(zip(facts, cells, strict=True))
        of_curve = len({(f.model, f.metric, cell) for f, cell in pairs}) > len(
            {(f.model, f.metric) for f in facts}
        )
        of_size = len({(f.n, f.model, f.metric, cell) for f, cell in pairs}) > len(
            {(f.n, f.model, f.metric) for f in facts}
        )
        recurs = len({(f.n, cell) for f, cell in pairs}) > len(set(cells)) < len(cells)
        if most > 1 and len({(*f[1:], cell) for f, cell in pairs}) == len(cells):
            telling.append(at)
        if not (recurs and of_size) if numeric else not (of_curve and len(set(cells)) < len(cells)):
            continue
        model = layout.column("model", at, "if it tells models apart")
        seed = layout.column("seed", at, "if it numbers repetitions")
        one = ("filter", {name: _short(str(facts[-1].row[at]))}, "for one of them")
        last, best = ("last", name, "for the last of each run"), ("best", name, "for the best")
        answers = [model, one, seed] if not numeric else [model, seed, one, last]
        if numeric and most > 1 and (layout.seeds or len(set(cells)) > 10):  # such as an epoch
            answers = [last, best, one, model, seed]
        values = list(dict.fromkeys(str(f.row[at]) for f in facts if not _is_empty(f.row[at])))
        listed = ", ".join(map(shown, values[:4])) + ", ..." * bool(values[4:])
        raise layout.ask(f"{shown(name)} has {listed} in one curve", *answers, unused)
    if telling:
        problem = f"N = {n or 0:g} is there {most} times, and no column tells the seed"
        raise layout.ask(problem, layout.column("seed", telling[0], "if rows repeat one model"))
