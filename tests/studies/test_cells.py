"""What cells compute: the released numbers exactly, and the rigorous protocol's promises."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.dense import DenseRidge
from korisk.paper import published
from korisk.paper.reproduction import studies, sweeps
from korisk.problems import CtProblem, CtScanner, measure
from korisk.store.cells import Result, Task
from korisk.store.store import FlatRow
from korisk.studies.run.cells import run_cell
from korisk.studies.spec.study import Protocol, Study

RELEASED = Path(__file__).parents[2] / "examples" / "pilot_h8.csv"


def ignore(fraction: float) -> None:
    assert 0 <= fraction <= 1.0001


@cache
def cells(protocol: Protocol, side: int, seeds: int) -> list[tuple[Task, Result]]:
    chosen = list(range(1, seeds + 1))
    (study,) = studies(points=[side], protocols=[protocol], seeds=chosen, full=True)
    return [(task, run_cell(task, ignore)) for task in study.tasks]


def rows(protocol: Protocol, side: int, seeds: int) -> list[FlatRow]:
    found = cells(protocol, side, seeds)
    return [FlatRow(task=task, row=row) for task, result in found for row in result.rows]


def test_the_released_errors_at_8_pixels_are_met_one_by_one() -> None:
    ours = {
        (each.row.model, each.row.n, str(each.task.seed)): each.row.metrics["mse"]
        for each in rows("released", 8, 5)
    }
    compared = 0
    for model in ("KO", "FC"):
        theirs = Curve.read(RELEASED, model=model)
        for n, error, seed in zip(theirs.n.tolist(), theirs.error, theirs.seed, strict=True):
            assert ours[model, n, seed] == pytest.approx(float(error), rel=1e-6)
            compared += 1
    assert compared == 50


@pytest.mark.parametrize(
    ("side", "untrained"),
    [(8, 2.29e-3), (16, 8.10e-4), pytest.param(32, 3.06e-4, marks=pytest.mark.slow)],
)
def test_the_released_summary_is_met_to_four_digits(side: int, untrained: float) -> None:
    """Floor and sigma; and that the released fit is worse than the analytic weights are."""
    flat = rows("released", side, 5)
    (sweep,) = sweeps(flat)
    start = [each.row.metrics["mse"] for each in flat if each.row.n == 0]
    assert np.mean(start) == pytest.approx(untrained, rel=2e-3)
    assert min(sweep.known.means) > untrained
    (theirs,) = [row for row in published.RELEASED_CALIBRATION if side == row.H]
    for model, line in (("KO", theirs.known), ("FC", theirs.dense)):
        ours = sweep.line(model)
        assert f"{ours.floor:.3e}" == f"{line.floor:.3e}"
        assert f"{ours.slope:.3e}" == f"{line.slope:.3e}"


@pytest.mark.parametrize(
    ("seeds", "near"), [((1,), 0.06), pytest.param((1, 2, 3), 2e-3, marks=pytest.mark.slow)]
)
def test_the_released_dense_errors_at_128_pixels_are_met(
    seeds: tuple[int, ...], near: float
) -> None:
    """The dense half of the released GPU sweep, a mean of three seeds; one is near it.

    Its other half is trained for minutes.
    """
    sizes = (4, 16, 64)
    found = []
    scanner = CtScanner.released(128)
    for seed in seeds:
        problem = CtProblem(scanner=scanner, population="released")
        pools = problem.pools(seed=seed, train=64, validation=0, test=50)
        judge = Scorer(*pools.test, by="rmse_over_max")
        ridge = DenseRidge(*pools.train)
        fits = [ridge.training(n).fit(scorer=judge, grid=[1e-4, 1e-2, 1, 1e2, 1e4]) for n in sizes]
        assert {fit.penalty for fit in fits} == {1e4}  # the edge of their grid
        inputs, targets = pools.test
        found.append([measure(fit.predict(inputs), targets)["rmse_over_max"] for fit in fits])
    theirs = published.RELEASED_SWEEP
    expected = [theirs.dense[theirs.sizes.index(n)] for n in sizes]
    assert np.mean(found, axis=0) == pytest.approx(expected, rel=near)


@pytest.mark.parametrize(
    ("side", "seeds"), [(8, 2), pytest.param(8, 3, marks=pytest.mark.slow), (16, 1)]
)
def test_rigorous_training_is_nowhere_worse_than_none_and_lambda_at_no_edge(
    side: int, seeds: int
) -> None:
    found = rows("rigorous", side, seeds)
    for sweep in sweeps(found):
        assert sweep.untrained is not None
        assert max(sweep.known.means) <= 1.01 * sweep.untrained
    fitted = [each.row for each in found if each.row.n > 0]
    assert len(fitted) == 2 * 9 * seeds


def test_the_dense_network_passes_the_floor_that_the_paper_reads_off() -> None:
    (sweep,) = sweeps(rows("rigorous", 8, 2))
    floor = sweep.line("FC").floor
    last = dict(zip(sweep.dense.sizes.tolist(), sweep.dense.means, strict=True))[1024]
    assert last < 0.5 * floor


def small(**changes: Any) -> Task:
    content: dict[str, Any] = {
        **{"name": "x", "problem": {"beam": "fan"}, "sizes": [2, 8], "seeds": [4]},
        "points": [{"side": 24, "views": 20, "bins": 24}],
        "pools": {"validation": 8, "test": 8},
    }
    (task,) = Study(content | changes).tasks
    return task


def test_a_cell_gives_the_same_rows_again_and_the_same_at_fewer_sizes() -> None:
    whole, again = (run_cell(small(), ignore) for _ in range(2))
    fewer = run_cell(small(sizes=[2]), ignore)
    errors = {(row.model, row.n): row.metrics for row in whole.rows}
    assert errors == {(row.model, row.n): row.metrics for row in again.rows}
    for row in fewer.rows:
        assert errors[row.model, row.n]["mse"] == pytest.approx(row.metrics["mse"], rel=1e-5)


def test_a_cell_keeps_what_a_report_needs() -> None:
    result = run_cell(small(), ignore)
    found = [(row.model, row.n) for row in result.rows]
    assert found == [("KO", 0), ("KO", 2), ("KO", 8), ("FC", 2), ("FC", 8)]
    for row in result.rows:
        assert set(row.metrics) == {"mse", "relative", "rmse_over_max", "psnr", "ssim"}
    assert result.arrays["truth"].shape == (2, 24, 24)
    assert result.arrays["FC/8/images"].shape == (2, 24, 24)
    assert result.arrays["KO/2/weights"].shape == (20, 24)
    shown = torch.from_numpy(result.arrays["KO/8/images"].astype(np.float64))
    truth = torch.from_numpy(result.arrays["truth"].astype(np.float64))
    assert measure(shown, truth)["relative"] < 0.5


@pytest.mark.parametrize("beam", ["parallel", "fan"])
@pytest.mark.parametrize("noise", [{"gaussian": 0.05}, {"poisson": 1e4}])
def test_noise_costs_something(beam: str, noise: dict[str, float]) -> None:
    clean = run_cell(small(problem={"beam": beam}), ignore)
    noisy = run_cell(small(problem={"beam": beam, "noise": noise}), ignore)
    for without, with_noise in zip(clean.rows[:1], noisy.rows[:1], strict=True):
        assert with_noise.metrics["mse"] > 1.02 * without.metrics["mse"]


def test_lambda_is_chosen_by_what_the_study_names() -> None:
    for by in ("mse", "rmse_over_max"):
        dense = {"select": "test", "by": by, "grid": [1e-2, 1.0, 1e2]}
        result = run_cell(small(models={"FC": dense}), ignore)
        for row in result.rows:
            assert row.detail["score"] == pytest.approx(row.metrics[by], rel=1e-5)


def test_batches_are_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def recorded(seed: int) -> torch.Generator:
        asked.append(seed)
        return torch.Generator().manual_seed(seed)

    monkeypatch.setattr("korisk.studies.run.fits.released_generator", recorded)
    gradient = {"fit": "gradient", "iterations": 2, "batch": 2}
    run_cell(small(models={"KO": gradient}, seeds=[4]), ignore)
    assert asked == [4, 4]  # one for each training set


def test_progress_rises_to_the_end() -> None:
    both: dict[str, Any] = {"KO": {}, "FC": {}}
    for models in (both, {"KO": {"fit": "gradient", "iterations": 2}}):
        seen: list[float] = []
        run_cell(small(models=models), seen.append)
        assert seen == sorted(set(seen))
        assert seen[-1] == pytest.approx(1)


def test_pools_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korisk.studies.run.cells.free_memory", lambda device: 1000)
    with pytest.raises(KoriskError, match="use fewer samples or smaller images"):
        run_cell(small(), ignore)


def test_fits_can_be_chosen_model_by_model() -> None:
    gradient = {"fit": "gradient", "optimiser": "adam", "rate": 0.01, "iterations": 30, "batch": 4}
    trained = run_cell(small(models={"KO": gradient}), ignore)
    assert [(row.model, row.n) for row in trained.rows] == [("KO", 0), ("KO", 2), ("KO", 8)]
    assert set(trained.rows[2].detail) == {"seconds"}
    dense = run_cell(small(models={"FC": {"select": "leave-one-out"}}), ignore)
    assert [row.model for row in dense.rows] == ["FC", "FC"]
    assert all(math.isfinite(row.metrics["mse"]) for row in dense.rows)
