"""`korisk bound`: the deep risk of a network, layer by layer, and the sample size it implies."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, cast

from typer import Argument as Positional
from typer import Option

from korisk._json import JsonDict
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Json, Plot
from korisk.cli.common.output import check_plot, print_json, save_plot, show, working
from korisk.cli.common.training import failures_named, read_build
from korisk.errors import Argument, KoriskError, UnreachableError, levels_off, needed_by, shown
from korisk.texts import Table, number, short, whole
from korisk.theory import BOUNDS, BarronBound, BoundForm, Network, barron_bound
from korisk.theory.budget import samples_needed, uncalibrated

_DEFAULT_N = 1000
_LARGEST_N = 10**300  # beyond it log N / N is zero, and N not a double
_MODULE = (
    "Describe a PyTorch module instead: BUILD() in FILE.py returns it, and FILE.py defines "
    "operator; or it returns (module, example)."
)
_SAME = 1e-6  # relative difference of slopes that counts as rounding


@dataclass(frozen=True)
class Asked:
    """Where the bound is evaluated, and in which form."""

    n: Annotated[
        float | None, Option("-n"), "N", "Samples. [default: what the target needs, else 1000]"
    ] = None
    target: Annotated[float | None, "E", "Squared error to reach: shows the N it needs."] = None
    bound: Annotated[str, "|".join(BOUNDS), "The form of the bound."] = "composed"

    def of(self, net: Network) -> tuple[int | None, BarronBound]:
        """The N that the target needs, None if it is out of reach, and the bound at N."""
        form, needed = cast(BoundForm, self.bound), None
        if self.target is not None:
            with suppress(UnreachableError):
                needed = samples_needed(net, self.target, bound=form)
        size = min(needed or _DEFAULT_N, _LARGEST_N) if self.n is None else self.n
        return needed, barron_bound(net, size, bound=form)


def bound(
    path: Annotated[Path | None, Positional(), "NETWORK.yaml", "A network; see examples/."] = None,
    network: Annotated[str | None, "FILE.py:BUILD", _MODULE] = None,
    *,
    asked: Asked,
    write: Annotated[Path | None, "FILE.yaml", "Save the network that --network describes."] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output. --plot draws the bound over N, with its floor and the target.
    """
    check_plot(plot)
    target, net = asked.target, _network(path, network, write)
    try:
        needed, result = asked.of(net)
    except KoriskError as error:
        # Say where the constant can be given: a described module has no file to edit.
        if Argument("lipschitz", ...) not in error.message.parts:
            raise
        place = f" to that layer in {path}"
        if network is not None:
            place = " to its mark in the code (kr.mark_known or kr.mark_learned), or in the file "
            place += "that --write FILE.yaml keeps"
        raise KoriskError(error.message, place) from None
    form = result.whole.form
    if plot is not None:
        from korisk.report.figures.bound import bound_figure

        save_plot(bound_figure(net, result, target, needed), plot)
    content: JsonDict = {"network": net.to_dict(), "bound": form}
    content["n"] = int(result.n) if float(result.n).is_integer() else result.n
    content |= {"total": result.total, "floor": result.floor, "lipschitz": net.lipschitz(form)}
    content |= {"largest_slope": net.largest_slope, "rests_on": uncalibrated(net)}
    content["layers"] = _layers(net, result)
    if target is not None:
        content |= {"target": target, "samples": needed}
    if json:
        print_json(content)
    else:
        show(_table(net, content), "\n".join(_sentences(content)))
    if target is not None and needed is None:
        raise levels_off(target, result.floor, f"the {form} bound")


def _network(path: Path | None, place: str | None, write: Path | None) -> Network:
    """The network of a file or of a module, which is saved if `write` names a file."""
    if path is not None and write is not None:
        raise KoriskError(f"--write keeps what --network describes, and {path} is a file; copy it")
    if path is not None and place is None:
        return Network.read(path)
    if path is not None or place is None:
        sources = "NETWORK.yaml or a PyTorch module with --network FILE.py:BUILD"
        raise KoriskError(f"give {sources}, one of them")
    net = _described(place)
    # Written before the bound, which may be refused for a constant to add to this file.
    if write is not None:
        net.write(write)
        tell(f"wrote {write}")
    return net


def _described(place: str) -> Network:
    """Describe the PyTorch module that BUILD returns, alone or with an example input."""
    with needed_by("--network", "PyTorch", "'korisk[torch]'"):
        from torch import nn
    from korisk.ablation.ablation import example_inputs
    from korisk.networks.describe.describe import describe

    with failures_named(place), warnings_as_lines():
        build, data = read_build(place)
        result: object = build()
        if isinstance(result, nn.Module) and "operator" in data:
            result = result, example_inputs(data["operator"], result)
        if not isinstance(result, tuple | list) or len(result) != 2:
            rule = "must return (module, example), an nn.Module and an input tensor, batches first"
            module = f"--network {place} {rule}; or the module alone, with operator = ... beside it"
            raise KoriskError(f"{module}, got {shown(result)}")
        with working("describing the network"):
            return describe(*result, name=place[-80:])


def _layers(net: Network, result: BarronBound) -> list[JsonDict]:
    factors = net.amplification(result.whole.form)
    return [
        {
            "name": layer.name,
            "kind": layer.kind,
            "takes": list(net.inputs_of(layer.name)),
            "parameters": getattr(layer, "parameters", 0),
            "lipschitz": asdict(layer.bracket),
            "amplification": float(factors[index]),
            "contribution": float(result.contributions[index]),
            "approximation": float(result.approximations[index]),
            "share": float(result.whole.shares[index]),
        }
        for index, layer in enumerate(net)
    ]


def _table(net: Network, content: JsonDict) -> Table:
    takes = [] if net.is_chain else ["takes"]
    heads = ["layer", *takes, "kind", "parameters", "Lipschitz", "A_l"]
    heads += [f"bound at N = {_count(content['n'])}", "share"]
    rows = []
    for layer in content["layers"]:
        low, high = layer["lipschitz"]["lower"], layer["lipschitz"]["upper"]
        # A bracket within one percent reads as a number, one without an upper end as a bound.
        constant = f"{number(low)} to {number(high)}"
        if high <= 1.01 * low or not high:
            constant = number(high)
        elif math.isinf(high):
            constant = f">= {number(low)}" if low else "-"
        sources = [", ".join(layer["takes"])][: len(takes)]
        parameters = short(layer["parameters"]) if layer["parameters"] else "-"
        row = [layer["name"], *sources, layer["kind"], parameters, constant]
        row += [number(layer["amplification"]), number(layer["contribution"])]
        rows.append([*row, f"{layer['share']:.0%}"])
    return Table(net.name or "network", heads, rows, "ll" + "l" * len(takes) + "r")


def _sentences(content: JsonDict) -> Iterator[str]:
    yield (
        f"If the constants hold, a network trained on N = {_count(content['n'])} samples has an "
        f"expected squared error of at most {number(content['total'])} ({content['bound']} bound), "
        f"including a floor of {number(content['floor'])} that more data cannot lower."
    )
    if content["rests_on"]:
        yield f"The bound {content['rests_on']}."
    slope, upper = content["largest_slope"], content["lipschitz"]
    if slope is not None and slope > upper * (1 + _SAME):
        yield (
            f"The largest slope among the inputs that were tried is {number(slope)}, and the "
            f"constants allow {number(upper)}: the bound does not hold for the module as it is."
        )
    if content.get("samples") is not None:
        yield (
            f"From N = {whole(content['samples'])} on the bound stays at or below the target "
            f"{number(content['target'])}."
        )


def _count(n: float) -> str:
    return whole(n) if isinstance(n, int) else number(n)
