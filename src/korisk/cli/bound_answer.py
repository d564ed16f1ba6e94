"""What `korisk bound` says of a network: its numbers, as JSON, as tables and in sentences.

In the JSON, keys without a prefix are with the parameters p, the theorem's statement; those that
begin with `effective` are with effective dimensions, and are there where a layer of the file states
one. `dimension` says which of the two decided N and whether the target is reachable.
"""

import math
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from korisk.cli.output import cells, console, number, short, table, whole
from korisk.errors import KoriskError, UnreachableError
from korisk.theory import (
    BOUNDS,
    BarronBound,
    Bound,
    BoundForm,
    Known,
    Layer,
    Learned,
    Network,
    barron_bound,
    sample_size,
)

DEFAULT_N = 1000
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


def _with(found: BarronBound | None, *, effective: bool) -> Bound | None:
    """The bound with p, or the one with effective dimensions.

    A network that states none any more, its layer being known, has the one with p for both.
    """
    if found is None:
        return None
    return found.by_effective or found.by_parameters if effective else found.by_parameters


def _parts(found: BarronBound | None, *, effective: bool) -> dict[str, float] | None:
    """Total, floor and estimation of a bound with p or with effective dimensions."""
    bound = _with(found, effective=effective)
    if found is None or bound is None:
        return None
    estimation = float((bound.contributions - found.approximations).sum())
    return {"total": bound.total, "floor": found.floor, "estimation": estimation}


# --- JSON ----------------------------------------------------------------------------------------


def as_json(said: Answer, name: str | None, after: Answer | None) -> dict[str, Any]:
    """The network and its numbers, and those of the network with the named layer replaced."""
    content = {"network": said.net.to_dict(), **_numbers(said)}
    if after is not None:
        saved: dict[str, Any] = {
            "layer": name,
            "saved_approximation": said.chosen.floor - after.chosen.floor,
        }
        for prefix, effective in _kinds(said).items():
            had, has = (_parts(each.chosen, effective=effective) for each in (said, after))
            saved[f"{prefix}saved_estimation"] = (
                None if had is None or has is None else had["estimation"] - has["estimation"]
            )
        content["replace"] = saved | _numbers(after)
    return content


def _kinds(said: Answer) -> dict[str, bool]:
    return {"": False, "effective_": True} if said.both else {"": False}


def _numbers(said: Answer) -> dict[str, Any]:
    chosen = said.chosen
    content: dict[str, Any] = {
        "bound": said.form,
        "dimension": "effective" if said.effective else "parameters",
        "n": int(chosen.n) if float(chosen.n).is_integer() else chosen.n,
        "layers": [],
    }
    factors = {form: said.net.amplification(form) for form in BOUNDS}
    for index, layer in enumerate(said.net):
        bracket, floor = layer.bracket, float(chosen.approximations[index])
        learned = layer if isinstance(layer, Learned) else None
        row = {
            "name": layer.name,
            "kind": layer.kind,
            "lipschitz": {"lower": bracket.lower, "upper": bracket.upper, "how": bracket.how},
            "amplification": {form: float(factors[form][index]) for form in BOUNDS},
            "parameters": learned.parameters if learned else 0,
            "shared": learned.shared if learned else 0,
            "effective": learned.effective if learned else None,
            "approximation": floor,
        }
        for prefix, effective in _kinds(said).items():
            bound = _with(chosen, effective=effective)
            own = None if bound is None else float(bound.contributions[index])
            row[f"{prefix}estimation"] = None if own is None else own - floor
            row[f"{prefix}contribution"] = own
            row[f"{prefix}share"] = None if bound is None else float(bound.shares[index])
        content["layers"].append(row)
    if said.target is not None:
        content |= {"target": said.target, "reachable": said.reached}
    for prefix, effective in _kinds(said).items():
        content[f"{prefix}bounds"] = {
            form: _parts(found, effective=effective) for form, found in said.bounds.items()
        }
        if said.target is not None:
            content[f"{prefix}samples"] = dict(said.samples[effective])
    return content


# --- Tables --------------------------------------------------------------------------------------


def show(said: Answer, name: str | None, after: Answer | None) -> None:
    """Print the tables and what they mean."""
    out = console()
    out.print(_layer_table(said))
    if said.both:
        out.print(_dimension_table(said))
    out.print(_totals_table(said))
    for sentence in [*_words(said), *(_saved(said, name or "", after) if after else [])]:
        out.print(sentence, highlight=False, markup=False)


def _layer_table(said: Answer) -> Table:
    chosen, net = said.chosen, said.net
    at = f"bound at\nN = {_n_text(chosen.n)}" + ",\neffective" * said.effective
    heads = ("layer", "", "Lip-\nschitz", *(f"A_l,\n{form}" for form in BOUNDS))
    shown = table(net.name or "network", *heads, "param-\neters", at, "share", text=2)
    factors = {form: net.amplification(form) for form in BOUNDS}
    for index, layer in enumerate(net):
        low, high = layer.bracket.lower, layer.bracket.upper
        if high <= 1.01 * low:
            constant = number(high)
        elif math.isinf(high):
            constant = f">= {number(low)}" if low else "-"
        else:
            constant = f"{number(low)} to {number(high)}"
        growth = (number(float(factors[form][index])) for form in BOUNDS)
        part = number(float(chosen.contributions[index])), f"{chosen.whole.shares[index]:.0%}"
        shown.add_row(*cells(layer.name, layer.kind, constant, *growth, _parameters(layer), *part))
    return shown


def _dimension_table(said: Answer) -> Table:
    """Both dimensions of the learned layers, and what each makes of the layer's term."""
    at = f"bound at\nN = {_n_text(said.chosen.n)}"
    heads = ("layer", "parameters", "effective", at, "the same,\neffective")
    shown = table("p beside the effective dimension", *heads)
    bounds = [_with(said.chosen, effective=each) for each in (False, True)]
    for index, layer in enumerate(said.net):
        if isinstance(layer, Learned):
            size = layer.effective
            dimension = "-" if size is None else number(size) if size < 1000 else short(round(size))
            terms = (number(float(b.contributions[index])) if b else "-" for b in bounds)
            shown.add_row(*cells(layer.name, _parameters(layer), dimension, *terms))
    return shown


def _totals_table(said: Answer) -> Table:
    heads = ["bound", f"total at\nN = {_n_text(said.chosen.n)}", "floor", "estimation"]
    heads += ["looser\nby", *([f"N for\n{number(said.target)}"] if said.target is not None else [])]
    shown = table("", *heads)
    for form, found in said.bounds.items():
        for effective in _kinds(said).values():
            label = f"{form}, effective" if effective else form
            own = _parts(found, effective=effective)
            if own is None:
                shown.add_row(*cells(label, *("-" for _ in heads[1:])))
                continue
            others = [_with(each, effective=effective) for each in said.bounds.values()]
            tightest = min(each.total for each in others if each is not None)
            row = [*map(number, own.values())]
            row.append(number(own["total"] / tightest, 3) if tightest else "-")
            if said.target is not None:
                samples = said.samples[effective][form]
                row.append("unreachable" if samples is None else whole(samples))
            shown.add_row(*cells(label, *row))
    return shown


def _parameters(layer: Layer) -> str:
    return short(layer.parameters) if isinstance(layer, Learned) and layer.parameters else "-"


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
        sentences.append(_about_effective(said, stating))
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
    if any(layer.C == 0 and layer.kappa == 1 for layer in net.learned):
        sentences.append(
            "Learned layers with C = 0 and kappa = 1 give a reference in units of kappa, not an "
            "absolute error: calibrate the constants on a pilot for that."
        )
    return sentences


def _about_effective(said: Answer, stating: str) -> str:
    """The bound that was not asked for, and which of the two is the theorem's."""
    other = _with(said.chosen, effective=not said.effective)
    if other is None:
        text = "That is an estimate. The theorem's statement is with p, which is missing here."
    elif said.effective:
        text = "That is an estimate. The theorem's statement is with p and gives "
        text += f"{number(other.total)}."
    else:
        text = f"With the effective dimension of {stating} in place of p it is "
        text += f"{number(other.total)}: an estimate, while the theorem's statement is with p."
    silent = [layer.name for layer in said.net.learned if layer.effective is None]
    if silent:
        text += f" No effective dimension is stated for {', '.join(silent)}: p stays there."
    return (
        f"{text} An effective dimension belongs to one sample size and to the images it was "
        "computed from, and kappa must belong to it; see docs/explanation/theory.md."
    )


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
    others = [_with(each.chosen, effective=not said.effective) for each in (said, after)]
    if said.both and others[0] is not None and others[1] is not None:
        sentences.append(
            f"With {'p' if said.effective else 'effective dimensions'} it falls from "
            f"{number(others[0].total)} to {number(others[1].total)}."
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
