"""`korisk bound --module`: networks from the user's own Python."""

import json
from pathlib import Path

import pytest
from commands import korisk

import korisk as kr

MODELS = """
import torch
from torch import nn

print("words of the user's own")


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(3, 4)


class Exponential(nn.Module):
    def forward(self, x):
        return torch.exp(x)


class Nets:
    @staticmethod
    def open_ended():
        return nn.Sequential(nn.Linear(4, 8), Exponential()), torch.ones(1, 4)


def open_in_front():
    return nn.Sequential(Exponential(), nn.Linear(4, 8)), torch.ones(1, 4)


def residual():
    class Block(nn.Linear):
        def forward(self, x):
            return x + super().forward(x)

    return Block(4, 4), torch.ones(1, 4)


def failing():
    raise RuntimeError("no weights\\nhere")


def leaving():
    raise SystemExit(7)


def wrong():
    return 3


def unfit():
    return nn.Linear(4, 4), torch.ones(1, 5)


number = 3
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, of a name that no other test has imported."""
    name = f"models_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    (tmp_path / f"{name}_broken.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.chdir(tmp_path)
    return name


def test_a_module_gives_what_its_description_gives(
    models: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("bound", "--module", f"{models}:plain", "-n", 50, "--json") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)  # what the user's code prints is not among it
    assert "words of the user's own" in captured.err
    import torch
    from torch import nn

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    expected = kr.barron_bound(kr.describe(module, torch.ones(1, 4)), 50)
    assert found["bounds"]["composed"]["total"] == pytest.approx(expected.total, rel=1e-12)
    assert [layer["parameters"] for layer in found["layers"]] == [40, 0, 18]
    assert found["network"]["name"] == f"{models}:plain"


def test_other_options_work_the_same(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("bound", "--module", f"{models}:plain", "--target", "0.5", "--bound", "paper")
    assert korisk(*arguments, "--replace", "2 Linear") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "0 Linear" in out
    assert "With 2 Linear known" in out
    assert "the bound stays at or below the target 0.5" in out


def test_the_description_can_be_kept(
    models: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("bound", "--module", f"{models}:plain", "--write", "net.yaml", "--json") == 0
    first = capsys.readouterr()
    assert "korisk: wrote net.yaml" in first.err
    assert korisk("bound", "net.yaml", "--json") == 0
    again = capsys.readouterr().out
    assert json.loads(again)["bounds"] == json.loads(first.out)["bounds"]


def test_an_open_end_is_refused_with_a_way_out(
    models: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"{models}:Nets.open_ended"
    assert korisk("bound", "--module", place, "--write", "net.yaml") == 2
    said = capsys.readouterr().err
    assert "korisk: warning: no upper Lipschitz constant is known of 1.exp" in said
    assert "lipschitz has no upper end (sampled, a lower estimate)" in said
    assert "--write FILE.yaml" in said
    text = (tmp_path / "net.yaml").read_text()
    (tmp_path / "net.yaml").write_text(text.replace(".inf", "50"))
    assert korisk("bound", "net.yaml") == 0
    assert korisk("bound", "--module", place, "-n", 1) == 2
    assert "--write" not in capsys.readouterr().err.splitlines()[-1]


def test_an_open_end_in_front_is_shown_in_words(
    models: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("bound", "--module", f"{models}:open_in_front") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "known >= " in out
    assert "The Lipschitz constant of 0.exp was only sampled" in out
    assert "inf " not in out


def test_what_is_no_chain_is_a_line_on_stderr(
    models: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("bound", "--module", f"{models}:residual") == 0
    assert "korisk: warning: the network is not a chain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("{}:failing", "failed: RuntimeError: no weights here ({}.py, line "),
        ("{}:leaving", "failed: SystemExit: 7 ({}.py, line "),
        ("{}:wrong", "must return (module, example), an nn.Module and an input tensor"),
        ("{}:number", "failed: TypeError: 'int' object is not callable"),
        ("{}:missing", "failed: AttributeError: module '{}' has no attribute 'missing'"),
        ("{}:Nets.missing", "has no attribute 'missing'"),
        ("{}:unfit", "the module fails on the example of shape (1, 5)"),
        ("{}_broken:plain", "failed: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("nowhere.models:plain", "No module named 'nowhere'"),
        ("{}.sub:plain", "No module named '{}.sub'"),
        ("{}", "write package.module:factory"),
        ("{}:", "write package.module:factory"),
        ("../{}.py:plain", "write package.module:factory"),
    ],
)
def test_what_goes_wrong_is_one_line_and_2(
    models: str, capsys: pytest.CaptureFixture[str], place: str, says: str
) -> None:
    assert korisk("bound", "--module", place.format(models)) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("korisk: "))
    assert says.format(models) in line


def test_exactly_one_source(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert korisk("bound", "net.yaml", "--module", f"{models}:plain") == 2
    assert "one of them" in capsys.readouterr().err
    assert korisk("bound") == 2
    assert "package.module:factory" in capsys.readouterr().err
    assert korisk("bound", "net.yaml", "--write", "other.yaml") == 2
    assert "is a file; copy it" in capsys.readouterr().err


def test_the_path_of_modules_is_left_as_it_was(models: str) -> None:
    import sys

    before = list(sys.path)
    korisk("bound", "--module", f"{models}:plain")
    korisk("bound", "--module", f"{models}:failing")
    assert sys.path == before
