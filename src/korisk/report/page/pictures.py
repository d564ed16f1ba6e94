"""Reconstructions as PNGs in a page: grey images and coloured errors, limited in size."""

import base64
import io
import json
from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray
from PIL import Image

from korisk._json import JsonDict
from korisk.report.contents import Pictures, error_scale, grey_scale, relative_error

Array = NDArray[np.float64]

SIDES = (256, 128, 64, 32)  # pixels; the largest side whose pictures fit into a page is used
ERRORS = "RdBu_r"  # red above the truth, blue below, which colour-blind readers can tell apart


def framed(
    points: Sequence[tuple[str, Pictures]], *, most: int
) -> tuple[list[JsonDict], list[str]]:
    """Pictures of all points in at most `most` bytes, and the points whose pictures do not fit.

    All are reduced by the same factor; if the smallest do not fit, the first points are dropped.
    """
    frames: list[JsonDict] = []
    for side in SIDES:
        frames = [_frame(point, pictures, side) for point, pictures in points]
        if len(json.dumps(frames)) <= most:
            return frames, []
    dropped = []
    while frames and len(json.dumps(frames)) > most:
        dropped.append(frames.pop(0)["point"])
    return frames, dropped


def _frame(point: str, pictures: Pictures, most: int) -> JsonDict:
    truth = pictures.truth
    factor = max(1, -(-max(truth.shape[1:]) // most))
    low, high = grey_scale(truth)
    scale, _ = error_scale(
        image - truth for by_size in pictures.images.values() for image in by_size.values()
    )

    # A palette of 256 colours: a third of the bytes of an RGB image.
    shades = np.asarray(colormaps[ERRORS](np.arange(256)))[:, :3]
    palette = np.round(255 * shades).astype(np.uint8).tobytes()

    def grey(image: Array) -> str:
        return _png(Image.fromarray(_levels((image - low) / (high - low), factor)))

    def coloured(errors: Array) -> str:
        picture = Image.fromarray(_levels(0.5 + 0.5 * errors / scale, factor))
        paletted = Image.new("P", picture.size)
        paletted.putdata(picture.tobytes())
        paletted.putpalette(palette)
        return _png(paletted)

    def tile(image: Array, true_image: Array) -> JsonDict:
        rmse = relative_error(image, true_image)
        relative = float(f"{rmse:.4g}") if np.isfinite(rmse) else None
        return {"image": grey(image), "error": coloured(image - true_image), "relative": relative}

    frames = {
        model: {
            n: [tile(image, true_image) for image, true_image in zip(images, truth, strict=True)]
            for n, images in by_size.items()
        }
        for model, by_size in pictures.images.items()
    }
    return {
        "point": point,
        "seed": pictures.seed,
        "side": list(truth.shape[1:]),
        "reduced": factor,
        "grey": [low, high],
        "reach": scale,
        "sizes": sorted({n for by_size in frames.values() for n in by_size}),
        "truth": [grey(image) for image in truth],
        "frames": frames,
    }


def _levels(share: Array, factor: int) -> NDArray[np.uint8]:
    """Convert shares of a scale to bytes, averaged over squares of `factor` pixels.

    A side that is shorter than such a square is averaged as a whole.
    """
    down, across = (min(factor, length) for length in share.shape)
    rows, columns = share.shape[0] // down, share.shape[1] // across
    cut = share[: rows * down, : columns * across]
    mean = np.asarray(cut.reshape(rows, down, columns, across).mean(axis=(1, 3)))
    levels = 255 * np.clip(np.nan_to_num(mean, nan=0.5), 0.0, 1.0)
    return np.asarray(np.round(levels), np.uint8)


def _png(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
