"""Which column of a table is N, which hold errors, and whose they are.

Columns of the names below mean what they say, or what the user says of them. Where columns may be
models, seeds or something else, that is asked, with the options that answer.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple, TypedDict

from korisk.curves.cells import MAX_LABEL, begins_as_number, folded, is_empty, rough
from korisk.curves.formats import Grid
from korisk.curves.unit import suggested_unit, vocabulary, words
from korisk.errors import Argument, KoriskError, did_you_mean, invalid, shown

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
# What other columns are, by their whole names.
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
_NAMES_OF_ERRORS = vocabulary("error fehler erreur errore")  # which name no metric
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
_MEANS = vocabulary("mean average avg mittelwert mittel")
_DEVIATIONS = vocabulary("std stdev stddev sd streuung standardabweichung deviation")
SUMMARIES = _MEANS | _DEVIATIONS | vocabulary("median total sum summe sem min max")
# Heads of these words alone name neither a model nor a seed.
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
_LOG_N = re.compile(r"(?i)(\b|_)(log|ln)(\d|\b|_)")


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


Answer = tuple[str, object, str]  # an option, its value, and when it is right


class Values(NamedTuple):
    """A column of values: whose they are, as far as its name says it."""

    place: int
    n: float | None = None  # in a table with one column for each N
    model: str = ""
    metric: str = ""
    seed: str = ""
    deviation: int | None = None  # the column of its standard deviations


class Layout:
    """The places of columns, found one after the other, and notes on them."""

    def __init__(self, grid: Grid, options: Options) -> None:
        self.grid, self.header, self.options = grid, grid.header, options
        self.notes: list[str] = []
        self.keys = ["_".join(words(base(head))) for head in grid.header]
        self.scale = _checked("scale", options.get("scale"), _ROLES[:2])
        columns = _checked("columns", options.get("columns"), _ROLES)
        self.given = {role: place(grid, theirs, role) for role, theirs in columns.items()}
        ignored = {place(grid, name) for name in _listed(options.get("ignore"))}
        self.free = [
            at for at in range(len(self.header)) if at not in ignored | {*self.given.values()}
        ]
        cells = zip(*(row for _, row in grid.rows), strict=True)
        self.filled = [[cell for cell in column if not is_empty(cell)] for column in cells]
        shares = [(sum(map(begins_as_number, cells)), len(cells)) for cells in self.filled]
        self.numeric = {at for at, (count, total) in enumerate(shares) if 2 * count >= total > 0}
        self.n = self.one("n", [at for at in self.free if _names_n(self.keys[at])])
        self.seeds = [at for at in self.named("seed") if at != self.n]
        if "seed" not in self.given:
            self.seeds += [at for at in self.named("run") if self.counts_runs(at)]
        if len(self.seeds) > 1:
            self.notes.append(f"each of {self.names(self.seeds)} together is a seed")
        self.roles = {role: self.one(role, self.named(role)) for role in ("model", "metric")}
        self.roles["status"] = self.one("status", self.named("status"))
        self.roles["unit"] = next(iter(self.named("unit")), None)
        for role in ("exclude", "include"):
            flags = [at for at in self.named(role) if {*map(folded, self.filled[at])} <= {*FLAGS}]
            self.roles[role] = self.one(role, flags)
        order = options.get("last") or options.get("best")
        self.order = place(grid, order) if order else None
        taken = {self.n, self.order, *self.seeds, *self.roles.values()}
        taken |= {place(grid, name) for name in options.get("filter") or ()}
        self.rest = [at for at in self.free if at not in taken]
        self.values = self.values_found()
        used = {value.place for value in self.values} | {value.deviation for value in self.values}
        self.rest = [at for at in self.rest if at not in used]
        self.check_scales()

    def named(self, role: str) -> list[int]:
        """The columns of the listed names, or the one that the user named."""
        if role in self.given:
            return [self.given[role]]
        return [at for at in self.free if self.keys[at] in NAMED[role]]

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

    def counts_runs(self, at: int) -> bool:
        """Whether a column run, fold or trial numbers repetitions: `unet-1` and `ko-1` do not."""
        texts = set(map(str, self.filled[at]))
        stems = {re.sub(r"\d+", "", text) for text in texts}
        return at != self.n and (at in self.numeric or (len(stems) == 1 and stems != texts))

    def in_percent(self, at: int) -> bool:
        """Whether the head of a column says so, and not the name of a model."""
        head = self.header[at]
        return "%" in head and (_names_metric(head) or base(head) != head)

    # --- Questions ---

    def names(self, places: Iterable[int]) -> str:
        """The names of columns, in a message."""
        return in_short([shown(self.header[at]) for at in places])

    def column(self, role: str, at: int, when: str) -> Answer:
        """The answer that a column has a role; a name too long for a message is left open."""
        return "columns", {role: short(self.header[at])}, when

    def ignoring(self, places: Sequence[int], when: str) -> Answer:
        """The answer that columns say nothing."""
        names = [self.header[at] for at in places]
        return "ignore", short(names[0]) if len(names) == 1 else names, when

    def ask(self, problem: str, *answers: Answer) -> KoriskError:
        """The error for what can be meant in several ways, with the options that answer."""
        parts: list[str | Argument] = []
        for k, (name, value, when) in enumerate(answers):
            between = "" if k == 0 else ", or " if k == len(answers) - 1 else ", "
            parts += [between, Argument(name, value), f" {when}"]
        return self.grid.source.error(f"{problem}; pass ", *parts)

    def unsure(self, odd: list[int], fine: list[int]) -> KoriskError:
        """The question what columns are that are named after nothing known."""
        heads = [self.header[at] for at in odd]
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
        """Ask where numbers may be multiples, or N something else than a count of samples."""
        for role, at in (("n", self.n), ("error", self.values[0].place)):
            head = "" if at is None else self.header[at]
            inside = _BRACKET.search(head)
            scaled = _SCALED.search(inside[1] if inside else head)
            unknown = inside and not set(words(inside[1]) or "%") <= _OF_N | _BESIDE_N
            if role in self.scale:
                continue
            if role == "n" and _LOG_N.search(head):
                raise self.grid.source.error(f"{shown(head)} has logarithms; add a column n with N")
            if not (scaled or (role == "n" and unknown)):
                continue
            factor: object = ... if not scaled else 1000 if role == "n" else 0.001
            answers = [
                ("scale", {role: factor}, "to multiply them"),
                ("scale", {role: 1}, "if they are plain numbers"),
            ]
            problem = f"{shown(head)} may count in {shown(inside[1] if inside else head)}"
            raise self.ask(problem, *(answers if scaled else answers[::-1]))

    # --- Columns of values ---

    def values_found(self) -> list[Values]:
        """The columns of values: as the user named them, else by what their names say."""
        wide, header = self.options.get("wide"), self.header
        if wide not in (None, "seed", "model", "n"):
            raise invalid("wide", "be one of seed, model, n", wide, "leave it out")
        sizes = [at for at in self.rest if _SIZE.fullmatch(header[at])]
        if wide == "n" or (self.n is None and len(sizes) > 1 and not wide):
            return self.by_size(sizes)
        if self.n is None:
            raise missing(self.grid, "n", "n")
        if header[self.n] != "n":
            self.notes.append(f"N from {shown(header[self.n])}")
        if "error" in self.given:
            at = self.given["error"]
            metric = "" if self.keys[at] in _ERROR else base(header[at])
            return [Values(at, metric=metric, deviation=self.given.get("deviation"))]
        places = [at for at in self.rest if at in self.numeric or self.keys[at] == "error"]
        if not places and (len(header) < 2 or any(self.filled[at] for at in self.rest)):
            raise missing(self.grid, "error", "error")
        if not places:
            raise self.grid.source.error("holds no measurements; add rows with n and error")
        names = {at: base(header[at]) for at in places}
        if len({*names.values()}) < len(names):  # then brackets are no units
            names = {at: re.sub(r"[\[\]()]+", " ", header[at]).strip() for at in places}
        heads = {at: _parted(at, name) for at, name in names.items()}
        spreads = [at for at in places if set(words(header[at])) & _DEVIATIONS]
        means = [at for at in places if at not in spreads] or places
        partner = {_plain(heads[at]): at for at in spreads}
        if wide == "model":
            values = [Values(at, model=names[at]) for at in means]
        elif wide == "seed":
            parted = _seeds_of_models([names[at] for at in means])
            pairs = [parted.get(names[at], ("", names[at])) for at in means]
            values = [Values(at, model=m, seed=s) for at, (m, s) in zip(means, pairs, strict=True)]
        else:
            values = self.chosen({at: heads[at] for at in means}, bool(spreads))
        return [v._replace(deviation=partner.get(_plain(heads[v.place]))) for v in values]

    def chosen(self, heads: dict[int, Values], spread: bool) -> list[Values]:
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
            labels = in_short([heads[at].seed for at in seeds])
            self.notes.append(f"one column for each seed ({labels})")
            return [heads[at] for at in seeds]
        texts = {at: list(map(str, self.filled[at])) for at in others}  # a cell may be a list
        varied = [at for at in others if len(set(texts[at])) != 1 or len(texts[at]) < 2]
        others = varied or others  # a constant is no learning curve
        odd = others if seeds or self.roles["model"] is not None else self.odd(others)
        if odd or seeds:
            raise self.unsure(odd or self.seeds, [*seeds, *(at for at in others if at not in odd)])
        repeated = all(heads[at].seed for at in others) and not self.seeds
        values = [heads[at]._replace(seed=heads[at].seed * repeated) for at in others]
        if not repeated and not all(heads[at].metric for at in others):
            values = [Values(at, model=base(self.header[at])) for at in others]
        if len({value[1:5] for value in values}) < len(values):
            values = [Values(at, model=self.header[at].strip()) for at in others]
        models = in_short([shown(value.model) for value in values])
        self.notes.append(f"one column for each model{' and seed' * repeated} ({models})")
        return values

    def odd(self, places: list[int]) -> list[int]:
        """Columns that may be something else than the errors of a model.

        Numbers, statistics, names that extend another's (FC and FC CI95), seeds of a model, and
        what rises where others fall, such as times.
        """
        named = {at: words(self.header[at]) for at in places}
        numbered = _seeds_of_models(
            [head for at in places if not _SEED_AT_END.fullmatch(head := self.header[at])]
        )
        odd, falls = [], {}
        for at, own in named.items():
            head = self.header[at]
            longer = any(own[: len(other)] == other != own for other in named.values() if other)
            if longer or head in numbered or _SHORT.fullmatch(head) or set(own) <= _STATISTICS:
                odd.append(at)
                continue
            pairs = [(rough(row[self.n or 0]), rough(row[at])) for _, row in self.grid.rows]
            pairs = [pair for pair in pairs if not math.isnan(sum(pair))]
            if len(pairs) > 1:
                falls[at] = max(pairs)[1] < min(pairs)[1]
        return odd + [at for at in falls if not falls[at] and any(falls.values())]

    def of_metrics(
        self, heads: dict[int, Values], pure: list[int], plain: list[int]
    ) -> list[Values]:
        """Columns that are named after metrics; those of the training data are left out."""
        others = [at for at, head in heads.items() if head.seed or (head.model and head.metric)]
        others = [at for at in others if at not in pure]
        for unwanted in (_TRAINED_ON, _VALIDATED_ON):
            pure = [at for at in pure if not unwanted & {*words(heads[at].metric)}] or pure
        pure.sort(key=lambda at: "test" not in words(self.header[at]))  # which a question names
        if all(_TRAINED_ON & {*words(heads[at].metric)} for at in pure):
            problem = f"{self.names(pure[:1])} is of the training data, not of test data"
            raise self.ask(problem, self.column("error", pure[0], "if it is not"))
        if others or (self.roles["metric"] is not None and len(pure) > 1):
            alone = self.column("error", pure[0], "for that one alone")
            rest = [self.ignoring(pure, "to read the others")] if others else []
            raise self.ask(f"values may be in {self.names([*pure, *others])}", alone, *rest)
        if self.seeds and any(heads[at].seed for at in pure):
            raise self.unsure(self.seeds, pure)
        values = [Values(at, seed=heads[at].seed) if at in plain else heads[at] for at in pure]
        metrics = dict.fromkeys(shown(value.metric) for value in values if value.metric)
        seeds = {value.seed for value in values if value.seed}
        self.notes += [f"values from {', '.join([*metrics][:5])}"] if metrics else []
        self.notes += [f"one column for each seed ({len(seeds)})"] if seeds else []
        return values

    def by_size(self, sizes: list[int]) -> list[Values]:
        """A table whose columns are named after N, with a row for each seed or model."""
        others = [at for at in (*self.rest, self.n) if at not in (None, *sizes, *self.seeds)]
        self.n = None
        if not sizes:
            raise missing(self.grid, "n", "n")
        self.notes.append("one column for each N")
        for at in others if self.roles["model"] is None and not self.seeds else []:
            assert at is not None
            labels = [_SEED_AT_END.fullmatch(str(cell)) for cell in self.filled[at]]
            seeded = all(match and not match["rest"] for match in labels)
            if len(others) == 1 and at not in self.numeric:  # the only other column names the rows
                self.seeds += [at] * seeded
                self.roles["model"] = None if seeded else at
                role = "seeds" if seeded else "models"
                self.notes.append(f"{role} from {shown(self.header[at])}")
                self.rest = [other for other in self.rest if other != at]
            elif len(self.grid.rows) > 1:
                problem = f"columns are named after N, and {shown(self.header[at])} names the rows"
                role = "seed" if at in self.numeric else "model"
                raise self.ask(problem, self.column(role, at, f"if it has {role}s"))
        return [Values(at, n=float(re.sub(r"\D", "", self.header[at]))) for at in sizes]


def filtered(grid: Grid, options: Options) -> Grid:
    """The rows that the user asked for."""
    rows, notes = grid.rows, list(grid.notes)
    for name, wanted in (options.get("filter") or {}).items():
        at, texts = place(grid, name), _listed(wanted)
        negated = all(text.startswith("!") for text in texts)
        chosen = {folded(text.removeprefix("!")) for text in texts}
        matching = [row for row in rows if (folded(row[1][at]) in chosen) != negated]
        if not matching:
            known = ", ".join(dict.fromkeys(shown(row[at]) for _, row in rows[:100]))
            raise grid.source.error(f"no row has {name}={', '.join(texts)}; it has {known[:200]}")
        out = len(rows) - len(matching)
        notes.append(f"{out} row{'s' * (out != 1)} left out by {name}={', '.join(texts)}")
        rows = matching
    return replace(grid, rows=rows, notes=notes)


def in_short(texts: Sequence[str], most: int = 10) -> str:
    """A list in a message: each text once, and not too many."""
    distinct = list(dict.fromkeys(texts))
    return ", ".join(distinct[:most]) + ", ..." * bool(distinct[most:])


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def short(head: str) -> str:
    """A name in a message, left open where it is too long."""
    return head if len(head) <= MAX_LABEL else "..."


def base(head: str) -> str:
    """The name in a head, without a tracker's prefix and without a unit in brackets."""
    name = _LOGARITHM.sub(r"\1 \2", _PREFIX.sub("", head.strip(), count=1))
    return _BRACKET.sub("", name).strip() or head.strip()


def place(grid: Grid, name: object, role: str = "") -> int:
    """The column of a name that the user gave."""
    heads, wanted = [head.casefold() for head in grid.header], str(name).strip()
    if wanted.casefold() not in heads:
        raise missing(grid, role, wanted)
    return heads.index(wanted.casefold())


def missing(grid: Grid, role: str, wanted: str) -> KoriskError:
    """The error for a column that is not there, with the nearest name."""
    names = in_short([shown(column, limit=30) for column in grid.header])
    known = {head.casefold(): head for head in grid.header[:100] if len(head) <= MAX_LABEL}
    meant = [known[near] for near in difflib.get_close_matches(wanted.casefold(), known, n=1)]
    problem = f"no {grid.source.column} {shown(wanted)}, found {names}; "
    problem += f"did you mean {shown(meant[0])}? " if meant else ""
    if not role:
        return grid.source.error(f"{problem}name one of these")
    needed = "needed are n and error, or n and one column per seed or model: pass "
    example = Argument("columns", {role: meant[0] if meant else "..."})
    return grid.source.error(f"{problem}{needed}", example)


def _names_metric(token: str) -> bool:
    return any(suggested_unit(word) is not None or word in _VALUES for word in words(token))


def _checked(name: str, given: object, known: Sequence[str]) -> Mapping[str, Any]:
    """The mapping that the user gave, if its keys are names of ours."""
    mapped = {} if given is None else given
    if not isinstance(mapped, Mapping):
        raise invalid(name, "map our names to yours", mapped, "pass a dict")
    kind, words_for_it = (str, "a column's name") if name == "columns" else (Real, "a number")
    for key, value in mapped.items():
        if key not in known:
            hint = did_you_mean(str(key)[:MAX_LABEL], known).removeprefix("; ")
            raise invalid(name, f"map {', '.join(known)}", key, hint)
        if not isinstance(value, kind):
            raise invalid(f"{name}[{key!r}]", f"be {words_for_it}", value, "write one")
    return mapped


def _names_n(key: str) -> bool:
    parts = set(key.split("_"))
    return bool(parts & _OF_N) and parts <= _OF_N | _BESIDE_N


def _seeds_of_models(heads: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The model and the seed in heads such as KO_s1, or KO 1, KO 2, FC 1, FC 2; else none."""
    matches = [_NUMBERED.fullmatch(head) for head in heads]
    pairs = [(match["model"], match["seed"]) for match in matches if match]
    models, seeds = ({pair[k] for pair in pairs} for k in (0, 1))
    every = len(models) * len(seeds) == len(set(pairs)) == len(heads) > len(models)
    lettered = all(match and match["letter"] for match in matches)
    return dict(zip(heads, pairs, strict=True)) if every and (lettered or len(models) > 1) else {}


def _parted(at: int, name: str) -> Values:
    """The seed, the metric and the model in the name of a column."""
    match = _SEED_AT_END.fullmatch(name)
    seed, rest = (match["seed"], match["rest"] or "") if match else ("", name)
    if match and not rest:
        return Values(at, seed=name)
    tokens = re.split(r"[\s_/:]+", rest)
    known = _VALUES | _BESIDE_METRICS | _MEANS
    named = [
        token
        for token in tokens
        if words(token) and all(word in known or suggested_unit(word) for word in words(token))
    ]
    if not any(map(_names_metric, named)):
        return Values(at, model=rest, seed=seed)
    model = " ".join(token for token in tokens if token not in named).strip(" -")
    return Values(at, model=model, metric="_".join(named) if model else rest, seed=seed)


def _plain(head: Values) -> str:
    """What a column of means and that of its standard deviations have in common."""
    named = words(f"{head.model} {head.metric} {head.seed}")
    return " ".join(word for word in named if word not in _MEANS | _DEVIATIONS | _ERROR)
