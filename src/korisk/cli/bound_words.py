"""The answer of `korisk bound` in sentences."""

import math

from korisk.cli.bound_answer import Answer, with_dimension
from korisk.cli.output import number, whole
from korisk.theory import Known, Learned, Network


def words(answer: Answer) -> list[str]:
    """What the tables mean, and what to know about them."""
    said = [_meaning(answer), *_about_effective(answer)]
    sampled = _open_ended(answer.net)
    if sampled:
        said.append(
            f"The Lipschitz constant of {', '.join(sampled)} was only sampled, so it is at least "
            "what stands there. No learned layer in front of it adds an error; if one did, the "
            "bound would be infinite."
        )
    if any(found is None or found.by_parameters is None for found in answer.bounds.values()):
        said.append(
            "A dash: the file lacks a constant that this form needs, or its value exceeds a double."
        )
    said += _about_target(answer)
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


def saved(answer: Answer, name: str, after: Answer) -> list[str]:
    """What making a layer known takes off."""
    n, before, now = n_text(answer.chosen.n), answer.chosen, after.chosen
    if before.total == now.total:
        return [f"Making {name} known saves nothing: it adds no error to the bound as it is."]
    said = [
        f"With {name} known, the bound at N = {n} falls from {number(before.total)} to "
        f"{number(now.total)}: {number(before.floor - now.floor)} less approximation, "
        f"{number(before.estimation - now.estimation)} less estimation."
    ]
    said += _other_saving(answer, after)
    if _learned_elsewhere(answer.net, after.net, name):
        said.append(
            f"{name} shares parameters with other layers, in which the same weights stay learned: "
            f"{whole(after.net.parameters or 0)} different ones in all."
        )
    if answer.target is not None:
        target, samples = number(answer.target), after.needed
        said.append(
            f"The target {target} is out of reach even then."
            if samples is None
            else f"The target {target} then holds from N = {whole(samples)} on."
        )
    return said


def n_text(n: float) -> str:
    """A sample size, whole where it is."""
    return whole(int(n)) if float(n).is_integer() else number(n)


def _meaning(answer: Answer) -> str:
    chosen, condition = answer.chosen, "the constants hold"
    if answer.question.effective:
        condition += f" and the effective dimension of {_stating(answer.net)} may stand for p"
    return (
        f"Meaning: if {condition}, a network trained on N = {n_text(chosen.n)} samples has an "
        f"expected squared error of at most {number(chosen.total)} ({answer.bound} bound), "
        f"of which {number(chosen.floor)} stays however much data there is."
    )


def _about_effective(answer: Answer) -> list[str]:
    if not answer.question.both:
        return []
    said = [_other_total(answer)]
    silent = [layer.name for layer in answer.net.learned if layer.effective is None]
    if silent:
        said.append(f"No effective dimension is stated for {', '.join(silent)}: p stays there.")
    said.append(
        "An effective dimension belongs to one sample size and to the images it was computed from, "
        "and kappa must belong to it; see docs/explanation/theory.md."
    )
    return [" ".join(said)]


def _other_total(answer: Answer) -> str:
    """The bound that was not asked for, and which of the two is the theorem's."""
    other = with_dimension(answer.chosen, effective=not answer.question.effective)
    if other is None:
        return "That is an estimate. The theorem's statement is with p, which is missing here."
    if answer.question.effective:
        total = number(other.total)
        return f"That is an estimate. The theorem's statement is with p and gives {total}."
    return (
        f"With the effective dimension of {_stating(answer.net)} in place of p it is "
        f"{number(other.total)}: an estimate, while the theorem's statement is with p."
    )


def _about_target(answer: Answer) -> list[str]:
    if answer.target is None or answer.needed is None:
        return []
    said = (
        f"From N = {whole(answer.needed)} on the bound stays at or below the target "
        f"{number(answer.target)}"
    )
    if answer.question.both:
        effective = answer.question.effective
        other = (answer.samples if effective else answer.estimates)[answer.bound]
        if other is not None:
            said += (
                f"; with {'p' if effective else 'effective dimensions'}, from N = {whole(other)} on"
            )
    return [f"{said}."]


def _other_saving(answer: Answer, after: Answer) -> list[str]:
    """The fall of the bound that was not asked for, where there are two."""
    effective = not answer.question.effective
    before, now = (with_dimension(each.chosen, effective=effective) for each in (answer, after))
    if not answer.question.both or before is None or now is None:
        return []
    return [
        f"With {'effective dimensions' if effective else 'p'} it falls from "
        f"{number(before.total)} to {number(now.total)}."
    ]


def _stating(net: Network) -> str:
    return ", ".join(layer.name for layer in net.learned if layer.effective is not None)


def _open_ended(net: Network) -> list[str]:
    """Layers whose constant is known from below alone."""
    return [
        layer.name for layer in net if layer.bracket.upper == math.inf and layer.bracket.lower > 0
    ]


def _learned_elsewhere(before: Network, after: Network, name: str) -> bool:
    """Whether a layer's parameters do not all vanish with it."""
    old, counts = before[name], (before.parameters, after.parameters)
    if not isinstance(old, Learned) or old.parameters is None or None in counts:
        return isinstance(old, Learned) and old.shared > 0
    return (counts[1] or 0) > (counts[0] or 0) - old.parameters
