"""The bounds of a network in one view: layer by layer, in every form, and in words."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from dataclasses import replace as with_fields
from functools import cached_property
from itertools import product
from typing import Any

from korisk._checks import one_of, target_error
from korisk.errors import Argument, KoriskError, UnreachableError, levels_off
from korisk.texts import Table, number, short, whole
from korisk.theory.bound import BarronBound, Bound, barron_bound, states_effective
from korisk.theory.budget import samples_needed, uncalibrated
from korisk.theory.layer import INPUT, Known, Layer, Learned, is_assumed
from korisk.theory.network import BOUNDS, BoundForm, Network

DEFAULT_N = 1000
_SAME = 1e-6  # relative difference of slopes that counts as rounding
_MOST_NAMES = 6  # of layers in one sentence
_WHOSE = {"stated": "stated", "operator": "map", "present weights": "present", "not known": "-"}
_WORTH_A_WORD = 0.05  # share of a bound from which on a part of it is mentioned
_NEARLY_ALL = 0.9  # share of uncalibrated layers from which on the bound is only a reference
_LARGEST_N = 10**300  # beyond it log N / N is zero, and N not a double


@dataclass(frozen=True, eq=False)
class Overview:
    """The bounds of a network and their meaning. Made by `overview`."""

    net: Network
    form: BoundForm
    target: float | None
    effective: bool
    both: bool
    chosen: BarronBound
    bounds: dict[BoundForm, BarronBound | None]
    samples: dict[bool, dict[BoundForm, int | None]]
    replaced: str | None = None
    after: "Overview | None" = None

    @property
    def needed(self) -> int | None:
        """The N that the target needs, by the requested form and dimension."""
        return self.samples[self.effective].get(self.form)

    @property
    def reached(self) -> bool:
        """Whether the target, if there is one, can be reached."""
        return self.target is None or self.needed is not None

    def require(self) -> None:
        """Raise `UnreachableError` if the requested bound does not reach the target."""
        if self.target is not None and not self.reached:
            name = f"the {self.form} bound"
            raise levels_off(self.target, self.chosen.floor, name)

    @property
    def kinds(self) -> dict[str, bool]:
        """Prefixes of keys, and whether they stand for effective dimensions."""
        return {"": False, "effective_": True} if self.both else {"": False}

    @property
    def other(self) -> float | None:
        """The requested form with the dimension that was not requested."""
        if not self.both:
            return None
        # Read off the figures, which have both, rather than evaluated once more.
        total = self._numbers["bounds" if self.effective else "effective_bounds"][self.form]
        return None if total is None else float(total["total"])

    @cached_property
    def assumed(self) -> dict[str, Any]:
        """The share of the requested bound that rests on assumptions about learned layers.

        `layers` are those with the uncalibrated constants C = 0 and kappa = 1; `direct` are learned
        layers whose error reaches the output unchanged (A_l = 1), such as the last one.
        """
        # An error with P_l = 1 reaches the output as it is, whatever the known operators do.
        shares = self.chosen.whole.shares
        learned = [
            (layer, float(tail), float(share))
            for layer, tail, share in zip(self.net, self.net.tails(), shares, strict=True)
            if isinstance(layer, Learned)
        ]
        guessed = [(layer.name, s) for layer, _, s in learned if is_assumed(layer)]
        direct = [(layer.name, s) for layer, tail, s in learned if abs(tail - 1) < 1e-9]
        return {
            "layers": [name for name, _ in guessed],
            "share": math.fsum(share for _, share in guessed),
            "direct": [name for name, _ in direct],
            "direct_share": math.fsum(share for _, share in direct),
        }

    @cached_property
    def _numbers(self) -> dict[str, Any]:
        requested, net = self.chosen, self.net
        factors = {form: net.amplification(form) for form in BOUNDS}
        layers: list[dict[str, Any]] = []
        for index, layer in enumerate(net):
            row: dict[str, Any] = {"name": layer.name, "kind": layer.kind}
            row |= {"takes": list(net.inputs_of(layer.name)), "lipschitz": asdict(layer.bracket)}
            row["amplification"] = {form: float(factors[form][index]) for form in BOUNDS}
            row |= {key: getattr(layer, key, 0) for key in ("parameters", "shared")}
            row["effective"] = getattr(layer, "effective", None)
            row["risk"] = _origin_of_risk(layer)
            layers.append(row | {"approximation": float(requested.approximations[index])})
        content: dict[str, Any] = {"bound": self.form}
        content["dimension"] = "effective" if self.effective else "parameters"
        content["n"] = int(requested.n) if float(requested.n).is_integer() else requested.n
        content["lipschitz"] = {"upper": net.lipschitz(), "largest_slope": net.largest_slope}
        content |= {"assumed": self.assumed, "layers": layers}
        if self.target is not None:
            content |= {"target": self.target, "reachable": self.reached}
            content["samples_rest_on"] = uncalibrated(net)
        # Every figure once with p, and under a prefix with effective dimensions, if there are any.
        for prefix, effective in self.kinds.items():
            bound = _with(requested, effective)
            for index, row in enumerate(layers):
                value = None if bound is None else float(bound.contributions[index])
                row[f"{prefix}estimation"] = None if value is None else value - row["approximation"]
                row[f"{prefix}contribution"] = value
                row[f"{prefix}share"] = None if bound is None else float(bound.shares[index])
            totals: dict[str, Any] = dict.fromkeys(self.bounds)
            for form, barron in self.bounds.items():
                if barron is not None and (bound := _with(barron, effective)) is not None:
                    totals[form] = {"total": bound.total, "floor": barron.floor}
                    # Summed over layers, as the table does, so that both round alike.
                    removed = bound.contributions - barron.approximations
                    totals[form]["estimation"] = float(removed.sum())
            content[f"{prefix}bounds"] = totals
            if self.target is not None:
                content[f"{prefix}samples"] = dict(self.samples[effective])
        return content

    def to_dict(self) -> dict[str, Any]:
        """The network and its numbers as plain values, for JSON."""
        # The savings are differences of both networks' figures at the same N.
        content = {"network": self.net.to_dict(), **self._numbers}
        if self.after is not None:
            floors = self.chosen.floor - self.after.chosen.floor
            saved = {"layer": self.replaced, "saved_approximation": floors}
            for prefix in self.kinds:
                sides = (self._numbers, self.after._numbers)
                had, has = (numbers[f"{prefix}bounds"][self.form] for numbers in sides)
                fall = had["estimation"] - has["estimation"] if had and has else None
                saved[f"{prefix}saved_estimation"] = fall
            content["replace"] = saved | self.after._numbers
        return content

    # --- Tables ----------------------------------------------------------------------------------

    def tables(self) -> Iterator[Table]:
        """Tables of the layers, of p and effective dimensions if any is stated, and of all forms."""
        content, size = self._numbers, f"N = {_n_text(self.chosen.n)}"
        asked_for = "effective_" if self.effective else ""
        takes = [] if self.net.is_chain else ["takes"]
        layers, dimensions, before = [], [], INPUT
        for row in content["layers"]:
            # Empty where a layer takes the one in the row above.
            source = ["" if row["takes"] == [before] else ", ".join(row["takes"])][: len(takes)]
            name = before = row["name"]
            low, high = row["lipschitz"]["lower"], row["lipschitz"]["upper"]
            # A bracket within one percent reads as a number, one without an upper end as a bound.
            constant = f"{number(low)} to {number(high)}"
            if high <= 1.01 * low:
                constant = number(high)
            elif math.isinf(high):
                constant = f">= {number(low)}" if low else "-"
            parameters = short(row["parameters"]) if row["parameters"] else "-"
            cells = number(row[f"{asked_for}contribution"]), f"{row[f'{asked_for}share']:.0%}"
            growth = map(number, row["amplification"].values())
            whose = _WHOSE[row["lipschitz"]["whose"]]
            row_start = [name, *source, row["kind"], constant, whose]
            layers.append([*row_start, *growth, parameters, *cells])
            if row["kind"] == "learned":
                used = row["effective"]
                used = "-" if used is None else number(used) if used < 1000 else short(round(used))
                terms = [number(row[f"{prefix}contribution"]) for prefix in self.kinds]
                dimensions.append([name, parameters, used, *terms])
        heads = ["layer", *takes, "", "Lip-\nschitz", "whose"]
        heads += [f"A_l,\n{form}" for form in BOUNDS]
        heads += ["param-\neters", f"bound at\n{size}" + ",\neffective" * self.effective, "share"]
        yield Table(self.net.name or "network", heads, layers, "ll" + "l" * len(takes) + "r")
        if self.both:
            heads = ["layer", "parameters", "effective", f"bound at\n{size}"]
            heads.append("the same,\neffective")
            yield Table("p beside the effective dimension", heads, dimensions)
        heads = ["bound", f"total at\n{size}", "floor", "estimation", "looser\nby"]
        heads += [] if self.target is None else [f"N for\n{number(self.target)}"]
        rows = []
        for form in self.bounds:
            for prefix in self.kinds:
                totals = content[f"{prefix}bounds"]
                texts = ["-"] * (len(heads) - 1)
                if totals[form] is not None:
                    tightest = min(total["total"] for total in totals.values() if total is not None)
                    texts = [*map(number, totals[form].values())]
                    texts.append(number(totals[form]["total"] / tightest, 3) if tightest else "-")
                    if self.target is not None:
                        samples = content[f"{prefix}samples"][form]
                        texts.append("unreachable" if samples is None else whole(samples))
                rows.append([f"{form}, effective" if prefix else form, *texts])
        yield Table("", heads, rows)  # all forms, in the order of `BOUNDS`

    # --- Sentences -------------------------------------------------------------------------------

    def explain(self) -> str:
        """The meaning of the tables, their caveats, and the savings of making a layer known."""
        parts = self._meaning(), self._origins(), self._assumption(), self._remarks(), self._saved()
        return "\n".join(sentence for sentences in parts for sentence in sentences)

    def _meaning(self) -> Iterator[str]:
        bound = self.chosen
        stating = ", ".join(layer.name for layer in self.net.learned if layer.effective is not None)
        condition = "the constants hold"
        if present := self.of_present_weights:
            condition += f" (for {_listed(present)} those of the present weights)"
        if guessed := self.assumed["layers"]:
            condition += f", C = 0 and kappa = 1 of {_listed(guessed)} among them"
        if self.effective:
            condition += f" and the effective dimension of {stating} may stand for p"
        yield (
            f"Meaning: if {condition}, a network trained on N = {_n_text(bound.n)} samples has an "
            f"expected squared error of at most {number(bound.total)} ({self.form} bound), "
            f"including a floor of {number(bound.floor)} that more data cannot lower."
        )
        if not self.both:
            return
        if self.other is None:
            text = "That is an estimate. The theorem's statement is with p, which is missing here."
        elif self.effective:
            text = "That is an estimate. The theorem's statement is with p and gives "
            text += f"{number(self.other)}."
        else:
            text = f"With the effective dimension of {stating} in place of p it is "
            text += f"{number(self.other)}: an estimate, while the theorem's statement is with p."
        if silent := [layer.name for layer in self.net.learned if layer.effective is None]:
            text += f" No effective dimension is stated for {', '.join(silent)}: p stays there."
        yield (
            f"{text} An effective dimension belongs to one sample size and to the images it was "
            "computed from, and kappa must belong to it; see docs/explanation/theory.md."
        )

    def _origins(self) -> Iterator[str]:
        """The origin of the constants in the bound."""
        words = {"stated": "as stated", "operator": "of the maps themselves"}
        groups = [
            f"{_listed(names)} {words[whose]}"
            for whose in words
            if (names := [layer.name for layer in self.net if layer.bracket.whose == whose])
        ]
        # Norms by Lanczos hold with a probability, which their `how` states.
        chance = any("probability" in layer.bracket.how for layer in self.net)
        if groups:
            text = f"Lipschitz constants: {'; '.join(groups)}."
            yield text + " Upper ends by Lanczos fail with probability < 1e-6 each." * chance
        if present := self.of_present_weights:
            yield (
                f"The constants of {_listed(present)} are those of the present weights. The "
                "theorem speaks of the true layers, which training is to find: the bound holds if "
                "they are no steeper, and other weights, such as those of another start, give "
                "another bound."
            )
        if (slope := self.net.largest_slope) is not None:
            upper = self.net.lipschitz()
            text = "has no upper end" if math.isinf(upper) else f"is at most {number(upper)}"
            tried = f"the largest slope among the inputs that were tried is {number(slope)}"
            if slope > upper * (1 + _SAME):
                text = f"would be at most {number(upper)} by these constants"
                tried += ": the module is steeper, so the bound does not hold for it as it is"
            yield f"The network's own Lipschitz constant {text}; {tried}."

    @property
    def of_present_weights(self) -> list[str]:
        """The layers whose constant is that of their present weights."""
        return [layer.name for layer in self.net if layer.bracket.whose == "present weights"]

    def _assumption(self) -> Iterator[str]:
        """The share of the bound that is assumed, and the measurements that would replace it."""
        assumed, share = self.assumed, self.assumed["share"]
        if assumed["direct_share"] >= _WORTH_A_WORD:
            of = f"{assumed['direct_share']:.0%} of the bound"
            yield (
                f"The error of {', '.join(assumed['direct'])} reaches the output as it is "
                f"(A_l = 1), through no known operator that would change it: its part, {of}, is no "
                "more than the risk assumed of a learned layer, C^2/n + kappa p log N / N."
            )
        pilot = "train at a few sizes (kr.run_pilot, korisk plan)"
        if assumed["layers"] and share < _NEARLY_ALL:
            yield (
                f"{share:.0%} of the bound comes from learned layers with C = 0 and kappa = 1, in "
                f"units of kappa: for an absolute error {pilot} and calibrate the constants."
            )
        elif assumed["layers"]:
            yield (
                f"{'All' if share > 0.9995 else f'{share:.1%}'} of the bound comes from learned "
                "layers with C = 0 and kappa = 1, which nobody calibrated: it is its own "
                "assumption, a reference in units of kappa to compare networks by, and predicts no "
                f"error. For that, {pilot}; korisk ablate measures what a known layer saves."
            )

    def _remarks(self) -> Iterator[str]:
        net, brackets = self.net, {layer.name: layer.bracket for layer in self.net}
        unbounded = (name for name, bracket in brackets.items() if math.isinf(bracket.upper))
        sampled = [name for name in unbounded if brackets[name].lower]
        if sampled:
            yield (
                f"The Lipschitz constant of {', '.join(sampled)} was only sampled, so the table "
                "shows a lower estimate. No learned layer in front of it adds an error; if one "
                "did, the bound would be infinite."
            )
        if any(bound is None or bound.by_parameters is None for bound in self.bounds.values()):
            yield (
                "A dash: the file lacks a constant that this form needs, or its value exceeds a "
                "double."
            )
        if self.target is not None and self.needed is not None:
            text = f"From N = {whole(self.needed)} on the bound stays at or below the target "
            text += number(self.target)
            alternative = self.samples[not self.effective].get(self.form)
            if alternative is not None:
                by = "p" if self.effective else "effective dimensions"
                text += f"; with {by}, from N = {whole(alternative)} on"
            yield f"{text}."
        if any(layer.shared for layer in net.learned):
            # Without the p of every layer there is no sum to tell.
            text = "Layers that share parameters err by all of them each"
            if net.parameters is not None:
                text += f"; different parameters in all: {whole(net.parameters)}"
            yield f"{text}."
        known = [layer for layer in net if isinstance(layer, Known)]
        mismatched = [layer.name for layer in known if layer.mismatch > 0]
        if mismatched:
            yield (
                f"The mismatch of {', '.join(mismatched)} is korisk's extension of the theorem: an "
                "approximately known operator adds a term that no data removes."
            )

    def _saved(self) -> Iterator[str]:
        if self.after is None:
            return
        # Compared at the same N: that of the original network, also where a target set it.
        before, now, name = self.chosen, self.after.chosen, self.replaced
        if before.total == now.total:
            yield f"Making {name} known saves nothing: it adds no error to the bound as it is."
            return
        yield (
            f"With {name} known, the bound at N = {_n_text(before.n)} falls from "
            f"{number(before.total)} to {number(now.total)}: {number(before.floor - now.floor)} "
            f"less approximation, {number(before.estimation - now.estimation)} less estimation."
        )
        if self.other is not None and self.after.other is not None:
            yield (
                f"With {'p' if self.effective else 'effective dimensions'} it falls from "
                f"{number(self.other)} to {number(self.after.other)}."
            )
        if self.net.parameters and any(layer.shared for layer in self.net.learned):
            remaining = whole(self.after.net.parameters)
            yield f"Then {remaining} different parameters are learned, shared ones among them."
        if self.target is not None:
            outcome = "is out of reach even then"
            if self.after.needed is not None:
                outcome = f"then holds from N = {whole(self.after.needed)} on"
            yield f"The target {number(self.target)} {outcome}."


def overview(
    net: Network,
    n: float | None = None,
    target: float | None = None,
    *,
    bound: str = "composed",
    effective: bool = False,
    replace: str | None = None,
) -> Overview:
    """Evaluate the bounds of a network at N in every form, and the N for a target.

    Parameters
    ----------
    net : Network
        The network, with the constants of its learned layers.
    n : float, optional
        Training samples. Default: what the target needs, else 1000.
    target : float, optional
        Squared error to reach; shows the N from which it holds.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form that decides, composed being the tightest.
    effective : bool, default False
        Let the layers' effective dimensions decide, an estimate, instead of p.
    replace : str, optional
        Show what making this layer known would save.

    Returns
    -------
    Overview
        Its `explain` describes it; its `require` raises if the target is out of reach.

    Raises
    ------
    KoriskError
        If a layer lacks a constant that the requested bound needs.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.theory.overview import overview
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> result = overview(net, target=0.5)
    >>> result.needed, result.chosen.total <= 0.5
    (7094, True)
    """
    one_of("bound", bound, BOUNDS)
    form = next(name for name in BOUNDS if name == bound)
    both = states_effective(net)
    if effective and not both:
        raise KoriskError(
            Argument("effective"),
            " needs a learned layer that states its effective dimension, and this network has "
            "none; add `effective:` to a layer of the file, or leave ",
            Argument("effective"),
            " out",
        )
    goal = None if target is None else target_error(target)

    # Forms that lack a constant of the network are left out; only the requested one may raise.
    def overview_of(net: Network, n: float | None) -> Overview:
        samples: dict[bool, dict[BoundForm, int | None]] = {False: {}, True: {}}
        if goal is not None:
            for kind, name in product((False, True) if both else (False,), BOUNDS):
                samples[kind][name] = None
                try:
                    samples[kind][name] = samples_needed(net, goal, bound=name, effective=kind)
                except KoriskError as error:
                    requested = (name, kind) == (form, effective)
                    if requested and not isinstance(error, UnreachableError):
                        raise
        size = min(samples[effective].get(form) or DEFAULT_N, _LARGEST_N) if n is None else n
        requested_bound = barron_bound(net, size, bound=form, effective=effective)
        bounds: dict[BoundForm, BarronBound | None] = dict.fromkeys(BOUNDS)
        for name in BOUNDS:
            with suppress(KoriskError):
                bounds[name] = barron_bound(net, size, bound=name, effective=effective)
        return Overview(net, form, goal, effective, both, requested_bound, bounds, samples)

    before = overview_of(net, n)
    if replace is None:
        return before
    after = overview_of(net.replace(replace), before.chosen.n)
    return with_fields(before, replaced=replace, after=after)


def _with(barron: BarronBound, effective: bool) -> Bound | None:
    """The bound with p, or the one with effective dimensions.

    A network without any, because the only layer that stated one became known, uses p for both.
    """
    return barron.by_effective or barron.by_parameters if effective else barron.by_parameters


def _origin_of_risk(layer: Layer) -> str:
    """The origin of the constants of a layer's risk."""
    if isinstance(layer, Learned):
        return "assumed" if is_assumed(layer) else "stated"
    return "stated" if isinstance(layer, Known) and layer.mismatch else "none"


def _listed(names: Sequence[str]) -> str:
    """Join names, at most the first few."""
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + rest


def _n_text(n: float) -> str:
    return whole(int(n)) if float(n).is_integer() else number(n)
