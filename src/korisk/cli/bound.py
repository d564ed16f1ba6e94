"""`korisk bound`: the deep risk of a network, layer by layer, and the data it asks for.

The network comes from a file, or from the user's own Python, `package.module:factory`.
"""

import contextlib
import importlib
import math
import sys
import traceback
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import numpy as np
import typer

from korisk._checks import one_of, target_error
from korisk.cli.output import (
    cells,
    console,
    fields,
    number,
    print_json,
    short,
    table,
    warnings_as_lines,
    whole,
)
from korisk.cli.pilot import PlotOption, check_plot, save_plot
from korisk.errors import KoriskError, MissingExtraError, UnreachableError, shown
from korisk.theory import (
    BOUNDS,
    BarronBound,
    Bound,
    BoundForm,
    Known,
    Learned,
    Network,
    barron_bound,
    sample_size,
)
from korisk.theory.bound import states_effective
from korisk.theory.layer import INPUT

DEFAULT_N = 1000
_WORTH_A_WORD = 0.05  # of a bound, from which on a part of it is mentioned
_NEARLY_ALL = 0.9  # of a bound, from which on it is the assumption of layers that nobody calibrated
_LARGEST_N_OF_BOUND = 10**300  # beyond it log N / N is zero, and N no longer a double


@dataclass(frozen=True)
class Answer:
    """Everything that the command says of one network.

    The asked bound is always there; another is None where the file does not give what it needs.
    `samples` are with p and, under True, with effective dimensions; None for a target that cannot
    be reached. `both` is whether the network of the file states an effective dimension, so that
    both are shown; one whose layer was replaced is shown like the one it came from.
    """

    net: Network
    form: BoundForm
    target: float | None
    effective: bool
    both: bool
    chosen: BarronBound
    bounds: dict[BoundForm, BarronBound | None]
    samples: dict[bool, dict[BoundForm, int | None]]

    @property
    def needed(self) -> int | None:
        """The N that the target asks for, by the asked bound and dimension."""
        return self.samples[self.effective].get(self.form)

    @property
    def reached(self) -> bool:
        """Whether the target, if there is one, can be reached."""
        return self.target is None or self.needed is not None

    @property
    def kinds(self) -> dict[str, bool]:
        """Prefixes of keys, and whether they are with effective dimensions."""
        return {"": False, "effective_": True} if self.both else {"": False}

    @property
    def other(self) -> float | None:
        """The asked bound with the dimension that was not asked for."""
        if not self.both:
            return None
        found = self.numbers["bounds" if self.effective else "effective_bounds"][self.form]
        return None if found is None else float(found["total"])

    @property
    def assumed(self) -> dict[str, Any]:
        """What of the asked bound is no more than the assumption about learned layers.

        `layers` are those with constants that nobody calibrated, C = 0 and kappa = 1; `direct` are
        learned layers whose error nothing behind them amplifies or lessens, such as a last one.
        """
        found, tails = self.chosen, self.net.tails()
        shares = found.contributions / found.total if found.total else np.zeros(len(self.net))
        learned = [
            (layer, float(tail), float(share))
            for layer, tail, share in zip(self.net, tails, shares, strict=True)
            if isinstance(layer, Learned)
        ]
        own = [(each.name, part) for each, _, part in learned if each.C == 0 and each.kappa == 1]
        direct = [(each.name, part) for each, tail, part in learned if abs(tail - 1) < 1e-9]
        return {
            "layers": [name for name, _ in own],
            "share": math.fsum(share for _, share in own),
            "direct": [name for name, _ in direct],
            "direct_share": math.fsum(share for _, share in direct),
        }

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """All of it as plain values."""
        chosen, net = self.chosen, self.net
        factors = {form: net.amplification(form) for form in BOUNDS}
        content: dict[str, Any] = {
            "bound": self.form,
            "dimension": "effective" if self.effective else "parameters",
            "n": int(chosen.n) if float(chosen.n).is_integer() else chosen.n,
            "assumed": self.assumed,
            "layers": [],
        }
        for index, layer in enumerate(net):
            learned = layer if isinstance(layer, Learned) else None
            content["layers"].append(
                {
                    **fields(layer, "name", "kind"),
                    "takes": list(net.inputs_of(layer.name)),
                    "lipschitz": fields(layer.bracket, "lower", "upper", "how"),
                    "amplification": {form: float(factors[form][index]) for form in BOUNDS},
                    "parameters": learned.parameters if learned else 0,
                    "shared": learned.shared if learned else 0,
                    "effective": learned.effective if learned else None,
                    "approximation": float(chosen.approximations[index]),
                }
            )
        if self.target is not None:
            content |= {"target": self.target, "reachable": self.reached}
        for prefix, effective in self.kinds.items():
            own = _with(chosen, effective)
            for index, row in enumerate(content["layers"]):
                part = None if own is None else float(own.contributions[index])
                row[f"{prefix}estimation"] = None if part is None else part - row["approximation"]
                row[f"{prefix}contribution"] = part
                row[f"{prefix}share"] = None if own is None else float(own.shares[index])
            totals: dict[str, Any] = dict.fromkeys(self.bounds)
            for form, found in self.bounds.items():
                if found is not None and (bound := _with(found, effective)) is not None:
                    estimation = float((bound.contributions - found.approximations).sum())
                    parts = {"total": bound.total, "floor": found.floor, "estimation": estimation}
                    totals[form] = parts
            content[f"{prefix}bounds"] = totals
            if self.target is not None:
                content[f"{prefix}samples"] = dict(self.samples[effective])
        return content


def answer(
    net: Network,
    form: BoundForm,
    n: float | None,
    target: float | None,
    *,
    effective: bool,
    both: bool,
) -> Answer:
    """The bounds of the network at the asked N, and the N for the target."""
    samples: dict[bool, dict[BoundForm, int | None]] = {False: {}, True: {}}
    for kind in (False, True) if both else (False,):
        for each in BOUNDS if target is not None else ():
            try:
                found = sample_size(net, target or 0.0, bound=each, effective=kind)
            except UnreachableError:
                found = None
            except KoriskError:
                if (each, kind) == (form, effective):
                    raise
                found = None
            samples[kind][each] = found
    needed = samples[effective].get(form)
    at = n if n is not None else min(needed or DEFAULT_N, _LARGEST_N_OF_BOUND)
    chosen = barron_bound(net, at, bound=form, effective=effective)
    bounds: dict[BoundForm, BarronBound | None] = {}
    for each in BOUNDS:
        try:
            bounds[each] = barron_bound(net, at, bound=each, effective=effective)
        except KoriskError:
            bounds[each] = None
    return Answer(net, form, target, effective, both, chosen, bounds, samples)


def _with(found: BarronBound, effective: bool) -> Bound | None:
    """The bound with p, or the one with effective dimensions.

    A network that states none any more, its layer being known, has the one with p for both.
    """
    return found.by_effective or found.by_parameters if effective else found.by_parameters


def as_json(said: Answer, name: str | None, after: Answer | None) -> dict[str, Any]:
    """The network and its numbers, and those of the network with the named layer replaced."""
    content = {"network": said.net.to_dict(), **said.numbers}
    if after is not None:
        saved = {"layer": name, "saved_approximation": said.chosen.floor - after.chosen.floor}
        for prefix in said.kinds:
            had, has = (each.numbers[f"{prefix}bounds"][said.form] for each in (said, after))
            known = had is not None and has is not None
            saved[f"{prefix}saved_estimation"] = (
                had["estimation"] - has["estimation"] if known else None
            )
        content["replace"] = saved | after.numbers
    return content


def show(said: Answer, name: str | None, after: Answer | None) -> None:
    """Print the tables and what they mean."""
    out, content = console(), said.numbers
    at = f"N = {_n_text(said.chosen.n)}"
    asked = "effective_" if said.effective else ""
    takes = () if said.net.is_chain else ("takes",)
    heads = ("layer", *takes, "", "Lip-\nschitz", *(f"A_l,\n{form}" for form in BOUNDS))
    at_n = f"bound at\n{at}" + ",\neffective" * said.effective
    layers = table(
        said.net.name or "network", *heads, "param-\neters", at_n, "share", text=2 + len(takes)
    )
    heads = ("layer", "parameters", "effective", f"bound at\n{at}", "the same,\neffective")
    dimensions = table("p beside the effective dimension", *heads)
    before = INPUT
    for row in content["layers"]:
        # Nothing where that is the layer above.
        source = ["" if row["takes"] == [before] else ", ".join(row["takes"])][: len(takes)]
        before = row["name"]
        low, high = row["lipschitz"]["lower"], row["lipschitz"]["upper"]
        if high <= 1.01 * low:
            constant = number(high)
        elif math.isinf(high):
            constant = f">= {number(low)}" if low else "-"
        else:
            constant = f"{number(low)} to {number(high)}"
        size = short(row["parameters"]) if row["parameters"] else "-"
        part = number(row[f"{asked}contribution"]), f"{row[f'{asked}share']:.0%}"
        growth = map(number, row["amplification"].values())
        layers.add_row(*cells(row["name"], *source, row["kind"], constant, *growth, size, *part))
        if said.both and row["kind"] == "learned":
            used = row["effective"]
            used = "-" if used is None else number(used) if used < 1000 else short(round(used))
            terms = [row[f"{prefix}contribution"] for prefix in said.kinds]
            texts = ["-" if term is None else number(term) for term in terms]
            dimensions.add_row(*cells(row["name"], size, used, *texts))
    columns = ["bound", f"total at\n{at}", "floor", "estimation", "looser\nby"]
    columns += [] if said.target is None else [f"N for\n{number(said.target)}"]
    totals = table("", *columns)
    for form in said.bounds:
        for prefix in said.kinds:
            found = content[f"{prefix}bounds"]
            texts = ["-"] * (len(columns) - 1)
            if found[form] is not None:
                tightest = min(each["total"] for each in found.values() if each is not None)
                texts = [*map(number, found[form].values())]
                texts.append(number(found[form]["total"] / tightest, 3) if tightest else "-")
                if said.target is not None:
                    samples = content[f"{prefix}samples"][form]
                    texts.append("unreachable" if samples is None else whole(samples))
            totals.add_row(*cells(f"{form}, effective" if prefix else form, *texts))
    for each in (layers, dimensions, totals) if said.both else (layers, totals):
        out.print(each)
    for sentence in [*_words(said), *(_saved(said, name or "", after) if after else [])]:
        out.print(sentence, highlight=False, markup=False)


def _n_text(n: float) -> str:
    return whole(int(n)) if float(n).is_integer() else number(n)


# --- Sentences -----------------------------------------------------------------------------------


def _words(said: Answer) -> list[str]:
    """What the tables mean, and what to know about them."""
    chosen, net = said.chosen, said.net
    stating = ", ".join(layer.name for layer in net.learned if layer.effective is not None)
    condition = "the constants hold"
    if said.effective:
        condition += f" and the effective dimension of {stating} may stand for p"
    sentences = [
        f"Meaning: if {condition}, a network trained on N = {_n_text(chosen.n)} samples has an "
        f"expected squared error of at most {number(chosen.total)} ({said.form} bound), "
        f"including a floor of {number(chosen.floor)} that more data cannot lower."
    ]
    if said.both:
        if said.other is None:
            text = "That is an estimate. The theorem's statement is with p, which is missing here."
        elif said.effective:
            text = "That is an estimate. The theorem's statement is with p and gives "
            text += f"{number(said.other)}."
        else:
            text = f"With the effective dimension of {stating} in place of p it is "
            text += f"{number(said.other)}: an estimate, while the theorem's statement is with p."
        silent = [layer.name for layer in net.learned if layer.effective is None]
        if silent:
            text += f" No effective dimension is stated for {', '.join(silent)}: p stays there."
        sentences.append(
            f"{text} An effective dimension belongs to one sample size and to the images it was "
            "computed from, and kappa must belong to it; see docs/explanation/theory.md."
        )
    sentences += _assumption(said)
    brackets = {layer.name: layer.bracket for layer in net}
    sampled = [name for name, each in brackets.items() if math.isinf(each.upper) and each.lower]
    if sampled:
        sentences.append(
            f"The Lipschitz constant of {', '.join(sampled)} was only sampled, so the table shows "
            "a lower estimate. No learned layer in front of it adds an error; if one did, the "
            "bound would be infinite."
        )
    if any(found is None or found.by_parameters is None for found in said.bounds.values()):
        sentences.append(
            "A dash: the file lacks a constant that this form needs, or its value exceeds a double."
        )
    if said.target is not None and said.needed is not None:
        target = f"From N = {whole(said.needed)} on the bound stays at or below the target "
        target += number(said.target)
        other = said.samples[not said.effective].get(said.form)
        if other is not None:
            by = "p" if said.effective else "effective dimensions"
            target += f"; with {by}, from N = {whole(other)} on"
        sentences.append(f"{target}.")
    if any(layer.shared for layer in net.learned):
        sentences.append(
            "Layers that share parameters err by all of them each; different parameters in all: "
            f"{whole(net.parameters or 0)}."
        )
    mismatched = [each.name for each in net if isinstance(each, Known) and each.mismatch > 0]
    if mismatched:
        sentences.append(
            f"The mismatch of {', '.join(mismatched)} is korisk's extension of the theorem: an "
            "approximately known operator adds a term that no data removes."
        )
    return sentences


def _assumption(said: Answer) -> list[str]:
    """How much of the bound is the assumption about learned layers, and what measures instead."""
    assumed, sentences = said.assumed, []
    share = assumed["share"]
    if assumed["direct_share"] >= _WORTH_A_WORD:
        names, of = ", ".join(assumed["direct"]), f"{assumed['direct_share']:.0%} of the bound"
        sentences.append(
            f"The error of {names} reaches the output as it is (A_l = 1), through no known "
            f"operator that would change it: its part, {of}, is no more than the risk assumed of "
            "a learned layer, C^2/n + kappa p log N / N."
        )
    if not assumed["layers"]:
        return sentences
    pilot = "train at a few sizes (kr.run_pilot, korisk plan)"
    if share < _NEARLY_ALL:
        sentences.append(
            f"{share:.0%} of the bound comes from learned layers with C = 0 and kappa = 1, in "
            f"units of kappa: for an absolute error {pilot} and calibrate the constants."
        )
        return sentences
    sentences.append(
        f"{'All' if share > 0.9995 else f'{share:.1%}'} of the bound comes from learned layers "
        "with C = 0 and kappa = 1, which nobody calibrated: it is its own assumption, a reference "
        "in units of kappa to compare networks by, and predicts no error. For that, "
        f"{pilot}; korisk ablate measures what a known layer saves."
    )
    return sentences


def _saved(said: Answer, name: str, after: Answer) -> list[str]:
    """What making a layer known takes off."""
    before, now = said.chosen, after.chosen
    if before.total == now.total:
        return [f"Making {name} known saves nothing: it adds no error to the bound as it is."]
    sentences = [
        f"With {name} known, the bound at N = {_n_text(before.n)} falls from "
        f"{number(before.total)} to {number(now.total)}: {number(before.floor - now.floor)} less "
        f"approximation, {number(before.estimation - now.estimation)} less estimation."
    ]
    if said.other is not None and after.other is not None:
        sentences.append(
            f"With {'p' if said.effective else 'effective dimensions'} it falls from "
            f"{number(said.other)} to {number(after.other)}."
        )
    if said.net.parameters and any(layer.shared for layer in said.net.learned):
        left = whole(after.net.parameters or 0)
        sentences.append(f"Then {left} different parameters are learned, shared ones among them.")
    if said.target is not None:
        then = "is out of reach even then"
        if after.needed is not None:
            then = f"then holds from N = {whole(after.needed)} on"
        sentences.append(f"The target {number(said.target)} {then}.")
    return sentences


_FORM = "write package.module:factory, such as models.unet:example"


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
    form: Annotated[
        str,
        typer.Option("--bound", metavar="FORM", help="composed (tightest), minkowski or paper."),
    ] = "composed",
    effective: Annotated[
        bool,
        typer.Option(
            "--effective",
            help="Let the layers' effective dimensions decide, an estimate, instead of p.",
        ),
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Save the network that --module describes."),
    ] = None,
    plot: PlotOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Bound the expected squared error of a network, layer by layer.

    Known layers add nothing; a learned layer adds an approximation part that stays and an
    estimation part that falls as log N / N. Amplification A_l says how far a layer's squared error
    can grow on its way to the output. Where a layer states its effective dimension, the bound is
    shown with it too.
    """
    one_of("bound", form, BOUNDS)
    if plot is not None:
        check_plot(plot)
    asked = next(each for each in BOUNDS if each == form)
    net = _network(network, module, write)
    both = states_effective(net)
    if effective and not both:
        raise KoriskError(
            "--effective needs a learned layer that states its effective dimension, and this "
            "network has none; add `effective:` to a layer of the file, or leave --effective out"
        )
    wanted = None if target is None else target_error(target)
    try:
        found = answer(net, asked, n, wanted, effective=effective, both=both)
    except KoriskError as error:
        if module is None or "no upper end" not in str(error):
            raise
        raise KoriskError(
            f"{error} to its mark in the code (kr.known or kr.learned), or in the file that "
            "--write FILE.yaml keeps"
        ) from None
    after = None
    if replace is not None:
        less = net.replace(replace)
        after = answer(less, asked, found.chosen.n, wanted, effective=effective, both=both)
    if plot is not None:
        from korisk.report.figures.networks import DrawnNetwork, architecture_figure

        figure = architecture_figure([DrawnNetwork(net.name or "network", net)])
        save_plot(figure, plot)
    if json:
        print_json(as_json(found, replace, after))
    else:
        show(found, replace, after)
    if wanted is not None and not found.reached:
        raise UnreachableError(target=wanted, floor=found.chosen.floor, what=f"the {form} bound")


def _network(path: Path | None, module: str | None, write: Path | None) -> Network:
    """The network of a file, or of a module, which may be kept as a file."""
    if (path is None) == (module is None):
        raise KoriskError(
            f"give a file NETWORK.yaml or a PyTorch module with --module, one of them; {_FORM}"
        )
    if path is not None and write is not None:
        raise KoriskError(f"--write keeps what --module describes, and {path} is a file; copy it")
    if module is None:
        return Network.read(path or "")
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` would
    try:
        # What the user's code prints goes to stderr, so that --json stays readable.
        with contextlib.redirect_stdout(sys.stderr), warnings_as_lines():
            net = _described(module)
    finally:
        sys.path[:] = before
    if write is not None:
        net.write(write)
        typer.echo(f"korisk: wrote {write}", err=True)
    return net


def _described(place: str) -> Network:
    """The network of the module that a factory gives, described on its example."""
    name, _, attribute = place.partition(":")
    if not (name and attribute):
        raise KoriskError(f"--module names a factory, got {shown(place)}; {_FORM}")
    if find_spec("torch") is None:
        raise MissingExtraError(
            "--module needs PyTorch, which is not installed; pip install 'korisk[torch]'"
        )
    importlib.invalidate_caches()
    try:
        made = attrgetter(attribute)(importlib.import_module(name))()
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = shorten(f"{type(error).__name__}: {error}", 300, placeholder="...")
        raise KoriskError(
            f"--module {place} failed: {said} ({Path(last.filename).name}, line {last.lineno}); "
            f"try it in Python first; {_FORM}"
        ) from error
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise KoriskError(
            f"--module {place} must return (module, example), an nn.Module and an input tensor, "
            f"batches first, got {shown(made)}"
        )
    from korisk.networks.describe.describe import describe

    return describe(*made, name=place[-80:])
