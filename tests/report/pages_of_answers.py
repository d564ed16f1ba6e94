"""A rehearsal and an ablation with made-up curves, in place of trainings."""

import korisk as kr
from korisk.ablation.ablation import Ablation
from korisk.prediction.misfit import BELIEF

SIZES = [16, 64, 256, 1024]


def rehearsed(factor: float = 1.0, model: str = "net") -> kr.Rehearsal:
    """A rehearsal of a curve that levels off."""
    means = [0.0023, 0.0014, 0.00102, 0.00092]
    errors = [factor * mean * seed for seed in (0.99, 1.01) for mean in means]
    return kr.Rehearsal(
        curve=kr.Curve(SIZES * 2, errors, [0] * 4 + [1] * 4, model, "mse"),
        simulated="inputs of A (noise: 0.05) from 64 example images",
        unaltered=36,
        level=0.05,
        parameters=4153,
        belief=BELIEF,
        notes=("A note.",),
    )


def ablated(target: float) -> Ablation:
    """A network with A^T, and one in which a dense layer needs twice the error."""
    first, second = rehearsed(), rehearsed(2.0, "net, dense")
    names = {"layer": "A^T", "by": "dense", "start": "random"}
    return Ablation(**names, first=first, second=second, target=target, bound_ratio=64.0)  # type: ignore[arg-type]
