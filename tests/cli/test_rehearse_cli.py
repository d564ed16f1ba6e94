"""`korisk rehearse` as a user types it."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import content, outputs, refused, text

from korisk.cli.common.training import failures_named
from korisk.errors import KoriskError
from korisk.fitting.gradient.train import Pace
from korisk.operators import Matrix
from korisk.prediction.record import NAME, read_prediction

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


def rehearse(path: Path, *options: object, code: int = 0) -> tuple[str, str]:
    few = ("--sizes", "4,8,16,32,64", "--seeds", 2, "--device", "cpu")
    return outputs("rehearse", path, *few, *options, code=code)


def point_of(path: Path, *options: object) -> dict[str, Any]:
    """The only point of what is printed as JSON."""
    (point,) = json.loads(rehearse(path, *options, "--json")[0])["points"]
    return dict(point)


def saved(folder: Path, count: int, name: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    for index in range(count):
        np.save(folder / f"{name}{index}.npy", np.random.default_rng(index).random((8, 8)))
    return folder


def test_a_geometry_alone_is_rehearsed(study: Path) -> None:
    said = " ".join(rehearse(study)[0].split())
    for fact in (
        "rigorous-8: expected mean squared error of FC",
        "Samples for targets, as examples",
        "10 networks of 5,120 weights, fitted exactly",
        "has an expected error of",
        "on simulated images alone (drawn at random",
        "GiB of memory",
    ):
        assert fact in said


def test_numbers_of_samples_have_their_chance(dense: Path) -> None:
    (found,) = point_of(dense, "--target", 0.02)["models"][0]["samples"]
    assert found["recommendation"]["chance"] >= 0.9
    assert found["reach"] <= 1
    advice, samples = found["recommendation"], found["samples"]
    assert (advice["n"], advice["even"]) == (samples["0.9"], samples["0.5"])
    said = " ".join(rehearse(dense, "--target", 0.02)[0].split())
    assert f" {samples['0.9']:,} {samples['0.5']:,} " in said  # in the table, side by side
    assert advice["sentence"] in said


def test_json_holds_all_of_it(study: Path) -> None:
    # The second target is within reach of FC alone, which is enough.
    targets = ("--sizes", "8,32,128,512", "--target", 0.01, "--target", 0.0014)
    point = point_of(study, *targets, "--at", 300, "--at", 16, "--at", 16)
    known, dense = point["models"]
    assert (known["model"], dense["model"]) == ("KO", "FC")
    assert [row["n"] for row in dense["errors"]] == [16, 300]
    assert [row["target"] for row in dense["samples"]] == [0.01, 0.0014]
    assert [found["samples"]["0.5"] is None for found in known["samples"]] == [False, True]
    assert dense["samples"][0]["recommendation"]["action"] == "collect"
    assert (known["parameters"], known["how"], known["relu"]) == (80, "rehearsed", True)
    for row in dense["errors"]:
        assert row["lower"] < row["value"] < row["upper"]
    track = np.log([(row["n"], row["value"]) for row in dense["track"]]).T
    error = np.exp(np.interp(np.log(dense["samples"][0]["samples"]["0.5"]), *track))
    assert error == pytest.approx(0.01, rel=0.1)
    assert point["seconds"] > 0


def test_a_target_that_no_model_is_likely_to_reach_has_no_number(dense: Path) -> None:
    last = point_of(dense)["models"][0]["curve"][-1]["error"]
    (found,) = point_of(dense, "--target", last / 10)["models"][0]["samples"]
    assert (found["upper"], found["samples"]["0.5"]) == (None, None)
    assert found["recommendation"]["action"] == "unlikely"


@pytest.mark.parametrize("target", [30, 1e-9])
def test_a_target_that_all_or_none_meet_by_far_is_asked_about(dense: Path, target: float) -> None:
    out, err = rehearse(dense, "--target", target, code=2)
    assert "has an expected error of" in " ".join(out.split())  # what was trained is shown
    assert "collect" not in out
    assert f"target {target:g} is far" in err
    assert "in another unit? --metric takes" in err


def decibels(error: float) -> float:
    """The PSNR of a mean squared error, of images that span 2."""
    return float(10 * np.log10(4 / error))


@pytest.mark.parametrize("measured", [(), (0.045, 0.035, 0.02)], ids=["alone", "pilot"])
def test_targets_and_answers_are_in_the_users_unit(
    dense: Path, tmp_path: Path, measured: tuple[float, ...]
) -> None:
    """A number of decibels is an error: N are the same for it, and bands its other way round."""
    points = []
    for metric, unit in (("mse", float), ("psnr", decibels)):
        rows = zip((4, 8, 16), map(unit, measured), strict=False)
        pilot = tmp_path / f"{metric}.csv"
        pilot.write_text(f"n,{metric}\n" + "".join(f"{n},{value!r}\n" for n, value in rows))
        options = ["--pilot", pilot] if measured else []
        options += ["--metric", metric, "--target", repr(unit(0.02))]
        points.append(point_of(dense, *options, *(["--range", 2] if metric == "psnr" else [])))
    (squares,), (others,) = (point["models"] for point in points)
    assert [point["metric"] for point in points] == ["mse", "psnr"]
    assert others["samples"][0]["samples"] == squares["samples"][0]["samples"]
    for row, other in zip(squares["errors"], others["errors"], strict=True):
        for name, same in (("value", "value"), ("lower", "upper"), ("upper", "lower")):
            assert other[same] == pytest.approx(decibels(row[name]), abs=1e-6)


def test_own_images_noise_and_files(dense: Path, tmp_path: Path) -> None:
    folder = saved(tmp_path / "mine", 14)
    out, plot = tmp_path / "out", tmp_path / "curve.png"
    images = ("--images", folder, "--patients", "file", "--noise", 0.1, "--target", 0.5)
    printed, err = rehearse(dense, *images, "--out", out, "--plot", plot, "--json")
    assert json.loads((out / NAME).read_text()) == json.loads(printed)
    (point,) = json.loads(printed)["points"]
    assert "14 example images" in point["images"]
    assert point["problem"]["noise"] == {"gaussian": 0.1}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert [line.split()[-1] for line in err.splitlines()] == [str(plot), str(out / NAME)]


def test_settings_of_the_studys_images_are_kept(tmp_path: Path) -> None:
    """Its pattern chooses among other images, and its table of patients does not."""
    saved(tmp_path / "mine", 14, "a")
    folder = saved(tmp_path / "mine", 3, "b")
    path = tmp_path / "study.yaml"
    images = "{path: gone, pattern: 'a*.npy', patients: table.csv}"
    path.write_text(
        f"problem: {{beam: surrogate, noise: {{gaussian: 0.05}}, images: {images}}}\n"
        "points: [{side: 8}]\nmodels: {FC: {}}\n"
    )
    point = point_of(path, "--images", folder, "--patients", "file")
    assert "14 example images" in point["images"]


def test_patients_unit_and_blank_images_are_options(dense: Path, tmp_path: Path) -> None:
    folder, table = saved(tmp_path / "mine", 16), tmp_path / "whose.csv"
    np.save(folder / "air.npy", 0.5 + 1e-4 * np.random.default_rng(9).random((8, 8)))
    table.write_text("file,patient\nair.npy,z\n" + "".join(f"{k}.npy,{k % 4}\n" for k in range(16)))
    images = ("--images", folder)
    assert "--patients image" in rehearse(dense, *images, code=2)[1]
    point = point_of(dense, *images, "--patients", table)
    assert "16 example images of 4 patients" in point["images"]
    said = " ".join(rehearse(dense, *images, "--patients", "image")[0].split())
    assert "1 blank image of 17" in said
    kept = point_of(dense, *images, "--patients", "image", "--blank", "keep")
    assert not any("blank" in note for note in kept["notes"])
    plain, hounsfield = (
        point_of(dense, *images, "--patients", "image", "--unit", unit)["models"][0]["curve"]
        for unit in ("plain", "HU")  # 0.5 HU is 1.0005 times water
    )
    assert hounsfield != plain


def test_a_pilot_is_checked_and_combined(dense: Path, tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error,model\n4,0.045,FC\n8,0.035,FC\n16,0.02,FC\n")
    said = " ".join(rehearse(dense, "--pilot", pilot, "--at", 8)[0].split())
    assert "Measured: a pilot at N = 4 to 16." in said
    assert "the rehearsal of FC" in said


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "n,error,model,metric\n4,0.06,FC,mse\n4,0.2,FC,x\n8,0.05,FC,mse\n8,0.1,FC,x\n"
            "16,0.04,FC,mse\n16,0.1,FC,x\n",
            (),
        ),
        ("size,mse\n4,.06\n8,.05\n16,.04\n", ("--column", "n=size", "--column", "error=mse")),
    ],
)
def test_pilots_of_several_metrics_and_of_other_columns_are_read(
    dense: Path, tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text(text)
    checks = point_of(dense, "--pilot", pilot, *options)["models"][0]["checks"]
    assert [check["measured"] for check in checks] == [0.06, 0.05, 0.04]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", 0), "--target must be a finite number > 0"),
        (("--noise", -1), "noise must be a finite number >= 0"),
        (("--at", 0.5), "--at must be a whole number"),
        (("--seed", -1), "seed must be a whole number"),
        (("--plot", "x.gif"), "suffix of a figure"), (("--images", "nowhere"), "does not exist"),
        (("--pilot", "nowhere.csv"), "no such file"), (("--column", "n=size"), "give --pilot FILE"),
        (("--target", 0.1, "--target", 0.2, "--plot", "x.png"), "draw one --target, got 2"),
        (("--device", "tpu"), "--device must be"), (("--range", 255), "--range is of psnr"),
        (("--metric", "ssim"), "--metric must be one of mse"),
        (("--patients", "file"), "images: {patients: file}"), (("--blank", "skip"), "--images"),
        (("--images", ".", "--unit", "mm"), "--unit must be one of HU"),
        (("--images", ".", "--patients", "each"), "patients must be one of auto"),
        (("--out", "/dev/null/x"), "/dev/null/x: cannot be"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_code_2(
    study: Path, options: tuple[Any, ...], words: str
) -> None:
    out, err = rehearse(study, *options, code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("problem: {beem: fan}\npoints: [{side: 8}]\n", "did you mean 'beam'"),
        ("- 1\n", "must contain keys"),
        ("problem: {kind: pde}\npoints: []\n", "points must be"),
    ],
)
def test_wrong_files_are_one_line_and_code_2(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    err = rehearse(path, code=2)[1]
    assert err.count("\n") == 1
    assert words in err


def test_options_for_one_point_ask_for_it(tmp_path: Path) -> None:
    path, pilot = tmp_path / "both.yaml", tmp_path / "pilot.csv"
    path.write_text(BOTH)
    pilot.write_text("n,error,model\n4,0.06,FC\n8,0.04,FC\n16,0.02,FC\n")
    for options in (("--pilot", pilot), ("--plot", tmp_path / "a.png")):
        said = rehearse(path, *options, code=2)[1]
        assert all(fact in said for fact in ("one point, and the study has 2", "with --point"))
    assert point_of(path, "--pilot", pilot, "--point", "rigorous-8")["point"] == "rigorous-8"


# --- Networks ------------------------------------------------------------------------------------

BLOCKS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(72, 64)

    def forward(self, y):
        return self.dense(y.flatten(1)).unflatten(1, (8, 8))
"""
FILE = """
from __future__ import annotations

from dataclasses import dataclass

from korisk.operators import ParallelBeam, Projector
from blocks import Net

operator, noise = Projector(ParallelBeam(8, views=6, bins=12)), 0.1

@dataclass
class Width:
    value: int = 3

def fails():
    return Net(1)

def leaves():
    raise SystemExit(4)

def sized(width):
    return Net()

def never():
    raise AssertionError
"""
SMALL = ("--device", "cpu", "--rate", 0.01, "--sizes", "8,16,32,64")
QUICK = (*SMALL, "--steps", 10, "--seeds", 1)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("blocks", "net"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "blocks.py").write_text(BLOCKS)
    path = tmp_path / "net.py"
    path.write_text(FILE)
    return path


def test_a_long_training_is_told_and_resumed(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    own: tuple[object, ...] = ("rehearse", "--network", f"{file}:Net", *SMALL, "--resume", kept)
    own += ("--steps", 20, "--seeds", 2)
    pace = Pace(step=1000.0, check=0.0, at_once=1, memory=3 * 2**30, device="1 core")
    monkeypatch.setattr("korisk.prediction.rehearsal.rehearse.pace", lambda *settings: pace)
    err = refused(*own)  # 8 networks of 20 steps, one of 40: 200,000 s
    assert "--yes" in err
    assert not list(kept.iterdir())
    err = outputs(*own, "--yes")[1]
    assert all(fact in err for fact in ("about 2.31 days", "3.0 GiB"))
    finished = set(kept.iterdir())
    assert len(finished) == 9
    assert "training takes" not in outputs(*own)[1]
    assert set(kept.iterdir()) == finished


def test_a_network_that_learned_nothing_is_trained_first(file: Path, tmp_path: Path) -> None:
    own: tuple[object, ...] = ("rehearse", "--network", f"{file}:Net", "--images")
    own += (saved(tmp_path / "a", 14), "--patients", "image", "--steps", 10)
    own += ("--rate", 1e-6, "--sizes", "8,16,32,64", "--target", 0.01, "--json")
    model = json.loads(outputs(*own)[0])["points"][0]["models"][0]
    (answer,) = model["samples"]
    assert answer["recommendation"]["action"] == "train"
    assert any("has learned nothing" in note for note in model["notes"])


def test_a_file_has_its_operator_and_imports_its_neighbours(file: Path, tmp_path: Path) -> None:
    folder = saved(tmp_path / "images", 14)
    own = ("rehearse", "--network", f"{file}:Net", *SMALL, "--steps", 400, "--seeds", 1)
    file.write_text(FILE + "print('read')")  # which must not stand in the JSON
    out, err = outputs(*own, "--images", folder, "--patients", "image", "--json")
    assert "read" in err
    (point,) = json.loads(out)["points"]
    (model,) = point["models"]
    assert (point["point"], model["model"]) == ("Net", "Net")
    assert "(noise: 0.1) from 14 example images" in model["simulated"]
    reasons = " ".join(model["samples"][0]["recommendation"]["reasons"])
    assert "Check it at N = 16" in reasons
    said = text(*own, "--noise", 0.3, "--target", 0.4, "--sure", 0.8)
    assert all(fact in said for fact in ("(noise: 0.3), random ellipses", "(80% sure)"))
    assert said.index("80% sure") < said.index("expected mean squared error of Net")
    file.write_text(FILE.replace("operator, noise = ", "scan, noise = "))
    assert "needs an operator" in refused(*own)
    assert "--point belongs to a study" in refused(*own, "--point", "a")
    assert "STUDY.yaml, or your own network" in refused("rehearse")


def test_the_network_is_named_only_if_it_raised(file: Path) -> None:
    named = partial(failures_named, f"{file}:Net")
    with pytest.raises(KoriskError, match=r"--network .*:Net failed: RuntimeError"), named():
        torch.nn.Linear(3, 3)(torch.ones(2, 4))
    with pytest.raises(IndexError), named():
        [][1]
    with pytest.raises(RuntimeError), named():  # an operator of ours, which simulates
        Matrix(torch.eye(3))(torch.ones(2, 3, requires_grad=True)).numpy()


def test_a_file_inside_a_package_may_import_relatively(file: Path, tmp_path: Path) -> None:
    package = tmp_path / "networks_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "blocks.py").write_text(BLOCKS)
    (package / "net.py").write_text(FILE.replace("from blocks", "from .blocks"))
    model = content("rehearse", "--network", f"{package / 'net.py'}:Net", *QUICK)
    assert model["points"][0]["models"][0]["model"] == "Net"


def test_the_networks_of_a_study_are_rehearsed_beside_its_linear_models(tmp_path: Path) -> None:
    network = "{kind: inverse-cnn, name: CNN, width: 1, steps: 10, batch: 4}"
    models = f"models: {{FC: {{relu: false}}, networks: [{network}]}}\n"
    path = tmp_path / "both.yaml"
    path.write_text(STUDY + models + "sizes: [4, 8, 16]\nseeds: [1, 2]\n")
    point = content("rehearse", path, "--target", 0.003, "--out", tmp_path)["points"][0]
    dense, cnn = point["models"]
    assert "fitted exactly" in dense["simulated"]
    assert "trained with 10 steps" in cnn["simulated"]
    assert [row["n"] for row in cnn["errors"]] == [4, 8, 16]
    assert {row["seed"] for row in cnn["curve"]} == {"1", "2"}
    assert [len(model["samples"]) for model in (dense, cnn)] == [1, 1]
    page = tmp_path / "all.html"
    alone = rehearse(path, "--target", 0.003, "--html", page, "--model", "FC")[0]
    assert "expected mean squared error of CNN" not in alone
    assert " ".join(alone.split())[:80] in page.read_text()
    assert "no model 'F'" in rehearse(path, "--model", "F", code=2)[1]
    record = read_prediction(tmp_path)
    assert [model.model for model in record.points[0].models] == ["FC", "CNN"]


def test_the_command_rehearses_the_network_of_a_file_for_a_study(
    file: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("problem: {beam: parallel}\npoints: [{side: 8, views: 6, bins: 12}]\n")
    quick = ("rehearse", study, *QUICK)
    own = (*quick, "--network", f"{file}:Net", "--resume", tmp_path / "kept")
    plot = tmp_path / "curve.png"
    said = text(*own, "--plot", plot)
    for fact in (
        "expected mean squared error of Net",
        "Simulated: pairs of CtProblem",
        "Measured: nothing",
    ):
        assert fact in said
    assert plot.read_bytes().startswith(b"\x89PNG")
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error,seed\n16,.5,0\n32,.4,0\n64,.3,0\n16,.52,1\n32,.41,1\n64,.31,1\n")
    (model,) = content(*own, "--pilot", pilot, "--at", 64)["points"][0]["models"]
    assert [check["n"] for check in model["checks"]] == [16, 32, 64]
    assert "Check it" not in str(model["samples"])
    assert [each["n"] for each in model["errors"]] == [64]
    assert model["errors"][0]["value"] == pytest.approx(0.305, rel=0.03)
    folder = saved(tmp_path / "images", 14)
    few = text(*own, "--images", folder, "--patients", "image")
    assert "14 example images" in few
    assert "TypeError" in refused(*quick, "--network", f"{file}:fails")
    line = 1 + FILE[: FILE.index("raise SystemExit")].count("\n")
    assert f"SystemExit: 4 (net.py, line {line})" in refused(*quick, "--network", f"{file}:leaves")
    assert "--network must take no arguments" in refused(*quick, "--network", f"{file}:sized")
    assert "--rate must be" in refused(*own, "--rate", -1)
    never = (*quick, "--network", f"{file}:never")  # refused before it is asked for a network
    assert "--at must be" in refused(*never, "--at", 4)
    assert "--at must be" in refused(*never, "--pilot", pilot, "--at", 10**6)
    pilot.write_text("n,error\n16,.5\n32,.4\n")
    assert "at least 3 distinct N, got 2" in refused(*never, "--pilot", pilot)
    assert "no function 'net'; did you mean 'Net'" in refused(*quick, "--network", f"{file}:net")
    assert "no such Python file" in refused(*quick, "--network", f"{tmp_path}/none.py:Net")
    assert "FILE.py:BUILD" in refused(*quick, "--network", file)
    assert "--sizes must be whole numbers" in refused(*own, "--sizes", "8,x")
    assert "--sizes must be three or more" in refused(*own, "--sizes", "8,16")
