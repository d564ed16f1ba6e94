"""`korisk bound`: the deep risk of a network file, layer by layer, and the data it asks for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from korisk.cli.output import cells, console, number, print_json, short, table, whole
from korisk.errors import UnreachableError
from korisk.theory import (
    METHODS,
    BarronBound,
    Layer,
    Learned,
    Method,
    Network,
    barron_bound,
    sample_size,
)
from korisk.theory._checks import one_of
from korisk.theory.network_file import to_dict

DEFAULT_N = 1000


@dataclass(frozen=True)
class Answer:
    """Everything that the command says of one network."""

    net: Network
    method: Method
    bounds: dict[Method, BarronBound]
    target: float | None
    samples: dict[Method, int | None]

    @property
    def chosen(self) -> BarronBound:
        """The bound by the asked method."""
        return self.bounds[self.method]


def bound(
    network: Annotated[
        Path, typer.Argument(metavar="NETWORK.yaml", help="The network; see examples/ for some.")
    ],
    n: Annotated[
        float | None,
        typer.Option(
            "-n",
            metavar="N",
            help=f"Training samples. [default: what --target needs, else {DEFAULT_N}]",
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(metavar="E", help="Squared error to reach; shows the N from which it holds."),
    ] = None,
    replace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show what making this layer known would save."),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="METHOD", help="composed (tightest), minkowski or paper.")
    ] = "composed",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output.
    """
    net = Network.read(network)
    chosen = _method(method)
    answer = _answer(net, chosen, n, target)
    replaced = _answer(net.replace(replace), chosen, answer.chosen.n, target) if replace else None
    if as_json:
        print_json(_as_json(answer, replace, replaced))
    elif _reached(answer):
        _show(answer, replace, replaced)
    if not _reached(answer):
        assert target is not None
        raise UnreachableError(target=target, floor=answer.chosen.floor, what=f"the {chosen} bound")


def _method(word: str) -> Method:
    one_of("--method", word, METHODS)
    return next(method for method in METHODS if method == word)


def _answer(net: Network, method: Method, n: float | None, target: float | None) -> Answer:
    samples = {m: _samples(net, target, m) for m in METHODS} if target is not None else {}
    at = n if n is not None else samples.get(method) or DEFAULT_N
    bounds = {m: barron_bound(net, at, method=m) for m in METHODS}
    return Answer(net=net, method=method, bounds=bounds, target=target, samples=samples)


def _samples(net: Network, target: float, method: Method) -> int | None:
    try:
        return sample_size(net, target, method=method)
    except UnreachableError:
        return None


def _reached(answer: Answer) -> bool:
    return answer.target is None or answer.samples[answer.method] is not None


def _show(answer: Answer, replace: str | None, replaced: Answer | None) -> None:
    out = console()
    out.print(_layer_table(answer))
    out.print(_totals_table(answer))
    for sentence in [*_words(answer), *(_saved(answer, replaced, replace) if replaced else [])]:
        out.print(sentence, highlight=False, markup=False)


def _layer_table(answer: Answer) -> Table:
    chosen = answer.chosen
    shown = table(
        answer.net.name or "network",
        "layer",
        "",
        "Lip-\nschitz",
        *(f"A_l,\n{m}" for m in METHODS),
        "param-\neters",
        f"bound at\nN = {_n(chosen.n)}",
        "share",
        text=2,
    )
    factors = {m: answer.net.amplification(m) for m in METHODS}
    for index, layer in enumerate(answer.net):
        shown.add_row(
            *cells(
                layer.name,
                layer.kind,
                _constant(layer),
                *(number(float(factors[m][index])) for m in METHODS),
                short(layer.parameters) if isinstance(layer, Learned) and layer.parameters else "-",
                number(float(chosen.contributions[index])),
                f"{chosen.whole.shares[index]:.0%}",
            )
        )
    return shown


def _totals_table(answer: Answer) -> Table:
    columns = ["bound", f"total at N = {_n(answer.chosen.n)}", "floor", "estimation", "looser by"]
    if answer.target is not None:
        columns.append(f"N for {number(answer.target)}")
    shown = table("", *columns)
    tightest = answer.bounds["composed"].total
    for method in METHODS:
        found = answer.bounds[method]
        row = [method, number(found.total), number(found.floor), number(found.estimation)]
        row.append(number(found.total / tightest, 3) if tightest else "-")
        if answer.target is not None:
            samples = answer.samples[method]
            row.append("unreachable" if samples is None else whole(samples))
        shown.add_row(*cells(*row))
    return shown


def _words(answer: Answer) -> list[str]:
    chosen = answer.chosen
    said = [
        f"Meaning: if the constants hold, a network trained on N = {_n(chosen.n)} samples has an "
        f"expected squared error of at most {number(chosen.total)} ({answer.method} bound), "
        f"of which {number(chosen.floor)} stays however much data there is."
    ]
    if answer.target is not None:
        said.append(
            f"From N = {whole(answer.samples[answer.method] or 0)} on the bound stays at or below "
            f"the target {number(answer.target)}."
        )
    mismatched = [layer.name for layer in answer.net if getattr(layer, "mismatch", 0) > 0]
    if mismatched:
        said.append(
            f"The mismatch of {', '.join(mismatched)} is korisk's extension of the theorem: an "
            "approximately known operator adds a term that no data removes."
        )
    if any(layer.C == 0 and layer.kappa == 1 for layer in answer.net.learned):
        said.append(
            "Learned layers with C = 0 and kappa = 1 give a reference in units of kappa, not an "
            "absolute error: calibrate the constants on a pilot for that."
        )
    return said


def _saved(answer: Answer, replaced: Answer, name: str | None) -> list[str]:
    before, after = answer.chosen, replaced.chosen
    said = [
        f"With {name} known, the bound at N = {_n(before.n)} falls from {number(before.total)} to "
        f"{number(after.total)}: {number(before.floor - after.floor)} less approximation, "
        f"{number(before.estimation - after.estimation)} less estimation."
    ]
    if answer.target is not None:
        samples = replaced.samples[answer.method]
        if samples is not None:
            target = number(answer.target)
            said.append(f"The target {target} then holds from N = {whole(samples)} on.")
    return said


def _as_json(answer: Answer, replace: str | None, replaced: Answer | None) -> dict[str, Any]:
    content = {"network": to_dict(answer.net), **_numbers(answer)}
    if replaced is not None:
        before, after = answer.chosen, replaced.chosen
        content["replace"] = {
            "layer": replace,
            "saved_approximation": before.floor - after.floor,
            "saved_estimation": before.estimation - after.estimation,
            **_numbers(replaced),
        }
    return content


def _numbers(answer: Answer) -> dict[str, Any]:
    chosen = answer.chosen
    factors = {m: answer.net.amplification(m) for m in METHODS}
    content: dict[str, Any] = {
        "method": answer.method,
        "n": int(chosen.n) if float(chosen.n).is_integer() else chosen.n,
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "lipschitz": {
                    "lower": layer.bracket.lower,
                    "upper": layer.bracket.upper,
                    "how": layer.bracket.how,
                },
                "amplification": {m: float(factors[m][index]) for m in METHODS},
                "parameters": layer.parameters if isinstance(layer, Learned) else 0,
                "approximation": float(chosen.approximations[index]),
                "estimation": float(chosen.estimations[index]),
                "contribution": float(chosen.contributions[index]),
                "share": float(chosen.whole.shares[index]),
            }
            for index, layer in enumerate(answer.net)
        ],
        "bounds": {
            m: {"total": found.total, "floor": found.floor, "estimation": found.estimation}
            for m, found in answer.bounds.items()
        },
    }
    if answer.target is not None:
        content["target"] = answer.target
        content["reachable"] = _reached(answer)
        content["samples"] = dict(answer.samples)
    return content


def _constant(layer: Layer) -> str:
    bracket = layer.bracket
    if bracket.is_point:
        return number(bracket.upper)
    if bracket.lower == 0 and bracket.upper == float("inf"):
        return "-"
    return f"{number(bracket.lower)} to {number(bracket.upper)}"


def _n(n: float) -> str:
    return whole(int(n)) if float(n).is_integer() else number(n)
