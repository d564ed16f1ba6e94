"""Computed tomography: scanners, and pools of sinograms with the images they belong to."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, KoriskWarning
from korisk.operators.ct.fbp import fbp
from korisk.operators.ct.geometry import FanBeam, Geometry, ParallelBeam
from korisk.operators.ct.projector import Projector
from korisk.operators.ct.released import (
    fan_of_released,
    released_fbp,
    released_geometry,
    released_projector,
)
from korisk.operators.linear import LinearOperator, checked_device
from korisk.operators.tikhonov import Tikhonov
from korisk.problems.noise import Noise, add_noise, noise_variance
from korisk.problems.phantoms import (
    Ellipses,
    random_ellipses,
    released_ellipses,
    released_surrogate_ellipses,
)
from korisk.problems.problem import (
    TEST_SEED,
    Counts,
    Device,
    Examples,
    Pairs,
    Pools,
    Problem,
    Reconstruction,
)
from korisk.problems.sources import EllipseSource, ImageSource

Beam = Literal["surrogate", "parallel", "fan", "released"]
BEAMS: tuple[Beam, ...] = ("surrogate", "parallel", "fan", "released")
Population = Literal["ellipses", "released", "released-surrogate"]
POPULATIONS: tuple[Population, ...] = ("ellipses", "released", "released-surrogate")

_SURROGATE_SIDES = (8, 16, 32)
_SURROGATE_MU = 0.1
_SURROGATE_POOLS = {"train": 128, "validation": 32, "test": 128}
_EXAMPLE_SEEDS = 2**31  # from here on released generators, of 32 bits, draw examples
_BATCH = 2**24  # pixels that are projected at once


@dataclass(frozen=True, kw_only=True)
class CtScanner:
    """A scanner of square images, and how its sinograms are reconstructed.

    `beam` is "surrogate" (the paper's for small images: rotate and sum, Tikhonov's inverse with
    mu = 0.1; needs bins = side), "parallel" (Joseph's rays, filtered backprojection), "fan" (the
    distances, views and field of view of the released sweeps, at any size, with Joseph's rays and
    the full filtered backprojection) or "released" (operators as the authors' code has them).
    `arc` is the angle in degrees that "parallel" and "fan" scan, half a turn where it is None;
    with less, part of the image's Fourier transform is not measured (limited angle).

    `side`, `views` and `bins` are counts. What such a beam cannot have raises `KoriskError`.

    >>> from korisk.problems import CtScanner
    >>> scanner = CtScanner(side=8, views=6, bins=12, beam="parallel")
    >>> scanner.geometry
    ParallelBeam(8, bins=12, views=6)
    >>> CtScanner.of_paper(128).beam, CtScanner.released(8).beam
    ('fan', 'surrogate')
    """

    side: int
    views: int
    bins: int
    beam: Beam
    arc: float | None = None

    def __post_init__(self) -> None:
        _checks.one_of("beam", self.beam, BEAMS)
        remedy = "count pixels along an edge, views and detector bins"
        for name, least in (("side", 2), ("views", 1), ("bins", 1)):
            given = getattr(self, name)
            number = _checks.count(name, given, at_least=least, at_most=65536, remedy=remedy)
            object.__setattr__(self, name, number)
        if self.beam == "surrogate" and self.bins != self.side:
            raise KoriskError(
                f"bins must equal side for beam='surrogate', got {self.bins} and {self.side}; it "
                "sums the columns of the rotated image: use beam='parallel' for other detectors"
            )
        if self.beam == "released":
            self._refuse_unreleased()
        if self.arc is not None:
            self._check_arc(self.arc)

    def _check_arc(self, arc: float) -> None:
        most = {"parallel": 180.0, "fan": 360.0}.get(self.beam)
        if most is None:
            raise KoriskError(
                f"arc belongs to the beams 'parallel' and 'fan', got {arc!r} with {self.beam!r}, "
                "whose views are fixed; leave it out"
            )
        remedy = "give degrees, such as 120"
        value = _checks.real("arc", arc, above=0, remedy=remedy)
        if value > most:
            raise KoriskError(f"arc must be at most {most:g} degrees, got {value:g}; {remedy}")
        object.__setattr__(self, "arc", value)

    def _refuse_unreleased(self) -> None:
        views, bins = released_geometry(self.side).sinogram_shape
        if (self.views, self.bins) != (views, bins):
            raise KoriskError(
                f"beam='released' has {views} views and {bins} bins at side {self.side}, got "
                f"{self.views} and {self.bins}; use beam='fan' for other scans"
            )

    @staticmethod
    def released(side: int) -> CtScanner:
        """What the authors' code computes with: "surrogate" up to 32 pixels, then "released"."""
        return _of_the_paper(side, "released")

    @staticmethod
    def of_paper(side: int) -> CtScanner:
        """The paper's scanners: the same, but with rays sampled finely from 128 pixels on."""
        return _of_the_paper(side, "fan")

    @property
    def dtype(self) -> torch.dtype:
        """The precision it is used in unless another is asked for."""
        return torch.float64 if self.beam == "surrogate" else torch.float32

    @cached_property
    def geometry(self) -> Geometry:
        """Where source, image and detector are."""
        if self.beam == "released":
            return released_geometry(self.side)
        if self.beam == "fan":
            return _fan(self.side, self.views, self.bins, self._arc)
        return ParallelBeam(self.side, views=self.views, bins=self.bins, arc=self._arc)

    @property
    def _arc(self) -> float:
        """In radians; half a turn."""
        return math.pi if self.arc is None else math.radians(self.arc)

    def projector(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> LinearOperator:
        """A: images (..., side, side) to sinograms (..., views, bins)."""
        chosen = self.dtype if dtype is None else dtype
        if isinstance(self.geometry, FanBeam) and self.beam == "released":
            return released_projector(self.geometry, device=device, dtype=chosen)
        kind: Literal["rotate", "joseph"] = "rotate" if self.beam == "surrogate" else "joseph"
        return Projector(self.geometry, kind=kind, device=device, dtype=chosen)

    def reconstruction(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Reconstruction:
        """W before training and what follows it: (K, A^T), or Tikhonov's inverse."""
        chosen = self.dtype if dtype is None else dtype
        if self.beam == "surrogate":
            inverse = Tikhonov(self.projector(device, chosen), mu=_SURROGATE_MU)
            ones = torch.ones(self.geometry.sinogram_shape, device=inverse.device, dtype=chosen)
            return Reconstruction(ones, (inverse,))
        if isinstance(self.geometry, FanBeam) and self.beam == "released":
            layers = released_fbp(self.geometry, device=device, dtype=chosen).layers
        else:
            layers = fbp(self.geometry, device=device, dtype=chosen).layers
        weights = layers[0].weights
        assert isinstance(weights, Tensor)
        return Reconstruction(weights, layers[1:])


@dataclass(frozen=True, kw_only=True)
class CtProblem(Problem):
    """Images of a source behind a scanner; `population` may name one of the released ones.

    `noise` is a `Gaussian` or a `Poisson`, or None.

    >>> from korisk.problems import CtProblem, CtScanner, Gaussian
    >>> scanner = CtScanner(side=8, views=6, bins=12, beam="parallel")
    >>> problem = CtProblem(scanner=scanner, noise=Gaussian(0.01))
    >>> pools = problem.pools(seed=1, train=4, validation=2, test=3)
    >>> pools.train.inputs.shape, pools.train.targets.shape
    (torch.Size([4, 6, 12]), torch.Size([4, 8, 8]))
    """

    scanner: CtScanner
    source: ImageSource = field(default_factory=EllipseSource)
    population: Population = "ellipses"
    noise: Noise | None = None

    def prepared(self, device: Device = None) -> LinearOperator:
        """The projector, with what it builds when it is first used."""
        projector = self.scanner.projector(device)
        projector(torch.zeros(projector.domain, device=projector.device, dtype=projector.dtype))
        return projector

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """The scanner's."""
        return self.scanner.reconstruction(device)

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Sinograms and the images they are of: see `draw_pools`."""
        if isinstance(self.source, EllipseSource):
            return draw_pools(
                self.scanner,
                seed=seed,
                train=counts["train"],
                validation=counts["validation"],
                test=counts["test"],
                population=self.population,
                fewest=self.source.fewest,
                most=self.source.most,
                noise=self.noise,
                device=device,
            )
        projector = self.scanner.projector(checked_device(device))
        drawn = self.source.draw(
            self.scanner.side, seed=seed, counts=counts, device=projector.device
        )
        pairs = []
        for name, images in drawn.items():
            key = TEST_SEED if name == "test" else seed
            targets = images.to(projector.dtype)
            pairs.append(_pairs(targets, self.scanner, projector, self.noise, key, name))
        return Pools(*pairs)

    def examples(self, *, seed: int, count: int, device: Device = None) -> Examples:
        """Images of the source, or of the released population, behind the scanner."""
        projector = self.scanner.projector(checked_device(device))
        if self.population == "ellipses":
            drawn = self.source.examples(
                self.scanner.side, seed=seed, count=count, device=projector.device
            )
        else:
            number = min(
                count, _SURROGATE_POOLS["train"] if "surrogate" in self.population else count
            )
            counts = {"train": number, "validation": 0, "test": 0}
            phantoms = _phantoms(self.population, seed + _EXAMPLE_SEEDS, counts, 1, 4)["train"]
            drawn = phantoms.images(self.scanner.side, device=projector.device)
        images = drawn.to(projector.dtype)
        pairs = _pairs(images, self.scanner, projector, self.noise, seed, "examples")
        width = self.scanner.geometry.image_size[1]
        variance = noise_variance(projector(images), self.noise, width=width)
        return Examples(images, projector, None, pairs.inputs, images, variance)


def draw_pools(
    scanner: CtScanner,
    *,
    seed: int,
    train: int,
    validation: int,
    test: int,
    population: Population = "ellipses",
    fewest: int = 1,
    most: int = 4,
    noise: Noise | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Pools:
    """Pools of phantoms and their sinograms; sample i of a pool is the same for any pool size.

    "ellipses" are ours, with `fewest` to `most` of them in an image: the training and validation
    pools follow the seed, and all seeds are judged on one test set (`TEST_SEED`), so that seeds
    differ by what was learned alone. "released" is the population of the released GPU sweeps, 3
    to 6 ellipses, one test set for all seeds and no validation pool. "released-surrogate" is that
    of the CPU surrogate: up to 128 + 32 + 128 phantoms from one generator, a test set each seed.

    Inputs are (samples, views, bins), targets (samples, side, side).

    >>> from korisk.problems import CtScanner, draw_pools
    >>> scanner = CtScanner(side=8, views=6, bins=12, beam="parallel")
    >>> few = draw_pools(scanner, seed=1, train=2, validation=1, test=1)
    >>> more = draw_pools(scanner, seed=1, train=4, validation=1, test=1)
    >>> bool((more.train.targets[:2] == few.train.targets).all())
    True
    """
    start = _checks.count("seed", seed, at_least=0, at_most=2**63 - 2, remedy="give a whole number")
    counts = {"train": train, "validation": validation, "test": test}
    for name, number in counts.items():
        remedy = "count the pool's phantoms"
        counts[name] = _checks.count(name, number, at_least=0, at_most=2**31, remedy=remedy)
    phantoms = _phantoms(population, start, counts, fewest, most)
    projector = scanner.projector(checked_device(device), dtype)
    one_test_set = population != "released-surrogate"
    pools = []
    for stream, ellipses in phantoms.items():
        seed_of_noise = TEST_SEED if stream == "test" and one_test_set else start
        targets = ellipses.images(scanner.side, device=projector.device, dtype=projector.dtype)
        pools.append(_pairs(targets, scanner, projector, noise, seed_of_noise, stream))
    return Pools(*pools)


def _pairs(
    targets: Tensor,
    scanner: CtScanner,
    projector: LinearOperator,
    noise: Noise | None,
    seed: int,
    stream: str,
) -> Pairs:
    device, dtype = projector.device, projector.dtype
    inputs = torch.empty((len(targets), *projector.range), device=device, dtype=dtype)
    width = scanner.geometry.image_size[1]
    step = max(1, _BATCH // scanner.side**2)
    for first in range(0, len(targets), step):
        batch = projector(targets[first : first + step])
        if noise is not None:
            name = f"{stream} noise"
            batch = add_noise(batch, noise, width=width, seed=seed, stream=name, first=first)
        inputs[first : first + step] = batch
    return Pairs(inputs, targets)


def _phantoms(
    population: Population, seed: int, counts: dict[str, int], fewest: int, most: int
) -> dict[str, Ellipses]:
    """The phantoms of each pool, by the pool's name."""
    _checks.one_of("population", population, POPULATIONS)
    if population == "ellipses":
        return {
            name: random_ellipses(
                number,
                seed=TEST_SEED if name == "test" else seed,
                stream=name,
                fewest=fewest,
                most=most,
            )
            for name, number in counts.items()
        }
    if (fewest, most) != (1, 4):
        raise KoriskError(
            f"fewest= and most= belong to population='ellipses', got {fewest} and {most} with "
            f"{population!r}, whose numbers are fixed; leave them out"
        )
    return _released(seed, counts) if population == "released" else _surrogate(seed, counts)


def _released(seed: int, counts: dict[str, int]) -> dict[str, Ellipses]:
    if counts["validation"]:
        raise KoriskError(
            f"validation must be 0 for population='released', which has no validation pool, got "
            f"{counts['validation']}; use population='ellipses'"
        )
    if 1 + seed == TEST_SEED:
        raise KoriskError(
            f"seed {seed} would train on the test set of population='released', whose generator is "
            f"seeded {TEST_SEED}; take another seed"
        )
    seeds = {"train": 1 + seed, "validation": 0, "test": TEST_SEED}
    return {
        name: released_ellipses(torch.Generator().manual_seed(seeds[name]), number)
        for name, number in counts.items()
    }


def _surrogate(seed: int, counts: dict[str, int]) -> dict[str, Ellipses]:
    phantoms = {}
    for name, number in counts.items():
        most = _SURROGATE_POOLS[name]
        if number > most:
            raise KoriskError(
                f"{name} must be at most {most} for population='released-surrogate', got {number}; "
                "use population='ellipses' for larger pools"
            )
        phantoms[name] = _surrogate_draws(seed)[name][:number]
    return phantoms


@lru_cache(maxsize=8)
def _surrogate_draws(seed: int) -> dict[str, Ellipses]:
    """Whole pools: each begins where the last one ends, and they are the same at every size."""
    rng = np.random.default_rng(seed)
    return {
        name: released_surrogate_ellipses(rng, number) for name, number in _SURROGATE_POOLS.items()
    }


def _of_the_paper(side: int, large: Beam) -> CtScanner:
    if side in _SURROGATE_SIDES:
        return CtScanner(side=side, views=side + side // 4, bins=side, beam="surrogate")
    views, bins = _large_scan(side)
    return CtScanner(side=side, views=views, bins=bins, beam=large)


def _large_scan(side: int) -> tuple[int, int]:
    try:
        return released_geometry(side).sinogram_shape
    except KoriskError:
        raise KoriskError(
            f"side must be 8, 16, 32, 128, 256 or 512, as in the paper, got {side!r}; give "
            "CtScanner(side=, views=, bins=, beam=) for other scanners"
        ) from None


def _fan(side: int, views: int, bins: int, arc: float) -> FanBeam:
    """The fan of the released sweeps at any size: bins of 1 mm, views over the arc."""
    with warnings.catch_warnings():
        # The outer halves of the outermost pixels lie beyond it: more bins would not help.
        warnings.simplefilter("ignore", KoriskWarning)
        return fan_of_released(side, views, bins, arc)
