"""Random phantoms of ellipses, reproducible and fast to rasterise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators.inputs import DTYPES, checked_device, checked_dtype
from korisk.operators.types import Device, Dtype
from korisk.seeds import stream_key

_PIECE = 2**22  # pixels that are rasterised at once; temporaries stay below 256 MB
_RELEASED_FEWEST, _RELEASED_MOST = 3, 6  # ellipses of a phantom in the released GPU sweeps
_SURROGATE_FEWEST, _SURROGATE_MOST = 1, 4  # and in the released CPU surrogate
_NUMBERS = 6  # parameters of an ellipse: amplitude, x, y, a, b, angle
_WORDS = 4  # 64-bit numbers in one step of Philox


@dataclass(frozen=True, eq=False)
class Ellipses:
    """Phantoms as sums of ellipses, on a square that covers [-1, 1] on both axes.

    Parameters
    ----------
    amplitude, x, y, a, b, angle : Tensor, shape (count, most)
        Amplitude, centre, semi-axes and the angle of a against the x axis in radians; all finite,
        of one precision, on the CPU. Where a phantom has fewer than `most` ellipses, the amplitude
        is 0.

    Examples
    --------
    >>> import torch
    >>> from korisk.problems import Ellipses
    >>> disc = Ellipses(*torch.tensor([1.0, 0.0, 0.0, 0.5, 0.5, 0.0]).reshape(6, 1, 1))
    >>> disc.images(5)[0, 2].tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0]
    """

    amplitude: Tensor
    x: Tensor
    y: Tensor
    a: Tensor
    b: Tensor
    angle: Tensor

    def __post_init__(self) -> None:
        first: Any = self.amplitude
        rule = "be a finite tensor (count, most) on the CPU in float32 or float64, of the "
        rule += "amplitude's shape and precision"
        remedy = "convert it with torch.as_tensor, and fill up with ellipses of amplitude 0"
        for name, value in vars(self).items():
            valid = isinstance(value, Tensor) and value.dtype in DTYPES and value.ndim == 2
            valid = valid and (value.shape, value.dtype) == (first.shape, first.dtype)
            valid = valid and value.device.type == "cpu" and bool(torch.isfinite(value).all())
            _checks.require(valid, name, rule, value, remedy)
        if bool((torch.minimum(self.a, self.b) <= 0).any()):
            raise KoriskError("the semi-axes a and b must be > 0; use amplitude 0 for no ellipse")

    def __len__(self) -> int:
        return len(self.amplitude)

    def __getitem__(self, rows: slice) -> Ellipses:
        if not isinstance(rows, slice):
            raise KoriskError(f"phantoms are taken by slices, got [{shown(rows)}]; use [i : i + 1]")
        return Ellipses(*(value[rows] for value in vars(self).values()))

    def images(
        self, side: int, *, device: Device = None, dtype: Dtype = None, highest: float = 1.5
    ) -> Tensor:
        """Rasterise the phantoms; x runs along the last axis.

        Parameters
        ----------
        side : int
            Pixels along an edge; their centres lie at linspace(-1, 1, side).
        device : torch.device or str, optional
            PyTorch's default where None.
        dtype : torch.dtype, default: that of the ellipses
            torch.float32 or torch.float64.
        highest : float, default 1.5
            Values are clipped to [0, highest].

        Returns
        -------
        Tensor, shape (count, side, side)

        Notes
        -----
        A pixel inside an ellipse gains its amplitude. Whether it is inside is decided by the
        paper's inequality in the precision of the ellipses, whatever `dtype` is.
        """
        edge = _checks.count("side", side, "count its pixels", at_least=2, at_most=65536)
        top = _checks.real("highest", highest, at_least=0, finite=False, remedy="try 1.5")
        precision = self.amplitude.dtype
        dtype = checked_dtype(precision if dtype is None else dtype)
        images = torch.zeros((len(self), edge, edge), device=checked_device(device), dtype=dtype)
        # In the ellipses' precision, so that the same pixels are inside for any dtype.
        grid = torch.linspace(-1, 1, edge, dtype=precision).to(images.device)
        # With many ellipses the lists of rows, not of pixels, take the most memory.
        step = max(1, _PIECE // (edge * max(edge, 16 * self.amplitude.shape[1])))
        for start in range(0, len(self), step):
            piece = slice(start, start + step)
            _paint(images[piece], self[piece], grid)
            images[piece].clamp_(0, top)
        return images


def released_surrogate_ellipses(rng: np.random.Generator, count: int) -> Ellipses:
    """Phantoms of the released CPU surrogate, 1 to 4 ellipses, in the order of its draws.

    Parameters
    ----------
    rng : numpy.random.Generator
        Left where the released code leaves it.
    count : int
        Number of phantoms.

    Returns
    -------
    Ellipses

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.problems import released_surrogate_ellipses
    >>> released_surrogate_ellipses(np.random.default_rng(0), 3).images(16).shape
    torch.Size([3, 16, 16])
    """
    total = _how_many(count)
    # Unused slots have amplitude 0, and semi-axes of 1, since zero is not allowed.
    table = torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)  # adds nothing
    table = table.repeat(total, _SURROGATE_MOST, 1)
    for phantom in range(total):
        for slot in range(int(rng.integers(_SURROGATE_FEWEST, _SURROGATE_MOST + 1))):
            amplitude = rng.uniform(0.2, 1.0)
            x, y = rng.uniform(-0.5, 0.5, size=2)
            a, b = rng.uniform(0.08, 0.4, size=2)
            numbers = (amplitude, x, y, a, b, rng.uniform(0, math.pi))
            table[phantom, slot] = torch.tensor(numbers, dtype=torch.float64)
    return Ellipses(*(column.contiguous() for column in table.unbind(-1)))


def released_ellipses(generator: torch.Generator, count: int) -> Ellipses:
    """Phantoms of the released GPU sweeps, 3 to 6 ellipses, in float32 as they were drawn.

    Parameters
    ----------
    generator : torch.Generator
        On the CPU; left where the released code leaves it.
    count : int
        Number of phantoms.

    Returns
    -------
    Ellipses

    Notes
    -----
    The released code draws one number at a time. All come from one stream of words, of which `rand`
    uses the last 24 bits and `randint(3, 7)` the last two. So one long draw gives the same
    phantoms and leaves the generator in the same state.

    Examples
    --------
    >>> import torch
    >>> from korisk.problems import released_ellipses
    >>> released_ellipses(torch.Generator().manual_seed(0), 3).images(16).shape
    torch.Size([3, 16, 16])
    """
    total = _how_many(count)
    state = generator.get_state()
    uniform = torch.rand(total * (1 + _NUMBERS * _RELEASED_MOST), generator=generator)
    # Every number may be the start of a phantom, so all are also read as counts of ellipses.
    numbers = _RELEASED_FEWEST + (uniform * 2**24).int() % (_RELEASED_MOST - _RELEASED_FEWEST + 1)
    choices = numbers.tolist()
    starts, counts = [], []
    position = 0
    for _ in range(total):
        starts.append(position + 1)
        counts.append(choices[position])
        position += 1 + _NUMBERS * choices[position]
    # Rewind, and draw only as many numbers as the released code does.
    generator.set_state(state)
    torch.rand(position, generator=generator)
    slots = torch.arange(_NUMBERS * _RELEASED_MOST)
    # A phantom with few ellipses reads into the numbers of the next; `_from_uniform` blanks them.
    indices = (torch.tensor(starts, dtype=torch.int64)[:, None] + slots).clamp_max(len(uniform) - 1)
    draws = uniform[indices].reshape(total, _RELEASED_MOST, _NUMBERS)
    return _from_uniform(draws, torch.tensor(counts, dtype=torch.int64))


def random_ellipses(
    count: int, *, seed: int, stream: str, fewest: int = 1, most: int = 4, first: int = 0
) -> Ellipses:
    """Phantoms `first` to `first + count` of an endless stream, with the paper's distribution.

    Phantom i depends only on `seed`, `stream`, `fewest`, `most` and i, so the first N of a pool
    are the same for any pool size.

    Parameters
    ----------
    count : int
        Number of phantoms.
    seed : int
        Random seed.
    stream : str
        Name of the stream, such as "train".
    fewest, most : int, default 1 and 4
        Ellipses of a phantom.
    first : int, default 0
        Number of the first phantom.

    Returns
    -------
    Ellipses
        Amplitudes in [0.2, 1], centres in [-0.5, 0.5]^2, semi-axes in [0.08, 0.4] and angles in
        [0, pi), all uniform.

    Examples
    --------
    >>> from korisk.problems import random_ellipses
    >>> few = random_ellipses(2, seed=1, stream="train")
    >>> more = random_ellipses(5, seed=1, stream="train")
    >>> more.images(16).shape, bool((more.x[:2] == few.x).all())
    (torch.Size([5, 16, 16]), True)
    """
    total = _how_many(count)
    remedy = "count the ellipses of a phantom"
    low = _checks.count("fewest", fewest, at_least=1, at_most=1000, remedy=remedy)
    high = _checks.count("most", most, at_least=low, at_most=1000, remedy=remedy)
    offset = _checks.count("first", first, at_least=0, at_most=2**40, remedy="try 0")
    # Each phantom takes a whole number of Philox steps, so that `advance` can skip any of them.
    steps = -(-(1 + _NUMBERS * high) // _WORDS)  # of the counter, for one phantom
    philox = np.random.Philox(key=stream_key(seed, stream))
    philox.advance(offset * steps)
    draws = np.random.Generator(philox).random((total, steps * _WORDS))
    # The first number of a phantom is its count of ellipses.
    numbers = low + np.floor(draws[:, 0] * (high - low + 1))
    uniform = torch.from_numpy(draws[:, 1 : 1 + _NUMBERS * high]).reshape(total, high, _NUMBERS)
    return _from_uniform(uniform, torch.from_numpy(numbers))


def random_volumes(
    side: int, count: int, *, seed: int, stream: str, fewest: int = 1, most: int = 4
) -> Tensor:
    """Volumes of ellipsoids, whose central sections are the phantoms of `random_ellipses`.

    Parameters
    ----------
    side : int
        Voxels along an edge; their centres lie at linspace(-1, 1, side).
    count : int
        Number of phantoms.
    seed : int
        Random seed.
    stream : str
        Name of the stream, such as "train".
    fewest, most : int, default 1 and 4
        Ellipsoids of a phantom.

    Returns
    -------
    Tensor, shape (count, side, side, side), float64
        Slices, rows and columns. Along z, centres are uniform in [-0.5, 0.5] and semi-axes in
        [0.08, 0.4], as along x and y.

    Examples
    --------
    >>> from korisk.problems import random_volumes
    >>> random_volumes(8, 3, seed=1, stream="train").shape
    torch.Size([3, 8, 8, 8])
    """
    flat = random_ellipses(count, seed=seed, stream=stream, fewest=fewest, most=most)
    # Positions and semi-axes along z are the x and a of ellipses from a separate stream.
    upright = random_ellipses(count, seed=seed, stream=f"{stream} z", fewest=most, most=most)
    volumes = torch.empty((len(flat), side, side, side), dtype=torch.float64)
    for index, height in enumerate(torch.linspace(-1, 1, side, dtype=torch.float64)):
        # A section of an ellipsoid is an ellipse, smaller by the square root of this factor.
        square = 1 - ((height - upright.x) / upright.a) ** 2
        inside = square > 0
        size = torch.where(inside, square, 1.0).sqrt()
        amplitude = torch.where(inside, flat.amplitude, 0.0)
        shape = flat.x, flat.y, flat.a * size, flat.b * size, flat.angle
        volumes[:, index] = Ellipses(amplitude, *shape).images(side, device="cpu")
    return volumes


def _from_uniform(draws: Tensor, numbers: Tensor) -> Ellipses:
    """The paper's ellipses from uniform draws (count, most, 6), of which `numbers` are used."""
    amplitude, x, y, a, b, angle = draws.unbind(-1)
    # Numbers of unused ellipses are drawn as well, so that phantoms stay aligned in the stream.
    exists = torch.arange(draws.shape[1]) < numbers[:, None]
    amplitude = torch.where(exists, amplitude * 0.8 + 0.2, 0.0)
    axes = a * 0.32 + 0.08, b * 0.32 + 0.08
    return Ellipses(amplitude, x - 0.5, y - 0.5, *axes, angle * math.pi)


def _how_many(count: int) -> int:
    return _checks.count("count", count, at_least=0, at_most=2**31, remedy="count the phantoms")


def _paint(images: Tensor, ellipses: Ellipses, grid: Tensor) -> None:
    """Add the amplitudes to images (count, side, side), one ellipse of each phantom at a time."""
    side, device = len(grid), grid.device
    first, length = _spans(ellipses, grid)
    amplitude = ellipses.amplitude.to(device, images.dtype)
    rows = torch.arange(len(images) * side, device=device)  # of pixels, over all images
    flat = images.view(-1)
    for slot in range(first.shape[1]):
        lengths = length[:, slot].reshape(-1)
        total = int(lengths.sum())
        row = rows.repeat_interleave(lengths, output_size=total)
        # Pixels of a row are consecutive in the image and in the list: their offset is constant.
        shift = rows * side + first[:, slot].reshape(-1) - (lengths.cumsum(0) - lengths)
        pixel = shift[row] + torch.arange(total, device=device)
        # No pixel occurs twice, so the result does not depend on the order of summation.
        flat.index_add_(0, pixel, amplitude[:, slot].repeat_interleave(side)[row])


def _spans(ellipses: Ellipses, grid: Tensor) -> tuple[Tensor, Tensor]:
    """First pixel and number of pixels inside, for each row of each ellipse: (count, most, side).

    A row enters and leaves an ellipse where P dx^2 + 2 Q dx dy + R dy^2 = 1 with
    P R - Q^2 = 1 / (a b)^2, solved for dx in float64. The solution is accurate to far less than
    half a pixel; the inequality itself decides among the three pixels nearest to either end.
    """
    side, e = len(grid), ellipses
    # Cosines are computed on the CPU: on a GPU they may differ in the last digit.
    fields = e.amplitude, e.x, e.y, e.a, e.b, e.angle.cos(), e.angle.sin()
    columns = [values.to(grid.device)[..., None] for values in fields]
    amplitude, x, y, a, b, cosine, sine = columns
    dy = grid - y

    def inside(column: Tensor) -> Tensor:
        dx = grid[column] - x
        along, across = cosine * dx + sine * dy, -sine * dx + cosine * dy
        return (along / a) ** 2 + (across / b) ** 2 <= 1

    _, middle, _, width, height, c, s = (values.double() for values in columns)
    p = (c / width) ** 2 + (s / height) ** 2
    q = c * s * (1 / width**2 - 1 / height**2)
    middle = middle - q / p * dy
    # Zero for rows that miss the ellipse.
    half = (p - (dy / (width * height)) ** 2).clamp_min_(0).sqrt_() / p
    # From positions in [-1, 1] to indices of pixels.
    scale = (side - 1) / 2
    ends = ((middle - half + 1) * scale, (middle + half + 1) * scale)
    # One pixel beyond either edge at most, so that indices stay small.
    lowest, highest = (end.round_().clamp_(-1, side).long() for end in ends)
    first = torch.full_like(lowest, side)
    last = torch.full_like(lowest, -1)
    # From the inside outwards, so that the outermost pixel inside the ellipse remains.
    for step in (1, 0, -1):
        nearest = (lowest + step).clamp_(0, side - 1)
        first = torch.where(inside(nearest), nearest, first)
        nearest = (highest - step).clamp_(0, side - 1)
        last = torch.where(inside(nearest), nearest, last)
    return first, torch.where(amplitude == 0, 0, (last - first + 1).clamp_min_(0))
