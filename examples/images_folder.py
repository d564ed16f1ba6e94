"""Images of one's own: read a folder, split it by patients, and print the split.

Without a folder, one is made: twelve patients with three to eight slices each, as Hounsfield units
in .npy files of different sizes.

Usage: python examples/images_folder.py [FOLDER] [--side 32] [--unit HU] [--seed 1]
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from korisk.errors import KoriskError
from korisk.images import ImageSet, image_pools, read_images, relative
from korisk.problems import random_ellipses

PATIENTS = 12


def make_folder(folder: Path, *, seed: int = 1) -> None:
    """Patients of 40 to 72 pixels, a folder each; organs of up to 1.5 times water's attenuation."""
    rng = np.random.default_rng(seed)
    for number in range(PATIENTS):
        home = folder / f"patient{number:02}"
        home.mkdir()
        slices = int(rng.integers(3, 9))
        organs = random_ellipses(slices, seed=seed, stream=f"patient {number}")
        for index, water in enumerate(organs.images(int(rng.integers(40, 73))).numpy()):
            np.save(home / f"slice{index}.npy", np.round(1000 * (water - 1)).astype(np.int16))


def tell(images: ImageSet, *, seed: int) -> None:
    """The summary, and a split: a third for training, a sixth each to choose and to judge by."""
    print(images.summary())
    values = relative(images)
    print(f"In units of water: {values.min():.3g} to {values.max():.3g}.")
    sixth = len(images) // 6
    pools = image_pools(images, seed=seed, train=2 * sixth, validation=sixth, test=sixth)
    for name, pool in pools._asdict().items():
        whose = sorted({images.patients[index] for index in pool})
        first = ", ".join(whose[:4]) + (", ..." if len(whose) > 4 else "")
        print(f"{name}: {len(pool)} images of {len(whose)} patients ({first})")
    print(f"Fingerprint {images.fingerprint}.")


def main() -> None:
    """Read what the command line names."""
    parser = argparse.ArgumentParser(description="read a folder of images and split it")
    parser.add_argument("folder", nargs="?", type=Path, help="one is made if none is given")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument(
        "--unit", help="of files that do not say theirs: HU, 1/mm, 1/cm, 1/m, plain"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    try:
        if given.folder is not None:
            images = read_images(given.folder, side=given.side, unit=given.unit)
            tell(images, seed=given.seed)
            return
        with tempfile.TemporaryDirectory() as made:
            make_folder(Path(made))
            tell(read_images(made, side=given.side, unit="HU"), seed=given.seed)
    except KoriskError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
