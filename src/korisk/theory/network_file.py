"""Networks as YAML. See examples/ for files, and docs/reference/network-file.md for every key."""

import dataclasses
from os import PathLike
from typing import Any

from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec, parse, read_yaml, write_yaml
from korisk.theory.bracket import Lipschitz, NormBracket
from korisk.theory.layer import Known, Layer, Learned
from korisk.theory.network import Composition, Network


class BracketEntry(Spec):
    """A Lipschitz constant with both ends."""

    lower: float
    upper: float
    how: str = "given"


class LayerEntry(Spec):
    """One layer: `known: NAME` or `learned: NAME`, and what is known of it."""

    known: str | None = None
    learned: str | None = None
    lipschitz: float | BracketEntry | None = None
    mismatch: float | None = None
    parameters: int | float | None = None
    shared: int | float | None = None
    effective: float | None = None
    C: float | None = None
    width: float | None = None
    kappa: float | None = None


class CompositionEntry(Spec):
    """The Lipschitz constant of a whole run of layers."""

    first: str
    last: str
    lipschitz: float | BracketEntry


class NetworkEntry(Spec):
    """The whole file."""

    name: str = ""
    layers: list[LayerEntry]
    compositions: list[CompositionEntry] = Field(default_factory=list)


def read_network(path: str | PathLike[str]) -> Network:
    """The network that a YAML file describes."""
    return from_dict(read_yaml(path), source=path)


def from_dict(content: Any, *, source: object) -> Network:
    """The network that plain values describe, in the shape that `to_dict` gives."""
    entry = parse(NetworkEntry, content, source=source)
    try:
        return Network(
            [_layer(part, number) for number, part in enumerate(entry.layers, start=1)],
            compositions=[_composition(part) for part in entry.compositions],
            name=entry.name,
        )
    except KoriskError as error:
        raise KoriskError(f"{source}: {error}") from None


def write_network(net: Network, path: str | PathLike[str]) -> None:
    """Write the network as YAML that `read_network` takes back."""
    write_yaml(path, to_dict(net))


def to_dict(net: Network) -> dict[str, Any]:
    """The network as plain values, in the shape of the file."""
    content: dict[str, Any] = {"name": net.name} if net.name else {}
    content["layers"] = [_layer_entry(layer) for layer in net]
    if net.compositions:
        content["compositions"] = [
            {"first": part.first, "last": part.last, "lipschitz": _constant(part.bracket)}
            for part in net.compositions
        ]
    return content


def _layer(entry: LayerEntry, number: int) -> Layer:
    given = entry.model_dump(exclude_none=True, exclude={"known", "learned", "lipschitz"})
    if (entry.known is None) == (entry.learned is None):
        raise KoriskError(
            f"layers[{number}] must have exactly one of the keys 'known' and 'learned'; "
            "write `known: NAME` or `learned: NAME`"
        )
    make = Known if entry.known is not None else Learned
    foreign = given.keys() - {field.name for field in dataclasses.fields(make)}
    if foreign:
        raise KoriskError(
            f"layers[{number}]: a {make.__name__.lower()} layer takes no "
            f"{' or '.join(sorted(foreign))}; remove it"
        )
    name = entry.known or entry.learned or ""
    return make(name, lipschitz=_lipschitz(f"layer {name!r}", entry.lipschitz), **given)


def _composition(entry: CompositionEntry) -> Composition:
    where = f"composition {entry.first!r} to {entry.last!r}"
    return Composition(entry.first, entry.last, lipschitz=_lipschitz(where, entry.lipschitz))


def _lipschitz(where: str, entry: float | BracketEntry | None) -> Lipschitz:
    if not isinstance(entry, BracketEntry):
        return entry
    try:
        return NormBracket(entry.lower, entry.upper, how=entry.how)
    except KoriskError as error:
        raise KoriskError(f"{where}: lipschitz: {error}") from None


def _layer_entry(layer: Layer) -> dict[str, Any]:
    entry: dict[str, Any] = {layer.kind: layer.name}
    if layer.lipschitz is not None:
        entry["lipschitz"] = _constant(layer.bracket)
    if isinstance(layer, Learned):
        if layer.parameters is not None:
            entry["parameters"] = layer.parameters
        if layer.shared:
            entry["shared"] = layer.shared
        if layer.effective is not None:
            entry["effective"] = layer.effective
        entry |= {"C": layer.C, "width": layer.width, "kappa": layer.kappa}
    if isinstance(layer, Known) and layer.mismatch:
        entry["mismatch"] = layer.mismatch
    return entry


def _constant(bracket: NormBracket) -> float | dict[str, Any]:
    if bracket.is_point and bracket.how == "given":
        return bracket.lower
    return {"lower": bracket.lower, "upper": bracket.upper, "how": bracket.how}
