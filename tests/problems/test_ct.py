"""CT pools and scanners against ndimage, the released results and the operators themselves."""

import math
import subprocess
import sys
from typing import Any, cast, get_args

import numpy as np
import pytest
import scipy.ndimage
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import fbp, released_fbp, released_geometry, released_projector
from korisk.problems import (
    BEAMS,
    POPULATIONS,
    Beam,
    CtScanner,
    Gaussian,
    Pairs,
    Poisson,
    Pools,
    Population,
    add_noise,
    ct,
    draw_pools,
    released_ellipses,
)

PARALLEL = CtScanner(side=16, views=12, bins=23, beam="parallel")


def wrong(value: Any) -> Any:
    """A value that the types forbid."""
    return value


def flat(pairs: Pairs) -> tuple[Tensor, Tensor]:
    return pairs.inputs.flatten(1), pairs.targets.flatten(1)


def reconstructed(scanner: CtScanner, sinograms: Tensor) -> Tensor:
    weights, tail = scanner.reconstruction()
    images = weights * sinograms
    for operator in tail:
        images = operator(images)
    return images


def released_surrogate(side: int) -> Pools:
    return draw_pools(
        CtScanner.released(side),
        seed=1,
        train=4,
        validation=32,
        test=128,
        population="released-surrogate",
    )


# The released protocols


@pytest.mark.parametrize("side", [8, 16])
def test_the_surrogates_sinograms_are_those_of_ndimage(side: int) -> None:
    inputs, targets = released_surrogate(side).train
    assert inputs.dtype == torch.float64
    angles = np.arange(side + side // 4) * 180 / (side + side // 4)
    for sinogram, image in zip(inputs.numpy(), targets.numpy(), strict=True):
        turned = [
            scipy.ndimage.rotate(
                image, angle, reshape=False, order=1, mode="constant", cval=0, prefilter=False
            ).sum(0)
            for angle in angles
        ]
        np.testing.assert_allclose(sinogram, turned, rtol=0, atol=1e-12)


def test_ridge_fits_on_the_surrogates_pools_give_the_released_errors() -> None:
    # The released test MSE at H = 8, seed 1, N = 4, and the lambda that was chosen for it.
    pools = released_surrogate(8)
    (x, y), (x_test, y_test) = flat(pools.train), flat(pools.test)
    b = CtScanner.released(8).reconstruction().tail[0].as_matrix()
    unit = torch.eye(80, dtype=torch.float64)
    w = torch.linalg.solve((b.T @ b) * (x.T @ x) + 1e-6 * unit, ((y @ b) * x).sum(0))
    known = (((x_test * w) @ b.T - y_test) ** 2).mean()
    dense = torch.linalg.solve(x.T @ x + 100 * unit, x.T @ y)
    full = ((x_test @ dense - y_test) ** 2).mean()
    assert float(known) == pytest.approx(0.004336031966369884, rel=1e-9)
    assert float(full) == pytest.approx(0.030378746336814966, rel=1e-9)


def test_a_pool_begins_where_the_released_one_does_however_few_are_asked_for() -> None:
    scanner = CtScanner.released(8)
    counts = {"train": 2, "validation": 3, "test": 5}
    few = draw_pools(scanner, seed=1, population="released-surrogate", **wrong(counts))
    for some, every in zip(few[1:], released_surrogate(8)[1:], strict=True):
        assert torch.equal(some.targets, every.targets[: len(some.targets)])


def test_the_released_pools_are_those_of_their_generators() -> None:
    scanner = CtScanner.released(128)
    projector = released_projector(released_geometry(128))
    projector(torch.zeros(128, 128))  # from now on both share one matrix
    pools = draw_pools(scanner, seed=3, train=3, validation=0, test=2, population="released")
    train = released_ellipses(torch.Generator().manual_seed(4), 3).images(128)
    test = released_ellipses(torch.Generator().manual_seed(10001), 2).images(128)
    assert torch.equal(pools.train.targets, train)
    assert torch.equal(pools.test.targets, test)
    assert len(pools.validation.targets) == 0
    assert torch.equal(pools.train.inputs, projector(train))


# Scanners


def test_the_papers_scanners() -> None:
    for side, views in ((8, 10), (16, 20), (32, 40)):
        scanner = CtScanner(side=side, views=views, bins=side, beam="surrogate")
        assert CtScanner.of_paper(side) == CtScanner.released(side) == scanner
    for side, views in ((128, 60), (256, 90), (512, 180)):
        fine = CtScanner(side=side, views=views, bins=side, beam="fan")
        coarse = CtScanner(side=side, views=views, bins=side, beam="released")
        assert (CtScanner.of_paper(side), CtScanner.released(side)) == (fine, coarse)
        assert fine.geometry == coarse.geometry == released_geometry(side)


@pytest.mark.parametrize(
    "scanner",
    [PARALLEL, CtScanner(side=24, views=20, bins=24, beam="fan")],
    ids=["parallel", "fan"],
)
def test_weights_and_tail_are_filtered_backprojection(scanner: CtScanner) -> None:
    sinograms = torch.rand((3, *scanner.geometry.sinogram_shape))
    wanted = fbp(scanner.geometry)(sinograms)
    assert torch.equal(reconstructed(scanner, sinograms), wanted)


def test_weights_and_tail_are_the_released_backprojection() -> None:
    network = released_fbp(released_geometry(128))
    sinograms = torch.rand(2, 60, 128)
    wanted = network(sinograms)  # its matrix is made here, and shared while it lives
    assert torch.equal(reconstructed(CtScanner.released(128), sinograms), wanted)


@pytest.mark.parametrize(
    "scanner",
    [
        CtScanner.of_paper(32),
        CtScanner(side=32, views=90, bins=47, beam="parallel"),
        CtScanner(side=64, views=120, bins=64, beam="fan"),
    ],
    ids=lambda scanner: scanner.beam,
)
def test_the_untrained_network_already_reconstructs(scanner: CtScanner) -> None:
    sinograms, images = draw_pools(scanner, seed=0, train=0, validation=0, test=8).test
    found = reconstructed(scanner, sinograms)
    assert float((found - images).norm() / images.norm()) < 0.3
    assert float(found.mean() / images.mean()) == pytest.approx(1, abs=0.06)


def test_precision_can_be_chosen() -> None:
    for scanner, own in ((CtScanner.of_paper(8), torch.float64), (PARALLEL, torch.float32)):
        other = torch.float32 if own == torch.float64 else torch.float64
        for asked, given in ((None, own), (other, other)):
            pools = draw_pools(scanner, seed=0, train=2, validation=1, test=1, dtype=asked)
            weights, tail = scanner.reconstruction(dtype=asked)
            tensors = [*pools.train, *pools.test, weights]
            assert {tensor.dtype for tensor in tensors} == {given}
            assert {operator.dtype for operator in tail} == {given}


# Pools


@pytest.mark.parametrize("noise", [None, Gaussian(0.1), Poisson(1e3)], ids=str)
def test_samples_do_not_depend_on_the_size_of_the_pool(
    noise: Gaussian | Poisson | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = CtScanner.of_paper(8)
    large = draw_pools(scanner, seed=2, train=30, validation=9, test=20, noise=noise)
    monkeypatch.setattr(ct, "_BATCH", 7 * 64)  # nor on how many are projected at once
    small = draw_pools(scanner, seed=2, train=12, validation=2, test=15, noise=noise)
    for some, every in zip(small, large, strict=True):
        assert torch.equal(some.targets, every.targets[: len(some.targets)])
        torch.testing.assert_close(
            some.inputs, every.inputs[: len(some.inputs)], rtol=1e-12, atol=1e-12
        )


def test_seeds_share_the_test_set_and_nothing_else() -> None:
    one, two = (
        draw_pools(PARALLEL, seed=s, train=9, validation=9, test=9, noise=Gaussian(0.1))
        for s in (1, 2)
    )
    assert torch.equal(one.test.inputs, two.test.inputs)
    assert torch.equal(one.test.targets, two.test.targets)
    pools = [one.train, two.train, one.validation, two.validation, one.test]
    images = torch.cat([pool.targets for pool in pools]).flatten(1)
    assert len(np.unique(images.numpy(), axis=0)) == len(images)


def test_more_ellipses_on_request() -> None:
    few, many = (
        draw_pools(PARALLEL, seed=1, train=100, validation=0, test=0, fewest=n, most=n).train
        for n in (1, 6)
    )
    assert many.targets.mean() > 3 * few.targets.mean()


# Noise


def clean_sinograms(count: int) -> Tensor:
    ramp = torch.linspace(0, 8, 40 * 50, dtype=torch.float64).reshape(1, 40, 50)
    return ramp * torch.linspace(0.5, 1, count, dtype=torch.float64)[:, None, None]


def test_gaussian_noise_has_its_level() -> None:
    clean = clean_sinograms(40)
    noisy = add_noise(clean, Gaussian(0.05), width=16, seed=1, stream="train noise")
    level = (noisy - clean).std((1, 2)) / clean.square().mean((1, 2)).sqrt()
    np.testing.assert_allclose(level, 0.05, rtol=0.08)  # five deviations of 2,000 samples
    errors = (noisy - clean).flatten(1)
    assert torch.corrcoef(errors).fill_diagonal_(0).abs().max() < 0.12


def test_photon_noise_has_the_variance_of_counts() -> None:
    clean = torch.full((1, 200, 500), 6.0, dtype=torch.float64)
    noise = Poisson(1e6, attenuation=3.0)
    noisy = add_noise(clean, noise, width=16, seed=1, stream="train noise")
    scale = 3.0 / 16
    variance = np.exp(scale * 6.0) / 1e6 / scale**2  # of the logarithm, to first order
    assert float(noisy.var()) == pytest.approx(variance, rel=0.03)
    assert float(noisy.mean()) == pytest.approx(6.0, abs=5 * (variance / 1e5) ** 0.5)


def test_bins_that_count_nothing_stay_finite() -> None:
    clean = torch.full((1, 50, 50), 100.0)
    noisy = add_noise(clean, Poisson(10), width=16, seed=1, stream="train noise")
    assert noisy.max() == pytest.approx(np.log(10) * 16 / 4)  # as if one photon had arrived


def test_noise_follows_seed_stream_and_number() -> None:
    clean = clean_sinograms(1).expand(4, -1, -1)

    def noisy(seed: int = 1, stream: str = "a", first: int = 0) -> Tensor:
        return add_noise(clean, Gaussian(0.1), width=1, seed=seed, stream=stream, first=first)

    assert torch.equal(noisy(first=2)[:2], noisy()[2:])
    others = [noisy(), noisy(seed=2), noisy(stream="b")]
    assert len(np.unique(torch.cat(others).flatten(1).numpy(), axis=0)) == 12
    assert torch.equal(noisy(), noisy())


# Refusals


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"beam": "cone"}, "beam must be one of"),
        ({"views": 0}, "views must be a whole number from 1"),
        ({"beam": "surrogate", "bins": 9}, "bins must equal side"),
        ({"beam": "released"}, "the released sweeps have sides"),
        ({"beam": "released", "side": 128}, "60 views and 128 bins at side 128, got 10 and 8"),
    ],
)
def test_scanners_that_cannot_be_are_refused(fields: dict[str, Any], words: str) -> None:
    good = {"side": 8, "views": 10, "bins": 8, "beam": "parallel"}
    with pytest.raises(KoriskError, match=words):
        CtScanner(**cast(Any, good | fields))


def test_sides_that_the_paper_does_not_have_are_refused() -> None:
    for make in (CtScanner.of_paper, CtScanner.released):
        with pytest.raises(KoriskError, match="side must be 8, 16, 32, 128, 256 or 512"):
            make(64)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"population": "circles"}, "population must be one of"),
        ({"train": -1}, "train must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"noise": 0.1}, r"noise must be Gaussian\(level\) or Poisson\(photons\)"),
        ({"population": "released", "validation": 3}, "validation must be 0"),
        ({"population": "released", "most": 5}, "belong to population='ellipses'"),
        ({"population": "released-surrogate", "train": 129}, "train must be at most 128"),
        ({"device": "nowhere"}, "device must be one that PyTorch has here"),
    ],
)
def test_pools_that_cannot_be_are_refused(fields: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"seed": 1, "train": 1, "validation": 0, "test": 1}
    with pytest.raises(KoriskError, match=words):
        draw_pools(PARALLEL, **(good | fields))


def test_noise_that_cannot_be_is_refused() -> None:
    with pytest.raises(KoriskError, match="level must be a finite number >= 0"):
        Gaussian(-0.1)
    with pytest.raises(KoriskError, match="photons must be a finite number >= 1"):
        Poisson(0)
    with pytest.raises(KoriskError, match="photons must be at most"):
        Poisson(1e20)
    with pytest.raises(KoriskError, match="attenuation must be a finite number > 0"):
        Poisson(1e4, attenuation=0)


def test_words_and_types_agree() -> None:
    assert get_args(Beam) == BEAMS
    assert get_args(Population) == POPULATIONS


def test_without_torch_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "try: import korisk.problems\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = "korisk.problems needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    assert done.stdout.strip() == line


@pytest.mark.parametrize("noise", [Gaussian(0.1), Poisson(1e4)])
def test_no_two_pools_share_their_noise(noise: Gaussian | Poisson) -> None:
    scanner = CtScanner(side=16, views=40, bins=24, beam="parallel")
    pools = {
        name: draw_pools(scanner, seed=3, train=2, validation=2, test=2, noise=added)
        for name, added in (("clean", None), ("noisy", noise))
    }
    fields = [
        ((noisy.inputs - clean.inputs) / (clean.inputs.abs() + 1)).flatten(1)
        for clean, noisy in zip(pools["clean"], pools["noisy"], strict=True)
    ]
    correlations = torch.corrcoef(torch.cat(fields))
    assert (correlations - torch.eye(6)).abs().max() < 0.2


def test_the_released_test_set_cannot_be_trained_on() -> None:
    with pytest.raises(KoriskError, match="would train on the test set"):
        draw_pools(
            CtScanner.released(128),
            seed=10000,
            train=2,
            validation=0,
            test=2,
            population="released",
        )


# --- Limited angle -------------------------------------------------------------------------------


def test_an_arc_takes_the_first_views_of_the_whole_scan() -> None:
    whole = CtScanner(side=8, views=18, bins=12, beam="parallel")
    part = CtScanner(side=8, views=12, bins=12, beam="parallel", arc=120.0)
    images = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(part.projector()(images), whole.projector()(images)[:, :12])


def test_a_fan_s_arc_has_both_ends() -> None:
    geometry = CtScanner(side=8, views=7, bins=12, beam="fan", arc=120.0).geometry
    degrees = np.degrees(geometry.angle_array)
    np.testing.assert_allclose(degrees, np.arange(0, 121, 20), atol=1e-9)


def test_a_full_turn_has_no_view_twice() -> None:
    geometry = CtScanner(side=8, views=6, bins=12, beam="fan", arc=360.0).geometry
    np.testing.assert_allclose(np.degrees(geometry.angle_array), np.arange(0, 360, 60), atol=1e-9)


def test_an_arc_of_half_a_turn_is_the_scan_without_one() -> None:
    for beam in ("parallel", "fan"):
        plain = CtScanner(side=8, views=7, bins=12, beam=beam)
        named = CtScanner(side=8, views=7, bins=12, beam=beam, arc=180.0)
        assert plain.geometry == named.geometry


@pytest.mark.parametrize(
    ("beam", "arc", "words"),
    [
        ("parallel", 0.0, "arc must be"),
        ("parallel", 180.5, "at most 180"),
        ("fan", 361.0, "at most 360"),
        ("fan", math.nan, "arc must be"),
        ("surrogate", 90.0, "arc belongs to"),
    ],
)
def test_arcs_that_no_scan_has_are_refused(beam: Beam, arc: float, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        CtScanner(side=8, views=7, bins=8, beam=beam, arc=arc)
