"""`korisk plan` and `korisk compare` never show a number of samples without its chance."""

import math
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from commands import content, outputs, refused, text

import korisk as kr
from korisk.planning.words import chance, count

H8 = Path(__file__).parents[2] / "examples" / "pilot_h8.csv"
SIZES = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
STEP = [1.0] * 4 + [0.01] * 5


def written(path: Path, rows: Iterable[tuple[int, float]], model: str = "") -> Path:
    lines = (f"{n},{error!r},{model}" if model else f"{n},{error!r}" for n, error in rows)
    header = "n,error,model" if model else "n,error"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def rows(*command: object, code: int = 0) -> list[list[str]]:
    """What the table of samples holds, by its cells."""
    lines = iter(outputs(*command, code=code)[0].splitlines())
    heads = (["target", "model"], ["model", "80%"])
    next((line for line in lines if line.split()[:2] in heads), "")
    shown = takewhile(lambda line: line.strip() and not line.startswith("("), lines)
    joined = (line.replace("above ", "above-").replace("below ", "below-") for line in shown)
    return [[cell.replace("-", " ", cell != "-") for cell in line.split()] for line in joined]


def plan_of(*command: object, code: int = 0) -> Any:
    (found,) = content(*command, code=code)["plans"]
    return found


@pytest.mark.parametrize("target", [0.003, 0.0022, 0.001])
def test_the_reach_stands_beside_n_and_numbers_count_all_futures(target: float) -> None:
    plan = kr.plan(kr.Curve.read(H8, model="FC"), target)
    (row,) = rows("plan", H8, "--model", "FC", "--target", target, "--full")
    safe = [plan.samples(level) for level in (0.8, 0.9, 0.95, 0.5)]
    assert row[:2] == [f"{target:g}", "FC"]
    assert row[2:6] == ["none" if n is None else f"{n:,}" for n in safe]
    assert row[6:] == [f"{plan.lower:,}", count(plan.upper), chance(plan.reach)]
    assert all(n is None or plan.probability(n) >= 0.5 for n in safe)
    found = plan_of("plan", H8, "--model", "FC", "--target", target)
    assert (found["even"], found["reach"], found["trust"]) == (plan.even, plan.reach, None)


def test_compare_has_the_reach_of_both() -> None:
    found = rows("compare", H8, "--target", 0.00205, "--full")
    for model, row in zip(("KO", "FC"), found, strict=True):
        plan = kr.plan(kr.Curve.read(H8, model=model), 0.00205)
        odds = ["none" if n is None else f"{n:,}" for n in map(plan.samples, (0.8, 0.9, 0.95, 0.5))]
        assert row[:5] == [model, *odds]
        assert row[7] == chance(plan.reach)


def test_a_probability_that_no_number_has_comes_with_the_reach() -> None:
    plan = kr.plan(kr.Curve.read(H8, model="FC"), 0.0022)
    command = ("plan", H8, "--model", "FC", "--target", 0.0022, "--full", "--sure")
    n = plan.samples(0.8)
    assert n is not None
    said = text(*command, 0.8)
    step = f"Do next: collect {n - 64:,} more than the pilot has."
    assert said.startswith(f"FC: {n:,} samples are enough for 0.0022 (80% sure). {step}")
    assert plan.samples(0.97) is None
    said = text(*command, 0.97)
    assert "No number of samples has a chance of 97% to be enough" in said
    assert f"reached at all is {chance(plan.reach)}" in said
    advice = plan_of(*command, 0.97)["recommendation"]
    assert (advice["action"], advice["sure"]) == ("measure", 0.97)


@pytest.fixture
def step(tmp_path: Path) -> Path:
    return written(tmp_path / "step.csv", zip(SIZES, STEP, strict=True))


def test_a_step_has_an_answer_inside_and_none_beyond(step: Path) -> None:
    inside = plan_of("plan", step, "--target", 0.5)
    assert (32 < inside["even"] <= 64, inside["doubt"]) == (True, "")
    assert "between N = 32 and 64" in inside["explanation"]
    out, err = outputs("plan", step, "--target", 0.005, code=3)
    said = " ".join(out.split())
    assert said.startswith("Not known how many samples 0.005 needs: from N = 32 to 64 the mean")
    assert "To find out, " in said
    assert "are enough" not in said
    assert err == "", "it is said once"
    assert rows("plan", step, "--target", 0.005, "--full", code=3) == []
    found = plan_of("plan", step, "--target", 0.005, "--sure", 0.8, code=3)
    assert "cannot be extrapolated" in found["doubt"]
    assert (found["even"], found["lower"], found["reach"]) == (None, None, None)
    advice = found["recommendation"]
    assert (advice["action"], advice["n"], advice["even"]) == ("unknown", None, None)


def test_an_error_beyond_a_step_is_not_known(step: Path) -> None:
    found = plan_of("plan", step, "--at", 100, "--at", 5000, code=3)
    assert [each["n"] for each in found["at"]] == [100, 5000]
    assert found["at"][0]["value"] == pytest.approx(0.01, rel=0.05)
    assert found["at"][1]["value"] is None
    line = refused("plan", step, "--at", 5000, code=3)
    assert "the error at N = 5,000 is not known" in line
    assert "--at must be a whole number" in refused("plan", step, "--at", "1e300")


def test_compare_tells_the_doubt_of_one_side(step: Path, tmp_path: Path) -> None:
    smooth = written(tmp_path / "b.csv", ((n, 0.5 * n**-0.5) for n in SIZES), "KO")
    said = text("compare", smooth, step, "--target", 0.005, code=3)
    for fact in (
        "not known how many samples 0.005 needs",
        "what follows such a step",
        "first: ",
    ):
        assert fact in said


TRUTH = [0.05 * n**-0.5 + 0.001 for n in SIZES]
NOISE = [1.01, 0.99, 1.0, 1.01]
PILOT = [(n, 1.4 * e * f) for n, e, f in zip(SIZES[1:5], TRUTH[1:5], NOISE, strict=True)]
MISLEADING = [1.0, 0.99, 0.97, 0.9, 0.5, 0.1, 0.05, 0.04, 0.039]


@pytest.fixture
def pilot(tmp_path: Path) -> Path:
    return written(tmp_path / "pilot.csv", PILOT, "KO")


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    return written(tmp_path / "simulated.csv", zip(SIZES, TRUTH, strict=True))


@pytest.fixture
def misleading(tmp_path: Path) -> Path:
    return written(tmp_path / "misleading.csv", zip(SIZES, MISLEADING, strict=True))


def test_related_curves_make_the_answer_surer(pilot: Path, simulated: Path) -> None:
    command = ("plan", pilot, "--target", 0.006)
    alone = plan_of(*command)
    found = plan_of(*command, "--related", simulated)
    truth = 218  # 1.4 (0.05 N^-1/2 + 0.001) = 0.006
    assert found["trust"] > 0.5
    assert found["reach"] > alone["reach"]
    assert abs(found["even"] - truth) < 0.3 * truth
    assert found["lower"] < truth < (found["upper"] or math.inf)
    said = text(*command, "--related", simulated, "--full")
    assert f'("simulated.csv") explain the pilot (trust {chance(found["trust"])})' in said
    assert f"{alone['even']:,} samples are enough with a 50% chance" in said
    named = kr.Curve.read(simulated, model="simulated.csv")
    assert found["even"] == kr.plan(kr.Curve.read(pilot), 0.006, related=[named]).even


def test_related_files_may_be_several(pilot: Path, simulated: Path, misleading: Path) -> None:
    both = ("--related", simulated, "--related", misleading)
    said = text("plan", pilot, "--target", 0.006, *both)
    assert 'Related curves ("simulated.csv", "misleading.csv") explain the pilot' in said


def test_the_model_of_the_same_name_is_the_related_one(pilot: Path, tmp_path: Path) -> None:
    first = written(tmp_path / "first.csv", zip(SIZES, TRUTH, strict=True), "KO")
    other = written(tmp_path / "other.csv", zip(SIZES, MISLEADING, strict=True), "FC")
    rows_of_other = other.read_text().splitlines()[1:]
    first.write_text(first.read_text() + "\n".join(rows_of_other) + "\n")
    command = ("plan", pilot, "--target", 0.006, "--related", first)
    assert '("KO of first.csv")' in text(*command)
    # Without one of that name, all models of the file are relatives.
    first.write_text(first.read_text().replace("KO", "CNN"))
    assert '("CNN of first.csv", "FC of first.csv")' in text(*command)


def test_a_pilot_without_a_namesake_is_planned_alone(tmp_path: Path) -> None:
    simulated = written(tmp_path / "simulated.csv", zip(SIZES, TRUTH, strict=True), "KO")
    two = written(tmp_path / "two.csv", PILOT, "KO")
    more = "".join(f"{n},{1.2 * error},FC\n" for n, error in PILOT)
    two.write_text(two.read_text() + more)
    command = ("plan", two, "--target", 0.008, "--related", simulated)
    assert "No related curve is named FC." in text(*command)
    found = content(*command)["plans"]
    assert [plan["trust"] is None for plan in found] == [False, True]


def test_units_and_metrics_of_related_curves_are_the_pilots(tmp_path: Path) -> None:
    pilot, related = tmp_path / "pilot.csv", tmp_path / "related.csv"
    head, known = "n,error,metric\n", list(zip(SIZES, TRUTH, strict=True))
    pilot.write_text(head + "".join(f"{n},{100 - 100 * e},accuracy\n" for n, e in PILOT))
    rows = [f"{n},{100 - 100 * e},accuracy\n" for n, e in known]
    related.write_text(head + "".join([*rows, *(f"{n},{1 - e},loss\n" for n, e in known)]))
    command = ("plan", pilot, "--target", 99.4, "--unit", "percent", "--related", related)
    assert plan_of(*command)["trust"] > 0.5
    related.write_text(related.read_text().replace("accuracy", "auc"))
    assert "no metric 'accuracy'" in refused(*command)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--related", "nowhere.csv"), "nowhere.csv: no such file"),
        (("--related", "pilot.csv"), "another file than the pilot"),
        (("--related", "short.csv"), "a related curve needs at least 3 distinct N"),
    ],
)
def test_related_curves_that_cannot_be_used_are_refused_in_one_line(
    pilot: Path,
    simulated: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(pilot.parent)
    written(Path("short.csv"), [(4, 0.1), (8, 0.05)])
    assert words in refused("plan", "pilot.csv", "--target", 0.006, *options)
