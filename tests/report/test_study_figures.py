"""Figures of a study: laws that they keep, and their structure against stored references.

KORISK_REWRITE_REFERENCES=1 writes tests/report/references/*.json anew; look at the figures then.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.planning.forecast import forecast
from korisk.planning.plan import plan
from korisk.report.contents import Contents, Pictures, Point
from korisk.report.figures import ct_networks as ct
from korisk.report.figures.architecture import architecture_figure, boxes, lipschitz
from korisk.report.figures.efficiency import efficiency_figure, panel, panels_of
from korisk.report.figures.factors import factors, factors_figure, factors_of
from korisk.report.figures.layers import layers, layers_figure
from korisk.report.figures.reconstruction import gallery, reconstruction_figure
from korisk.report.figures.study import file_stems, save_figures, study_figures
from korisk.report.figures.style import ELL, FINE, LOOKS, REST, digits, looks_of, save, style
from korisk.report.figures.weights import weights, weights_figure
from korisk.theory import (
    BOUNDS,
    Composition,
    Known,
    Learned,
    Network,
    NormBracket,
    RiskLine,
    barron_bound,
    sample_size,
    two_factors,
)

REFERENCES = Path(__file__).parent / "references"
REWRITE = os.environ.get("KORISK_REWRITE_REFERENCES") == "1"
SIZES = np.array([4, 8, 16, 32, 64])
NASTY = [r"$x_1^{\frac{$ <img src=x>" + "W" * 175, "_line\nbreak\ttab\0null 模型"]


# --- A small study, made up ----------------------------------------------------------------------


def curve(model: str, floor: float, level: float, seeds: int = 3) -> Curve:
    n = np.repeat(SIZES, seeds)
    wobble = 1 + 0.05 * np.sin(np.arange(len(n)) + 7 * len(model))
    errors = (floor + level / n) * wobble
    return Curve(n, errors, list(range(seeds)) * len(SIZES), model, "mse")


def short(model: str, *errors: float) -> Curve:
    """Two sizes at most: a line, and neither forecast nor plan, which take a while."""
    return Curve([4, 8][: len(errors)], errors, model=model, metric="mse")


SHORT = (short("KO", 5e-3, 3e-3), short("FC", 8e-2, 4e-2))


def pictures(side: int = 6, views: int = 5, bins: int = 7) -> Pictures:
    y, x = np.mgrid[:side, :side] / side
    truth = np.stack([np.maximum(0.0, 0.8 - 2 * (x - 0.4) ** 2 - y**2), x * y])
    ripple = np.sin(9 * x + 4 * y)
    images = {
        "KO": {n: truth + 0.1 * ripple / (1 + n) for n in (0, 4, 16)},
        "FC": {n: truth * (1 - 1 / n) + ripple / n for n in (4, 16)},
    }
    view, bin_ = np.mgrid[:views, :bins]
    start = np.cos(0.2 * (bin_ - 3.0))
    learned = {n: start + 0.01 * n * np.sin(view + bin_) for n in (0, 4, 16)}
    return Pictures(seed=1, truth=truth, images=images, weights={"KO": learned})


def point(name: str = "a", **changes: Any) -> Point:
    problem = {"kind": "ct", "beam": "fan", "side": 6, "views": 5, "bins": 7}
    made = Point(
        name=name,
        spec={"problem": problem, "models": {"KO": {"relu": True}, "FC": {"relu": True}}},
        metric="mse",
        curves=(curve("KO", 2e-3, 0.01), curve("FC", 3e-3, 0.2)),
        untrained={"KO": 4e-3},
        cells=(),
        failures=(),
        missing=(),
        left_out=(),
        pictures=pictures(),
    )
    return replace(made, **changes)


def study(*points: Point) -> Contents:
    return Contents(
        name="made up",
        store=Path("study.db"),
        created="2024-01-01T00:00:00Z",
        korisk="0",
        points=points,
        known=True,
    )


def ko_net() -> Network:
    return Network(
        [
            Learned("W", parameters=35, C=0.1, kappa=1e-3),
            Known("K", lipschitz=NormBracket(0.143, 0.144)),
            Known("A^T", lipschitz=8.7, mismatch=1e-4),
            Known("ReLU", lipschitz=1.0),
        ],
        compositions=[Composition("K", "A^T", lipschitz=0.44)],
    )


NETWORKS = [("known", ko_net()), ("dense", Network([Learned("M", parameters=1260, C=0.05)]))]


@pytest.fixture(autouse=True)
def norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms of the made-up scanner, which is no reason to start PyTorch."""
    found = {
        "K": NormBracket(0.143, 0.144),
        "A^T": NormBracket(8.7, 8.8),
        "whole": NormBracket(0.43, 0.44),
    }
    monkeypatch.setattr(ct, "_norms", lambda *_: found)


def line(figure: Figure, gid: str, axes: int = 0) -> Line2D:
    (found,) = [line for line in figure.axes[axes].lines if line.get_gid() == gid]
    return found


def data(found: Line2D) -> tuple[list[float], list[float]]:
    x, y = found.get_data()
    return np.asarray(x, float).tolist(), np.asarray(y, float).tolist()


def texts(figure: Figure) -> list[Text]:
    found: list[Artist] = figure.findobj(Text)
    return [text for text in found if isinstance(text, Text) and text.get_text()]


def written(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in texts(figure))


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


# --- Structure against references ----------------------------------------------------------------


def describe(figure: Figure) -> dict[str, Any]:
    """What a figure is made of, in plain values."""
    return {
        "inches": [float(each) for each in figure.get_size_inches()],
        "legend": [t.get_text() for legend in figure.legends for t in legend.get_texts()],
        "words": " ".join(text.get_text() for text in figure.texts),
        "axes": [
            {
                "titles": [axes.get_title(loc="left"), axes.get_title()],
                "labels": [axes.get_xlabel(), axes.get_ylabel()],
                "scales": [axes.get_xscale(), axes.get_yscale()],
                "limits": [*axes.get_xlim(), *([] if _is_planned(axes) else axes.get_ylim())],
                "words": " ".join(text.get_text() for text in axes.texts),
                "patches": [
                    [patch.get_gid(), to_hex(patch.get_facecolor())] for patch in axes.patches
                ],
                "images": [
                    [image.get_gid(), *_extent(image), *_clim(image)] for image in axes.images
                ],
                "lines": [
                    [found.get_gid(), *([] if _planned(found) else data(found)), *_look(found)]
                    for found in axes.lines
                ],
            }
            for axes in figure.axes
        ],
    }


def _planned(found: Line2D) -> bool:
    """Whether the planner gives the numbers: tests of it judge those, not a reference."""
    return str(found.get_gid()).startswith(("forecast", "planned"))


def _is_planned(axes: Axes) -> bool:
    return any(map(_planned, axes.lines))


def _look(found: Line2D) -> list[str]:
    return [to_hex(found.get_color()), str(found.get_linestyle()), str(found.get_marker())]


def _extent(image: AxesImage) -> list[float]:
    return [float(end) for end in image.get_extent()]


def _clim(image: AxesImage) -> list[float]:
    low, high = image.get_clim()
    assert low is not None
    assert high is not None
    return [low, high]


def same(found: Any, stored: Any, where: str = "") -> None:
    """Equal, numbers to 1e-6."""
    if isinstance(stored, dict):
        assert found.keys() == stored.keys(), where
        for key, value in stored.items():
            same(found[key], value, f"{where}.{key}")
    elif isinstance(stored, list):
        assert len(found) == len(stored), where
        for index, value in enumerate(stored):
            same(found[index], value, f"{where}[{index}]")
    elif isinstance(stored, float | int):
        assert found == pytest.approx(stored, rel=1e-6, abs=1e-9, nan_ok=True), where
    else:
        assert found == stored, where


FIGURES: dict[str, Callable[[], Figure | None]] = {
    "efficiency": lambda: efficiency_figure(panels_of(study(point("a"), point("b", curves=SHORT)))),
    "factors": lambda: factors_figure(factors_of(study(point("a")))),
    "reconstruction": lambda: reconstruction_figure(pictures(), title="a"),
    "weights": lambda: weights_figure(pictures(), title="a"),
    "layers": lambda: layers_figure(NETWORKS, n=64),
    "architecture": lambda: architecture_figure(NETWORKS, shapes={"known": ("5 x 7", "6 x 6")}),
}


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return {name: drawn(make()) for name, make in FIGURES.items()}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_the_structure_of_its_reference(name: str, figures: dict[str, Figure]) -> None:
    found, path = describe(figures[name]), REFERENCES / f"{name}.json"
    if REWRITE:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    same(found, json.loads(path.read_text(encoding="utf-8")))


# --- Error against N -----------------------------------------------------------------------------


def test_a_panel_shows_means_line_and_floor_of_the_paper(figures: dict[str, Figure]) -> None:
    figure = figures["efficiency"]
    for tag, each in enumerate(point().curves, start=1):
        n, means = data(line(figure, f"means-{tag}"))
        assert n == each.sizes.tolist()
        assert means == pytest.approx(each.means.tolist())
        fitted = calibrate(each, "paper")
        n, risk = data(line(figure, f"line-{tag}"))
        assert risk == pytest.approx(
            [fitted.floor + (fitted.slope or 0) * math.log(k) / k for k in n]
        )
        assert set(data(line(figure, f"floor-{tag}"))[1]) == {fitted.floor}
        assert digits(fitted.floor, 2) in written(figure)
    assert data(line(figure, "untrained-1"))[1] == [4e-3]


def test_bars_are_one_standard_error_of_the_seeds(figures: dict[str, Figure]) -> None:
    each = point().curves[0]
    (bars,) = [found for found in figures["efficiency"].axes[0].collections if _is(found, "bars-1")]
    assert isinstance(bars, LineCollection)
    low, high = np.array(bars.get_segments())[:, :, 1].T
    spread = [np.std(each.error[each.n == n], ddof=1) / math.sqrt(3) for n in SIZES]
    assert (high - low) / 2 == pytest.approx(spread)
    assert (high + low) / 2 == pytest.approx(each.means)


def _is(artist: Artist, gid: str) -> bool:
    return artist.get_gid() == gid


def test_forecasts_are_the_planners_and_end_at_four_times_the_last_n(
    figures: dict[str, Figure],
) -> None:
    n, middle = data(line(figures["efficiency"], "forecast-2"))
    assert n[-1] == pytest.approx(4 * SIZES[-1])
    expected = forecast(point().curves[1]).middle(np.array(n))
    assert middle == pytest.approx(expected.tolist())


def test_a_pilot_of_one_or_two_sizes_has_no_forecast() -> None:
    for sizes in ([4], [4, 8]):
        short = Curve(sizes, [0.1] * len(sizes), model="KO", metric="mse")
        (trace,) = panel("a", [short], {}).traces
        assert trace.track is None
        assert (trace.line is None) == (len(sizes) == 1)
        drawn(efficiency_figure([panel("a", [short], {})]))


def test_a_seed_beyond_the_frame_is_marked_at_its_edge() -> None:
    made = Curve([4, 8, 16] * 2, [1e-2, 8e-3, 6e-3, 1e-2, 8e-3, 1e-26], [1, 1, 1, 2, 2, 2], "FC")
    figure = drawn(efficiency_figure([panel("a", [made], {})]))
    assert figure.axes[0].get_ylim()[0] > 1e-5
    assert data(line(figure, "beyond-1"))[0] == [16]
    assert "beyond" in written(figure)


def test_twelve_panels_are_drawn_and_the_rest_is_told() -> None:
    short = [Curve([4, 8], [0.2, 0.1], model="KO", metric="mse")]
    figure = drawn(efficiency_figure([panel(str(k), short, {}) for k in range(14)]))
    assert len(figure.axes) == 12
    assert "12 of 14 points" in written(figure)


def test_eight_models_have_looks_of_their_own_and_the_rest_is_grey() -> None:
    curves = [Curve([4, 8], [0.2 + k, 0.1 + k], model=f"m{k}", metric="e") for k in range(50)]
    looks = looks_of(each.model for each in curves)
    assert len({(look.colour, look.marker) for look in list(looks.values())[:8]}) == 8
    assert all(look is REST for look in list(looks.values())[8:])
    assert "42 further models" in written(drawn(efficiency_figure([panel("a", curves, {})])))


def test_ko_is_blue_and_fc_vermillion_whatever_their_order() -> None:
    looks = looks_of(["other", "FC", "KO"])
    assert (looks["KO"], looks["FC"]) == LOOKS[:2]
    assert looks["other"].colour == "#009E73"


# --- Two factors ---------------------------------------------------------------------------------


def test_factors_are_those_of_the_theory_at_every_target(figures: dict[str, Figure]) -> None:
    known, dense = point().curves
    lines = [calibrate(each, "paper") for each in (known, dense)]
    risks = [RiskLine(each.floor, each.slope or 0.0) for each in lines]
    targets, product = data(line(figures["factors"], "product"))
    expected = [two_factors(risks[0], risks[1], target) for target in targets]
    assert min(targets) > max(each.floor for each in risks)
    assert product == pytest.approx([each.product for each in expected])
    for gid, name in (
        ("structural", "structural"),
        ("budget", "approximation_budget"),
        ("ratio", "ratio"),
    ):
        values = data(line(figures["factors"], gid))[1]
        assert values == pytest.approx([getattr(each, name) for each in expected])


def test_planned_ratios_are_those_of_two_plans() -> None:
    known, dense = point().curves
    found = factors(known, dense).planned
    assert found
    for target, ratio, chance in found:
        first, second = (plan(each, target) for each in (known, dense))
        assert first.samples is not None
        assert second.samples is not None
        assert ratio == second.samples / first.samples
        assert chance == min(first.chance or 0, second.chance or 0)


def test_planned_ratios_are_hollow_where_a_number_is_unlikely_to_be_enough() -> None:
    found = replace(factors(*point().curves), planned=((0.01, 2.0, 0.8), (0.008, 3.0, 0.3)))
    figure = drawn(factors_figure([found]))
    sure, unsure = line(figure, "planned"), line(figure, "planned-unlikely")
    assert data(sure) == ([0.01], [2.0])
    assert data(unsure) == ([0.008], [3.0])
    assert sure.get_markerfacecolor() == sure.get_color() != unsure.get_markerfacecolor()
    assert "hollow: a chance below 50%" in written(figure)


def test_a_curve_that_cannot_be_extrapolated_ends_at_its_last_size_and_says_why() -> None:
    n = np.array([4, 8, 16, 32, 64, 128, 256, 512])
    errors = np.array([1, 1, 1, 1, 0.01, 0.009, 0.008, 0.007])
    curve = Curve(n, errors, model="KO")
    doubt = forecast(curve).doubt
    assert doubt
    made = panel("a", [curve], {})
    figure = drawn(efficiency_figure([made]))
    assert max(data(line(figure, "forecast-1"))[0]) == curve.sizes[-1]
    assert set(doubt.split()) <= set(written(figure).split())


@pytest.mark.parametrize(
    ("errors", "words"), [((0.1, 0.1), "of KO is 0"), ((0.1,), "KO has a single size")]
)
def test_lines_without_a_slope_are_told_in_words(errors: tuple[float, ...], words: str) -> None:
    found = factors(short("KO", *errors), short("FC", 0.4, 0.3))
    assert not found.factors
    assert words in written(drawn(factors_figure([found])))


# --- Images --------------------------------------------------------------------------------------


def test_error_images_are_image_less_truth_on_one_symmetric_scale(
    figures: dict[str, Figure],
) -> None:
    made = pictures()
    shown = {image.get_gid(): image for image in figures["reconstruction"].axes[0].images}
    error = shown["error-1-1-16"]
    expected = made.images["FC"][16][1] - made.truth[1]
    assert np.asarray(error.get_array()) == pytest.approx(expected)
    for gid, image in shown.items():
        low, high = _clim(image)
        if str(gid).startswith("error"):
            assert low == -high == _clim(error)[0]
        else:
            assert (low, high) == (made.truth.min(), made.truth.max())
    assert "error-0-1-0" not in shown  # FC has no untrained image


def test_the_number_under_an_image_is_its_relative_rmse(figures: dict[str, Figure]) -> None:
    made, found = pictures(), gallery(pictures())
    assert found is not None
    image, truth = made.images["FC"][4][0], made.truth[0]
    expected = math.sqrt(((image - truth) ** 2).mean() / (truth**2).mean())
    assert found.tiles[0, "FC", 4].relative == pytest.approx(expected)
    assert digits(expected, 3) in written(figures["reconstruction"])


def test_at_most_ten_sizes_are_shown_with_the_first_and_the_last() -> None:
    truth = np.ones((1, 2, 2))
    many = dict.fromkeys(range(0, 40, 2), truth)
    found = gallery(Pictures(seed=1, truth=truth, images={"m": many}, weights={}))
    assert found is not None
    assert len(found.sizes) == 10
    assert (found.sizes[0], found.sizes[-1]) == (0, 38)
    assert found.left_out == "10 sizes"


def test_of_fifty_models_four_are_shown_and_the_rest_is_told() -> None:
    truth = np.ones((2, 2, 2))
    images = {f"m{k}": {4: truth} for k in range(50)}
    figure = drawn(reconstruction_figure(Pictures(seed=1, truth=truth, images=images, weights={})))
    assert "Left out: 1 test image and 46 models." in written(figure)
    check_page(figure)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_pixels_that_are_no_numbers_and_empty_images_are_drawn(
    value: float, tmp_path: Path
) -> None:
    truth = np.zeros((1, 3, 3))
    image = truth.copy()
    image[0, 1, 1] = value
    weight = {0: np.ones((2, 3)), 4: np.full((2, 3), value)}
    made = Pictures(
        seed=1, truth=truth, images={"KO": {0: image, 4: image}}, weights={"KO": weight}
    )
    figure = drawn(reconstruction_figure(made))
    save(figure, tmp_path / "a.png")
    check_page(drawn(weights_figure(made)))
    assert ("not finite" in written(figure)) == (not math.isfinite(value))
    assert "n/a" in written(figure)  # relative to nothing


def test_the_change_of_weights_is_learned_less_analytic(figures: dict[str, Figure]) -> None:
    made = pictures().weights["KO"]
    shown = {image.get_gid(): image for axes in figures["weights"].axes for image in axes.images}
    assert np.asarray(shown["change"].get_array()) == pytest.approx(made[16] - made[0])
    assert _clim(shown["analytic"]) == _clim(shown["learned"])
    profile = data(line(figures["weights"], "profile-16", axes=_profile_axes(figures)))[1]
    assert profile == pytest.approx(made[16].mean(axis=0).tolist())


def _profile_axes(figures: dict[str, Figure]) -> int:
    return next(k for k, axes in enumerate(figures["weights"].axes) if axes.lines)


def test_without_analytic_weights_the_learned_ones_are_shown() -> None:
    made = replace(pictures(), weights={"KO": {4: np.ones((2, 3))}})
    found = weights(made)
    assert found is not None
    assert found.change is None
    drawn(weights_figure(made))


# --- Networks ------------------------------------------------------------------------------------


def test_layers_show_amplification_and_parts_of_the_bound(figures: dict[str, Figure]) -> None:
    net, figure = ko_net(), figures["layers"]
    for form in BOUNDS:
        assert data(line(figure, f"A-{form}"))[1] == pytest.approx(
            net.amplification(form).tolist()
        )
        parts = data(line(figure, f"contribution-{form}", axes=1))[1]
        bound = barron_bound(net, 64, bound=form)
        assert np.nansum(parts) == pytest.approx(bound.total)
        assert digits(bound.total, 2) in written(figure)


def test_a_target_sets_the_n_of_the_parts() -> None:
    found = layers("known", ko_net(), target=0.5)
    assert found.n == sample_size(ko_net(), 0.5)
    assert "below the bound's floor" in layers("known", ko_net(), target=1e-9).reason


def test_a_missing_constant_is_told_and_not_drawn() -> None:
    net = Network([Learned("W", parameters=3), Known("K")])
    found = layers("a", net, n=64)
    assert not found.contributions
    assert "not known" in written(drawn(layers_figure([("a", net)])))


def test_an_architecture_has_a_box_for_each_layer(figures: dict[str, Figure]) -> None:
    axes = figures["architecture"].axes[0]
    gids = [patch.get_gid() for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    assert gids == ["learned", "known", "known", "known", "learned"]
    for words in ("p = 35", "p = 1,260", "5 x 7", "6 x 6", "A^T"):
        assert words in written(figures["architecture"])
    assert [box.below for box in boxes(ko_net())][3] == f"{ELL} = 1"


@pytest.mark.parametrize(
    ("bracket", "words"),
    [
        (NormBracket(1.0, 1.0), f"{ELL} = 1"),
        (NormBracket(0.14331, 0.14338), f"{ELL} in [0.143, 0.144]"),
        (NormBracket(0.0, 85.77), f"{ELL} ≤ 85.8"),
        (NormBracket(2.0, math.inf), f"{ELL} ≥ 2"),
        (NormBracket(0.0, math.inf), f"{ELL} not known"),
        (NormBracket(0.0, 0.0), f"{ELL} = 0"),
    ],
)
def test_brackets_are_rounded_outwards(bracket: NormBracket, words: str) -> None:
    assert lipschitz(bracket) == words


def test_networks_of_a_study_have_its_calibrated_line_as_composed_bound() -> None:
    found = ct.ct_networks(study(point()))
    assert [made.network.names for made in found] == [("W", "K", "A^T", "ReLU"), ("M", "ReLU")]
    assert [made.network.learned[0].parameters for made in found] == [35, 35 * 36]
    for made, each in zip(found, point().curves, strict=True):
        assert made.calibrated
        expected = calibrate(each, "paper").predict(100)
        assert barron_bound(made.network, 100).total == pytest.approx(expected)


def test_the_networks_are_those_of_the_largest_point_of_each_kind() -> None:
    small = point("small")
    problem = {"kind": "ct", "beam": "surrogate", "side": 8, "views": 10, "bins": 8}
    large = point("large", spec={"problem": {**problem, "side": 16}})
    other = point("other", spec={"problem": problem})
    unlike = point("unlike", spec={"problem": {"kind": "heat"}})
    found = ct.ct_networks(study(small, other, large, unlike))
    assert [made.title.split(":")[0] for made in found] == [
        "KO, small",
        "FC, small",
        "KO, large",
        "FC, large",
    ]
    assert found[2].network.names == ("W", "A^+", "ReLU")


def test_a_limited_angle_is_a_kind_of_its_own() -> None:
    problem = {"kind": "ct", "beam": "parallel", "side": 6, "views": 5, "bins": 7}
    whole = point("whole", spec={"problem": problem})
    part = point("part", spec={"problem": {**problem, "arc": 60.0}})
    found = ct.ct_networks(study(whole, part))
    assert [made.title.rpartition(" bins, ")[2] for made in found[::2]] == [
        "parallel beam",
        "parallel beam over 60 degrees",
    ]


# --- Words on the page ---------------------------------------------------------------------------


def check_page(figure: Figure) -> None:
    """No word leaves the page, or is too small to be read on it."""
    with style():
        figure.draw_without_rendering()
        hidden = set(_unseen(figure))
        for text in texts(figure):
            if text.get_visible() and text.get_text().strip() and text not in hidden:
                box = text.get_window_extent()
                assert box.x0 >= -1, text
                assert box.y0 >= -1, text
                assert box.x1 <= figure.bbox.x1 + 1, text
                assert box.y1 <= figure.bbox.y1 + 1, text
                assert float(text.get_fontsize()) >= FINE, text


def _unseen(figure: Figure) -> Iterator[Text]:
    """Labels of ticks that lie beyond their axis, which are not drawn."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not axes.axison or not low <= tick.get_loc() <= high:
                    yield from (tick.label1, tick.label2)


@pytest.mark.parametrize("name", FIGURES)
def test_all_words_lie_within_the_page(name: str, figures: dict[str, Figure]) -> None:
    check_page(figures[name])
    for axes in figures[name].axes:
        if axes.axison:
            assert axes.get_ylabel()
            assert axes.get_xlabel() or axes in _bars(figures[name])


def _bars(figure: Figure) -> list[Axes]:
    """The axes of colour bars, which hold no image and are narrow."""
    across = figure.get_size_inches()[0]
    return [axes for axes in figure.axes if axes.get_position().width * across < 0.2]


@pytest.mark.parametrize("name", NASTY)
def test_names_from_files_are_drawn_as_text(name: str) -> None:
    printable = "".join(c for c in name if c.isprintable())[:80]
    curves = [Curve([4, 8], [0.2, 0.1], model=printable, metric=printable)]
    made = pictures()
    odd = replace(made, images={name: made.images["KO"]}, weights={name: made.weights["KO"]})
    network = Network([Learned(printable, parameters=3)])
    figures = [
        efficiency_figure([panel(name, curves, {printable: 0.3}, note=name)]),
        factors_figure([factors(curves[0], curves[0], name=name)]),
        reconstruction_figure(odd, title=name, unit=name),
        weights_figure(odd, title=name),
        layers_figure([(name, network)], unit=name),
        architecture_figure([(name, network)], shapes={name: (name, name)}),
    ]
    start = " ".join("".join(c if c.isprintable() else " " for c in name).split())[:10]
    for figure in figures:
        assert start in written(drawn(figure))
        check_page(drawn(figure))


def test_a_unit_beside_a_colour_bar_is_text() -> None:
    figure = drawn(reconstruction_figure(pictures(), unit=r"$\frac{$"))
    assert any(axes.get_ylabel() == r"value ($\frac{$)" for axes in figure.axes)
    check_page(figure)


def test_twelve_layers_wrap_and_long_names_are_shortened() -> None:
    net = Network([Learned(f"{k} {'x' * 60}", parameters=10**k) for k in range(12)])
    figure = drawn(architecture_figure([("deep", net)]))
    check_page(figure)
    assert sum(isinstance(patch, FancyBboxPatch) for patch in figure.axes[0].patches) == 12
    check_page(drawn(layers_figure([("deep", net)])))


# --- A whole study -------------------------------------------------------------------------------


def test_every_figure_of_a_study_has_its_name() -> None:
    made = study(point("a", curves=SHORT), point("b", curves=SHORT, pictures=None))
    stems = [stem for stem, _ in study_figures(made)]
    assert stems == [
        "sample_efficiency",
        "two_factors",
        "architecture",
        "layers",
        "reconstructions_a",
        "weights_a",
    ]


@pytest.mark.parametrize(
    "made",
    [
        study(),
        study(point(curves=(), untrained={}, pictures=None, spec={})),
        study(point(curves=(), pictures=None, spec={"problem": 3, "models": None})),
    ],
)
def test_what_has_nothing_to_show_is_absent(made: Contents) -> None:
    assert list(study_figures(made)) == []


def test_one_point_one_model_one_seed_one_size() -> None:
    alone = Curve([4], [0.1], model="net", metric="")
    made = study(point(curves=(alone,), untrained={}, pictures=None, spec={}))
    assert [stem for stem, _ in study_figures(made)] == ["sample_efficiency"]


def test_no_pictures_give_no_figure() -> None:
    empty = Pictures(seed=1, truth=np.zeros((0, 2, 2)), images={}, weights={})
    assert reconstruction_figure(empty) is None
    assert weights_figure(empty) is None
    assert efficiency_figure([]) is None
    assert factors_figure([]) is None
    assert layers_figure([]) is None
    assert architecture_figure([]) is None


def test_stems_are_safe_names_and_no_two_are_the_same() -> None:
    names = ["../../etc/passwd", "a b", "a-b", "A/B", "", "...", "con.", "x" * 300, "ü", "a\0b"]
    stems = file_stems(names)
    assert all(stem and set(stem) <= set(_SAFE) and len(stem) <= 64 for stem in stems)
    assert len({stem.casefold() for stem in stems}) == len(names)
    assert file_stems(["rigorous-8"]) == ["rigorous-8"]


_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def test_files_are_written_into_the_folder(tmp_path: Path) -> None:
    shown = replace(pictures(), weights={})
    made = study(point("../up", curves=SHORT[:1], spec={}, pictures=shown))
    paths = save_figures(study_figures(made), tmp_path / "new" / "folder", ("svg",))
    names = [path.name for path in paths]
    assert names == ["sample_efficiency.svg", "reconstructions_up.svg"]
    assert sorted((tmp_path / "new" / "folder").iterdir()) == sorted(paths)


@pytest.mark.parametrize("name", ["architecture", "reconstruction"])
def test_the_same_figure_gives_the_same_file(
    name: str, figures: dict[str, Figure], tmp_path: Path
) -> None:
    save(figures[name], tmp_path / "a.svg")
    save(drawn(FIGURES[name]()), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_other_kinds_and_folders_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match="kinds must be one of png, svg, pdf"):
        save_figures(study_figures(study()), tmp_path / "a", ("jpg",))
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(KoriskError, match="cannot be made"):
        save_figures(study_figures(study()), tmp_path / "file" / "a")


def test_figures_are_made_without_pytorch_and_say_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import korisk.report.figures.study\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
        "from korisk.report.figures.ct_networks import _tail\n"
        "print(_tail(8, 10, 8, 'fan', None)[0][0].lipschitz)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "None"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (0.00123, "0.00123"),
        (1234567.0, "1.23×10⁶"),  # noqa: RUF001 (a multiplication sign)
        (-3.3e-6, "−3.3×10⁻⁶"),  # noqa: RUF001
        (1e-300, "10⁻³⁰⁰"),
        (0.9996, "1"),
        (math.inf, "∞"),
        (150.0, "150"),
    ],
)
def test_numbers_are_short_and_need_no_mathtext(value: float, words: str) -> None:
    assert digits(value, 3) == words


def test_a_root_is_drawn_squared_as_in_the_paper() -> None:
    known, dense = curve("KO", 0.05, 0.1), curve("FC", 0.06, 0.4)
    root = point(curves=(known, dense), metric="rmse_over_max", untrained={"KO": 0.2})
    (found,) = panels_of(study(root))
    assert found.metric == "(RMSE / max)\N{SUPERSCRIPT TWO}"
    assert np.array_equal(found.traces[0].curve.error, known.error**2)
    assert found.traces[0].untrained == pytest.approx(0.04)
    (pair,) = factors_of(study(root))
    lowest = tuple(float(min(each.means)) ** 2 for each in (known, dense))
    assert pair.floors == pytest.approx(lowest, rel=0.01)
