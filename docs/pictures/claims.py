"""One test image as KO and FC reconstruct it from N = 4, 64 and 2,048 training images, beside the
truth, at H = 128 and 256: KO has streaks at N = 4, fewer later. FC shows a mixture of its training
images at N = 4 and a blurred truth at N = 2,048, with edges a third to a half as sharp as KO's."""

import json
from pathlib import Path
from statistics import mean

import numpy as np
from _chart import TYPE, WIDTH
from matplotlib.figure import Figure

SIZES = (4, 64, 2048)
kept = json.loads(Path("benchmarks/results/claims.json").read_text())["images"]["rows"]
pictures = np.load("benchmarks/results/claims_images.npz")


def sharpness(side: int, model: str, n: int) -> float:
    """The mean over seeds of what was measured."""
    wanted = {"side": side, "protocol": "released", "model": model, "n": n}
    return mean(each["metrics"]["sharpness"] for each in kept if wanted.items() <= each.items())


figure = Figure(figsize=(WIDTH, 6.1), layout="constrained")
grid = figure.subplots(4, 4)
for block, side in enumerate((128, 256)):
    truth = pictures[f"{side}/truth"].astype(float)
    for at, model in enumerate(("KO", "FC")):
        row = grid[2 * block + at]
        for axes, n in zip(row, SIZES, strict=False):
            shown = pictures[f"{side}/{model}/{n}"].astype(float)
            axes.imshow(shown, cmap="gray", vmin=0, vmax=truth.max())
            axes.set_xlabel(f"{sharpness(side, model, n):.2f}", fontsize=TYPE, labelpad=2)
            if not block and not at:
                axes.set_title(f"N = {n:,}", fontsize=TYPE)
        row[0].set_ylabel(f"{model}, {side}", fontsize=TYPE)
        if at:
            row[-1].axis("off")
        else:
            row[-1].imshow(truth, cmap="gray", vmin=0, vmax=truth.max())
            row[-1].set_title("truth", fontsize=TYPE)
for axes in grid.flat:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
