"""`korisk predict` as a user types it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import korisk

from korisk.planning.explain import chance
from korisk.prediction.file import NAME

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


def predict(path: Path, *options: object) -> int:
    return korisk("predict", path, "--examples", 16, *options)


def test_a_geometry_alone_is_predicted(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(study) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "from 16 phantoms and nothing trained" in said
    assert "Samples for targets, as examples" in said
    assert "What 16 samples determine" in said
    assert "Proposition 2" in said
    assert "KO is expected to err by" in said
    assert "GiB of memory" in said


def test_numbers_of_samples_have_their_chance(
    dense: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(dense, "--target", 0.02, "--json") == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    (found,) = point["models"][0]["samples"]
    assert 0 < found["chance"] <= found["reach"] <= 1
    assert predict(dense, "--target", 0.02) == 0
    said = " ".join(capsys.readouterr().out.split())
    number, odds = f"{found['samples']:,}", chance(found["chance"])
    assert f" {number} {odds} " in said  # in the table, side by side
    assert f"needs about {number} samples for 0.02 (chance {odds};" in said


def test_json_holds_all_of_it(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The second target is within reach of FC alone, which is enough.
    targets = ("--target", 0.02, "--target", 0.0014)
    assert predict(study, "--json", *targets, "--at", 16, "--at", 300) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    known, dense = point["models"]
    assert (known["model"], dense["model"]) == ("KO", "FC")
    assert [row["n"] for row in dense["errors"]] == [16, 300]
    assert [row["target"] for row in dense["samples"]] == [0.02, 0.0014]
    assert [found["samples"] is None for found in known["samples"]] == [False, True]
    assert dense["samples"][1]["samples"] is not None
    assert dense["effective"]["parameters"] == 64 * dense["effective"]["directions"]
    assert known["parameters"] == 80
    for row in dense["errors"]:
        assert row["lower"] < row["expected"] < row["upper"]
    found = dense["samples"][0]
    error = np.interp(
        np.log(found["samples"]),
        np.log([row["n"] for row in dense["track"]]),
        np.log([row["expected"] for row in dense["track"]]),
    )
    assert np.exp(error) == pytest.approx(0.02, rel=0.1)
    assert point["seconds"] > 0
    assert set(point["two_factors"][0]) >= {"target"}


def test_a_target_out_of_reach_of_every_model_is_code_3(
    dense: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(dense, "--target", 1e-9, "--json") == 3
    out, err = capsys.readouterr()
    (point,) = json.loads(out)["points"]
    assert [m["samples"][0]["samples"] for m in point["models"]] == [None]
    assert [m["samples"][0]["upper"] for m in point["models"]] == [None]
    assert err == (
        "korisk: no model is expected to reach 1e-09 at rigorous-8; allow a larger error, or take "
        "the noise down\n"
    )


def test_own_images_noise_and_files(
    dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for index in range(9):
        np.save(folder / f"{index}.npy", np.random.default_rng(index).random((8, 8)))
    out, plot = tmp_path / "out", tmp_path / "curve.png"
    options = ("--images", folder, "--noise", 0.1, "--out", out, "--plot", plot, "--json")
    assert predict(dense, *options) == 0
    printed, err = capsys.readouterr()
    assert json.loads((out / NAME).read_text()) == json.loads(printed)
    (point,) = json.loads(printed)["points"]
    assert point["images"] == "9 images"
    assert point["problem"]["noise"] == {"gaussian": 0.1}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert [line.split()[-1] for line in err.splitlines()] == [str(plot), str(out / NAME)]


def test_settings_of_the_studys_images_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pattern chooses among other images, and its table of patients does not."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for index in range(12):
        image = np.random.default_rng(index).random((8, 8))
        np.save(folder / f"{'a' if index < 9 else 'b'}{index}.npy", image)
    path = tmp_path / "study.yaml"
    images = "{path: gone, pattern: 'a*.npy', patients: table.csv}"
    path.write_text(
        f"problem: {{beam: surrogate, noise: {{gaussian: 0.05}}, images: {images}}}\n"
        "points: [{side: 8}]\nmodels: {FC: {}}\n"
    )
    assert predict(path, "--images", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["points"][0]["examples"] == 9


def test_a_pilot_is_checked_and_combined(
    dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error,model\n4,0.06,FC\n8,0.05,FC\n")
    assert predict(dense, "--pilot", pilot, "--at", 8) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "FC inside the pilot" in said
    assert "KO inside the pilot" not in said
    assert "moves the level of the curve" in said


def test_a_pilot_of_several_metrics_is_read_by_its_mse(
    dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pilot = tmp_path / "pilot.csv"
    rows = ["4,0.06,FC,mse", "4,0.2,FC,relative", "8,0.05,FC,mse", "8,0.1,FC,relative"]
    pilot.write_text("n,error,model,metric\n" + "\n".join(rows) + "\n")
    assert predict(dense, "--pilot", pilot, "--json") == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert [check["measured"] for check in point["models"][0]["checks"]] == [0.06, 0.05]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", 0), "--target must be a finite number > 0"),
        (("--target", "nan"), "--target must be"),
        (("--noise", -1), "--noise must be a finite number >= 0"),
        (("--at", 0.5), "--at must be a whole number"),
        (("--point", "rigorous-88"), "did you mean 'rigorous-8'"),
        (("--plot", "x.gif"), "suffix of a figure"),
        (("--images", "nowhere"), "does not exist"),
        (("--pilot", "nowhere.csv"), "no such file"),
        (("--device", "tpu"), "--device must be"),
        (("--out", "/dev/null/x"), "cannot be made"),
    ],
)
def test_wrong_input_is_one_line_and_code_2(
    study: Path, capsys: pytest.CaptureFixture[str], options: tuple[Any, ...], words: str
) -> None:
    assert predict(study, *options) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("problem: {beem: fan}\npoints: [{side: 8}]\n", "did you mean 'beam'"),
        ("- 1\n", "must hold keys"),
        ("problem: {kind: heat}\npoints: []\n", "at least one operating point"),
    ],
)
def test_wrong_files_are_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    assert predict(path) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert words in err


def test_what_is_of_one_point_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "both.yaml"
    path.write_text(BOTH)
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error,model\n4,0.06,FC\n")
    assert predict(path, "--pilot", pilot) == 2
    assert "--pilot is of one point, and the study has 2" in capsys.readouterr().err
    assert predict(path, "--plot", tmp_path / "a.png") == 2
    assert "with --point" in capsys.readouterr().err
    assert predict(path, "--pilot", pilot, "--point", "rigorous-8", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["points"]) == 1


def test_too_few_examples_are_refused(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert korisk("predict", study, "--examples", 7) == 2
    assert "--examples must be a whole number from 8" in capsys.readouterr().err


def test_columns_of_a_pilot_may_have_other_names(
    dense: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pilot, renamed = tmp_path / "pilot.csv", ("--column", "n=size", "--column", "error=mse")
    pilot.write_text("size,mse\n8,0.02\n16,0.012\n32,0.006\n")
    assert predict(dense, "--pilot", pilot, *renamed, "--json") == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert [check["measured"] for check in point["models"][0]["checks"]] == [0.02, 0.012, 0.006]
    assert predict(dense, *renamed) == 2
    assert "give --pilot FILE" in capsys.readouterr().err
