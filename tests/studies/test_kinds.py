"""Studies of every kind: their files and their cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk.errors import KoriskError
from korisk.problems import sources
from korisk.store.cells import Result, Row
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
}


def study(kind: str, **other: Any) -> Study:
    content = {"name": kind, "sizes": [2, 8], "seeds": [1], **SMALL[kind]}
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
            {"models": {"networks": [{"kind": "cnn", "passes": 2}]}},
            "networks.passes does not belong to kind cnn",
        ),
        ("heat", {"models": {"KO": {"refine": 5}}}, "models.KO.refine must be 0"),
        ("heat", {"problem": {"kind": "pde", "noise": 1e308}}, "is not finite"),
        ("mri", {"problem": {"kind": "mri", "noise": {"gaussian": 1e308}}}, "is not finite"),
        ("ct", {"models": {"networks": [{"kind": "unet"}]}}, "kind"),
        ("ct", {"models": {"networks": []}}, "networks"),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-unet", "levels": 4}]}},
            "divisible by 16, got \\(8, 8\\)",
        ),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-cnn", "passes": 2}]}},
            "networks.passes does not belong to kind inverse-cnn",
        ),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-cnn"}] * 2}},
            "'inverse-cnn' twice",
        ),
        (
            "ct",
            {"models": {"networks": [{"kind": "inverse-cnn", "name": "FC"}]}},
            "'FC' twice",
        ),
        (
            "ct",
            {
                "models": {"networks": [{"kind": "inverse-cnn"}]},
                "pools": {"validation": 0, "test": 2},
            },
            "pools.validation is 0",
        ),
        (
            "heat",
            {"models": {"networks": [{"kind": "inverse-cnn"}]}},
            "be one of solver-cnn, cnn for problems of kind pde, got 'inverse-cnn'",
        ),
        ("ct", {"points": [{"side": 8, "beam": "surrogate", "arc": 90.0}]}, "arc= belongs to"),
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


@pytest.mark.parametrize("kind", SMALL)
def test_every_kind_fits_both_networks_at_both_sizes(kind: str) -> None:
    rows = run(study(kind), point=-1).rows
    fits = [("KO", 0), ("KO", 2), ("KO", 8), ("FC", 2), ("FC", 8)]  # KO untrained too
    assert [(row.model, row.n) for row in rows] == fits
    assert all(0 < row.metrics["mse"] < 10 for row in rows)


def test_without_noise_gains_are_learned_exactly_and_a_wrong_viscosity_remains() -> None:
    def known(sizes: list[int], **point: float) -> list[Row]:
        problem = {"kind": "pde", "points": 16, "noise": 0.0}
        made = run(study("heat", problem=problem, points=[point], sizes=sizes))
        return [row for row in made.rows if row.model == "KO"]

    untrained, _, last = known([8, 32])
    assert last.metrics["mse"] < 1e-8 * untrained.metrics["mse"]
    assert set(last.metrics) == {"mse", "relative"}
    _, few, many = known([32, 256], assumed=0.02)
    assert many.metrics["mse"] > 0.5 * few.metrics["mse"]


@pytest.mark.parametrize("kind", ["ct", "coils", "blur"])
def test_networks_of_the_zoo_are_models_like_others(kind: str) -> None:
    networks = [
        {"kind": "inverse-unet", "name": "U-Net", "width": 3, "steps": 10, "batch": 4},
        {"kind": "primal-dual", "width": 3, "passes": 1, "steps": 10, "batch": 4},
    ]
    models = {"FC": {}, "networks": networks}
    made = study(kind, models=models)
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
    fewer = run(study(kind, models={"networks": networks[:1]}, sizes=[8]))
    assert fewer.rows[0].metrics["mse"] == pytest.approx(rows["U-Net", 8].metrics["mse"], rel=1e-5)


def test_a_trained_network_is_better_than_its_inverse_alone() -> None:
    networks = [{"kind": "inverse-cnn", "width": 4, "steps": 200, "batch": 8, "rate": 0.003}]
    problem = {**CT, "noise": {"gaussian": 0.1}}
    sizes, models = [64], {"KO": {}, "networks": networks}
    made = run(study("ct", problem=problem, sizes=sizes, models=models))
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
    common = {"problem": problem, "points": points, "pools": pools, "sizes": [64]}
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
    made = study(kind, models=models, sizes=[4, 256], pools=pools)
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
    spokes = {**mri, "problem": {**mri["problem"], "trajectory": "radial"}}
    assert Study(spokes, folder=folder.parent).tasks[0].point == "8 spokes, 8 pixels"


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
