"""`korisk operators` as a user meets it: rows, JSON, errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import content, outputs, refused, text

torch = pytest.importorskip("torch")

SMALL = ("16", "20", "24")
FAN = ("--fan", "--source-to-center", "100", "--source-to-detector", "130")
NAMES = ["W", "K", "A", "A^T", "A^T K", "A^T K W"]


def rows_of(out: str, name: str) -> list[str]:
    """The lines that start with this name and go on with a shape."""
    return [line for line in out.splitlines() if re.match(rf" *{re.escape(name)} +\d", line)]


def test_every_operator_has_a_row() -> None:
    out, err = outputs("operators", *SMALL)
    assert err == ""
    assert "parallel beam, 16 x 16 pixels, 20 views, 24 bins, ramp window" in out
    assert "beside CT" in out
    for name in [*NAMES, "Fourier", "Diffusion"]:
        assert len(rows_of(out, name)) == 1, name
    for word in ("operator", "from", "to", "norm lower", "norm upper", "how", "20 x 24", "16 x 16"):
        assert word in out


def test_rows_fit_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korisk.cli.common.output.NARROWEST", 80)
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = outputs("operators", *SMALL, *FAN)
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "…" not in out
    for name in NAMES:
        (row,) = rows_of(out, name)
        assert row.count(" x ") == 2  # both shapes on the row's first line


def test_norms_are_brackets_of_the_matrices_norms() -> None:
    from korisk.operators import ParallelBeam, Projector, fbp

    found = content("operators", *SMALL, "--window", "hann")
    rows = {row["name"]: row for row in found["operators"]}
    assert list(rows) == NAMES
    scan = ParallelBeam((16, 16), views=20, bins=24)
    whole = fbp(scan, window="hann", dtype=torch.float64)
    expected = {
        "W": whole["W"], "K": whole["K"], "A": Projector(scan, dtype=torch.float64),
        "A^T": whole["A^T"], "A^T K": whole["A^T"] @ whole["K"], "A^T K W": whole,
    }  # fmt: skip
    for name, operator in expected.items():
        norm = float(torch.linalg.matrix_norm(operator.as_matrix(), 2))
        bracket = rows[name]["norm"]
        assert bracket["lower"] <= norm * (1 + 1e-9), name
        assert bracket["upper"] >= norm * (1 - 1e-9), name
        assert bracket["upper"] <= 1.02 * bracket["lower"], name
        assert bracket["how"]
        assert rows[name]["from"] == list(operator.domain)
        assert rows[name]["to"] == list(operator.range)
    beside = {row["name"]: row["norm"] for row in found["beside_ct"]}
    assert beside["Fourier"]["upper"] == pytest.approx(1)
    assert beside["Diffusion"]["upper"] == pytest.approx(1)


def test_the_geometry_is_told_so_that_python_takes_it_back() -> None:
    from korisk.operators import FanBeam, ParallelBeam  # noqa: F401 (repr needs them)

    options = ("--arc", "200", "--pixel", "0.5", "--bin", "0.75", "--offset", "0.25")
    found = content("operators", *SMALL, *FAN, *options)
    geometry = eval(found["geometry"])
    assert isinstance(geometry, FanBeam)
    assert (geometry.shape, geometry.sinogram_shape) == ((16, 16), (20, 24))
    assert geometry.arc == pytest.approx(3.490658504)
    assert (geometry.pixel_spacing, geometry.bin_spacing) == (0.5, 0.75)
    assert (geometry.detector_offset, found["window"], found["mu"]) == (0.25, "ramp", None)
    assert found["truncation"] == geometry.truncation


def test_mu_adds_the_regularised_inverse_and_width_narrows_the_brackets() -> None:
    found = content("operators", *SMALL, "--mu", "0.1", "--width", "0.001")["operators"]
    inverse = {row["name"]: row for row in found}["A^+"]
    assert (inverse["from"], inverse["to"]) == ([20, 24], [16, 16])
    assert 0 < inverse["norm"]["upper"] <= 0.5 / 0.1**0.5 * (1 + 1e-9)
    assert all(row["norm"]["upper"] <= 1.0011 * row["norm"]["lower"] for row in found)


def test_a_short_detector_is_warned_of_in_one_line() -> None:
    out, err = outputs("operators", "16", "20", "8", "--json")
    assert err.startswith("korisk: warning: the detector is too short: its 8 mm miss")
    assert err.count("\n") == 1
    assert json.loads(out)["truncation"] > 0.3


def test_plot_draws_the_scanner(tmp_path: Path) -> None:
    path = tmp_path / "scanner.svg"
    out, err = outputs("operators", *SMALL, *FAN, "--plot", str(path), "--json")
    assert err == f"korisk: wrote {path}\n"
    assert json.loads(out)["operators"]
    assert b"FanBeam" in path.read_bytes() or path.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("16", "0", "24"), "V must be a whole number from 1 to 1,000,000, got 0"),
        (("16", "20"), "Missing argument 'B'"),
        ((*SMALL, "--pixel", "-1"), "--pixel must be a finite number >= 1e-09"),
        ((*SMALL, "--arc", "0"), "--arc must be a finite number > 0"),
        ((*SMALL, "--arc", "400"), "> 0 and <= 360, got 400"),
        ((*SMALL, "--window", "han"), "did you mean 'hann'?"),
        ((*SMALL, "--window", "released"), "--window must be one of ramp, shepp-logan, cosine, "),
        ((*SMALL, "--width", "2"), "width must be a finite number >= 0.0001 and <= 0.99, got 2.0"),
        ((*SMALL, "--mu", "0"), "mu must be a finite number > 0, got 0.0"),
        ((*SMALL, "--fan"), "belong together: give all three"),
        ((*SMALL, *FAN[1:]), "belong together: give all three"),
        ((*SMALL, *FAN[:2], "5", *FAN[3:]), "must keep the source outside the image"),
        ((*SMALL, "--plot", "scanner.jpg"), "must be .png, .svg or .pdf, got .jpg"),
        ((*SMALL, "--plot", "missing/scanner.png"), "no such folder; make it first"),
    ],
)
def test_wrong_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("operators", *arguments)


def test_without_torch_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from korisk.cli.app import run;"
        "print('exit code', run(['operators', '8', '8', '8']));"
        "sys.exit(run(['operators', '8', '8', '8', '--footprint']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("exit code 2\n")
    assert "pip install 'korisk[torch]'" in done.stderr
    assert done.returncode == 0
    assert "FC : KO = H^2 = 64 : 1" in done.stdout


def test_footprint_is_the_papers() -> None:
    out, _ = outputs("operators", "512", "180", "512", "--footprint")
    assert "360 GiB" in out
    size = content("operators", "512", "180", "512", "--footprint")["footprint"]
    assert (size["ratio"], size["networks"]["KO"]["parameters"]) == (512**2, 180 * 512)
    networks = content("operators", *SMALL)["footprint"]["networks"]
    assert networks["FC"]["parameters"] == 20 * 24 * 16 * 16


@pytest.mark.parametrize(
    ("options", "said"), [((), True), (("--bin", "0.5"), False), (FAN, True)], ids=str
)
def test_it_says_where_the_backprojection_is_not_the_adjoint(
    options: tuple[str, ...], said: bool
) -> None:
    assert ("not the adjoint of A" in text("operators", *SMALL, *options)) is said


def test_running_out_of_memory_is_one_line_and_nothing_else_is_taken_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[Exception] = [
        MemoryError("Unable to allocate 7 TiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("a bug"),
    ]

    def fail(*_: object, **options: object) -> None:
        raise raised.pop(0)

    monkeypatch.setattr("korisk.operators.fbp", fail)
    for _ in range(2):
        assert refused("operators", *SMALL).startswith("korisk: there is not enough memory: ")
    with pytest.raises(RuntimeError, match="a bug"):
        outputs("operators", *SMALL)
