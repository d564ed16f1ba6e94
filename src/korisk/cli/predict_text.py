"""What `korisk predict` prints: tables of curves and sample sizes, then sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from korisk.cli.output import cells, console, duration, number, table, whole
from korisk.cli.pilot import end
from korisk.planning.explain import chance
from korisk.prediction.explain import crossover_words, outlook, size_words, trust_words
from korisk.prediction.point import PointPrediction, errors_at
from korisk.prediction.prediction import Prediction
from korisk.studies.run.usage import Account


def show(made: Sequence[PointPrediction], targets: Sequence[float], at: Sequence[float]) -> None:
    """Print every point."""
    out = console()
    for point in made:
        _show_point(out, point, targets, at)


def _show_point(
    out: Console, point: PointPrediction, asked: Sequence[float], at: Sequence[float]
) -> None:
    targets = asked or point.targets
    out.print(_curves_table(point, at))
    out.print(_samples_table(point, targets, asked=bool(asked)))
    out.print(_weights_table(point))
    for made in point.predictions:
        if made.checks:
            out.print(_checks_table(made))
    factors = [] if point.pair is None else list(map(point.pair.factors_or_reason, targets))
    if any("unknown" not in found for found in factors):
        out.print(_factors_table(factors))
    for sentence in _sentences(point, asked, factors):
        out.print(sentence, highlight=False, markup=False)
    out.print(f"{point.name}: {_cost(point.account)}.\n", highlight=False, markup=False)


def _curves_table(point: PointPrediction, at: Sequence[float]) -> Table:
    columns = [
        f"{made.model}\n{what}"
        for made in point.predictions
        for what in ("computed", "expected", "90% from", "to")
    ]
    title = f"{point.name}: expected mse, from {point.images} and nothing trained"
    shown = table(title, "N", *columns, text=0)
    every = [errors_at(made, at) for made in point.predictions]
    for lines in zip(*every, strict=True):
        values = [number(value, 3) for line in lines for value in line[1:]]
        shown.add_row(*cells(whole(int(lines[0][0])), *values))
    return shown


def _samples_table(point: PointPrediction, targets: Sequence[float], *, asked: bool) -> Table:
    title = "Samples for a target" if asked else "Samples for targets, as examples"
    shown = table(title, "model", "target", "N", "chance", "90% from", "to", "chance\nat most")
    for target in targets:
        for made, found in zip(point.predictions, point.samples(target), strict=True):
            never = found.samples is None
            shown.add_row(
                *cells(
                    made.model,
                    number(target),
                    "-" if found.samples is None else whole(found.samples),
                    "-" if found.chance is None else chance(found.chance),
                    "-" if never else end(found.lower),
                    "-" if never else end(found.upper),
                    chance(found.reach),
                )
            )
    return shown


def _weights_table(point: PointPrediction) -> Table:
    n = point.examples
    shown = table(
        f"What {n:,} samples determine", "model", "weights", "directions", "as weights", "share"
    )
    for made in point.predictions:
        found = point.effective(made, n)
        count = made.parameters
        shown.add_row(
            *cells(
                made.model,
                "-" if count is None else whole(count),
                number(made.effective(n)),
                whole(round(found)),
                "-" if not count else f"{found / count:.0%}",
            )
        )
    return shown


def _checks_table(made: Prediction) -> Table:
    trust = chance(made.trust) if made.tested else "not tested"
    shown = table(
        f"{made.model} inside the pilot (trust in the theory: {trust})",
        "N",
        "computed",
        "measured",
        "ratio",
        text=0,
    )
    for check in made.checks:
        row = (number(check.computed), number(check.measured), number(check.ratio, 3))
        shown.add_row(*cells(whole(check.n), *row))
    return shown


def _factors_table(factors: Sequence[dict[str, Any]]) -> Table:
    shown = table(
        "Proposition 2, from lines through both",
        "target",
        "sigma\nfactor",
        "floor\nfactor",
        "ratio of\nN / log N",
        text=0,
    )
    for found in factors:
        parts = [found.get(key) for key in ("structural", "approximation_budget", "product")]
        row = ["-" if part is None else number(part, 3) for part in parts]
        shown.add_row(*cells(number(found["target"]), *row))
    return shown


def _sentences(
    point: PointPrediction, asked: Sequence[float], factors: Sequence[dict[str, Any]]
) -> Iterator[str]:
    for made in point.predictions:
        said = [size_words(made, target) for target in asked] or [outlook(made)]
        yield " ".join([*said, *trust_words(made), *made.notes])
    if point.pair is not None:
        yield crossover_words(point.pair)
    lacking = [number(found["target"]) for found in factors if "unknown" in found]
    if lacking and point.pair is not None and min(line.slope for line in point.pair.lines) <= 0:
        yield "Proposition 2 has no factors: one of the curves is level, and its line has no slope."
    elif lacking:
        yield (
            f"Proposition 2 has no factors at {', '.join(lacking)}: the line through one of the "
            "curves does not get there."
        )
    yield from point.notes


def _cost(account: Account) -> str:
    words = f"{duration(account.seconds)}"
    if account.peak_memory is not None:
        words += f", at most {account.peak_memory / 2**30:.2f} GiB of memory"
    if account.device_memory:
        words += f" and {account.device_memory / 2**30:.2f} GiB on the GPU"
    return words
