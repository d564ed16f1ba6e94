"""Reports of studies of every kind: whole, half or empty, of one point, model or size, of many."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import korisk
from made_studies import LAWS, USAGE, content, made_study, result

import korisk as kr
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import compare
from korisk.planning.targets import Group, main_group
from korisk.report.contents import read_contents
from korisk.report.page.planner import groups_data
from korisk.report.page.study import study_page
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.texts import script_json

LARGEST = 5_000_000  # bytes of a page
pytestmark = pytest.mark.usefixtures("bare_pages")


class Texts:
    def __init__(self, text: str) -> None:
        answers = re.findall('class="answer"[^>]*>(.*?)</h1>', text)
        (self.answer,) = map(unescape, answers)
        self.odds = unescape("".join(re.findall('<p id="odds">(.*?)</p>', text)))
        self.lines = [unescape(line) for line in re.findall("<li>(.*?)</li>", text)]
        (data,) = re.findall('id="data">(.*?)</script>', text)
        self.data = json.loads(data)
        self.has_planner = 'id="panel"' in text

    def notes(self, words: str) -> bool:
        return any(words in line for line in self.lines)


def page(folder: Path, **options: Any) -> Texts:
    text = study_page(read_contents(folder), **options)
    assert len(text.encode()) < LARGEST
    return Texts(text)


def stored(folder: Path, *cells: tuple[list[Row], dict[str, Any]]) -> Path:
    """A store of a program of one's own: no study file, one cell a seed."""
    with Store.create_or_open(folder / "study.db", {"name": "mine"}) as store:
        for seed, (rows, arrays) in enumerate(cells, start=1):
            made = Result(rows=tuple(rows), arrays=arrays)
            store.record(Task(point="here", seed=seed, spec={"depth": 3}), made, USAGE)
    return folder


grouped = Group.of_curves


def exact(model: str, floor: float, level: float, *, unit: str = "error") -> Curve:
    n = np.repeat([4, 16, 64, 256], 2)
    error = (floor + level / n) * np.tile([0.99, 1.01], 4)
    return Curve.of_errors(n, error, [1, 2] * 4, model, "metric", unit)


def test_the_first_target_is_one_that_both_models_answer_with_an_interval() -> None:
    known, dense = exact("KO", 0.01, 0.1), exact("FC", 0.001, 1.0)
    pair = grouped("both", (known, dense))
    for plan in pair.plans:
        assert plan.even is not None
        assert not plan.met_at_smallest
        assert plan.lower < plan.upper < np.inf
    assert pair.sentence.endswith("5% more error than the lowest of KO)")
    assert pair.target == pytest.approx(1.05 * known.means.min(), rel=0.005)
    assert pair.comparison is not None
    assert pair.sentence.startswith(pair.comparison.saving())
    alone = grouped("alone", (known,))
    assert alone.plans[0].even is not None
    assert grouped("asked", (known,), requested=0.02).target == 0.02
    score = exact("net", 0.0005, 0.1, unit="accuracy")  # is rounded as an error
    group = grouped("alone", (score,))
    assert 1 - group.target == pytest.approx(0.8 * score.means.min(), rel=0.005)
    (plan,) = group.plans
    assert plan.even is not None
    assert not plan.met_at_smallest


def test_the_page_opens_with_the_last_group_that_compares_models_and_is_complete() -> None:
    known, dense = exact("KO", 0.01, 0.1), exact("FC", 0.001, 1.0)
    short = Curve([4, 8], [0.2, 0.1], model="short")
    first, second = grouped("1", (known, dense)), grouped("2", (known, dense))
    half, alone = grouped("4", (known, dense), complete=False), grouped("5", (known,))
    assert main_group([first, second, half, alone, grouped("6", (short,))]) is second
    assert main_group([half, alone]) is half
    assert main_group([alone]) is alone
    assert main_group([grouped("6", (short,))]) is None


def test_crossovers_are_those_of_a_comparison() -> None:
    known, dense = exact("KO", 0.01, 0.1), exact("FC", 0.001, 1.0)
    group = grouped("both", (known, dense, Curve([4, 8], [0.2, 0.1])))
    data, notes = groups_data([group], 0.9)
    (pair,) = data[0]["pairs"]
    both = compare(known, dense, group.target)
    assert both.crossover is not None
    assert f"N = {both.crossover.n:,}" in pair["crossover"]
    assert "FC" in pair["crossover"]
    at = data[0]["start"]
    assert (pair["savings"][at], pair["likely"][at]) == (both.saving(), both.likely)
    assert notes == [f"{Curve([4, 8], [0.2, 0.1]).name} has 2 sizes; the planner needs 3."]


def test_curves_beyond_the_room_give_way_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = tuple(exact(name, 0.001 * at, 0.5) for at, name in enumerate("abcde"))
    (whole,), notes = groups_data([grouped("all", curves)], 0.9)
    assert not notes
    size = len(script_json(whole))
    monkeypatch.setattr("korisk.report.page.planner.ROOM", int(0.7 * size))
    (kept,), notes = groups_data([grouped("all", curves)], 0.9)
    assert len(kept["models"]) == 3
    assert {(pair["first"], pair["second"]) for pair in kept["pairs"]} == {(0, 1), (0, 2), (1, 2)}
    assert "2 more curves; korisk plan has" in notes[0]
    assert len(script_json(kept)) <= 0.7 * size


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"missing": 3}, "no cell is finished yet; run the study first"),
        ({"failed": 3}, "3 failed, the first: a pixel <b>fell</b> out; correct that"),
        (None, "study"),
    ],
)
def test_a_study_without_results_is_refused_in_a_line(
    state: dict[str, Any] | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path if state is None else made_study(tmp_path / "study", **state)
    assert korisk("report", folder) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
    assert [each.name for each in folder.iterdir()] == ["study.db"] * (state is not None)


def test_what_is_missing_and_what_failed_is_said(tmp_path: Path) -> None:
    asked = content([{"side": 8}, {"side": 16}], sizes=[4, 16, 64])
    folder = made_study(tmp_path / "study", asked, missing=4, failed=1)
    contents = read_contents(folder)
    assert [point.missing for point in contents.points] == [(3,), (1, 2, 3)]
    assert not contents.complete
    assert contents.points[1].curves == ()
    said = page(folder)
    assert said.answer  # the point that has results answers
    assert said.notes("3 of 3 cells are missing (seeds 1, 2, 3)")
    assert said.notes("1 cell failed, the first: a pixel <b>fell</b> out")


def test_json_tells_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_study(tmp_path / "study", missing=1)
    out = tmp_path / "elsewhere"
    assert korisk("report", folder, "--out", out, "--only", "tables,page", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["incomplete"] == {"rigorous-8": {"failed": 0, "missing": [3]}}
    written = {Path(file) for file in said["written"]}
    assert written == {file for file in out.rglob("*") if file.is_file()}
    assert out / "report.html" in written
    assert {file.suffix for file in written} == {".html", ".csv"}


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--only", "pages"), "--only must be one of page, figures, tables, got 'pages'; did you"),
        (("--formats", "gif"), "--formats must be one of png, svg, pdf, got 'gif'"),
        (("--target", "-1"), "target must be above 0"),
        (("--only", "tables", "--target", "0.1"), "--target is for the page"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...], words: str
) -> None:
    folder = made_study(tmp_path / "study")
    assert korisk("report", folder, *option) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_one_point_one_model_one_seed_and_one_size(tmp_path: Path) -> None:
    found = page(made_study(tmp_path / "one", content(seeds=[7], models=["KO"])))
    (group,) = found.data["groups"]
    assert ([model["name"] for model in group["models"]], group["pairs"]) == (["KO"], [])
    assert found.answer.startswith("KO: ")
    assert " error than the lowest of KO)" in found.odds
    found = page(made_study(tmp_path / "short", content(sizes=[16])))
    assert found.answer.startswith("No curve has three sizes yet")
    assert not found.has_planner


def test_values_that_no_curve_can_hold_are_left_out_and_named(tmp_path: Path) -> None:
    said = content(models=["KO"])
    folder = made_study(tmp_path / "study", said, missing=1)
    with Store.create_or_open(folder / "study.db", said) as store:
        (first, *_) = store.results()
        task = Task(point=first.task.point, seed=3, spec=first.task.spec)
        rows = list(result(task, {"KO": LAWS["KO"]}).rows)
        for place, value in ((2, 0.0), (3, float("nan"))):
            rows[place] = Row(model="KO", n=rows[place].n, metrics={"mse": value})
        store.record(task, Result(rows=tuple(rows)), USAGE)
    (point,) = read_contents(folder).points
    assert [note.startswith("KO: 2 of 18 values of mse") for note in point.left_out] == [True]
    assert point.curves[0].counts.tolist() == [3, 2, 2, 3, 3, 3]
    assert page(folder).notes("2 of 18 values of mse")


def test_six_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are compared with the first."""
    monkeypatch.setattr("korisk.planning.targets._MOST_PAIRS", 4)  # each takes half a second
    laws = {f"net {at:02d}": (1e-4, 0.05 + 0.002 * at, 0.6) for at in range(6)}
    said = content(seeds=[1, 2], sizes=[8, 64, 512])
    # With little noise, because it takes long to say how little a pilot tells.
    (group,) = page(made_study(tmp_path, said, laws=laws, noise=0.003)).data["groups"]
    assert [model["name"] for model in group["models"]] == list(laws)
    assert [pair["second"] for pair in group["pairs"]] == list(range(1, 5))


def test_a_target_is_asked_everywhere_or_said_to_be_refused(tmp_path: Path) -> None:
    folder = made_study(tmp_path / "study")
    before = (folder / "study.db").read_bytes()
    texts = [study_page(read_contents(folder), target=0.004) for _ in range(2)]
    assert texts[0] == texts[1]  # the same to the byte, and the store is only read
    assert (folder / "study.db").read_bytes() == before
    found = Texts(texts[0])
    (group,) = found.data["groups"]
    assert group["targets"][group["start"]] == 0.004
    assert "0.004" not in found.odds
    contents = read_contents(folder)
    with pytest.raises(KoriskError, match="target must be above 0"):
        study_page(contents, target=0.0)
    (point,) = contents.points
    easy = [Curve(curve.n, 100 * curve.error, curve.seed, curve.model) for curve in point.curves]
    other = replace(point, name="in percent", curves=tuple(easy))
    found = Texts(study_page(replace(contents, points=(point, other)), target=0.3))
    assert found.notes("rigorous-8: target 0.3 is worse")
    small, large = (group["targets"][group["start"]] for group in found.data["groups"])
    assert (small < 0.01, large) == (True, 0.3)


def test_a_store_of_a_program_of_ones_own(tmp_path: Path) -> None:
    cells = []
    for seed in (1, 2, 3):
        errors = {n: (1 + seed / 50) * n**-0.5 for n in (10, 100, 1000)}
        rows = [Row(model="net", n=n, metrics={"L1": error}) for n, error in errors.items()]
        cells.append((rows, {"a": np.ones(3)}))
    contents = read_contents(stored(tmp_path, *cells))
    assert contents.points[0].metric == "L1"
    found = page(tmp_path)
    assert "L1" in found.odds


def test_scores_of_a_program_of_ones_own_are_scores(tmp_path: Path) -> None:
    cells: list[tuple[list[Row], dict[str, Any]]] = []
    for seed in (1, 2):
        scores = {0: 5.0, 2: 20.0, 4: 22.0, 8: 24.0 + seed / 10}
        cells.append(([Row(model="net", n=n, metrics={"PSNR": s}) for n, s in scores.items()], {}))
    (point,) = read_contents(stored(tmp_path, *cells)).points
    assert point.curves[0].unit.name == "psnr"
    assert point.untrained["net"] == pytest.approx(10**-0.5)
    assert page(tmp_path).data["groups"][0]["models"][0]["track"]["middle"][-1] > 24


def test_a_study_without_one_value_to_draw_is_a_page_nevertheless(tmp_path: Path) -> None:
    rows = [Row(model="net", n=4, metrics={"L1": float("nan")})]
    found = page(stored(tmp_path, (rows, {})), target=0.1)
    assert found.answer.startswith("No curve has three sizes yet")
    assert found.notes("1 of 1 values of L1 are missing")


def test_models_of_a_pilot_are_one_point_with_all_their_sizes(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"
    for model, factor in (("mine", 1.0), ("other", 2.0)):

        def fit(n: int, seed: int, factor: float = factor) -> float:
            return factor * (1 + seed / 100) / n

        kr.run_pilot(fit, [2, 4, 8], 2, store=store, model=model, quiet=True)
    contents = read_contents(store)
    [point] = contents.points
    assert [curve.model for curve in point.curves] == ["mine", "other"]
    assert [curve.sizes.tolist() for curve in point.curves] == [[2, 4, 8]] * 2
    assert len(point.cells) == 12


def test_odd_pictures_do_no_harm(tmp_path: Path) -> None:
    rows = [Row(model="net", n=n, metrics={"L1": 1 / n}) for n in (2, 4, 8)]
    other = {"truth": np.ones((2, 4, 4)), "net/2/images": np.ones((2, 3, 3))}  # of another shape
    assert read_contents(stored(tmp_path, (rows, other))).points[0].pictures is None
