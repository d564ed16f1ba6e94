"""Units: conversion of a user's metric to an error, and back."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._checks import one_of
from korisk.errors import Argument, Message, shown

Array = NDArray[np.float64]

# Squares and ratios of errors within these bounds neither overflow nor vanish.
SMALLEST_ERROR = 1e-100
LARGEST_ERROR = 1e100

# Remedies for values that cannot be fitted.
_LOGARITHM = "a fit needs its logarithm: leave it out"
_PERFECT = "a perfect score leaves no error to fit: leave it out"

_SCORES = ("accuracy", "auc", "dice", "f1", "iou", "r2", "ssim")
_ALIASES = {**dict.fromkeys(_SCORES, "complement"), "db": "psnr", "rmse": "squared"}
# Errors in percent: their numbers are taken as they are, and so are those of targets.
_ALIASES |= {"error_percent": "error", "rmse_percent": "squared"}

# Names in tables, by what they name; see the file.
NAMES = {
    name: " ".join(text.split())
    for name, text in re.findall(
        r"^(\w+): (.*(?:\n  .*)*)",
        Path(__file__).with_name("names.txt").read_text("utf-8"),
        re.MULTILINE,
    )
}


def listed_words(*kinds: str) -> list[set[str]]:
    """The words that names.txt lists for each kind."""
    return [{*NAMES[kind].split()} for kind in kinds]


# Names of metrics by their unit, in the words of `words`; of "error", smaller is better.
_METRICS = (*_SCORES, "complement", "psnr", "rmse", "error")
_PHRASES = {tuple(phrase.split()): unit for unit in _METRICS for phrase in NAMES[unit].split(", ")}
_LONGEST = max(map(len, _PHRASES))
# Scores that may be below zero; others of at most 1 are fractions.
(_SIGNED,) = listed_words("signed")

DECIBELS = {"db", "decibel", "decibels"}
_OF_SKLEARN = {"error", "loss", "score"}  # ends of its names neg_...
_NOUNS = {"complement": "score", "percent": "score", "squared": "value", "negated": "score"}


@dataclass(frozen=True)
class _Law:
    to_error: Callable[[Array], Array]
    from_error: Callable[[Array], Array]
    rule: str
    remedy: str | Message
    larger_is_better: bool = True


_OF_ERRORS = Message(
    _LOGARITHM, ", or pass ", Argument("unit", ...), " if larger values are better"
)
_OF_SCORES = Message(_PERFECT, ", or pass ", Argument("unit", "percent"), " if 100 is perfect")
_OF_NEGATED = Message(
    "this unit is for scores such as scikit-learn's neg_mean_squared_error; pass ",
    *(Argument("unit", "error"), " for errors above 0"),
)
_LAWS = {
    "error": _Law(np.copy, np.copy, "above 0 (1e-100 to 1e100)", _OF_ERRORS, False),
    "complement": _Law(lambda x: 1.0 - x, lambda e: 1.0 - e, "below 1", _OF_SCORES),
    "percent": _Law(lambda x: 100.0 - x, lambda e: 100.0 - e, "below 100", _PERFECT),
    "psnr": _Law(
        lambda x: np.power(10.0, -x / 10.0),
        lambda e: -10.0 * np.log10(e),
        *("from -1000 to 1000", "give decibels, and leave a perfect reconstruction out"),
    ),
    "squared": _Law(
        # A root is not negative; without nan, the square of one would pass for an error.
        lambda x: np.where(x > 0, np.square(x), np.nan),
        np.sqrt,
        *("above 0 (1e-50 to 1e50)", _LOGARITHM, False),
    ),
    "log10": _Law(
        lambda x: np.power(10.0, x),
        np.log10,
        *("from -100 to 100", "give decimal logarithms of errors", False),
    ),
    "log2": _Law(np.exp2, np.log2, "from -330 to 330", "give binary logarithms of errors", False),
    "ln": _Law(np.exp, np.log, "from -230 to 230", "give natural logarithms of errors", False),
    "error_db": _Law(
        lambda x: np.power(10.0, x / 10.0),
        lambda e: 10.0 * np.log10(e),
        *("from -1000 to 1000", "give errors in decibels, 10 log10 of each", False),
    ),
    "negated": _Law(np.negative, np.negative, "below 0", _OF_NEGATED),
}


@dataclass(frozen=True)
class Unit:
    """The unit of a metric; `to_error` converts values to errors, of which smaller is better.

    Take one from `UNITS`, or pass its name where a unit is expected.

    Parameters
    ----------
    name : str
        The user's name for it.
    law : str
        The formula: accuracy and ssim are both `complement`, 1 - x.

    Raises
    ------
    KoriskError
        If there is no such law.

    Examples
    --------
    >>> import korisk as kr
    >>> psnr = kr.curves.UNITS["psnr"]
    >>> psnr.to_error([20, 30]).tolist(), psnr.larger_is_better
    ([0.01, 0.001], True)
    >>> kr.curves.UNITS["accuracy"].from_error(0.25).item()
    0.75
    """

    name: str
    law: str

    def __post_init__(self) -> None:
        one_of(f"law of unit {shown(self.name)}", self.law, tuple(_LAWS))

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger value of the metric is a smaller error."""
        return _LAWS[self.law].larger_is_better

    @property
    def logarithmic(self) -> bool:
        """Whether values are drawn on a logarithmic axis: errors and their roots."""
        return self.law in ("error", "squared")

    @property
    def rule(self) -> str:
        """The valid range of values, such as "below 1"."""
        return _LAWS[self.law].rule

    @property
    def noun(self) -> str:
        """The noun for a value in this unit, for messages."""
        return _NOUNS.get(self.name, self.name)

    def to_error(self, x: ArrayLike) -> Array:
        """Convert metric values to errors; values out of range give nonpositive or nonfinite ones.

        Parameters
        ----------
        x : array of float
            Values in this unit.

        Returns
        -------
        array
            Errors, of the same shape.
        """
        with np.errstate(all="ignore"):
            return np.asarray(_LAWS[self.law].to_error(np.asarray(x, np.float64)))

    def from_error(self, e: ArrayLike) -> Array:
        """Convert errors to metric values.

        Parameters
        ----------
        e : array of float
            Errors.

        Returns
        -------
        array
            Values in this unit, of the same shape.
        """
        with np.errstate(all="ignore"):
            return np.asarray(_LAWS[self.law].from_error(np.asarray(e, np.float64)))

    def refusal(self, value: float) -> Message:
        """The message for a value out of range.

        Parameters
        ----------
        value : float
            The value.

        Returns
        -------
        Message
            The rule, the value and the remedy.
        """
        law = _LAWS[self.law]
        return Message(f"{self.noun} must be {law.rule}, got {value!r}; ", law.remedy)


UNITS: dict[str, Unit] = {
    name: Unit(name, law) for name, law in ({law: law for law in _LAWS} | _ALIASES).items()
}


def unit(name: str | Unit) -> Unit:
    """Look up a unit by its name or by that of a metric; a unit is returned unchanged."""
    if isinstance(name, Unit):
        return name
    key = str(name)[:80].strip().casefold()
    inverted = re.match(r"1\s*[-\u2212\u2013/]", key)
    if key not in UNITS and not inverted and metric_units(words(key)):  # acc, roc_auc, mse, ...
        key = unit_by_name(key) or key
    one_of("unit", key, tuple(UNITS))
    return UNITS[key]


@lru_cache(maxsize=1024)
def words(name: str) -> list[str]:
    """Split the name of a column or metric into words: `test_R²` and `testR2` are test, r2."""
    plain = unicodedata.normalize("NFKC", name).replace("^", "")
    plain = re.sub(r"(?<![A-Za-z])mAP", "meanap", plain)  # MAP may be an estimator
    # A capital letter begins a word within camel case, and an acronym after two small letters.
    apart = re.sub(r"(?<=[a-z])(?=[A-Z][a-z0-9])|(?<=[a-z]{2})(?=[A-Z]{2})", " ", plain)
    return re.findall(r"[^\W_]+", apart.casefold())


def metric_units(tokens: Sequence[str]) -> dict[tuple[int, int], str]:
    """The metrics that words name, the longest first: their unit by the first and last word."""
    units: dict[tuple[int, int], str] = {}
    start = 0
    while start < len(tokens):
        lengths = range(min(_LONGEST, len(tokens) - start), 0, -1)
        length = next((k for k in lengths if tuple(tokens[start : start + k]) in _PHRASES), 0)
        if length:
            units[start, start + length] = _PHRASES[tuple(tokens[start : start + length])]
        start += length or 1
    return units


def suggested_unit(metric_name: str) -> str | None:
    """The unit to suggest for a metric of which larger is better by its name, or None."""
    if metric_name.casefold().startswith("neg_") and words(metric_name)[-1] in _OF_SKLEARN:
        return "negated"
    units = list(metric_units(words(metric_name)).values())
    if {"error", "rmse"} & {*units} or re.match(r"\s*1\s*[-\u2212\u2013]", metric_name):
        return None  # "dice loss", "1 - ssim"
    return units[0] if units else None


def lowest(metric_name: str) -> float:
    """The lowest value that a score of at most 1 can have."""
    tokens = words(metric_name)
    if "nse" in tokens or "r2" in metric_units(tokens).values():
        return -np.inf
    return 0.0 if _SIGNED.isdisjoint(tokens) else -1.0


def unit_by_name(metric_name: str, head: str = "") -> str:
    """The unit by the names of a metric and its column: `psnr`, `rmse`, `MSE (log10)`, else error.

    Empty for an ambiguous transform, such as `log MSE`, whose base is not known.
    """
    score, spoken = suggested_unit(metric_name), words(f"{metric_name} {head}")
    if score is not None:
        return score
    units, name = {*metric_units(spoken).values()}, words(metric_name)
    if base := re.search(r"\blog ?(10|2)\b", " ".join(spoken)):
        return f"log{base[1]}"
    if is_logarithm(f"{metric_name} {head}"):
        return ""
    if DECIBELS & {*spoken}:
        return "error_db" if units & {"error", "rmse"} else ""
    # `rmse_over_max` is a metric of korisk's studies, kept as it was published.
    return "rmse" if "rmse" in metric_units(name).values() and "over" not in name else "error"


def is_logarithm(name: str) -> bool:
    """Whether a name says that its values are logarithms; the log loss does not."""
    plain = re.sub(r"(?i)(neg\w*[\s_-]*)?log[\s_-]*(loss|likelihood)", "", name)
    return any(
        word in ("log", "ln", "log10", "log2")
        or (word.startswith("log") and (word[3:],) in _PHRASES)
        for word in words(plain)
    )
