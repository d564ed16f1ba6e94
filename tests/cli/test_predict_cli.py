"""`korisk predict` as a user types it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import outputs

from korisk.prediction.study import NAME

STUDY = """
name: tiny
problem: {beam: surrogate, noise: {gaussian: 0.05}}
points:
  - {side: 8}
"""
BOTH = STUDY + "  - {side: 16, views: 4, bins: 4}\n"
DENSE = STUDY + "models: {FC: {relu: false}}\n"  # half the work


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    path = tmp_path / "dense.yaml"
    path.write_text(DENSE)
    return path


def predict(path: Path, *options: object, code: int = 0) -> tuple[str, str]:
    return outputs("predict", path, "--examples", 16, *options, code=code)


def point_of(path: Path, *options: object) -> dict[str, Any]:
    """The only point of what is printed as JSON."""
    (point,) = json.loads(predict(path, *options, "--json")[0])["points"]
    return dict(point)


def saved(folder: Path, count: int, name: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    for index in range(count):
        np.save(folder / f"{name}{index}.npy", np.random.default_rng(index).random((8, 8)))
    return folder


def test_a_geometry_alone_is_predicted(study: Path) -> None:
    said = " ".join(predict(study)[0].split())
    for fact in (
        "from 16 phantoms and nothing trained",
        "Samples for targets, as examples",
        "What 16 samples determine",
        "Proposition 1",
        "KO has an expected error of",
        "GiB of memory",
    ):
        assert fact in said


def test_numbers_of_samples_have_their_chance(dense: Path) -> None:
    (found,) = point_of(dense, "--target", 0.02)["models"][0]["samples"]
    assert 0 < found["chance"] <= found["reach"] <= 1
    advice, samples = found["recommendation"], found["samples"]
    assert (advice["n"], advice["even"]) == (samples["0.9"], samples["0.5"])
    said = " ".join(predict(dense, "--target", 0.02)[0].split())
    assert f" {samples['0.9']:,} {samples['0.5']:,} " in said  # in the table, side by side
    assert advice["sentence"] in said


def test_json_holds_all_of_it(study: Path) -> None:
    # The second target is within reach of FC alone, which is enough.
    targets = ("--target", 0.02, "--target", 0.0014)
    point = point_of(study, *targets, "--at", 300, "--at", 16, "--at", 16)
    known, dense = point["models"]
    assert (known["model"], dense["model"]) == ("KO", "FC")
    assert [row["n"] for row in dense["errors"]] == [16, 300]
    assert [row["target"] for row in dense["samples"]] == [0.02, 0.0014]
    assert [found["middle"] is None for found in known["samples"]] == [False, True]
    assert dense["samples"][1]["middle"] is not None
    assert dense["effective"]["parameters"] == 64 * dense["effective"]["directions"]
    assert known["parameters"] == 80
    for row in dense["errors"]:
        assert row["lower"] < row["expected"] < row["upper"]
    track = np.log([(row["n"], row["expected"]) for row in dense["track"]]).T
    error = np.exp(np.interp(np.log(dense["samples"][0]["middle"]), *track))
    assert error == pytest.approx(0.02, rel=0.1)
    assert point["seconds"] > 0
    assert set(point["two_factors"][0]) >= {"target"}


def test_a_target_out_of_reach_of_every_model_is_code_3(dense: Path) -> None:
    out, err = predict(dense, "--target", 1e-9, "--json", code=3)
    (model,) = json.loads(out)["points"][0]["models"]
    (found,) = model["samples"]
    assert (found["middle"], found["upper"], found["samples"]["0.5"]) == (None, None, None)
    assert err.startswith("korisk: no model is expected to reach 1e-09 at rigorous-8; allow")
    assert err.count("\n") == 1


def test_own_images_noise_and_files(dense: Path, tmp_path: Path) -> None:
    folder = saved(tmp_path / "mine", 9)
    out, plot = tmp_path / "out", tmp_path / "curve.png"
    images = ("--images", folder, "--patients", "file", "--noise", 0.1, "--target", 0.5)
    printed, err = predict(dense, *images, "--out", out, "--plot", plot, "--json")
    assert json.loads((out / NAME).read_text()) == json.loads(printed)
    (point,) = json.loads(printed)["points"]
    assert point["images"] == "9 images"
    assert point["problem"]["noise"] == {"gaussian": 0.1}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert [line.split()[-1] for line in err.splitlines()] == [str(plot), str(out / NAME)]


def test_settings_of_the_studys_images_are_kept(tmp_path: Path) -> None:
    """Its pattern chooses among other images, and its table of patients does not."""
    saved(tmp_path / "mine", 9, "a")
    folder = saved(tmp_path / "mine", 3, "b")
    path = tmp_path / "study.yaml"
    images = "{path: gone, pattern: 'a*.npy', patients: table.csv}"
    path.write_text(
        f"problem: {{beam: surrogate, noise: {{gaussian: 0.05}}, images: {images}}}\n"
        "points: [{side: 8}]\nmodels: {FC: {}}\n"
    )
    assert point_of(path, "--images", folder, "--patients", "file")["examples"] == 9


def test_patients_unit_and_blank_images_are_options(dense: Path, tmp_path: Path) -> None:
    folder, table = saved(tmp_path / "mine", 16), tmp_path / "whose.csv"
    np.save(folder / "air.npy", 0.5 + 1e-4 * np.random.default_rng(9).random((8, 8)))
    table.write_text("file,patient\nair.npy,z\n" + "".join(f"{k}.npy,{k % 4}\n" for k in range(16)))
    images = ("--images", folder)
    assert "--patients file" in predict(dense, *images, code=2)[1]
    point = point_of(dense, *images, "--patients", table)
    assert point["images"] == "16 images of 4 patients"
    said = " ".join(predict(dense, *images, "--patients", "image")[0].split())
    assert all(fact in said for fact in ("1 blank image of 17", "--network"))
    kept = point_of(dense, *images, "--patients", "image", "--blank", "keep")
    assert not any("blank" in note for note in kept["notes"])
    plain, hounsfield = (
        point_of(dense, *images, "--patients", "image", "--unit", unit)["models"][0]["floor"]
        for unit in ("plain", "HU")  # 0.5 HU is 1.0005 times water
    )
    assert hounsfield != plain


def test_a_pilot_is_checked_and_combined(dense: Path, tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error,model\n4,0.06,FC\n8,0.05,FC\n")
    said = " ".join(predict(dense, "--pilot", pilot, "--at", 8)[0].split())
    assert "FC inside the pilot" in said
    assert "KO inside the pilot" not in said
    assert "moves the level of the curve" in said


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("n,error,model,metric\n4,0.06,FC,mse\n4,0.2,FC,x\n8,0.05,FC,mse\n8,0.1,FC,x\n", ()),
        ("size,mse\n4,0.06\n8,0.05\n", ("--column", "n=size", "--column", "error=mse")),
    ],
)
def test_pilots_of_several_metrics_and_of_other_columns_are_read(
    dense: Path, tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text(text)
    checks = point_of(dense, "--pilot", pilot, *options)["models"][0]["checks"]
    assert [check["measured"] for check in checks] == [0.06, 0.05]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", 0), "--target must be a finite number > 0"),
        (("--noise", -1), "noise must be a finite number >= 0"),
        (("--at", 0.5), "--at must be a whole number"),
        (("--seed", -1), "seed must be a whole number"),
        (("--plot", "x.gif"), "suffix of a figure"), (("--images", "nowhere"), "does not exist"),
        (("--pilot", "nowhere.csv"), "no such file"), (("--column", "n=size"), "give --pilot FILE"),
        (("--target", 0.1, "--target", 0.2, "--plot", "x.png"), "draws one --target, got 2"),
        (("--device", "tpu"), "--device must be"), (("--unit", "rmse"), "--pilot-unit rmse"),
        (("--patients", "file"), "images: {patients: file}"), (("--blank", "skip"), "--images"),
        (("--images", ".", "--unit", "mm"), "--unit must be one of HU"),
        (("--images", ".", "--patients", "each"), "patients must be one of auto"),
        (("--out", "/dev/null/x"), "/dev/null/x: cannot be"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_code_2(
    study: Path, options: tuple[Any, ...], words: str
) -> None:
    out, err = predict(study, *options, code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("problem: {beem: fan}\npoints: [{side: 8}]\n", "did you mean 'beam'"),
        ("- 1\n", "must contain keys"),
        ("problem: {kind: heat}\npoints: []\n", "points must be"),
    ],
)
def test_wrong_files_are_one_line_and_code_2(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    err = predict(path, code=2)[1]
    assert err.count("\n") == 1
    assert words in err


def test_options_for_one_point_ask_for_it(tmp_path: Path) -> None:
    path, pilot = tmp_path / "both.yaml", tmp_path / "pilot.csv"
    path.write_text(BOTH)
    pilot.write_text("n,error,model\n4,0.06,FC\n")
    for options in (("--pilot", pilot), ("--plot", tmp_path / "a.png")):
        said = predict(path, *options, code=2)[1]
        assert all(fact in said for fact in ("one point, and the study has 2", "with --point"))
    assert point_of(path, "--pilot", pilot, "--point", "rigorous-8")["point"] == "rigorous-8"


def test_time_and_memory_are_told_before_a_long_run(
    dense: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "takes about" not in predict(dense)[1]
    cost = "korisk.prediction.study.expected_cost"
    monkeypatch.setattr(cost, lambda *study, **settings: (125.0, 3 * 2**30))
    err = predict(dense, "--json")[1]
    assert all(fact in err for fact in ("takes about 2", "3.0 GiB"))
