"""Attention, recurrent and normalising layers in the functions that they are made of.

On a set of inputs every part has its own range and slopes, so `describe` follows these layers
inside where it otherwise takes them whole or refuses them. `check_recording` compares what is
written here with torch's own layer, on the example and on another input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from korisk.networks.describe.linear import is_plain

_BLOCKED = -1e4  # of a masked score: its exponential is 0, as that of minus infinity

# Modules that hold such layers, and have no constant on all inputs.
HOLDERS = (nn.Transformer, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)

State = tuple[Tensor, ...]
Cell = Callable[[Tensor, Tensor, State], State]  # both parts of the gates, and the state
Function = TypeVar("Function", bound=Callable[..., Tensor])

FUNCTIONS: dict[str, Callable[..., Tensor]] = {}  # by the name of torch's function


def _written(function: Function) -> Function:
    """Register a replacement for torch's function of the same name."""
    FUNCTIONS[function.__name__] = function
    return function


def centred(x: Tensor, axes: int) -> Tensor:
    """x less its mean over the last axes, an orthogonal projection."""
    if has_torch_function_unary(x):
        return handle_torch_function(centred, (x,), x, axes)
    # Recorded as one step under this name, so that its range and slopes are known as a whole.
    return x - x.mean(tuple(range(-axes, 0)), keepdim=True)


def unit_rms(x: Tensor, axes: int, eps: float) -> Tensor:
    """x / sqrt(mean x^2 + eps) over the last axes."""
    if has_torch_function_unary(x):
        return handle_torch_function(unit_rms, (x,), x, axes, eps)
    return x * torch.rsqrt(x.square().mean(tuple(range(-axes, 0)), keepdim=True) + eps)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, axis: int) -> Tensor:
    """x times a weight and plus a bias, which belong to an axis and those behind it."""

    def along(values: Tensor) -> Tensor:
        return values.reshape(*values.shape, *[1] * (x.ndim - axis - values.ndim))

    x = x if weight is None else x * along(weight)
    return x if bias is None else x + along(bias)


@_written
def layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """x minus its mean, divided by the root mean square over the last axes."""
    unit = unit_rms(centred(x, len(shape)), len(shape), eps)
    return _scaled(unit, weight, bias, x.ndim - len(shape))


@_written
def rms_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x divided by its root mean square over the last axes."""
    least = torch.finfo(x.dtype).eps if eps is None else eps
    return _scaled(unit_rms(x, len(shape), least), weight, None, x.ndim - len(shape))


@_written
def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Layer normalisation of each group of channels."""
    # (batch, groups, entries of a group)
    rows = x.reshape(x.shape[0], groups, -1)
    return _scaled(unit_rms(centred(rows, 1), 1, eps).reshape(x.shape), weight, bias, 1)


@_written
def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Layer normalisation of each channel, or by fixed statistics."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        # With fixed statistics: a scale and a shift of each channel, axis 1.
        unit = _scaled(x, torch.rsqrt(running_var + eps), None, 1)
        shift = -running_mean * torch.rsqrt(running_var + eps)
        return _scaled(_scaled(unit, None, shift, 1), weight, bias, 1)
    return group_norm(x, x.shape[1], weight, bias, eps)


@_written
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """One half of an axis, times the sigmoid of the other."""
    value, gate = x.chunk(2, dim)
    return value * torch.sigmoid(gate)


@_written
def normalize(
    x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x over its p-norm along an axis."""
    size: Tensor = torch.linalg.vector_norm(x, p, dim, keepdim=True)
    return x / size.clamp_min(eps)


@_written
def softmin(x: Tensor, dim: int, **options: Any) -> Tensor:
    """The softmax of -x."""
    return torch.softmax(-x, dim)


@_written
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T / sqrt(width)) v."""
    if dropout_p > 0 or enable_gqa:
        raise NotImplementedError("attention with dropout or grouped queries")
    # Scores (..., queries, keys) = q k^T / sqrt(width of a head).
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(query * factor, key.transpose(-2, -1))
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, _BLOCKED)
    elif attn_mask is not None:
        # Infinite scores would make ranges infinite.
        blocked = attn_mask == -math.inf
        scores = (scores + attn_mask.masked_fill(blocked, 0.0)).masked_fill(blocked, _BLOCKED)
    return torch.matmul(torch.softmax(scores, -1), value)


def _multihead(
    layer: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, None]:
    width, heads = layer.embed_dim, layer.num_heads
    if layer._qkv_same_embed_dim:
        # Of queries, keys and values.
        weights = layer.in_proj_weight.chunk(3)
    else:
        weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    bias: Tensor | None = layer.in_proj_bias
    biases = (None,) * 3 if bias is None else bias.chunk(3)

    def headed(x: Tensor, place: int) -> Tensor:  # (batch, heads, tokens, width of a head)
        x = F.linear(x, weights[place], biases[place])
        x = x if layer.batch_first else x.transpose(0, 1)
        return x.reshape(*x.shape[:2], heads, width // heads).transpose(1, 2)

    q, k, v = (headed(x, place) for place, x in enumerate((query, key, value)))
    mask = None
    if attn_mask is not None:
        mask = ~attn_mask if attn_mask.dtype == torch.bool else attn_mask
        mask = mask if mask.ndim == 2 else mask.reshape(-1, heads, *mask.shape[1:])
    if key_padding_mask is not None:
        padding = key_padding_mask[:, None, None]
        if padding.dtype == torch.bool:
            padding = query.new_zeros(padding.shape).masked_fill(padding, -math.inf)
        if mask is not None and mask.dtype == torch.bool:
            mask = query.new_zeros(mask.shape).masked_fill(~mask, -math.inf)
        # Both as numbers that are added to scores.
        mask = padding if mask is None else mask + padding
    mixed = scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)
    mixed = mixed.reshape(*mixed.shape[:2], width)
    mixed = mixed if layer.batch_first else mixed.transpose(0, 1)
    return F.linear(mixed, layer.out_proj.weight, layer.out_proj.bias), None


def _lstm_cell(entering: Tensor, fed_back: Tensor, state: State) -> State:
    # Order of the gates in torch.nn.LSTM: input, forget, cell, output.
    enter, forget, new, out = (entering + fed_back).chunk(4, -1)
    memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(memory), memory


def _gru_cell(entering: Tensor, fed_back: Tensor, state: State) -> State:
    # Order of the gates in torch.nn.GRU: reset, update, new.
    (reset, keep, new), (reset_h, keep_h, new_h) = entering.chunk(3, -1), fed_back.chunk(3, -1)
    candidate = torch.tanh(new + torch.sigmoid(reset + reset_h) * new_h)
    share = torch.sigmoid(keep + keep_h)
    return ((1 - share) * candidate + share * state[0],)


def _gru_from_zero(entering: Tensor, fed_back: Tensor, state: State) -> State:
    # From 0 on, the state is a mean of values of tanh, which its range alone does not show.
    return (_gru_cell(entering, fed_back, state)[0].clamp(-1.0, 1.0),)


def _rnn_cell(bent: Callable[[Tensor], Tensor]) -> Cell:
    return lambda entering, fed_back, state: (bent(entering + fed_back),)


def _cell_of(layer: nn.Module) -> Cell:
    if isinstance(layer, nn.LSTM | nn.LSTMCell):
        return _lstm_cell
    if isinstance(layer, nn.GRU | nn.GRUCell):
        return _gru_cell
    return _rnn_cell(torch.tanh if layer.nonlinearity == "tanh" else torch.relu)


def _recurrent(layer: nn.RNNBase, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
    cell, several = _cell_of(layer), isinstance(layer, nn.LSTM)
    # (time, batch, entries)
    value = x.transpose(0, 1) if layer.batch_first else x
    ways = ("", "_reverse") if layer.bidirectional else ("",)
    zeros = x.new_zeros(value.shape[1], layer.hidden_size)
    initial = None if hx is None else hx if several else (hx,)
    if initial is None and cell is _gru_cell:
        cell = _gru_from_zero
    ends: list[State] = []
    for depth in range(layer.num_layers):
        outputs = []
        for way in ways:
            end, place = f"_l{depth}{way}", len(ends)
            biases = [getattr(layer, f"bias_{kind}{end}", None) for kind in ("ih", "hh")]
            entering = F.linear(value, getattr(layer, f"weight_ih{end}"), biases[0])
            again = getattr(layer, f"weight_hh{end}")
            state: State = (zeros,) * (1 + several)  # of an LSTM also its memory
            if initial is not None:
                state = tuple(values[place] for values in initial)
            order = range(len(value)) if not way else reversed(range(len(value)))
            hidden = {}
            for time in order:
                state = cell(entering[time], F.linear(state[0], again, biases[1]), state)
                hidden[time] = state[0]
            outputs.append(torch.stack([hidden[time] for time in range(len(value))]))
            ends.append(state)
        value = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
    last = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
    return (value.transpose(0, 1) if layer.batch_first else value), last if several else last[0]


def _cell(layer: nn.RNNCellBase, x: Tensor, hx: Any = None) -> Any:
    several = isinstance(layer, nn.LSTMCell)
    zeros = x.new_zeros(*x.shape[:-1], layer.hidden_size)
    state = (zeros,) * (1 + several) if hx is None else tuple(hx) if several else (hx,)
    entering = F.linear(x, layer.weight_ih, layer.bias_ih)
    state = _cell_of(layer)(entering, F.linear(state[0], layer.weight_hh, layer.bias_hh), state)
    return state if several else state[0]


def layer(module: nn.Module) -> Callable[..., Any] | None:
    """The function that replaces a layer's forward; None if the layer runs as it is."""
    kind = type(module)
    if not is_plain(module):
        return None
    # What is not written here: added keys of zeros, and projected states.
    if isinstance(module, nn.MultiheadAttention) and kind is nn.MultiheadAttention:
        return _multihead if module.bias_k is None and not module.add_zero_attn else None
    if kind in (nn.LSTM, nn.GRU, nn.RNN):
        return _recurrent if module.proj_size == 0 else None
    return _cell if kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell) else None
