"""
What replacing a layer saves
============================

Every layer that is known need not be learned, and its part of the bound is gone. How many training
samples that saves depends on the target: the closer it is to the floor, the more.
"""

# %%
# A network in which everything is learned
# ----------------------------------------
# The same chain as filtered backprojection, but nobody told the network so: weights, filter and
# backprojection are all learned, with as many parameters as a real one would have at 32 x 32
# pixels. ``C`` and ``kappa`` are assumptions about how hard a layer is to learn; here they are the
# same for all, so that only the position and the parameters differ.

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import korisk as kr

VIEWS, BINS, SIDE = 40, 48, 32

learned: dict[str, Any] = {"C": 0.005, "width": 1.0, "kappa": 1e-5}
net = kr.Network(
    [
        kr.Learned("W", parameters=VIEWS * BINS, lipschitz=1.0, **learned),
        kr.Learned("K", parameters=BINS**2, lipschitz=0.5, **learned),
        kr.Learned("A^T", parameters=VIEWS * BINS * SIDE**2, lipschitz=2.0, **learned),
        kr.Known("ReLU", lipschitz=1.0),
    ]
)

# %%
# One layer after the other becomes known
# ---------------------------------------
# ``replace`` without a new layer keeps the layer's norm and says that it is known from now on.

steps = {"all learned": net}
steps["$A^T$ known"] = net.replace("A^T")
steps["$A^T$ and K known"] = steps["$A^T$ known"].replace("K")
targets = np.geomspace(2e-5, 3e-3, 200)


def samples(network: kr.Network, target: float) -> float:
    """The N that the bound asks for; not a number where the floor is in the way."""
    try:
        return kr.sample_size(network, target)
    except kr.errors.UnreachableError:
        return np.nan


needed = {name: [samples(each, target) for target in targets] for name, each in steps.items()}

# %%
# The figure
# ----------
# Each curve ends where its floor is: what a layer of limited size cannot express, no data brings
# back. So a known operator saves samples at easy targets, and makes hard ones possible at all.

plt.style.use(Path(__file__).parent / "gallery.mplstyle")
figure, axes = plt.subplots()
for (name, numbers), colour in zip(needed.items(), ("C1", "C4", "C0"), strict=True):
    floor = kr.barron_bound(steps[name], 64).floor
    label = f"{name}: {steps[name].parameters:,} parameters"
    axes.plot(targets, numbers, color=colour, label=label)
    axes.axvline(floor, color=colour, linestyle=":", linewidth=1)
target = 1e-3
before, after = kr.theory.savings(net, "A^T").samples(target)
axes.annotate(
    "", (target, after), (target, before), arrowprops={"arrowstyle": "-|>", "color": "0.3"}
)
axes.text(target * 0.92, (before * after) ** 0.5, f"{before / after:,.0f} times fewer", ha="left")
axes.set(xscale="log", yscale="log", xlabel="target for the squared error (harder to the right)")
axes.set(ylabel="training samples N", xlim=(3e-3, 2e-5), ylim=(1, 1e10))
axes.set_title("Samples that the bound asks for; dotted: the floor that no data removes")
axes.legend(loc="upper right", bbox_to_anchor=(0.94, 1.0))

figure.savefig("07_replacing_an_operator.png")
print(f"wrote 07_replacing_an_operator.png: {before:,} samples become {after:,}")
