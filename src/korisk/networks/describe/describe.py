"""describe: any PyTorch module as the network that the theory takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from korisk.errors import KoriskError, KoriskWarning, shown
from korisk.networks.dense import DenseNet
from korisk.networks.describe.chain import Inside, Link, links
from korisk.networks.describe.layers import layers_of, own_bracket
from korisk.networks.describe.marks import mark_of
from korisk.networks.describe.plain import is_plain
from korisk.networks.describe.rules import rules
from korisk.networks.describe.trace.recording import CannotFollow, Recorder, record, uncompiled
from korisk.networks.describe.trace.restore import untouched
from korisk.networks.describe.trace.steps import Frame, Recording, Step
from korisk.networks.describe.trial import check_reproduces, check_steady
from korisk.networks.known_operator import KnownOperatorNet
from korisk.operators.linear import LinearOperator
from korisk.theory import Known, Network, NormBracket
from korisk.theory.bracket import NOT_KNOWN
from korisk.theory.layer import resolve

_BY_RULE = (LinearOperator, KnownOperatorNet, DenseNet, nn.RNN)  # taken whole
_WRAP = "wrap it in a module whose forward takes and gives one tensor"


def describe(module: nn.Module, example: Tensor, *, name: str = "") -> Network:
    """The module as a chain of known and learned layers, with parameters and Lipschitz brackets.

    `example` is an input, batches first; its first sample is run once, in evaluation mode, and
    the module is left as it was. A layer is learned where a parameter that it uses requires
    gradients, or where `korisk.learned` says so; brackets are those of the present weights and of
    this input size. What is not a chain becomes one layer, and is warned of, as is every layer
    whose constant could only be sampled. See docs/reference/describe.md for the rules.

    `name` is the network's title. A module that cannot be run on the example, or followed, raises
    `KoriskError`.

    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> linear = nn.Linear(4, 3, bias=False)
    >>> _ = nn.init.constant_(linear.weight, 0.5)
    >>> net = kr.describe(nn.Sequential(linear, nn.ReLU()), ones(1, 4))
    >>> [(layer.name, layer.kind) for layer in net], net.parameters
    ([('0 Linear', 'learned'), ('1 ReLU', 'known')], 12)
    >>> round(net["0 Linear"].bracket.upper, 3)
    1.732
    """
    _check(module, example)
    module = uncompiled(module)
    with untouched(module, example):
        recording, notes = _followed(module, example)
        inside = _inside(notes)
        chain = links(recording, inside)
        if not chain:
            identity = NormBracket(1.0, 1.0, how="rearranges or selects entries")
            return Network([Known(type(module).__name__, lipschitz=identity)], name=name)
        layers, compositions, more = layers_of(module, recording, chain)
    for words in [*notes, *_branch_note(recording), *more]:
        warnings.warn(words, KoriskWarning, stacklevel=2)
    return Network(layers, compositions=compositions, name=name)


def _check(module: object, example: object) -> None:
    if not isinstance(module, nn.Module):
        raise KoriskError(f"module must be an nn.Module, got {shown(module)}; {_WRAP}")
    if not isinstance(example, Tensor):
        raise KoriskError(
            f"example must be one torch tensor, an input of the module, got {shown(example)}; if "
            f"the module takes several, {_WRAP} and holds the others"
        )
    if example.is_complex():
        raise KoriskError(
            f"example must hold real numbers, got {example.dtype}; give real and imaginary parts "
            "along an axis (torch.view_as_real), and join them inside the module"
        )
    if example.layout != torch.strided:
        raise KoriskError(
            f"example must be a dense tensor, got {example.layout}; give example.to_dense()"
        )
    if not example.is_floating_point():
        raise KoriskError(
            f"example must hold floating-point numbers, got {example.dtype}; whole numbers have no "
            "distance to stretch, so describe the part behind an embedding"
        )
    if example.ndim == 0 or example.numel() == 0:
        raise KoriskError(
            f"example must have a batch axis and at least one sample, got {tuple(example.shape)}"
        )
    if not bool(torch.isfinite(example).all()):
        raise KoriskError("example must be finite, got NaN or infinity in it; give a real input")
    if any(part.is_meta for part in (example, *module.parameters(), *module.buffers())):
        raise KoriskError(
            "the module or the example is on torch's meta device and holds no numbers; load its "
            "weights first"
        )
    for path, parameter in module.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise KoriskError(
                f"parameter {path} has no shape yet; run the lazy module once before describing it"
            )


def _followed(module: nn.Module, example: Tensor) -> tuple[Recording, list[str]]:
    """The run on the first sample; on all of them where a module does not take one alone."""
    try:
        return _run(module, example[:1])
    except KoriskError:
        if len(example) == 1:
            raise
        return _run(module, example)


def _run(module: nn.Module, example: Tensor, *, enter: bool = False) -> tuple[Recording, list[str]]:
    """The recorded run; modules that cannot be followed inside are taken whole, with a note."""
    opaque: set[int] = set()
    notes: list[str] = []
    paths = {id(part): path for path, part in module.named_modules()}

    def whole(part: nn.Module) -> bool:
        if id(part) in opaque:
            return True
        if part is module and enter:
            return False
        if mark_of(part) is not None:
            return True
        rules.refuse(part, paths.get(id(part), ""))
        if isinstance(part, torch.jit.ScriptModule):
            return True
        return isinstance(part, _BY_RULE) and is_plain(part)

    def recorded(x: Tensor) -> tuple[Recording, Frame]:
        return _recorded(module, x, whole)

    while True:
        try:
            found, root = recorded(example)
            if id(module) not in opaque:
                check_steady(found, recorded(example)[0], root)
                check_reproduces(module, found, example, root, lambda x: recorded(x)[0])
            return found, notes
        except CannotFollow as lost:
            if id(lost.frame.module) in opaque:
                lost.frame = Frame(module, "", 0)
            opaque.add(id(lost.frame.module))
            place = lost.frame.path or type(module).__name__
            notes.append(f"{place} cannot be followed inside ({lost.why}); it is taken whole")
        except KoriskError:
            raise
        except Exception as error:
            if id(module) not in opaque and _runs_by_itself(module, example):
                opaque.add(id(module))
                place = paths[id(module)] or type(module).__name__
                why = f"{type(error).__name__} where it is watched"
                notes.append(f"{place} cannot be followed inside ({why}); it is taken whole")
                continue
            reason = shown(" ".join(str(error).split()) or "no message", limit=200)[1:-1]
            raise KoriskError(
                f"the module fails on the example of shape {tuple(example.shape)}: "
                f"{type(error).__name__}: {reason}; give an input that it takes"
            ) from error


def _recorded(
    module: nn.Module, example: Tensor, whole: Callable[[nn.Module], bool]
) -> tuple[Recording, Frame]:
    recorder, output = record(module, example, whole)
    last = _output(output, recorder)
    return Recording(recorder.steps, last, recorder.branches), recorder.root


def _runs_by_itself(module: nn.Module, example: Tensor) -> bool:
    """Whether the module takes the example where nobody watches."""
    try:
        return isinstance(module(example.detach().clone()), Tensor)
    except Exception:
        return False


def _output(output: Any, recorder: Recorder) -> int:
    if not isinstance(output, Tensor) or not output.is_floating_point():
        kind = output.dtype if isinstance(output, Tensor) else type(output).__name__
        raise KoriskError(
            f"the module must give one tensor of floats, got {kind}; {_WRAP}, and picks the output "
            "that the error is measured on"
        )
    if not bool(torch.isfinite(output).all()):
        raise KoriskError(
            "the module gives NaN or infinity on the example; check its weights, or give an input "
            "that it takes"
        )
    last: int | None = recorder.step_of(output)
    if last is None:
        raise KoriskError(
            "the module's output does not depend on its input by any function of torch; check "
            "the module, or mark it with kr.known or kr.learned"
        )
    return last


def _inside(notes: list[str]) -> Inside:
    """The brackets of modules that are taken whole: stated by a mark, or found inside."""

    def bracket(step: Step, x: Tensor) -> NormBracket | None:
        module = step.module
        assert module is not None
        mark = mark_of(module)
        if mark is not None and mark.lipschitz is not None:
            return resolve("lipschitz", mark.lipschitz)
        if isinstance(module, KnownOperatorNet | DenseNet) and is_plain(module):
            return own_bracket(module)
        if mark is None or (isinstance(module, _BY_RULE) and is_plain(module)):
            return None
        if not step.takes_one_value:
            return NOT_KNOWN
        recording, more = _run(module, x, enter=True)
        notes.extend(more)
        steps = recording.steps
        if any(inner.module is module for inner in steps):  # nothing inside could be followed
            return None
        found = links(recording, bracket)
        if not found:
            return NormBracket(1.0, 1.0, how="rearranges or selects entries")
        return Link(steps[0], tuple(recording.leading_to(recording.output)), steps, bracket).bracket

    return bracket


def _branch_note(recording: Recording) -> list[str]:
    if not recording.branches:
        return []
    places = ", ".join(dict.fromkeys(path or "the module" for path in recording.branches))
    return [
        f"{shown(places)[1:-1]} chooses its way by the values it is given; described is the way "
        "that the example took, and constants hold where others take it too"
    ]
