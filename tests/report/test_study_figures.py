"""Figures of a study: laws that they keep."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from artists import check_page, data, line, lines, written
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.calibration import paper_line
from korisk.planning.compare import compare
from korisk.planning.plan import forecast, plan
from korisk.report.contents import Contents, Pictures, Point
from korisk.report.figures.efficiency import efficiency_figure, panel, panels_of
from korisk.report.figures.forecast import comparison_figure, curve_figure, plan_figure
from korisk.report.figures.panels import shared
from korisk.report.figures.reconstructions import reconstruction_figure
from korisk.report.figures.study import file_stems, save_figures, study_figures
from korisk.report.figures.style import (
    COLUMN,
    LOOKS,
    REST,
    THEME_CSS,
    digits,
    looks_of,
    plain,
    save,
    themed_svg,
)

SIZES = np.array([4, 8, 16, 32, 64])
NASTY = [r"$x_1^{\frac{$ <img src=x>" + "W" * 95, "_line\nbreak\ttab\0null 模型"]


def curve(model: str, floor: float, level: float, seeds: int = 3) -> Curve:
    n = np.repeat(SIZES, seeds)
    errors = (floor + level / n) * (1 + 0.05 * np.sin(np.arange(len(n)) + 7 * len(model)))
    return Curve(n, errors, list(range(seeds)) * len(SIZES), model, "mse")


def short(model: str, *errors: float) -> Curve:
    """Two sizes at most: a line, and neither forecast nor plan, which take a while."""
    return Curve([4, 8][: len(errors)], errors, model=model, metric="mse")


SHORT = (short("KO", 5e-3, 3e-3), short("FC", 8e-2, 4e-2))


def pictures(side: int = 6) -> Pictures:
    y, x = np.mgrid[:side, :side] / side
    truth = np.stack([np.maximum(0.0, 0.8 - 2 * (x - 0.4) ** 2 - y**2), x * y])
    ripple = np.sin(9 * x + 4 * y)
    images = {
        "KO": {n: truth + 0.1 * ripple / (1 + n) for n in (0, 4, 16)},
        "FC": {n: truth * (1 - 1 / n) + ripple / n for n in (4, 16)},
    }
    return Pictures(seed=1, truth=truth, images=images)


def point(name: str = "a", **changes: Any) -> Point:
    problem = {"kind": "ct", "beam": "fan", "side": 6, "views": 5, "bins": 7}
    made = Point(
        name=name,
        spec={"problem": problem, "models": {"KO": {"relu": True}, "FC": {"relu": True}}},
        metric="mse",
        curves=(curve("KO", 2e-3, 0.01), curve("FC", 3e-3, 0.2)),
        untrained={"KO": 4e-3},
        **dict.fromkeys(("cells", "failures", "missing", "left_out"), ()),
        pictures=pictures(),
    )
    return replace(made, **changes)


def study(*points: Point) -> Contents:
    made = {"name": "made up", "store": Path("study.db"), "created": "", "korisk": "0"}
    return Contents(**made, points=points)  # type: ignore[arg-type]


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def shown(figure: Figure) -> dict[str, AxesImage]:
    return {str(each.get_gid()): each for axes in figure.axes for each in axes.images}


STUDY = study(point("a"), point("b", curves=SHORT))
FIGURES: dict[str, Callable[..., Figure | None]] = {
    "efficiency": lambda **wide: efficiency_figure(panels_of(STUDY), **wide),
    "reconstruction": lambda **wide: reconstruction_figure(pictures(), title="a", **wide),
}


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return {name: drawn(make()) for name, make in FIGURES.items()}


@pytest.mark.parametrize("name", FIGURES)
def test_narrow_figures_are_a_column_wide_with_one_panel_a_row(name: str) -> None:
    figure = drawn(FIGURES[name](narrow=True))
    check_page(figure)
    assert figure.get_size_inches()[0] == pytest.approx(COLUMN)
    if name != "reconstruction":
        wide = figure.axes
        assert len({round(each.get_position().y0, 6) for each in wide}) == len(wide)


def test_panels_that_are_compared_share_their_axes(figures: dict[str, Figure]) -> None:
    one, other = figures["efficiency"].axes
    assert (one.get_xlim(), one.get_ylim()) == (other.get_xlim(), other.get_ylim())
    limits = [(1.0, 10.0), (1.0, 1e9)]  # the first would be a line on the second's axis
    assert shared(limits) == limits
    assert shared([(1.0, 10.0), (2.0, 100.0)]) == [(1.0, 100.0)] * 2


def test_transposes_and_inverses_are_raised_and_other_names_stay() -> None:
    assert plain("dense A^T") == "dense A\N{MODIFIER LETTER CAPITAL T}"
    assert plain("A^+") == "A\N{SUPERSCRIPT PLUS SIGN}"
    for name in ("$A_1$", "x^2", "A^Tx", "m_A^T", "BA^+"):
        assert plain(name) == name


def test_a_panel_shows_means_bars_forecast_and_the_papers_line(figures: dict[str, Figure]) -> None:
    figure = figures["efficiency"]
    for tag, each in enumerate(point().curves, start=1):
        n, means = data(line(figure, f"means-{tag}"))
        assert n == each.sizes.tolist()
        assert means == pytest.approx(each.means.tolist())
        paper = paper_line(each)
        n, risk = data(line(figure, f"line-{tag}"))
        assert risk == pytest.approx([paper.predict(size) for size in n])
    assert data(line(figure, "untrained-1"))[1] == [4e-3]
    assert set(data(line(figure, "before-1"))[1]) == {4e-3}  # across all N
    # Bars are one standard error of the seeds.
    (bars,) = [each for each in figure.axes[0].collections if each.get_gid() == "bars-1"]
    assert isinstance(bars, LineCollection)
    low, high = np.array(bars.get_segments())[:, :, 1].T
    each = point().curves[0]
    spread = [np.std(each.error[each.n == n], ddof=1) / math.sqrt(3) for n in SIZES]
    assert (high - low) / 2 == pytest.approx(spread)
    assert (high + low) / 2 == pytest.approx(each.means)
    # Forecasts are the planner's, up to four times the last N.
    n, middle = data(line(figure, "forecast-2"))
    assert n[-1] == pytest.approx(4 * SIZES[-1])
    assert middle == pytest.approx(forecast(point().curves[1]).quantile(n, 0.5).tolist())


def test_a_pilot_of_one_or_two_sizes_has_no_forecast() -> None:
    for sizes in ([4], [4, 8]):
        small = Curve(sizes, [0.1] * len(sizes), model="KO", metric="mse")
        (trace,) = panel("a", [small], {}).traces
        assert trace.track is None
        assert (trace.line is None) == (len(sizes) == 1)
        drawn(efficiency_figure([panel("a", [small], {})]))


def test_a_curve_that_falls_to_rounding_leaves_the_frame_and_no_label_is_cut() -> None:
    errors = [0.03, 0.01, 0.003, 7e-27]
    fallen = Curve([4, 8, 16, 32], errors, model="FC", metric="mse")
    figure = drawn(efficiency_figure([panel("a", [fallen, SHORT[0]], {})]))
    low, high = figure.axes[0].get_ylim()
    assert high / low < 1e8
    check_page(figure)


def test_what_is_too_much_is_counted_and_left_out() -> None:
    small = [Curve([4, 8], [0.2, 0.1], model="KO", metric="mse")]
    figure = drawn(efficiency_figure([panel(str(k), small, {}) for k in range(14)]))
    assert len(figure.axes) == 12
    assert "12 of 14 points" in written(figure)
    curves = [Curve([4, 8], [0.2 + k, 0.1 + k], model=f"m{k}", metric="e") for k in range(50)]
    looks = looks_of(each.model for each in curves)
    assert len({(look.colour, look.marker) for look in list(looks.values())[:8]}) == 8
    assert all(look is REST for look in list(looks.values())[8:])
    assert "42 further models" in written(drawn(efficiency_figure([panel("a", curves, {})])))
    # A model looks in each panel as in the whole figure, also one that stands in a later panel.
    all_looks = looks_of([*looks, "FC"])
    assert panel("b", curves[7:8], {}, looks=all_looks).traces[0].track is None
    looks = looks_of(["other", "FC", "KO"])  # KO is blue and FC vermillion whatever their order
    assert (looks["KO"], looks["FC"], looks["other"]) == LOOKS[:3]


def test_a_curve_that_cannot_be_extrapolated_ends_at_its_last_size_and_says_why() -> None:
    n = np.array([4, 8, 16, 32, 64, 128, 256, 512])
    stepped = Curve(n, [1, 1, 1, 1, 0.01, 0.009, 0.008, 0.007], model="KO")
    doubt = forecast(stepped).doubt
    assert doubt
    figure = drawn(efficiency_figure([panel("a", [stepped], {})]))
    assert not lines(figure, "forecast-1")
    assert max(data(line(figure, "means-1"))[0]) == stepped.sizes[-1]
    assert set(doubt.split()) <= set(written(figure).split())


def test_a_root_is_drawn_squared_as_in_the_paper() -> None:
    known, dense = curve("KO", 0.05, 0.1), curve("FC", 0.06, 0.4)
    root = point(curves=(known, dense), metric="rmse_over_max", untrained={"KO": 0.2})
    (found,) = panels_of(study(root))
    assert found.metric == "(RMSE / max)\N{SUPERSCRIPT TWO}"
    assert np.array_equal(found.traces[0].curve.error, known.error**2)
    assert found.traces[0].untrained == pytest.approx(0.04)


def test_error_images_are_image_less_truth_with_relative_rmse(figures: dict[str, Figure]) -> None:
    made, found = pictures(), shown(figures["reconstruction"])
    error = found["error-1-1-16"]
    expected = made.images["FC"][16][1] - made.truth[1]
    assert np.asarray(error.get_array()) == pytest.approx(expected)
    for gid, image in found.items():
        low, high = image.get_clim()
        if gid.startswith("error"):
            assert (low, high) == (-error.norm.vmax, error.norm.vmax)  # type: ignore[operator]
        else:
            assert (low, high) == (made.truth.min(), made.truth.max())
    assert "error-0-1-0" not in found  # FC has no untrained image
    image, truth = made.images["FC"][4][0], made.truth[0]
    relative = math.sqrt(((image - truth) ** 2).mean() / (truth**2).mean())
    assert digits(relative, 3) in written(figures["reconstruction"])


def test_few_sizes_and_models_are_shown_and_the_rest_is_told() -> None:
    truth = np.ones((2, 2, 2))
    many = dict.fromkeys(range(0, 40, 2), truth)
    images = {f"m{k}": many for k in range(50)}
    figure = drawn(reconstruction_figure(Pictures(seed=1, truth=truth, images=images)))
    assert "1 test image and 46 models and 10 sizes." in " ".join(written(figure).split())
    sizes = {int(gid.rpartition("-")[2]) for gid in shown(figure) if gid.startswith("image")}
    assert (len(sizes), min(sizes), max(sizes)) == (10, 0, 38)
    check_page(figure)


@pytest.mark.parametrize("narrow", [False, True])
def test_reconstructions_have_square_pixels(narrow: bool) -> None:
    truth = np.random.default_rng(0).random((2, 8, 12))
    images = {model: {0: truth, 4: truth} for model in ("KO", "FC")}
    made = Pictures(seed=1, truth=truth, images=images)
    figure = drawn(reconstruction_figure(made, narrow=narrow))
    figure.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in figure.axes if axes.images]
    assert [box.width / box.height for box in boxes] == pytest.approx([1.5] * len(boxes), rel=0.02)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_pixels_not_finite_and_empty_images_are_drawn(value: float, tmp_path: Path) -> None:
    truth = np.zeros((1, 3, 3))
    image = truth.copy()
    image[0, 1, 1] = value
    images = {"KO": {0: image, 4: image}}
    made = Pictures(seed=1, truth=truth, images=images)
    figure = drawn(reconstruction_figure(made))
    save(figure, tmp_path / "a.png")
    assert ("not finite" in written(figure)) == (not math.isfinite(value))
    assert "n/a" in written(figure)  # relative to nothing


@pytest.mark.parametrize("name", FIGURES)
def test_all_words_lie_within_the_page(name: str, figures: dict[str, Figure]) -> None:
    figure = figures[name]
    check_page(figure)
    for axes in figure.axes:
        if axes.axison and axes.get_frame_on():
            assert axes.get_ylabel()
            assert axes.get_xlabel()


@pytest.mark.parametrize("name", FIGURES)
def test_in_a_page_every_colour_follows_the_theme(name: str, figures: dict[str, Figure]) -> None:
    text = themed_svg(figures[name], words="<curves>")
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == "<curves>"
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', text)) == set(ids)
    unlike = next(each for each in FIGURES if each != name)
    other = themed_svg(figures[unlike], words="")
    assert not set(re.findall(r'id="([^"]*)', other)) & set(ids)
    used = set(re.findall(r"(?:fill|stroke): ?([^;\"]*)", text)) - {"none"}
    used = {each for each in used if not each.startswith("url(#")}  # hatches, made of lines
    fixed = {each for each in used if not re.fullmatch(r"var\(--k-[\w-]+, #[0-9a-f]{6}\)", each)}
    assert not fixed
    light, dark = (dict(re.findall(r"(--k-[\w-]+):(#\w+)", part)) for part in themes())
    for variable, colour in re.findall(r"var\((--k-[\w-]+), (#\w+)\)", text):
        assert light[variable] == colour
        assert variable in dark


def themes() -> tuple[str, str]:
    """The light and the dark colours of figures in a page."""
    light, dark, *_ = THEME_CSS.splitlines()
    assert "prefers-color-scheme:dark" in dark
    return light, dark


def test_words_can_be_read_on_a_light_and_on_a_dark_page() -> None:
    """Contrast of at least 4.5 (WCAG AA) against the paper, for the colours that words have."""
    for part in themes():
        found = dict(re.findall(r"--k-([\w-]+):(#\w+)", part))
        for name in ("black", "ink", "grey", "name", "learned"):
            assert contrast(found[name], found["paper"]) >= 4.5
            assert name == "black" or contrast(found[name], found["fill"]) >= 4.5


def contrast(one: str, other: str) -> float:
    light = []
    for colour in (one, other):
        parts = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in to_rgb(colour)
        ]
        light.append(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)
    return max(light) / min(light)


@pytest.mark.parametrize("name", NASTY)
def test_names_from_files_are_drawn_as_text(name: str) -> None:
    printable = "".join(c for c in name if c.isprintable())[:80]
    curves = [Curve([4, 8], [0.2, 0.1], model=printable, metric=printable)]
    made = pictures()
    odd = replace(made, images={name: made.images["KO"]})
    start = " ".join("".join(c if c.isprintable() else " " for c in name).split())[:10]
    for figure in (
        efficiency_figure([panel(name, curves, {printable: 0.3}, note=name)]),
        reconstruction_figure(odd, title=name),
    ):
        assert start in written(drawn(figure))
        check_page(drawn(figure))


def test_numbers_are_short_and_need_no_mathtext() -> None:
    few = {0.0: "0", 0.00123: "0.00123", 0.9996: "1", 150.0: "150", math.inf: "∞"}
    powers = {1234567.0: "1.23×10⁶", -3.3e-6: "−3.3×10⁻⁶", 1e-300: "10⁻³⁰⁰"}  # noqa: RUF001
    for value, words in (few | powers).items():
        assert digits(value, 3) == words


def test_every_figure_of_a_study_has_its_name() -> None:
    made = study(point("a", curves=SHORT), point("b", curves=SHORT, pictures=None))
    names = ["sample_efficiency", "reconstructions_a"]
    assert [stem for stem, _ in study_figures(made)] == names
    alone = point(curves=(Curve([4], [0.1], model="net"),), untrained={}, pictures=None, spec={})
    assert [stem for stem, _ in study_figures(study(alone))] == ["sample_efficiency"]


def test_what_has_nothing_to_show_is_absent() -> None:
    bare: dict[str, Any] = {"curves": (), "pictures": None}
    for spec in ({}, {"problem": 3, "models": None}):
        assert list(study_figures(study(point(**bare, spec=spec)))) == []
    assert list(study_figures(study())) == []
    empty = Pictures(seed=1, truth=np.zeros((0, 2, 2)), images={})
    assert reconstruction_figure(empty) is None


def test_stems_are_safe_names_and_no_two_are_the_same() -> None:
    names = ["../../etc/passwd", "a b", "a-b", "A/B", "", "...", "con.", "x" * 300, "ü", "a\0b"]
    stems = file_stems(names)
    assert all(stem and len(stem) <= 64 and stem.isascii() for stem in stems)
    assert all(stem.replace("-", "").replace("_", "").isalnum() for stem in stems)
    assert len({stem.casefold() for stem in stems}) == len(names)
    assert file_stems(["rigorous-8"]) == ["rigorous-8"]


def test_files_are_written_into_the_folder_or_refused(tmp_path: Path) -> None:
    made = study(point("../up", curves=SHORT[:1], spec={}, pictures=pictures()))
    folder = tmp_path / "new" / "folder"
    paths = save_figures(study_figures(made), folder, ("svg",))
    names = ["sample_efficiency.svg", "reconstructions_up.svg"]
    assert ([path.name for path in paths], sorted(folder.iterdir())) == (names, sorted(paths))
    with pytest.raises(KoriskError, match="kinds must be one of png, svg, pdf"):
        save_figures(study_figures(study()), tmp_path / "a", ("jpg",))
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").touch()
    with pytest.raises(KoriskError, match="not a directory"):
        save_figures(study_figures(study()), tmp_path / "file" / "a")


def test_figures_are_made_without_pytorch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import korisk.report.figures.study\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False"]


@pytest.mark.parametrize("name", ["efficiency", "plan", "comparison", "curve"])
def test_learning_curves_have_one_style(name: str, figures: dict[str, Figure]) -> None:
    """Measured: joined points; forecasts: hatched; both and the paper's lines: dashed."""
    known, dense = point().curves
    others = {
        "plan": lambda: plan_figure(plan(known, 1e-3)),
        "comparison": lambda: comparison_figure(compare(known, dense, 1e-3)),
        "curve": lambda: curve_figure(known),
    }
    figure = figures[name] if name in figures else others[name]()
    styles = {"means": ("-", True), "forecast": ("--", False), "line": ("--", False)}
    seen = set()
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        kinds = [str(each.get_gid()).partition("-")[0] for each in axes.lines]
        for kind, each in zip(kinds, axes.lines, strict=True):
            look = each.get_linestyle(), each.get_marker() not in (None, "None", "")
            assert look == styles.get(kind, look)
        hatched = [each for each in axes.collections if each.get_hatch()]
        bars = [each for each in axes.collections if str(each.get_gid()).startswith("bars")]
        assert (len(hatched), len(bars)) == (kinds.count("forecast"), kinds.count("means"))
        seen |= set(kinds) & set(styles)
    expected = {"efficiency": set(styles), "curve": {"means"}}
    assert seen == expected.get(name, {"means", "forecast"})
    assert "± standard error" in written(figure)
    assert "KO: known operator" in written(figure)
