"""Find a known layer of a network by its name, and replace every use of it by a substitute.

The substitute is learned (`Dense`, two of them for low rank, `Filter`), or an operator with a wrong
geometry. If the network uses the known layer several times, all uses share one substitute.
"""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk.errors import Argument, KoriskError, Message, did_you_mean, invalid, shown
from korisk.networks.describe.marks import mark_of
from korisk.operators import linear
from korisk.operators.consistency import DataConsistency
from korisk.operators.ct.projector import PixelBackprojector, Projector
from korisk.operators.ct.stencils import RotateAndSum, Sampled
from korisk.operators.inputs import Shape, shape_text
from korisk.operators.linear import LinearOperator
from korisk.operators.motion import Moving
from korisk.operators.tikhonov import Tikhonov
from korisk.theory import Known

By = Literal["dense", "low-rank", "convolution", "wrong"]
Start = Literal["random", "operator"]
WAYS: tuple[By, ...] = ("dense", "low-rank", "convolution", "wrong")
STARTS: tuple[Start, ...] = ("random", "operator")

_ALIKE = 1e-4  # of the largest output: tolerated difference between uses of one operator


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """A known layer and its substitute.

    Parameters
    ----------
    layer : str, default "A^T"
        The known layer: the name of a `LinearOperator` in the network, such as "A^T", the name
        that `kr.mark_known` gave a module, or the path of either, such as "inverse.parts.2". Every
        use of it is replaced by one layer, which they share.
    by : {"dense", "low-rank", "convolution", "wrong"}, default "dense"
        The substitute: a learned matrix; a product of two learned matrices of a small inner rank; a
        learned convolution, resized linearly to the layer's output; or a wrong known operator.
    start : {"random", "operator"}, default "random"
        Where a learned layer starts: at random numbers, scaled so that its outputs are as large as
        the operator's; or at the operator, for a low rank at the nearest matrix of that rank.
    rank : int, default 32
        Inner size of a low rank.
    kernel : int, default 9
        Edge of a convolution's kernel in pixels, odd.
    wrong : float or LinearOperator, optional
        The wrong operator: a share such as 0.05 by which the geometry is wrong, see
        `wrong_operator`, or your own operator of the same shapes. A learned layer with
        start="operator" starts at it.

    Raises
    ------
    KoriskError
        If a value is outside its range, or contradicts another.

    Examples
    --------
    >>> from korisk.ablation import Replacement
    >>> Replacement(by="low-rank", rank=8).layer
    'A^T'
    """

    layer: str = "A^T"
    by: By = "dense"
    start: Start = "random"
    rank: int = 32
    kernel: int = 9
    wrong: float | LinearOperator | None = None

    def __post_init__(self) -> None:
        by, start = self.by, self.start
        _checks.one_of("by", by, WAYS)
        _checks.one_of("start", start, STARTS)
        rank = _checks.count("rank", self.rank, "try 32", at_least=1)
        kernel = _checks.count("kernel", self.kernel, "try 9", at_least=1, at_most=255)
        _checks.set_fields(self, rank=rank, kernel=kernel)
        require(kernel % 2 == 1, "kernel", "be odd", kernel, f"use {kernel + 1}")
        by_wrong, at_operator = Argument("by", "wrong"), Argument("start", "operator")
        at_random, wrong = Argument("start", "random"), Argument("wrong", ...)
        if by == "wrong" and self.wrong is None:
            raise KoriskError(by_wrong, " needs a share; give ", Argument("wrong", 0.05))
        if by == "wrong" and start != "random":
            raise KoriskError(by_wrong, " is not learned; leave ", Argument("start", ...), " out")
        if by == "convolution" and start == "operator":
            raise KoriskError("a convolution cannot start at the operator; use ", at_random)
        if self.wrong is not None and by != "wrong" and start == "random":
            needs = " needs ", by_wrong, " or ", at_operator, "; leave it out, or add one of them"
            raise KoriskError(wrong, *needs)


def replaced(
    build: Callable[[], nn.Module], replace: str | Replacement, *, example: Tensor | None = None
) -> Callable[[], nn.Module]:
    """A function that builds a network as `build` does, with one known layer replaced.

    Parameters
    ----------
    build : callable
        `build()` returns a new network.
    replace : str or Replacement
        The known layer and its substitute; a name alone means a learned matrix.
    example : Tensor, shape (batch, *input), optional
        An input of the network, needed if the layer is a marked module, whose shapes are unknown.

    Returns
    -------
    callable
        Builds the network with the layer replaced; the other layers start as `build` makes them.

    Raises
    ------
    KoriskError
        If no known layer has the name, several different ones do, or the network does not use it.
        Raised when a network is built.

    Examples
    --------
    >>> import torch
    >>> from korisk.ablation import replaced
    >>> from korisk.operators import ParallelBeam, fbp
    >>> scan = ParallelBeam(8, views=6, bins=12)
    >>> net = replaced(lambda: torch.nn.Sequential(fbp(scan), torch.nn.ReLU()), "A^T")()
    >>> sum(weights.numel() for weights in net.parameters()) == 6 * 12 * 8 * 8
    True
    """
    change = Replacement(layer=replace) if isinstance(replace, str) else replace
    by, wrong = change.by, change.wrong

    def make() -> nn.Module:
        network = build()
        uses = known_uses(network, change.layer)
        layer = _as_operator(uses[0], network, example)
        assumed = layer if wrong is None else _assumed(layer, wrong)
        substitute = assumed if by == "wrong" else _learned(layer, change)
        if by != "wrong" and change.start == "random":
            _match_size(substitute, layer)
        elif by != "wrong":
            _set_to(substitute, assumed)
        # One module for all uses, so that they share its weights.
        substitute.name = layer.name
        for use in uses:
            use.parent._modules[use.key] = substitute
        return network

    return make


# --- Finding a layer -----------------------------------------------------------------------------


class Use(NamedTuple):
    """A use of a known layer: the module that contains it, and its key there."""

    parent: nn.Module
    key: str
    path: str
    name: str  # of the operator, or of its mark
    layer: nn.Module


def known_uses(network: nn.Module, name: str) -> list[Use]:
    """All uses of the known layer of a name; raise unless it is one operator."""
    # A path names one use, a name all uses of the operator.
    all_uses = list(dict.fromkeys(_uses(network, "")))
    uses = [use for use in all_uses if name in (use.path, use.name)]
    if not uses:
        names = dict.fromkeys(use.name for use in all_uses)
        hint = did_you_mean(name, names) if names else "; it has none"
        raise KoriskError(
            f"the network has no known layer {shown(name)}{hint}; hold an operator or its adjoint "
            "as a module of its own, such as self.back = A.T, or mark a module with "
            "kr.mark_known(module, name='A^T')"
        )
    first, *others = dict.fromkeys(use.layer for use in uses)
    paths = ", ".join(use.path for use in uses)
    # A learned layer knows nothing that a substitute would have to learn.
    if any(weights.requires_grad for layer in (first, *others) for weights in layer.parameters()):
        raise KoriskError(f"{shown(name)} must be a known layer, got a learned one ({paths})")
    if not all(_same(first, layer) for layer in others):
        problem = f"{shown(name)} must be one operator, got several that differ: {paths}"
        raise KoriskError(f"{problem}; give the path of one of them")
    return uses


def _uses(module: nn.Module, prefix: str) -> Iterator[Use]:
    """All uses of operators and of marked known modules.

    Modules inside an operator are not layers of the network, unless it is a composition.
    """
    for key, child in module._modules.items():
        if child is None:
            continue
        path, mark = f"{prefix}{key}", mark_of(child)
        if isinstance(mark, Known):
            yield Use(module, key, path, mark.name, child)
        if isinstance(child, LinearOperator):
            yield Use(module, key, path, child.name, child)
        opaque = isinstance(child, LinearOperator | DataConsistency)
        if not opaque or isinstance(child, linear.Combined):
            yield from _uses(child, f"{path}.")


def _same(first: nn.Module, second: nn.Module) -> bool:
    """Whether two layers are the same operator, judged by outputs for random inputs."""
    if not isinstance(first, LinearOperator) or not isinstance(second, LinearOperator):
        return False
    if (first.domain, first.range) != (second.domain, second.range):
        return False
    probe = _probe(first)
    with torch.no_grad():
        outputs = first(probe), second(probe.to(second._location()))
    apart = (outputs[0] - outputs[1].to(outputs[0])).abs().max()
    return bool(apart <= _ALIKE * outputs[0].abs().max())


def _probe(layer: LinearOperator, count: int = 8) -> Tensor:
    """Random inputs of a layer, always the same."""
    # A seed that weights are hardly ever drawn with.
    draws = torch.Generator().manual_seed(271828)
    return torch.randn(count, *layer.domain, generator=draws).to(layer._location())


class _Marked(LinearOperator):
    """A marked module as an operator, with the shapes of an example; it may be nonlinear."""

    def __init__(self, of: nn.Module, inputs: Tensor, outputs: Tensor, name: str) -> None:
        place: dict[str, Any] = {"device": outputs.device, "dtype": outputs.dtype}
        super().__init__(inputs.shape[1:], outputs.shape[1:], name=name, **place)
        self.of = of

    def _map(self, x: Tensor) -> Tensor:
        batch = x.shape[: x.ndim - len(self.domain)]
        output: Tensor = self.of(x.reshape(-1, *self.domain))
        return output.reshape(*batch, *self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        raise KoriskError(f"{self.name} is a module without an adjoint; use a LinearOperator")

    def as_matrix(self) -> Tensor:
        """The whole matrix; raise if the module is not linear."""
        # Additivity for two random inputs fails for practically every nonlinear module.
        x, y = _probe(self, 1), _probe(self, 2)[1:]
        with torch.no_grad():
            of_sum, sum_of = self(x + y), self(x) + self(y)
            if not bool((of_sum - sum_of).abs().max() <= _ALIKE * of_sum.abs().max()):
                use = f" needs a linear layer, and {self.name} is not; use "
                raise KoriskError(Argument("start", "operator"), use, Argument("start", "random"))
            unit = torch.eye(math.prod(self.domain), device=self.device, dtype=self.dtype)
            columns: Tensor = self(unit.reshape(-1, *self.domain))
        return columns.flatten(1).t().contiguous()


def _as_operator(use: Use, network: nn.Module, example: Tensor | None) -> LinearOperator:
    """The known layer as an operator; the shapes of a marked module come from an example."""
    if isinstance(use.layer, LinearOperator):
        return use.layer
    if example is None:
        unknown = f"{use.path} is a module that states no shapes; give "
        raise KoriskError(unknown, Argument("example", ...), ", an input")
    calls: list[tuple[Any, Any]] = []
    hook = use.layer.register_forward_hook(lambda _, args, output: calls.append((args, output)))
    modes = {module: module.training for module in network.modules()}
    try:
        with torch.no_grad():
            # In evaluation mode, so that running means of the network do not change.
            network.to(example.device).eval()(example)
    finally:
        hook.remove()
        for module, training in modes.items():
            module.training = training
    if not calls:
        raise KoriskError(f"the network does not use its layer {use.path}; name another one")
    shapes = set()
    for args, output in calls:
        if len(args) != 1 or not isinstance(args[0], Tensor) or not isinstance(output, Tensor):
            problem = f"{use.path} must take one tensor and return one to be replaced"
            raise KoriskError(f"{problem}; wrap it in a module that does")
        shapes.add((args[0].shape[1:], output.shape[1:]))
    if len(shapes) > 1:
        listed = ", ".join(shape_text(tuple(shape[0])) for shape in shapes)
        raise KoriskError(f"{use.path} must be used with one shape of input, got {listed}")
    (arguments, *_), output = calls[0]
    return _Marked(use.layer, arguments, output, use.name)


# --- Layers that take its place ------------------------------------------------------------------


class Dense(LinearOperator):
    """x -> M x with a learned matrix M, which starts at zero."""

    def __init__(self, domain: Shape, range: Shape, **place: Any) -> None:
        super().__init__(domain, range, **place)
        shape = math.prod(self.range), math.prod(self.domain)
        self.matrix = nn.Parameter(torch.zeros(shape, device=self.device, dtype=self.dtype))

    def _map(self, x: Tensor) -> Tensor:
        batch = x.shape[: x.ndim - len(self.domain)]
        return F.linear(x.reshape(*batch, -1), self.matrix).reshape(*batch, *self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        batch = y.shape[: y.ndim - len(self.range)]
        return (y.reshape(*batch, -1) @ self.matrix).reshape(*batch, *self.domain)


class Filter(LinearOperator):
    """A learned convolution from the channels of the input to those of the output, then resized.

    Rows and columns are the last two axes, or the two before a last axis of 2 for real and
    imaginary parts; all others are channels. Beyond the edges are zeros.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, domain: Shape, range: Shape, edge: int, **place: Any) -> None:
        super().__init__(domain, range, **place)
        for shape in (domain, range):
            if len(shape) < 2:
                rule = " needs a layer with rows and columns on both sides, got "
                use = f"{rule}{shape_text(shape)}; use "
                raise KoriskError(Argument("by", "convolution"), use, Argument("by", "low-rank"))
        (inputs, sides), (outputs, ends) = (self._split(shape) for shape in (domain, range))
        options: dict[str, Any] = {"device": self.device, "dtype": self.dtype}
        self.kernel = nn.Parameter(torch.zeros(outputs, inputs, edge, edge, **options))
        for name, new, old in zip(("rows", "columns"), ends, sides, strict=True):
            # Resizing is linear and separable: resizing the identity gives its matrix.
            unit = torch.eye(old, dtype=self.dtype)[None]
            resized = F.interpolate(unit, new, mode="linear", align_corners=False)[0].t()
            self.register_buffer(name, resized.to(self.device).contiguous())

    @staticmethod
    def _split(shape: Shape) -> tuple[int, Shape]:
        """Number of channels, and (rows, columns)."""
        sides = shape[-3:-1] if len(shape) > 2 and shape[-1] == 2 else shape[-2:]
        return math.prod(shape) // math.prod(sides), sides

    def _planes(self, x: Tensor, shape: Shape) -> Tensor:
        """(..., *shape) to (batch, channels, rows, columns)."""
        channels, sides = self._split(shape)
        flat = x.reshape(-1, *shape)
        if len(shape) > 2 and shape[-1] == 2:
            flat = flat.movedim(-1, 1)
        return flat.reshape(-1, channels, *sides)

    def _joined(self, x: Tensor, batch: Shape, shape: Shape) -> Tensor:
        """(batch, channels, rows, columns) to (..., *shape)."""
        if len(shape) > 2 and shape[-1] == 2:
            x = x.reshape(-1, 2, *shape[:-1]).movedim(1, -1)
        return x.reshape(*batch, *shape)

    def _map(self, x: Tensor) -> Tensor:
        batch = tuple(x.shape[: x.ndim - len(self.domain)])
        filtered = F.conv2d(self._planes(x, self.domain), self.kernel, padding="same")
        return self._joined(self.rows @ filtered @ self.columns.t(), batch, self.range)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        batch = tuple(y.shape[: y.ndim - len(self.range)])
        # The adjoint in reverse order: undo the resizing, then the transposed convolution.
        resized = self.rows.t() @ self._planes(y, self.range) @ self.columns
        padding = self.kernel.shape[-1] // 2
        planes = F.conv_transpose2d(resized, self.kernel, padding=padding)
        return self._joined(planes, batch, self.domain)


def _learned(layer: LinearOperator, change: Replacement) -> LinearOperator:
    """A convolution, a dense layer, or a product of two with an inner rank, of the same shapes."""
    place: dict[str, Any] = {"device": layer.device, "dtype": layer.dtype}
    if change.by == "convolution":
        return Filter(layer.domain, layer.range, change.kernel, **place)
    if change.by == "dense":
        return Dense(layer.domain, layer.range, **place)
    rank = change.rank
    most = min(math.prod(layer.domain), math.prod(layer.range))
    rule = f"be below {most:,}, the smaller side of {layer.name}"
    require(rank < most, "rank", rule, rank, Message("use ", Argument("by", "dense")))
    first, last = Dense(layer.domain, (rank,), **place), Dense((rank,), layer.range, **place)
    return linear.Composed([first, last])


def _match_size(new: LinearOperator, layer: LinearOperator) -> None:
    """Draw the weights, scaled so that outputs are as large as those of the known layer."""
    # Enough inputs for the mean to be accurate to a few per cent.
    probe = _probe(layer, 64)
    with torch.no_grad():
        for weights in new.parameters():
            # Drawn on the CPU, the same for every device.
            numbers = torch.randn(weights.shape, dtype=weights.dtype)
            weights.copy_(numbers * weights[0].numel() ** -0.5)
        sizes = [float(operator(probe).square().mean()) for operator in (layer, new)]
        last = list(new.parameters())[-1]
        # Scaling the last factor scales the output.
        last.mul_(math.sqrt(sizes[0] / sizes[1]))


def _set_to(new: LinearOperator, operator: LinearOperator) -> None:
    """Set the weights to the operator's matrix, or to its best approximation of their rank."""
    matrix = operator.as_matrix()
    with torch.no_grad():
        if isinstance(new, Dense):
            new.matrix.copy_(matrix)
            return
        first, last = new.parameters()
        # By NumPy: the SVD of PyTorch may fail, see norms.largest_singular_value.
        factors = np.linalg.svd(matrix.double().cpu().numpy(), full_matrices=False)
        u, values, v = (torch.from_numpy(factor).to(matrix.device) for factor in factors)
        # Truncated SVD, the nearest matrix of this rank; the roots give both factors one scale.
        roots = values[: len(first)].sqrt()
        first.copy_(roots[:, None] * v[: len(first)])
        last.copy_(u[:, : len(first)] * roots)


# --- Wrong operators -----------------------------------------------------------------------------


def _assumed(layer: LinearOperator, wrong: float | LinearOperator) -> LinearOperator:
    """The wrong operator, on the layer's device and in its precision."""
    if not isinstance(wrong, nn.Module):
        return wrong_operator(layer, wrong)
    remedy = "make one with korisk.operators.from_callables"
    if not isinstance(wrong, LinearOperator):
        raise invalid("wrong", "be a share such as 0.05, or a LinearOperator", wrong, remedy)
    shapes, got = (f"{shape_text(x.domain)} -> {shape_text(x.range)}" for x in (layer, wrong))
    require(shapes == got, "wrong", f"have the shapes of {layer.name}, {shapes}", wrong, got=got)
    return deepcopy(wrong).to(layer.device, layer.dtype)


def wrong_operator(operator: LinearOperator, share: float) -> LinearOperator:
    """The same operator with a geometry that is wrong by a share.

    Parameters
    ----------
    operator : LinearOperator
        A `Projector`, a `PixelBackprojector` or a rigid `Moving`, or an adjoint, a multiple, an
        inverse by `Tikhonov` or a combination of such operators.
    share : float
        Relative error of the geometry, above -0.9 and at most 9, such as 0.05 for 5%. Detector bins
        of a scanner get wider by it; turns and shifts of a motion get larger.

    Returns
    -------
    LinearOperator
        Of the same shapes and name, on the same device and in the same precision.

    Raises
    ------
    KoriskError
        If the operator has no such geometry.

    Examples
    --------
    >>> from korisk.ablation import wrong_operator
    >>> from korisk.operators import ParallelBeam, Projector
    >>> wrong = wrong_operator(Projector(ParallelBeam(8, views=6, bins=12)).T, 0.05)
    >>> wrong.name, wrong.T.geometry.bin_spacing
    ('A^T', 1.05)
    """
    remedy = "5% is 0.05"
    share = _checks.real("wrong", share, above=-0.9, at_most=9, remedy=remedy)
    distorted = _distorted(operator, share)
    if distorted is None:
        rule = f"{operator.name} is no operator whose geometry korisk can make wrong"
        give = f"{rule}, got {type(operator).__name__}; give one of your own with "
        raise KoriskError(give, Argument("wrong", ...))
    distorted.name = operator.name
    return distorted


def _distorted(operator: LinearOperator, share: float) -> LinearOperator | None:
    """The operator with a wrong geometry, or None if it has no geometry."""
    place: dict[str, Any] = {"device": operator.device, "dtype": operator.dtype}
    if isinstance(operator, Projector | PixelBackprojector):
        scan, stencil = operator.geometry, operator.stencil
        if isinstance(stencil, RotateAndSum):
            return None  # its bins are the columns of the image
        scan = changed(scan, bin_spacing=scan.bin_spacing * (1 + share))
        place["engine"] = operator.engine
        if isinstance(operator, PixelBackprojector):
            return PixelBackprojector(scan, **place)
        if isinstance(stencil, Sampled):
            return Projector(scan, kind="sampled", samples=stencil.samples, **place)
        return Projector(scan, **place)
    if isinstance(operator, Moving) and operator.warp.rigid:
        poses = operator.poses.detach() * (1 + share)
        return Moving(operator.rest, poses, states=operator.states, axis=operator.axis)
    if isinstance(operator, linear.Adjoint | linear.Scaled | Tikhonov):
        inner = _distorted(operator.of, share)
        if inner is None:
            return None
        inner.name = operator.of.name
        if isinstance(operator, linear.Adjoint):
            return inner.T
        if isinstance(operator, linear.Scaled):
            return inner * operator.factor
        return Tikhonov(inner, operator.mu, solver=operator.solver)
    if isinstance(operator, linear.Composed | linear.Sum | linear.Stacked):
        # Components without a geometry stay as they are.
        pairs = [(_distorted(old, share), old) for old in operator.operators]
        if all(new is None for new, _ in pairs):
            return None
        return type(operator)([old if new is None else new for new, old in pairs])
    return None
