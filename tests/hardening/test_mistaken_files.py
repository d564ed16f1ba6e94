"""A file given to the wrong command: the message says which keys the command takes."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import korisk

from korisk.store.store import Store
from korisk.studies.spec.study import Study

FILES = {
    "net.yaml": "layers:\n- {known: K, lipschitz: 1}\n",
    "study.yaml": "name: s\npoints: [{side: 8, views: 8, bins: 12}]\nsizes: [2, 4, 8]\n",
    "pilot.csv": "# ours\n\nn,error,seed\n4,0.1,1\n8,0.05,1\n16,0.03,1\n",
    "pilot.json": '[{"n": 4, "error": 0.1}]',
}
OF_NETWORK, OF_STUDY = "name, layers, compositions", "name, protocol, sizes, seeds"  # known keys
STORE = "korisk plan, compare, report and export take the stores"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    Store.create_or_open("study.db", {"name": "s"}).close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bound", "study.yaml"), OF_NETWORK),
        (("bound", "pilot.csv"), OF_NETWORK),
        (("bound", "pilot.json"), OF_NETWORK),
        (("bound", "study.db"), STORE),
        (("run", "net.yaml"), OF_STUDY),
        (("run", "pilot.csv"), "keys such as name and points"),
        (("run", "study.db"), STORE),
        (("rehearse", "net.yaml"), OF_STUDY),
        (("rehearse", "pilot.csv"), "keys such as name and points"),
        (("plan", "net.yaml", "--target", "1"), "net.yaml: "),
        (("plan", "study.db", "--target", "1"), "no cell is finished yet; run the study first"),
        (("report", "study.yaml"), "name the folder or the study.db that korisk run wrote"),
        (("export", "pilot.csv"), "name the folder or the study.db that korisk run wrote"),
    ],
)
def test_the_message_says_what_is_taken(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert korisk(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert arguments[-1] in line or arguments[1] in line


def test_each_file_is_taken_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    assert korisk("bound", "net.yaml") == 0
    assert korisk("plan", "pilot.csv", "--at", "32") == 0
    assert Study.read("study.yaml").tasks
    capsys.readouterr()


# --- korisk rehearse ------------------------------------------------------------------------------


def images(*sides: int) -> None:
    Path("images").mkdir()
    rng = np.random.default_rng(0)
    for number in range(13):
        side = sides[number % len(sides)]
        np.save(Path("images", f"{number}.npy"), rng.random((side, side)))


PREDICT = ("rehearse", "study.yaml", "--examples", "12", "--images", "images", "--patients", "file")


def test_a_mixture_of_sizes_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    images(16, 24, 32)
    assert korisk(*PREDICT) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "images of 3 sizes, from 16 x 16 to 32 x 32 pixels; all were brought to 8 x 8" in said


def test_the_remedy_for_a_broken_image_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    images(16)
    Path("images", "broken.npy").write_bytes(b"junk")
    assert korisk(*PREDICT) == 2
    assert "--on-error skip" in capsys.readouterr().err
    assert korisk(*PREDICT, "--on-error", "skip") == 0
    said, warned = capsys.readouterr()
    assert warned.startswith("korisk: warning: left out what cannot be read: 1, broken.npy (is not")
    assert "sizes" not in said


def test_a_pilot_of_roots_is_one_of_squares(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for name, power in (("mse", 1.0), ("rmse", 0.5), ("ssim", 0.0)):
        rows = [f"{n},{(0.5 / n) ** power},KO,{name}\n" for n in (4, 8, 16)]
        Path(f"{name}.csv").write_text("n,error,model,metric\n" + "".join(rows))
        code = korisk("rehearse", "study.yaml", "--pilot", f"{name}.csv", "--at", "64", "--json")
        said.append((code, capsys.readouterr()))
    errors = [json.loads(output.out)["points"][0]["models"][0]["errors"] for _, output in said[:2]]
    assert errors[0] == errors[1]
    assert said[2][0] == 2
    assert "no metric 'mse'; known: ssim" in said[2][1].err


def test_another_seed_draws_other_images(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for seed in ("0", "1"):
        assert (
            korisk("rehearse", "study.yaml", "--examples", "8", "--seed", seed, "--at", "64") == 0
        )
        said.append([line for line in capsys.readouterr().out.splitlines() if " s, " not in line])
    assert said[0] != said[1]
