"""Studies that are rehearsed: how each setting of a file changes the curves, and the JSON file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk.curves.curve import Curve
from korisk.errors import KoriskError, KoriskWarning
from korisk.prediction.record import (
    NAME,
    PointRecord,
    prediction_content,
    read_prediction,
    write_prediction,
)
from korisk.prediction.study import (
    PointPrediction,
    Question,
    Request,
    rehearse_study,
    study_to_rehearse,
)
from korisk.problems.sources import FileSource
from korisk.studies.run.cells import run_cell
from korisk.studies.spec.study import Study

CT: dict[str, Any] = {
    "name": "small",
    "problem": {"beam": "surrogate", "noise": {"gaussian": 0.05}},
    "points": [{"side": 8}],
}
HEAT: dict[str, Any] = {"name": "line", "problem": {"kind": "pde", "points": 12}, "points": [{}]}
MRI = {"name": "m", "problem": {"kind": "mri"}, "points": [{"side": 8, "lines": 5}]}
RELEASED = {"name": "r", "protocol": "released", "points": [{"side": 8}]}
SIZES = [4, 8, 16, 32]


def rehearsed(content: dict[str, Any] | Study, **settings: Any) -> PointPrediction:
    study = content if isinstance(content, Study) else Study(content, ran=True)
    options = {name: settings.pop(name) for name in ("model", "point") if name in settings}
    request = Request(**settings)
    sizes = {"sizes": SIZES, "seeds": 2}
    (made,) = rehearse_study(study, request, options=lambda given: sizes | dict(given), **options)
    return made


@pytest.fixture(scope="module")
def point() -> PointPrediction:
    return rehearsed(CT)


def errors(made: PointPrediction, model: str) -> list[float]:
    (one,) = (item for item in made.rehearsals if item.curve.model == model)
    return [float(error) for error in one.curve.means]


def models(made: PointPrediction) -> list[str]:
    return [view.model for view in made.forecasts]


def saved(folder: Path, count: int) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(count):
        np.save(folder / f"{index}.npy", np.pad(rng.random((6, 6)), 1))
    return folder


def test_the_linear_models_of_a_study_are_fitted(point: PointPrediction) -> None:
    assert models(point) == ["KO", "FC"]
    assert [item.parameters for item in point.rehearsals] == [80, 80 * 64]
    assert all("fitted exactly" in item.simulated for item in point.rehearsals)
    assert point.name == "rigorous-8"
    assert point.usage.seconds > 0
    assert errors(rehearsed(CT | {"models": {"FC": {}}}), "FC") == errors(point, "FC")
    assert models(rehearsed(CT, model="KO")) == ["KO"]


def test_with_the_same_seeds_a_rehearsal_is_what_a_run_of_the_study_measures() -> None:
    """Phantoms are drawn without limit: the same seeds draw the same pairs."""
    pools = {"validation": 64, "test": 256}
    models = {"KO": {"refine": 0}, "FC": {}}
    study = Study(CT | {"sizes": SIZES, "seeds": [11, 12], "pools": pools, "models": models})
    made = {item.curve.model: item.curve for item in rehearsed(study).rehearsals}
    for task in study.tasks:
        for row in run_cell(task, lambda _: None).rows:
            if row.n:
                curve = made[row.model]
                here = (curve.n == row.n) & (np.array(curve.seed) == str(task.seed))
                assert curve.error[here] == pytest.approx([row.metrics["mse"]], rel=1e-6)


def test_noise_replaces_that_of_the_study(point: PointPrediction) -> None:
    loud = rehearsed(CT, noise=0.2)
    for model in ("KO", "FC"):
        assert errors(loud, model)[1] > errors(point, model)[1]
    assert loud.spec["problem"]["noise"] == {"gaussian": 0.2}
    assert rehearsed(CT, noise=0.0).spec["problem"]["noise"] is None
    bare = {**CT, "problem": {"beam": "surrogate"}}
    assert errors(rehearsed(bare, noise=0.05), "FC") == errors(point, "FC")


def test_settings_of_the_models_reach_the_fits(point: PointPrediction) -> None:
    plain = rehearsed(CT | {"models": {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}}})
    assert errors(plain, "FC")[0] > errors(point, "FC")[0]  # a ReLU takes off negative values
    assert plain.notes == ()
    assert [entry["relu"] for entry in plain.to_dict(Question())["models"]] == [False, False]
    assert [entry["relu"] for entry in point.to_dict(Question())["models"]] == [True, True]
    zero = rehearsed(CT | {"models": {"KO": {"toward": "zero"}}})
    assert errors(zero, "KO")[0] > errors(point, "KO")[0]


def test_differences_from_the_study_are_noted(point: PointPrediction) -> None:
    assert "refines KO" in " ".join(point.notes)
    trained = rehearsed(CT | {"models": {"KO": {"fit": "gradient"}}, "metric": "relative"})
    told = " ".join(trained.notes)
    assert all(fact in told for fact in ("exact fit", "relative", "mse"))
    assert "refines" not in " ".join(rehearsed(CT, model="FC").notes)


def test_heat_mri_and_blur_are_rehearsed() -> None:
    heat = rehearsed(HEAT, noise=0.05)
    assert heat.spec["problem"]["noise"] == 0.05
    blur = {"name": "b", "problem": {"kind": "blur"}, "points": [{"side": 8}]}
    coils = {**MRI, "points": [{"side": 8, "lines": 5, "coils": 2}]}
    for study in (MRI, coils, blur):
        assert models(rehearsed(study)) == ["KO", "FC"]


def test_own_images_are_other_examples(tmp_path: Path, point: PointPrediction) -> None:
    folder = saved(tmp_path / "mine", 14)
    made = rehearsed(CT, source=FileSource(path=str(folder), patients="file"), examples=14)
    assert "14 example images" in made.images
    assert errors(made, "FC") != errors(point, "FC")
    assert made.spec["problem"]["images"] == {"path": str(folder)}
    assert not any("asked for" in note for note in made.notes)


def test_a_study_of_own_images_needs_none_to_train_on(tmp_path: Path) -> None:
    """A study that asks for more images than there are can be rehearsed, though not run."""
    saved(tmp_path / "mine", 14)
    file = tmp_path / "study.yaml"
    file.write_text(
        "problem: {images: {path: mine, patients: file}, beam: surrogate}\npoints: [{side: 8}]\n"
    )
    with pytest.raises(KoriskError):
        Study.read(file)
    study = study_to_rehearse(file)
    assert study.name == "study"
    assert "14 example images" in rehearsed(study).images


@pytest.mark.parametrize(
    ("study", "settings", "words"),
    [
        (CT, {"noise": -0.1}, "noise must be a finite number >= 0"),
        (CT, {"point": "rigorous-9"}, "did you mean 'rigorous-8'"),
        (CT, {"model": "K"}, "no model 'K'"),
        (HEAT, {"source": FileSource(path=".")}, "images of .* are fixed"),
        (RELEASED, {"source": FileSource(path=".")}, "images of CtProblem are fixed"),
    ],
)
def test_wrong_settings_are_refused(
    study: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(KoriskError, match=words):
        rehearsed(study, **settings)


def test_blank_images_are_counted(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((20, 8, 8))
    values[:3], values[3:5] = 0.0, values[3:5] * 1e-3
    np.save(tmp_path / "a.npy", values)
    with pytest.warns(KoriskWarning, match="3 blank images left out"):
        made = rehearsed(CT, source=FileSource(path=str(tmp_path), patients="image"))
    assert "15 example images" in made.images
    assert any("5 blank images of 20" in note for note in made.notes)


def pilot(model: str = "FC", metric: str = "mse") -> Curve:
    return Curve([4, 8, 16], [0.05, 0.03, 0.022], model=model, metric=metric)


def test_a_pilot_moves_its_model_alone(point: PointPrediction) -> None:
    made = rehearsed(CT, pilots=[pilot()])
    known, dense = made.forecasts
    assert (known.curve, dense.curve) == (None, pilot())
    assert dense.at(8).value == pytest.approx(0.03, rel=0.2)
    assert errors(made, "FC") == errors(point, "FC")
    only = rehearsed(CT | {"models": {"FC": {}}}, pilots=[pilot(model="")])
    assert only.forecasts[0].basis == "both"


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (pilot(model=""), "name it in a column model"),
        (pilot(model="UNet"), "a pilot must be of KO, FC, got 'UNet'"),
        (pilot(metric="relative"), "mse, rmse, nmse, psnr, and the pilot is of 'relative'"),
        (Curve([4, 8, 16], [0.5, 0.7, 0.8], model="FC", unit="ssim"), "pilot is of 'ssim'"),
    ],
)
def test_pilots_that_do_not_fit_are_refused(curve: Curve, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        rehearsed(CT, pilots=[curve])


def test_a_pilot_is_of_one_point() -> None:
    study = Study(CT | {"points": [{"side": 8}, {"side": 16}]}, ran=True)
    with pytest.raises(KoriskError, match=r"for one point, and the study has 2.*point="):
        rehearsed(study, pilots=[pilot()])
    made = rehearsed(study, pilots=[pilot()], point="rigorous-8")
    assert made.forecasts[1].basis == "both"


def test_files_are_read_back_as_they_were_written(tmp_path: Path, point: PointPrediction) -> None:
    told = point.to_dict(Question(targets=[0.01], at=[16]))
    content = prediction_content("small", [told])
    file = write_prediction(tmp_path / "new", content)
    assert file == tmp_path / "new" / NAME
    (found,) = read_prediction(file.parent).points
    assert found == PointRecord.model_validate(told)
    assert found.examples == SIZES[-1]
    assert [row.n for row in found.models[1].rehearsal] == SIZES
    assert [row.measured for row in found.models[1].rehearsal] == errors(point, "FC")
    assert found.models[1].track[0].n == 4
    assert found.images.startswith("pairs of CtProblem")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"), ("[" * 100_000, "not valid JSON"), ("[]", "must be a mapping"),
        ('{"study": "x", "points": []}', "is not as it was written"),
    ],
)  # fmt: skip
def test_a_spoilt_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(KoriskError, match=words):
        read_prediction(tmp_path)


@pytest.mark.parametrize("value", [0, -1.0, None, "1", 1e305])
def test_errors_in_a_file_are_above_zero(
    tmp_path: Path, point: PointPrediction, value: object
) -> None:
    told = point.to_dict(Question())
    told["models"][1]["track"][2]["lower"] = value
    write_prediction(tmp_path, prediction_content("small", [told]))
    with pytest.raises(
        KoriskError, match=r"models\[2\].track\[3\].lower must be.*korisk rehearse again"
    ):
        read_prediction(tmp_path)
