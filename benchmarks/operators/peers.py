"""What others project with: ASTRA, torchtomo, deepinv, scikit-image, cuSPARSE; and korisk itself.

Each peer gives, for each entry, its settings and a call for each that does the work on a batch. A
peer that cannot do an entry raises `Unable` with the reason. Inputs are brought into the peer's
own layout before the call, where its users keep them so.

korisk's rays are x cos b + y sin b = s with y along the rows, downwards. torchtomo, deepinv and
scikit-image turn the other way, x cos b - y sin b = s: the same work on the image upside down.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Work = Callable[[], Any]
Works = dict[str, Work]  # by setting

ENTRIES = ("forward", "adjoint", "fbp", "gradient")


class Unable(Exception):
    """Why a peer shows nothing in a cell."""


@dataclass(frozen=True)
class Scan:
    """A square image of `size` pixels seen from `views` angles over a half turn."""

    size: int
    views: int
    bins: int

    @property
    def angles(self) -> Array:
        """Radians, (views,)."""
        return np.pi * np.arange(self.views) / self.views


class Peer(ABC):
    """One library on one scan; tensors are float32, (batch, size, size) or (batch, views, bins)."""

    name: ClassVar[str]
    package: ClassVar[str]  # what it is installed as
    on_cuda: ClassVar[bool] = True
    lacks: ClassVar[str] = ""  # why it cannot do an entry

    def __init__(self, scan: Scan, device: str) -> None:
        self.scan = scan
        self.device = device
        self._kept: dict[str, Any] = {}

    def _once(self, key: str, make: Work) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @classmethod
    def load(cls) -> str:
        """Import the library and give its version; whatever it raises is why it is missing."""
        import_module(cls.package)
        return version(cls.package)

    def works(self, entry: str, images: Tensor, sinograms: Tensor) -> Works:
        """The settings for one entry, fed with what that entry takes."""
        takes_sinograms = entry in {"adjoint", "fbp"}
        prepare: Callable[[Tensor], Works] = getattr(self, entry)
        return prepare(sinograms if takes_sinograms else images)

    @abstractmethod
    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""

    @abstractmethod
    def forward(self, images: Tensor) -> Works:
        """A x."""

    def adjoint(self, sinograms: Tensor) -> Works:
        """A^T y."""
        raise Unable(self.lacks)

    def fbp(self, sinograms: Tensor) -> Works:
        """Filtered backprojection with the ramp."""
        raise Unable(self.lacks)

    def gradient(self, images: Tensor) -> Works:
        """The loss |A x|^2 and its gradient in x, by autograd."""
        raise Unable(self.lacks)


class Korisk(Peer):
    """korisk's own projector."""

    name = "korisk"
    package = "korisk"
    engine: Literal["auto", "matrix", "on_the_fly"] = "auto"

    def __init__(self, scan: Scan, device: str) -> None:
        super().__init__(scan, device)
        from korisk.operators import ParallelBeam, Projector, fbp

        geometry = ParallelBeam((scan.size, scan.size), views=scan.views, bins=scan.bins)
        self.projector = Projector(geometry, engine=self.engine).to(device)
        self.reconstruct = fbp(geometry, engine=self.engine).to(device)
        # A first call builds what later ones share, as a training does.
        self.reconstruct(self.projector(torch.zeros(1, scan.size, scan.size, device=device)))

    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""
        projected: Tensor = self.projector(image)
        return projected

    def forward(self, images: Tensor) -> Works:
        """A x."""
        return {self.engine: _without_graph(lambda: self.projector(images))}

    def adjoint(self, sinograms: Tensor) -> Works:
        """A^T y."""
        transposed = self.projector.T
        return {self.engine: _without_graph(lambda: transposed(sinograms))}

    def fbp(self, sinograms: Tensor) -> Works:
        """Filtered backprojection with the ramp."""
        return {"fbp": _without_graph(lambda: self.reconstruct(sinograms))}

    def gradient(self, images: Tensor) -> Works:
        """The loss |A x|^2 and its gradient in x, by autograd."""
        return {self.engine: _gradient(self.projector, images)}


class CuSparse(Peer):
    """korisk's matrix in the plain sparse product of cuSPARSE, images as columns."""

    name = "cuSPARSE"
    package = "torch"
    lacks = "measured for the forward projection alone"

    def __init__(self, scan: Scan, device: str) -> None:
        super().__init__(scan, device)
        from korisk.operators import ParallelBeam, Projector

        geometry = ParallelBeam((scan.size, scan.size), views=scan.views, bins=scan.bins)
        matrix = Projector(geometry, engine="matrix").sparse_matrix()
        # Indices of 32 bits: they are half of what the product reads.
        self.matrix = torch.sparse_csr_tensor(
            torch.as_tensor(matrix.indptr.astype(np.int32)),
            torch.as_tensor(matrix.indices.astype(np.int32)),
            torch.as_tensor(matrix.data),
            size=matrix.shape,
        ).to(device)

    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""
        return (self.matrix @ image.reshape(-1, 1)).reshape(self.scan.views, self.scan.bins)

    def forward(self, images: Tensor) -> Works:
        """A x."""
        columns = images.reshape(len(images), -1).t().contiguous()
        works: Works = {"CSR @ (pixels, batch)": _without_graph(lambda: self.matrix @ columns)}
        if len(images) == 1:
            image = columns[:, 0].contiguous()
            works["CSR @ (pixels,)"] = _without_graph(lambda: self.matrix @ image)
        return works


class Astra(Peer):
    """ASTRA's two-dimensional projectors on arrays of the host, one image after another.

    On the CPU its Joseph kernel "linear", which runs on one core whatever the number of threads,
    and the same kernel's matrix in SciPy's product. On CUDA its own kernel, copies to and from the
    card counted, since two-dimensional data live on the host.
    """

    name = "astra"
    package = "astra"

    def __init__(self, scan: Scan, device: str) -> None:
        super().__init__(scan, device)
        import astra

        volume = astra.create_vol_geom(scan.size, scan.size)
        # ASTRA's y points up: its detector axis (cos a, sin a) is korisk's for a = -b.
        rays = astra.create_proj_geom("parallel", 1.0, scan.bins, -scan.angles)
        kernel = "cuda" if device == "cuda" else "linear"
        self.projector = astra.create_projector(kernel, rays, volume)
        self.operator = astra.OpTomo(self.projector)
        self.kernel = kernel

    @classmethod
    def load(cls) -> str:
        """Import the library and give its version; whatever it raises is why it is missing."""
        import_module(cls.package)
        return version("astra-toolbox")

    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""
        return torch.as_tensor(self.operator.FP(_host(image)))

    def forward(self, images: Tensor) -> Works:
        """A x."""
        inputs = list(_host(images))
        works: Works = {f"{self.kernel}, loop": lambda: [self.operator.FP(x) for x in inputs]}
        if self.device == "cpu":
            matrix, flat = self._matrix(), _host(images).reshape(len(images), -1)
            works["matrix in SciPy"] = lambda: matrix @ flat.T
        return works

    def adjoint(self, sinograms: Tensor) -> Works:
        """A^T y."""
        inputs = list(_host(sinograms))
        works: Works = {f"{self.kernel}, loop": lambda: [self.operator.BP(y) for y in inputs]}
        if self.device == "cpu":
            transposed = self._once("transposed", lambda: self._matrix().T.tocsr())
            flat = _host(sinograms).reshape(len(sinograms), -1)
            works["matrix in SciPy"] = lambda: transposed @ flat.T
        return works

    def fbp(self, sinograms: Tensor) -> Works:
        """Filtered backprojection with the ramp."""
        inputs = list(_host(sinograms))
        algorithm = "FBP_CUDA" if self.device == "cuda" else "FBP"
        reconstruct = self.operator.reconstruct
        return {f"{algorithm}, loop": lambda: [reconstruct(algorithm, y) for y in inputs]}

    def gradient(self, images: Tensor) -> Works:
        """The loss |A x|^2 and its gradient in x, by autograd."""
        operator = self.operator

        class Projection(torch.autograd.Function):
            """FP forwards and BP backwards, as users of ASTRA wrap it."""

            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                """A x, image after image."""
                projected = np.stack([operator.FP(each) for each in _host(x)])
                return torch.as_tensor(projected, device=x.device)

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> Tensor:
                """A^T y, sinogram after sinogram."""
                spread = np.stack([operator.BP(each) for each in _host(grad)])
                return torch.as_tensor(spread, device=grad.device)

        return {f"{self.kernel}, loop in autograd.Function": _gradient(Projection.apply, images)}

    def _matrix(self) -> Any:
        import astra

        def make() -> Any:
            handle = astra.projector.matrix(self.projector)
            matrix = astra.matrix.get(handle)
            astra.matrix.delete(handle)
            return matrix

        return self._once("matrix", make)


class TorchTomo(Peer):
    """torchtomo, with its faster options where they apply.

    approximate=True reads the card's textures, good to some 3e-4, and counts for the forward
    projection alone: with it the adjoint does not match.
    """

    name = "torchtomo"
    package = "torchtomo"

    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""
        lengths = self._variant()(image.flip(-2)[None, None])[0, 0]
        return torch.as_tensor(lengths * (self.scan.size / 2))

    def forward(self, images: Tensor) -> Works:
        """A x."""
        inputs = images[:, None]
        works: Works = {"backend=torch": _call(self._variant(), inputs)}
        for setting, options in self._card().items():
            works[setting] = _call(self._variant(**options), inputs)
        return works

    def adjoint(self, sinograms: Tensor) -> Works:
        """A^T y."""
        inputs = sinograms[:, None]
        works: Works = {"backend=torch": _call(self._variant().adjoint, inputs)}
        if "backend=cuda" in self._card():
            works["backend=cuda"] = _call(self._variant(backend="cuda").adjoint, inputs)
        # Four weights for each pixel and view, with copies while they are sorted.
        if _fits(40 * 4 * self.scan.views * self.scan.size**2, self.device):
            sparse = self._variant(sparse_adjoint=True)
            sparse.adjoint(inputs[:1])  # builds the matrix, which is no part of the time
            works["sparse_adjoint=True"] = _call(sparse.adjoint, inputs)
        return works

    def fbp(self, sinograms: Tensor) -> Works:
        """Filtered backprojection with the ramp."""
        inputs = sinograms[:, None]
        works: Works = {"backend=torch": _call(self._variant().fbp, inputs)}
        if "backend=cuda" in self._card():
            works["backend=cuda"] = _call(self._variant(backend="cuda").fbp, inputs)
        return works

    def gradient(self, images: Tensor) -> Works:
        """The loss |A x|^2 and its gradient in x, by autograd."""
        inputs = images[:, None]
        works: Works = {"backend=torch": _gradient(self._variant(), inputs)}
        if "backend=cuda" in self._card():
            works["backend=cuda"] = _gradient(self._variant(backend="cuda"), inputs)
        return works

    def _card(self) -> dict[str, dict[str, Any]]:
        if self.device != "cuda":
            return {}
        if self._variant(backend="auto").backend != "cuda":
            return {}
        return {
            "backend=cuda": {"backend": "cuda"},
            "backend=cuda, approximate=True": {"backend": "cuda", "approximate": True},
        }

    def _variant(self, **options: Any) -> Any:
        from torchtomo import ParallelBeam

        scan = self.scan
        return self._once(
            repr(options),
            lambda: ParallelBeam(scan.size, scan.views, scan.bins, **options).to(self.device),
        )


class DeepInv(Peer):
    """deepinv's Tomography; its fbp, since its A_dagger solves least squares in minutes.

    Settings: all views at once (parallel) or one by one. Its adjoint is exact through autograd
    (its default), which keeps all turned images; where these do not fit, and for the filtered
    backprojection, its unfiltered inverse Radon transform, which is only close to the adjoint.
    """

    name = "deepinv"
    package = "deepinv"

    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""
        projected: Tensor = self._variant("one by one, iradon").A(image.flip(-2)[None, None])
        return projected[0, 0].t()

    def forward(self, images: Tensor) -> Works:
        """A x."""
        inputs = images[:, None]
        variants = self._variants(len(images), "iradon")
        return {name.split(",")[0]: _call(each.A, inputs) for name, each in variants.items()}

    def adjoint(self, sinograms: Tensor) -> Works:
        """A^T y."""
        inputs = _bins_first(sinograms)
        variants = self._variants(len(inputs), "exact")
        for each in variants.values():
            each.A_adjoint(inputs)  # where exact, it keeps the graph of one forward projection
        return {name: _call(each.A_adjoint, inputs) for name, each in variants.items()}

    def fbp(self, sinograms: Tensor) -> Works:
        """Filtered backprojection with the ramp."""
        inputs = _bins_first(sinograms)
        variants = self._variants(len(inputs), "iradon")
        return {name: _call(each.fbp, inputs) for name, each in variants.items()}

    def gradient(self, images: Tensor) -> Works:
        """The loss |A x|^2 and its gradient in x, by autograd."""
        inputs = images[:, None]
        variants = self._variants(len(images), "exact")
        return {name: _gradient(each.A, inputs) for name, each in variants.items()}

    def _variants(self, batch: int, adjoint: str) -> dict[str, Any]:
        all_turned = 16 * batch * self.scan.views * self.scan.size**2
        names = [f"parallel, {adjoint}", f"one by one, {adjoint}"]
        if not _fits(all_turned, self.device):
            names = ["one by one, iradon"]
        return {name: self._variant(name) for name in names}

    def _variant(self, name: str) -> Any:
        from deepinv.physics import Tomography

        degrees = torch.as_tensor(np.rad2deg(self.scan.angles), dtype=torch.float32)
        return self._once(
            name,
            lambda: Tomography(
                angles=degrees.to(self.device),
                img_width=self.scan.size,
                circle=True,
                parallel_computation=name.startswith("parallel"),
                adjoint_via_backprop=name.endswith("exact"),
                normalize=False,
                device=self.device,
            ),
        )


class SkImage(Peer):
    """scikit-image's radon and iradon, one image after another."""

    name = "skimage"
    package = "skimage"
    on_cuda = False
    lacks = "has no adjoint of radon, without which there is no gradient"

    @classmethod
    def load(cls) -> str:
        """Import the library and give its version; whatever it raises is why it is missing."""
        import_module("skimage.transform")
        return version("scikit-image")

    @staticmethod
    def _transform() -> Any:
        return import_module("skimage.transform")

    @property
    def _degrees(self) -> Array:
        return np.rad2deg(self.scan.angles)

    def project(self, image: Tensor) -> Tensor:
        """korisk's rays through one image, in pixel lengths: (size, size) to (views, bins)."""
        radon = self._transform().radon
        return torch.as_tensor(radon(_host(image.flip(-2)), self._degrees, circle=True).T)

    def forward(self, images: Tensor) -> Works:
        """A x."""
        radon = self._transform().radon
        inputs, degrees = list(_host(images)), self._degrees
        return {"radon, loop": lambda: [radon(x, degrees, circle=True) for x in inputs]}

    def fbp(self, sinograms: Tensor) -> Works:
        """Filtered backprojection with the ramp."""
        iradon = self._transform().iradon
        inputs, degrees = list(_host(_bins_first(sinograms)[:, 0])), self._degrees
        return {"iradon, loop": lambda: [iradon(y, degrees, circle=True) for y in inputs]}


PEERS: dict[str, type[Peer]] = {
    each.name: each for each in (Astra, TorchTomo, DeepInv, SkImage, CuSparse)
}


def astra_sinogram(image: Array, kernel: str, kind: str, bins: int, vectors: Array) -> Array:
    """ASTRA's forward projection along explicit rays, (views, bins).

    `vectors` are rows of ASTRA's vector geometry `kind` in its frame, x right and y up.
    """
    import astra

    rays = astra.create_proj_geom(kind, bins, vectors)
    volume = astra.create_vol_geom(*image.shape)
    operator = astra.OpTomo(astra.create_projector(kernel, rays, volume))
    return np.asarray(operator.FP(np.ascontiguousarray(image, dtype=np.float32)))


def parallel_vectors(angles: Array) -> Array:
    """korisk's parallel rays for 'parallel_vec': direction, detector's centre, step of a bin."""
    cos, sin, zero = np.cos(angles), np.sin(angles), np.zeros_like(angles)
    return _upwards(direction=(-sin, cos), centre=(zero, zero), step=(cos, sin))


def fan_vectors(
    angles: Array, source_to_center: float, source_to_detector: float, bin_spacing: float
) -> Array:
    """korisk's fan for 'fanflat_vec': source, detector's centre, step of a bin."""
    cos, sin = np.cos(angles), np.sin(angles)
    behind = source_to_detector - source_to_center
    return _upwards(
        direction=(-source_to_center * sin, source_to_center * cos),
        centre=(behind * sin, -behind * cos),
        step=(bin_spacing * cos, bin_spacing * sin),
    )


def _upwards(**columns: tuple[Array, Array]) -> Array:
    return np.stack([part for x, y in columns.values() for part in (x, -y)], axis=1)


def _without_graph(work: Work) -> Work:
    def call() -> Any:
        with torch.no_grad():
            return work()

    return call


def _call(operator: Callable[[Tensor], Any], inputs: Tensor) -> Work:
    return _without_graph(lambda: operator(inputs))


def _gradient(operator: Callable[[Tensor], Any], images: Tensor) -> Work:
    x = images.clone().requires_grad_()

    def call() -> Tensor:
        loss = operator(x).square().sum()
        return torch.autograd.grad(loss, x)[0]

    return call


def _host(data: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = np.ascontiguousarray(data.detach().cpu().numpy())
    return array


def _bins_first(sinograms: Tensor) -> Tensor:
    return sinograms.transpose(-2, -1).contiguous()[:, None]


def _fits(needed: int, device: str) -> bool:
    """Whether so many bytes can be had without swapping, which would measure the disk."""
    if device == "cuda":
        return needed < torch.cuda.mem_get_info()[0]
    return needed < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
