"""Metrics against scikit-image, plain loops and closed forms."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.curves.unit import unit
from korisk.errors import KoriskError
from korisk.problems import METRICS, measure, measure_each, metrics, random_ellipses

Array = NDArray[np.float64]

# structural_similarity(target, prediction, gaussian_weights=True, sigma=1.5,
# use_sample_covariance=False, data_range=target.max()) and peak_signal_noise_ratio of
# scikit-image 0.26.0, for the images of `pair(seed, shape)`.
SCIKIT_IMAGE = [
    (1, (16, 16), 0.8806692791260937, 17.608063906601554),
    (2, (23, 40), 0.8932082767446917, 16.81127897792123),
    (3, (11, 64), 0.889791050649494, 17.164483986418468),
]


def pair(seed: int, shape: tuple[int, int]) -> tuple[Array, Array]:
    """A prediction and its target."""
    rng = np.random.default_rng(seed)
    target = rng.uniform(0, 1.4, shape)
    return target + 0.2 * rng.standard_normal(shape), target


def tensors(prediction: Array, target: Array) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(prediction)[None], torch.from_numpy(target)[None]


def plain_ssim(prediction: Array, target: Array) -> float:
    """Window by window, from the definition."""
    widths = [min(11, n if n % 2 else n - 1) for n in target.shape]
    bells = [np.exp(-0.5 * ((np.arange(w) - w // 2) / 1.5) ** 2) for w in widths]
    window = np.outer(*bells) / np.outer(*bells).sum()
    c1, c2 = (0.01 * target.max()) ** 2, (0.03 * target.max()) ** 2
    values = []
    for i in range(target.shape[0] - widths[0] + 1):
        for j in range(target.shape[1] - widths[1] + 1):
            here = slice(i, i + widths[0]), slice(j, j + widths[1])
            p, y = prediction[here], target[here]
            mp, my = (window * p).sum(), (window * y).sum()
            vp, vy = (window * (p - mp) ** 2).sum(), (window * (y - my) ** 2).sum()
            both = (window * (p - mp) * (y - my)).sum()
            top = (2 * mp * my + c1) * (2 * both + c2)
            values.append(top / ((mp**2 + my**2 + c1) * (vp + vy + c2)))
    return float(np.mean(values))


@pytest.mark.parametrize(("seed", "shape", "ssim", "psnr"), SCIKIT_IMAGE)
def test_ssim_and_psnr_are_those_of_scikit_image(
    seed: int, shape: tuple[int, int], ssim: float, psnr: float
) -> None:
    found = measure(*tensors(*pair(seed, shape)))
    assert found["ssim"] == pytest.approx(ssim, abs=1e-12)
    assert found["psnr"] == pytest.approx(psnr, abs=1e-10)


@pytest.mark.parametrize("shape", [(8, 8), (7, 20), (1, 3), (13, 12)])
def test_the_window_shrinks_to_small_images(shape: tuple[int, int]) -> None:
    prediction, target = pair(4, shape)
    found = measure(*tensors(prediction, target))["ssim"]
    assert found == pytest.approx(plain_ssim(prediction, target), abs=1e-11)


def test_errors_image_by_image() -> None:
    pairs = [pair(seed, (9, 14)) for seed in range(5)]
    predictions, targets = (torch.from_numpy(np.stack(side)) for side in zip(*pairs, strict=True))
    found = measure(predictions, targets)
    gaps = [(np.linalg.norm(p - y), y) for p, y in pairs]
    wanted = {
        "mse": [gap**2 / y.size for gap, y in gaps],
        "relative": [gap / np.linalg.norm(y) for gap, y in gaps],
        "rmse_over_max": [gap / y.size**0.5 / y.max() for gap, y in gaps],
    }
    for name, values in wanted.items():
        assert found[name] == pytest.approx(float(np.mean(values)), rel=1e-12)


def test_a_perfect_image_is_perfect_and_a_scale_changes_the_squared_error_alone() -> None:
    images = random_ellipses(3, seed=1, stream="test").images(16)
    found = measure(images, images)
    assert found.pop("ssim") == pytest.approx(1)
    assert found == {"mse": 0, "relative": 0, "rmse_over_max": 0, "psnr": math.inf}
    predictions, targets = tensors(*pair(1, (20, 20)))
    one, scaled = measure(predictions, targets), measure(7 * predictions, 7 * targets)
    assert scaled.pop("mse") == pytest.approx(49 * one.pop("mse"))
    assert scaled == pytest.approx(one)
    blank = torch.zeros_like(targets)
    alone = measure(predictions, targets)
    both = measure(torch.cat([predictions, blank + 0.5]), torch.cat([targets, blank]))
    assert both.pop("mse") == pytest.approx((alone.pop("mse") + 0.25) / 2)
    assert both == alone
    nothing = measure(blank + 0.5, blank)
    assert nothing.pop("mse") == pytest.approx(0.25)
    assert all(math.isnan(value) for value in nothing.values())


def test_pieces_and_single_precision_are_summed_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = random_ellipses(40, seed=1, stream="test").images(32, dtype=torch.float32)
    predictions = targets + 1e-4  # whose square float32 would lose beside the targets'
    whole = measure(predictions, targets)
    monkeypatch.setattr(metrics, "_PIECE", 3 * 32 * 32)
    assert measure(predictions, targets) == pytest.approx(whole, rel=1e-12)
    exact = (predictions.double() - targets.double()).square().mean()
    assert whole["mse"] == pytest.approx(float(exact), rel=1e-12)


def test_every_metric_has_a_unit_with_its_direction() -> None:
    good, bad = (
        measure(*tensors(target + size * (prediction - target), target))
        for prediction, target in [pair(1, (20, 20))]
        for size in (0.1, 1.0)
    )
    assert list(good) == list(METRICS)
    for name, metric in METRICS.items():
        assert (good[name] > bad[name]) == metric.larger_is_better
        assert unit(metric.unit).to_error(good[name]) < unit(metric.unit).to_error(bad[name])


@pytest.mark.parametrize(
    ("predictions", "targets", "words"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), "predictions must be a real floating point tensor"),
        (torch.ones(1, 3, 3), np.ones((1, 3, 3)), "targets must be a real"),
        (torch.ones(1, 3, 3), torch.ones(2, 3, 3), "must have one shape"),
        (torch.ones(0, 3, 3), torch.ones(0, 3, 3), "at least one image"),
    ],
)
def test_what_cannot_be_measured_is_refused(predictions: Any, targets: Any, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        measure(predictions, targets)


def test_metrics_of_a_volume_are_those_of_its_voxels() -> None:
    truth, found = (torch.rand(2, 3, 12, 12, dtype=torch.float64) for _ in range(2))
    measured = measure_each(found, truth)
    flat = measure_each(found.reshape(2, 36, 12), truth.reshape(2, 36, 12))
    for name in ("mse", "relative", "rmse_over_max", "psnr"):
        torch.testing.assert_close(measured[name], flat[name])
    scaled = truth / truth.amax((1, 2, 3), keepdim=True)  # slices of one peak
    scaled[:, :, 0, 0] = 1.0
    slices = measure_each((0.9 * scaled).flatten(0, 1), scaled.flatten(0, 1))["ssim"]
    together = measure_each(0.9 * scaled, scaled)["ssim"]
    torch.testing.assert_close(together, slices.reshape(2, 3).mean(1))
