"""Studies of every kind: their files, their cells, and the errors of their layers."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from korisk.errors import KoriskError
from korisk.operators import Composed, Matrix
from korisk.paper.theorem.check import checks_of
from korisk.paper.theorem.layers import KnownLayers, refined_errors, refined_network
from korisk.paper.theorem.problems import DeepProblem
from korisk.problems import CtScanner, Pairs, PdeProblem, Reconstruction, sources
from korisk.store.cells import Result, Row
from korisk.store.store import Cell
from korisk.store.usage import Usage
from korisk.studies.run.cells import run_cell
from korisk.studies.spec.study import Study

CT = {"beam": "parallel", "ellipses": [1, 2]}
SMALL: dict[str, dict[str, Any]] = {
    "ct": {"problem": CT, "points": [{"side": 8, "views": 10, "bins": 12}]},
    "limited angle": {
        "problem": {**CT, "arc": 120.0},
        "points": [{"side": 8, "views": 10, "bins": 12}],
    },
    "mri": {
        "problem": {"kind": "mri", "noise": {"gaussian": 0.1}},
        "points": [{"side": 8, "lines": 5}],
    },
    "coils": {
        "problem": {"kind": "mri", "noise": {"gaussian": 0.1}},
        "points": [{"side": 8, "lines": 5, "coils": 2}],
    },
    "radial": {
        "problem": {"kind": "mri", "trajectory": "radial", "noise": {"gaussian": 0.1}},
        "points": [{"side": 8, "lines": 5}],
    },
    "spiral of coils that moves": {
        "problem": {"kind": "mri", "trajectory": "spiral", "motion": {"turn": 10.0}},
        "points": [{"side": 8, "lines": 4, "coils": 2}],
    },
    "motion": {
        "problem": {**CT, "motion": {"states": 3, "turn": 5.0, "shift": [1.0, 0.5]}},
        "points": [{"side": 8, "views": 10, "bins": 12}],
    },
    "blur": {
        "problem": {"kind": "blur", "noise": {"gaussian": 0.01}},
        "points": [{"side": 8}],
    },
    "heat": {
        "problem": {"kind": "pde", "points": 16},
        "points": [{"name": "exact"}, {"name": "wrong", "assumed": 0.02}],
    },
    "deep": {
        "problem": {"kind": "deep", "channels": 2},
        "points": [{"side": 8, "views": 6, "bins": 12}],
        "models": {"KO": {"iterations": 20}, "FC": {}},
    },
}


def study(kind: str, **other: Any) -> Study:
    content = {"name": kind, "sizes": [2, 8], "seeds": [1], "theorem": True, **SMALL[kind]}
    return Study({**content, "pools": {"validation": 4, "test": 6}, **other})


def run(made: Study, point: int = 0) -> Result:
    return run_cell(made.tasks[point], lambda _: None)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("mri", {"problem": {"kind": "mir"}}, "no problem of kind 'mir'; did you mean 'mri'"),
        ("mri", {"protocol": "released"}, "for kind ct only, got kind mri"),
        ("mri", {"problem": {"kind": "mri", "noise": {"poisson": 10.0}}}, "must be gaussian"),
        ("mri", {"points": [{"side": 8}]}, "lines is missing"),
        ("mri", {"points": [{"side": 8, "lines": 9}]}, "lines must be"),
        ("mri", {"points": [{"side": 8, "lines": 5, "mu": 0.1}]}, "belongs to several coils"),
        ("blur", {"problem": {"kind": "blur", "noise": {"poisson": 10.0}}}, "must be gaussian"),
        ("blur", {"points": [{"side": 8, "deviation": -1.0}]}, "deviation must be"),
        ("blur", {"points": [{"side": 8, "mu": 1e-30}]}, "mu must be"),
        ("heat", {"models": {"KO": {"relu": True}}}, "models.KO.relu must be false"),
        ("heat", {"points": [{"assumed": -1.0}]}, "viscosity must be"),
        ("heat", {"points": [{"equation": "burgers", "speed": 1.0}]}, "speed must be left out"),
        ("heat", {"points": [{"equation": "burgers", "viscosity": 0.0}]}, "viscosity must be"),
        ("heat", {"points": [{"dimension": 3}]}, "dimension must be"),
        (
            "heat",
            {"models": {"networks": [{"kind": "cnn", "penalty": 0.1}]}, "theorem": False},
            "networks.penalty does not belong to kind cnn",
        ),
        ("heat", {"models": {"KO": {"refine": 5}}}, "models.KO.refine must be 0"),
        ("heat", {"problem": {"kind": "pde", "noise": 1e308}}, "is not finite"),
        ("mri", {"problem": {"kind": "mri", "noise": {"gaussian": 1e308}}}, "is not finite"),
        ("deep", {"models": {"KO": {"iterations": 10**9}}}, "iterations must be less"),
        ("ct", {"models": {"networks": [{"kind": "unet"}]}}, "kind"),
        ("ct", {"models": {"networks": []}}, "networks"),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-unet", "levels": 4}]}, "theorem": False},
            "divisible by 16, got \\(8, 8\\)",
        ),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-cnn", "passes": 2}]}, "theorem": False},
            "networks.passes does not belong to kind inverse-cnn",
        ),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-cnn"}] * 2}, "theorem": False},
            "'inverse-cnn' twice",
        ),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-cnn", "name": "FC"}]}, "theorem": False},
            "'FC' twice",
        ),
        ("ct", {"models": {"networks": [{"kind": "inverse-cnn"}]}}, "where theorem is true"),
        (
            "ct",
            {
                "models": {"networks": [{"kind": "inverse-cnn"}]},
                "theorem": False,
                "pools": {"validation": 0, "test": 2},
            },
            "pools.validation is 0",
        ),
        (
            "heat",
            {"models": {"networks": [{"kind": "inverse-cnn"}]}, "theorem": False},
            "inverse-cnn is for problems of kind blur, ct, mri, got pde; use solver-cnn, cnn",
        ),
        ("deep", {"problem": {"kind": "deep", "channels": 0}}, "channels must be"),
        ("deep", {"problem": {"kind": "deep", "network": "unet"}}, "network must be one of"),
        ("deep", {"problem": {"kind": "deep", "near": 0.1}}, "there is no network"),
        (
            "deep",
            {
                "problem": {"kind": "deep", "network": "inverse-unet"},
                "points": [{"side": 6, "views": 6, "bins": 8}],
            },
            "side must be divisible by 4",
        ),
        ("ct", {"points": [{"side": 8, "beam": "surrogate", "arc": 90.0}]}, "arc must be"),
        ("ct", {"problem": {"beam": "parallel", "arc": 181.0}}, "arc must be .*180"),
    ],
)
def test_what_is_wrong_is_said_before_a_run(kind: str, change: dict[str, Any], words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        study(kind, **change)


def test_points_have_names_that_tell_them_apart() -> None:
    mri = study("mri", points=[{"side": 8, "lines": 5}, {"side": 8, "lines": 3}])
    assert [task.point for task in mri.tasks] == ["5 of 8 lines", "3 of 8 lines"]
    heat = study("heat", points=[{}, {"assumed": 0.02}])
    coils = study("mri", points=[{"side": 8, "lines": 5}, {"side": 8, "lines": 5, "coils": 2}])
    assert [task.point for task in coils.tasks] == ["5 of 8 lines", "5 of 8 lines, 2 coils"]
    blur = study("blur", points=[{"side": 8}, {"side": 8, "assumed": 1.5}])
    assert [task.point for task in blur.tasks] == [f"side 8, blur {x} for 1" for x in (1, 1.5)]
    expected = [f"viscosity {assumed} for 0.01" for assumed in (0.01, 0.02)]
    assert [task.point for task in heat.tasks] == expected


def test_a_ct_study_of_before_has_the_spec_of_before() -> None:
    """By its hash a store knows whether to carry on; this is that of before other kinds came."""
    content = {"name": "x", "points": [{"side": 8}], "sizes": [4, 8]}
    assert Study(content).tasks[0].spec_hash == "070dcfbfc53addfe"


def test_a_study_that_ran_is_read_again_from_what_its_store_keeps() -> None:
    for kind in SMALL:
        made = study(kind)
        again = Study(made.content, ran=True)
        assert [task.key for task in again.tasks] == [task.key for task in made.tasks]
        assert [task.spec_hash for task in again.tasks] == [task.spec_hash for task in made.tasks]


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {kind: run(study(kind), point=-1) for kind in SMALL}


@pytest.mark.parametrize("kind", SMALL)
def test_every_network_stays_within_every_bound(kind: str, results: dict[str, Result]) -> None:
    result = results[kind]
    for row in result.rows:  # the theorem's error is the test error
        whole = row.metrics["mse"] * result.detail["pixels"]
        assert row.detail["theorem"]["error"] == pytest.approx(whole, rel=1e-5)
    usage = Usage(started="", seconds=0.0)
    task = study(kind).tasks[-1]
    cell = Cell(task=task, rows=result.rows, detail=result.detail, usage=usage)
    checks = list(checks_of(cell))
    assert len(checks) == len(results[kind].rows) == 5  # KO untrained, both models at both sizes
    for check in checks:
        assert set(check.bounds) == {"paper", "minkowski", "composed"}, check.reason
        bounds = [check.bounds[form].total for form in ("composed", "minkowski", "paper")]
        assert check.error <= bounds[0] * (1 + 1e-4)
        assert bounds[0] <= bounds[1] * (1 + 1e-9) <= bounds[2] * (1 + 2e-9)


def test_nothing_is_measured_by_layer_unless_asked() -> None:
    result = run(study("heat", theorem=False))
    assert "networks" not in result.detail
    assert not any("theorem" in row.detail for row in result.rows)


def test_errors_of_the_layers_of_a_heat_network_are_those_of_its_weights() -> None:
    """Computed again from the stored weights, by matrices of the two flows."""
    result = run(study("heat", points=[{"assumed": 0.02}]))
    problem = PdeProblem(points=16, assumed=0.02)
    inputs, targets = problem.pools(seed=1, train=0, validation=0, test=6).test
    true = problem.flow(0.01).as_matrix().numpy()
    used = problem.flow(0.02).as_matrix().numpy()
    x, y = inputs.numpy(), targets.numpy()
    weights = result.arrays["KO/8/weights"].astype(float)
    [row] = [row for row in result.rows if (row.model, row.n) == ("KO", 8)]
    layers = row.detail["theorem"]["layers"]

    def squares(errors: np.ndarray[Any, Any]) -> float:
        return float((errors**2).sum(1).mean())

    assert layers["W"] == pytest.approx(squares((1 / problem.gains - weights) * x), rel=1e-3)
    assert layers["E"] == pytest.approx(squares((weights * x) @ (true - used).T), rel=1e-3)
    assert layers["left out"] == pytest.approx(squares(y - (x / problem.gains) @ true.T), rel=1e-6)
    whole = squares(y - (weights * x) @ used.T)
    assert row.detail["theorem"]["error"] == pytest.approx(whole, rel=1e-3)


def test_without_noise_gains_are_learned_exactly_and_a_wrong_viscosity_remains() -> None:
    def known(sizes: list[int], **point: float) -> list[Row]:
        problem = {"kind": "pde", "points": 16, "noise": 0.0}
        made = run(study("heat", problem=problem, points=[point], sizes=sizes))
        return [row for row in made.rows if row.model == "KO"]

    untrained, _, last = known([8, 32])
    assert last.metrics["mse"] < 1e-8 * untrained.metrics["mse"]
    assert set(last.metrics) == {"mse", "relative"}
    layers = last.detail["theorem"]["layers"]
    assert layers["left out"] < 1e-20
    assert "E" not in layers  # exact, so it is not said to err
    _, few, many = known([32, 256], assumed=0.02)
    assert many.metrics["mse"] > 0.5 * few.metrics["mse"]
    assert many.detail["theorem"]["layers"]["E"] > 0.5 * few.detail["theorem"]["layers"]["E"] > 0


def test_a_deep_network_learns_both_parts() -> None:
    result = run(study("deep", models={"KO": {"iterations": 300}}, sizes=[16]))
    before, after = (row.detail["theorem"] for row in result.rows)
    assert after["error"] < before["error"] / 20
    for layer in ("W", "S"):
        assert after["layers"][layer] < before["layers"][layer] / 5
    assert {"converged", "loss", "seconds"} <= result.rows[1].detail.keys()


def test_a_common_factor_of_two_layers_is_no_error_of_either() -> None:
    problem = DeepProblem(scanner=CtScanner(side=8, views=6, bins=12, beam="parallel"))
    truth = problem.true_network()
    test = problem.pools(seed=1, train=0, validation=0, test=3).test
    same = deepcopy(truth)
    with torch.no_grad():
        same.weights.mul_(2.0)
        same.refinement[0].weight.div_(2.0)  # type: ignore[operator]
    found = refined_errors(truth, same, test.inputs)
    size = float(test.targets.square().flatten(1).sum(1).mean())
    assert max(found.values()) < 1e-9 * size


def test_what_is_left_out_is_measured_behind_the_relu() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    inputs = torch.rand(30, 4, generator=generator, dtype=torch.float64)
    test = Pairs(inputs, (inputs @ matrix.T).relu() + 0.1)
    tail = Composed([Matrix(matrix)])
    ones = torch.ones(4, dtype=torch.float64)
    layers = KnownLayers(tail, None, test, toward=ones, relu=True, gram=None)
    by_hand = test.targets - ((inputs * layers.weights) @ matrix.T).relu()
    assert layers.left_out == pytest.approx(float(by_hand.square().sum(1).mean()))
    linear = KnownLayers(tail, None, test, toward=ones, relu=False, gram=None)
    without = test.targets - (inputs * linear.weights) @ matrix.T
    assert linear.left_out == pytest.approx(float(without.square().sum(1).mean()))
    assert linear.left_out != pytest.approx(layers.left_out, rel=0.01)


def test_a_second_operator_errs_at_what_the_first_one_hands_it() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second, wrong_first, wrong_second = (
        torch.randn(3, 3, generator=generator, dtype=torch.float64) for _ in range(4)
    )
    inputs = torch.rand(10, 3, generator=generator, dtype=torch.float64)
    test = Pairs(inputs, inputs @ first.T @ second.T)
    truth = Reconstruction(torch.ones(3, dtype=torch.float64), (Matrix(first), Matrix(second)))
    used = Composed([Matrix(wrong_first), Matrix(wrong_second)])
    layers = KnownLayers(used, truth, test, toward=truth.weights, relu=False, gram=None)
    weights = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    z = inputs * weights
    found = layers.errors(weights)
    at_second = z @ wrong_first.T
    expected = {
        "W": inputs - z,
        "M": z @ (first - wrong_first).T,
        "M (2)": at_second @ (second - wrong_second).T,
        "left out": torch.zeros(1, 3),
    }
    assert found == {
        name: pytest.approx(float(error.square().sum(1).mean()), abs=1e-12)
        for name, error in expected.items()
    }


def test_the_dense_layer_errs_before_its_relu(results: dict[str, Result]) -> None:
    told = [row.detail["theorem"] for row in results["ct"].rows if row.model == "FC"]
    assert all(each["layers"]["M"] >= each["error"] for each in told)
    assert told[-1]["layers"]["M"] > 1.001 * told[-1]["error"]


def test_the_constant_of_the_true_convolutions_is_that_of_their_matrices() -> None:
    problem = DeepProblem(scanner=CtScanner(side=8, views=6, bins=12, beam="parallel"), channels=2)
    truth = problem.true_network()
    product = 1.0
    for at, channels in ((0, 1), (2, 2)):
        convolution = truth.refinement[at]
        zero = torch.zeros(1, channels, 8, 8)
        rows = torch.autograd.functional.jacobian(convolution, zero).flatten(4).flatten(0, 3)  # type: ignore[no-untyped-call]
        product *= float(torch.linalg.matrix_norm(rows.double(), 2))
    upper = refined_network(truth)["S"].bracket.upper
    assert product * (1 - 1e-6) <= upper <= 1.03 * product


@pytest.mark.parametrize("kind", ["ct", "coils", "blur"])
def test_networks_of_the_zoo_are_models_like_others(kind: str) -> None:
    networks = [
        {"kind": "inverse-unet", "name": "U-Net", "width": 3, "steps": 10, "batch": 4},
        {"kind": "primal-dual", "width": 3, "passes": 1, "steps": 10, "batch": 4},
    ]
    models = {"FC": {}, "networks": networks}
    made = study(kind, models=models, theorem=False)
    assert list(made.tasks[0].spec["models"]) == ["FC", "U-Net", "primal-dual"]
    shares: list[float] = []
    first = run_cell(made.tasks[0], shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    rows = {(row.model, row.n): row for row in first.rows}
    assert set(rows) == {(model, n) for model in ("FC", "U-Net", "primal-dual") for n in (2, 8)}
    for (model, n), row in rows.items():
        assert 0 < row.metrics["mse"] < 1
        assert first.arrays[f"{model}/{n}/images"].shape == (2, 8, 8)
    # What is computed at a size depends on nothing but the study, the size and the seed.
    fewer = run(study(kind, models={"networks": networks[:1]}, theorem=False, sizes=[8]))
    assert fewer.rows[0].metrics["mse"] == pytest.approx(rows["U-Net", 8].metrics["mse"], rel=1e-5)


def test_a_trained_network_is_better_than_its_inverse_alone() -> None:
    networks = [{"kind": "inverse-cnn", "width": 4, "steps": 200, "batch": 8, "rate": 0.003}]
    problem = {**CT, "noise": {"gaussian": 0.1}}
    sizes, models = [64], {"KO": {}, "networks": networks}
    made = run(study("ct", problem=problem, sizes=sizes, models=models, theorem=False))
    errors = {(row.model, row.n): row.metrics["mse"] for row in made.rows}
    assert errors["inverse-cnn", 64] < 0.9 * errors["KO", 0]


def test_images_must_suffice_for_every_seed(tmp_path: Path) -> None:
    """One patient has most images: where that one is held out, too few are left to learn from."""
    rng = np.random.default_rng(0)
    for patient in range(10):
        (tmp_path / f"p{patient}").mkdir()
        for slice_ in range(60 if patient == 0 else 6):
            np.save(tmp_path / f"p{patient}" / f"{slice_}.npy", rng.random((8, 8)))
    content = with_images(tmp_path, sizes=[2, 64], pools={"validation": 6, "test": 6})
    suffices = []
    for seed in range(1, 17):
        try:
            Study(content | {"seeds": [seed]}, folder=tmp_path.parent)
        except KoriskError:
            continue
        suffices.append(seed)
    assert 0 < len(suffices) < 16
    with pytest.raises(KoriskError):
        Study(content | {"seeds": list(range(1, 17))}, folder=tmp_path.parent)


def test_weights_that_no_linear_fit_improves_are_trained_with_the_relu() -> None:
    """Behind the ReLU, MRI's linear fits are worse than no fit at all."""
    points = [{"side": 16, "lines": 9, "centre": 5}]
    pools = {"validation": 32, "test": 32}
    problem = {"kind": "mri"}
    common = {"problem": problem, "points": points, "pools": pools, "sizes": [64], "theorem": False}
    untrained, closed = run(study("mri", models={"KO": {"refine": 0}}, **common)).rows
    _, refined = run(study("mri", models={"KO": {"refine": 30}}, **common)).rows
    assert closed.detail["lambda"] is None  # infinite: the analytic weights
    assert closed.metrics["mse"] == untrained.metrics["mse"]
    assert refined.metrics["mse"] < 0.8 * untrained.metrics["mse"]
    assert refined.detail["lambda"] > 0


@pytest.mark.parametrize("kind", ["coils", "blur"])
def test_errors_behind_coils_and_blurs_fall_with_more_images(kind: str) -> None:
    models = {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}}
    pools = {"validation": 32, "test": 64}
    made = study(kind, models=models, sizes=[4, 256], pools=pools, theorem=False)
    errors = {(row.model, row.n): row.metrics["mse"] for row in run(made).rows}
    assert errors["FC", 256] < 0.3 * errors["FC", 4]
    assert errors["KO", 256] <= 1.01 * errors["KO", 4]
    assert errors["KO", 4] < errors["FC", 4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for patient in range(8):
        (tmp_path / f"patient{patient}").mkdir()
        for slice_ in range(3):
            image = rng.random((12, 12)).astype(np.float32)
            np.save(tmp_path / f"patient{patient}" / f"{slice_}.npy", image)
    return tmp_path


def with_images(folder: Path, **other: Any) -> dict[str, Any]:
    images = {"path": folder.name, "patients": "folder"}
    made = {"name": "mine", "problem": {"beam": "parallel", "images": images}, "sizes": [2, 8]}
    points = [{"side": 8, "views": 10, "bins": 12}]
    return {**made, "points": points, "seeds": [1], "pools": {"validation": 4, "test": 6}, **other}


def test_images_of_one_s_own_take_the_place_of_ellipses(folder: Path) -> None:
    first = run(Study(with_images(folder), folder=folder.parent))
    assert {row.model for row in first.rows} == {"KO", "FC"}
    truth = first.arrays["truth"].astype(float)
    assert truth.shape == (2, 8, 8)
    # Means over areas of uniform numbers: around a half, and narrower than the numbers were.
    assert abs(truth.mean() - 0.5) < 0.1
    assert truth.std() < 0.25
    mri = with_images(folder) | {
        "problem": {"kind": "mri", "images": {"path": folder.name, "patients": "folder"}},
        "points": [{"side": 8, "lines": 8}],
        "models": {"KO": {}},
    }
    [untrained, *_] = run(Study(mri, folder=folder.parent)).rows
    assert untrained.metrics["mse"] < 1e-12  # every line was taken, whatever the images are


def test_what_a_study_says_of_its_images_reaches_their_reading(folder: Path) -> None:
    """Hounsfield units in a folder, patients in a table beside the file of the study."""
    lines = ["file,patient"]
    for number, path in enumerate(sorted(folder.rglob("*.npy"))):
        np.save(path, np.load(path) * 2000 - 1000)
        lines.append(f"{path.relative_to(folder)},P{number % 5}")
    (folder.parent / "patients.csv").write_text("\n".join(lines))
    images = {"path": folder.name, "unit": "HU", "patients": "patients.csv"}
    content = with_images(folder, problem={"beam": "parallel", "images": images})
    truth = run(Study(content, folder=folder.parent)).arrays["truth"].astype(float)
    assert abs(truth.mean() - 1.0) < 0.2  # 0 HU is water, which is 1


def test_moved_images_are_the_same_study_and_other_images_another(folder: Path) -> None:
    first = Study(with_images(folder), folder=folder.parent)
    folder = folder.rename(folder.parent / f"{folder.name} moved")
    before = Study(with_images(folder), folder=folder.parent)
    assert first.tasks[0].spec_hash == before.tasks[0].spec_hash
    assert run(before).rows
    np.save(folder / "patient0" / "0.npy", np.eye(12, dtype=np.float32))
    sources._read.cache_clear()
    after = Study(with_images(folder), folder=folder.parent)
    assert before.tasks[0].spec_hash != after.tasks[0].spec_hash
    with pytest.raises(KoriskError, match="images have changed"):
        run(before)
