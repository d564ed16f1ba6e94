"""Predictions and rehearsals as tables and sentences: everything that is said of a point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from korisk.curves.curve import Curve
from korisk.errors import OutOfReachError
from korisk.planning.explain import chance, count
from korisk.prediction.pair import error_rows
from korisk.prediction.prediction import outlook, size_words, trust_words
from korisk.texts import Table, duration, number, whole

if TYPE_CHECKING:
    from korisk.prediction.rehearse import Rehearsal
    from korisk.prediction.study import PointPrediction


def point_tables(
    point: PointPrediction, asked: Sequence[float] = (), at: Sequence[float] = ()
) -> Iterator[Table]:
    """What is predicted of a point, as texts.

    Parameters
    ----------
    point : PointPrediction
        One of what `predict_study` returns.
    asked : sequence of float, default ()
        Targets; without any, examples are shown.
    at : sequence of float, default ()
        N at which errors are shown; without any, doublings.

    Yields
    ------
    Table
        Errors, samples for targets, what is determined, pilots beside the theory, two factors.
    """
    models, n, targets = point.predictions, point.examples, asked or point.targets
    parts = ("computed", "expected", "90% from", "to")
    rows = []
    for of_models in zip(*(error_rows(made, at) for made in models), strict=True):
        values = [number(value, 3) for row in of_models for value in list(row.values())[1:]]
        rows.append([whole(int(of_models[0]["n"])), *values])
    heads = ["N", *(f"{made.model}\n{part}" for made in models for part in parts)]
    title = f"{point.name}: expected mse, from {point.images} and nothing trained"
    yield Table(title, heads, rows, "r")
    heads = ["model", *size_heads()]
    rows = [
        [made.model, *size_cells(size.to_dict())]
        for target in targets
        for made, size in zip(models, point.plans(target), strict=True)
    ]
    yield Table(f"Samples for {'a target' if asked else 'targets, as examples'}", heads, rows)
    rows = []
    for made in models:
        used, weights = point.effective(made, n), made.parameters or 0
        share = f"{used / weights:.0%}" if weights else "-"
        directions = number(made.effective(n))
        rows.append([made.model, whole(weights), directions, whole(round(used)), share])
    heads = ["model", "weights", "directions", "as weights", "share"]
    yield Table(f"What {n:,} samples determine", heads, rows)
    for made in models:
        if made.checks:
            trust = chance(made.trust) if made.tested else "not tested"
            rows = [
                [whole(c.n), number(c.computed), number(c.measured), number(c.ratio, 3)]
                for c in made.checks
            ]
            title = f"{made.model} inside the pilot (trust in the theory: {trust})"
            yield Table(title, ["N", "computed", "measured", "ratio"], rows, "r")
    if point.pair is not None:
        known = [f for f in map(point.pair.factors_or_reason, targets) if "unknown" not in f]
        if known:
            rows = [
                [number(target), *(number(part, 3) for part in parts)]
                for target, *parts in (factors.values() for factors in known)
            ]
            heads = ["target", "sigma\nfactor", "floor\nfactor", "ratio of\nN / log N"]
            yield Table("Proposition 1, from lines through both", heads, rows, "r")


def point_sentences(point: PointPrediction, asked: Sequence[float] = ()) -> Iterator[str]:
    """What the tables do not say: the outlook, how far to trust it, who wins, and what it took.

    Parameters
    ----------
    point : PointPrediction
        One of what `predict_study` returns.
    asked : sequence of float, default ()
        Targets.

    Yields
    ------
    str
        Sentences, one paragraph each.
    """
    told = ""
    for made in point.predictions:
        said = [size_words(made, target) for target in asked] or [outlook(made)]
        paragraph = " ".join(
            [*said, *trust_words(made), *(note for note in made.notes if note not in told)]
        )
        told += paragraph
        yield paragraph
    if point.pair is not None:
        yield point.pair.explain()
        factors = map(point.pair.factors_or_reason, asked or point.targets)
        lacking = [number(each["target"]) for each in factors if "unknown" in each]
        if lacking:
            yield (
                f"Proposition 1 has no factors at {', '.join(lacking)}: the line through one of "
                "the curves is level, or does not reach the target."
            )
    yield from point.notes
    yield from point.caveats
    usage = point.usage
    cost = f"{point.name}: {duration(usage.seconds)}"
    for size, where in ((usage.peak_memory, "of memory"), (usage.device_memory, "on the GPU")):
        cost += f", at most {size / 2**30:.2f} GiB {where}" if size else ""
    yield f"{cost}.\n"


def require_targets(points: Sequence[PointPrediction], targets: Sequence[float]) -> None:
    """Raise `OutOfReachError` if some target is out of reach of every model of a point.

    Parameters
    ----------
    points : sequence of PointPrediction
        What `predict_study` returns.
    targets : sequence of float
        Mean squared errors.
    """
    lost = [
        f"{goal:.6g} at {point.name}"
        for point in points
        for goal in dict.fromkeys(targets)
        if all(plan.recommend().action == "stop" for plan in point.plans(goal))
    ]
    if lost:
        raise OutOfReachError(
            f"no model is expected to reach {', '.join(lost)}; allow a larger error, or reduce the "
            "noise"
        )


def size_heads() -> list[str]:
    """Titles of `size_cells`."""
    return ["target", "90% sure", "even odds", "90% from", "to", "at most"]


def size_cells(size: dict[str, Any]) -> list[str]:
    """A number of samples in a row: target, N at two levels, ends, and the largest chance."""
    levels = ["none" if n is None else whole(n) for n in map(size["samples"].get, ("0.9", "0.5"))]
    ends = [count(math.inf if size[end] is None else size[end]) for end in ("lower", "upper")]
    return [number(size["target"]), *levels, *ends, chance(size["reach"])]


@dataclass(frozen=True, eq=False)
class RehearsalAnswer:
    """Everything that a rehearsal says of a point.

    Parameters
    ----------
    point : str
        Name of the point.
    made : Rehearsal
        The rehearsal.
    pilot : Curve or None
        What was measured, if anything.
    notes : tuple of str
        On the images.
    asked : sequence of float
        Targets; without any, an example is shown.
    at : sequence of int
        N at which errors are shown; without any, the rehearsed ones.
    """

    point: str
    made: Rehearsal
    pilot: Curve | None = None
    notes: tuple[str, ...] = ()
    asked: Sequence[float] = ()
    at: Sequence[int] = ()

    @property
    def sizes(self) -> list[dict[str, Any]]:
        """Samples for each target, as plain values."""
        made, pilot = self.made, self.pilot
        last = int(made.curve.sizes[-1])
        targets = self.asked or [float(f"{made.expected_with(last, pilot).value:.3g}")]
        if pilot is None:
            return [made.plan(target).to_dict() for target in targets]
        return [made.plan(target, pilot).to_dict() for target in targets]

    def sentences(self) -> list[str]:
        """What is expected, target by target."""
        targets: Sequence[float | None] = self.asked or (None,)
        return [self.made.explain(target, self.pilot) for target in targets]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        made, curve = self.made, self.made.curve
        rows = zip(curve.n.tolist(), curve.error.tolist(), curve.seed, strict=True)
        return {
            "point": self.point,
            "network": curve.model,
            "metric": "mse",
            "simulated": made.simulated,
            "measured": None if self.pilot is None else self.pilot.sizes.tolist(),
            "curve": [dict(zip(("n", "error", "seed"), row, strict=True)) for row in rows],
            "errors": [
                vars(made.expected_with(n, self.pilot)) for n in self.at or curve.sizes.tolist()
            ],
            "samples": self.sizes,
            "unaltered": made.unaltered,
            "notes": [*made.notes, *self.notes],
            "explanation": self.sentences(),
            "seconds": made.seconds,
        }

    def tables(self) -> Iterator[Table]:
        """Errors and samples as texts.

        Yields
        ------
        Table
            Errors at each N; samples for each target.
        """
        curve, rows = self.made.curve, []
        simulated = dict(zip(curve.sizes.tolist(), curve.means.tolist(), strict=True))
        for n in self.at or curve.sizes.tolist():
            error = self.made.expected_with(n, self.pilot)
            values = simulated.get(error.n), error.value, error.lower, error.upper
            rows.append([whole(error.n), *(number(value, 3) for value in values)])
        title = f"{self.point}: expected mse of {curve.model}"
        yield Table(title, ["N", "simulated", "expected", "90% from", "to"], rows, "r")
        title = f"Samples for a target{'' if self.asked else ', as an example'}"
        yield Table(title, size_heads(), [size_cells(size) for size in self.sizes], "r")

    def explain(self) -> str:
        """What is expected, what to know of the images, and how long it took."""
        end = f"{self.point}: {duration(self.made.seconds)}.\n"
        return "\n".join([*self.sentences(), *self.notes, end])

    def require(self) -> None:
        """Raise `OutOfReachError` if a target that was asked for is out of reach."""
        lost = [
            number(size["target"], 6)
            for size in self.sizes
            if size["recommendation"]["action"] not in ("collect", "measure", "train")
        ]
        if self.asked and lost:
            raise OutOfReachError(
                f"{self.made.curve.model} is not expected to reach {', '.join(lost)}; allow a "
                "larger error"
            )
