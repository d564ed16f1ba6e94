"""The two kinds of layer, known and learned, and constants of runs of layers."""

import math
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import ClassVar

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.theory.bracket import (
    NOT_KNOWN,
    HasNorm,
    Lipschitz,
    NormBracket,
    joint_origin,
    terse_repr,
)

INPUT = "input"  # name of the network's input among the inputs of layers
Inputs = Sequence[str] | Mapping[str, Lipschitz] | None  # a tuple or dict once it is checked


@dataclass(frozen=True)
class Layer(ABC):
    """One map u_l of the network, with the Lipschitz constant of the *true* map.

    Abstract: a layer is `Known` or `Learned`.

    Parameters
    ----------
    name : str
        Its name in the network, at most 80 characters.
    lipschitz : float, NormBracket, HasNorm or None, default None
        The constant of Assumption (ass:lip): a number >= 0, a bracket, an operator that has a
        `norm()`, or None if it is not known. For several inputs, the constant in all of them as one
        vector.
    inputs : sequence of str, mapping from str to a constant, or None, default None
        Earlier layers whose values it takes; "input" is the network's input. A mapping states a
        Lipschitz constant in each of them, instead of `lipschitz`. None: the layer before it.

    Examples
    --------
    >>> import korisk as kr
    >>> layers = [kr.Learned("W", parameters=7680), kr.Known("K", lipschitz=0.03)]
    >>> [layer.kind for layer in layers]
    ['learned', 'known']
    >>> layers[1].bracket
    NormBracket(0.03, 0.03)
    >>> kr.Known("add", inputs={"input": 1, "K": 1}).bracket_of("K")
    NormBracket(1.0, 1.0)
    """

    name: str
    _: KW_ONLY
    lipschitz: Lipschitz = None
    inputs: Inputs = field(default=None, hash=False)

    kind: ClassVar[str]  # "known" or "learned"

    def __post_init__(self) -> None:
        remedy = "give each layer a short name, quoted in a file if it looks like a number"
        _checks.name("layer name", self.name, remedy=remedy)
        _checks.set_fields(self, lipschitz=as_lipschitz(self._field("lipschitz"), self.lipschitz))
        if self.inputs is not None:
            self._set_inputs(self.inputs)

    def _set_inputs(self, inputs: object) -> None:
        label, remedy = self._field("inputs"), 'name earlier layers, or "input", each once'
        if isinstance(inputs, str) or not isinstance(inputs, Iterable):
            raise invalid(label, "be a list of names", inputs, remedy)
        # Names are checked against the network later, which alone knows the earlier layers.
        names = tuple(inputs)
        for name in names:
            _checks.name(label, name, remedy=remedy)
        once = len(set(names)) == len(names) > 0
        _checks.require(once, label, "name one layer or several", names, remedy)
        if not isinstance(inputs, Mapping):
            _checks.set_fields(self, inputs=names)
            return
        # Two statements could contradict each other, and only one would be used.
        if self.lipschitz is not None:
            why = f"{label} states a constant for each input, and lipschitz one for all of them"
            raise KoriskError(f"{why}; leave one of the two out")
        of = f"{label}: the constant in"
        constants = {name: as_lipschitz(f"{of} {name!r}", value) for name, value in inputs.items()}
        _checks.set_fields(self, inputs=constants)

    @property
    def errs(self) -> bool:
        """Whether the layer has a risk."""
        return True

    @cached_property
    def bracket(self) -> NormBracket:
        """The Lipschitz constant as a bracket; the norm of an operator is computed once.

        For several inputs, the constant in all of them as one vector.
        """
        if not isinstance(self.inputs, Mapping):
            return resolve(self._field("lipschitz"), self.lipschitz)
        brackets = [self.bracket_of(name) for name in self.inputs]
        if len(brackets) == 1:
            return brackets[0]
        # |sum_u L_u d_u| <= |(L_u)| |(d_u)| by Cauchy and Schwarz; one input alone gives the lower.
        upper = math.hypot(*(bracket.upper for bracket in brackets))
        lower = min(upper, max(bracket.lower for bracket in brackets))
        return NormBracket(lower, upper, how="of all inputs together", whose=joint_origin(brackets))

    def bracket_of(self, name: str) -> NormBracket:
        """The Lipschitz constant in one of the inputs, L_(v,u) of Eq. (eq:graph).

        Parameters
        ----------
        name : str
            The input.

        Returns
        -------
        NormBracket
            Its constant, or that in all inputs as one vector if none is stated for it.
        """
        if isinstance(self.inputs, Mapping):
            return self._of_inputs[name]
        if self.inputs is None or len(self.inputs) == 1:
            return self.bracket
        # The joint constant is an upper bound in each input, and says nothing from below.
        joint = self.bracket
        return NormBracket(0.0, joint.upper, how="of all inputs together", whose=joint.whose)

    @cached_property
    def _of_inputs(self) -> dict[str, NormBracket]:
        assert isinstance(self.inputs, Mapping)
        of = self._field("inputs")
        return {name: resolve(of, constant) for name, constant in self.inputs.items()}

    def _field(self, field: str) -> str:
        return f"layer {self.name!r}: {field}"

    def __repr__(self) -> str:
        return terse_repr(self)


@dataclass(frozen=True, repr=False, kw_only=True)
class Known(Layer):
    """An operator that is not learned: û_l = u_l, so that it adds nothing to the risk.

    Parameters
    ----------
    name : str
        As for every `Layer`.
    lipschitz : float, NormBracket, HasNorm or None, default None
        As for every `Layer`. An operator that can be composed (`@`) states that the layer *is* this
        operator, up to a constant; a network then composes it with others.
    inputs : sequence of str, mapping from str to a constant, or None, default None
        As for every `Layer`; operators as in `lipschitz`.
    mismatch : float, default 0
        korisk's extension for operators known only approximately (a discretised projector, a wrong
        viscosity): E||u_l - û_l||^2 >= 0, a term that no amount of data removes, Eq. (eq:mismatch).

    Examples
    --------
    >>> import korisk as kr
    >>> kr.Known("A^T", lipschitz=85.7, mismatch=0.001)
    Known('A^T', lipschitz=85.7, mismatch=0.001)
    """

    mismatch: float = 0.0

    kind: ClassVar[str] = "known"

    @property
    def errs(self) -> bool:
        """Whether the layer has a risk, as a mismatch."""
        return self.mismatch > 0

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "give the expected squared error of the operator, 0 if it is exact"
        mismatch = _checks.real(self._field("mismatch"), self.mismatch, at_least=0, remedy=remedy)
        _checks.set_fields(self, mismatch=mismatch)


@dataclass(frozen=True, repr=False, kw_only=True)
class Learned(Layer):
    """A trained layer whose risk follows Assumption (ass:barron): C^2/n_l + kappa p log N / N.

    C = 0 and kappa = 1 give the matched-constant reference, in units of kappa; a pilot study
    calibrates them.

    Parameters
    ----------
    name : str
        As for every `Layer`.
    lipschitz : float, NormBracket, HasNorm or None, default None
        As for every `Layer`. An operator only states its norm as the constant: the layer is another
        map.
    inputs : sequence of str, mapping from str to a constant, or None, default None
        As for every `Layer`; operators as in `lipschitz`.
    parameters : int, optional
        The paper's p_l, the number of trainable weights, at least 1.
    shared : int, default 0
        Number of parameters shared with an earlier layer: the layer's risk depends on all of its p,
        and a network counts shared ones once.
    C : float, default 0
        The complexity, at least 0.
    width : float, default 1
        The width n_l, at least 1.
    kappa : float, default 1
        The constant of the estimation term, above 0.

    Examples
    --------
    >>> import korisk as kr
    >>> layer = kr.Learned("W", parameters=7680, C=2.0, width=100)
    >>> layer
    Learned('W', parameters=7680, C=2.0, width=100.0)
    >>> kr.theory.layer_risk(layer, 10**9) > layer.C**2 / layer.width
    True
    """

    parameters: int | None = None
    shared: int = 0
    C: float = 0.0
    width: float = 1.0
    kappa: float = 1.0

    kind: ClassVar[str] = "learned"

    def __post_init__(self) -> None:
        super().__post_init__()
        field, p = self._field, self.parameters
        # Without p a layer still has a Lipschitz constant; only its risk needs it.
        if p is not None:
            remedy = "count the layer's trainable weights"
            p = _checks.count(field("parameters"), p, at_least=1, remedy=remedy)
        most = math.inf if p is None else p
        of = "count those of its parameters that an earlier layer has"
        shared = _checks.count(field("shared"), self.shared, at_least=0, at_most=most, remedy=of)
        remedy = "see Assumption (ass:barron): C >= 0, width >= 1, kappa > 0"
        real = partial(_checks.real, remedy=remedy)
        _checks.set_fields(self, parameters=p, shared=shared)
        _checks.set_fields(self, C=real(field("C"), self.C, at_least=0))
        _checks.set_fields(self, width=real(field("width"), self.width, at_least=1))
        _checks.set_fields(self, kappa=real(field("kappa"), self.kappa, above=0))


@dataclass(frozen=True)
class Composition:
    """A Lipschitz constant of the run of layers from `first` to `last`.

    For linear layers it is the norm of the product, often far below the product of the norms;
    Eq. (eq:composed) uses it for the tails. In a graph it is the constant of the value of `last` in
    the value that `first` takes, over all paths between them, for any values of other layers: in
    x + B A x, the constant from A to B is ||B A||, and that from A to the sum is ||I + B A||.

    Parameters
    ----------
    first, last : str
        Names of layers of the network, the input side first; `first` has one input.
    lipschitz : float, NormBracket or HasNorm
        In the same forms as a layer's, but not None.

    Examples
    --------
    >>> import korisk as kr
    >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=0.03), kr.Known("B", lipschitz=85.0)]
    >>> whole = kr.theory.Composition("K", "B", lipschitz=1.2)
    >>> kr.Network(layers, compositions=[whole]).tails().tolist()
    [1.2, 85.0, 1.0]
    >>> kr.Network(layers).tails().round(2).tolist()
    [2.55, 85.0, 1.0]
    """

    first: str
    last: str
    _: KW_ONLY
    lipschitz: Lipschitz

    def __post_init__(self) -> None:
        value = as_lipschitz(self._field, self.lipschitz)
        if value is None:
            raise KoriskError(f"{self._field} is missing; give the norm of the composed layers")
        _checks.set_fields(self, lipschitz=value)

    @property
    def _field(self) -> str:
        return f"composition {self.first!r} to {self.last!r}: lipschitz"

    @cached_property
    def bracket(self) -> NormBracket:
        """The constant as a bracket; the norm of an operator is computed once."""
        return resolve(self._field, self.lipschitz)

    def __repr__(self) -> str:
        return terse_repr(self)


def is_assumed(layer: Learned) -> bool:
    """Whether a learned layer has the default constants C = 0 and kappa = 1, not calibrated."""
    return layer.C == 0 and layer.kappa == 1


def as_lipschitz(field: str, value: object) -> Lipschitz:
    """Check a Lipschitz constant in any of its accepted forms; numbers become floats."""
    remedy = "give the operator norm of the true layer, or leave it out if it is not known"
    if isinstance(value, Real):
        return _checks.real(field, value, at_least=0, remedy=remedy)
    if value is None or isinstance(value, NormBracket | HasNorm):
        return value
    rule = "be a number >= 0, a NormBracket or an operator with a norm() method"
    raise invalid(field, rule, value, remedy)


def resolve(field: str, value: Lipschitz) -> NormBracket:
    """The bracket of a Lipschitz constant in any of its accepted forms."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, NormBracket):
        return value
    if not isinstance(value, HasNorm):
        return NormBracket(value, value)
    # Foreign operators may return a plain number, which has no direction.
    bracket = value.norm()
    if not isinstance(bracket, NormBracket):
        raise invalid(f"{field}: norm() of {shown(value)}", "return a NormBracket", bracket)
    return replace(bracket, whose="operator")
