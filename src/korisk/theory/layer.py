"""The two kinds of layer: known operators and learned ones."""

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from numbers import Real

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.theory._repr import terse_repr
from korisk.theory.bracket import NOT_KNOWN, HasNorm, Lipschitz, NormBracket

_LIPSCHITZ_REMEDY = "give the operator norm of the true layer, or leave it out if it is not known"

_NAME_REMEDY = "give each layer a short name, quoted in a file if it looks like a number"


@dataclass(frozen=True, repr=False)
class Layer(ABC):
    """One map u_l of the network, with the Lipschitz constant of the *true* map.

    Abstract: a layer is `Known` or `Learned`. `name` is what the network calls it; `lipschitz`,
    the constant of Assumption (ass:lip), is a number >= 0, a `NormBracket`, an operator that has a
    `norm()`, or None where it is not known. Anything else raises `KoriskError`.

    >>> import korisk as kr
    >>> layers = [kr.Learned("W", parameters=7680), kr.Known("K", lipschitz=0.03)]
    >>> [layer.kind for layer in layers]
    ['learned', 'known']
    >>> layers[1].bracket
    NormBracket(0.03, 0.03)
    """

    name: str
    _: KW_ONLY
    lipschitz: Lipschitz = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _checks.name("layer name", self.name, remedy=_NAME_REMEDY))
        object.__setattr__(
            self, "lipschitz", as_lipschitz(self._field("lipschitz"), self.lipschitz)
        )

    @cached_property
    def bracket(self) -> NormBracket:
        """The Lipschitz constant as a bracket; an operator is asked for its norm once."""
        return resolve(self._field("lipschitz"), self.lipschitz)

    @property
    @abstractmethod
    def kind(self) -> str:
        """`known` or `learned`."""

    def _field(self, field: str) -> str:
        return f"layer {self.name!r}: {field}"

    def __repr__(self) -> str:
        return terse_repr(self)


@dataclass(frozen=True, repr=False, kw_only=True)
class Known(Layer):
    """An operator that is not learned: û_l = u_l, so it adds nothing to the risk.

    `mismatch` is korisk's extension for operators known only approximately (a discretised
    projector, a wrong viscosity): E||u_l - û_l||^2 > 0, a term that no amount of data
    removes, Eq. (eq:mismatch).

    >>> import korisk as kr
    >>> kr.Known("A^T", lipschitz=85.7, mismatch=0.001)
    Known('A^T', lipschitz=85.7, mismatch=0.001)
    """

    mismatch: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "give the expected squared error of the operator, 0 if it is exact"
        mismatch = _checks.real(self._field("mismatch"), self.mismatch, at_least=0, remedy=remedy)
        object.__setattr__(self, "mismatch", mismatch)

    @property
    def kind(self) -> str:
        """`known`."""
        return "known"


@dataclass(frozen=True, repr=False, kw_only=True)
class Learned(Layer):
    """A trained layer whose risk follows Assumption (ass:barron): C^2/n + kappa p log N / N.

    `parameters` is the paper's p_l, `C` its complexity, `width` its n_l and
    `kappa` the constant of the estimation term. C = 0 and kappa = 1 give the matched-constant
    reference; a pilot study gives numbers with absolute units. `shared` is how many of the
    parameters are an earlier layer's: the layer errs by all of its p, and a network counts them
    once.

    `effective` is how many of the parameters the data determine at the sample size in question,
    an estimate that may stand in for p where `effective=True` asks for it; see
    docs/explanation/theory.md.

    >>> import korisk as kr
    >>> layer = kr.Learned("W", parameters=7680, C=2.0, width=100)
    >>> layer
    Learned('W', parameters=7680, C=2.0, width=100.0)
    >>> kr.layer_risk(layer, 10**9) > layer.C**2 / layer.width
    True
    """

    parameters: int | None = None
    shared: int = 0
    effective: float | None = None
    C: float = 0.0
    width: float = 1.0
    kappa: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parameters is not None:
            remedy = "count the layer's trainable weights"
            parameters = _checks.count(
                self._field("parameters"), self.parameters, at_least=1, remedy=remedy
            )
            object.__setattr__(self, "parameters", parameters)
        remedy = "count those of its parameters that an earlier layer has"
        most = math.inf if self.parameters is None else self.parameters
        field = self._field("shared")
        shared = _checks.count(field, self.shared, at_least=0, at_most=most, remedy=remedy)
        object.__setattr__(self, "shared", shared)
        if self.effective is not None:
            object.__setattr__(self, "effective", self._checked_effective())
        remedy = "see Assumption (ass:barron): C >= 0, width >= 1, kappa > 0"
        checked = {
            "C": _checks.real(self._field("C"), self.C, at_least=0, remedy=remedy),
            "width": _checks.real(self._field("width"), self.width, at_least=1, remedy=remedy),
            "kappa": _checks.real(self._field("kappa"), self.kappa, above=0, remedy=remedy),
        }
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    def _checked_effective(self) -> float:
        field = self._field("effective")
        remedy = "give the effective dimension, or leave it out if it is not known"
        effective = _checks.real(field, self.effective, above=0, remedy=remedy)
        # As floats: a p beyond 2^53 may round upwards, and effective = p must stay allowed.
        if self.parameters is not None and effective > float(self.parameters):
            raise KoriskError(
                f"{field} must be at most the layer's parameters, {self.parameters:,}, got "
                f"{shown(self.effective)}; data cannot determine more numbers than the layer has"
            )
        return effective

    @property
    def kind(self) -> str:
        """`learned`."""
        return "learned"


def as_lipschitz(field: str, value: object) -> Lipschitz:
    """A Lipschitz constant in any of its accepted forms, numbers made plain floats."""
    if value is None or isinstance(value, NormBracket):
        return value
    if isinstance(value, Real):
        return _checks.real(field, value, at_least=0, remedy=_LIPSCHITZ_REMEDY)
    if isinstance(value, HasNorm):
        return value
    raise KoriskError(
        f"{field} must be a number >= 0, a NormBracket or an operator with a norm() method, "
        f"got {shown(value)}; {_LIPSCHITZ_REMEDY}"
    )


def resolve(field: str, value: Lipschitz) -> NormBracket:
    """The bracket behind any accepted form of a Lipschitz constant."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, NormBracket):
        return value
    if isinstance(value, HasNorm):
        bracket = value.norm()
        if not isinstance(bracket, NormBracket):
            raise KoriskError(
                f"{field}: norm() of {shown(value)} must return a NormBracket, got {shown(bracket)}"
            )
        return bracket
    return NormBracket(value, value)
