"""`korisk plan` and `korisk compare` as a user meets them."""

import json
import math
from pathlib import Path

import pytest
from commands import content, outputs, refused, text

import korisk as kr
from korisk.planning.words import chance

EXAMPLES = Path(__file__).parents[2] / "examples"
H8, H128 = str(EXAMPLES / "pilot_h8.csv"), str(EXAMPLES / "pilot_h128.csv")
GOOD = "n,error,seed\n4,0.4,1\n4,0.42,2\n8,0.3,1\n8,0.31,2\n16,0.22,1\n16,0.23,2\n32,0.17,1\n"


def test_plan_as_json_is_the_plan_of_the_library() -> None:
    command = ("plan", H8, "--model", "FC", "--target", 0.003, "--at", 128, "--sure", 0.85)
    (found,) = content(*command)["plans"]
    plan = kr.plan(kr.Curve.read(H8, model="FC"), 0.003)
    expected = plan.forecast.at(128)
    assert (found["even"], found["lower"]) == (plan.even, plan.lower)
    assert (found["upper"] or math.inf, found["samples"]["0.9"]) == (plan.upper, plan.samples(0.9))
    advice = found["recommendation"]
    assert (advice["action"], advice["sure"], advice["n"]) == ("collect", 0.85, plan.samples(0.85))
    assert advice == json.loads(json.dumps(plan.recommend(0.85).to_dict()))
    ends = {"value": expected.value, "lower": expected.lower, "upper": expected.upper}
    assert found["at"] == [{"n": 128, "chances": [plan.probability(128)], **ends}]


@pytest.mark.parametrize("unit", ["accuracy", "psnr", "error"])
def test_json_calls_no_score_an_error(unit: str, tmp_path: Path) -> None:
    errors = [scale * n**-0.5 for scale in (1, 1.5) for n in (16, 32, 64, 128, 256)]
    values = kr.curves.UNITS[unit].from_error(errors)
    rows = zip([16, 32, 64, 128, 256] * 2, values, ["A"] * 5 + ["B"] * 5, strict=True)
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,value,model\n" + "".join(f"{n},{v},{m}\n" for n, v, m in rows))
    target = float(kr.curves.UNITS[unit].from_error(0.055))
    given = (str(pilot), "--unit", unit, "--target", target, "--column", "error=value")
    plans = content("plan", *given, "--at", 512)["plans"]
    assert all(plan["at"][0]["lower"] <= plan["at"][0]["value"] for plan in plans)
    both = content("compare", *given)
    assert (unit == "error") is ("error" in json.dumps([plans, both]))


def test_an_endless_upper_end_is_null(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error\n4,0.18632\n16,0.13768\n64,0.09477\n256,0.0701\n")
    (found,) = content("plan", str(pilot), "--target", "0.0475")["plans"]
    assert found["upper"] is None
    assert found["even"] > 256


def test_errors_at_n_need_no_target() -> None:
    out = text("plan", H128, "--at", "4096", "--at", "100")
    assert "4,096" in out
    assert "chance" not in out
    view = kr.Curve.read(H8, model="FC")
    then = kr.forecast(view).at(256)
    cells = [f"{x:.4g}" for x in (then.value, then.lower, then.upper)]
    odds = [chance(kr.plan(view, goal).probability(256)) for goal in (0.003, 0.002)]
    out = text("plan", H8, "--model", "FC", "--at", 256, "--target", 0.003, "--target", 0.002)
    assert " ".join(["FC", "256", *cells, *odds]) in out


def test_a_floor_above_the_target_is_exit_code_3_in_words_and_json(tmp_path: Path) -> None:
    pilot = tmp_path / "seeds.csv"
    rows = [f"{n},{(0.05 + 1 / n) * (0.98 + 0.01 * seed)!r},{seed}\n" for seed in (1, 2, 3)
            for n in (8, 16, 32, 64, 128, 256, 512)]  # fmt: skip
    pilot.write_text("n,error,seed\n" + "".join(rows))
    (found,) = content("plan", pilot, "--target", "0.03", code=3)["plans"]
    assert set(found["samples"].values()) == {None}
    assert found["recommendation"]["action"] == "stop"
    assert found["floor"] == pytest.approx(0.05, rel=0.01)
    assert f"levels off at about {found['floor']:.4g}" in found["explanation"]
    out, err = outputs("plan", pilot, "--target", "0.03", code=3)
    lines = out.splitlines()
    assert lines[0] == "More data of this kind will not reach 0.03 (chance below 1%)."
    assert lines[1] == "Do next: stop."
    assert (len(lines), err) == (3, ""), "it is said once, without a table"


def test_a_run_that_would_tell_is_an_answer() -> None:
    """By means alone, without their seeds, a floor is not known."""
    (found,) = content("plan", H128, "--model", "KO", "--target", "0.03")["plans"]
    advice = found["recommendation"]
    assert (advice["action"], advice["n"], found["even"]) == ("unlikely", None, None)
    assert "Do next: train N = 2,048 once with 3 times the steps" in advice["sentence"]
    (found,) = content("plan", H8, "--model", "FC", "--target", "0.0015")["plans"]
    advice = found["recommendation"]
    assert (advice["action"], advice["n"], advice["seeds"]) == ("measure", 128, 3)


# Both commands hand their figure to one writer, whose kinds of files have tests of their own.
@pytest.mark.parametrize(
    ("suffix", "arguments"),
    [
        ("png", ("plan", H8, "--model", "FC", "--target", "0.003")),
        ("svg", ("compare", H8, "--target", "0.003")),
        ("pdf", ("plan", H8, "--target", "0.003")),
    ],
)
def test_plots_are_written(tmp_path: Path, suffix: str, arguments: tuple[str, ...]) -> None:
    path = tmp_path / f"figure.{suffix}"
    assert f"wrote {path}" in outputs(*arguments, "--plot", path)[1]
    assert path.stat().st_size > 5_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", H8, "--at", "9", "--sure", "2"), "--sure must be"),
        (("plan", H8, "--at", "9", "--plot", "x.png"), "--plot needs --target"),
        (("plan", H8, "--target", "0.003", "--model", "FC", "--plot", "x.gif"), "png"),
        (("plan", H8, "--target", "0.003", "--model", "CNN"), "known: KO, FC"),
        (("plan", H8, "--target", "0.3"), "in percent? then ask for 0.003"),
        (("plan", H8, "--target", "-1"), "target"),
        (("plan", H8, "--target", "0.003", "--fit", "paper"), "--fit"),
        (("plan", H8, "--target", "0.003", "--unit", "kelvin"), "unit must be one of"),
        (("plan", H8, "--target", "0.003", "--column", "train"), "OURS=YOURS"),
        (("plan", H8, "--target", "0.003", "--sure", "2"), ">= 0.5 and <= 0.99"),
        (("plan", H8, "--target", "0.003", "--sure", "nan"), "--sure must be"),
        (("plan", H8, "--target", "0.003", "--at", "1e300"), "--at must be a whole number"),
        (("plan", H8, "--target", "0"), "target must be above 0"),
        (("plan", H8, "--target", "0.003", "--target", "0"), "target must be above 0"),
        (
            ("plan", H8, "--target", "0.003", "--target", "0.002", "--plot", "x.png"),
            "--plot must draw one --target, got 2; leave the others out",
        ),
        (("compare", H8, "--target", "0.003", "--plot", "x.gif"), "png"),
        (("compare", H8, "--target", "0.003", "--plot", "absent/x.png"), "no such folder"),
        (("plan", "absent.csv", "--target", "0.1"), "no such file"),
        (("plan", "model=.csv", "--target", "1"), "korisk: model=.csv: no such file"),
        (("compare", H8), "needs --target"),
        (("compare", H8, H128, "--target", "0.05"), "needs two models, got 4"),
        (("compare", H8, "--target", "0.003", "--models", "KO,KO"), "must name two"),
        (("compare", H8, "--target", "0.003", "--models", "KO"), "must name two"),
        (("compare", H8, "--target", "0.003", "--models", "KO,CNN"), "no model 'CNN'"),
        (("compare", H8, H8, H8, "--target", "0.003"), "one file or two"),
    ],
)
def test_wrong_questions_are_refused_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"", "holds no table"), (b"n,error\n", "holds no measurements"),
        (b"n,error,seed\n4,0.1,1\n4,0.2,2\n", "at least 3 distinct N, got 1 (4)"),
        (GOOD.replace("0.31", "-0.31").encode(), "line 5"),
        (GOOD.replace("8,0.31", "8.5,0.31").encode(), "line 5"),
        (GOOD.replace("8,0.31", "1,0.31").encode(), "from 2 to"),
        (GOOD.replace("0.31", "low").encode(), "line 5, column 'error': 'low' is no number"),
        (GOOD.replace("4,0.42,2", "4,0.42,1").encode(), "N = 4 is given twice with seed '1'"),
        (GOOD.encode("utf-16-le"), "save it as .xlsx or CSV"),  # without a mark that tells so
        (bytes(range(256)) * 8, "binary"), (b"\x89PNG\r\n\x1a\n\x00\x00", "binary"),
        (b"n;mistake\n4;0,4\n", "mistake"),
    ],
)  # fmt: skip
def test_wrong_pilots_are_refused_in_one_line(tmp_path: Path, written: bytes, words: str) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_bytes(written)
    assert words in refused("plan", str(pilot), "--target", "0.1")


def test_ten_million_rows_are_refused_within_bounds(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    with pilot.open("w") as file:
        file.write("n,error\n")
        for _ in range(100):
            file.write("64,0.1\n" * 100_000)
    line = refused("plan", str(pilot), "--target", "0.1")
    assert "MB, the limit" in line


def test_columns_and_units_of_ones_own(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("size,acc\n16,61.2\n32,70.1\n64,77.3\n128,82.9\n")
    columns = ("--column", "n=size", "--column", "error=acc", "--at", "256")
    (found,) = content("plan", pilot, "--target", "88", "--unit", "percent", *columns)["plans"]
    assert found["even"] > 128
    assert 82.9 < found["at"][0]["value"] < 95
    assert found["floor"] > 88


def test_compare_shows_ratio_and_crossover() -> None:
    out = text("compare", H128, "--target", "0.06")
    found = content("compare", H128, "--target", "0.06")
    ko, fc = kr.Curve.read_all(H128)
    library = kr.compare(ko, fc, 0.06)
    assert library.crossover is not None
    assert out.startswith(library.saving())
    assert f"The curves cross at about N = {library.crossover.n}" in out
    assert (found["ratio"], found["crossover"]["n"]) == (library.ratio, library.crossover.n)
    swapped = content("compare", H128, "--target", "0.06", "--models", "FC,KO")
    assert swapped["ratio"] == pytest.approx(1 / found["ratio"])


def test_compare_takes_two_files(tmp_path: Path) -> None:
    rows = Path(H8).read_text().splitlines()
    paths = []
    for model in ("KO", "FC"):
        path = tmp_path / f"{model}.csv"
        path.write_text("\n".join([rows[1], *(row for row in rows if f",{model}," in row)]) + "\n")
        paths.append(str(path))
    together = content("compare", H8, "--target", "0.003")
    assert content("compare", *paths, "--target", "0.003") == together


def test_compare_says_when_one_has_no_answer() -> None:
    ko, fc = kr.Curve.read_all(H128)
    advice = [kr.plan(curve, 0.042).recommend() for curve in (ko, fc)]
    code = 3 if {item.action for item in advice} & {"stop", "unknown"} else 0
    out = text("compare", H128, "--target", "0.042", code=code)
    assert None in [item.chance for item in advice]
    assert all(item.sentence in out for item in advice)


def test_every_target_is_answered() -> None:
    asked = ("--target", 0.003, "--target", 0.0022)
    found = content("plan", H8, *asked, "--at", 128)["plans"]
    assert [(plan["model"], plan["target"]) for plan in found] == [
        ("KO", 0.003), ("KO", 0.0022), ("FC", 0.003), ("FC", 0.0022)
    ]  # fmt: skip
    said = text("plan", H8, *asked, "--at", 128, "--sure", 0.8)
    full = text("plan", H8, *asked, "--full")
    for plan in found:
        library = kr.plan(kr.Curve.read(H8, model=plan["model"]), plan["target"])
        assert plan["even"] == library.even
        assert plan["at"][0]["chances"] == [
            library.forecast.plan(target).probability(128) for target in (0.003, 0.0022)
        ]
        assert library.recommend(0.8).sentence in said
        assert library.recommend().sentence in full
    assert said.count("Expected error") == 1
    for finding in library.findings:
        assert finding in said
        assert finding in full


def test_a_comparison_answers_every_target() -> None:
    asked = ("compare", H8, "--target", 0.003, "--target", 0.0022)
    found = content(*asked)["comparisons"]
    assert found == [content("compare", H8, "--target", target) for target in (0.003, 0.0022)]
    said, full = text(*asked), text(*asked, "--full")
    assert all(f"Samples for {target}" in full for target in (0.003, 0.0022))
    for both in found:
        assert both["saving"] in said
        assert all(line in full for line in both["explanation"].splitlines())


@pytest.mark.parametrize("target", [0.02, 0.003, 0.0022, 0.001, 0.0001])
def test_a_model_takes_twelve_lines_and_the_advice_comes_first(
    monkeypatch: pytest.MonkeyPatch, target: float
) -> None:
    monkeypatch.setattr("korisk.cli.common.output.NARROWEST", 100)
    monkeypatch.setenv("COLUMNS", "100")
    for model in ("KO", "FC"):
        advice = kr.plan(kr.Curve.read(H8, model=model), target).recommend()
        code = 3 if advice.action in ("stop", "unknown") else 0
        out, _ = outputs("plan", H8, "--model", model, "--target", target, code=code)
        assert " ".join(out.split()).startswith(advice.sentence)
        assert len(out.strip().splitlines()) <= 12


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_tables_fit_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("korisk.cli.common.output.NARROWEST", 80)
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = outputs(command, H8, "--target", "0.003")
    assert all(len(line) <= 80 for line in out.splitlines())
    for model in ("KO", "FC"):
        rows = [line for line in out.splitlines() if model in line.split()[:2]]
        assert any("%" in row for row in rows)  # the largest chance of all N


def test_options_are_checked_without_a_target_too(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error\n4,0.5\n8,0.4\n16,0.3\n")
    assert "--sure" in refused("plan", pilot, "--sure", 2)


def test_a_page_is_refused_before_anything_is_lost(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error\n4,0.5\n8,0.4\n")
    for name, words in (
        ("pilot.csv", "the suffix of a page must be .html, got .csv"),
        ("page", "got none; rename the file"),
        ("nowhere/page.html", "no such folder; make it first"),
        ("page.html", "needs at least"),
    ):
        assert words in refused("plan", pilot, "--html", tmp_path / name)
    pilot.write_text("n,error,model\n4,0.5,A\n8,0.4,A\n4,0.5,B\n8,0.4,B\n16,0.3,B\n")
    options = ("--target", 0.2, "--html", tmp_path / "page.html")
    assert "at least 3 distinct N, got 2 (4, 8) in A" in refused("plan", pilot, *options)
    assert [file.name for file in tmp_path.iterdir()] == ["pilot.csv"]
    assert pilot.read_text().startswith("n,error")


def test_a_page_alone_is_an_answer_for_machines_too(tmp_path: Path) -> None:
    pilot, page = tmp_path / "pilot.csv", tmp_path / "page.html"
    pilot.write_text("n,error\n4,0.5\n8,0.4\n16,0.3\n")
    assert content("plan", pilot, "--html", page) == {"plans": [], "written": [str(page)]}
    assert page.stat().st_size < 6_000_000


@pytest.mark.usefixtures("bare_pages")
def test_a_comparison_has_a_page_with_the_names_of_its_answer(tmp_path: Path) -> None:
    """Two files that call their model alike are told apart."""
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for file, level in zip(files, (1.0, 2.0), strict=True):
        rows = [f"{n},{level / n},net" for n in (4, 8, 16, 32)]
        file.write_text("\n".join(["n,error,model", *rows]))
    page = tmp_path / "page.html"
    found = content("compare", *files, "--target", 0.05, "--html", page)
    html = page.read_text()
    assert found["saving"] in html
    assert all(f"<td>{name}</td>" in html or f">{name}<" in html for name in ("first", "second"))


def test_how_a_table_was_read_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("train_size,KO,FC,GPU\n16,0.3,0.5,2\n64,0.16,0.3,2\n256,0.09,0.2,2\n")
    said = "N from 'train_size'; one column for each model ('KO', 'FC'); not used: 'GPU'"
    for command in ("plan", "compare"):
        assert text(command, path, "--target", 0.1).startswith(f"Read: {said}.")
    assert content("compare", path, "--target", 0.1)["read_as"] == said
    plans = content("plan", path, "--target", 0.1)["plans"]
    assert [plan["read_as"] for plan in plans] == [said, said]


def test_a_target_with_a_percent_sign_needs_no_option(tmp_path: Path) -> None:
    """It is 88 of percentages and 0.88 of a share; the same N is enough for both."""
    shares = [1 - 0.8 * n**-0.5 for n in (4, 8, 16, 32, 64)]
    said = []
    for name, cells in (
        ("signs", [f"{100 * share:.4f}%" for share in shares]),
        ("shares", [f"{share:.6f}" for share in shares]),
    ):
        pilot = tmp_path / f"{name}.csv"
        rows = zip((4, 8, 16, 32, 64), cells, strict=True)
        pilot.write_text("n,accuracy\n" + "".join(f"{n},{cell}\n" for n, cell in rows))
        (found,) = content("plan", pilot, "--target", "88%")["plans"]
        said.append((found["target"], found["even"]))
    assert [target for target, _ in said] == [88, 0.88]
    assert said[0][1] == said[1][1] > 32
    refused("plan", H8, "--target", "many%", code=2)
