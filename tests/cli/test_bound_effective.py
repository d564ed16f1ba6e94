"""`korisk bound` where a layer states its effective dimension."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import outputs

import korisk as kr

EXAMPLE = Path(__file__).parents[2] / "examples" / "ct_h256_ko.yaml"
TARGET = 1.0
NET = kr.Network(
    [
        kr.Learned("W", parameters=23040, effective=1234.5, C=0.1, kappa=2e-3),
        kr.Known("K", lipschitz=0.0174),
        kr.Learned("V", parameters=90, lipschitz=1.0, kappa=1e-6),
        kr.Known("A^T", lipschitz=148.6),
    ],
    compositions=[kr.theory.Composition("K", "A^T", lipschitz=0.3)],
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return written(tmp_path, NET)


def written(folder: Path, net: kr.Network) -> str:
    net.write(folder / "net.yaml")
    return str(folder / "net.yaml")


def out(*arguments: object, code: int = 0) -> str:
    printed, err = outputs("bound", *arguments, code=code)
    assert err.count("\n") == (code > 0)
    return " ".join((printed + err).split())


def found(*arguments: object) -> Any:
    return json.loads(out(*arguments, "--json"))


def both(
    net: kr.Network, n: float, form: kr.theory.BoundForm = "composed"
) -> list[kr.theory.BarronBound]:
    return [kr.barron_bound(net, n, bound=form, effective=each) for each in (False, True)]


def test_both_bounds_and_sample_sizes_stand_side_by_side(path: str) -> None:
    lines = outputs("bound", path, "-n", 64, "--target", TARGET)[0].splitlines()
    for form in kr.theory.BOUNDS:
        for suffix, bound in zip(("", ", effective"), both(NET, 64, form), strict=True):
            label, estimate = form + suffix, bool(suffix)
            (row,) = (line.split() for line in lines if line.strip().startswith(f"{label} "))
            needed = kr.sample_size(NET, TARGET, bound=form, effective=estimate)
            tightest = both(NET, 64)[estimate].total
            values = [f"{x:.4g}" for x in (bound.total, bound.floor, bound.estimation)]
            assert row[1 + estimate :] == [*values, f"{bound.total / tightest:.3g}", f"{needed:,}"]
    rows = [line.split() for line in lines]
    for name, dimensions in {"W": ["23,040", "1,234"], "V": ["90", "-"]}.items():
        parts = [f"{b.contributions[NET.index(name)]:.4g}" for b in both(NET, 64)]
        assert [name, *dimensions, *parts] in rows


def test_p_decides_unless_the_other_is_asked_for(path: str) -> None:
    arguments = path, "--target", TARGET
    with_p, estimate = (kr.sample_size(NET, TARGET, effective=each) for each in (False, True))
    assert with_p > estimate
    text = out(*arguments)
    bounds = both(NET, with_p)
    assert f"squared error of at most {bounds[0].total:.4g} (composed bound)" in text
    assert f"dimension of W in place of p it is {bounds[1].total:.4g}: an estimate" in text
    assert f"From N = {with_p} on the bound stays at or below the target 1;" in text
    assert f"; with effective dimensions, from N = {estimate} on." in text
    assert "eters effective share" not in text
    assert "No effective dimension is stated for V: p stays there." in text
    text = out(*arguments, "--effective")
    bounds = both(NET, estimate)
    assert "eters effective share" in text  # which of the two the layers' column is
    for fact in (
        "if the constants hold and the effective dimension of W may stand for p, a net",
        f"squared error of at most {bounds[1].total:.4g} (composed bound)",
        f"an estimate. The theorem's statement is with p and gives {bounds[0].total:.4g}",
        f"From N = {estimate} on the bound stays",
        f"target 1; with p, from N = {with_p} on.",
        f"W learned - - {NET.amplification('paper')[0]:.4g}",
    ):
        assert fact in text
    shares = bounds[1].whole.shares
    assert f"{bounds[1].contributions[0]:.4g} {shares[0]:.0%}" in text
    assert "No effective dimension is stated for V: p stays there." in text
    assert "belongs to one sample size" in text


def test_where_every_layer_states_one_nothing_keeps_its_p(tmp_path: Path) -> None:
    alone = written(tmp_path, kr.Network([kr.Learned("W", parameters=9, effective=0.25)]))
    text = out(alone)
    assert " W 9 0.25 " in text
    assert "p stays" not in text


@pytest.mark.parametrize("asked", [[], ["--effective"]])
def test_json_has_both_whatever_was_asked(path: str, asked: list[str]) -> None:
    said = found(path, "-n", 64, "--target", TARGET, *asked)
    assert said["dimension"] == ("effective" if asked else "parameters")
    assert said["network"]["layers"][0]["effective"] == 1234.5
    for prefix, estimate in (("", False), ("effective_", True)):
        for form in kr.theory.BOUNDS:
            expected = both(NET, 64, form)[estimate]
            for key in ("total", "floor", "estimation"):
                assert said[f"{prefix}bounds"][form][key] == getattr(expected, key)
            needed = kr.sample_size(NET, TARGET, bound=form, effective=estimate)
            assert said[f"{prefix}samples"][form] == needed
        bound = both(NET, 64)[estimate]
        for index, layer in enumerate(said["layers"]):
            assert layer[f"{prefix}estimation"] == bound.estimations[index]
            assert layer[f"{prefix}contribution"] == bound.contributions[index]
            assert layer[f"{prefix}share"] == bound.whole.shares[index]
    dimensions = [(layer["parameters"], layer["effective"]) for layer in said["layers"]]
    assert dimensions == [(23040, 1234.5), (0, None), (90, None), (0, None)]


@pytest.mark.parametrize("asked", [[], ["--effective"]])
def test_n_and_reach_follow_what_was_asked(path: str, asked: list[str]) -> None:
    said = found(path, "--target", TARGET, "--replace", "V", *asked)
    assert said["reachable"] is True
    assert said["n"] == kr.sample_size(NET, TARGET, effective=bool(asked))
    assert said["replace"]["n"] == said["n"]  # both at the same N, or nothing could be compared


@pytest.mark.parametrize("asked", [[], ["--effective"]])
def test_what_a_known_layer_saves_is_said_for_both(path: str, asked: list[str]) -> None:
    arguments = path, "-n", 64, "--target", TARGET, "--replace", "W", *asked
    after = NET.replace("W")
    said = found(*arguments)["replace"]
    for prefix, estimate in (("", False), ("effective_", True)):
        saved = kr.theory.savings(NET, "W", effective=estimate)
        assert said[f"{prefix}saved_estimation"] == pytest.approx(saved.estimation(64))
        assert said["saved_approximation"] == pytest.approx(saved.approximation)
        # V states none, so that both are with p once W is known.
        assert said[f"{prefix}bounds"]["paper"]["total"] == both(after, 64, "paper")[0].total
        assert said[f"{prefix}samples"]["composed"] == kr.sample_size(after, TARGET)
    text = out(*arguments)
    first, second = both(NET, 64)[:: -1 if asked else 1]
    rest = f"{both(after, 64)[0].total:.4g}"
    assert f"With W known, the bound at N = 64 falls from {first.total:.4g} to {rest}:" in text
    other = "p" if asked else "effective dimensions"
    assert f"With {other} it falls from {second.total:.4g} to {rest}." in text
    assert f"then holds from N = {kr.sample_size(after, TARGET)} on." in text


def test_without_parameters_only_the_estimate_is_given(tmp_path: Path) -> None:
    alone = written(tmp_path, kr.Network([kr.Learned("W", effective=12.5, C=0.1)]))
    refused = out(alone, code=2)
    assert all(fact in refused for fact in ("layer 'W': parameters is missing", "--effective"))
    text = out(alone, "-n", 64, "--target", 0.1, "--effective", "--replace", "W")
    assert "The theorem's statement is with p, which is missing here." in text
    assert "A dash: the file lacks a constant" in text
    assert "composed - - - - - composed, effective" in text
    assert "with p, from" not in text
    said = found(alone, "-n", 64, "--target", 0.1, "--effective", "--replace", "W")
    assert said["bounds"]["composed"] is said["samples"]["composed"] is None
    assert said["layers"][0]["parameters"] is said["layers"][0]["estimation"] is None
    assert said["replace"]["saved_estimation"] is None
    assert (
        said["replace"]["effective_saved_estimation"] == said["layers"][0]["effective_estimation"]
    )
    line = kr.theory.RiskLine(0.01, 12.5)
    for form in kr.theory.BOUNDS:  # one layer, so all of them are the same
        assert said["effective_bounds"][form]["total"] == pytest.approx(line.predict(64))
        assert said["effective_samples"][form] == line.samples(0.1)


@pytest.mark.parametrize("asked", [[], ["--effective"]])
def test_a_target_that_cannot_be_inverted_is_an_error_not_an_answer(
    tmp_path: Path, asked: list[str]
) -> None:
    huge = kr.Learned("W", parameters=10, effective=9, kappa=1e307), kr.Known("K", lipschitz=2.0)
    file = written(tmp_path, kr.Network(huge))
    assert "larger than a double" in out(file, "--target", 1, *asked, code=2)


def test_an_unreachable_target_leaves_with_3(path: str) -> None:
    text = out(path, "--target", 1e-9, "--effective", code=3)
    assert "cannot be reached: the composed bound levels off" in text


def test_nothing_is_said_where_nothing_is_stated() -> None:
    assert "effective" not in out(EXAMPLE, "--target", 0.1)
    said = found(EXAMPLE, "--target", 0.1, "--replace", "W")
    assert not [key for key in (*said, *said["replace"]) if key.startswith("effective")]
    assert said["layers"][0]["effective"] is None
    refused = out(EXAMPLE, "--effective", code=2)
    assert "--effective needs a learned layer that states its effective dimension" in refused


def test_files_say_what_is_wrong(tmp_path: Path) -> None:
    wrong = {
        "- {learned: W, parameters: 9, effective: 9.5}": "effective must be at most the layer's",
        "- {learned: W, effective: many}": "effective must be",
        "- {learned: W, efective: 3}": "did you mean 'effective'",
        "- {known: W, effective: 3}": "a known layer takes no effective",
    }
    for number, (layer, expected) in enumerate(wrong.items()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"layers:\n{layer}\n")
        refused = out(file, code=2)
        assert file.name in refused
        assert expected in refused


def test_the_tables_fit_a_terminal_of_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korisk.cli.common.output.NARROWEST", 80)
    monkeypatch.setenv("COLUMNS", "80")
    layers = kr.Learned("M", parameters=10**12, effective=3.3e10), kr.Known("K", lipschitz=0.0174)
    file = written(tmp_path, kr.Network(layers))
    lines = outputs("bound", file, "--target", 1e-8, "--effective")[0].splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    assert ["M", "1e+12", "3.3e+10"] in [row[:3] for row in rows]
    for form in kr.theory.BOUNDS:  # no cell folded
        assert [len(row) for row in rows if row[:1] in ([form], [f"{form},"])] == [6, 7]
