"""What limits the error: laws over simulated training, of which every part is known."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest

import korisk as kr

N = [8, 16, 32, 64, 128, 256, 512, 1024]
SEEDS = 3
KINDS = ("data", "training", "network")


@dataclass(frozen=True)
class Simulated:
    """Training whose error is a sum of three parts, given as shares at the largest N."""

    shares: dict[str, float]
    rate: float = 0.6  # of the data's part in N
    decay: float = 0.7  # of the training's part in the steps
    optimism: float = 1.0  # of the training error, in data's parts below the rest
    scatter: float = 0.03  # of one seed
    draw: int = 0
    unit: str = "error"

    def errors(
        self, n: float, seeds: int, rng: np.random.Generator, *, factor: float = 1.0
    ) -> tuple[list[float], list[float]]:
        """Test and training errors of some seeds."""
        data = self.shares["data"] * (n / N[-1]) ** -self.rate
        rest = self.shares["training"] * factor**-self.decay
        rest += self.shares["network"]
        test = 0.04 * (rest + data) * np.exp(self.scatter * rng.standard_normal(seeds))
        train = 0.04 * max(rest - (self.optimism - 1) * data, 1e-3)
        return test.tolist(), (train * np.exp(self.scatter * rng.standard_normal(seeds))).tolist()

    def pilot(self) -> tuple[kr.Curve, dict[str, Any]]:
        """The learning curve, with the training errors and the longer run."""
        rng = np.random.default_rng([self.draw, 37])
        unit = kr.curves.UNITS[self.unit]
        runs = [self.errors(n, SEEDS, rng) for n in N]
        test, training = (
            kr.Curve.of_errors(
                np.repeat(N, SEEDS), np.ravel(errors), list(range(SEEDS)) * len(N), unit=unit
            )
            for errors in zip(*runs, strict=True)
        )
        longer, _ = self.errors(N[-1], SEEDS, rng, factor=3)
        run = kr.planning.Longer(
            n=N[-1],
            factor=3,
            errors=unit.from_error(longer).tolist(),
            before=unit.from_error(runs[-1][0]).tolist(),
        )
        return test, {"training": training, "longer": run}

    def limit(self) -> kr.planning.Limit:
        """What limits the error, by all that is known."""
        curve, known = self.pilot()
        return kr.planning.limit(curve, **known)


def simulated(kind: str, draw: int, *, largest: float = 0.7) -> Simulated:
    """A case in which one part is the largest by far; the rest is split at random."""
    rng = np.random.default_rng([draw, KINDS.index(kind)])
    others = (1 - largest) * rng.dirichlet(np.ones(2))
    shares = dict(zip([other for other in KINDS if other != kind], others, strict=True))
    return Simulated(
        shares | {kind: largest},
        rate=rng.uniform(0.4, 1.0),
        decay=rng.uniform(0.5, 1.0),
        optimism=rng.uniform(1.0, 1.3),
        scatter=rng.choice([0.01, 0.05]),
        draw=draw,
        unit=str(rng.choice(["error", "rmse", "psnr", "accuracy"])),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_part_is_named(kind: str) -> None:
    """A share of 70% may be missed rarely, one of 85% never; what is left has a next run."""
    for largest, least in ((0.7, 57), (0.85, 60)):
        named = [simulated(kind, draw, largest=largest).limit() for draw in range(60)]
        expected = {"network": "unknown"}.get(kind, kind)
        assert sum(limit.kind == expected for limit in named) >= least
        assert all((limit.next_run == "") == (limit.kind != "unknown") for limit in named)
        larger = ["train a larger network" in limit.next_run for limit in named]
        assert sum(larger) >= least if kind == "network" else sum(larger) <= 60 - least


def test_a_training_limit_is_never_called_data_where_it_was_trained_longer() -> None:
    """Whatever else is known, and however the error falls with N."""
    for draw in range(60):
        curve, known = simulated("training", draw, largest=0.6).pilot()
        assert kr.planning.limit(curve, **known).kind == "training"
        assert kr.planning.limit(curve, longer=known["longer"]).kind == "training"


def test_a_flat_decade_is_not_called_data() -> None:
    """Neither by its noise nor by a training error far below."""
    flat = {"data": 0.0, "training": 0.4, "network": 0.6}
    named = []
    for draw in range(300):
        scatter = (0.01, 0.05, 0.2)[draw % 3]
        curve, known = Simulated(flat, scatter=scatter, draw=draw).pilot()
        memorised = kr.Curve(curve.n, 0.01 * curve.error, curve.seed)
        assert kr.planning.limit(curve, **known).kind != "data"
        named += [kr.planning.limit(curve), kr.planning.limit(curve, training=memorised)]
    assert sum(limit.kind == "data" for limit in named) <= 2
    assert kr.planning.limit(curve).next_run == "train N = 1,024 once with 3 times the steps"


def test_what_does_not_go_with_the_curve_is_refused() -> None:
    curve = kr.Curve([16, 64], [0.2, 0.1], unit="accuracy")
    with pytest.raises(kr.KoriskError, match="training must have a size of the curve"):
        kr.planning.limit(curve, training=kr.Curve([32], [0.1], unit="accuracy"))
    with pytest.raises(kr.KoriskError, match="unit of the curve, got psnr and accuracy"):
        kr.planning.limit(curve, training=kr.Curve([64], [0.1], unit="psnr"))
    wrong = kr.planning.Longer(n=64, factor=3, errors=[2.0], before=[0.1])
    with pytest.raises(kr.KoriskError, match=r"longer must have values in the unit .*accuracy"):
        kr.planning.limit(curve, longer=wrong)


def test_a_limit_is_plain_in_json() -> None:
    limit = kr.planning.limit(kr.Curve([16, 64, 256], [0.1, 0.1, 0.1]))
    assert kr.planning.Limit(**asdict(limit)) == limit
    assert limit.next_run in str(limit)
