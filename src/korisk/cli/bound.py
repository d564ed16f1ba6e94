"""`korisk bound`: the deep risk of a network, layer by layer, and the data it asks for."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from korisk.cli.module_source import chosen_network
from korisk.cli.output import cells, console, number, print_json, short, table, whole
from korisk.errors import KoriskError, UnreachableError
from korisk.theory import (
    METHODS,
    BarronBound,
    Known,
    Layer,
    Learned,
    Method,
    Network,
    Savings,
    barron_bound,
    sample_size,
)
from korisk.theory._checks import one_of, target_error
from korisk.theory.network_file import to_dict

DEFAULT_N = 1000
LARGEST_N = 10**300  # beyond it log N / N is zero for every purpose, and N no longer a double


@dataclass(frozen=True)
class Answer:
    """Everything that the command says of one network.

    The asked method is always there; another is None where the file does not give what it needs.
    `samples` is None for a target that cannot be reached.
    """

    net: Network
    method: Method
    chosen: BarronBound
    bounds: dict[Method, BarronBound | None]
    target: float | None
    samples: dict[Method, int | None]

    @property
    def reached(self) -> bool:
        """Whether the target, if there is one, can be reached by the asked method."""
        return self.target is None or self.samples[self.method] is not None


def bound(
    network: Annotated[
        Path | None,
        typer.Argument(metavar="NETWORK.yaml", help="The network; see examples/ for some."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            metavar="PACKAGE.MODULE:FACTORY",
            help="Describe a PyTorch module instead: the function returns (module, example).",
        ),
    ] = None,
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
        str,
        typer.Option("--method", metavar="METHOD", help="composed (tightest), minkowski or paper."),
    ] = "composed",
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Save the network that --module describes."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output.
    """
    chosen = _method(method)
    net = chosen_network(network, module, write)
    with _completable(described=module is not None):
        answer = _answer(net, chosen, n, target)
    replaced = None
    if replace is not None:
        savings = net.savings(replace, method=answer.method)
        replaced = (
            savings,
            replace,
            _answer(savings.after, answer.method, answer.chosen.n, target),
        )
    if as_json:
        print_json(_as_json(answer, replaced))
    else:
        _show(answer, replaced)
    if target is not None and not answer.reached:
        raise UnreachableError(
            target=target, floor=answer.chosen.floor, what=f"the {answer.method} bound"
        )


Replaced = tuple[Savings, str, Answer] | None


@contextmanager
def _completable(*, described: bool) -> Iterator[None]:
    """Say how a described network can be completed where a constant was only sampled."""
    try:
        yield
    except KoriskError as error:
        if not described or "no upper end" not in str(error):
            raise
        raise KoriskError(
            f"{error} to its mark in the code (kr.known or kr.learned), or in the file that "
            "--write FILE.yaml keeps"
        ) from None


def _open_ended(net: Network) -> list[str]:
    """Layers whose constant is known from below alone."""
    return [
        layer.name for layer in net if layer.bracket.upper == math.inf and layer.bracket.lower > 0
    ]


def _method(word: str) -> Method:
    one_of("--method", word, METHODS)
    return next(method for method in METHODS if method == word)


def _answer(net: Network, method: Method, n: float | None, target: float | None) -> Answer:
    samples: dict[Method, int | None] = {}
    if target is not None:
        target = target_error(target)
        samples = {m: _samples(net, target, m, strict=m == method) for m in METHODS}
    at = n if n is not None else min(samples.get(method) or DEFAULT_N, LARGEST_N)
    chosen = barron_bound(net, at, method=method)
    bounds = {m: chosen if m == method else _bound_or_none(net, at, m) for m in METHODS}
    return Answer(net, method, chosen, bounds, target, samples)


def _samples(net: Network, target: float, method: Method, *, strict: bool) -> int | None:
    try:
        return sample_size(net, target, method=method)
    except UnreachableError:
        return None
    except KoriskError:
        if strict:
            raise
        return None


def _bound_or_none(net: Network, n: float, method: Method) -> BarronBound | None:
    try:
        return barron_bound(net, n, method=method)
    except KoriskError:
        return None


def _show(answer: Answer, replaced: Replaced) -> None:
    out = console()
    out.print(_layer_table(answer))
    out.print(_totals_table(answer))
    for sentence in [*_words(answer), *_saved(answer, replaced)]:
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
    tightest = min(found.total for found in answer.bounds.values() if found is not None)
    for method, found in answer.bounds.items():
        if found is None:
            shown.add_row(*cells(method, *("-" for _ in columns[1:])))
            continue
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
    sampled = _open_ended(answer.net)
    if sampled:
        said.append(
            f"The Lipschitz constant of {', '.join(sampled)} was only sampled, so it is at least "
            "what stands there. No learned layer in front of it adds an error; if one did, the "
            "bound would be infinite."
        )
    if any(found is None for found in answer.bounds.values()):
        said.append(
            "A dash: the file lacks a constant that this form needs, or its value exceeds a double."
        )
    samples = answer.samples.get(answer.method)
    if answer.target is not None and samples is not None:
        said.append(
            f"From N = {whole(samples)} on the bound stays at or below the target "
            f"{number(answer.target)}."
        )
    if any(layer.shared for layer in answer.net.learned):
        said.append(
            "Layers that share parameters err by all of them each; different parameters in all: "
            f"{whole(answer.net.parameters or 0)}."
        )
    mismatched = [
        layer.name for layer in answer.net if isinstance(layer, Known) and layer.mismatch > 0
    ]
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


def _saved(answer: Answer, replaced: Replaced) -> list[str]:
    if replaced is None:
        return []
    savings, name, after = replaced
    n = answer.chosen.n
    if savings.total(n) == 0:
        return [f"Making {name} known saves nothing: it adds no error to the bound as it is."]
    said = [
        f"With {name} known, the bound at N = {_n(n)} falls from {number(answer.chosen.total)} to "
        f"{number(after.chosen.total)}: {number(savings.approximation)} less approximation, "
        f"{number(savings.estimation(n))} less estimation."
    ]
    if _learned_elsewhere(answer.net, after.net, name):
        said.append(
            f"{name} shares parameters with other layers, in which the same weights stay learned: "
            f"{whole(after.net.parameters or 0)} different ones in all."
        )
    if answer.target is not None:
        target, samples = number(answer.target), after.samples[answer.method]
        said.append(
            f"The target {target} is out of reach even then."
            if samples is None
            else f"The target {target} then holds from N = {whole(samples)} on."
        )
    return said


def _learned_elsewhere(before: Network, after: Network, name: str) -> bool:
    """Whether a layer's parameters do not all vanish with it."""
    old, counts = before[name], (before.parameters, after.parameters)
    if not isinstance(old, Learned) or old.parameters is None or None in counts:
        return isinstance(old, Learned) and old.shared > 0
    return (counts[1] or 0) > (counts[0] or 0) - old.parameters


def _as_json(answer: Answer, replaced: Replaced) -> dict[str, Any]:
    content = {"network": to_dict(answer.net), **_numbers(answer)}
    if replaced is not None:
        savings, name, after = replaced
        content["replace"] = {
            "layer": name,
            "saved_approximation": savings.approximation,
            "saved_estimation": savings.estimation(answer.chosen.n),
            **_numbers(after),
        }
    return content


def _numbers(answer: Answer) -> dict[str, Any]:
    chosen = answer.chosen
    content: dict[str, Any] = {
        "method": answer.method,
        "n": int(chosen.n) if float(chosen.n).is_integer() else chosen.n,
        "layers": _layer_numbers(answer),
        "bounds": {
            m: found and {key: getattr(found, key) for key in ("total", "floor", "estimation")}
            for m, found in answer.bounds.items()
        },
    }
    if answer.target is not None:
        content["target"] = answer.target
        content["reachable"] = answer.reached
        content["samples"] = dict(answer.samples)
    return content


def _layer_numbers(answer: Answer) -> list[dict[str, Any]]:
    chosen = answer.chosen
    factors = {m: answer.net.amplification(m) for m in METHODS}
    return [
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
            "shared": layer.shared if isinstance(layer, Learned) else 0,
            "approximation": float(chosen.approximations[index]),
            "estimation": float(chosen.estimations[index]),
            "contribution": float(chosen.contributions[index]),
            "share": float(chosen.whole.shares[index]),
        }
        for index, layer in enumerate(answer.net)
    ]


def _constant(layer: Layer) -> str:
    bracket = layer.bracket
    if bracket.upper <= 1.01 * bracket.lower:
        return number(bracket.upper)
    if bracket.lower == 0 and bracket.upper == float("inf"):
        return "-"
    if bracket.upper == float("inf"):
        return f">= {number(bracket.lower)}"
    return f"{number(bracket.lower)} to {number(bracket.upper)}"


def _n(n: float) -> str:
    return whole(int(n)) if float(n).is_integer() else number(n)
