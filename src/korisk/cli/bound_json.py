"""The answer of `korisk bound` for machines.

Keys without a prefix are with the parameters p, the theorem's statement; those that begin with
`effective` are with effective dimensions, and are there where a layer of the file states one.
`dimension` says which of the two decided N and whether the target is reachable.
"""

from typing import Any

from korisk.cli.bound_answer import Answer, parts, with_dimension
from korisk.theory import BOUNDS, BarronBound, Learned


def as_json(answer: Answer, replaced: tuple[str, Answer] | None) -> dict[str, Any]:
    """The network and its numbers, and those of the network with a layer replaced."""
    content = {"network": answer.net.to_dict(), **_numbers(answer)}
    if replaced is not None:
        name, after = replaced
        saved = {
            "layer": name,
            "saved_approximation": answer.chosen.floor - after.chosen.floor,
            "saved_estimation": _saved(answer.chosen, after.chosen, effective=False),
        }
        if answer.question.both:
            estimate = _saved(answer.chosen, after.chosen, effective=True)
            saved["effective_saved_estimation"] = estimate
        content["replace"] = saved | _numbers(after)
    return content


def _saved(before: BarronBound, after: BarronBound, *, effective: bool) -> float | None:
    had, has = (parts(found, effective=effective) for found in (before, after))
    return None if had is None or has is None else had["estimation"] - has["estimation"]


def _numbers(answer: Answer) -> dict[str, Any]:
    chosen, question = answer.chosen, answer.question
    content: dict[str, Any] = {
        "bound": answer.bound,
        "dimension": "effective" if question.effective else "parameters",
        "n": int(chosen.n) if float(chosen.n).is_integer() else chosen.n,
        "layers": _layer_numbers(answer),
        "bounds": {m: parts(found, effective=False) for m, found in answer.bounds.items()},
    }
    if question.both:
        content["effective_bounds"] = {
            m: parts(found, effective=True) for m, found in answer.bounds.items()
        }
    if answer.target is not None:
        content["target"] = answer.target
        content["reachable"] = answer.reached
        content["samples"] = dict(answer.samples)
        if question.both:
            content["effective_samples"] = dict(answer.estimates)
    return content


def _layer_numbers(answer: Answer) -> list[dict[str, Any]]:
    factors = {m: answer.net.amplification(m) for m in BOUNDS}
    return [
        {
            "name": layer.name,
            "kind": layer.kind,
            "lipschitz": {
                "lower": layer.bracket.lower,
                "upper": layer.bracket.upper,
                "how": layer.bracket.how,
            },
            "amplification": {m: float(factors[m][index]) for m in BOUNDS},
            "parameters": layer.parameters if isinstance(layer, Learned) else 0,
            "shared": layer.shared if isinstance(layer, Learned) else 0,
            "effective": layer.effective if isinstance(layer, Learned) else None,
            "approximation": float(answer.chosen.approximations[index]),
            **_contribution(answer, index, effective=False),
            **(_contribution(answer, index, effective=True) if answer.question.both else {}),
        }
        for index, layer in enumerate(answer.net)
    ]


def _contribution(answer: Answer, index: int, *, effective: bool) -> dict[str, float | None]:
    bound = with_dimension(answer.chosen, effective=effective)
    keys = [f"{'effective_' * effective}{key}" for key in ("estimation", "contribution", "share")]
    if bound is None:
        return dict.fromkeys(keys)
    contribution = float(bound.contributions[index])
    estimation = contribution - float(answer.chosen.approximations[index])
    return dict(zip(keys, (estimation, contribution, float(bound.shares[index])), strict=True))
