"""Layers of the theory from the links of a chain: kinds, parameters, names, and words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.networks.dense import DenseNet
from korisk.networks.describe.chain import Link, repeated
from korisk.networks.describe.labels import link_label, step_label, step_mark
from korisk.networks.describe.linear_part import LinearPart, function_norm, matrix_norm
from korisk.networks.describe.marks import Mark, mark_of
from korisk.networks.describe.plain import is_plain, plain_operator
from korisk.networks.describe.trace.steps import Recording
from korisk.networks.describe.weights import (
    Weights,
    link_trained,
    own_trained,
    sizes,
    trained_in,
    weights_of,
)
from korisk.networks.known_operator import KnownOperatorNet, _free_name
from korisk.operators.linear import LinearOperator, parts_of
from korisk.theory import Composition, Known, Layer, Learned, NormBracket
from korisk.theory.bracket import Lipschitz
from korisk.theory.layer import resolve
from korisk.theory.network import Network

_LONGEST_HOW = 80
_SHOWN = 6  # names in one warning


@dataclass
class _Draft:
    """What has been written so far."""

    paths: dict[int, str]  # of parameters
    layers: list[Layer] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    users: dict[int, list[str]] = field(default_factory=dict)  # layers that use some weights
    sizes: dict[int, int] = field(default_factory=dict)
    branched: list[str] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    thawed: list[str] = field(default_factory=list)

    def name(self, wanted: str) -> str:
        free = _free_name(wanted, self.taken)
        self.taken.add(free)
        return free

    def uses(self, name: str, weights: Weights) -> None:
        for key, size in weights.items():
            self.users.setdefault(key, []).append(name)
            self.sizes[key] = size


def layers_of(
    module: nn.Module, recording: Recording, chain: list[Link]
) -> tuple[list[Layer], list[Composition], list[str]]:
    """The layers, constants of runs of them, and what their reader should know."""
    draft = _Draft({id(part): path for path, part in module.named_parameters()})
    spans: list[tuple[Link, list[Layer]]] = []
    for link in chain:
        before = len(draft.layers)
        _write(link, draft)
        spans.append((link, draft.layers[before:]))
    return draft.layers, list(_compositions(recording, spans)), _words(draft)


def own_bracket(module: KnownOperatorNet | DenseNet) -> NormBracket:
    """A bracket of one of korisk's own networks as a whole."""
    upper = Network(_own_layers(module)).lipschitz()
    return NormBracket(0.0, upper, how="constants of its layers multiplied")


def _write(link: Link, draft: _Draft) -> None:
    """The layer of a link, or the layers of what is several by itself."""
    (*_, last) = link.core
    if len(link.core) == 1 and link.is_chain and last.module is not None:
        plain = mark_of(last.module) is None and is_plain(last.module)
        if plain and isinstance(last.module, KnownOperatorNet | DenseNet):
            for layer, weights in _own_parts(last.module):
                _add(draft, layer, weights)
            return
        if plain and isinstance(last.module, LinearOperator):
            for operator in parts_of(last.module):
                _add(draft, *_operator_layer(operator))
            return
    _add(draft, *_link_layer(link, draft))


def _add(draft: _Draft, layer: Layer, weights: Weights) -> None:
    name = draft.name(layer.name)
    if isinstance(layer, Learned) and layer.parameters is not None:
        seen = sum(size for key, size in weights.items() if key in draft.users)
        layer = replace(layer, shared=min(seen, layer.parameters))
    draft.layers.append(replace(layer, name=name))
    draft.uses(name, weights)


def _operator_layer(operator: LinearOperator) -> tuple[Layer, Weights]:
    """Known operators keep themselves as their constant, so that the theory can compose them."""
    weights = sizes(trained_in(operator))
    if not weights:
        return Known(operator.name, lipschitz=operator), {}
    bracket = _present(operator.norm())
    return Learned(operator.name, parameters=sum(weights.values()), lipschitz=bracket), weights


def _own_layers(module: KnownOperatorNet | DenseNet) -> list[Layer]:
    return [layer for layer, _ in _own_parts(module)]


def _own_parts(module: KnownOperatorNet | DenseNet) -> list[tuple[Layer, Weights]]:
    """The layers that the network itself tells, with a constant for the first of them too."""
    first, *others = module.describe().layers
    assert isinstance(first, Learned)
    weights = sizes(trained_in(module))
    frozen = not weights and any(True for _ in module.parameters())
    if isinstance(module, KnownOperatorNet):
        largest = float(module.weights.detach().abs().max())
        bracket = NormBracket(largest, largest, how="largest |weight|")
    else:
        bracket = _dense_norm(module)
    layer: Layer = (
        Known(first.name, lipschitz=bracket)
        if frozen
        else replace(first, lipschitz=_present(bracket))
    )
    return [(layer, weights), *((other, {}) for other in others)]


def _dense_norm(module: DenseNet) -> NormBracket:
    if module.weight is not None:
        return matrix_norm(module.weight)
    assert module.left is not None
    assert module.right is not None
    left, right = module.left.double(), module.right.double()
    return LinearPart(lambda x: left @ (right @ x), right.new_zeros(right.shape[1])).bracket()


def _link_layer(link: Link, draft: _Draft) -> tuple[Layer, Weights]:
    marks = [mark for step in link.core if (mark := step_mark(step)) is not None]
    alone = marks[0] if len(link.core) == 1 and link.is_chain and marks else None
    name = (alone.name if alone else None) or link_label(link, draft.paths)
    trained = link_trained(link)
    _check_mismatch(link, name, alone, trained)
    _notice(link, name, alone, draft)
    stated = _stated(link, alone)
    if not trained and not any(mark.learned for mark in marks):
        bracket: Lipschitz = _told(link) if stated is None else stated
        return Known(name, lipschitz=bracket, mismatch=alone.mismatch if alone else 0.0), {}
    if stated is None or isinstance(stated, LinearOperator):
        stated = _present(_told(link))
    weights = weights_of(link, name, trained)
    effective = alone.effective if alone else None
    layer = Learned(name, parameters=sum(weights.values()), effective=effective, lipschitz=stated)
    return layer, weights


def _check_mismatch(link: Link, name: str, alone: Mark | None, trained: tuple[Tensor, ...]) -> None:
    """An error that is stated must have a layer of its own, or it would be lost."""
    inside = (
        mark_of(part)
        for step in link.core
        if step.module is not None
        for part in step.module.modules()
        if part is not step.module or alone is None
    )
    if any(mark.mismatch for mark in inside if mark is not None):
        raise KoriskError(
            f"layer {name!r}: a module marked with mismatch= stands where the network is not a "
            "chain, or inside another that is marked, so its error has no layer of its own; mark "
            "the whole block instead"
        )
    if alone is not None and alone.mismatch and trained:
        raise KoriskError(
            f"layer {name!r} is marked as known with mismatch=, and is given a trained tensor; "
            "freeze the tensor, or mark the module with kr.learned"
        )


def _stated(link: Link, mark: Mark | None) -> Lipschitz:
    """The constant that a mark states, or the operator that it stands on."""
    if mark is None:
        return None
    step = link.core[0]
    if mark.lipschitz is None:
        return plain_operator(step.module)
    if len(step.parents) == 1:
        return mark.lipschitz
    return repeated(resolve("lipschitz", mark.lipschitz), step)


def _told(link: Link) -> NormBracket:
    """The link's bracket, which says what was put together where that is not one step."""
    bracket = link.bracket
    if link.is_chain or len(link.core) == 1:
        return bracket
    parts = list(dict.fromkeys(step_label(step) for step in link.core))
    return _how(bracket, f"{bracket.how}; not a chain: {', '.join(parts)}")


def _notice(link: Link, name: str, mark: Mark | None, draft: _Draft) -> None:
    """Keep what the warnings will say."""
    if not link.is_chain and len(link.core) > 1:
        parts = list(dict.fromkeys(step_label(step) for step in link.core))
        draft.branched.append(f"{name} ({_listed(parts)})")
    if _stated(link, mark) is None and link.bracket.upper == math.inf:
        draft.sampled.append(name)
    for step in link.core:
        found = step_mark(step)
        if found is not None and not found.learned and own_trained(step):
            draft.thawed.append(name)


def _compositions(recording: Recording, spans: list[tuple[Link, list[Layer]]]) -> list[Composition]:
    """Norms of the products of known linear layers in a row.

    Where all of them are operators the theory composes them by itself.
    """
    found = []
    for linear, group in groupby(spans, key=_is_known_linear):
        run = list(group)
        operators = all(
            isinstance(layer.lipschitz, LinearOperator) for _, ls in run for layer in ls
        )
        if not linear or len(run) < 2 or operators:
            continue
        start, end = run[0][0].start, run[-1][0].steps[-1]
        steps = tuple(recording.leading_to(end.index, after=start.index))
        whole = Link(start, steps, recording.steps, run[0][0].inside)
        norm = function_norm(partial(whole.apply, double=True), start.value)
        if norm is not None:
            ends = run[0][1][0].name, run[-1][1][-1].name
            found.append(Composition(*ends, lipschitz=norm))
    return found


def _is_known_linear(span: tuple[Link, list[Layer]]) -> bool:
    link, layers = span
    real = link.start.value.is_floating_point() and link.steps[-1].value.is_floating_point()
    return real and all(isinstance(layer, Known) for layer in layers) and link.linear


def _words(draft: _Draft) -> list[str]:
    said = []
    if draft.branched:
        said.append(
            f"the network is not a chain of its modules everywhere; taken together as one layer: "
            f"{_listed(draft.branched, '; ')}"
        )
    if draft.sampled:
        said.append(
            f"no upper Lipschitz constant is known of {_listed(draft.sampled)}; slopes were "
            "sampled, a lower estimate; state one with kr.known or kr.learned(lipschitz=...)"
        )
    if draft.thawed:
        said.append(
            f"{_listed(draft.thawed)}: marked as known, but with parameters that require gradients "
            "again; freeze them with requires_grad_(False)"
        )
    return said + _shared(draft)


def _shared(draft: _Draft) -> list[str]:
    """Weights in several layers: the theorem counts the error of each use, the sum would not."""
    groups: dict[tuple[str, ...], int] = {}
    for key, names in draft.users.items():
        if len(names) > 1:
            groups[tuple(names)] = groups.get(tuple(names), 0) + draft.sizes[key]
    if not groups:
        return []
    total = sum(draft.sizes.values())
    listed = _listed([f"{size:,} by {' and '.join(names)}" for names, size in groups.items()], "; ")
    return [
        f"parameters are shared: {listed}; each of these layers errs by them, so its p has them "
        f"all, and the network counts them once: {total:,} different parameters are trained"
    ]


def _listed(names: list[str], between: str = ", ") -> str:
    more = f"{between}and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return between.join(names[:_SHOWN]) + more


def _present(bracket: NormBracket) -> NormBracket:
    return _how(bracket, f"present weights: {bracket.how}")


def _how(bracket: NormBracket, how: str) -> NormBracket:
    short = how if len(how) <= _LONGEST_HOW else how[: _LONGEST_HOW - 3] + "..."
    return NormBracket(bracket.lower, bracket.upper, how=short)
