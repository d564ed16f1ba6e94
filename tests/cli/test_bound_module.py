"""`korisk bound --network`: networks from the user's own Python."""

import json
from pathlib import Path

import pytest
from commands import content, korisk, outputs, text

import korisk as kr

MODELS = """
import torch
from torch import nn
from korisk.operators import ParallelBeam, Projector
operator = Projector(ParallelBeam(4, views=3, bins=6))
print("words of the user's own")
def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(3, 4)
class Exponential(nn.Module):
    def forward(self, x):
        return torch.exp(x)
def open_ended():
    return nn.Sequential(nn.Linear(4, 8), Exponential()), torch.ones(1, 4)
def open_in_front():
    return nn.Sequential(Exponential(), nn.Linear(4, 8)), torch.ones(1, 4)
def gated():
    class Gate(nn.Linear):
        def forward(self, x):
            return x * super().forward(x)
    return nn.Sequential(Gate(4, 4)), torch.ones(1, 4)
def failing():
    raise RuntimeError("no weights\\nhere")
def leaving():
    raise SystemExit(7)
def wrong():
    return 3
def unfit():
    return nn.Linear(4, 4), torch.ones(1, 5)
number = 3
def alone():
    return nn.Sequential(operator.T, nn.ReLU())
def cone():
    from korisk.operators import ConeBeam, fbp
    scan = ConeBeam(4, views=4)
    return nn.Sequential(fbp(scan, trainable=True), nn.ReLU()), torch.ones(1, *scan.sinogram_shape)
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, of a name that no other test has imported."""
    name = f"models_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    (tmp_path / f"{name}_broken.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.chdir(tmp_path)
    return name


def test_a_network_of_a_cone_is_bounded(models: str) -> None:
    import torch

    from korisk.operators import ConeBeam, fbp

    report = json.loads(outputs("bound", "--network", f"{models}.py:cone", "-n", 50, "--json")[0])
    weights, ramp, backprojector = fbp(ConeBeam(4, views=4), dtype=torch.float64).layers
    brackets = {layer["name"]: layer["lipschitz"] for layer in report["layers"]}
    (pair,) = report["network"]["compositions"]
    brackets["A^T K"] = pair["lipschitz"]
    known = {"W": weights, "K": ramp, "A^T": backprojector, "A^T K": backprojector @ ramp}
    for name, operator in known.items():  # against the singular values of the whole matrix
        norm = float(torch.linalg.matrix_norm(operator.as_matrix(), 2))
        assert brackets[name]["lower"] * (1 - 1e-6) <= norm <= brackets[name]["upper"] * (1 + 1e-6)
    assert report["layers"][0]["parameters"] == weights.domain[-2] * weights.domain[-1] * 4


def test_a_module_gives_what_its_description_gives(models: str) -> None:
    out, err = outputs("bound", "--network", f"{models}.py:plain", "-n", 50, "--json")
    found = json.loads(out)  # what the user's code prints is not among it
    assert "words of the user's own" in err
    import torch
    from torch import nn

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    expected = kr.barron_bound(kr.describe(module, torch.ones(1, 4)), 50)
    assert found["total"] == pytest.approx(expected.total, rel=1e-12)
    assert [layer["parameters"] for layer in found["layers"]] == [40, 0, 18]
    assert found["network"]["name"] == f"{models}.py:plain"


def test_a_network_for_a_rehearsal_is_described_behind_its_operator(models: str) -> None:
    found = content("bound", "--network", f"{models}.py:alone")
    assert found["layers"][0]["name"] == "A^T"


def test_other_options_work_the_same(models: str) -> None:
    arguments = ("bound", "--network", f"{models}.py:plain", "--target", "0.5", "--bound", "paper")
    out = text(*arguments)
    for fact in ("0 Linear", "the bound stays at or below the target 0.5"):
        assert fact in out


def test_the_description_can_be_kept(models: str) -> None:
    out, err = outputs("bound", "--network", f"{models}.py:plain", "--write", "net.yaml", "--json")
    assert "korisk: wrote net.yaml" in err
    assert content("bound", "net.yaml")["total"] == json.loads(out)["total"]


def test_an_open_end_is_refused_with_a_way_out(models: str, tmp_path: Path) -> None:
    place = f"{models}.py:open_ended"
    said = outputs("bound", "--network", place, "--write", "net.yaml", code=2)[1]
    assert "korisk: warning: no upper Lipschitz constant is known of 1.exp" in said
    assert "lipschitz has no upper end (sampled, a lower estimate)" in said
    assert "--write FILE.yaml" in said
    file = tmp_path / "net.yaml"
    file.write_text(file.read_text().replace(".inf", "10000"))
    assert korisk("bound", file) == 0
    last = outputs("bound", "--network", place, "-n", 1, code=2)[1].splitlines()[-1]
    assert "--write" not in last


def test_an_open_end_in_front_is_shown_in_words(models: str) -> None:
    out = text("bound", "--network", f"{models}.py:open_in_front")
    assert "0.exp known - >= " in out
    assert "inf " not in out


def test_what_is_combined_is_a_line_on_stderr(models: str) -> None:
    said = outputs("bound", "--network", f"{models}.py:gated")[1]
    assert "korisk: warning: values are joined" in said
    assert "combined into one layer: 0 Gate (" in said


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("{}.py:failing", "failed: RuntimeError: no weights ({}.py, line "),
        ("{}.py:leaving", "failed: SystemExit: 7 ({}.py, line "),
        ("{}.py:wrong", "must return (module, example), an nn.Module and an input tensor"),
        ("{}.py:number", "has no function 'number'"), ("{}.py:missing", "no function 'missing'"),
        ("{}.py:unfit", "the module fails on the example of shape (1, 5)"),
        ("{}_broken.py:plain", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("nowhere.py:plain", "no such Python file"), ("{}.py", "FILE.py:BUILD"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line_and_2(models: str, place: str, says: str) -> None:
    err = outputs("bound", "--network", place.format(models), code=2)[1]
    (line,) = (line for line in err.splitlines() if line.startswith("korisk: "))
    assert says.format(models) in line


def test_exactly_one_source(models: str) -> None:
    assert (
        "one of them" in outputs("bound", "net.yaml", "--network", f"{models}.py:plain", code=2)[1]
    )
    assert "FILE.py:BUILD" in outputs("bound", code=2)[1]
    assert "is a file; copy it" in outputs("bound", "net.yaml", "--write", "other.yaml", code=2)[1]
