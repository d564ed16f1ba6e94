"""What an answer rests on."""

import torch
from torch import nn

import korisk as kr
from korisk.operators import ParallelBeam, Projector, fbp
from korisk.prediction import Training
from korisk.prediction.rehearsal.rehearsal import Rehearsed
from korisk.prediction.sensitivity import sensitivity
from korisk.problems import Gaussian, Poisson, random_ellipses

BEAM = ParallelBeam(12, views=16, bins=18)


def network() -> nn.Module:
    return nn.Sequential(fbp(BEAM, trainable=True))


def test_noise_and_a_wrong_operator_change_errors_as_they_must() -> None:
    images = random_ellipses(64, seed=1, stream="examples").images(12)
    scan, training = Projector(BEAM), Training(steps=30, rate=0.01)
    seen: list[float] = []
    told = sensitivity(
        network,
        scan,
        images,
        Gaussian(0.3),
        2,
        training=training,
        progress=lambda what, share: seen.append(share),
    )
    half, twice, brighter, wrong = told
    assert half.ratio < 0.9 < 1.3 < twice.ratio
    assert half.lower <= half.ratio <= half.upper
    assert 0.8 < brighter.ratio < 1.25  # of relative noise, brightness makes no difference
    assert 1 < wrong.ratio < 3
    assert seen == sorted(seen)
    rehearsal = kr.rehearse(network, scan, images, 0.3, (8, 16, 32), 2, training=training)
    rehearsed = Rehearsed(rehearsal, changes=told)
    table = rehearsed.sensitivity_table([2 * float(rehearsal.curve.means[0])], 0.9)
    assert [row[0] for row in table.rows][:2] == ["as assumed", "noise x 0.5"]


def test_any_noise_can_be_scaled() -> None:
    images = random_ellipses(24, seed=1, stream="examples").images(12)

    def noisy(inputs: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
        return inputs + 0.3 * torch.randn(inputs.shape, generator=draws)

    for noise in (noisy, Poisson(1e3), None):  # a number has a test above
        told = sensitivity(network, Projector(BEAM), images, noise, 1, training=Training(steps=10))
        named = dict(zip([change.name for change in told], told, strict=True))
        assert ("noise x 2" in named) == (noise is not None)
        if noise is not None:
            assert named["noise x 0.5"].ratio < named["noise x 2"].ratio
