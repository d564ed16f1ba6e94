"""describe: any PyTorch module as the network that the theory takes."""

import math
import warnings
from dataclasses import replace

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, KoriskWarning, invalid, shown
from korisk.networks.dense import DenseNet
from korisk.networks.describe import recording as recordings
from korisk.networks.describe import rules
from korisk.networks.describe.graph import Inside, Link, links
from korisk.networks.describe.layers import layers_of, own_bracket
from korisk.networks.describe.linear import far_slope, is_plain, searched_slope
from korisk.networks.describe.marks import mark_of
from korisk.networks.describe.recording import CannotFollow, Frame, Recording, Ref, Step
from korisk.networks.describe.rules import unit_bracket
from korisk.networks.known_operator import KnownOperatorNet
from korisk.operators.consistency import DataConsistency
from korisk.operators.dynamics import Burgers
from korisk.operators.linear import LinearOperator
from korisk.theory import Known, Network, NormBracket
from korisk.theory.bracket import NOT_KNOWN
from korisk.theory.layer import resolve

# Taken whole.
_BY_RULE = (LinearOperator, DataConsistency, Burgers, KnownOperatorNet, DenseNet)
_WRAP = "wrap it in a module whose forward takes and returns one tensor"
_IDENTITY = replace(unit_bracket("rearranges or selects entries"), whose="operator")
_SLACK = 1e-6  # relative, of a slope that was seen, beyond what its rounding is allowed


def describe(module: nn.Module, example: Tensor, *, name: str = "") -> Network:
    """Describe a PyTorch module as a chain or graph of known and learned layers.

    The first sample of `example` is run once, in evaluation mode, and the module is left as it
    was. A layer is learned where a parameter that it uses requires gradients, or where
    `korisk.mark_learned` says so; Lipschitz brackets are those of the present weights and of this
    input size. What joins values without a Lipschitz constant, such as a product of two, becomes
    one layer with what is around it. A warning says so, and names every layer whose constant could
    only be sampled. The rules are in docs/reference/describe.md.

    Parameters
    ----------
    module : torch.nn.Module
        The module, which takes and returns one tensor.
    example : torch.Tensor
        A finite input of real floating-point numbers, batch first.
    name : str, default ""
        Title of the network.

    Returns
    -------
    Network
        The layers with their parameters and Lipschitz brackets.

    Raises
    ------
    KoriskError
        If the module cannot be run on the example or has a part without a Lipschitz constant on
        all inputs, such as attention.

    Examples
    --------
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
    module = recordings.uncompiled(module)
    with recordings.untouched(module, example):
        try:
            # Constants do not depend on the batch, so one sample is enough and fastest.
            with recordings.untouched(module, example):
                recording, notes = _run(module, example[:1])
        except KoriskError:  # it may need more than one sample
            if len(example) == 1:
                raise
            recording, notes = _run(module, example)
        if not (graph := links(recording, _inside(notes))):
            identity = Known(type(module).__name__, lipschitz=_IDENTITY)
            return Network([identity], name=name, largest_slope=1.0)
        layers, compositions, more = layers_of(module, recording, graph)
        # A slope that is attained: no constant of the network may be below it.
        tried = [example[:1], *recordings.far_inputs(example[:1])]
        slope = far_slope(lambda x: module(x.clone()), tried)
        net = Network(layers, compositions=compositions, name=name, largest_slope=slope)
        upper = net.lipschitz()
        is_stated = any(layer.bracket.whose == "stated" for layer in layers)
        if upper < math.inf and not (is_stated or recording.branches):
            # The example and an input of its size: a constant of korisk's own must hold anywhere.
            slope = max(slope, searched_slope(lambda x: module(x.clone()), tried[:6:5]))
    if recording.branches:
        places = ", ".join(dict.fromkeys(path or "the module" for path in recording.branches))
        notes.append(
            f"{shown(places)[1:-1]} branches on the values of its input; the description "
            "covers the branch that the example took, and constants hold for inputs that take it"
        )
    if slope > upper * (1 + _SLACK):
        what = f"two inputs that were tried come out {slope:.4g} times as far apart"
        if not (is_stated or recording.branches):
            raise KoriskError(
                f"{what}, more than the {upper:.4g} that follow from what was recorded at the "
                "example: the module does something else there; give an example from the middle of "
                "its inputs, or mark what does with kr.mark_known or kr.mark_learned(lipschitz=...)"
            )
        why = "constants stated with kr.mark_known or kr.mark_learned: those must be of the true "
        why += "layers, and the present ones are steeper"
        if not is_stated:
            why = "the branch that the example took: another branch is steeper"
        notes.append(f"{what}, more than the {upper:.4g} that follow from {why}")
    for words in [*notes, *more]:
        warnings.warn(words, KoriskWarning, stacklevel=2)
    return net


def _check(module: object, example: object) -> None:
    if not isinstance(module, nn.Module):
        raise invalid("module", "be an nn.Module", module, _WRAP)
    if not isinstance(example, Tensor):
        remedy = f"if the module takes several, {_WRAP} and holds the others"
        raise invalid("example", "be one torch tensor, an input of the module", example, remedy)
    dense = example.is_floating_point() and example.layout == torch.strided
    rule = "be a dense tensor, batch first, of at least one sample of real floating-point numbers"
    got = f"{example.dtype}, {example.layout}, {tuple(example.shape)}"
    remedy = "give complex numbers by torch.view_as_real, and whole numbers embedded"
    fits = dense and example.ndim > 0 and example.numel() > 0
    _checks.require(fits, "example", rule, example, remedy, got=got)
    # Without numbers nothing can be run.
    tensors = (example, *module.parameters(), *module.buffers())
    if any(tensor.is_meta or isinstance(tensor, nn.UninitializedParameter) for tensor in tensors):
        why = "holds no numbers yet (torch's meta device, or a lazy module)"
        raise KoriskError(f"the module or the example {why}; load its weights, or run it once")
    finite, got = bool(torch.isfinite(example).all()), "NaN or infinity in it"
    _checks.require(finite, "example", "be finite", example, "give a real input", got=got)


def _run(module: nn.Module, example: Tensor, *, enter: bool = False) -> tuple[Recording, list[str]]:
    """Record a run; modules that cannot be followed become one step, with a note."""
    # Modules that could not be followed are taken whole, and the run starts again.
    opaque: set[int] = set()
    notes: list[str] = []
    paths = {id(submodule): path for path, submodule in module.named_modules()}

    def taken_whole(submodule: nn.Module) -> bool:
        if id(submodule) in opaque:
            return True
        if submodule is module and enter:
            return False
        if mark_of(submodule) is not None:
            return True
        rules.refuse(submodule, paths.get(id(submodule), ""))
        return isinstance(submodule, _BY_RULE) and is_plain(submodule)

    def recorded(x: Tensor) -> Recording:
        recorder, output = recordings.record(module, x, taken_whole)
        if not isinstance(output, Tensor) or not output.is_floating_point():
            kind = output.dtype if isinstance(output, Tensor) else type(output).__name__
            remedy = f"{_WRAP}: the output whose error is measured"
            raise invalid("the module", "return one tensor of floats", kind, remedy, got=str(kind))
        if not bool(torch.isfinite(output).all()):
            why = "the module returns NaN or infinity for the example"
            raise KoriskError(f"{why}; check its weights, or give another input")
        if (last := recorder.step_of(output)) is None:
            why = "the module's output does not depend on its input by any function of torch"
            remedy = "check the module, or mark it with kr.mark_known or kr.mark_learned"
            raise KoriskError(f"{why}; {remedy}")
        return Recording(recorder.steps, last, recorder.branches, recorder.root)

    while True:
        try:
            recording = recorded(example)
            if id(module) not in opaque:
                recordings.check_recording(module, recording, example, recorded)
            return recording, notes
        except CannotFollow as lost:
            frame, why = lost.frame, lost.why
            # It is taken whole already: then the whole module must be.
            if id(frame.module) in opaque:
                frame = Frame(module, "", 0)
        except KoriskError:
            raise
        except Exception as error:
            frame, why = Frame(module, "", 0), f"{type(error).__name__} while it is recorded"
            try:
                # Recording may fail where the module itself runs.
                runs = isinstance(module(example.detach().clone()), Tensor)
            except Exception:
                runs = False
            if id(module) in opaque or not runs:  # it fails while nothing is recorded, too
                reason = shown(" ".join(str(error).split()) or "no message", limit=200)[1:-1]
                what = f"the module fails on the example of shape {tuple(example.shape)}"
                why = f"{type(error).__name__}: {reason}"
                raise KoriskError(f"{what}: {why}; give an input that it takes") from error
        opaque.add(id(frame.module))
        place = frame.path or type(module).__name__
        notes.append(f"{place} cannot be followed inside ({why}); it is taken whole")


def _inside(notes: list[str]) -> Inside:
    """The brackets of modules that are taken whole: stated by a mark, or found inside."""

    def bracket(step: Step, x: Tensor) -> NormBracket | None:
        module = step.module
        assert module is not None  # it is asked for modules alone
        if (mark := mark_of(module)) is not None and mark.lipschitz is not None:
            return resolve("lipschitz", mark.lipschitz)
        if isinstance(module, KnownOperatorNet | DenseNet) and is_plain(module):
            return own_bracket(module)
        if mark is None or (isinstance(module, _BY_RULE) and is_plain(module)):
            return None
        one_value = len(step.args) == 1 and isinstance(step.args[0], Ref) and not step.kwargs
        if not one_value or step.position is not None:
            return NOT_KNOWN
        # The inside of a marked module has a constant by the same rules.
        recording, more = _run(module, x, enter=True)
        notes.extend(more)
        steps = recording.steps
        if any(inner.module is module for inner in steps):  # nothing inside could be followed
            return None
        if not links(recording, bracket):
            return _IDENTITY
        needed = tuple(recording.leading_to(recording.output))
        return Link((steps[0],), needed, steps, bracket).bracket

    return bracket
