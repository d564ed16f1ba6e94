"""Reconstructions as PNGs in a page: grey images, coloured errors, within so many bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.errors import MissingExtraError
from korisk.report.contents import Pictures, grey_scale, relative_error
from korisk.report.figures.style import Figure, style

try:
    from matplotlib import colormaps
    from PIL import Image
except ModuleNotFoundError as error:
    raise MissingExtraError("a report needs matplotlib; pip install 'korisk[report]'") from error

Array = NDArray[np.float64]

SIDES = (256, 128, 64, 32)  # pixels that a picture in a page has at most, the largest that fits
ERRORS = "RdBu_r"  # red above the truth, blue below, as in figures; colour-blind readers see both


@dataclass(frozen=True)
class Framed:
    """The pictures of one point for a page, and by how much they were reduced."""

    point: str
    content: dict[str, Any]
    size: int  # bytes


def framed(named: Sequence[tuple[str, Pictures]], *, most: int) -> tuple[list[Framed], list[str]]:
    """Pictures of all points in at most so many bytes, and the points whose pictures had no room.

    All are reduced alike; where even the smallest are too many, the first points give way.
    """
    for side in SIDES:
        made = [_frame(point, pictures, side) for point, pictures in named]
        if sum(each.size for each in made) <= most:
            return made, []
    dropped = []
    while made and sum(each.size for each in made) > most:
        dropped.append(made.pop(0).point)
    return made, dropped


def _frame(point: str, pictures: Pictures, most: int) -> Framed:
    factor = max(1, -(-max(pictures.truth.shape[1:]) // most))
    low, high = grey_scale(pictures.truth)
    reach = _error_scale(pictures)
    truth = [_grey(_reduced(image, factor), low, high) for image in pictures.truth]
    frames: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for model, by_size in pictures.images.items():
        frames[model] = {
            n: [
                {
                    "image": _grey(_reduced(image, factor), low, high),
                    "error": _coloured(_reduced(image - true, factor), reach),
                    "relative": _finite(relative_error(image, true)),
                }
                for image, true in zip(images, pictures.truth, strict=True)
            ]
            for n, images in by_size.items()
        }
    content = {
        "point": point,
        "seed": pictures.seed,
        "side": list(pictures.truth.shape[1:]),
        "reduced": factor,
        "grey": [low, high],
        "reach": reach,
        "sizes": pictures.sizes,
        "truth": truth,
        "frames": frames,
    }
    return Framed(point, content, _bytes(content))


def _finite(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _error_scale(pictures: Pictures) -> float:
    """One scale for all errors, as in figures: beyond it lie two pixels in a hundred."""
    parts = [
        np.abs(image - pictures.truth).ravel()
        for by_size in pictures.images.values()
        for image in by_size.values()
    ]
    known = np.concatenate(parts) if parts else np.zeros(0)
    known = known[np.isfinite(known)]
    reach = float(np.quantile(known, 0.98)) if known.size else 0.0
    return reach or 1.0


def _reduced(image: Array, factor: int) -> Array:
    """Means over squares of pixels; what is thinner than one stays as thin as it is."""
    down, across = (min(factor, length) for length in image.shape)
    rows, columns = image.shape[0] // down, image.shape[1] // across
    cut = image[: rows * down, : columns * across]
    return np.asarray(cut.reshape(rows, down, columns, across).mean(axis=(1, 3)))


def _grey(image: Array, low: float, high: float) -> str:
    return _png(Image.fromarray(_levels((image - low) / (high - low))))


def _coloured(errors: Array, reach: float) -> str:
    picture = Image.fromarray(_levels(0.5 + 0.5 * errors / reach))
    coloured = Image.new("P", picture.size)
    coloured.putdata(picture.tobytes())
    coloured.putpalette(_palette())
    return _png(coloured)


@lru_cache
def _palette() -> bytes:
    colours = np.asarray(colormaps[ERRORS](np.arange(256)))[:, :3]
    return np.round(255 * colours).astype(np.uint8).tobytes()


def _levels(share: Array) -> NDArray[np.uint8]:
    return np.round(255 * np.clip(np.nan_to_num(share, nan=0.5), 0.0, 1.0)).astype(np.uint8)


def _png(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def figure_uri(figure: Figure, *, dpi: int) -> str:
    """A figure as an address that holds it, in 256 colours: a third of the size."""
    content = io.BytesIO()
    with style():
        figure.savefig(content, format="png", dpi=dpi)
    return _png(Image.open(content).convert("RGB").quantize(256))


def _bytes(content: Any) -> int:
    """About how long the content is in a page."""
    if isinstance(content, Mapping):
        return sum(_bytes(value) + 8 for value in content.values())
    if isinstance(content, list):
        return sum(_bytes(value) + 1 for value in content)
    return len(content) if isinstance(content, str) else 12
