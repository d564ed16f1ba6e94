"""Checks that turn a user's value into a plain number or say what is wrong with it."""

import math
import re
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from korisk.errors import KoriskError, did_you_mean, invalid, shown

_Options = TypeVar("_Options")

LARGEST_N = 10**15  # beyond it no sample size means anything


def require(
    kept: bool, argument: str, rule: str, value: object, remedy: str = "", *, got: str | None = None
) -> None:
    """Raise `invalid(argument, rule, value, remedy)` unless the rule is kept."""
    if not kept:
        raise invalid(argument, rule, value, remedy, got=got)


def options_of(field: str, value: _Options | None, kind: type[_Options]) -> _Options:
    """The value object of a group of options, or its default where None is given."""
    if value is None:
        return kind()
    remedy = f"pass {kind.__name__}(...), or leave it out"
    require(isinstance(value, kind), field, f"be a {kind.__name__}", value, remedy)
    return value


def real(
    field: str,
    value: object,
    *,
    remedy: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    finite: bool = True,
) -> float:
    """`value` as a float, if it is a number that keeps the rule."""
    rule = "a finite number" if finite else "a number"
    if at_least is not None:
        rule += f" >= {at_least:g}"
    if above is not None:
        rule += f" > {above:g}"
    if at_most is not None:
        rule += f" and <= {at_most:g}" if " >" in rule else f" <= {at_most:g}"
    number = _to_float(value)
    if (
        number is None
        or math.isnan(number)
        or (finite and math.isinf(number))
        or (at_least is not None and number < at_least)
        or (above is not None and number <= above)
        or (at_most is not None and number > at_most)
    ):
        raise invalid(field, f"be {rule}", value, remedy)
    return number + 0.0  # without the sign of a negative zero


def count(
    field: str, value: object, *, at_least: int, remedy: str, at_most: float = math.inf
) -> int:
    """`value` as an int, if it is a whole number that keeps the rule."""
    number = _to_float(value)
    if number is None or not number.is_integer() or not at_least <= number <= at_most:
        rule = f">= {at_least}" if math.isinf(at_most) else f"from {at_least} to {at_most:,}"
        raise invalid(field, f"be a whole number {rule}", value, remedy)
    return int(value) if isinstance(value, Integral) else int(number)


def name(field: str, value: object, *, remedy: str) -> str:
    """`value`, if it is a text that can stand in a table and a message."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise invalid(field, "be a printable text", value, remedy)
    long = f"shorten {shown(value)}"
    require(len(value) <= 80, field, "have at most 80 characters", len(value), long)
    return value


def function_or_none(field: str, value: object) -> None:
    """Refuse what is neither a function nor left out."""
    remedy = "pass one, or leave it out"
    require(value is None or callable(value), field, "be a function", value, remedy)


def path(field: str, value: object, *, remedy: str) -> Path:
    """`value` as a path, if it names a file or a folder."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise invalid(field, "be the name of a file", value, remedy)
    return Path(value)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of JSON, for `object_pairs_hook`, if it has no key twice."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise KoriskError(f"the key {shown(key)} is given twice; remove one")
        made[key] = value
    return made


def one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a word that is not among the known ones, and suggest the nearest."""
    if value not in known:
        hint = did_you_mean(str(value), known)
        hint = "" if "; known:" in hint else hint  # they are named already
        raise invalid(field, f"be one of {', '.join(known)}", value, hint.removeprefix("; "))


def sample_count(value: object) -> float:
    """N as the bounds take it: at least 2, because log 1 = 0 makes N = 1 meaningless."""
    return real(
        "n", value, at_least=2, remedy="count the training samples; the rate log n / n needs n >= 2"
    )


def target_error(value: object) -> float:
    """A target for the expected squared error."""
    return real("target", value, above=0, remedy="give the squared error that you want to reach")


def _to_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def natural(text: str) -> tuple[list[tuple[int, str]], str]:
    """A key for sorting by which `run 2` comes before `run 10`, however long the numbers are."""
    # Texts and numbers take turns, so that like is compared with like.
    parts = [
        part.lstrip("0") if k % 2 else part for k, part in enumerate(re.split(r"([0-9]+)", text))
    ]
    return [(len(part) * (k % 2), part) for k, part in enumerate(parts)], text
