"""Slices of six patients, one row each, framed by the pool that they are drawn into: no patient
is in two pools, and slices without a frame are in none."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from _chart import BLUE, GREEN, RED, TYPE, canvas
from matplotlib.patches import Rectangle
from pydicom import dcmread
from pydicom.data import get_testdata_file
from pydicom.uid import generate_uid

from korisk.images import image_pools, read_images, relative

with TemporaryDirectory() as folder:
    scan = dcmread(get_testdata_file("CT_small.dcm"))
    stored = scan.pixel_array
    for patient in range(6):
        for number in range(4):
            scan.PatientID = f"patient{patient}"
            scan.SOPInstanceUID = scan.file_meta.MediaStorageSOPInstanceUID = generate_uid()
            shift = (4 * patient, 3 * number)
            scan.PixelData = np.roll(stored, shift, axis=(0, 1)).tobytes()
            scan.save_as(Path(folder, f"{patient}-{number}.dcm"))
    images = read_images(folder, side=32)
    shown = relative(images)
pools = image_pools(images, seed=1, train=8, validation=4, test=4)
colours = dict(zip(pools._fields, (BLUE, GREEN, RED), strict=True))
figure, axes = canvas(width=4.2, height=4.1)
names = sorted(set(images.patients))
for row, name in enumerate(names):
    slices = [index for index, patient in enumerate(images.patients) if patient == name]
    y = 0.62 * (len(names) - row) - 0.55
    axes.text(0.05, y + 0.27, name, va="center", fontsize=TYPE)
    for place, index in enumerate(slices):
        x = 1.2 + 0.7 * place
        axes.imshow(shown[index], cmap="gray", extent=(x, x + 0.55, y, y + 0.55), aspect="auto")
        for pool, members in pools._asdict().items():
            if index in members:
                frame = {"fill": False, "edgecolor": colours[pool], "linewidth": 3}
                axes.add_patch(Rectangle((x, y), 0.55, 0.55, **frame))
axes.set(xlim=(0, 4.2), ylim=(0, 4.1))
for place, (pool, colour) in enumerate(colours.items()):
    axes.text(1.2 + 0.95 * place, 3.9, pool, color=colour, fontsize=TYPE, weight="bold")
