"""Operators whose work PyTorch cannot look into, and how compilers and tracers see them.

In eager mode such an operator is an `autograd.Function` whose derivative is its adjoint. Under
torch.compile, torch.export, torch.jit.trace, on meta devices and for tensor subclasses it is one
node, `korisk::apply`, with a shape, a derivative and a rule for batches; the operator is found by
its key, so nothing of it is traced.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from korisk._checks import require
from korisk.errors import KoriskError
from korisk.operators.caching import live
from korisk.operators.inputs import jit_tracing
from korisk.operators.linear import LinearOperator

Context = Any  # what PyTorch hands from a forward pass to its derivative
Decoder = Callable[[str, torch.device, torch.dtype], LinearOperator]
DECODERS: dict[str, Decoder] = {}  # by the word before a recipe's colon

# A PyTorch that cannot tell exports every opaque operator as a node.
_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)
# Inside vmap, jvp or grad of torch.func; a PyTorch that cannot tell gets the slower form.
inside_transform = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_SCHEMA = "apply(Tensor x, str key, bool adjoint) -> Tensor"
_library: Any = torch.library.Library("korisk", "DEF")  # type: ignore[no-untyped-call]


def _recorded() -> bool:
    """Whether a program is being exported or traced, which may run in another process."""
    return _exporting() or jit_tracing()


class Opaque(LinearOperator):
    """An operator that computes A x and A^T y by other means than differentiable PyTorch.

    A subclass defines `_product`, which may use NumPy, solvers or kernels. Derivatives of any
    order, `vmap`, `jvp` and compilers follow from linearity; weights of its own cannot be trained.
    """

    inlined = False  # whether `_product` is plain PyTorch, fit to be part of an exported program

    @property
    def opaque(self) -> bool:  # type: ignore[override]
        """Whether compilers and tracers see it as one node."""
        return not (self.inlined and _recorded())

    @abstractmethod
    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        """A x, or A^T x; x has no graph, and neither must the result, a tensor of its own."""

    def _require_frozen(self, module: nn.Module, what: str, remedy: str) -> None:
        """Raise if a module has trainable weights, whose gradients would be lost."""
        frozen = not any(weights.requires_grad for weights in module.parameters())
        got = "weights that require gradients, which would be lost"
        require(frozen, f"{self.name}: {what}", "not be trainable", module, remedy, got=got)

    def _map(self, x: Tensor) -> Tensor:
        return self._product(x, False) if _recorded() else differentiable(x, self, False)

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._product(y, True) if _recorded() else differentiable(y, self, True)


class _Product(torch.autograd.Function):
    """A product and its adjoint as each other's derivative, to any order.

    PyTorch's own gradient of a sparse product is an order of magnitude slower, and it cannot be
    differentiated twice.
    """

    @staticmethod
    def forward(ctx: Context, x: Tensor, operator: Opaque, adjoint: bool) -> Tensor:
        # The derivative of x -> A x is A itself, and its transpose A^T: no tensor is saved.
        ctx.operator, ctx.adjoint = operator, adjoint
        return operator._product(x.detach(), adjoint)

    @staticmethod
    def backward(ctx: Context, *gradient: Tensor) -> tuple[Tensor, None, None]:
        return differentiable(gradient[0], ctx.operator, not ctx.adjoint), None, None

    @staticmethod
    def jvp(ctx: Context, *tangents: Tensor) -> Tensor:
        return differentiable(tangents[0], ctx.operator, ctx.adjoint)


class _TransformedProduct(torch.autograd.Function):
    """As `_Product`, with the separate `setup_context` that torch.func requires; slower to call."""

    @staticmethod
    def forward(x: Tensor, operator: Opaque, adjoint: bool) -> Tensor:
        return operator._product(x.detach(), adjoint)

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[object, ...], output: Tensor) -> None:
        _, ctx.operator, ctx.adjoint = inputs

    backward = _Product.backward
    jvp = _Product.jvp

    @staticmethod
    def vmap(
        info: object, in_dims: tuple[int | None, ...], x: Tensor, operator: Opaque, adjoint: bool
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        # The mapped dimension becomes a batch dimension: operators take any number of them.
        return differentiable(x.movedim(in_dims[0], 0), operator, adjoint), 0


def no_derivative(x: Tensor) -> bool:
    """Whether no derivative with respect to x can be needed."""
    # How deep in torch.autograd.forward_ad; a PyTorch that cannot tell is always inside.
    level = getattr(torch.autograd.forward_ad, "_current_level", 0)
    graph = x.requires_grad and torch.is_grad_enabled()
    return not (graph or level >= 0 or inside_transform())


def differentiable(x: Tensor, operator: Opaque, adjoint: bool) -> Tensor:
    """A x, or A^T x, with derivatives where they are needed."""
    if no_derivative(x):  # a view of what has no graph would only take time
        return operator._product(x.detach() if x.requires_grad else x, adjoint)
    # The plain form is faster to call, and torch.func does not take it.
    form: Any = _TransformedProduct if inside_transform() else _Product
    result: Tensor = form.apply(x, operator, adjoint)
    return result


# The node that compilers see


def operator_of(key: str, x: Tensor) -> LinearOperator:
    """The operator of a key: one that exists in this process, or one built from its recipe."""
    operator, place = live.get(key), (x.dtype, x.device)
    if isinstance(operator, LinearOperator) and (operator.dtype, operator.device) == place:
        return operator
    if ":" in key:
        return _decoded(key, x.device, x.dtype)
    where = "in the process that runs it, on the device and in the precision of its input"
    why = "only scanners and what PyTorch itself computes can be exported to another process"
    rule = f"must exist {where}, {x.dtype} on {x.device}, and does not"
    raise KoriskError(f"the operator of this program {rule}; {why}")


@lru_cache(maxsize=16)
def _decoded(recipe: str, device: torch.device, dtype: torch.dtype) -> LinearOperator:
    kind, _, text = recipe.partition(":")
    require(kind in DECODERS, "the program's operator", f"be one of {[*DECODERS]}", kind)
    return DECODERS[kind](text, device, dtype)


def _applied(x: Tensor, key: str, adjoint: bool) -> Tensor:
    operator = operator_of(key, x)
    # Not _map itself, which would come back here wherever a compiler folds constants.
    function: Any = type(operator)._map_adjoint if adjoint else type(operator)._map
    with torch.no_grad(), _lazy_views():
        image: Tensor = function.__wrapped__(operator, x)
        return image.contiguous()


def _lazy_views() -> Any:
    """Below a compiler, PyTorch ignores that a view is conjugated or negated: not in here."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in ("Conjugate", "Negative", "ZeroTensor"):
        excluded = excluded.remove(getattr(torch._C.DispatchKey, key))
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


def _shaped(x: Tensor, key: str, adjoint: bool) -> Tensor:
    # Shapes without numbers, for compilers.
    source, target = operator_of(key, x)._ends(adjoint)
    return x.new_empty((*x.shape[: x.ndim - len(source)], *target))


def _remember(ctx: Context, inputs: tuple[object, ...], output: Tensor) -> None:
    _, ctx.key, ctx.adjoint = inputs


def _derivative(ctx: Context, gradient: Tensor) -> tuple[Tensor, None, None]:
    return torch.ops.korisk.apply(gradient, ctx.key, not ctx.adjoint), None, None


def _batched(
    info: object, in_dims: tuple[int | None, ...], x: Tensor, key: str, adjoint: bool
) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return torch.ops.korisk.apply(x.movedim(in_dims[0], 0), key, adjoint), 0


_library.define(_SCHEMA, tags=torch.Tag.pt2_compliant_tag)
_library.impl("apply", _applied, "CompositeExplicitAutograd")
torch.library.register_fake("korisk::apply", _shaped, lib=_library)
torch.library.register_autograd("korisk::apply", _derivative, setup_context=_remember, lib=_library)
torch.library.register_vmap("korisk::apply", _batched, lib=_library)
