"""Modules of torch.jit, run node by node, so that their functions are recorded like others.

A traced module is a list of torch's functions. Each is called under its Python name; where a graph
has branches, loops or a function without such a name, it is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_NOT_TENSORS = {
    *("prim::Constant", "prim::GetAttr", "prim::ListConstruct", "prim::TupleConstruct"),
    *("prim::ListUnpack", "prim::TupleUnpack", "prim::NumToTensor", "aten::Int", "aten::size"),
}


def is_followable(module: torch.jit.ScriptModule) -> bool:
    """Whether every node of the module's graph can be called."""
    try:
        return all(
            node.kind() in _NOT_TENSORS or _function(node.kind()) is not None
            for node in _nodes(module)
        )
    except RuntimeError:  # it has no forward, or a graph that cannot be inlined
        return False


def run(module: torch.jit.ScriptModule, *args: Any) -> Any:
    """What the module gives, by calling torch's functions one after the other."""
    graph: Any = module.inlined_graph
    values: dict[str, Any] = {
        value.debugName(): given
        for value, given in zip(graph.inputs(), (module, *args), strict=True)
    }
    for node in _nodes(module):
        inputs = [values[each.debugName()] for each in node.inputs()]
        results = _called(node, inputs)
        for value, result in zip(node.outputs(), results, strict=True):
            values[value.debugName()] = result
    (output,) = (values[each.debugName()] for each in graph.outputs())
    return output


def _nodes(module: torch.jit.ScriptModule) -> Iterator[Any]:
    graph: Any = module.inlined_graph
    return iter(graph.nodes())


def _called(node: Any, inputs: list[Any]) -> tuple[Any, ...]:
    kind = node.kind()
    if kind == "prim::Constant":
        return (node.output().toIValue() if node.hasAttribute("value") else None,)
    if kind == "prim::GetAttr":
        return (getattr(inputs[0], node.s("name")),)
    if kind in ("prim::ListConstruct", "prim::TupleConstruct"):
        return (inputs if "List" in kind else tuple(inputs),)
    if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
        return tuple(inputs[0])
    if kind in ("prim::NumToTensor", "aten::Int"):
        return (inputs[0],)
    if kind == "aten::size":
        return (inputs[0].size(*inputs[1:]),)
    schema: Any = torch._C.parse_schema(node.schema())
    named = list(zip(schema.arguments, inputs, strict=True))
    places = [given for argument, given in named if not argument.kwarg_only]
    names = {a.name: given for a, given in named if a.kwarg_only and given is not None}
    function = _function(kind)
    assert function is not None
    result = function(*places, **names)
    return result if isinstance(result, tuple) else (result,)


def _function(kind: str) -> Callable[..., Any] | None:
    """torch's function of the kind of a node, taking its arguments in their order."""
    space, _, name = kind.partition("::")
    if space != "aten" or name in ("to", "item", "elu", "elu_", "instance_norm"):
        return None
    if name in _ORDERED:
        return _ORDERED[name]
    for place in (F, torch, Tensor):
        if callable(found := getattr(place, name, None)):
            return found  # type: ignore[no-any-return]
    return None


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Tensor:
    kind = f"{weight.ndim - 2}d"
    function: Any
    if transposed:
        function = getattr(F, f"conv_transpose{kind}")
        return function(x, weight, bias, stride, padding, output_padding, groups, dilation)  # type: ignore[no-any-return]
    function = getattr(F, f"conv{kind}")
    return function(x, weight, bias, stride, padding, dilation, groups)  # type: ignore[no-any-return]


def _batch_norm(
    x: Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Tensor:
    return F.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)


def _slice(x: Tensor, axis: int, start: Any, stop: Any, step: int) -> Tensor:
    before = (slice(None),) * (axis % x.ndim)
    return x[(*before, slice(start, stop, step))]


def _upsampled(mode: str) -> Callable[..., Tensor]:
    if mode == "nearest":
        return lambda x, size, scales: F.interpolate(x, size, scales, mode)
    return lambda x, size, align, scales: F.interpolate(x, size, scales, mode, align)


# Functions of torch's Python side whose arguments have another order.
_ORDERED: dict[str, Callable[..., Any]] = {
    "_convolution": _convolution,
    "batch_norm": _batch_norm,
    "layer_norm": lambda x, shape, weight, bias, eps, *_: F.layer_norm(x, shape, weight, bias, eps),
    "group_norm": lambda x, groups, w, b, eps, *_: F.group_norm(x, groups, w, b, eps),
    "slice": _slice,
    "upsample_nearest1d": _upsampled("nearest"),
    "upsample_nearest2d": _upsampled("nearest"),
    "upsample_linear1d": _upsampled("linear"),
    "upsample_bilinear2d": _upsampled("bilinear"),
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "pad": F.pad,
}
