"""Phantoms against the paper's inequality and the released draw orders, both as plain loops."""

import hashlib
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from korisk.errors import KoriskError
from korisk.problems import Ellipses, phantoms, random_ellipses, released_ellipses
from korisk.problems import released_surrogate_ellipses as surrogate_ellipses


def painted(ellipses: Ellipses, side: int) -> Tensor:
    """Every pixel asked whether it is inside, one ellipse after the other."""
    e = ellipses
    grid = torch.linspace(-1, 1, side, dtype=e.amplitude.dtype)
    images = torch.zeros(len(e), side, side, dtype=grid.dtype)
    for i in range(len(e)):
        for k in range(e.amplitude.shape[1]):
            dx, dy = grid[None, :] - e.x[i, k], grid[:, None] - e.y[i, k]
            cosine, sine = torch.cos(e.angle[i, k]), torch.sin(e.angle[i, k])
            along = (cosine * dx + sine * dy) / e.a[i, k]
            across = (-sine * dx + cosine * dy) / e.b[i, k]
            images[i] += e.amplitude[i, k] * (along**2 + across**2 <= 1)
    return images.clamp(0, 1.5)


Draws = list[list[list[float]]]


def surrogate_draws(rng: np.random.Generator, count: int) -> Draws:
    """The released surrogate's draws: amplitude, x, y, a, b and angle of each ellipse."""

    def ellipse() -> list[float]:
        amplitude, centre = rng.uniform(0.2, 1.0), rng.uniform(-0.5, 0.5, size=2)
        axes = rng.uniform(0.08, 0.4, size=2)
        return [amplitude, *centre, *axes, rng.uniform(0, np.pi)]

    return [[ellipse() for _ in range(rng.integers(1, 5))] for _ in range(count)]


def released_draws(generator: torch.Generator, count: int) -> Draws:
    """The released sweeps' draws, one number at a time."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    def ellipse() -> list[float]:
        drawn = [uniform() * 0.8 + 0.2, *(uniform(2) - 0.5)]
        drawn += [uniform() * 0.32 + 0.08, uniform() * 0.32 + 0.08, uniform() * math.pi]
        return [float(each) for each in drawn]

    return [
        [ellipse() for _ in range(int(torch.randint(3, 7, (1,), generator=generator)))]
        for _ in range(count)
    ]


def parts(ellipses: Ellipses) -> tuple[Tensor, ...]:
    e = ellipses
    return e.amplitude, e.x, e.y, e.a, e.b, e.angle


def same(one: Ellipses, other: Ellipses) -> bool:
    return all(map(torch.equal, parts(one), parts(other)))


@pytest.mark.parametrize(("side", "count"), [(2, 60), (8, 60), (33, 60), (128, 60), (512, 12)])
def test_pixels_are_those_that_keep_the_inequality(side: int, count: int) -> None:
    double = random_ellipses(count, seed=3, stream="test", most=6)
    single = released_ellipses(torch.Generator().manual_seed(2), count)
    for ellipses, dtype in ((double, torch.float64), (single, torch.float32)):
        images = ellipses.images(side)
        assert images.dtype == dtype
        assert torch.equal(images, painted(ellipses, side))


# Sixteenths put many pixel centres on the border itself, where only the inequality can decide.
NUMBER = st.one_of(
    st.floats(-1.5, 1.5),
    st.sampled_from([0.0, 0.5, -0.5, 1.0]),
    st.integers(-24, 24).map((16.0).__rtruediv__),
)
AXIS = st.one_of(st.floats(0.01, 2), st.integers(1, 32).map(lambda k: k / 16))


@given(
    shape=st.lists(st.tuples(NUMBER, NUMBER, NUMBER, AXIS, AXIS, NUMBER), min_size=1, max_size=3),
    side=st.sampled_from([2, 3, 5, 9, 16, 33]),
)
def test_any_ellipse_is_painted_where_the_inequality_holds(
    shape: list[tuple[float, ...]], side: int
) -> None:
    table = torch.tensor([shape], dtype=torch.float64)
    ellipses = Ellipses(*table.unbind(-1))
    assert torch.equal(ellipses.images(side), painted(ellipses, side))


def test_ellipses_have_their_area_and_place_and_the_top_is_clipped() -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    ellipse = Ellipses(0.7 * one, 0.5 * one, -0.25 * one, 0.4 * one, 0.15 * one, 0 * one)
    side = 801
    image = ellipse.images(side)[0]
    area = float(image.sum()) / 0.7 * (2 / (side - 1)) ** 2
    assert area == pytest.approx(math.pi * 0.4 * 0.15, rel=2e-3)
    rows, columns = image.nonzero().double().mean(0).tolist()
    assert rows == pytest.approx(300, abs=0.1)  # y = -1/4
    assert columns == pytest.approx(600, abs=0.1)  # x = 1/2, along the last axis
    ellipses = random_ellipses(200, seed=1, stream="train", fewest=8, most=8)
    images, high = ellipses.images(32), ellipses.images(32, highest=2.5)
    assert images[:, 0].abs().max() == 0  # centre + semi-axis <= 0.9: the edge stays empty
    assert [float(images.min()), float(images.max())] == [0, 1.5]
    assert torch.equal(high.clamp_max(1.5), images)
    assert high.max() > 2


def test_pieces_and_precision_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ellipses = random_ellipses(30, seed=1, stream="train")
    images = ellipses.images(32)
    assert torch.equal(ellipses.images(32, dtype=torch.float32) > 0, images > 0)
    monkeypatch.setattr(phantoms, "_PIECE", 7 * 32 * 64)
    assert torch.equal(ellipses.images(32), images)
    assert torch.equal(ellipses[5:9].images(32), images[5:9])


def test_phantoms_are_drawn_as_released_and_leave_the_generator_where_it_was_left() -> None:
    rng, rng_there = np.random.default_rng(4), np.random.default_rng(4)
    generator, there = torch.Generator().manual_seed(2), torch.Generator().manual_seed(2)
    for count in (1, 150, 0):  # one after the other from one generator
        for found, wanted in (
            (surrogate_ellipses(rng, count), surrogate_draws(rng_there, count)),
            (released_ellipses(generator, count), released_draws(there, count)),
        ):
            assert len(found) == count
            for i, phantom in enumerate(wanted):
                for k, numbers in enumerate(phantom):
                    assert [float(part[i, k]) for part in parts(found)] == numbers
                assert not found.amplitude[i, len(phantom) :].any()
        assert rng.bit_generator.state == rng_there.bit_generator.state
        assert torch.equal(generator.get_state(), there.get_state())


def test_phantoms_depend_on_seed_stream_and_number_alone() -> None:
    pool = random_ellipses(1000, seed=5, stream="train", most=3)
    assert same(random_ellipses(7, seed=5, stream="train", most=3), pool[:7])
    assert same(random_ellipses(50, seed=5, stream="train", most=3, first=431), pool[431:481])
    keys = [(0, "train"), (1, "train"), (0, "validation"), (0, "test"), (10, "train")]
    pools = [random_ellipses(500, seed=seed, stream=stream) for seed, stream in keys]
    x = torch.cat([pool.x.reshape(-1) for pool in pools])
    assert len(np.unique(x.numpy())) == len(x)
    # Stored results name phantoms by seed, stream and number: those must stay what they were.
    key = np.frombuffer(hashlib.sha256(b"korisk/5/train").digest()[:16], "<u8")
    uniform = np.random.Generator(np.random.Philox(key=key)).random((9, 28))  # 1 + 4 x 6, padded
    pool = random_ellipses(9, seed=5, stream="train")
    np.testing.assert_array_equal((pool.amplitude > 0).sum(1), 1 + np.floor(4 * uniform[:, 0]))
    np.testing.assert_allclose(pool.x, uniform[:, 2:25:6] - 0.5, rtol=1e-15)


def test_the_distributions_are_the_papers() -> None:
    pool = random_ellipses(4000, seed=11, stream="train", fewest=2, most=5)
    numbers = (pool.amplitude > 0).sum(1)
    assert set(numbers.tolist()) == {2, 3, 4, 5}
    assert scipy.stats.chisquare(numbers.bincount()[2:].numpy()).pvalue > 1e-3
    exists = pool.amplitude > 0
    spans = [(0.2, 1), (-0.5, 0.5), (-0.5, 0.5), (0.08, 0.4), (0.08, 0.4), (0, math.pi)]
    for part, (low, high) in zip(parts(pool), spans, strict=True):
        uniform = scipy.stats.uniform(low, high - low)
        assert scipy.stats.kstest(part[exists].numpy(), uniform.cdf).pvalue > 1e-3


def ellipses_of(**changes: Any) -> Ellipses:
    names = ("amplitude", "x", "y", "a", "b", "angle")
    return Ellipses(**{name: torch.ones(2, 2) for name in names} | changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ellipses_of(x=torch.ones(2, 3)), "x must be .* of the amplitude's shape"),
        (lambda: ellipses_of(amplitude=[1.0]), "amplitude must be a finite tensor"),
        (lambda: ellipses_of(y=torch.full((2, 2), math.nan)), "y must be a finite tensor"),
        (lambda: ellipses_of(a=torch.zeros(2, 2)), "semi-axes a and b must be > 0"),
        (lambda: ellipses_of().images(1), "side must be a whole number from 2"),
        (lambda: ellipses_of()[cast(Any, 0)], "taken by slices"),
        (
            lambda: random_ellipses(3, seed=1, stream="a", fewest=3, most=2),
            "most must be .* from 3",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        make()
