"""Studies that are predicted: how each setting of a file changes the curves, and the JSON file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk.curves.curve import Curve
from korisk.errors import KoriskError, KoriskWarning
from korisk.prediction.pair import error_rows
from korisk.prediction.record import (
    NAME,
    point_record,
    prediction_content,
    read_prediction,
    write_prediction,
)
from korisk.prediction.study import PointPrediction, expected_cost, predict_study, study_to_predict
from korisk.problems import PdeProblem
from korisk.problems.sources import FileSource
from korisk.studies.spec.study import Study

CT: dict[str, Any] = {
    "name": "small",
    "problem": {"beam": "surrogate", "noise": {"gaussian": 0.05}},
    "points": [{"side": 8}],
}
HEAT: dict[str, Any] = {"name": "line", "problem": {"kind": "pde", "points": 12}, "points": [{}]}
MRI = {"name": "m", "problem": {"kind": "mri"}, "points": [{"side": 8, "lines": 5}]}
RELEASED = {"name": "r", "protocol": "released", "points": [{"side": 8}]}


def predicted(content: dict[str, Any], **settings: Any) -> PointPrediction:
    (made,) = predict_study(Study(content, ran=True), **{"examples": 32, **settings})
    return made


@pytest.fixture(scope="module")
def point() -> PointPrediction:
    return predicted(CT)


def errors(made: PointPrediction, model: str) -> list[float]:
    (one,) = (each for each in made.predictions if each.model == model)
    return [float(error) for error in one.computed([8, 64])]


def saved(folder: Path, count: int) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(count):
        np.save(folder / f"{index}.npy", np.pad(rng.random((6, 6)), 1))
    return folder


def test_the_models_of_the_study_are_predicted(point: PointPrediction) -> None:
    assert [made.model for made in point.predictions] == ["KO", "FC"]
    assert (point.examples, point.images, point.name) == (32, "32 phantoms", "rigorous-8")
    assert [made.parameters for made in point.predictions] == [80, 80 * 64]
    assert point.pair is not None
    assert point.usage.seconds > 0
    assert point.usage.peak_memory
    alone = predicted(CT | {"models": {"FC": {}}})
    assert ([made.model for made in alone.predictions], alone.pair) == (["FC"], None)
    assert (errors(alone, "FC"), alone.to_dict([0.01])["two_factors"]) == (errors(point, "FC"), [])


def test_noise_replaces_that_of_the_study(point: PointPrediction) -> None:
    loud = predicted(CT, noise=0.2)
    for model in ("KO", "FC"):
        assert errors(loud, model)[1] > errors(point, model)[1]
    assert loud.spec["problem"]["noise"] == {"gaussian": 0.2}
    quiet = predicted(CT, noise=0.0)
    assert quiet.spec["problem"]["noise"] is None
    assert "There is no noise" in " ".join(quiet.predictions[1].notes)
    bare = {**CT, "problem": {"beam": "surrogate"}}
    assert errors(predicted(bare, noise=0.05), "FC") == errors(point, "FC")


def test_settings_of_the_models_reach_the_theory(point: PointPrediction) -> None:
    plain = predicted(CT | {"models": {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}}})
    assert errors(plain, "FC")[0] > errors(point, "FC")[0]  # a ReLU takes off negative values
    assert plain.notes == ()
    zero = predicted(CT | {"models": {"KO": {"toward": "zero"}}})
    assert errors(zero, "KO")[0] > errors(point, "KO")[0]


def test_differences_from_the_study_are_noted(point: PointPrediction) -> None:
    assert "refines KO" in " ".join(point.notes)
    trained = predicted(CT | {"models": {"KO": {"fit": "gradient"}}, "metric": "relative"})
    told = " ".join(trained.notes)
    assert all(fact in told for fact in ("closed form", "relative", "mse"))
    released = predicted(RELEASED, examples=200)
    assert released.examples == 128  # all that the released code draws
    assert "128 images, of 200" in " ".join(released.notes)


def test_heat_and_mri_are_predicted() -> None:
    heat = predicted(HEAT, noise=0.05)
    assert (heat.images, heat.spec["problem"]["noise"]) == ("32 random fields", 0.05)
    # The best weights are 1 / gain: what is left is the noise on the start, through the flow.
    flow = PdeProblem(points=12).flow(0.01, "cpu").as_matrix()
    left = 0.05**2 * float(flow.square().sum()) / 12
    assert heat.predictions[0].floor == pytest.approx(left, rel=0.25)
    blur = {"name": "b", "problem": {"kind": "blur"}, "points": [{"side": 8}]}
    coils = {**MRI, "points": [{"side": 8, "lines": 5, "coils": 2}]}
    for study in (MRI, coils, blur):
        assert [made.model for made in predicted(study).predictions] == ["KO", "FC"]


def test_seeds_and_own_images_are_other_examples(tmp_path: Path, point: PointPrediction) -> None:
    assert errors(predicted(CT), "KO") == errors(point, "KO")
    assert errors(predicted(CT, seed=1), "KO") != errors(point, "KO")
    folder = saved(tmp_path / "mine", 12)
    made = predicted(CT, source=FileSource(path=str(folder), patients="file"))
    assert (made.examples, made.images) == (12, "12 images")
    assert errors(made, "FC") != errors(point, "FC")
    assert made.spec["problem"]["images"] == {"path": str(folder)}


def test_a_study_of_own_images_needs_none_to_train_on(tmp_path: Path) -> None:
    """A study that asks for more images than there are can be predicted, though not run."""
    saved(tmp_path / "mine", 12)
    file = tmp_path / "study.yaml"
    file.write_text(
        "problem: {images: {path: mine, patients: file}, beam: surrogate}\npoints: [{side: 8}]\n"
    )
    with pytest.raises(KoriskError):
        Study.read(file)
    study = study_to_predict(file)
    assert study.name == "study"
    (made,) = predict_study(study, examples=10)
    assert made.examples == 10


@pytest.mark.parametrize(
    ("study", "settings", "words"),
    [
        (CT, {"examples": 7}, "examples must be a whole number from 8"),
        (CT, {"noise": -0.1}, "noise must be a finite number >= 0"),
        (CT, {"noise": 1e200}, "reasonable size"), (CT, {"noise": 1e100}, "reasonable size"),
        (CT, {"point": "rigorous-9"}, "did you mean 'rigorous-8'"),
        (HEAT, {"source": FileSource(path=".")}, "images of this pde problem are fixed"),
        (RELEASED, {"source": FileSource(path=".")}, "images of this ct problem are fixed"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(
    study: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(KoriskError, match=words):
        predicted(study, **settings)


def test_too_few_images_and_too_many_for_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FileSource(path=str(saved(tmp_path / "few", 5)))
    with pytest.raises(KoriskError, match="at least 8 example images, got 5"):
        predicted(CT, source=source)
    monkeypatch.setattr("korisk._memory.free_memory", lambda device: 1000)
    with pytest.raises(KoriskError, match="32 examples needs"):
        predicted(CT)


def test_patients_are_told_apart_and_one_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for patient in range(3):
        anatomy = rng.random((8, 8))
        (tmp_path / f"p{patient}").mkdir()
        np.save(tmp_path / f"p{patient}" / "a.npy", anatomy + 0.2 * rng.random((12, 8, 8)))
    made = predicted(CT, source=FileSource(path=str(tmp_path)))
    assert made.images == "32 images of 3 patients"
    for told in made.predictions:
        assert 3 <= (told.independent or 32) < 6
        assert any(all(each in note for each in ("32", "3 patients")) for note in told.notes)
    assert made.to_dict([])["independent"] == made.predictions[0].independent
    for rule in ("auto", "folder"):
        source = FileSource(path=str(tmp_path / "p0"), patients=rule)
        with pytest.raises(KoriskError, match=r"two patients or more.*12 images.*patients='file'"):
            predicted(CT, source=source)


def test_blank_images_are_counted_and_the_answer_says_what_it_leaves_open(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((20, 8, 8))
    values[:3], values[3:5] = 0.0, values[3:5] * 1e-3
    np.save(tmp_path / "a.npy", values)
    with pytest.warns(KoriskWarning, match="3 blank images left out"):
        made = predicted(CT, source=FileSource(path=str(tmp_path), patients="image"))
    assert made.examples == 15
    assert any("5 blank images of 20" in note for note in made.notes)
    with pytest.warns(KoriskWarning):
        kept = predicted(CT, source=FileSource(path=str(tmp_path), patients="image", blank="keep"))
    assert kept.examples == 17
    for words in (made.caveats, made.to_dict([])["caveats"]):
        assert all(each in " ".join(words) for each in ("linear", "CNN", "--network"))


def test_the_cost_is_told_from_runs_that_were_timed() -> None:
    """Within a factor of two of what benchmarks/results has for 128 pixels; more costs more."""
    results = Path(__file__).parents[2] / "benchmarks/results/predict_128_arm.json"
    steps = json.loads(results.read_text())["steps"].values()
    linear = {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}}
    large = Study(CT | {"points": [{"side": 128}, {"side": 8}], "models": linear}, ran=True)
    seconds, needed = expected_cost(large, examples=256)
    assert 0.5 < seconds / sum(step["seconds"] for step in steps) < 2
    assert 0.5 < needed / max(step["peak_memory"] for step in steps) < 2
    assert expected_cost(large, point="rigorous-8")[0] < 3
    assert expected_cost(large, device="cuda")[0] < seconds / 4


def pilot(model: str = "FC", metric: str = "mse") -> Curve:
    return Curve([4, 8], [0.05, 0.03], model=model, metric=metric)


def test_a_pilot_moves_its_model_alone(point: PointPrediction) -> None:
    made = predicted(CT, pilots=[pilot()])
    known, dense = made.predictions
    assert (known.pilot, dense.pilot) == (None, pilot())
    assert [check.n for check in dense.checks] == [4, 8]
    assert dense.errors([8])[0] == pytest.approx(0.03, rel=0.1)
    assert dense.computed([8])[0] == point.predictions[1].computed([8])[0]
    only = predicted(CT | {"models": {"FC": {}}}, pilots=[pilot(model="")])
    assert only.predictions[0].pilot is not None


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (pilot(model=""), "add a column model"),
        (pilot(model="UNet"), "one of the study's models, got 'UNet'"),
        (pilot(metric="relative"), "mean squared errors, and the pilot is of 'relative'"),
        (Curve([4, 8], [0.05, 0.03], model="FC", unit="rmse"), "rmse"),
    ],
)
def test_pilots_that_do_not_fit_are_refused(curve: Curve, words: str) -> None:
    with pytest.raises(KoriskError, match=words):
        predicted(CT, pilots=[curve])


def test_a_pilot_is_of_one_point() -> None:
    study = Study(CT | {"points": [{"side": 8}, {"side": 16}]}, ran=True)
    with pytest.raises(KoriskError, match=r"of one point, and the study has 2.*point="):
        predict_study(study, examples=16, pilots=[pilot()])
    (made,) = predict_study(study, examples=16, pilots=[pilot()], point="rigorous-8")
    assert made.predictions[1].pilot is not None


def test_targets_lie_above_both_floors(point: PointPrediction) -> None:
    known, dense = point.predictions
    assert max(known.floor, dense.floor) < point.targets[1] < point.targets[0]
    (row,) = error_rows(dense, [100])
    assert row["lower"] < row["expected"] < row["upper"]


def test_files_are_read_back_as_they_were_written(tmp_path: Path, point: PointPrediction) -> None:
    content = prediction_content("small", [point.to_dict([0.01], [16])])
    file = write_prediction(tmp_path / "new", content)
    assert file == tmp_path / "new" / NAME
    (found,) = read_prediction(file.parent).points
    assert found == point_record(point.to_dict([0.01], [16]))
    assert found.models[1].track[0].computed == float(point.predictions[1].computed([4])[0])
    assert [row.n for row in found.models[1].rehearsal] == [4, 8, 16, 24, 28]
    assert found.models[1].track[-1].n == 16 * 32


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


def test_errors_in_a_file_must_be_above_zero(point: PointPrediction) -> None:
    told = point.to_dict([])
    for value in (0, -1.0, None, "1", 1e305):
        told["models"][1]["track"][2]["lower"] = value
        with pytest.raises(KoriskError, match=r"models\[2\].track\[3\].lower must be"):
            point_record(told)
