"""The command as a user meets it: what it prints, where, and its exit code."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import content, outputs, refused, text

import korisk as kr

EXAMPLES = Path(__file__).parents[2] / "examples"
KO = str(EXAMPLES / "ct_h128_ko.yaml")
STUDY = str(EXAMPLES / "advection_diffusion.yaml")


def test_bound_shows_layers_forms_and_meaning() -> None:
    out = text("bound", KO, "-n", "64")
    for word in ("W", "learned", "A^T", "known", "7,680", "paper", "minkowski", "composed"):
        assert word in out
    for fact in ("N = 64", "100%", "Meaning: if the constants hold"):
        assert fact in out


@pytest.mark.parametrize("name", ["ct_h8_ko", "ct_h256_ko", "ct_h512_ko", "ct_h512_fc"])
def test_tables_fit_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("korisk.cli.common.output.NARROWEST", 80)
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = outputs("bound", EXAMPLES / f"{name}.yaml", "--target", "1e4")
    net = kr.Network.read(EXAMPLES / f"{name}.yaml")
    for layer in net:  # every layer on one line, no cell folded or cut
        (row,) = (line for line in out.splitlines() if line.split()[:1] == [layer.name])
        assert len(row.split()) == 10
    assert "…" not in out


def test_bound_json_agrees_with_the_library() -> None:
    found = content("bound", KO, "-n", "64", "--target", "0.006")
    net = kr.Network.read(KO)
    for form in kr.theory.BOUNDS:
        expected = kr.barron_bound(net, 64, bound=form)
        assert found["bounds"][form]["total"] == pytest.approx(expected.total)
        factors = [layer["amplification"][form] for layer in found["layers"]]
        assert factors == pytest.approx(net.amplification(form))
    assert (found["n"], found["reachable"], found["samples"]["paper"]) == (64, True, None)
    assert found["samples"]["composed"] == kr.sample_size(net, 0.006)
    assert sum(layer["share"] for layer in found["layers"]) == pytest.approx(1)


def test_a_graph_shows_what_layers_take_and_can_be_drawn_and_replaced(tmp_path: Path) -> None:
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
    out, err = outputs("bound", path, "--diagram", tmp_path / "net.png", "--replace", "net")
    (row,) = (line for line in out.splitlines() if line.split()[:1] == ["add"])
    assert row.split()[1:4] == ["K,", "net", "known"]
    assert "With net known" in out
    assert "takes" not in text("bound", KO)
    assert (tmp_path / "net.png").stat().st_size > 1000
    assert "net.png" in err
    found = content("bound", path)
    assert [layer["takes"] for layer in found["layers"]] == [
        ["input"],
        ["K"],
        ["K", "net"],
        ["add"],
    ]
    assert kr.Network.from_dict(found["network"]) == net


def test_a_bound_that_is_its_own_assumption_says_so_and_names_a_pilot(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    front, last = kr.Known("K", lipschitz=2.0), kr.Learned("net", parameters=9)
    calibrated = kr.Learned("net", parameters=9, lipschitz=1.0, C=1.0, kappa=0.1)
    wide = kr.Known("wide", lipschitz=1e3)
    for layers, direct, share in (
        *(([front, last], ["net"], 1), ([front, calibrated], ["net"], 0)),
        *(([last, wide], [], 1), ([kr.Learned("W", parameters=1), wide, calibrated], ["net"], 0.9)),
    ):
        kr.Network(layers).write(path)
        found, said = content("bound", path)["assumed"], text("bound", path)
        assert found["direct"] == direct
        assert found["share"] == pytest.approx(share, abs=0.1)
        assert ("its own assumption" in said) == ("kr.run_pilot" in said) == (share > 0)
        assert ("A_l = 1" in said) == (found["direct_share"] > 0.05)


def test_target_alone_evaluates_the_bound_where_it_is_reached() -> None:
    found = content("bound", KO, "--target", "0.006")
    assert found["n"] == found["samples"]["composed"]
    assert found["bounds"]["composed"]["total"] <= 0.006


def test_the_form_of_the_bound_is_obeyed() -> None:
    found = content("bound", KO, "--bound", "paper", "--target", "2")
    assert found["n"] == found["samples"]["paper"] > found["samples"]["composed"]
    contributions = sum(layer["contribution"] for layer in found["layers"])
    assert contributions == pytest.approx(found["bounds"]["paper"]["total"])


def test_replace_says_what_is_saved() -> None:
    arguments = "bound", KO, "-n", "64", "--target", "0.006", "--replace", "W"
    found = content(*arguments)
    saved = found["replace"]["saved_approximation"] + found["replace"]["saved_estimation"]
    assert saved == pytest.approx(found["bounds"]["composed"]["total"])
    assert found["replace"]["samples"]["composed"] == 2
    out = text(*arguments)
    assert "With W known, the bound at N = 64 falls from" in out
    assert f"{found['replace']['saved_approximation']:.4g} less approximation" in out
    assert f"{found['replace']['saved_estimation']:.4g} less estimation" in out
    assert "Making K known saves nothing" in text("bound", KO, "--replace", "K")


def test_looser_by_is_the_ratio_to_the_tightest() -> None:
    lines = outputs("bound", KO)[0].splitlines()
    net = kr.Network.read(KO)
    for form in kr.theory.BOUNDS:
        (row,) = (line.split() for line in lines if line.split()[:1] == [form])
        expected = net.amplification(form)[0] / net.amplification("composed")[0]
        assert float(row[-1]) == pytest.approx(expected, rel=5e-3)


def test_an_unreachable_target_leaves_with_3() -> None:
    message = refused("bound", KO, "--target", "0.001", code=3)
    assert "target 0.001 cannot be reached: the composed bound levels off at 0.0030" in message
    found = content("bound", KO, "--target", "0.001", code=3)
    assert (found["reachable"], found["samples"]) == (False, dict.fromkeys(kr.theory.BOUNDS))
    said = text("bound", KO, "--target", "0.001", "--replace", "W", code=3)
    assert "The target 0.001 then holds from N = 2 on." in said


def test_only_the_asked_form_needs_its_constants(tmp_path: Path) -> None:
    path = str(tmp_path / "net.yaml")
    kr.Network(
        [kr.Learned("W", parameters=3), kr.Known("K"), kr.Known("A")],
        compositions=[kr.theory.Composition("K", "A", lipschitz=0.5)],
    ).write(path)
    found = content("bound", path, "--target", "0.1")
    assert found["bounds"]["composed"]["total"] <= 0.1
    assert (found["bounds"]["paper"], found["samples"]["paper"]) == (None, None)
    assert "A dash: the file lacks a constant" in text("bound", path)
    message = refused("bound", path, "--bound", "paper")
    assert "lipschitz has no upper end" in message
    assert f"give lipschitz= to that layer in {path}" in message


def test_sample_sizes_beyond_doubles_are_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "net.yaml")
    kr.Network([kr.Learned("W", parameters=1, kappa=1e300)]).write(path)
    assert "> 1e300" in text("bound", path, "--target", "1e-300")


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    kr.Network([kr.Known("[red]K[/red]", lipschitz=1)], name="[bold]net").write(path)
    out = text("bound", str(path), "--replace", "[red]K[/red]")
    assert "[red]K[/red] known" in out
    assert "Making [red]K[/red] known saves nothing" in out
    assert out.startswith("[bold]net ")


def test_defaults_and_mismatch_are_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    bracket = kr.theory.NormBracket(1, 2, how="sampled")
    layers = [kr.Learned("W", parameters=3), kr.Known("K", lipschitz=bracket, mismatch=0.5)]
    kr.Network(layers).write(path)
    out = text("bound", str(path))
    assert "N = 1,000" in out
    assert "1 to 2" in out
    assert "The mismatch of K is korisk's extension" in out
    assert "kr.run_pilot" in out
    assert "calibrate the constants" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bound"], "give a file NETWORK.yaml or a PyTorch module with --module, one of them"),
        (["bound", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["bound", KO, "--bond", "paper"], "see korisk bound --help"),
        (["operators", "8", "9", "9", "--footprint", "--fan"], "alone; leave --fan out"),
        (["operators", "8", "9", "9", "--footprint", "--window", "hann"], "leave --window out"),
        (["reproduce", "--published", "--full"], "--published runs nothing"),
        (["reproduce", "--published", "--out", "x"], "leave --out out"),
        (["bound", KO, "-n", "1"], "-n must be a finite number >= 2, got 1"),
        (["bound", KO, "-n", "many"], "Invalid value for '-n'"),
        (["bound", KO, "--target", "-1"], "target must be a finite number > 0"),
        (["bound", KO, "--bound", "papr"], "did you mean 'paper'?"),
        (["bound", KO, "--replace", "w"], "no layer 'w' in this network; did you mean 'W'"),
        (["bound", KO, "--taget", "1"], "--target"),
        (["bond", KO], "No such command 'bond'"),
        (["bound", KO, "--replace", ""], "there is no layer '' in this network"),
        (["operators", "1" + 200 * "0", "1", "1"], "H must be a whole number from 1 to"),
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


@pytest.mark.parametrize("arguments", ["operators 8 10 8 --footprint --json", "--help"])
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
    for arguments in (("check", "a" * 300), ("run", STUDY, "--out", "a" * 300)):
        line = refused(*arguments)
        assert "aaaa" in line
        # Python 3.14 reports no error where it looks for such a file, only where it makes one.
        assert "file name too long" in line or "no such file" in line
    gone = tmp_path / "gone"
    command = f"mkdir {gone} && cd {gone} && rmdir {gone} && {sys.executable} -m korisk"
    for asked in (f"run {STUDY} --dry-run", "bound --module models:unet"):
        found = shell(f"{command} {asked}")
        assert found.returncode == 2
        assert found.stderr.startswith("korisk: the working folder no longer exists")
