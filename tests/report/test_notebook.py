"""Values in notebooks, sentences and a figure, and answers as pages of their own."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from artists import check_page
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import korisk as kr
from korisk.operators import ParallelBeam, Projector, fbp
from korisk.report.figures.style import plain

N = np.array([16, 32, 64, 128])
NAME = "<img src=x> net $x_1$"
CURVE = kr.Curve(np.tile(N, 2), np.concatenate([3 / N, 3.2 / N]), [1] * 4 + [2] * 4, NAME, "mse")
LEVEL = kr.Curve(N, 0.05 + 0.01 / N, model="flat", metric="mse")
STEPPED = kr.Curve(4 * 2 ** np.arange(8), [1, 1, 1, 1, 0.01, 0.009, 0.008, 0.007], model="stepped")
SCAN = ParallelBeam(8, views=6, bins=12)
SHOWN = ("curve", "plan", "not known", "refused", "comparison", "forecast", "rehearsal")


def fit(n: int, seed: int) -> float:
    return (3 + 0.1 * seed) / n


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    def build() -> torch.nn.Module:
        return torch.nn.Sequential(fbp(SCAN, trainable=True))

    few: dict[str, Any] = {"sizes": [4, 8, 16], "seeds": 2}
    few["training"] = kr.prediction.Training(steps=10)
    rehearsal = kr.rehearse(build, Projector(SCAN), noise=0.05, **few)
    return {
        "curve": CURVE,
        "plan": kr.plan(CURVE, target=0.02),
        "not known": kr.plan(LEVEL, target=0.001),
        "refused": kr.plan(STEPPED, target=0.001),
        "comparison": kr.compare(CURVE, LEVEL, target=0.06),
        "forecast": rehearsal.forecast(),
        "pilot": kr.run_pilot(fit, sizes=[16, 32, 64], seeds=2, quiet=True, target=0.02),
        "rehearsal": rehearsal,
        "ablation": kr.ablate(
            build,
            Projector(SCAN),
            noise=0.05,
            replace=kr.ablation.Replacement(by="wrong", wrong=0.2),
            **few,
        ),
    }


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_each_shows_a_sentence_and_a_figure(values: dict[str, Any]) -> None:
    for name in SHOWN:
        html = values[name]._repr_html_()
        assert len(html) < 60_000, name
        assert html.count("<svg") == 1, name
        assert "<img src=x>" not in html, name
    shown = {name: words(values[name]._repr_html_()) for name in SHOWN}
    for name in ("plan", "refused", "not known"):
        assert plain(values[name].recommend().sentence) in shown[name]
    assert plain(values["comparison"].saving()) in shown["comparison"]
    assert f"the best mean is {CURVE.means[-1]:.4g} at N = 128" in shown["curve"]
    assert NAME in shown["plan"]
    html = values["plan"]._repr_html_()
    for theme in ("prefers-color-scheme:dark", '[data-jp-theme-light="false"] .k-figure'):
        assert theme in html


def test_plots_return_axes_in_a_figure_of_their_own_or_draw_into_those_given(
    values: dict[str, Any],
) -> None:
    for name in SHOWN:
        value = values[name]
        own = value.plot()
        assert isinstance(own, Axes), name
        assert own.figure.axes[0] is own
        assert isinstance(own.figure, Figure)
        check_page(own.figure)
        figure = Figure(figsize=(7, 4))
        given, other = figure.subplots(1, 2)
        assert value.plot(ax=given) is given, name
        assert given.lines or given.patches, name
        assert not other.lines
        figure.draw_without_rendering()
        with pytest.raises(kr.KoriskError, match="ax must be axes of Matplotlib, got 'nope'"):
            value.plot("nope")


def test_without_matplotlib_there_is_a_sentence_and_no_error() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['torch'] = None\n"
        "import korisk as kr\n"
        "curve = kr.Curve([16, 32, 64, 128], [0.2, 0.1, 0.05, 0.025], model='net')\n"
        "plan = kr.plan(curve, target=0.02)\n"
        "print(plan.recommend().sentence.partition(' Do')[0] in plan._repr_html_())\n"
        "try: curve.plot()\n"
        "except kr.MissingExtraError as error: print('korisk[report]' in str(error))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]


def test_to_html_writes_a_page_with_the_answer(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "answer.html"
    targets = {"forecast": 0.05, "rehearsal": 0.05}
    answers = dict.fromkeys(
        targets, values["forecast"].plan(0.05).recommend().sentence.partition(" Do")[0]
    )
    answers |= {"plan": f"{values['plan'].recommend().n:,}"}
    answers |= {"comparison": values["comparison"].saving()}
    for name in ("curve", "plan", "comparison", "pilot", "ablation", *targets):
        assert values[name].to_html(str(file), target=targets.get(name), title=f"<{name}>") == file
        page = file.read_text(encoding="utf-8")
        assert f"&lt;{name}&gt;" in page, name
        assert "http://" not in page.replace("http://www.w3.org/", ""), name  # loads nothing
        assert plain(answers.get(name, "")) in words(page), name


def test_to_html_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(kr.KoriskError, match=r"must be \.html, got \.pdf"):
        kr.plan(CURVE, target=0.02).to_html(tmp_path / "answer.pdf")
    with pytest.raises(kr.KoriskError, match="no such folder"):
        kr.plan(CURVE, target=0.02).to_html(tmp_path / "missing" / "answer.html")
    assert not list(tmp_path.iterdir())
