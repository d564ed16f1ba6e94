"""Tables of answers as text: sample sizes, expected errors, two models side by side."""

import math
from collections.abc import Iterator, Sequence

from korisk.planning.chances import LEVELS, Numbers
from korisk.planning.compare import Comparison
from korisk.planning.forecast import Expectation
from korisk.planning.words import chance, count, level
from korisk.texts import Table, number, whole

# One N of a table: expected error (None where it is not known), and the chance of each target.
AtSize = tuple[int, Expectation | None, Sequence[float | None]]


def sample_heads(levels: Sequence[float]) -> list[str]:
    """Column titles of `sample_cells`."""
    sure = [f"{level(p)} sure" for p in levels]
    return [*sure, "even odds", "plausible\nfrom", "to", "reachable"]


def sample_cells(plan: Numbers, levels: Sequence[float]) -> list[str]:
    """A plan as a table row: N at each level, N with even odds, the plausible range, the reach."""
    reach = "-" if math.isnan(plan.reach) else chance(plan.reach)
    if plan.doubt:
        return [*["-"] * (3 + len(levels)), reach]
    # At the smallest known N, fewer samples may be enough: the number is an upper bound.
    first = int(plan.chances.n[0])
    texts = [
        "none" if n is None else f"{'≤ ' * (n <= first)}{whole(n)}"
        for n in (*map(plan.samples, levels), plan.even)
    ]
    ends = [count(n) if math.isinf(n) else whole(int(n)) for n in (plan.lower, plan.upper)]
    return [*texts, *(["-", "-"] if math.isinf(plan.lower) else ends), reach]


def has_numbers(plan: Numbers) -> bool:
    """Whether a plan has a plausible range of N."""
    return not plan.doubt and math.isfinite(plan.lower)


def plan_tables(
    plans: Sequence[Numbers], sure: float = 0.9, *, full: bool = False
) -> Iterator[Table]:
    """The sample sizes of several plans, one row each; one without any has its sentence alone."""
    plans = [plan for plan in plans if has_numbers(plan)]
    if plans:
        levels = tuple(sorted({sure, *(LEVELS if full else ())}, reverse=not full))
        rows = [
            [number(plan.target), plan.forecast.model or "-", *sample_cells(plan, levels)]
            for plan in plans
        ]
        yield Table(
            "Samples" if full else "", ["target", "model", *sample_heads(levels)], rows, "rlr"
        )


def error_table(
    models: Sequence[tuple[str, Sequence[AtSize]]], noun: str, targets: Sequence[float]
) -> Table:
    """The expected errors of several models at some N."""
    rows = []
    for name, at_sizes in models:
        for n, expected, odds in at_sizes:
            values = [number(getattr(expected, key, None)) for key in ("value", "lower", "upper")]
            chances = ["-" if p is None else chance(p) for p in odds]
            rows.append([name or "-", whole(n), *values, *chances])
    odds_heads = [f"chance of\n{number(target)}" for target in targets]
    odds_heads = ["chance of\nthe target"] if len(targets) == 1 else odds_heads
    heads = ["model", "N", noun, "90% from", "to", *odds_heads]
    return Table(f"Expected {noun}", heads, rows)


def comparison_tables(comparison: Comparison, *, full: bool = False) -> Iterator[Table]:
    """The sample sizes of two models; none if neither has any."""
    plans = zip(comparison.names, (comparison.first, comparison.second), strict=True)
    named = [(name, plan) for name, plan in plans if has_numbers(plan)]
    levels = LEVELS if full else (0.9,)
    if not named:
        return
    yield Table(
        f"Samples for {number(comparison.target)}" if full else "",
        ["model", *sample_heads(levels)],
        [[name, *sample_cells(plan, levels)] for name, plan in named],
    )
