"""CT pools and scanners against ndimage, the released results and the operators themselves."""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import Projector, fbp, released_fbp, released_geometry
from korisk.problems import (
    BEAMS,
    POPULATIONS,
    Beam,
    CtProblem,
    CtScanner,
    EllipseSource,
    Gaussian,
    Pairs,
    Poisson,
    Pools,
    Population,
    add_noise,
    imaging,
    measure,
    released_ellipses,
)

PARALLEL = CtScanner(side=16, views=12, bins=23, beam="parallel")


def pools_of(
    scanner: CtScanner, seed: Any, train: int, validation: int, test: int, **options: Any
) -> Pools:
    """The pools of a CT problem with these options."""
    problem = CtProblem(scanner=scanner, **options)
    return problem.pools(seed=seed, train=train, validation=validation, test=test)


def flat(pairs: Pairs) -> tuple[Tensor, Tensor]:
    return pairs.inputs.flatten(1), pairs.targets.flatten(1)


def reconstructed(scanner: CtScanner, sinograms: Tensor) -> Tensor:
    weights, tail = scanner.reconstruction()
    images = weights * sinograms
    for operator in tail:
        images = operator(images)
    return images


def released_surrogate(side: int) -> Pools:
    return pools_of(CtScanner.released(side), 1, 4, 32, 128, population="released-surrogate")


def test_ridge_fits_on_the_surrogates_pools_give_the_released_errors() -> None:
    # The released test MSE at H = 8, seed 1, N = 4, and the lambda that was chosen for it.
    pools = released_surrogate(8)
    assert pools.train.inputs.dtype == torch.float64
    (x, y), (x_test, y_test) = flat(pools.train), flat(pools.test)
    b = CtScanner.released(8).reconstruction().tail[0].as_matrix()
    unit = torch.eye(80, dtype=torch.float64)
    w = torch.linalg.solve((b.T @ b) * (x.T @ x) + 1e-6 * unit, ((y @ b) * x).sum(0))
    known = (((x_test * w) @ b.T - y_test) ** 2).mean()
    dense = torch.linalg.solve(x.T @ x + 100 * unit, x.T @ y)
    full = ((x_test @ dense - y_test) ** 2).mean()
    assert float(known) == pytest.approx(0.004336031966369884, rel=1e-9)
    assert float(full) == pytest.approx(0.030378746336814966, rel=1e-9)


def test_the_released_pools_are_those_of_their_generators_at_any_size() -> None:
    scanner = CtScanner.released(128)
    projector = Projector(released_geometry(128), kind="sampled", samples=256)
    projector(torch.zeros(128, 128))  # from now on both share one matrix
    pools = pools_of(scanner, 3, 3, 0, 2, population="released")
    train = released_ellipses(torch.Generator().manual_seed(4), 3).images(128)
    test = released_ellipses(torch.Generator().manual_seed(10001), 2).images(128)
    assert torch.equal(pools.train.targets, train)
    assert torch.equal(pools.test.targets, test)
    assert len(pools.validation.targets) == 0
    assert torch.equal(pools.train.inputs, projector(train))
    few = pools_of(CtScanner.released(8), 1, 2, 3, 5, population="released-surrogate")
    for some, every in zip(few[1:], released_surrogate(8)[1:], strict=True):
        assert torch.equal(some.targets, every.targets[: len(some.targets)])


def test_the_papers_scanners() -> None:
    for side, views in ((8, 10), (16, 20), (32, 40)):
        scanner = CtScanner(side=side, views=views, bins=side, beam="surrogate")
        assert CtScanner.of_paper(side) == CtScanner.released(side) == scanner
    for side, views in ((128, 60), (256, 90), (512, 180)):
        fine = CtScanner(side=side, views=views, bins=side, beam="fan")
        coarse = CtScanner(side=side, views=views, bins=side, beam="released")
        assert (CtScanner.of_paper(side), CtScanner.released(side)) == (fine, coarse)
        assert fine.geometry == coarse.geometry == released_geometry(side)
    assert get_args(Beam) == BEAMS
    assert get_args(Population) == POPULATIONS


def test_weights_and_tail_are_filtered_backprojection() -> None:
    fan = CtScanner(side=24, views=20, bins=24, beam="fan")
    networks = [(fan, fbp(fan.geometry))]
    networks.append((PARALLEL, fbp(PARALLEL.geometry, backprojection="adjoint")))
    networks.append((CtScanner.released(128), released_fbp(released_geometry(128))))
    for scanner, network in networks:
        sinograms = torch.rand((2, *scanner.geometry.sinogram_shape))
        wanted = network(sinograms)  # its matrix is made here, and shared while it lives
        assert torch.equal(reconstructed(scanner, sinograms), wanted)


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
    sinograms, images = pools_of(scanner, 0, 0, 0, 8).test
    found = reconstructed(scanner, sinograms)
    assert float((found - images).norm() / images.norm()) < 0.3
    assert float(found.mean() / images.mean()) == pytest.approx(1, abs=0.06)


def test_precision_can_be_chosen() -> None:
    for scanner, own in ((CtScanner.of_paper(8), torch.float64), (PARALLEL, torch.float32)):
        other = torch.float32 if own == torch.float64 else torch.float64
        for asked, used in ((None, own), (other, other)):
            weights, tail = scanner.reconstruction(dtype=asked)
            made: list[Any] = [weights, scanner.projector(dtype=asked), *tail]
            assert {each.dtype for each in made} == {used}
        pools = pools_of(scanner, 0, 2, 1, 1)
        assert {each.dtype for each in (*pools.train, *pools.test)} == {own}


@pytest.mark.parametrize("noise", [None, Gaussian(0.1), Poisson(1e3)], ids=str)
def test_samples_do_not_depend_on_how_many_are_projected_at_once(
    noise: Gaussian | Poisson | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = CtScanner.of_paper(8)
    large = pools_of(scanner, 2, 30, 9, 20, noise=noise)
    monkeypatch.setattr(imaging, "_BATCH", 7 * 64)
    small = pools_of(scanner, 2, 12, 2, 15, noise=noise)
    for some, every in zip(small, large, strict=True):
        assert torch.equal(some.targets, every.targets[: len(some.targets)])
        found, wanted = some.inputs, every.inputs[: len(some.inputs)]
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_seeds_share_the_test_set_and_nothing_else() -> None:
    one, two = (pools_of(PARALLEL, seed, 9, 9, 9, noise=Gaussian(0.1)) for seed in (1, 2))
    assert torch.equal(one.test.inputs, two.test.inputs)
    assert torch.equal(one.test.targets, two.test.targets)
    pools = [one.train, two.train, one.validation, two.validation, one.test]
    images = torch.cat([pool.targets for pool in pools]).flatten(1)
    assert len(np.unique(images.numpy(), axis=0)) == len(images)
    sources = (EllipseSource(fewest=n, most=n) for n in (1, 6))
    few, many = (pools_of(PARALLEL, 1, 100, 0, 0, source=source).train for source in sources)
    assert many.targets.mean() > 3 * few.targets.mean()


def clean_sinograms(count: int) -> Tensor:
    ramp = torch.linspace(0, 8, 40 * 50, dtype=torch.float64).reshape(1, 40, 50)
    return ramp * torch.linspace(0.5, 1, count, dtype=torch.float64)[:, None, None]


def test_photon_noise_has_the_variance_of_counts_and_stays_finite() -> None:
    clean = torch.full((1, 200, 500), 6.0, dtype=torch.float64)
    noise = Poisson(1e6, attenuation=3.0)
    noisy = add_noise(clean, noise, width=16, seed=1, stream="train noise")
    scale = 3.0 / 16
    variance = np.exp(scale * 6.0) / 1e6 / scale**2  # of the logarithm, to first order
    assert float(noisy.var()) == pytest.approx(variance, rel=0.03)
    assert float(noisy.mean()) == pytest.approx(6.0, abs=5 * (variance / 1e5) ** 0.5)
    dark = torch.full((1, 50, 50), 100.0)
    noisy = add_noise(dark, Poisson(10), width=16, seed=1, stream="train noise")
    assert noisy.max() == pytest.approx(np.log(10) * 16 / 4)  # as if one photon had arrived


def test_noise_follows_seed_stream_and_number() -> None:
    clean = clean_sinograms(1).expand(4, -1, -1)

    def noisy(seed: int = 1, stream: str = "a", first: int = 0) -> Tensor:
        return add_noise(clean, Gaussian(0.1), width=1, seed=seed, stream=stream, first=first)

    assert torch.equal(noisy(first=2)[:2], noisy()[2:])
    others = [noisy(), noisy(seed=2), noisy(stream="b")]
    assert len(np.unique(torch.cat(others).flatten(1).numpy(), axis=0)) == 12
    assert torch.equal(noisy(), noisy())


def scanner_of(**changes: Any) -> CtScanner:
    return CtScanner(**{"side": 8, "views": 10, "bins": 8, "beam": "parallel", **changes})


def drawn(seed: Any = 1, train: Any = 1, validation: int = 0, **options: Any) -> Pools:
    return pools_of(PARALLEL, seed, train, validation, 1, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: scanner_of(beam="pencil"), "beam must be one of"),
        (lambda: scanner_of(beam="surrogate", bins=9), "bins must equal side"),
        (lambda: scanner_of(beam="released"), r"side must be one of \[128, 256, 512\]"),
        (lambda: scanner_of(beam="released", side=128), "60 views and 128 bins .* got 10 and 8"),
        (lambda: scanner_of(arc=180.5), "arc must be .* > 0 and <= 180, got 180.5"),
        (lambda: scanner_of(beam="fan", arc=361.0), "<= 360, got 361"),
        (
            lambda: scanner_of(beam="surrogate", arc=90.0),
            "arc= belongs to .*'parallel', 'fan' or 'cone'",
        ),
        (lambda: scanner_of(motion=3), "motion must be"),
        (lambda: CtScanner.released(64), "side must be 8, 16, 32, 128, 256 or 512"),
        (lambda: drawn(population="circles"), "population must be one of"),
        (lambda: drawn(seed=0.5), "seed must be a whole number"),
        (lambda: drawn(noise=0.1), r"noise must be Gaussian\(level\) or Poisson\(photons\)"),
        (lambda: drawn(population="released", validation=3), "validation must be at most 0"),
        (lambda: drawn(population="released", source=EllipseSource(most=5)), "belongs to popul"),
        (lambda: drawn(population="released-surrogate", train=129), "train must be at most 128"),
        (lambda: drawn(seed=10000, population="released"), "would train on the test set"),
        (lambda: PARALLEL.projector("nowhere"), "device must be one that PyTorch has here"),
        (lambda: Gaussian(-0.1), "level must be a finite number >= 0"),
        (lambda: Poisson(1e20), "photons must be .*<= 1e.15, got 1e.20"),
        (lambda: Poisson(1e4, attenuation=0), "attenuation must be a finite number > 0"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        make()


@pytest.mark.parametrize("noise", [Gaussian(0.1), Poisson(1e4)])
def test_no_two_pools_share_their_noise(noise: Gaussian | Poisson) -> None:
    scanner = CtScanner(side=16, views=40, bins=24, beam="parallel")
    pools = zip(*(pools_of(scanner, 3, 2, 2, 2, noise=each) for each in (None, noise)), strict=True)
    fields = [((y.inputs - x.inputs) / (x.inputs.abs() + 1)).flatten(1) for x, y in pools]
    assert (torch.corrcoef(torch.cat(fields)) - torch.eye(6)).abs().max() < 0.2


def test_an_arc_takes_the_first_views_of_the_whole_scan() -> None:
    whole = CtScanner(side=8, views=18, bins=12, beam="parallel")
    part = CtScanner(side=8, views=12, bins=12, beam="parallel", arc=120.0)
    images = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(part.projector()(images), whole.projector()(images)[:, :12])
    for arc, views, degrees in ((120.0, 7, range(0, 121, 20)), (360.0, 6, range(0, 360, 60))):
        geometry = CtScanner(side=8, views=views, bins=12, beam="fan", arc=arc).geometry
        np.testing.assert_allclose(np.degrees(geometry.angle_array), degrees, atol=1e-9)
    for beam in ("parallel", "fan"):  # half a turn is the default
        plain = CtScanner(side=8, views=7, bins=12, beam=beam)
        assert CtScanner(side=8, views=7, bins=12, beam=beam, arc=180.0).geometry == plain.geometry


def test_a_cone_images_volumes_of_ellipsoids() -> None:
    problem = CtProblem(scanner=scanner_of(beam="cone"), noise=Gaussian(0.01))
    side, views, bins = problem.side, problem.scanner.views, problem.scanner.bins
    small, large = (
        problem.pools(seed=1, train=train, validation=1, test=2, device="cpu") for train in (2, 5)
    )
    assert large.train.targets.shape == (5, side, side, side)
    assert large.train.inputs.shape == (5, views, bins, bins)
    torch.testing.assert_close(large.train.inputs[:2], small.train.inputs)
    other = problem.pools(seed=2, train=1, validation=1, test=2)
    assert torch.equal(large.test.targets, other.test.targets)
    # Nothing is cut off at the detector, and FDK without training comes close to the target.
    geometry: Any = problem.scanner.geometry
    assert max(geometry.truncation, geometry.fan.truncation) == 0
    clean = CtProblem(scanner=CtScanner(side=12, views=40, bins=18, beam="cone"))
    inputs, targets = clean.pools(seed=1, train=8, validation=0, test=0).train
    found = reconstructed(clean.scanner, inputs)
    assert measure(found, targets)["relative"] < 0.5
    with pytest.raises(KoriskError, match="beam='cone' images ellipsoids"):
        CtProblem(scanner=scanner_of(beam="cone"), population="released")
