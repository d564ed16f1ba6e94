"""Computed tomography: scanners, and pools of sinograms and images."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, KoriskWarning, invalid
from korisk.operators.ct.cone import ConeBeam
from korisk.operators.ct.fbp import fan_of_released, fbp, released_fbp, released_geometry
from korisk.operators.ct.geometry import Geometry, ParallelBeam
from korisk.operators.ct.projector import Kind, Projector
from korisk.operators.inputs import Place
from korisk.operators.linear import LinearOperator
from korisk.operators.tikhonov import Tikhonov
from korisk.operators.types import Dtype
from korisk.problems import phantoms
from korisk.problems.imaging import ImageProblem
from korisk.problems.motion import Motion
from korisk.problems.noise import Noise
from korisk.problems.problem import Counts, Device, Reconstruction
from korisk.problems.sources import EllipseSource, ImageSource
from korisk.seeds import TEST_SEED

Beam = Literal["surrogate", "parallel", "fan", "cone", "released"]
BEAMS: tuple[Beam, ...] = ("surrogate", "parallel", "fan", "cone", "released")
Population = Literal["ellipses", "released", "released-surrogate"]
POPULATIONS: tuple[Population, ...] = ("ellipses", "released", "released-surrogate")

# Sizes, weight and pools of the paper's CPU surrogate.
_SURROGATE_SIDES = (8, 16, 32)
_SURROGATE_MU = 0.1
_SURROGATE_POOLS = {"train": 128, "validation": 32, "test": 128}


@dataclass(frozen=True, kw_only=True)
class CtScanner:
    """A scanner of square images or of cubes, and how its sinograms are reconstructed.

    Parameters
    ----------
    side : int
        Pixels along an edge.
    views : int
        Number of views.
    bins : int
        Detector bins; rows and columns of a cone's detector.
    beam : {"surrogate", "parallel", "fan", "cone", "released"}
        "surrogate" is the paper's for small images: rotate and sum, Tikhonov's inverse with
        mu = 0.1; needs bins = side. "parallel" has Joseph's rays and filtered backprojection with
        their adjoint.
        "fan" has the distances, views and field of view of the released sweeps at any size, with
        Joseph's rays and the full filtered backprojection. "cone" images volumes of side^3 voxels:
        the distances of `ConeBeam(side)`, a detector whose bins see the whole cylinder, and FDK.
        "released" has the operators of the authors' code.
    arc : float, default 180, and 360 for "cone"
        Angle in degrees that "parallel", "fan" and "cone" scan. With less, part of the image's
        Fourier transform is not measured (limited angle).
    motion : Motion, optional
        Motion of the object from view to view, and what the reconstruction knows of it.

    Raises
    ------
    KoriskError
        If such a beam cannot have these numbers.

    Examples
    --------
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
    motion: Motion | None = None

    def __post_init__(self) -> None:
        _checks.one_of("beam", self.beam, BEAMS)
        remedy = "count pixels along an edge, views and detector bins"
        for name, least in (("side", 2), ("views", 1), ("bins", 1)):
            size = _checks.count(name, getattr(self, name), remedy, at_least=least, at_most=65536)
            _checks.set_fields(self, **{name: size})
        if self.beam == "surrogate" and self.bins != self.side:
            got, remedy = f"{self.bins} and {self.side}", "use beam='parallel' for other detectors"
            raise invalid("bins", "equal side for beam='surrogate'", self.bins, remedy, got=got)
        if self.beam == "released":
            # The released operators exist for the authors' scans only.
            views, bins = released_geometry(self.side).sinogram_shape
            if (self.views, self.bins) != (views, bins):
                rule = f"beam='released' has {views} views and {bins} bins at side {self.side}"
                got = f"{self.views} and {self.bins}; use beam='fan' for other scans"
                raise KoriskError(f"{rule}, got {got}")
        if self.arc is not None:
            if self.beam in ("surrogate", "released"):
                rule = "arc= belongs to beam='parallel', 'fan' or 'cone'"
                raise KoriskError(f"{rule}, got beam={self.beam!r}; leave it out")
            most = 180 if self.beam == "parallel" else 360
            arc = _checks.real("arc", self.arc, "give degrees", above=0, at_most=most)
            _checks.set_fields(self, arc=arc)
        met = isinstance(self.motion, Motion | None)
        _checks.require(met, "motion", "be a Motion", self.motion, "leave it out for none")

    @staticmethod
    def released(side: int) -> CtScanner:
        """The scanner of the authors' code: "surrogate" up to 32 pixels, then "released".

        Parameters
        ----------
        side : {8, 16, 32, 128, 256, 512}
            Pixels along an edge.

        Returns
        -------
        CtScanner
        """
        return _of_the_paper(side, "released")

    @staticmethod
    def of_paper(side: int) -> CtScanner:
        """The paper's scanners: as released, but with rays sampled finely from 128 pixels on.

        Parameters
        ----------
        side : {8, 16, 32, 128, 256, 512}
            Pixels along an edge.

        Returns
        -------
        CtScanner
        """
        return _of_the_paper(side, "fan")

    @property
    def dtype(self) -> torch.dtype:
        """Default precision."""
        return torch.float64 if self.beam == "surrogate" else torch.float32

    @cached_property
    def geometry(self) -> Geometry | ConeBeam:
        """Positions of source, image and detector."""
        if self.beam == "released":
            return released_geometry(self.side)
        arc = None if self.arc is None else math.radians(self.arc)
        if self.beam == "cone":
            # Fewer bins are larger, so that the detector still covers the whole object.
            default_scan = ConeBeam(self.side)
            rows, columns = default_scan.detector_shape
            wide, high = columns * default_scan.bin_spacing, rows * default_scan.row_spacing
            scan = partial(ConeBeam, self.side, views=self.views, bins=self.bins, arc=arc)
            return scan(bin_spacing=wide / self.bins, row_spacing=high / self.bins)
        arc = math.pi if arc is None else arc
        if self.beam != "fan":
            return ParallelBeam(self.side, views=self.views, bins=self.bins, arc=arc)
        with warnings.catch_warnings():
            # The outer halves of the outermost pixels lie outside the fan: more bins do not help.
            warnings.simplefilter("ignore", KoriskWarning)
            return fan_of_released(self.side, self.views, self.bins, arc)

    def projector(self, device: Device = None, dtype: Dtype = None) -> LinearOperator:
        """A: images (..., side, side) to sinograms (..., views, bins), or of a cone's volumes.

        Parameters
        ----------
        device, dtype : optional
            PyTorch's default device and `self.dtype` where None.

        Returns
        -------
        LinearOperator
        """
        rest = self._at_rest(device, dtype)
        return rest if self.motion is None else self.motion.moving(rest)

    def assumed(self, device: Device = None, dtype: Dtype = None) -> LinearOperator:
        """A as networks know it: `projector`, except for motion that is estimated or ignored.

        Parameters
        ----------
        device, dtype : optional
            As for `projector`.

        Returns
        -------
        LinearOperator
        """
        rest = self._at_rest(device, dtype)
        return rest if self.motion is None else self.motion.assumed(rest)

    def _at_rest(self, device: Device, dtype: Dtype) -> Projector:
        precision = self.dtype if dtype is None else dtype
        kinds: dict[str, Kind] = {"surrogate": "rotate", "released": "sampled"}
        kind = kinds.get(self.beam, "joseph")
        return Projector(self.geometry, kind=kind, device=device, dtype=precision)

    def reconstruction(self, device: Device = None, dtype: Dtype = None) -> Reconstruction:
        """W before training and the known operators: (K, A^T), or Tikhonov's inverse.

        Parameters
        ----------
        device, dtype : optional
            As for `projector`.

        Returns
        -------
        Reconstruction
        """
        precision = self.dtype if dtype is None else dtype
        if self.beam == "surrogate":
            inverse = Tikhonov(self.assumed(device, precision), mu=_SURROGATE_MU)
            return Reconstruction.unweighted(inverse)
        builder: Any = released_fbp if self.beam == "released" else fbp
        if self.beam == "parallel":
            # Not the default of `fbp`: results of stored studies depend on the exact adjoint.
            builder = partial(fbp, backprojection="adjoint")
        weights, *tail = builder(self.geometry, device=device, dtype=precision)
        if self.motion is not None:
            # Only the backprojection knows the poses; filtering a view does not depend on them.
            tail[-1] = self.motion.inverse(tail[-1])
        return Reconstruction(weights.weights, tuple(tail))


def _of_the_paper(side: int, large: Beam) -> CtScanner:
    if side in _SURROGATE_SIDES:
        # The surrogate has 1.25 views per pixel.
        return CtScanner(side=side, views=side + side // 4, bins=side, beam="surrogate")
    try:
        views, bins = released_geometry(side).sinogram_shape
    except KoriskError:
        rule, remedy = "be 8, 16, 32, 128, 256 or 512, as in the paper", "use CtScanner(side=, ...)"
        raise invalid("side", rule, side, f"{remedy} for other scanners") from None
    return CtScanner(side=side, views=views, bins=bins, beam=large)


@dataclass(frozen=True, kw_only=True)
class CtProblem(ImageProblem):
    """Learn images from their sinograms.

    Inputs are (samples, views, bins), targets (samples, side, side); for a cone beam inputs are
    (samples, views, bins, bins) and targets volumes, (samples, side, side, side).

    Parameters
    ----------
    scanner : CtScanner
        The scanner.
    source : ImageSource, default EllipseSource()
        Source of the images.
    population : {"ellipses", "released", "released-surrogate"}, default "ellipses"
        Distribution of the phantoms of an `EllipseSource`. "ellipses" is korisk's: training and
        validation pools depend on the seed, and all seeds share one test set (`TEST_SEED`), so that
        seeds differ only by what was learned. "released" is that of the released GPU sweeps: 3 to 6
        ellipses, one test set for all seeds and no validation pool. "released-surrogate" is that of
        the CPU surrogate: up to 128 + 32 + 128 phantoms from one generator, a test set per seed.
    noise : Gaussian or Poisson, optional
        Noise of the sinograms.

    Examples
    --------
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

    def __post_init__(self) -> None:
        _checks.one_of("population", self.population, POPULATIONS)
        if self.population != "ellipses" and self.source != EllipseSource():
            got = f"{self.source} with {self.population!r}, whose phantoms are fixed"
            raise KoriskError(f"source= belongs to population='ellipses', got {got}; leave it out")
        random_ellipses = isinstance(self.source, EllipseSource) and self.population == "ellipses"
        if self.scanner.beam == "cone" and not random_ellipses:
            rule = "beam='cone' images ellipsoids, which an EllipseSource draws"
            raise KoriskError(f"{rule}, got {self.source} with {self.population!r}")

    @property
    def side(self) -> int:  # type: ignore[override]
        """Pixels along an edge of the image."""
        return self.scanner.side

    @property
    def width(self) -> float:
        """The width of an image in millimetres."""
        return self.scanner.geometry.image_size[-1]

    @property
    def dtype(self) -> torch.dtype:
        """The scanner's."""
        return self.scanner.dtype

    def operator(self, device: Device = None) -> LinearOperator:
        """The scanner's projector."""
        return self.scanner.projector(device)

    def prepared(self, device: Device = None) -> LinearOperator:
        """The projector, called once so that its tables are built."""
        projector = self.scanner.projector(device)
        projector(torch.zeros(projector.domain, device=projector.device, dtype=projector.dtype))
        return projector

    def _known_operator(self, device: Device) -> LinearOperator:
        return self.scanner.assumed(device)

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """The scanner's."""
        return self.scanner.reconstruction(device)

    @property
    def _own_tests(self) -> bool:  # type: ignore[override]
        return self.population == "released-surrogate"

    def _images(self, seed: int, counts: Counts, operator: LinearOperator) -> dict[str, Tensor]:
        if not isinstance(self.source, EllipseSource):
            return super()._images(seed, counts, operator)
        if self.scanner.beam == "cone":
            seeds = {name: TEST_SEED if name == "test" else seed for name in counts}
            fewest, most = self.source.fewest, self.source.most
            draw = partial(phantoms.random_volumes, self.side, fewest=fewest, most=most)
            volumes = {name: draw(n, seed=seeds[name], stream=name) for name, n in counts.items()}
            return {name: v.to(operator.device, operator.dtype) for name, v in volumes.items()}
        random = self.population == "ellipses"
        pools = (self.source.phantoms if random else self._released)(seed, counts)
        place = Place(device=operator.device, dtype=operator.dtype)
        return {name: ellipses.images(self.side, **place) for name, ellipses in pools.items()}

    def _released(self, seed: int, counts: Counts) -> dict[str, phantoms.Ellipses]:
        """The released phantoms of each pool, by the pool's name."""
        released = self.population == "released"
        for name, limit in ({"validation": 0} if released else _SURROGATE_POOLS).items():
            rule = f"be at most {limit} for population={self.population!r}"
            remedy = "use population='ellipses' for larger pools"
            _checks.require(counts[name] <= limit, name, rule, counts[name], remedy)
        if not released:
            pools = _surrogate_draws(seed)
            return {name: pools[name][:count] for name, count in counts.items()}
        # The released code seeds its training generator with 1 + seed.
        if 1 + seed == TEST_SEED:
            why = f"would train on the test set of population='released', seeded {TEST_SEED}"
            raise KoriskError(f"seed {seed} {why}; use another seed")
        # There is no validation pool; its seed is never used.
        seeds = {"train": 1 + seed, "validation": 0, "test": TEST_SEED}
        return {
            name: phantoms.released_ellipses(torch.Generator().manual_seed(seeds[name]), count)
            for name, count in counts.items()
        }


@lru_cache(maxsize=8)
def _surrogate_draws(seed: int) -> dict[str, phantoms.Ellipses]:
    """Whole pools, drawn one after another from one generator, whatever counts are needed."""
    draw = partial(phantoms.released_surrogate_ellipses, np.random.default_rng(seed))
    return {name: draw(count) for name, count in _SURROGATE_POOLS.items()}
