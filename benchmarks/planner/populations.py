"""Populations of real images that come with packages, besides those of prediction/real_images.py.

    python -m benchmarks.planner.populations --out DIR [--sources DIR] [--populations a,b]

| population | package | file |
|---|---|---|
| photos | scikit-image, scikit-learn | 15 and 2 photographs |
| histology | scikit-image | ihc.png, cell.png, retina.jpg: stained tissue, cells, a retina |
| glyphs | matplotlib | DejaVu, STIX and Computer Modern fonts: letters, digits, signs |
| icons | Debian openclipart-png | PNG files of drawings, anywhere below --sources |

NAME.npz has uint8 arrays (count, 32, 32): `examples` (512) and `pool` (4096). No image is there
twice.

Pictures are averaged over blocks of pixels at two scales. Patches that do not overlap would be too
few: neighbours overlap by half (those of histology by three quarters), and each is turned at
random. A quarter of every picture (of histology: of every band of 128 rows), at its left or right
side, gives examples only, so that no pixel of an example is in the pool. Nearly flat patches are
dropped, and no picture or band gives more than a share of the patches.

A glyph has a random size and place and is upright, bright on black. A shape that one font uses for
several characters counts once, and a shape in a font gives one image. Drawings are cut to their
edges, made grey and inverted, so that paper is black. Drawings whose names differ in a number at
their end are variants, which are all in the pool or all among the examples. The folder of stars,
1,378 polygons in a circle, is left out.
"""

import argparse
import re
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageOps

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]

SIDE, FINE = 32, 4  # FINE x FINE samples are averaged in a pixel of a glyph
COUNTS = {"examples": 512, "pool": 4096}
GAP = 64  # images, more than a drawing has variants
LARGEST = 500_000  # bytes of a file: 19 drawings are larger, of up to 600 million pixels
FLAT = 6.0  # grey values: images of a smaller standard deviation are dropped
# fmt: off
PHOTOS = (
    "astronaut", "brick", "camera", "cell", "chelsea", "coffee", "coins", "grass", "gravel",
    "hubble_deep_field", "ihc", "moon", "motorcycle_left", "retina", "rocket",
)
# fmt: on
HISTOLOGY = {"ihc": 0, "cell": 0, "retina": 207}  # and the margin outside the round picture
BAND = 128  # rows
FONTS = r"DejaVuSans(?!Display)|DejaVuSerif(?!Display)|STIXGeneral|cm"
# Latin, Greek, Cyrillic; arrows and mathematics.
CHARACTERS = (*range(0x21, 0x180), *range(0x370, 0x460), *range(0x2190, 0x2300))
EM = 16, 36  # pixels, from the smallest to the largest size of a font


def bundled(names: Iterable[str]) -> list[Array]:
    """Pictures of scikit-image's wheel."""
    imread = import_module("skimage.io").imread
    data = Path(import_module("skimage").__file__ or "").parent / "data"
    return [imread(next(data.glob(f"{name}.*"))) for name in names]


def bands() -> list[Array]:
    """Pictures of tissue in bands, so that examples come from many places of them."""
    return [
        picture[row : row + BAND, margin : picture.shape[1] - margin]
        for picture, margin in zip(bundled(HISTOLOGY), HISTOLOGY.values(), strict=True)
        for row in range(margin, picture.shape[0] - margin - BAND + 1, BAND)
    ]


def tiles(grey: Array, scale: int, stride: int) -> Array:
    """Patches every `stride` pixels of the picture averaged over scale x scale pixels."""
    rows, columns = grey.shape[0] // scale, grey.shape[1] // scale
    small = grey[: scale * rows, : scale * columns].reshape(rows, scale, columns, scale)
    windows = np.lib.stride_tricks.sliding_window_view(small.mean((1, 3)), (SIDE, SIDE))
    return windows[::stride, ::stride].reshape(-1, SIDE, SIDE)


def patches(
    pictures: Sequence[Array], scales: tuple[int, int], stride: int, share: float
) -> dict[str, Bytes]:
    """Patches of pictures, each of which gives at most a share of them."""
    rng = np.random.default_rng(0)
    cut: dict[str, list[Array]] = {part: [] for part in COUNTS}
    for picture in pictures:
        grey = picture[..., :3] @ [0.2125, 0.7154, 0.0721] if picture.ndim > 2 else picture
        grey = grey[:, ::-1] if rng.random() < 0.5 else grey
        edge = max(3 * SIDE, grey.shape[1] // 4) // 6 * 6  # a whole pixel at scales 1, 2 and 3
        for part, side in (("examples", grey[:, :edge]), ("pool", grey[:, edge:])):
            both = np.concatenate([tiles(side, scale, stride) for scale in scales])
            both = rng.permutation(both[both.std((1, 2)) > FLAT])[: int(COUNTS[part] * share)]
            turns = rng.integers(4, size=len(both)).tolist()
            cut[part] += [np.rot90(tile, k) for tile, k in zip(both, turns, strict=True)]
    return {
        part: np.stack([cut[part][i] for i in rng.permutation(len(cut[part]))[:count]])
        .round()
        .astype(np.uint8)
        for part, count in COUNTS.items()
    }


def glyph(font: FT2Font, code: int, em: float) -> Bytes:
    """A character's shape, cut to its edges."""
    font.set_size(em, 72)
    font.set_text(chr(code))
    font.draw_glyphs_to_bitmap()
    return np.array(font)


def glyphs() -> dict[str, Bytes]:
    """Characters of fonts, each of a random size and place."""
    rng = np.random.default_rng(0)
    files = sorted(Path(get_data_path(), "fonts/ttf").glob("*.ttf"))
    fonts = [FT2Font(str(file)) for file in files if re.match(FONTS, file.stem)]
    shapes: dict[tuple[int, bytes], int] = {}
    for i, font in enumerate(fonts):
        for code in sorted(font.get_charmap().keys() & {*CHARACTERS}):
            if unicodedata.category(chr(code))[0] in "LNPS":
                shapes.setdefault((i, glyph(font, code, SIDE * FINE).tobytes()), code)
    drawn: dict[bytes, Bytes] = {}
    combinations = [(fonts[i], code) for (i, _), code in shapes.items()]
    for k in rng.permutation(len(combinations)).tolist():
        font, code = combinations[k]
        shape = glyph(font, code, FINE * rng.uniform(*EM))
        room = SIDE * FINE - np.array(shape.shape)
        if room.min() >= 0:
            row, column = rng.integers(room + 1)
            fine = np.zeros((SIDE * FINE, SIDE * FINE))
            fine[row : row + shape.shape[0], column : column + shape.shape[1]] = shape
            image = fine.reshape(SIDE, FINE, SIDE, FINE).mean((1, 3)).round().astype(np.uint8)
            if image.std() > 2 * FLAT:  # no dots
                drawn.setdefault(image.tobytes(), image)
    return parted(list(drawn.values()))


def icons(sources: Path) -> dict[str, Bytes]:
    """Drawings on white paper, made grey and inverted."""
    variants: dict[str, list[Bytes]] = {}
    seen: set[bytes] = set()
    for file in sorted(sources.rglob("openclipart/png/**/*.png")):
        if file.is_symlink() or file.stat().st_size > LARGEST or file.parent.name == "stars":
            continue
        drawing = Image.open(file).convert("RGBA")
        paper = Image.new("RGBA", drawing.size, "white")
        ink = ImageChops.invert(Image.alpha_composite(paper, drawing).convert("L"))
        small = ImageOps.pad(ink.crop(ink.getbbox()), (SIDE, SIDE), Image.Resampling.BOX)
        image = np.array(small)
        if image.std() > FLAT and image.tobytes() not in seen:
            seen.add(image.tobytes())
            variants.setdefault(re.sub(r"[_\d]+$", "", file.stem), []).append(image)
    order = np.random.default_rng(0).permutation(len(variants)).tolist()
    groups = list(variants.values())
    arrays = parted([image for i in order for image in groups[i]])
    rng = np.random.default_rng(1)  # so that variants are not neighbours
    return {part: rng.permutation(values) for part, values in arrays.items()}


def parted(images: Sequence[Bytes]) -> dict[str, Bytes]:
    """The first images as examples, the last as pool: no variants of one drawing are in both."""
    print(f"{len(images)} images")
    if len(images) < sum(COUNTS.values()) + GAP:
        raise SystemExit("not enough images: are all sources there?")
    return {
        "examples": np.stack(images[: COUNTS["examples"]]),
        "pool": np.stack(images[-COUNTS["pool"] :]),
    }


def main() -> None:
    """Write NAME.npz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of NAME.npz")
    parser.add_argument("--sources", type=Path, help="folder with the unpacked openclipart-png")
    parser.add_argument("--populations", default="photos,histology,glyphs,icons")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for name in a.populations.split(","):
        if name == "photos":
            samples = import_module("sklearn.datasets").load_sample_images().images
            arrays = patches([*bundled(PHOTOS), *samples], (2, 3), SIDE // 2, 1 / 4)
        elif name == "histology":
            arrays = patches(bands(), (1, 2), SIDE // 4, 1 / 8)
        elif name == "glyphs":
            arrays = glyphs()
        elif name == "icons" and a.sources is not None:
            arrays = icons(a.sources)
        else:
            parser.error(f"there is no population {name!r}, or it needs --sources")
        np.savez_compressed(a.out / f"{name}.npz", **arrays)  # type: ignore[arg-type]
        print(name, {part: len(values) for part, values in arrays.items()}, flush=True)


if __name__ == "__main__":
    main()
