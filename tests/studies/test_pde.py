"""Fields of an equation: what is drawn, hybrid networks and soft PINNs, and studies of them."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import korisk as kr
from korisk.ablation import Replacement
from korisk.cli.app import app
from korisk.errors import KoriskError
from korisk.networks.fields import FieldNet
from korisk.operators import Diffusion
from korisk.prediction import Training
from korisk.problems import PdeProblem
from korisk.studies import Study
from korisk.studies.run.cells import run_cell

BURGERS: dict[str, Any] = {"kind": "pde", "equation": "burgers", "points": 8, "fine": 2}
BURGERS |= {"time": 0.2, "amplitude": 0.5, "decay": 1.5}
NETWORKS = [{"kind": kind, "steps": 40, "width": 4} for kind in ("solver-cnn", "cnn")]


def problem(**changes: Any) -> PdeProblem:
    numbers = {key: value for key, value in BURGERS.items() if key != "kind"}
    return PdeProblem(**{**numbers, **changes})


def later(**changes: Any) -> Tensor:
    """Fields at the end, of the same fields at the start."""
    return problem(noise=0.0, **changes).pools(seed=1, train=16, validation=0, test=0).train.targets


@pytest.mark.parametrize("dimension", [1, 2])
def test_finer_cells_converge_and_means_over_cells_stay_the_sum(dimension: int) -> None:
    # Cells at the start are sampled at their left ends, so that all of it is of first order.
    coarse, middle, fine = (later(dimension=dimension, fine=number) for number in (2, 4, 8))
    assert float((fine - middle).abs().mean()) < 0.7 * float((middle - coarse).abs().mean())
    made = problem(dimension=dimension, noise=0.0)
    inputs, targets = made.pools(seed=1, train=8, validation=0, test=0).train
    start = inputs / torch.from_numpy(made.gains)
    axes = tuple(range(1, dimension + 1))
    torch.testing.assert_close(start.mean(axes), targets.mean(axes), rtol=0, atol=1e-12)


def test_the_plane_without_burgers_is_the_linear_flow() -> None:
    made = PdeProblem(dimension=2, points=6, noise=0.0, speed=0.3, viscosity=0.02)
    inputs, targets = made.pools(seed=1, train=3, validation=0, test=0).train
    flow = Diffusion((6, 6), viscosity=0.02, speed=0.3, time=0.1, dtype=torch.float64)
    torch.testing.assert_close(flow(inputs / torch.from_numpy(made.gains)), targets)
    # Four directions over 2: the variance of a series on a line, and that of the mean.
    draws = made.pools(seed=2, train=400, validation=0, test=0).train.inputs
    variance = float((draws / torch.from_numpy(made.gains)).var())
    assert variance == pytest.approx(0.9**2 * (1 + 1 / 16), rel=0.15)


def test_the_hybrid_starts_at_its_solver_and_all_have_the_same_convolutions() -> None:
    made = problem(assumed=0.02)
    x = made.pools(seed=1, train=4, validation=0, test=0).train.inputs.float()
    hybrid, plain = (made.networks(kind)(5) for kind in ("solver-cnn", "cnn"))
    assert isinstance(hybrid, FieldNet)
    with torch.no_grad():
        solved = made.solver(0.02)(x)
        apart = (hybrid(x) - solved).square().mean() / solved.square().mean()
    assert float(apart) < 0.01
    counts = {sum(w.numel() for w in net.parameters()) for net in (hybrid, plain)}
    assert len(counts) == 1
    described = kr.describe(hybrid, x[:1])
    assert described["S"].kind == "known"
    assert math.isfinite(described["S"].bracket.upper)


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_study_runs_all_networks(dimension: int) -> None:
    content: dict[str, Any] = {"name": "b", "points": [{}]}
    content["problem"] = {**BURGERS, "dimension": dimension}
    content |= {"sizes": [2, 8], "seeds": [1], "pools": {"validation": 4, "test": 6}}
    networks = [NETWORKS[0]] if dimension == 2 else NETWORKS
    study = Study({**content, "models": {"KO": {}, "FC": {}, "networks": networks}})
    assert study.tasks[0].point == "viscosity 0.01 for 0.01"
    result = run_cell(study.tasks[0], lambda _: None)
    last = {row.model: row.metrics["mse"] for row in result.rows if row.n == 8}
    assert set(last) == {"KO", "FC", *(network["kind"] for network in networks)}
    assert last["solver-cnn"] < min(value for key, value in last.items() if key != "solver-cnn")


def test_rehearse_and_ablate_take_the_problem() -> None:
    made, training = problem(), Training(steps=20, batch=4, rate=0.01)
    builder = made.networks("solver-cnn", width=2)

    def hybrid() -> torch.nn.Module:
        return builder(int(torch.randint(2**31, ())))

    rehearsal = kr.rehearse(hybrid, made, sizes=[2, 4, 8], seeds=2, training=training)
    assert rehearsal.curve.sizes.tolist() == [2, 4, 8]
    ablation = kr.ablate(
        hybrid,
        made,
        replace=Replacement(layer="S", by="dense"),
        sizes=[2, 4, 8],
        seeds=2,
        training=training,
    )
    known, dense = ablation.first.curve, ablation.second.curve
    assert dense.means[-1] > known.means[-1]


def test_rehearse_on_the_command_line(tmp_path: Path) -> None:
    network = {**NETWORKS[0], "width": 2, "steps": 10}
    content = {"problem": BURGERS, "points": [{}], "models": {"networks": [network]}}
    path = tmp_path / "burgers.yaml"
    path.write_text(json.dumps({**content, "sizes": [2, 4, 8], "seeds": [1, 2]}))
    done = CliRunner().invoke(app, ["rehearse", str(path), "--target", "0.005", "--json"])
    assert "solver-cnn" in done.stdout, done.output


def test_networks_copy_and_keep_their_mark() -> None:
    net = problem().networks("solver-cnn")(1)
    x = torch.zeros(2, 8)
    torch.testing.assert_close(copy.deepcopy(net)(x), net(x))
    with pytest.raises(KoriskError, match="kind must be one of solver-cnn, cnn,"):
        problem().networks("unet")
    with pytest.raises(KoriskError, match="8 entries at least"):
        FieldNet((4,))
