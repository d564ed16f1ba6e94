"""The recommendation in one line, as pages, tables and figures say it, and how often it held."""

import json
import math
from functools import cache
from importlib.resources import files

from korisk._json import JsonDict
from korisk.planning.explain import count
from korisk.planning.plan import Plan
from korisk.planning.protocol import Recommendation

# The advice in one line, in templates: the page's table.js fills in the same names.
HEADLINES = {
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
    """How often answers held on curves that the planner had not seen: the kept benchmark."""
    content: JsonDict = json.loads((files("korisk.report") / "held.json").read_text("utf-8"))
    return content


def record() -> str:
    """How often a number of samples was enough, in a sentence."""
    sets = held()["sets"]
    enough = [f"{each['enough']:.0%} of {_SETS[name]}" for name, each in sets.items()]
    return (
        f"Tried on {sum(each['pilots'] for each in sets.values())} learning curves that the method "
        f"had not seen: an N called 90% sure was enough for {', '.join(enough)}. Where it must not "
        "fail, ask for 95% or plan in two rounds."
    )


def headline(advice: Recommendation, plan: Plan) -> str:
    """The advice in one line with the model's name, as the page says it."""
    if advice.action != "collect" or advice.n is None:
        return advice.sentence
    kind = "inside" if advice.n <= plan.last else "collect"
    kind = "already" if advice.n <= plan.curve.sizes[0] else kind
    said = HEADLINES[kind].format(n=count(advice.n), sure=f"{100 * advice.sure:.4g}%")
    name = plan.curve.model
    said = f"{name}: {said}" if name else f"{said[0].upper()}{said[1:]}"
    if kind == "already" or advice.even is None:
        return said
    return said + HEADLINES["even"].format(even=count(advice.even))


def interval(advice: Recommendation, plan: Plan) -> str:
    """The interval of N as the page says it; empty where the smallest size is enough.

    Where the headline has no even odds, they stand before it.
    """
    if advice.lower is None or (advice.upper or math.inf) <= plan.curve.sizes[0]:
        return ""
    kind = "at_least" if advice.upper is None else "interval"
    ends = HEADLINES[kind].format(lower=count(advice.lower), upper=count(advice.upper or 0))
    if advice.action == "collect" or advice.even is None:
        return ends
    return f"{HEADLINES['even'].format(even=count(advice.even))[2:]}; {ends}"


def short(advice: Recommendation) -> str:
    """The advice in a word or two, for a table or a legend."""
    if advice.action == "collect":
        return count(advice.n or 0)
    if advice.action == "measure":
        return f"measure {count(advice.n or 0)} next"
    return {"train": "train longer first", "stop": "stop"}.get(advice.action, "not known")
