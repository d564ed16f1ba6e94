"""Three calls of one pilot, each a grid of sizes and seeds: the first trains up to N = 32, fails
twice at 16 and is interrupted; the second trains what is missing alone; the third the two
failures."""

from pathlib import Path
from tempfile import TemporaryDirectory

from _chart import BLUE, GREY, RED, TYPE, chart

import korisk as kr

SIZES, SEEDS = [4, 8, 16, 32], 2
LOOKS = {
    "trained": ("o", BLUE),
    "failed": ("X", RED),
    "interrupted": ("P", RED),
    "kept": (".", GREY),
}
mended, seen = False, {}


def fit(n, seed):
    """A training that fails, and is interrupted, until somebody mends it."""
    if n == 16 and not mended:
        seen[n, seed] = "failed"
        raise ValueError("the learning rate was too large")
    if n == 32 and seed == 1 and not mended:
        seen[n, seed] = "interrupted"
        raise KeyboardInterrupt
    seen[n, seed] = "trained"
    return 1 / n + 0.01 * seed / n


figure, panels = chart(height=2.9, columns=3)
with TemporaryDirectory() as folder:
    for call, axes in enumerate(panels):
        store, retry = Path(folder, "pilot.db"), call == 2
        before, seen = seen, {}
        try:
            kr.run_pilot(
                fit,
                SIZES,
                seeds=SEEDS,
                store=store,
                quiet=True,
                compute=kr.pilots.Compute(retry_failed=retry),
            )
        except KeyboardInterrupt:
            mended = True
        for place in before:
            seen.setdefault(place, "kept")
        for name, (marker, colour) in LOOKS.items():
            found = [(seed, SIZES.index(n)) for (n, seed), each in seen.items() if each == name]
            axes.plot(*zip(*found, strict=True) if found else ([], []), marker, color=colour, ms=9)
        axes.set_title(("first call", "second", "third, retry")[call], fontsize=TYPE)
        axes.set(xlim=(-0.6, 1.6), ylim=(-0.5, 3.5), xlabel="seed")
        axes.set_xticks(range(SEEDS))
        axes.set_yticks(range(len(SIZES)), SIZES if call == 0 else [""] * len(SIZES))
panels[0].set_ylabel("N")
marks = [panels[0].plot([], [], each[0], color=each[1])[0] for each in LOOKS.values()]
figure.legend(marks, LOOKS, loc="outside lower center", ncols=4, fontsize=TYPE, frameon=False)
