"""A norm or Lipschitz constant as a bracket of its lower and upper bounds."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from korisk import _checks

Whose = Literal["stated", "operator", "present weights", "not known"]
# By how much an origin claims: a bound that uses several constants is as strong as the weakest.
_WEAKEST_FIRST: tuple[Whose, ...] = ("not known", "present weights", "stated", "operator")


def terse_repr(value: object) -> str:
    """The repr of a dataclass without default values, which still evaluates to it."""
    texts = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        content, required = getattr(value, field.name), field.default is dataclasses.MISSING
        if field.repr and (required or content != field.default):
            # repr(inf) is "inf", which is not an expression.
            infinite = isinstance(content, float) and math.isinf(content)
            text = f"float('{content}')" if infinite else repr(content)
            texts.append(text if required and not field.kw_only else f"{field.name}={text}")
    return f"{type(value).__name__}({', '.join(texts)})"


@dataclass(frozen=True)
class NormBracket:
    """lower <= true constant <= upper, and how the ends are known.

    Bounds use `upper`. An infinite `upper` means that only a lower estimate exists, as for a
    sampled constant; a bound that needs it raises.

    Parameters
    ----------
    lower, upper : float
        The ends, 0 <= lower <= upper; upper may be infinite.
    how : str, default "given"
        How the ends are known, in a few words.
    whose : {"stated", "operator", "present weights", "not known"}, default "stated"
        The origin of the constant: stated by the user; of an operator, or of a map without
        training; of the present weights of a learned layer, where the theorem is about the true
        layer; or not known. Ignored in comparisons.

    Examples
    --------
    >>> import korisk as kr
    >>> bracket = kr.theory.NormBracket(0.9, 1.1, how="Lanczos")
    >>> bracket.is_point, kr.theory.NormBracket(2, 2).is_point
    (False, True)
    >>> kr.Known("K", lipschitz=bracket).bracket.upper
    1.1
    """

    lower: float
    upper: float
    how: str = "given"
    whose: Whose = dataclasses.field(default="stated", repr=False, compare=False)

    def __post_init__(self) -> None:
        remedy = "give 0 <= lower <= upper"
        lower = _checks.real("lower", self.lower, at_least=0, remedy=remedy)
        upper = _checks.real("upper", self.upper, at_least=0, finite=False, remedy=remedy)
        ends = f"lower={lower!r} upper={upper!r}"
        _checks.require(lower <= upper, "lower", "be <= upper", lower, remedy, got=ends)
        _checks.name("how", self.how, remedy="say in a few words how the ends are known")
        _checks.one_of("whose", self.whose, get_args(Whose))
        _checks.set_fields(self, lower=lower, upper=upper)

    def __repr__(self) -> str:
        return terse_repr(self)

    @property
    def is_point(self) -> bool:
        """Whether both ends are the same number."""
        return self.lower == self.upper


# The weakest statement: a bound that needs this constant raises.
NOT_KNOWN = NormBracket(0.0, float("inf"), how="not known", whose="not known")


def joint_origin(brackets: Iterable[NormBracket]) -> Whose:
    """The origin of a constant derived from several: the weakest of theirs."""
    origins = {bracket.whose for bracket in brackets}
    return next((whose for whose in _WEAKEST_FIRST if whose in origins), "stated")


@runtime_checkable
class HasNorm(Protocol):
    """An object with a norm, such as a linear operator.

    An object with a method `norm()` that returns a `NormBracket` can be passed wherever a Lipschitz
    constant is expected. `norm()` is called once, when the constant is first needed.

    Parameters
    ----------
    *args, **kwargs
        None; this is a protocol.

    Examples
    --------
    >>> import korisk as kr
    >>> class Doubling:
    ...     def norm(self):
    ...         return kr.theory.NormBracket(2.0, 2.0)
    >>> layer = kr.Known("2x", lipschitz=Doubling())
    >>> isinstance(Doubling(), kr.theory.HasNorm), layer.bracket.upper
    (True, 2.0)
    """

    def norm(self) -> NormBracket:
        """A bracket of the operator norm."""
        ...


Lipschitz = float | NormBracket | HasNorm | None
