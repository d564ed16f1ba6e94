"""A norm or Lipschitz constant with its direction: what lies below it and what lies above."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from korisk import _checks
from korisk.errors import KoriskError
from korisk.theory._repr import terse_repr


@dataclass(frozen=True, repr=False)
class NormBracket:
    """lower <= true constant <= upper, and how that is known.

    Bounds use `upper`. An `upper` of infinity says that only a lower estimate exists, as when the
    constant was sampled; a bound that needs it is refused.

    `how` says in a few words how the ends are known. Ends that are negative or in the wrong order
    raise `KoriskError`.

    >>> import korisk as kr
    >>> bracket = kr.NormBracket(0.9, 1.1, how="Lanczos")
    >>> bracket.is_point, kr.NormBracket(2, 2).is_point
    (False, True)
    >>> kr.Known("K", lipschitz=bracket).bracket.upper
    1.1
    """

    lower: float
    upper: float
    how: str = "given"

    def __post_init__(self) -> None:
        remedy = "give 0 <= lower <= upper"
        lower = _checks.real("lower", self.lower, at_least=0, remedy=remedy)
        upper = _checks.real("upper", self.upper, at_least=0, finite=False, remedy=remedy)
        if lower > upper:
            raise KoriskError(
                f"lower must be <= upper, got lower={lower!r} upper={upper!r}; {remedy}"
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        how = _checks.name("how", self.how, remedy="say in a few words how the ends are known")
        object.__setattr__(self, "how", how)

    def __repr__(self) -> str:
        return terse_repr(self)

    @property
    def is_point(self) -> bool:
        """Whether both ends are the same number."""
        return self.lower == self.upper


NOT_KNOWN = NormBracket(0.0, float("inf"), how="not known")


@runtime_checkable
class HasNorm(Protocol):
    """Anything that can bracket its own norm when asked, such as a linear operator.

    An object with a method `norm()` that returns a `NormBracket` may stand wherever a Lipschitz
    constant is asked for. It is asked once, when the constant is first needed.

    >>> import korisk as kr
    >>> class Doubling:
    ...     def norm(self):
    ...         return kr.NormBracket(2.0, 2.0)
    >>> isinstance(Doubling(), kr.HasNorm), kr.Known("2x", lipschitz=Doubling()).bracket.upper
    (True, 2.0)
    """

    def norm(self) -> NormBracket:
        """The operator norm, bracketed."""
        ...


Lipschitz = float | NormBracket | HasNorm | None
