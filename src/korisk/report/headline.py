"""The recommendation in one line, for pages, tables and figures, and how often it held."""

import json
import math
from functools import cache
from importlib.resources import files

from korisk._json import JsonDict
from korisk.planning.explain import count
from korisk.planning.plan import Plan
from korisk.planning.protocol import Recommendation

# Templates of the advice: table.js in the page fills in the same names.
HEADLINES = {
    "question": "How many training samples does {model} need to reach {goal}?",
    "asked": "How many training samples are needed to reach {goal}?",
    "collect": "collect {n} ({sure} sure)",
    "inside": "{n} samples are enough ({sure} sure)",
    "already": "already at N = {n} ({sure} sure)",
    "even": "; even odds {even}",
    "interval": "90% interval {lower} to {upper}",
    "at_least": "at least {lower} (95% sure)",
}

_SETS = {"imaging": "imaging networks", "neural": "small networks", "lcdb": "other learners"}


@cache
def held() -> JsonDict:
    """Results of the benchmark on held-out curves: how often answers held."""
    content: JsonDict = json.loads((files("korisk.report") / "held.json").read_text("utf-8"))
    return content


def record() -> str:
    """One sentence on how often a recommended number of samples was enough."""
    sets = held()["sets"]
    enough = [f"{result['enough']:.0%} of {_SETS[name]}" for name, result in sets.items()]
    pilots = sum(result["pilots"] for result in sets.values())
    return (
        f"Tried on {pilots} learning curves that the method had not seen: an N called 90% sure was "
        f"enough for {', '.join(enough)}. "
        "Where it must not fail, ask for 95% or plan in two rounds."
    )


def headline(advice: Recommendation, plan: Plan) -> str:
    """The advice in one line, with the name of the model."""
    if advice.action != "collect" or advice.n is None:
        return advice.sentence
    kind = "inside" if advice.n <= plan.last else "collect"
    # At or below the smallest measured size there is nothing to collect.
    kind = "already" if advice.n <= plan.curve.sizes[0] else kind
    sentence = HEADLINES[kind].format(n=count(advice.n), sure=f"{100 * advice.sure:.4g}%")
    name = plan.curve.model
    sentence = f"{name}: {sentence}" if name else f"{sentence[0].upper()}{sentence[1:]}"
    if kind == "already" or advice.even is None:
        return sentence
    return sentence + HEADLINES["even"].format(even=count(advice.even))


def question(model: str, goal: str) -> str:
    """The question of a plan, which opens the page on paper."""
    return HEADLINES["question" if model else "asked"].format(model=model, goal=goal)


def interval(advice: Recommendation, plan: Plan) -> str:
    """The interval of N as text; empty if the smallest measured size is enough.

    The median N comes first if the headline does not contain it.
    """
    if advice.lower is None or (advice.upper or math.inf) <= plan.curve.sizes[0]:
        return ""
    kind = "at_least" if advice.upper is None else "interval"
    ends = HEADLINES[kind].format(lower=count(advice.lower), upper=count(advice.upper or 0))
    if advice.action == "collect" or advice.even is None:
        return ends
    # The template begins with a separator, which [2:] removes.
    return f"{HEADLINES['even'].format(even=count(advice.even))[2:]}; {ends}"


def short(advice: Recommendation) -> str:
    """The advice in a few words, for a table or a legend."""
    if advice.action == "collect":
        return count(advice.n or 0)
    if advice.action == "measure":
        return f"measure {count(advice.n or 0)} next"
    return {"train": "train longer first", "stop": "stop"}.get(advice.action, "not known")
