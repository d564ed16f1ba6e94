"""What a figure of a forecast must show, read off its artists and its files."""

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from artists import check_page, line, lines, points, written
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import Comparison, compare
from korisk.planning.plan import Plan, plan
from korisk.planning.words import short
from korisk.report.figures.forecast import comparison_figure, plan_figure, plans_figure
from korisk.report.figures.panels import ticks
from korisk.report.figures.style import save

MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def seeded(
    rate: float = 0.5, level: float = 1, model: str = "net", floor: float = 0, noise: float = 0.03
) -> Curve:
    rng = np.random.default_rng(3)
    n = np.repeat([8, 32, 128, 512], 3)
    error = (floor + level * n**-rate) * np.exp(noise * rng.standard_normal(len(n)))
    return Curve(n, error, [1, 2, 3] * 4, model, "L1 loss")


def stepped() -> Curve:
    """A curve with a step that nothing explains, so that it cannot be extrapolated."""
    n = 2 ** np.arange(2, 11)
    return Curve(n, [1, 1, 1, 1, 0.01, 0.009, 0.008, 0.007, 0.006], model="net")


def scored() -> Curve:
    rows = [(50, 0.62), (100, 0.70), (200, 0.77), (400, 0.82)]
    records = [{"n": n, "error": value} for n, value in rows]
    return Curve.read(records, metric="accuracy", unit="accuracy")


def about(made: Plan) -> str:
    """The advice in a legend."""
    advice = made.recommend()
    return short(advice.action, advice.n)


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan(seeded(), 0.016)


@pytest.fixture(scope="module")
def figure(planned: Plan) -> Figure:
    return plan_figure(planned)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(seeded(0.3, 0.3, "known"), seeded(0.8, 2.0, "dense"), 0.03)


@pytest.mark.parametrize("curve", [seeded(), scored()], ids=["error", "accuracy"])
def test_every_measurement_and_every_mean_is_drawn_in_the_users_unit(curve: Curve) -> None:
    figure = plan_figure(plan(curve, curve.unit.from_error(0.04 if curve.model else 0.14).item()))
    rows = [(row["n"], row["error"]) for row in curve.records()]
    means = curve.unit.from_error(curve.means)
    assert points(line(figure, "points")) == rows
    assert points(line(figure, "means")) == list(zip(curve.sizes, means, strict=True))
    # Errors have a logarithmic axis, scores a linear one.
    assert figure.axes[0].get_yscale() == ("log" if curve.model else "linear")


def test_target_and_answer_are_marked_and_named(planned: Plan, figure: Figure) -> None:
    assert {value for _, value in points(line(figure, "target"))} == {planned.target}
    assert "target\n0.016" in written(figure)
    assert planned.even is not None
    assert points(line(figure, "even")) == [(planned.even, planned.target)]
    left, right = figure.axes[0].get_xlim()
    assert left < planned.forecast.evidence.sizes[0] < planned.even < right
    assert f"50% sure: N = {planned.even:,}" in written(figure)
    measured, forecast = line(figure, "means"), line(figure, "forecast")
    assert points(measured)[-1] == pytest.approx(points(forecast)[0])
    assert points(forecast)[0][0] == planned.forecast.last
    assert (measured.get_linestyle(), forecast.get_linestyle()) == ("-", "--")
    assert "forecast, 90% band" in written(figure)


def words_of(figure: Figure) -> set[str]:
    """What is written in a figure, whose lines are texts of their own."""
    return {word.rstrip(".;") for word in written(figure).split()}


def test_the_number_enough_with_90_percent_is_marked(planned: Plan, figure: Figure) -> None:
    sure = plan(seeded(0.9, noise=0.003), 0.003)
    enough, shown = sure.samples(0.9), plan_figure(sure)
    assert enough is not None
    assert points(line(shown, "answer")) == [(enough, sure.target)]
    assert enough < shown.axes[0].get_xlim()[1]
    assert f"90% sure: N = {enough:,}" in written(shown)
    assert line(shown, "answer").get_markerfacecolor() != line(shown, "even").get_markerfacecolor()
    ends = [n for n, _ in points(line(shown, "range"))]
    assert ends == [sure.lower, sure.upper]
    assert planned.recommend().action != "collect"  # which is far beyond the pilot, if anywhere
    assert {word.rstrip(".;") for word in planned.recommend().sentence.split()} <= words_of(figure)


def test_answers_without_an_end_inside_the_pilot_and_out_of_reach(planned: Plan) -> None:
    assert np.isinf(planned.upper)
    figure = plan_figure(planned)
    assert "∞" not in written(figure)
    assert points(line(figure, "range"))[1][0] == figure.axes[0].get_xlim()[1]
    inside = plan(seeded(), 0.1)
    assert inside.even is not None
    assert inside.even <= inside.forecast.last
    assert points(line(plan_figure(inside), "even")) == [(inside.even, 0.1)]
    hopeless = plan(seeded(0.9, 1.0, floor=0.05), 0.03)
    action = hopeless.recommend().action
    assert action in ("unlikely", "stop")
    figure = plan_figure(hopeless)
    assert action in written(figure)
    assert not lines(figure, "answer")
    assert not lines(figure, "even")
    assert {value for _, value in points(line(figure, "floor"))} == {hopeless.forecast.floor}


@pytest.mark.parametrize("target", [0.003, 0.1])
def test_a_curve_that_cannot_be_extrapolated_ends_where_it_was_measured(target: float) -> None:
    made = plan(stepped(), target)
    assert made.forecast.doubt
    figure = plan_figure(made)
    assert not lines(figure, "forecast")
    assert max(n for n, _ in points(line(figure, "means"))) == made.forecast.last
    assert figure.axes[0].get_xlim()[1] < 1.5 * made.forecast.last
    why = [word.rstrip(".;") for word in made.forecast.doubt.partition(": ")[2].split()]
    assert set(why) <= words_of(figure)
    assert "90% band" not in written(figure)
    if made.doubt:
        assert "not known" in written(figure)
        assert not lines(figure, "answer")
    else:
        assert points(line(figure, "answer")) == [(made.samples(0.9), target)]
    both = comparison_figure(Comparison(made, plan(seeded(), target)))
    assert max(n for n, _ in points(line(both, "means-1"))) == made.forecast.last
    assert not lines(both, "forecast-1")
    assert lines(both, "forecast-2")
    assert set(why) <= words_of(both)


def test_the_value_axis_names_metric_and_unit() -> None:
    for metric, unit, expected in (
        *(("", "error", "error"), ("test_mse", "error", "test_mse")),
        *(("PSNR", "psnr", "PSNR (dB)"), ("PSNR (dB)", "psnr", "PSNR (dB)")),
        *(("top 1", "accuracy", "top 1 (accuracy)"), ("accuracy", "accuracy", "accuracy")),
        *(("accuracy", "percent", "accuracy (%)"), ("", "percent", "score (%)")),
        ("", "psnr", "PSNR (dB)"),
    ):
        curve = Curve.of_errors([4, 16, 64], [0.3, 0.2, 0.14], metric=metric, unit=unit)
        made = plan(curve, curve.unit.from_error(0.12).item())
        assert plan_figure(made).axes[0].get_ylabel() == expected


@pytest.mark.parametrize(
    ("model", "target"),
    [
        *(("a known-operator network of a long name " * 2, target) for target in (0.0475, 0.1)),
        *(("UNET_LR1E-4" * 7, target) for target in (0.17, 0.01)),
    ],
)
def test_all_words_lie_within_the_page(model: str, target: float) -> None:
    n, errors = np.array([4, 16, 64, 256]) * 10**6, np.array([0.186, 0.138, 0.095, 0.07])
    seeds = ["1"] * 4 + ["2"] * 4
    curve = Curve([*n, *n], [*errors, *1.01 * errors], seeds, model[:80], "long words " * 7)
    made = plan(curve, target)
    for narrow in (False, True):
        check_page(plan_figure(made, narrow=narrow), least=8)


@pytest.mark.parametrize("name", ["$x_1", r"\frac{", "_hidden", "模型"])
def test_names_are_drawn_as_they_are(name: str, tmp_path: Path) -> None:
    first = seeded(model=name)
    figure = plan_figure(plan(first, 0.02))
    save(figure, tmp_path / "plan.png")
    assert figure.axes[0].get_title(loc="left") == name
    both = comparison_figure(compare(first, seeded(0.7), 0.02))
    save(both, tmp_path / "both.png")
    assert any(name in text.get_text() for text in both.legends[0].get_texts())


def test_a_comparison_draws_both_pilots_and_both_answers(compared: Comparison) -> None:
    figure = comparison_figure(compared)
    for tag, made in (("-1", compared.first), ("-2", compared.second)):
        assert len(points(line(figure, f"points{tag}"))) == len(made.forecast.evidence)
        assert points(line(figure, f"even{tag}")) == [(made.even, made.target)]
        assert about(made) in written(figure)
    first, second = line(figure, "means-1"), line(figure, "means-2")
    assert first.get_color() != second.get_color()
    assert first.get_marker() != second.get_marker()
    narrow = comparison_figure(compared, narrow=True)
    check_page(narrow, least=8)
    for made in (compared.first, compared.second):
        assert about(made) in " ".join(written(narrow).split())  # wrapped, and nothing is cut
    hopeless = plan(seeded(0.9, 1.0, "known", floor=0.05), 0.03)
    figure = comparison_figure(Comparison(hopeless, compared.second))
    assert f"known: {hopeless.recommend().action}" in written(figure)
    assert not lines(figure, "even-1")
    assert lines(figure, "even-2")


def test_the_crossover_is_where_both_forecasts_agree(compared: Comparison) -> None:
    figure, found = comparison_figure(compared), compared.crossover
    assert found is not None
    ((n, value),) = points(line(figure, "crossover"))
    assert n == found.n
    for made in (compared.first, compared.second):
        assert value == pytest.approx(made.forecast.at(n).value, rel=0.1)
    curve = seeded(0.5, 1.0, "known")
    worse = Curve(curve.n, 3 * curve.error, curve.seed, "dense", curve.metric)
    assert not lines(comparison_figure(compare(curve, worse, 0.05)), "crossover")


@pytest.mark.parametrize("scale", ["log", "linear"])
@pytest.mark.parametrize(
    ("low", "high"),
    [(0.04, 0.2), (3.8, 16), (0.0021, 0.0089), (1e-9, 1e9), (0.4959, 0.503), (7, 90)],
)
def test_an_axis_has_3_to_8_ticks_all_different(low: float, high: float, scale: str) -> None:
    axes = Figure(figsize=(6, 4)).add_subplot()
    axes.set(yscale=scale, ylim=(low, high))
    ticks(axes.yaxis)
    values = [value for value in axes.yaxis.get_majorticklocs() if low <= value <= high]
    labels = axes.yaxis.get_major_formatter().format_ticks(list(axes.yaxis.get_majorticklocs()))
    assert 3 <= len(values) <= 8
    assert len(set(labels)) == len(labels)
    assert not len(axes.yaxis.get_minorticklocs())


def test_ticks_are_plain_numbers_and_powers_of_two_where_sizes_are() -> None:
    axes = Figure(figsize=(18, 4)).add_subplot()
    powers = ["4", "16", "64", "256", "1,024", "4,096"]
    for sizes, limits, expected in (
        (None, (8, 1_500), ["10", "20", "50", "100", "200", "500", "1,000"]),
        (None, (0.04, 0.12), ["0.05", "0.07", "0.1"]),
        (np.array([4, 16]), (3.5, 9_000), powers),
        (np.array([4, 10]), (8, 1_500), ["10", "20", "50", "100", "200", "500", "1,000"]),
    ):
        axes.set(xscale="log", xlim=limits)
        ticks(axes.xaxis, sizes)
        places = list(axes.xaxis.get_majorticklocs())
        assert axes.xaxis.get_major_formatter().format_ticks(places) == expected


@pytest.mark.parametrize("kind", MAGIC)
def test_files_are_the_same_twice(kind: str, planned: Plan, figure: Figure, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.{kind}" for name in "abc")
    save(figure, first)
    save(figure, second)
    save(plan_figure(planned), third)
    content = first.read_bytes()
    assert content.startswith(MAGIC[kind])
    assert content == second.read_bytes() == third.read_bytes()
    assert len(list(tmp_path.iterdir())) == 3  # no temporary file is left
    if kind == "png":  # wide enough for print
        assert int.from_bytes(content[16:20]) == 1260
    if kind == "svg":  # a hatch that is filled turns opaque, or is lost in PDF
        patterns = content.decode().split("<pattern")[1:]
        assert patterns
        assert all('fill="none"' in pattern.split("/>")[0] for pattern in patterns)


def test_a_path_that_cannot_be_written_is_refused(figure: Figure, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    refused = dict.fromkeys(("figure.jpg", "figure", "figure.svg.gz"), ".png, .svg or .pdf")
    refused |= dict.fromkeys(("none/a.png", "folder.png", "nu\0ll.png"), "cannot be written")
    for name, says in refused.items():
        with pytest.raises(KoriskError) as error:
            save(figure, tmp_path / name)
        assert says in str(error.value)
        assert "\n" not in str(error.value)
        assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_settings_of_the_user_neither_matter_nor_change(planned: Plan, tmp_path: Path) -> None:
    save(plan_figure(planned), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 20.0, "lines.linewidth": 9.0, "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        save(plan_figure(planned), tmp_path / "styled.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "styled.svg").read_bytes()


def test_without_matplotlib_the_remedy_is_named_and_pyplot_is_never_imported() -> None:
    """Both need a process that has not drawn yet; one is enough."""
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from korisk.errors import KoriskError\n"
        "try:\n    import korisk.report.figures.forecast\n"
        "except KoriskError as error:\n    print(error)\n"
        "del sys.modules['matplotlib']\n"
        "from korisk.report.figures.forecast import plan_figure\n"
        "from korisk.report.figures.style import save\n"
        "from korisk.planning.plan import plan; from korisk.curves.curve import Curve\n"
        "import os; made = plan(Curve([4, 16, 64], [0.3, 0.2, 0.14]), 0.1)\n"
        "import tempfile; folder = tempfile.mkdtemp(); figure = plan_figure(made)\n"
        "[save(figure, os.path.join(folder, 'x.' + kind)) for kind in ('png', 'svg', 'pdf')]\n"
        "print('matplotlib.figure' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    missing = "a plot needs matplotlib, which is not installed; pip install 'korisk[report]'"
    expected = [missing, "True False"]
    assert found.stdout.splitlines() == expected


def test_several_models_share_one_figure() -> None:
    """Each has its curve and its answer; beyond eight, a note says how many are left out."""
    plans = [plan(seeded(0.5 + 0.02 * at), 0.02) for at in range(9)]
    assert written(plans_figure(plans[:1])) == written(plan_figure(plans[0]))
    for count in (2, 9):
        figure = plans_figure(plans[:count])
        drawn, words = min(count, 8), written(figure)
        for index, made in enumerate(plans[:drawn], start=1):
            assert lines(figure, f"forecast-{index}")
            (mark,) = lines(figure, f"even-{index}")
            assert points(mark) == [(made.even, 0.02)]
            assert about(made) in words
        assert ("8 of 9 models" in words) == (count == 9)


@pytest.mark.parametrize("models", [1, 2])
def test_the_level_that_was_asked_for_is_marked(models: int) -> None:
    plans = [plan(seeded(0.9, 1 + k, f"net {k}", noise=0.003), 0.003) for k in range(models)]
    shown = plans_figure(plans, sure=0.8)
    texts, numbers = written(shown), [made.samples(0.8) for made in plans]
    assert "80% sure" in texts
    assert "(90% sure)" not in texts
    assert "90% sure:" not in texts
    for made, n in zip(plans, numbers, strict=True):
        assert f"{n:,}" in texts
        assert n != made.samples(0.9)
