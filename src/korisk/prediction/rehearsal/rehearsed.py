"""Everything that is said of a network that was rehearsed: numbers, sentences and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from korisk.curves.curve import Curve
from korisk.planning.explain import times
from korisk.planning.protocol import Expectation
from korisk.prediction.prediction import FARTHEST_N, PredictedPlan, sample_dict
from korisk.texts import Table, number, whole

if TYPE_CHECKING:
    from korisk.prediction.rehearsal.rehearsal import Rehearsal
    from korisk.prediction.sensitivity import Change

_PER_DOUBLING = 2  # N at which a curve is drawn
_BEYOND = 4  # times the largest rehearsed N: how far a curve is drawn at least


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What is said of a network: by its rehearsal, with a small real pilot or without.

    Parameters
    ----------
    rehearsal : Rehearsal
        What `rehearse` returns.
    pilot : Curve or None
        Mean squared errors of the same network on real pairs, if any were measured.
    changes : tuple of Change
        How errors change if pairs are not as they were simulated, where that was asked for.
    """

    rehearsal: Rehearsal
    pilot: Curve | None = None
    changes: tuple[Change, ...] = ()

    @property
    def model(self) -> str:
        """Name of the network."""
        return self.rehearsal.curve.model

    @property
    def first(self) -> int:
        """The smallest N that was rehearsed."""
        return int(self.rehearsal.curve.sizes[0])

    @property
    def last(self) -> int:
        """The largest N that was rehearsed."""
        return int(self.rehearsal.curve.sizes[-1])

    @property
    def target(self) -> float:
        """A target for users who name none: what the largest N reaches with 95% probability."""
        return float(f"{self.expected(self.last).upper:.3g}")

    @property
    def check(self) -> Expectation | None:
        """What a first measurement is expected to show; None with a pilot."""
        return None if self.pilot is not None else self.rehearsal.first_check()

    def plan(self, target: float) -> PredictedPlan:
        """The answer for a target."""
        return self.rehearsal.plan(target, self.pilot)

    def expected(self, n: float) -> Expectation:
        """What is expected of real images at one N."""
        return self.rehearsal.expected_with(n, self.pilot)

    def rows(self, sizes: Sequence[float]) -> list[dict[str, float]]:
        """N, the simulated error, the expected one and its 90% band."""
        simulated = self.rehearsal.predict().computed(sizes).tolist()
        return [
            {
                "n": float(then.n),
                "computed": error,
                "expected": then.value,
                "lower": then.lower,
                "upper": then.upper,
            }
            for error, then in zip(simulated, map(self.expected, sizes), strict=True)
        ]

    def drawn_sizes(self, needed: float = 0.0) -> list[int]:
        """N at which the curve is drawn, some way beyond the rehearsal and what a target needs."""
        first, end = float(self.first), max(_BEYOND * self.last, 2.0 * needed)
        end = min(end, FARTHEST_N)
        if self.pilot is not None:
            first = max(first, float(self.pilot.sizes[0]))
        steps = max(2, math.ceil(_PER_DOUBLING * math.log2(max(end / first, 2.0))))
        sizes = np.geomspace(first, max(end, first + 1), 1 + steps)
        return sorted({round(n) for n in sizes.tolist()})

    def sensitivity_table(self, targets: Sequence[float], sure: float) -> Table:
        """How errors, and N for the first target, change if pairs are not as simulated."""
        target = targets[0] if targets else self.target
        rows = []
        for name, lower, ratio, upper in [("as assumed", 1.0, 1.0, 1.0)] + [
            (change.name, change.lower, change.ratio, change.upper) for change in self.changes
        ]:
            size = self.plan(target / ratio).samples(sure)
            ends = f" ({times(lower)} to {times(upper)})" if upper > lower else ""
            rows.append([name, times(ratio) + ends, "none" if size is None else whole(size)])
        title = f"{self.model}, if it is not as assumed"
        return Table(title, ["change", "errors", f"N for {number(target)}"], rows, "lrr")

    def explain(
        self, target: float | None = None, sure: float = 0.9, cost: float | None = None
    ) -> str:
        """The answer, what was simulated and measured, and what to measure first."""
        return self.rehearsal.explain(target, self.pilot, sure, cost)

    def outlook(self) -> str:
        """The error at the largest N, in a sentence."""
        return self.rehearsal.outlook(self.pilot)

    def basis(self) -> list[str]:
        """What was simulated and what was measured, with notes on both."""
        return self.rehearsal.basis(self.pilot)

    def to_dict(
        self,
        targets: Sequence[float],
        at: Sequence[float] = (),
        sure: float = 0.9,
        cost: float | None = None,
    ) -> dict[str, Any]:
        """All of it as plain values, for JSON.

        Parameters
        ----------
        targets : sequence of float
            Mean squared errors for which sample sizes are computed.
        at : sequence of float, optional
            N at which errors are listed. Default: the rehearsed ones.
        sure : float, default 0.9
            The chance with which samples are to be enough.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        dict
            One of `models` of a point; see docs/reference/files.md for its keys.
        """
        rehearsal, curve, pilot = self.rehearsal, self.rehearsal.curve, self.pilot
        rows = zip(curve.n.tolist(), curve.error.tolist(), curve.seed, strict=True)
        plans = [self.plan(target) for target in targets]
        needed = max((plan.samples(sure) or plan.even or 0 for plan in plans), default=0)
        pairs = () if pilot is None else zip(pilot.sizes, pilot.means, strict=True)
        means = zip(curve.sizes.tolist(), curve.means.tolist(), strict=True)
        return {
            "model": self.model,
            "how": "trained",
            "relu": False,
            "floor": None,
            "parameters": rehearsal.parameters,
            "errors": self.rows(at or curve.sizes.tolist()),
            "samples": [sample_dict(plan, sure, cost) for plan in plans],
            "track": self.rows(self.drawn_sizes(needed)),
            "rehearsal": [{"n": n, "measured": mean} for n, mean in means],
            "checks": [{"n": int(n), "measured": float(mean)} for n, mean in pairs],
            "trust": None if pilot is None else rehearsal.predict(pilot).trust,
            "sensitivity": [vars(change) for change in self.changes],
            "first_check": self.check and vars(self.check),
            "simulated": rehearsal.simulated,
            "curve": [dict(zip(("n", "error", "seed"), row, strict=True)) for row in rows],
            "unaltered": rehearsal.unaltered,
            "notes": list(rehearsal.notes),
            "explanation": self.explain(targets[0] if targets else None, sure, cost),
            "seconds": rehearsal.seconds,
        }
