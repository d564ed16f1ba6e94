"""Checks of users' values: return a plain number, or raise an error that names the problem."""

import math
from numbers import Integral, Real
from operator import ge, gt, le
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from korisk.errors import KoriskError, invalid, nearest, shown

_Options = TypeVar("_Options")

LARGEST_N = 10**15  # sample sizes beyond it have no meaning


def require(
    met: bool, argument: str, rule: str, value: object, remedy: str = "", *, got: str | None = None
) -> None:
    """Raise `invalid(argument, rule, value, remedy)` unless the rule is met."""
    if not met:
        raise invalid(argument, rule, value, remedy, got=got)


def set_fields(value: object, **fields: object) -> None:
    """Set checked fields of a frozen dataclass during its construction."""
    # Frozen dataclasses refuse assignment, also in their own __post_init__.
    for name, content in fields.items():
        object.__setattr__(value, name, content)


def options_of(field: str, value: _Options | None, kind: type[_Options]) -> _Options:
    """The value object of a group of options, or its default if None is given."""
    if value is None:
        return kind()
    remedy = f"pass {kind.__name__}(...), or leave it out"
    require(isinstance(value, kind), field, f"be a {kind.__name__}", value, remedy)
    return value


def real(
    field: str,
    value: object,
    remedy: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    finite: bool = True,
) -> float:
    """`value` as a float; raise unless it is a number within the limits."""
    limits = [(">=", at_least, ge), (">", above, gt), ("<=", at_most, le)]
    ends = [(sign, limit, holds) for sign, limit, holds in limits if limit is not None]
    number = _to_float(value)
    valid = number is not None and not math.isnan(number) and not (finite and math.isinf(number))
    if number is None or not valid or not all(holds(number, limit) for _, limit, holds in ends):
        rule = " and ".join(f"{sign} {limit:g}" for sign, limit, _ in ends)
        raise invalid(field, f"be a{' finite' * finite} number {rule}".rstrip(), value, remedy)
    return number + 0.0  # without the sign of a negative zero


def count(
    field: str, value: object, remedy: str, *, at_least: int, at_most: float = math.inf
) -> int:
    """`value` as an int; raise unless it is a whole number within the limits."""
    number = _to_float(value)
    if number is None or not number.is_integer() or not at_least <= number <= at_most:
        rule = f">= {at_least}" if math.isinf(at_most) else f"from {at_least} to {at_most:,}"
        raise invalid(field, f"be a whole number {rule}", value, remedy)
    return int(value) if isinstance(value, Integral) else int(number)


def name(field: str, value: object, *, remedy: str) -> str:
    """`value`; raise unless it is a text that fits into a table and a message."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise invalid(field, "be a printable text", value, remedy)
    require(len(value) <= 80, field, "have at most 80 characters", len(value), "shorten it")
    return value


def function_or_none(field: str, value: object) -> None:
    """Raise unless the value is a function or None."""
    met = value is None or callable(value)
    require(met, field, "be a function", value, "pass one, or leave it out")


def path(field: str, value: object, *, remedy: str) -> Path:
    """`value` as a path; raise unless it names a file or a folder."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise invalid(field, "be the name of a file", value, remedy)
    return Path(value)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict, for `object_pairs_hook`; raise if a key occurs twice."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise KoriskError(f"the key {shown(key)} is given twice; remove one")
        mapping[key] = value
    return mapping


def one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    """Raise unless the value is a known word; suggest the nearest one."""
    if not isinstance(value, str) or value not in known:
        near = nearest(str(value)[:80], known)
        hint = "" if near is None else f"did you mean {near!r}?"
        raise invalid(field, f"be one of {', '.join(known)}", value, hint)


def sample_count(value: object) -> float:
    """The sample size of a bound: at least 2, because the rate log n / n is 0 at n = 1."""
    return real(
        "n", value, at_least=2, remedy="count the training samples; the rate log n / n needs n >= 2"
    )


def target_error(value: object) -> float:
    """A target for the expected squared error."""
    return real("target", value, above=0, remedy="give the squared error that you want to reach")


def _to_float(value: object) -> float | None:
    # True is an int in Python, and hardly ever meant as a number.
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # of a Real
