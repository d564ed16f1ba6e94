"""Layers of the theory from the links of a graph: kinds, parameters, names, and warnings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.networks.dense import DenseNet
from korisk.networks.describe import linear
from korisk.networks.describe.graph import Link, cuts, is_torch_layer, repeated
from korisk.networks.describe.linear import function_norm, is_plain, plain_operator
from korisk.networks.describe.marks import UNNAMED, Mark, mark_of
from korisk.networks.describe.recording import Frame, Recording, Step
from korisk.networks.known_operator import KnownOperatorNet, free_name
from korisk.operators.linear import LinearOperator, parts_of
from korisk.theory import Composition, Known, Layer, Learned, NormBracket
from korisk.theory.bracket import HasNorm, Lipschitz
from korisk.theory.layer import INPUT, resolve
from korisk.theory.network import Network

Weights = dict[int, int]  # how many numbers, by the id of their tensor, or module if it states them
_LONGEST_HOW = 80
_SHOWN = 6  # names in one warning
_BRANCHED = (
    "values are joined in a way that has no Lipschitz constant, such as a product; combined into "
    "one layer: {}"
)
_SAMPLED = (
    "no upper Lipschitz constant is known of {}; slopes were sampled, a lower estimate; state one "
    "with kr.mark_known or kr.mark_learned(lipschitz=...); kr.amplification measures it on data"
)
_ROUNDED = (
    "{}: rounds to a coarser precision than the example's, so it jumps and has no Lipschitz "
    "constant; describe the module in one precision, with an example of it"
)
_THAWED = (
    "{}: marked as known, but with parameters that require gradients again; freeze them with "
    "requires_grad_(False)"
)
_NOTES = (_BRANCHED, _SAMPLED, _ROUNDED, _THAWED)
_NAMES = {name.lower(): name for name in ("ReLU", "GELU", "SiLU", "ELU", "SELU")}
_NAMES |= {"leaky_relu": "LeakyReLU", "__getitem__": "index"}


@dataclass
class _Draft:
    """The layers so far, and the notes for the user."""

    paths: dict[int, str]  # of parameters
    used_names: set[str] = field(default_factory=set)  # names
    values: dict[int, str] = field(default_factory=lambda: {0: INPUT})  # by step: whose it is
    layers: list[Layer] = field(default_factory=list)
    users: dict[int, list[str]] = field(default_factory=dict)  # layers that use some weights
    sizes: Weights = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=lambda: {text: [] for text in _NOTES})

    def add(self, link: Link, new_layers: list[tuple[Layer, Weights]]) -> None:
        """Add the layers of a link under free names, with the weights that they use."""
        takes = tuple(self.values[start.index] for start in link.starts)
        for layer, weights in new_layers:
            name = free_name(layer.name, self.used_names)
            self.used_names.add(name)
            if isinstance(layer, Learned) and layer.parameters is not None:
                shared = sum(size for key, size in weights.items() if key in self.users)
                layer = replace(layer, shared=min(shared, layer.parameters))
            # A layer that takes what the one before it gives needs no `inputs`.
            before = self.layers[-1].name if self.layers else INPUT
            # Constants in each input, where their contributions add up.
            if len(takes) > 1 and link.adds:
                brackets = {
                    self.values[key]: replace(bracket, whose=layer.bracket.whose)
                    for key, bracket in link.constants.items()
                }
                layer = replace(layer, lipschitz=None, inputs=brackets)
            elif takes != (before,):
                layer = replace(layer, inputs=takes)
            self.layers.append(replace(layer, name=name))
            self.sizes.update(weights)
            for key in weights:
                self.users.setdefault(key, []).append(name)
            takes = (name,)
        self.values[link.steps[-1].index] = takes[0]

    def warnings(self) -> list[str]:
        """One sentence for each kind of note."""
        sentences = [text.format(_listed(names)) for text, names in self.notes.items() if names]
        # Weights in several layers: the theorem counts the error of each use, a sum would not.
        shared: dict[tuple[str, ...], int] = {}
        for key, names in self.users.items():
            if len(names) > 1:
                shared[tuple(names)] = shared.get(tuple(names), 0) + self.sizes[key]
        if shared:
            uses = [f"{size:,} by {' and '.join(names)}" for names, size in shared.items()]
            sentences.append(
                f"parameters are shared: {_listed(uses)}; each of these layers counts them "
                "in its p, and the network counts them once: "
                f"{sum(self.sizes.values()):,} different parameters are trained"
            )
        return sentences


def layers_of(
    module: nn.Module, recording: Recording, graph: list[Link]
) -> tuple[list[Layer], list[Composition], list[str]]:
    """The layers, constants of runs of them, and warnings."""
    ends = [0, *(link.steps[-1].index for link in graph)]
    starts = ([start.index for start in link.starts] for link in graph)
    # Only a graph refers to the input by its name.
    is_chain = all(sources == [end] for sources, end in zip(starts, ends, strict=False))
    paths = {id(parameter): path for path, parameter in module.named_parameters()}
    draft = _Draft(paths, used_names=set() if is_chain else {INPUT})
    spans: list[tuple[Link, list[Layer]]] = []
    for link in graph:
        before = len(draft.layers)
        draft.add(link, _layers(link, draft))
        spans.append((link, draft.layers[before:]))
    return draft.layers, _compositions(recording, spans), draft.warnings()


def own_bracket(module: KnownOperatorNet | DenseNet) -> NormBracket:
    """A bracket of one of korisk's own networks as a whole."""
    upper = Network([layer for layer, _ in _own_layers(module)]).lipschitz()
    return NormBracket(0.0, upper, how="constants of its layers multiplied")


def _layers(link: Link, draft: _Draft) -> list[tuple[Layer, Weights]]:
    """The layer of a link, or the layers of a network or composition of korisk's own."""
    module = link.core[-1].module
    if link.is_chain and len(link.core) == 1 and module is not None:
        if mark_of(module) is not None or not is_plain(module):
            return [_link_layer(link, draft)]
        if isinstance(module, KnownOperatorNet | DenseNet):
            return _own_layers(module)
        if isinstance(module, LinearOperator):
            layers: list[tuple[Layer, Weights]] = []
            for operator in parts_of(module):
                name, weights = operator.name, _trained_in(operator)
                if weights:
                    bracket, p = _present(operator.norm()), sum(weights.values())
                    layers.append((Learned(name, parameters=p, lipschitz=bracket), weights))
                else:  # as its own constant, so that the theory can compose it
                    layers.append((Known(name, lipschitz=operator), {}))
            return layers
    return [_link_layer(link, draft)]


def _own_layers(module: KnownOperatorNet | DenseNet) -> list[tuple[Layer, Weights]]:
    """The layers that the network describes itself, with a constant for the first of them too."""
    first, *others = module.describe().layers
    assert isinstance(first, Learned)
    weights = _trained_in(module)
    if isinstance(module, KnownOperatorNet):
        # A diagonal matrix: its norm is its largest |entry|.
        largest = float(module.weights.detach().abs().max())
        bracket = NormBracket(largest, largest, how="largest |weight|")
    elif module.weight is not None:
        bracket = linear.matrix_norm(module.weight)
    else:
        left, right = (factor.double() for factor in module._factors())
        product = linear.LinearPart(lambda x: left @ (right @ x), right.new_zeros(right.shape[1]))
        bracket = product.bracket()
    layer: Layer = replace(first, lipschitz=_present(bracket))
    if not weights and any(True for _ in module.parameters()):  # frozen
        layer = Known(first.name, lipschitz=_of_map(bracket))
    return [(layer, weights), *((known_layer, {}) for known_layer in others)]


def _link_layer(link: Link, draft: _Draft) -> tuple[Layer, Weights]:
    marks = [mark for step in link.core if (mark := _step_mark(step)) is not None]
    several = len(link.starts) > 1
    # A mark counts for the layer only where the layer is the marked module and nothing else.
    alone = marks[0] if len(link.core) == 1 and (link.is_chain or several) and marks else None
    name = _link_label(link, draft.paths)
    trained = _link_trained(link)
    _check_mismatch(link, name, alone, trained)
    constant: Lipschitz = None  # by a mark, or the marked operator
    if alone is not None and not several:
        step = link.core[0]
        if (constant := alone.lipschitz) is None:
            constant = plain_operator(step.module)
        elif isinstance(constant, HasNorm):  # it states a constant, and is not the module's map
            constant = replace(resolve("lipschitz", constant), whose="stated")
        if alone.lipschitz is not None and len(step.parents) > 1:
            constant = repeated(resolve("lipschitz", constant), step)
    branched = not link.is_chain and len(link.core) > 1  # what has no rule, or is linear
    parts = list(dict.fromkeys(_step_label(step) for step in link.core))
    if branched and link.joint.upper == math.inf:
        draft.notes[_BRANCHED].append(f"{name} ({_listed(parts)})")
    if constant is None and link.joint.upper == math.inf:
        rounded = any(link.rounds(step) for step in link.core)
        draft.notes[_ROUNDED if rounded else _SAMPLED].append(name)
    for step in link.core:
        if isinstance(_step_mark(step), Known) and _own_trained(step):
            draft.notes[_THAWED].append(name)
    # A layer is learned if anything in it is.
    learned = bool(trained) or any(isinstance(mark, Learned) for mark in marks)
    if constant is None or (learned and isinstance(constant, LinearOperator)):
        bracket = link.joint
        if branched:
            how = _shortened(f"{bracket.how}; not a chain: {', '.join(parts)}")
            bracket = replace(bracket, how=how)
        constant = _present(bracket) if learned else _of_map(bracket)
    if not learned:
        mismatch = alone.mismatch if isinstance(alone, Known) else 0.0
        return Known(name, lipschitz=constant, mismatch=mismatch), {}
    weights = _link_weights(link, name, trained)
    return Learned(name, parameters=sum(weights.values()), lipschitz=constant), weights


def _check_mismatch(link: Link, name: str, alone: Mark | None, trained: Weights) -> None:
    """Raise if a module with a stated mismatch is not a layer of its own."""
    inside = (
        mark_of(submodule)
        for step in link.core
        if step.module is not None
        for submodule in step.module.modules()
        if submodule is not step.module or alone is None
    )
    if any(mark.mismatch for mark in inside if isinstance(mark, Known)):
        raise KoriskError(
            f"layer {name!r}: a module marked with mismatch= is in a part that is one layer, or "
            "inside another that is marked, so its error has no layer of its own; mark the whole "
            "block instead"
        )
    if isinstance(alone, Known) and alone.mismatch and trained:
        why = f"layer {name!r} is marked as known with mismatch="
        remedy = "freeze the tensor, or mark the module with kr.mark_learned"
        raise KoriskError(f"{why}, but a trained tensor is passed to it; {remedy}")


def _compositions(recording: Recording, spans: list[tuple[Link, list[Layer]]]) -> list[Composition]:
    """Constants of runs of layers that are smaller than the products of their constants.

    Of known linear layers in a row that are no operators, which the theory composes by itself, and
    of each part that is not a chain, between two values that carry everything.
    """
    compositions = []

    def compose(first: Layer, last: Layer, bracket: NormBracket | None) -> None:
        if bracket is not None and math.isfinite(bracket.upper):
            compositions.append(Composition(first.name, last.name, lipschitz=bracket))

    def between(start: Step, end: Step) -> Link:
        steps = tuple(recording.leading_to(end.index, after=start.index))
        some = spans[0][0]
        return Link((start,), steps, recording.steps, some.inside, some.gains)

    def is_known_linear(link: Link, layers: list[Layer]) -> bool:
        real = link.steps[-1].value.is_floating_point()
        real = real and all(start.value.is_floating_point() for start in link.starts)
        return real and all(isinstance(layer, Known) for layer in layers) and link.linear

    # Runs of known linear layers: the norm of their product is below the product of norms.
    run: list[tuple[Link, list[Layer]]] = []
    for span in [*spans, None]:
        follows = span is not None and is_known_linear(*span)
        if run and not (follows and span is not None and span[0].starts == (run[-1][0].steps[-1],)):
            constants = [layer.lipschitz for _, layers in run for layer in layers]
            operators = all(isinstance(constant, LinearOperator) for constant in constants)
            if len(run) > 1 and not operators:
                run_link = between(run[0][0].start, run[-1][0].steps[-1])
                norm = function_norm(partial(run_link.apply, double=True), run_link.start.value)
                compose(run[0][1][0], run[-1][1][-1], None if norm is None else _of_map(norm))
            run = []
        if follows and span is not None and (run or len(span[0].starts) == 1):
            run.append(span)
    # Sections with branches, between two values that all paths lead through.
    branched = []
    ends = {0, *(link.steps[-1].index for link, _ in spans)}
    between_layers = [cut for cut in cuts(recording) if cut in ends]  # not inside of one
    for first, last in pairwise(between_layers):
        section = [span for span in spans if first < span[0].steps[-1].index <= last]
        if len(section) > 1 and not all(link.is_chain for link, _ in section):
            branched.append((section, first, last))
    if branched and len(branched[0][0]) < len(spans):  # what is around a part, together with it
        branched.append((spans, 0, recording.output))
    for section, first, last in branched:
        bracket = between(recording.steps[first], recording.steps[last]).upper_bracket
        layers = [layer for _, several in section for layer in several]
        learned = any(isinstance(layer, Learned) for layer in layers)
        compose(layers[0], layers[-1], _present(bracket) if learned else _of_map(bracket))
    return compositions


# Names


def _link_label(link: Link, paths: dict[int, str]) -> str:
    """Name of a link: its step, the module that it covers, or first and last step."""
    first, last = link.core[0], link.core[-1]
    if len(link.core) == 1:
        used = [paths[id(tensor)] for tensor in first.trained if id(tensor) in paths]
        by_module = first.module is not None or (first.frames and is_torch_layer(first.frames[-1]))
        return used[0] if used and not by_module else _step_label(first)
    # The innermost module that holds both ends, if it holds nothing else of the run.
    for frame in reversed([frame for frame in first.frames if frame in last.frames]):
        inside = [step.index for step in link.all_steps if frame in step.frames]
        begun = max(start.index for start in link.starts)
        encloses = begun < inside[0] and inside[-1] <= link.steps[-1].index
        if (frame.path or is_torch_layer(frame)) and encloses:
            return _frame_label(frame)
    return f"{_step_label(first)} to {_step_label(last)}"


def _step_label(step: Step) -> str:
    """Name of a step: that of its mark, operator, torch layer or function."""
    if (mark := _step_mark(step)) is not None and mark.name != UNNAMED:
        return mark.name
    if isinstance(step.module, LinearOperator):
        return step.module.name
    frame = step.frames[-1] if step.frames else None
    if frame is not None and (step.module is not None or is_torch_layer(frame)):
        return _frame_label(frame)
    name = _NAMES.get(step.name, step.name.strip("_"))
    return f"{frame.path}.{name}" if frame is not None and frame.path else name


def _frame_label(frame: Frame) -> str:
    """Name of a module: its path, with its class if the path is a number."""
    kind = type(frame.module).__name__
    if not frame.path:
        return kind
    return f"{frame.path} {kind}" if frame.path.rsplit(".", 1)[-1].isdigit() else frame.path


def _step_mark(step: Step) -> Mark | None:
    """The mark of the module that a step takes whole."""
    return None if step.module is None else mark_of(step.module)


# Parameters


def _sizes(tensors: Iterable[Tensor]) -> Weights:
    return {id(tensor): tensor.numel() for tensor in tensors}


def _trained_in(module: nn.Module) -> Weights:
    return _sizes(tensor for tensor in module.parameters() if tensor.requires_grad)


def _own_trained(step: Step) -> Weights:
    """The trained tensors of a step that belong to the module it takes whole."""
    return {} if step.module is None else _trained_in(step.module)


def _link_trained(link: Link) -> Weights:
    """The trained tensors of a link, without those of modules that are marked as known."""
    weights: Weights = {}
    for step in link.steps:
        # A module marked as known may hold parameters that were thawed: they are not counted.
        left_out = _own_trained(step) if isinstance(_step_mark(step), Known) else {}
        weights |= _sizes(tensor for tensor in step.trained if id(tensor) not in left_out)
    return weights


def _link_weights(link: Link, name: str, trained: Weights) -> Weights:
    """The trained tensors of a link with their sizes, or the counts that marks state."""
    weights = dict(trained)
    modules = [(step.module, _step_mark(step)) for step in link.core if step.module is not None]
    for module, mark in modules:
        if isinstance(mark, Learned) and mark.parameters is not None:
            for theirs in _trained_in(module):
                weights.pop(theirs, None)
            weights[id(module)] = mark.parameters
    if not weights:  # marked as learned, with frozen parameters
        weights = _sizes(tensor for module, _ in modules for tensor in module.parameters())
    if not weights:
        why = f"layer {name!r} is marked as learned and has no parameters"
        raise KoriskError(f"{why}; give kr.mark_learned(module, parameters=...)")
    return weights


# Words


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _present(bracket: NormBracket) -> NormBracket:
    """The constant of a learned layer at its present weights."""
    how = _shortened(f"present weights: {bracket.how}")
    return replace(bracket, how=how, whose="present weights")


def _of_map(bracket: NormBracket) -> NormBracket:
    """The constant of a map that is not trained."""
    return replace(bracket, whose="operator")


def _shortened(how: str) -> str:
    return how if len(how) <= _LONGEST_HOW else how[: _LONGEST_HOW - 3] + "..."
