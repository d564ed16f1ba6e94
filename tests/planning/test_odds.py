"""Odds: curves without a floor, priors for a kind of metric, seeds that last, pairs of curves."""

import itertools

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import lasting_share, paired_correlation
from korisk.curves.unit import metric_family
from korisk.planning.futures.posterior import posterior

N = 16 * 2 ** np.arange(5)


def power_law(
    rate: float, *, seeds: int = 5, sizes: int = 5, draw: int = 0, metric: str = "mse"
) -> kr.Curve:
    """A power law without a floor, with 5% noise a seed."""
    rng = np.random.default_rng(draw)
    n = np.repeat(16 * 2 ** np.arange(sizes), seeds)
    error = n**-rate * np.exp(0.05 * rng.standard_normal(len(n)))
    return kr.Curve(n, error, list(range(seeds)) * sizes, metric=metric)


@pytest.mark.parametrize("metric", ["mse", "error rate", "loss", ""])
def test_a_power_law_is_not_bent_into_a_floor(metric: str) -> None:
    """Met at four times the pilot in truth: a fair chance there, and an N with 90% exists."""
    chances, safe = [], []
    for draw, rate in enumerate(np.linspace(0.3, 0.7, 6)):
        curve = power_law(float(rate), draw=draw, metric=metric)
        plan = kr.plan(curve, float((4 * curve.sizes[-1]) ** -rate))
        chances.append(plan.probability(4 * int(curve.sizes[-1])))
        safe.append(plan.samples(0.9) is not None)
    assert np.mean(chances) >= 0.25
    # The odds of squared errors are careful: an N called 90% sure was enough too rarely.
    assert np.mean(safe) >= (0.3 if metric == "mse" else 0.5)


def test_bands_get_narrower_with_every_size_of_an_exact_curve() -> None:
    widths = []
    for sizes in range(5, 13):
        n = 16 * 2 ** np.arange(sizes)
        low, high = kr.forecast(kr.Curve(n, n**-0.5)).band([4.0 * n[-1]])
        widths.append(float(np.log(high / low)[0]))
    assert all(after < 1.3 * before for before, after in itertools.pairwise(widths))
    assert widths[-1] < 0.1


@pytest.mark.parametrize(
    ("metric", "unit", "family"),
    [
        ("mse", "error", "squares"),
        ("test_RMSE", "rmse", "squares"),
        ("", "psnr", "squares"),
        ("mse loss", "error", "squares"),
        ("accuracy", "accuracy", "rates"),
        ("error rate", "error", "rates"),
        ("dice", "dice", "rates"),
        ("score", "percent", "rates"),
        ("val_loss", "error", "losses"),
        ("error", "error", ""),
        ("", "error", ""),
        ("ssim", "ssim", ""),
    ],
)
def test_a_metric_tells_its_family(metric: str, unit: str, family: str) -> None:
    assert metric_family(metric, kr.curves.UNITS[unit]) == family


def with_lasting_effects(effect: float, *, draw: int = 0, level: float = 1.0) -> kr.Curve:
    """Five seeds, each off by a factor of its own at every N, and 1% of other noise."""
    rng = np.random.default_rng(draw)
    offsets = effect * np.array([-1.2, -0.6, 0.0, 0.6, 1.2])
    error = level * N[:, None] ** -0.5 * np.exp(offsets + 0.01 * rng.standard_normal((5, 5)))
    return kr.Curve(np.repeat(N, 5), error.ravel(), list("abcde") * 5, metric="mse")


def test_seeds_that_are_off_everywhere_tell_the_shape_all_the_better() -> None:
    lasting = with_lasting_effects(0.2)
    assert lasting_share(lasting) > 0.6
    assert lasting_share(with_lasting_effects(0.0)) < 0.3
    shuffled = kr.Curve(lasting.n, lasting.error, np.random.default_rng(0).permuted(
        np.array(lasting.seed).reshape(5, 5), axis=1).ravel().tolist(), metric="mse")  # fmt: skip
    spread = [float((made := posterior(c)).weight @ (made.rate - made.weight @ made.rate) ** 2)
              for c in (lasting, shuffled)]  # fmt: skip
    assert spread[0] < spread[1]


def test_seeds_without_names_are_not_paired() -> None:
    nameless = kr.Curve(N, N**-0.5)
    assert lasting_share(nameless) == 0.0
    assert paired_correlation(nameless, nameless) == 0.0


def test_curves_of_the_same_seeds_are_compared_in_pairs() -> None:
    """Both are off by the same factors, so that a small difference is a sure one."""
    first = with_lasting_effects(0.2)
    second = with_lasting_effects(0.2, draw=1, level=0.93)
    other = kr.Curve(second.n, second.error, [f"{s}!" for s in second.seed], metric="mse")
    assert paired_correlation(first, second) > 0.5
    target = float(first.means[-1]) * 0.9
    paired, apart = (kr.compare(first, curve, target).odds([256])[0] for curve in (second, other))
    assert paired > apart > 0.5
