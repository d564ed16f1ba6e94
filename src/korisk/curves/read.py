"""What a table means: which column is N, which are errors, and of which seed, model and metric.

A table is *long*, one measurement in a row (n, error and maybe seed, model, metric), or *wide*, one
seed or one model in a column. Columns are seeds only where their names say so; they are never
averaged otherwise. What cannot be told is asked, with the option that answers it, and how a table
was read is noted (`Measurements.read_as`).
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple, TypeGuard

from korisk.curves.formats import Grid, Source, grid_of_records
from korisk.curves.unit import UNITS, suggested_unit, vocabulary, words
from korisk.errors import Argument, KoriskError, did_you_mean, invalid, shown
from korisk.store.cells import row_digests

DIGEST = "digest"  # the column of checksums, in tables that korisk wrote
MAX_LABEL = 80
MAX_PROBLEMS = 10  # that one message names

Columns = Mapping[str, str] | None  # our names → the file's

_NAMES = ("n", "error", "seed", "model", "metric")

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
_SEEDS = re.compile(
    r"(random_)?seed|random_state|run|run_(number|no|nr|index)|rep(eat|etition|licate)?|"
    r"(cv_)?(fold|split)|trial|lauf|wiederholung|graine"
)
_RUNS = {"run_id", "run_name", "name", "id", "trial_id", "uuid"}  # that name runs, not models
_NO_LABELS = {"unit", "digest", "user", "tags", "notes", "artifact_uri", "source_name"}
_ROLES = {
    "model": vocabulary(
        "model method network net arch architecture algorithm variant estimator approach modell "
        "netz verfahren"
    )
    | {"model_name"},
    "metric": {"metric", "measure", "metrik", "kennzahl"},
    "status": {"status", "state"},
}
_FINISHED = {"finished", "done", "completed", "complete", "success", "succeeded", "ok"}
_ERROR = {"error", "fehler", "erreur", "errore"}  # by which a column says that it holds errors
ERROR_NAMES = _ERROR | vocabulary(
    "errors err mse rmse nmse nrmse mae mape loss risk nll ce bce hd95 wer cer distance deviation"
)
_VALUES = ERROR_NAMES | {"value", "wert", "score", "scores"}
_TRAINED_ON = {"train", "training"}
_PHASES = _TRAINED_ON | {"val", "valid", "validation", "dev", "test", "eval", "holdout"}
_BESIDE_METRICS = _PHASES | vocabulary(
    "final best rel relative normalised normalized neg drop gap decrease mean squared absolute "
    "root rate top1 top5 image"
)
# Columns that are neither a seed's nor a model's, whatever they are.
_SPREADS = vocabulary(
    "std stdev stddev sd sem stderr var variance lower upper ci iqr streuung standardabweichung "
    "rank log log2 log10 ln"
)
_ENDS = {"se", "err", "error", "lo", "hi", "low", "high", "min", "max"}  # behind a model's name
_STATISTICS = _SPREADS | vocabulary(
    "mean average avg median min max count sum total mittelwert summe ratio difference diff delta "
    "gain speedup p value pvalue mittel durchschnitt moyenne media improvement differenz best "
    "seeds"
)
_REMARKS = vocabulary(
    "epoch epochs time seconds runtime duration date comment notes id index parameters params lr "
    "learning batch step steps gpu s sec ms h memory created user experiment weight decay lambda "
    "rate dropout iteration iterations depth width layers channels momentum temperature size"
)
_NO_MODELS = _STATISTICS | _REMARKS | _PHASES | _OF_N | _BESIDE_N | {"seed", "run", "fold"}
_EMPTY = {"-", "--", "–", "na", "n/a", "nan", "null", "none", "#n/a", "#na", "#div/0!", "?"}  # noqa: RUF001
_TOTALS = vocabulary(
    "mean average averages avg median std sd sem sum total totals all summe mittelwert mittel "
    "durchschnitt gesamt ø moyenne media difference differenz diff delta ratio"
)
_PREFIX = re.compile(r"(params|metrics|config|summary|tags)[./]", re.IGNORECASE)
_BRACKET = re.compile(r"\s*[\[(]([^\])]*)[\])]\s*$")
_SEED_AT_END = re.compile(
    r"(?:(?P<rest>.+?)[\s_\-/.,:]+)?"
    r"(?:(?:seed|run|rep|repeat|repetition|replicate|fold|trial|split|lauf)[\s_\-#]*|s)"
    r"(?P<seed>[0-9]+)",
    re.IGNORECASE,
)
# Numbers as people write them.
_SPACES = re.compile(r"(?<=\d)[\u00a0\u202f\u2009 '’_](?=\d{3}(?:\D|$))")  # noqa: RUF001
_POINT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_COMMA = re.compile(r"[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?")
_GROUPS = {  # thousands between the other mark
    ".": re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    ",": re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
_MARKED = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)\s*[^\d\s:-]{0,8}")  # such as 0.10*
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")  # 1,024 and 1.024: which is it?


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


@dataclass(frozen=True)
class Measurements:
    """What a table holds."""

    source: Source
    rows: list[Measurement]
    percent: set[str]  # columns of values with percent signs
    read_as: str  # how the table was read, where that was not a matter of course

    def where(self, row: Measurement, name: str) -> str:
        """The place of one measurement's `n` or `error`."""
        place = self.source.at(row.position, row.heads[name != "n"])
        return f"{self.source.name}, {place}" if self.source.name else place


def record_measurements(records: object, columns: Columns) -> Measurements:
    """The measurements of mappings such as {"n": 64, "error": 0.1, "seed": 1}."""
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        remedy = "use Curve.read for files and Curve.from_frame for data frames"
        rule = "be a list of mappings with the keys n and error"
        raise invalid("records", rule, records, remedy)
    return measurements(grid_of_records(records, Source("", "record", "key")), columns)


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


def _column(role: str, head: str) -> Argument:
    """The argument that names a column; a name too long for a message is left open."""
    return Argument("columns", {role: head if len(head) <= MAX_LABEL else "..."})


def _ask(source: Source, problem: str, role: str, head: str, rest: str = "") -> KoriskError:
    """An error whose remedy is to name a column."""
    return source.error(f"{problem} pass ", _column(role, head), rest)


def _is_number(value: object) -> TypeGuard[Real]:
    return type(value) in (int, float) or (isinstance(value, Real) and not isinstance(value, bool))


# --- Where each thing stands ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Values:
    """A column of values: whose they are, as far as its name says it."""

    place: int
    n: float | None = None  # in a table with one column for each N
    model: str = ""
    metric: str = ""
    seed: str = ""


@dataclass
class _Layout:
    """The places of columns, found one after the other, and notes on them."""

    n: int | None = None
    model: int | None = None
    metric: int | None = None
    status: int | None = None
    values: list[_Values] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _base(head: str) -> str:
    """The name in a head, without a tracker's prefix and without a unit in brackets."""
    return _BRACKET.sub("", _PREFIX.sub("", head.strip(), count=1)).strip() or head.strip()


def _key(head: str) -> str:
    return "_".join(words(_base(head)))


def _layout(grid: Grid, columns: Columns) -> _Layout:
    source, header = grid.source, grid.header
    given = {}
    for name, theirs in _wanted(columns).items():
        there = [at for at, head in enumerate(header) if head.casefold() == theirs.casefold()]
        if not there:
            raise _missing(name, theirs, grid)
        given[name] = there[0]
    places = range(len(header))
    filled = [[row[at] for _, row in grid.rows if not _is_empty(row[at])] for at in places]
    numbers = [sum(map(_looks_numeric, cells)) for cells in filled]
    keys = [_key(head) for head in header]
    numeric = {  # also a column of numbers with remarks in it, such as 0.10* or OOM
        at
        for at, cells in enumerate(filled)
        if (cells and 2 * numbers[at] >= len(cells))
        or (_is_model(header[at]) and any(_MARKED.fullmatch(str(each)) for each in cells))
    }

    def named(role: str, fits: Callable[[str], object]) -> list[int]:
        if role in given:
            return [given[role]]
        free = set(range(len(header))) - set(given.values())
        return [at for at in sorted(free) if fits(keys[at])]

    layout = _Layout()
    counts = named("n", _names_n)
    counts = [at for at in counts if at in numeric] or counts
    best = [at for at in counts if keys[at] == "n" or "train" in keys[at]] or counts
    if len(best) > 1:
        listed = ", ".join(shown(header[at]) for at in best)
        raise _ask(source, f"N may be in {listed};", "n", header[best[0]], " if that is right")
    layout.n = best[0] if best else None
    inside = _BRACKET.search(header[best[0]]) if best else None
    if inside and "n" not in given and not set(words(inside[1]) or "%") <= _OF_N | _BESIDE_N:
        unsure = f"{shown(header[best[0]])} may count in {shown(inside[1])}"
        remedy = "write numbers of samples into a column n, or"
        raise _ask(source, f"{unsure}; {remedy}", "n", header[best[0]], " if it has them")
    layout.seeds = [at for at in named("seed", _SEEDS.fullmatch) if at != layout.n]
    for at in layout.seeds if "seed" not in given else []:
        odd = [str(each) for each in filled[at] if not _sums_up(each)]
        stems = {re.sub(r"\d+", "", each) for each in odd}  # `unet-1` and `ko-1` are no seeds
        if stems and "seed" not in keys[at] and (len(stems) > 1 or odd[0] in stems):
            raise source.error(
                f"column {shown(header[at])} holds {shown(odd[0])}; pass ",
                _column("model", header[at]),
                " if it has models, ",
                _column("seed", header[at]),
                " if it has repetitions, or keep one alone",
            )
    for role, names in _ROLES.items():
        found = named(role, names.__contains__)
        if len(found) > 1:
            listed = ", ".join(shown(header[at]) for at in found)
            problem = f"the {role} may be in {listed};"
            raise _ask(source, problem, role, header[found[0]], " for the right one")
        setattr(layout, role, found[0] if found else None)
    taken = {layout.n, layout.model, layout.metric, layout.status, *layout.seeds}
    rest = [at for at in range(len(header)) if at not in taken]
    if "error" in given:
        layout.values = [_Values(given["error"], metric=_own_metric(header[given["error"]]))]
        rest.remove(given["error"])
    else:
        if layout.n is None:
            return _by_size(grid, layout, rest)
        likely = [at for at in rest if at in numeric or keys[at] == "error"]
        layout.values = _values(grid, layout, likely)
    if layout.n is None:
        raise _missing("n", "n", grid)
    if header[layout.n] != "n":
        layout.notes.insert(0, f"N from {shown(header[layout.n])}")
    used = {each.place for each in layout.values}
    for at in rest if "model" not in given else []:
        texts = {str(each).casefold() for each in filled[at]}
        if at in numeric | used or not 1 < len(texts) < len(filled[at]) or keys[at] in _NO_LABELS:
            continue
        pairs = {(row[layout.model or 0], row[at]) for _, row in grid.rows}
        models = {model for model, _ in pairs}
        says_more = layout.model is None or len(pairs) > len(models)
        if says_more and _is_model(header[at]):
            example = f"holds different texts, such as {shown(filled[at][0])}, and is not used"
            problem = f"column {shown(header[at])} {example};"
            apart = " if it tells models apart, or remove it"
            raise _ask(source, problem, "model", header[at], apart)
    wide = layout.model is None and layout.status is None and not layout.seeds
    unused = [at for at in rest if at not in used]  # of runs, settings; else a model without values
    unused = [at for at in unused if at in numeric or (wide and not filled[at])]
    if unused:
        listed = ", ".join(shown(header[at]) for at in unused[:5])
        listed += " and others" if unused[5:] else ""
        layout.notes.append(f"not used: {listed}")
    return layout


def _wanted(columns: Columns) -> dict[str, str]:
    """Our names and those of the input, as the user gave them."""
    mapped = {} if columns is None else columns
    if not isinstance(mapped, Mapping):
        raise invalid("columns", "map our names to yours", mapped, "pass a dict")
    for name, theirs in mapped.items():
        if name not in _NAMES:
            hint = did_you_mean(str(name)[:MAX_LABEL], _NAMES).removeprefix("; ")
            raise invalid("columns", f"map {', '.join(_NAMES)}", name, hint)
        if not isinstance(theirs, str):
            raise invalid(f"columns[{name!r}]", "be a column's name", theirs, "quote it")
    return {name: theirs.strip() for name, theirs in mapped.items()}


def _names_n(key: str) -> bool:
    found = set(key.split("_"))
    return bool(found & _OF_N) and found <= _OF_N | _BESIDE_N


def _missing(name: str, wanted: str, grid: Grid) -> KoriskError:
    header, source = grid.header, grid.source
    listed = ", ".join(shown(column, limit=30) for column in header[:10]) or "none"
    listed += ", ..." if len(header) > 10 else ""
    short = {head.casefold(): head for head in header[:100] if len(head) <= MAX_LABEL}
    meant = difflib.get_close_matches(wanted.casefold(), short, n=1)
    hint = f"did you mean {shown(short[meant[0]])}? " if meant else ""
    example = short[meant[0]] if meant else "..."
    needed = "needed are n and error, or n and one column per seed or model:"
    problem = f"no {source.column} {shown(wanted)}, found {listed}; {hint}{needed}"
    return _ask(source, problem, name, example)


def _values(grid: Grid, layout: _Layout, rest: list[int]) -> list[_Values]:
    """The columns of values, where none is named by the user."""
    header, source = grid.header, grid.source
    heads = _heads(header, rest)
    exact = [at for at in rest if _key(header[at]) == "error" and not heads[at].model]
    pure = exact or [at for at in rest if heads[at].metric and not heads[at].model]
    if pure:
        return _of_metrics(grid, layout, rest, pure)
    seeds = [at for at in rest if heads[at].seed and not heads[at].model]
    others = [at for at in rest if at not in seeds]
    odd = [at for at in others if not _is_model(header[at])]
    odd += [at for at in others if set(words(header[at])) & _SPREADS]  # such as U-Net std
    all_words = [words(header[at]) for at in others]
    names = {header[at].casefold() for at in others}
    for at in others:  # such as U-Net hi, and FC/KO
        *first, last = words(header[at]) or [""]
        parts = [part.strip().casefold() for part in re.split(r"[/÷]| vs ", header[at])]
        if (last in _ENDS and first in all_words) or (len(parts) == 2 and names.issuperset(parts)):
            odd.append(at)
    if not rest and len(header) > 1 and all(_is_empty(c) for _, row in grid.rows for c in row[1:]):
        raise source.error("holds no measurements; add rows with n and error")
    if not rest:
        raise _missing("error", "error", grid)
    if odd:
        listed = ", ".join(dict.fromkeys(shown(header[at]) for at in odd[:10]))
        likely = [at for at in rest if not set(words(header[at])) & _SPREADS] or rest
        likely = [at for at in likely if at not in odd] or likely
        likely.sort(key=lambda at: "test" not in words(header[at]))
        rule = "can name neither a seed nor a model, and without a column 'error' each column must"
        problem = f"{listed} {rule}; remove what is no error, or"
        raise _ask(source, problem, "error", header[likely[0]], " to read that one alone")
    if seeds and others:
        raise source.error(
            f"column {shown(header[seeds[0]])} names a seed and {shown(header[others[0]])} does "
            "not; name all columns after seeds, or after models, or remove some"
        )
    if seeds:
        if layout.seeds:
            raise source.error(
                f"seeds are in column {shown(header[layout.seeds[0]])} and in the names of "
                f"columns, such as {shown(header[seeds[0]])}; remove one of them"
            )
        listed = ", ".join(heads[at].seed for at in seeds[:10])
        layout.notes.append(f"one column for each seed ({listed}{', ...' * (len(seeds) > 10)})")
        return [_Values(at, seed=heads[at].seed) for at in seeds]
    if layout.model is not None:
        listed = ", ".join(shown(header[at]) for at in others[:5])
        problem = (
            f"models are in column {shown(header[layout.model])}, and the columns {listed} name "
        )
        problem += "no seeds; name them s1, s2, ..., or"
        raise _ask(source, problem, "error", header[others[0]], " for the one to read")
    apart = all(heads[at].metric for at in others)
    with_seeds = all(heads[at].seed for at in others) and not layout.seeds
    made = []
    for at in others:
        found = heads[at]
        if not apart:  # the metric's word belongs to the model's name
            found = _parted(_base(header[at]), metrics=False)
        if not with_seeds:
            found = _Values(at, model=header[at] if not apart else found.model, metric=found.metric)
        made.append(_Values(at, model=found.model, metric=found.metric, seed=found.seed))
    models = list(dict.fromkeys(each.model for each in made))
    listed = ", ".join(map(shown, models[:10])) + (", ..." if models[10:] else "")
    layout.notes.append(f"one column for each model{' and seed' * with_seeds} ({listed})")
    return made


def _of_metrics(grid: Grid, layout: _Layout, rest: list[int], pure: list[int]) -> list[_Values]:
    """Columns that are named after metrics; those of the training data are left out."""
    header = grid.header
    heads = {at: each for at, each in _heads(header, rest).items() if at in pure}
    for unwanted in (_TRAINED_ON, {"val", "valid", "validation", "dev"}):
        kept = [at for at in pure if not unwanted.intersection(words(heads[at].metric))]
        pure = kept or pure
    pure.sort(key=lambda at: "test" not in words(header[at]))  # which a question then names
    first = shown(header[pure[0]])
    if all(_TRAINED_ON.intersection(words(heads[at].metric)) for at in pure):
        problem = f"{first} is of the training data; give errors on test data, or"
        raise _ask(grid.source, problem, "error", header[pure[0]], " if it is not")
    seeds = [at for at in rest if at not in pure and _parted(_base(header[at])).seed]
    if any(not _parted(_base(header[at])).metric for at in seeds):
        problem = f"columns {first} and {shown(header[seeds[0]])} may both hold errors;"
        raise _ask(grid.source, problem, "error", header[pure[0]], ", or remove one")
    if layout.metric is not None and len(pure) > 1:
        problem = f"values may be in {', '.join(shown(header[at]) for at in pure[:5])};"
        raise _ask(grid.source, problem, "error", header[pure[0]], " for the right one")
    long = layout.model is not None or layout.status is not None or bool(layout.seeds)
    models = [at for at in rest if at not in heads and _is_model(header[at])]
    if models and not long:  # a table of runs may have columns of settings
        listed = ", ".join(shown(header[at]) for at in models[:5])
        problem = f"{listed} may be errors as well, beside {first}; remove what is no error, or"
        raise _ask(grid.source, problem, "error", header[pure[0]], " to read that one alone")
    made = [_Values(at, metric=_own_metric(heads[at].metric), seed=heads[at].seed) for at in pure]
    names = list(dict.fromkeys(each.metric for each in made if each.metric))
    if names:
        layout.notes.append(f"values from {', '.join(map(shown, names[:5]))}")
    if any(each.seed for each in made):
        layout.notes.append(f"one column for each seed ({len({each.seed for each in made})})")
    return made


def _own_metric(head: str) -> str:
    """A column's name as the name of its metric; `error` and `value` name none."""
    return "" if _key(head) in _ERROR | {"value", "wert"} else _base(head)


def _by_size(grid: Grid, layout: _Layout, rest: list[int]) -> _Layout:
    """A table whose columns are named after N, with a row for each seed or model."""
    header = grid.header
    sizes = [at for at in rest if re.fullmatch(r"(n\s*=\s*)?[0-9]+", header[at], re.IGNORECASE)]
    if len(sizes) < 2:
        raise _missing("n", "n", grid)
    others = [at for at in rest if at not in sizes]
    if layout.model is None and not layout.seeds and len(others) == 1:
        layout.model = others[0]  # its only other column names the rows
        layout.notes.append(f"models from {shown(header[others[0]])}")
    elif others:
        raise grid.source.error(
            f"columns are named after N, and {shown(header[others[0]])} is neither a seed nor a "
            "model; name it seed or model, or remove it"
        )
    layout.notes.insert(0, "one column for each N")
    layout.values = [_Values(at, n=float(re.sub(r"\D", "", header[at]))) for at in sizes]
    return layout


def _heads(header: list[str], places: list[int]) -> dict[int, _Values]:
    """What names of columns say; a bracket in them is a unit, or tells models apart."""
    heads = {at: _parted(_base(header[at])) for at in places}
    inside = {found[1] for at in places if (found := _BRACKET.search(header[at]))}
    alike = len(set(map(_base, (header[at] for at in places)))) < len(places)
    if len(inside) > 1 and (alike or any(each.seed for each in heads.values())):
        return {at: _parted(re.sub(r"[\[\]()]+", " ", header[at]).strip()) for at in places}
    return heads


def _parted(base: str, *, metrics: bool = True) -> _Values:
    """The seed, the metric and the model in the name of a column."""
    if re.fullmatch(r"[0-9]+", base):
        return _Values(0, seed=base)
    found = _SEED_AT_END.fullmatch(base)
    seed, rest = (found["seed"], found["rest"] or "") if found else ("", base)
    if not rest:
        return _Values(0, seed=base)
    tokens = re.split(r"[\s_/:]+", rest)
    named = [token for token in tokens if _of_metric(token)]
    if not metrics or not any(_names_metric(token) for token in named):
        return _Values(0, model=rest, seed=seed)
    if len(named) == len(tokens):
        return _Values(0, metric=rest, seed=seed)
    model = " ".join(token for token in tokens if not _of_metric(token))
    return _Values(0, model=model, metric="_".join(named), seed=seed)


def _names_metric(token: str) -> bool:
    return suggested_unit(token) is not None or bool(_VALUES.intersection(words(token)))


def _of_metric(token: str) -> bool:
    """Whether a token consists of words that names of metrics have, such as `val` and `mse`."""
    found = words(token)
    return bool(found) and all(
        word in _VALUES or word in _BESIDE_METRICS or suggested_unit(word) is not None
        for word in found
    )


def _is_model(head: str) -> bool:
    """Whether a head can name a model: statistics, times and the like cannot."""
    found = set(words(head))
    return not found or not found <= _NO_MODELS


# --- Numbers as people write them ----------------------------------------------------------------


def _bare(text: str) -> str:
    """A number without percent sign, without spaces between thousands, with a plain minus."""
    text = text.removesuffix("%").strip().replace("\u2212", "-")
    return _SPACES.sub("", text)


def _is_empty(cell: object) -> bool:
    """Whether a cell for a number has none, as where a run has crashed."""
    return cell is None or (isinstance(cell, str) and cell.casefold() in _EMPTY)


def _looks_numeric(cell: object) -> bool:
    return _is_numeric(cell) if isinstance(cell, str) else _is_number(cell)


@lru_cache(maxsize=4096)
def _is_numeric(cell: str) -> bool:
    text = _bare(cell)
    return (
        len(text) <= MAX_LABEL
        and text.isascii()
        and any(each.fullmatch(text) for each in (_POINT, _COMMA, *_GROUPS.values()))
    )


def _decimal_mark(grid: Grid, places: Sequence[int]) -> str | None:
    """The mark of decimals in a table: the point, the comma, or None where nothing tells."""
    first: dict[str, str] = {}
    for position, row in grid.rows:
        for at in places:
            text = _bare(row[at]) if isinstance(row[at], str) else ""
            if not _looks_numeric(text) or _EITHER.fullmatch(text) or not re.search("[.,]", text):
                continue
            marks = [
                mark
                for mark, plain in ((".", _POINT), (",", _COMMA))
                if plain.fullmatch(text) or _GROUPS[mark].fullmatch(text)
            ]
            for mark in marks[:1] if len(marks) == 1 else []:
                first.setdefault(
                    mark, f"{grid.source.at(position, grid.header[at])}: {shown(row[at])}"
                )
    if len(first) > 1:
        found = f"decimal points ({first['.']}) and commas ({first[',']}) are mixed"
        raise grid.source.error(f"{found}; write all numbers in one way")
    if not first and grid.delimiter in (",", " "):  # which no table with decimal commas has
        texts = [row[at] for _, row in grid.rows for at in places if isinstance(row[at], str)]
        found_marks = set("".join(texts)) & {".", ","}
        return "." if found_marks == {"."} else None
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
        if re.fullmatch(r"[-+]?inf(inity)?", text, re.IGNORECASE):
            raise _CellError(f"is {shown(cell)}", "leave the cell empty if the run failed")
        raise _CellError(f"{shown(cell)} is no number", "write numbers as 64, 0.001 or 1e-3")
    if _EITHER.fullmatch(text) and (mark is None or (not whole and mark not in text)):
        if mark is None and whole and not text.endswith("000"):
            return float(re.sub("[.,]", "", text))
        remedy = "write thousands without the mark"
        if mark is None:
            remedy = f"add a zero to one of them if they are decimals, or {remedy}"
        raise _CellError(f"{shown(cell)} may be a thousand or a decimal", remedy)
    mark = mark or "."
    if _GROUPS[mark].fullmatch(text):
        text = text.replace("," if mark == "." else ".", "")
    try:
        return float(text.replace(",", ".") if mark == "," else text)
    except ValueError:
        remedy = f"write all with a decimal {'point' if mark == '.' else 'comma'}"
        raise _CellError(f"{shown(cell)} has another mark", remedy) from None


# --- Rows to columns -----------------------------------------------------------------------------


class Problems:
    """What is wrong with a table, and what to do about it; all of it is said at once."""

    def __init__(self, source: Source) -> None:
        self.source, self.found, self.remedies = source, list[str](), dict[str, None]()

    def add(self, where: str, what: str, remedy: str) -> None:
        """Note a problem, with its place."""
        self.found.append(f"{where}: {what}")
        self.remedies[remedy] = None

    def check(self) -> None:
        """Raise an error with the first of them, if there are any."""
        if self.found:
            more = len(self.found) - MAX_PROBLEMS
            listed = self.found[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
            raise self.source.error(f"{', '.join(listed)}; {', '.join(self.remedies)}")


def _verified(grid: Grid) -> Grid:
    """The table without the digests that korisk wrote into a file, if its rows fit them."""
    at = grid.header.index(DIGEST) if DIGEST in grid.header else -1
    found = [row[at] for _, row in grid.rows] if at >= 0 and grid.source.name else []
    if not any(isinstance(each, str) and re.fullmatch("[a-fq-z]{16}", each) for each in found):
        return grid
    header = grid.header[:at] + grid.header[at + 1 :]
    rows = [(position, row[:at] + row[at + 1 :]) for position, row in grid.rows]
    made = row_digests(header, [row for _, row in rows])
    wrong = [rows[place][0] for place, own in enumerate(made) if own != found[place]]
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


def measurements(grid: Grid, columns: Columns) -> Measurements:
    """The measurements of a table."""
    grid = _verified(grid)
    layout, source, header = _layout(grid, columns), grid.source, grid.header
    problems, left_out = Problems(source), Counter[str]()
    signs, values = Counter[str](), Counter[str]()  # of percent, and all, in each column
    places = [each.place for each in layout.values] + ([] if layout.n is None else [layout.n])
    mark = _decimal_mark(grid, places)
    made: list[Measurement] = []
    labels = [at for at in (layout.model, *layout.seeds) if at is not None and source.name]
    labels = [at for at in labels if not all(_sums_up(row[at]) for _, row in grid.rows)]
    units = [row[header.index("unit")] if "unit" in header else "" for _, row in grid.rows]
    if not all(isinstance(unit, str) and unit in UNITS for unit in units):
        units = [""] * len(units)  # such as mm, which says nothing of the metric
    texts: dict[object, str] = {}  # one copy of each label

    def number(position: int, row: list[object], place: int, *, whole: bool) -> float | None:
        """The number in a cell; None where it is empty, or not as it should be."""
        if _is_empty(row[place]):
            return None
        try:
            return _number(row[place], mark, whole=whole)
        except _CellError as error:
            problems.add(source.at(position, header[place]), *error.args)
            return None

    for each in layout.values:
        for what in ("model", "metric", "seed"):
            try:
                label(what, getattr(each, what))
            except KoriskError as error:
                raise source.error(f"column {each.place + 1}: {error}") from None
    for (position, row), unit in zip(grid.rows, units, strict=True):
        state = None if layout.status is None else row[layout.status]
        if state is not None and str(state).casefold() not in _FINISHED:
            left_out[f"{str(state).casefold()[:20]} run"] += 1
            continue
        if summary := _summary(row, layout, labels):
            what = f"{shown(summary)} sums up other rows"
            problems.add(source.at(position), what, "remove such rows")
            continue
        n = None if layout.n is None else number(position, row, layout.n, whole=True)
        filled = [each for each in layout.values if not _is_empty(row[each.place])]
        if layout.n is not None and n is None:
            if filled and _is_empty(row[layout.n]):
                problems.add(source.at(position, header[layout.n]), "is missing", "write N")
            continue
        try:
            model, metric, seed = (
                _label(row, each, header, texts)
                for each in ([layout.model], [layout.metric], layout.seeds)
            )
        except KoriskError as error:
            problems.add(source.at(position), *str(error).split("; ", 1))
            continue
        if len(filled) < len(layout.values):
            left_out["empty cell"] += len(layout.values) - len(filled)
        for each in filled:
            value = number(position, row, each.place, whole=False)
            if value is None:
                continue
            if str(row[each.place]).endswith("%"):
                signs[header[each.place]] += 1
            values[header[each.place]] += 1
            size = n if n is not None else each.n or math.nan
            whose = (each.seed or seed, each.model or model, metric or each.metric, unit)
            heads = (header[each.place if layout.n is None else layout.n], header[each.place])
            made.append(Measurement(position, size, value, *whose, heads))
    for head, count in signs.items():
        if count < values[head]:
            what = f"{count} of {values[head]} values have percent signs"
            problems.add(f"{source.column} {shown(head)}", what, "write all with or without")
    problems.check()
    percent = {
        head
        for head in values
        if signs[head] or ("%" in head and (_names_metric(head) or _base(head) != head.strip()))
    }
    skipped = [f"{n} {what}{'s' * (n > 1)}" for what, n in left_out.items()]
    if not made:
        left = f" but {', '.join(skipped)}, which are left out; add some"
        raise source.error(
            "holds no measurements", left if skipped else "; add rows with n and error"
        )
    unnamed = [row.position for row in made if not row.model]
    if layout.model is not None and 0 < len(unnamed) < len(made):
        where = source.at(unnamed[0], header[layout.model])
        raise source.error(f"{where}: is missing; name the model in every row")
    runs = [at for at, head in enumerate(header) if _key(head) in _RUNS and layout.n != at]
    taken = Counter((row.n, row.model, row.metric, row.seed) for row in made)
    [((n, *_), times)] = taken.most_common(1)
    if times > 1 and runs and not layout.seeds:
        problem = f"N = {n:g} is there {times} times, and no column is named seed;"
        raise _ask(source, problem, "seed", header[runs[0]], " if each row has a seed of its own")
    notes = [*layout.notes, *grid.notes, *(["decimal commas"] if mark == "," else [])]
    notes += [f"{text} left out" for text in skipped]
    return Measurements(source, made, percent, "; ".join(notes))


def _label(
    row: list[object], places: Sequence[int | None], header: list[str], texts: dict[object, str]
) -> str:
    """The text in one cell, or in several joined by a stroke."""
    parts = []
    for at in (place for place in places if place is not None):
        cell = row[at]
        if not (cell is None or isinstance(cell, str | Real)):
            label(shown(header[at]), cell)  # refuses it
        if (type(cell), cell) not in texts:
            texts[type(cell), cell] = label(shown(header[at]), cell)
        parts.append(texts[type(cell), cell])
    return "/".join(parts)


def _summary(row: list[object], layout: _Layout, labels: list[int]) -> str:
    """The word by which a row says that it sums up others."""
    places: Iterable[int] = range(len(row))
    if layout.n is not None and row[layout.n] is not None:
        places = [layout.n, *labels]
    return next((str(row[at]) for at in places if _sums_up(row[at])), "")


def _sums_up(cell: object) -> bool:
    if not isinstance(cell, str) or len(cell) > MAX_LABEL:
        return False
    return bool(({cell.casefold().strip(" :.")} | set(words(cell)[:1])) & _TOTALS)
