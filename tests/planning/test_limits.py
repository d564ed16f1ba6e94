"""What limits the error: laws over simulated training, of which every part is known."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import korisk as kr

N = [8, 16, 32, 64, 128, 256, 512, 1024]
SEEDS = 3
KINDS = ("data", "training", "network", "noise")


@dataclass(frozen=True)
class Simulated:
    """Training whose error is a sum of four parts, given as shares at the largest N."""

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
        rest += self.shares["network"] + self.shares["noise"]
        test = 0.04 * (rest + data) * np.exp(self.scatter * rng.standard_normal(seeds))
        train = 0.04 * max(rest - (self.optimism - 1) * data, 1e-3)
        return test.tolist(), (train * np.exp(self.scatter * rng.standard_normal(seeds))).tolist()

    def pilot(self) -> tuple[kr.Curve, kr.planning.Evidence]:
        """The learning curve, and all the evidence there can be."""
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
        return test, kr.planning.Evidence(
            training=training,
            longer=kr.planning.Longer(
                n=N[-1],
                factor=3,
                errors=unit.from_error(longer).tolist(),
                before=unit.from_error(runs[-1][0]).tolist(),
            ),
            noise=float(unit.from_error(0.04 * self.shares["noise"])),
        )


def simulated(kind: str, draw: int, *, largest: float = 0.7) -> Simulated:
    """A case in which one part is the largest by far; the rest is split at random."""
    rng = np.random.default_rng([draw, KINDS.index(kind)])
    others = (1 - largest) * rng.dirichlet(np.ones(3))
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
    """By all evidence; a share of 70% may be missed rarely, one of 85% never."""
    for largest, least in ((0.7, 57), (0.85, 60)):
        named = [
            kr.planning.limit(*simulated(kind, draw, largest=largest).pilot()) for draw in range(60)
        ]
        assert sum(limit.kind == kind for limit in named) >= least
        assert all((limit.next_run == "") == (limit.kind != "unknown") for limit in named)


def test_a_training_limit_is_never_called_data_where_it_was_probed() -> None:
    """Whatever else is known, and however the error falls with N."""
    for draw in range(60):
        curve, evidence = simulated("training", draw, largest=0.6).pilot()
        alone = kr.planning.Evidence(longer=evidence.longer)
        for known in (evidence, alone, replace(evidence, noise=None)):
            assert kr.planning.limit(curve, known).kind == "training"


def test_a_flat_decade_is_not_called_data() -> None:
    """Neither by its noise nor by a training error far below."""
    flat = {"data": 0.0, "training": 0.4, "network": 0.6, "noise": 0.0}
    named = []
    for draw in range(300):
        scatter = (0.01, 0.05, 0.2)[draw % 3]
        curve, evidence = Simulated(flat, scatter=scatter, draw=draw).pilot()
        memorised = kr.Curve(curve.n, 0.01 * curve.error, curve.seed)
        assert kr.planning.limit(curve, evidence).kind != "data"
        named += [
            kr.planning.limit(curve),
            kr.planning.limit(curve, kr.planning.Evidence(training=memorised)),
        ]
    assert sum(limit.kind == "data" for limit in named) <= 2
    assert kr.planning.limit(curve).next_run == "train N = 1,024 once with 3 times the steps"


def test_an_error_that_fell_and_is_flat_now_is_not_called_data() -> None:
    curve = kr.Curve(N, [0.4, 0.2, 0.1, 0.05, 0.05, 0.0501, 0.0499, 0.05])
    limit = kr.planning.limit(curve)
    assert (limit.kind, bool(limit.next_run)) == ("unknown", True)
    assert "does not fall with N" in limit.sentence


def test_without_evidence_a_falling_error_is_said_to_fall() -> None:
    limit = kr.planning.limit(kr.Curve(N, [1.0 / n for n in N]))
    assert limit.kind == "data"
    assert "still falls with N" in limit.sentence


def test_a_probe_that_noise_hides_asks_for_more_seeds() -> None:
    curve, _ = Simulated(dict.fromkeys(KINDS, 0.25), scatter=0.5).pilot()
    longer = kr.planning.Longer(n=1024, factor=3, errors=[0.03, 0.06], before=[0.02, 0.08])
    limit = kr.planning.limit(curve, kr.planning.Evidence(longer=longer, training=curve))
    assert limit.kind == "unknown"
    assert "more seeds" in limit.next_run


def test_what_data_cannot_lower_is_named_where_it_is_above_the_target() -> None:
    """Data is the largest part, and the rest alone is above the target."""
    shares = {"data": 0.6, "training": 0.0, "network": 0.4, "noise": 0.0}
    curve, evidence = Simulated(shares, scatter=0.01).pilot()
    error = float(curve.means[-1])
    assert kr.planning.limit(curve, evidence).kind == "data"
    assert kr.planning.limit(curve, evidence, 0.7 * error).kind == "data"
    assert kr.planning.limit(curve, evidence, 0.1 * error).kind == "network"
    noisy = replace(evidence, noise=0.2 * error)
    assert kr.planning.limit(curve, noisy, 0.1 * error).kind == "noise"


def test_the_words_have_the_numbers_of_the_users_unit() -> None:
    shares = {"data": 0.9, "training": 0.0, "network": 0.1, "noise": 1e-9}
    curve, evidence = Simulated(shares, unit="psnr", scatter=0.0).pilot()
    words = kr.planning.limit(curve, evidence).sentence
    assert "N = 1,024" in words
    assert "13.98" in words  # 0.04 in decibels
    assert "23.98" in words  # a tenth of it


@pytest.mark.parametrize(("baseline", "said"), [(0.04, True), (0.01, True), (1.0, False)])
def test_a_baseline_that_is_not_beaten_is_said(baseline: float, said: bool) -> None:
    curve, _ = replace(simulated("network", 0), unit="error").pilot()
    words = kr.planning.limit(curve, kr.planning.Evidence(baseline=baseline)).sentence
    assert ("no better than" in words) == said
    assert (f"{baseline:g} without training" in words) == said


def test_evidence_that_does_not_go_with_the_curve_is_refused() -> None:
    curve = kr.Curve([16, 64], [0.2, 0.1])
    with pytest.raises(kr.KoriskError, match="training must have a size of the curve"):
        kr.planning.limit(curve, kr.planning.Evidence(training=kr.Curve([32], [0.1])))
    with pytest.raises(kr.KoriskError, match="unit of the curve, got psnr and error"):
        kr.planning.limit(curve, kr.planning.Evidence(training=kr.Curve([64], [0.1], unit="psnr")))
    with pytest.raises(kr.KoriskError, match="noise must be a value in the unit"):
        kr.planning.limit(curve, kr.planning.Evidence(noise=-1.0))
    with pytest.raises(kr.KoriskError, match="factor must be a finite number > 1"):
        kr.planning.Longer(n=16, factor=1, errors=[0.1], before=[0.1])
    with pytest.raises(kr.KoriskError, match="errors must be a list"):
        kr.planning.Longer(n=16, factor=3, errors=[], before=[0.1])
    with pytest.raises(kr.KoriskError, match="longer must be a Longer"):
        kr.planning.Evidence(longer=3)  # type: ignore[arg-type]


def test_a_limit_is_plain_in_json() -> None:
    limit = kr.planning.limit(kr.Curve([16, 64, 256], [0.1, 0.1, 0.1]))
    assert kr.planning.Limit(**limit.to_dict()) == limit
    assert limit.next_run in str(limit)
