"""The command as a user meets it: what it prints, where, and its exit code."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import content, outputs, refused, text

import korisk as kr

EXAMPLES = Path(__file__).parents[2] / "examples"
KO = str(EXAMPLES / "ct_h128_ko.yaml")
STUDY = str(EXAMPLES / "advection_diffusion.yaml")


def test_bound_has_one_table_of_layers_and_says_what_it_means() -> None:
    out = text("bound", KO, "-n", "64")
    for fact in ("layer kind parameters Lipschitz A_l bound at N = 64 share", "100%"):
        assert fact in out
    for row in ("W learned 7,680 - 0.1007 0.003742 100%", "A^T known - 85.77 1 0 0%"):
        assert row in out
    assert "If the constants hold" in out
    assert "at most 0.003742 (composed bound), including a floor of 0.00302" in out


@pytest.mark.parametrize("name", ["ct_h8_ko", "ct_h256_ko", "ct_h512_ko", "ct_h512_fc"])
def test_tables_fit_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("korisk.cli.common.output.NARROWEST", 80)
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = outputs("bound", EXAMPLES / f"{name}.yaml", "--target", "1e4")
    net = kr.Network.read(EXAMPLES / f"{name}.yaml")
    for layer in net:  # every layer on one line, no cell folded or cut
        (row,) = (line for line in out.splitlines() if line.split()[:1] == [layer.name])
        assert len(row.split()) == 7
    assert "…" not in out


@pytest.mark.parametrize("form", kr.theory.BOUNDS)
def test_bound_json_agrees_with_the_library(form: kr.theory.BoundForm) -> None:
    found = content("bound", KO, "-n", "64", "--target", "2", "--bound", form)
    net = kr.Network.read(KO)
    expected = kr.barron_bound(net, 64, bound=form)
    assert (found["bound"], found["n"]) == (form, 64)
    assert (found["total"], found["floor"]) == (expected.total, expected.floor)
    assert found["lipschitz"] is None  # of W nothing is known, and nothing is needed
    assert net.lipschitz(form) == math.inf
    assert found["samples"] == kr.sample_size(net, 2, bound=form)
    layers = found["layers"]
    assert [layer["amplification"] for layer in layers] == net.amplification(form).tolist()
    assert [layer["contribution"] for layer in layers] == expected.contributions.tolist()
    assert [layer["approximation"] for layer in layers] == expected.approximations.tolist()
    assert [layer["share"] for layer in layers] == expected.whole.shares.tolist()
    assert [layer["parameters"] for layer in layers] == [7680, 0, 0, 0]
    assert kr.Network.from_dict(found["network"]) == net


def test_a_graph_shows_what_layers_take(tmp_path: Path) -> None:
    path = tmp_path / "residual.yaml"
    net = kr.Network(
        [
            *(kr.Known("K", lipschitz=2.0), kr.Learned("net", parameters=9, lipschitz=0.5)),
            *(
                kr.Known("add", inputs={"K": 1, "net": 1}),
                kr.Learned("C", parameters=5, lipschitz=3),
            ),
        ]
    )
    net.write(path)
    out, _ = outputs("bound", path)
    (row,) = (line for line in out.splitlines() if line.split()[:1] == ["add"])
    assert row.split()[1:4] == ["K,", "net", "known"]
    assert "takes" not in text("bound", KO)
    found = content("bound", path)
    assert [layer["takes"] for layer in found["layers"]] == [
        ["input"],
        ["K"],
        ["K", "net"],
        ["add"],
    ]
    assert kr.Network.from_dict(found["network"]) == net


def test_the_bound_names_the_constants_that_nobody_calibrated(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    calibrated = kr.Learned("V", parameters=9, lipschitz=1.0, C=1.0, kappa=0.1)
    present = kr.theory.NormBracket(1, 2, whose="present weights")
    for layers, facts in (
        ([calibrated], []),
        ([kr.Learned("W", parameters=9), calibrated], ["C = 0 and kappa = 1 of W", "calibrate"]),
        ([calibrated, kr.Known("K", lipschitz=present)], ["present weights of K", "true layers"]),
    ):
        kr.Network(layers).write(path)
        rests_on, out = content("bound", path)["rests_on"], text("bound", path)
        assert bool(rests_on) is bool(facts)
        assert all(fact in rests_on and fact in out for fact in facts)


@pytest.mark.parametrize(("slope", "holds"), [(2.0, True), (3 * (1 + 1e-7), True), (3.1, False)])
def test_a_slope_above_the_constants_refutes_the_bound(
    tmp_path: Path, slope: float, holds: bool
) -> None:
    path = tmp_path / "net.yaml"
    layer = kr.Learned("W", parameters=4, lipschitz=3)
    kr.Network([layer], largest_slope=slope).write(path)
    assert content("bound", path)["largest_slope"] == slope
    assert ("the bound does not hold" in text("bound", path)) is not holds


def test_target_alone_evaluates_the_bound_where_it_is_reached() -> None:
    found = content("bound", KO, "--target", "0.006")
    assert found["n"] == found["samples"]
    assert found["total"] <= 0.006


def test_an_unreachable_target_leaves_with_3() -> None:
    message = refused("bound", KO, "--target", "0.001", code=3)
    assert "target 0.001 cannot be reached: the composed bound levels off at 0.0030" in message
    found = content("bound", KO, "--target", "0.001", code=3)
    assert (found["samples"], found["n"]) == (None, 1000)


def test_only_the_asked_form_needs_its_constants(tmp_path: Path) -> None:
    path = str(tmp_path / "net.yaml")
    kr.Network(
        [kr.Learned("W", parameters=3), kr.Known("K"), kr.Known("A")],
        compositions=[kr.theory.Composition("K", "A", lipschitz=0.5)],
    ).write(path)
    assert content("bound", path, "--target", "0.1")["total"] <= 0.1
    message = refused("bound", path, "--bound", "paper")
    assert "lipschitz has no upper end" in message
    assert f"give lipschitz= to that layer in {path}" in message


def test_sample_sizes_beyond_doubles_are_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "net.yaml")
    kr.Network([kr.Learned("W", parameters=10**300, kappa=1e5)]).write(path)
    assert "> 1e300" in text("bound", path, "--target", "1e-5")
    assert content("bound", path, "--target", "1e-5")["n"] == 10**300


@pytest.mark.parametrize(
    ("constant", "shown"),
    [
        (kr.theory.NormBracket(1, 1.01), "1.01"),  # one percent apart reads as a number
        (kr.theory.NormBracket(1, 1.02), "1 to 1.02"),
        (kr.theory.NormBracket(1.5, float("inf"), how="sampled"), ">= 1.5"),
        (kr.theory.NormBracket(0, 0), "0"),
        (None, "-"),
    ],
)
def test_a_bracket_is_shown_by_its_ends(
    tmp_path: Path, constant: kr.theory.NormBracket | None, shown: str
) -> None:
    path = tmp_path / "net.yaml"
    kr.Network([kr.Known("K", lipschitz=constant), kr.Learned("W", parameters=1)]).write(path)
    assert f"K known - {shown} " in text("bound", path)


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    kr.Network([kr.Known("[red]K[/red]", lipschitz=1)], name="[bold]net").write(path)
    out = text("bound", str(path))
    assert "[red]K[/red] known" in out
    assert out.startswith("[bold]net ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["bound"],
            "NETWORK.yaml or a PyTorch module with --network FILE.py:BUILD, one of them",
        ),
        (["bound", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["bound", KO, "--bond", "paper"], "see korisk bound --help"),
        (["reproduce", "--published", "--full"], "--published runs nothing"),
        (["reproduce", "--published", "--out", "x"], "leave --out out"),
        (["bound", KO, "-n", "1"], "-n must be a finite number >= 2, got 1"),
        (["bound", KO, "-n", "many"], "Invalid value for '-n'"),
        (["bound", KO, "--target", "-1"], "target must be a finite number > 0"),
        (["bound", KO, "--bound", "papr"], "did you mean 'paper'?"),
        (["bound", KO, "--taget", "1"], "--target"),
        (["bond", KO], "No such command 'bond'"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], expected: str) -> None:
    assert expected in refused(*arguments)


def test_published_answers_the_papers_question() -> None:
    rows = content("reproduce", "--published")["calibration"]
    assert [row["H"] for row in rows] == [8, 8, 16, 16, 32, 32, 128, 128, 256, 256]
    for row in rows:
        assert row["samples_fc"] > row["samples_ko"] >= 2
    out = text("reproduce", "--published")
    assert "H = 256, GPU, rRMSE^2" in out
    assert "818" in out  # checked against a search in test_published.py


def test_help_and_version() -> None:
    assert "bound" in text()
    assert "--target" in text("bound", "--help")
    assert outputs("--version") == (f"korisk {kr.__version__}\n", "")


def test_interrupt_leaves_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kr.Network, "read", interrupted)
    assert "interrupted" in refused("bound", KO, code=130)


def shell(command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True)


def test_as_a_process_no_traceback_and_quiet_pipes(tmp_path: Path) -> None:
    command = f"{sys.executable} -m korisk"
    bad = shell(f"{command} bound {tmp_path}")
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    piped = shell(f"{command} bound {KO} --json | head -1")
    assert (piped.stdout, piped.stderr) == ("{\n", "")
    gone = shell(f"{command} reproduce --published | true; exit ${{PIPESTATUS[0]}}")
    assert (gone.returncode, gone.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [f"bound {KO} --json", "--help"])
def test_output_that_cannot_be_written(arguments: str) -> None:
    command = f"{sys.executable} -m korisk {arguments}"
    full = shell(f"{command} > /dev/full")
    assert full.returncode == 2
    assert full.stderr.startswith("korisk: the output cannot be written: no space left")
    assert full.stderr.count("\n") == 1
    closed = shell(f"{command} >&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    done = shell(f"PYTHONIOENCODING=ascii {command}")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_has_nothing_to_do_with_stdout_is_not_blamed_on_it(tmp_path: Path) -> None:
    for arguments in (("export", "a" * 300), ("run", STUDY, "--out", "a" * 300)):
        line = refused(*arguments)
        assert "aaaa" in line
        # Python 3.14 reports no error where it looks for such a file, only where it makes one.
        assert "file name too long" in line or "no such file" in line
    gone = tmp_path / "gone"
    command = f"mkdir {gone} && cd {gone} && rmdir {gone} && {sys.executable} -m korisk"
    for asked in (f"run {STUDY}", "bound --network models.py:unet"):
        found = shell(f"{command} {asked}")
        assert found.returncode == 2
        assert found.stderr.startswith("korisk: the working folder no longer exists")


@pytest.mark.parametrize("module", ["korisk._interrupt", "numpy", "korisk.cli.app"])
def test_an_interrupt_while_modules_are_imported_leaves_no_traceback(module: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "korisk", "--help"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while not process.stderr.readline().rstrip().endswith(f" {module}".encode()):
            assert process.poll() is None  # until the module is imported
        process.send_signal(signal.SIGINT)
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode in (-signal.SIGINT, 130, 0)
