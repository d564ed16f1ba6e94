"""Networks as YAML. See examples/ for files, and docs/reference/network-file.md for every key.

Used by `Network.read` and `Network.write`, which import this module, and pydantic, on first use.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.theory.bracket import Lipschitz, NormBracket, Whose
from korisk.theory.layer import Composition, Inputs, Known, Layer, Learned

_APART = {"known", "learned", "lipschitz", "inputs"}  # keys that are converted, not passed on


class BracketEntry(Spec):
    """A Lipschitz constant with its lower and its upper end."""

    lower: float
    upper: float
    how: str = "given"
    whose: Whose = "stated"


class LayerEntry(Spec):
    """One layer: `known: NAME` or `learned: NAME`, and its constants."""

    known: str | None = None
    learned: str | None = None
    lipschitz: float | BracketEntry | None = None
    inputs: list[str] | dict[str, float | BracketEntry | None] | None = None
    mismatch: float | None = None
    parameters: int | float | None = None
    shared: int | float | None = None
    C: float | None = None
    width: float | None = None
    kappa: float | None = None


class CompositionEntry(Spec):
    """The Lipschitz constant of a run of layers."""

    first: str
    last: str
    lipschitz: float | BracketEntry


class NetworkEntry(Spec):
    """The whole file."""

    name: str = ""
    layers: list[LayerEntry]
    compositions: list[CompositionEntry] = Field(default_factory=list)
    largest_slope: float | None = None
    calibrated: str | None = None


def parts(network: NetworkEntry) -> tuple[list[Layer], list[Composition]]:
    """The layers and compositions of a network, from the entries of a file."""
    layers: list[Layer] = []
    for number, entry in enumerate(network.layers, start=1):
        if (entry.known is None) == (entry.learned is None):
            why = f"layers[{number}] must have exactly one of the keys 'known' and 'learned'"
            raise KoriskError(f"{why}; write `known: NAME` or `learned: NAME`")
        make = Known if entry.known is not None else Learned
        # Keys that only the other kind has are named, rather than silently ignored.
        values = entry.model_dump(exclude_none=True, exclude=_APART)
        foreign = values.keys() - {field.name for field in dataclasses.fields(make)}
        if foreign:
            keys = " or ".join(sorted(foreign))
            raise KoriskError(f"layers[{number}]: a {make.kind} layer takes no {keys}; remove it")
        name = entry.known or entry.learned or ""
        constant = _lipschitz(f"layer {name!r}", entry.lipschitz)
        inputs: Inputs = entry.inputs if isinstance(entry.inputs, list) else None
        if isinstance(entry.inputs, dict):
            where = f"layer {name!r}: inputs"
            inputs = {key: _lipschitz(where, value) for key, value in entry.inputs.items()}
        layers.append(make(name, lipschitz=constant, inputs=inputs, **values))
    runs = ((f"composition {run.first!r} to {run.last!r}", run) for run in network.compositions)
    return layers, [
        Composition(run.first, run.last, lipschitz=_lipschitz(where, run.lipschitz))
        for where, run in runs
    ]


def _lipschitz(where: str, entry: float | BracketEntry | None) -> Lipschitz:
    if not isinstance(entry, BracketEntry):
        return entry
    try:
        return NormBracket(entry.lower, entry.upper, how=entry.how, whose=entry.whose)
    except KoriskError as error:
        raise KoriskError(f"{where}: lipschitz: ", error.message) from None


def entries(
    layers: Iterable[Layer], compositions: Iterable[Composition], name: str
) -> dict[str, Any]:
    """A network as plain values, in the structure of the file."""
    content: dict[str, Any] = {"name": name} if name else {}
    content["layers"] = []
    for layer in layers:
        entry: dict[str, Any] = {layer.kind: layer.name}
        if layer.lipschitz is not None:
            entry["lipschitz"] = _constant(layer.bracket)
        if isinstance(layer.inputs, Mapping):
            entry["inputs"] = {
                name: None if constant is None else _constant(layer.bracket_of(name))
                for name, constant in layer.inputs.items()
            }
        elif layer.inputs is not None:
            entry["inputs"] = list(layer.inputs)
        if isinstance(layer, Learned):
            optional = {key: getattr(layer, key) for key in ("parameters", "shared")}
            entry |= {key: value for key, value in optional.items() if value}
            entry |= {"C": layer.C, "width": layer.width, "kappa": layer.kappa}
        elif isinstance(layer, Known) and layer.mismatch:
            entry["mismatch"] = layer.mismatch
        content["layers"].append(entry)
    runs = [
        {"first": run.first, "last": run.last, "lipschitz": _constant(run.bracket)}
        for run in compositions
    ]
    return {**content, "compositions": runs} if runs else content


def _constant(bracket: NormBracket) -> float | dict[str, Any]:
    # As short as it can be: a plain number for a stated point, as people write it.
    content = dataclasses.asdict(bracket)
    if bracket.whose == "stated":
        del content["whose"]
        if bracket.is_point and bracket.how == "given":
            return bracket.lower
    return content
