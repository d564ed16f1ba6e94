"""One set of definitions: table, words, JSON, figure and page say the same of the same plans."""

import json
from pathlib import Path

import pytest
from artists import written
from commands import korisk

import korisk as kr
from korisk.planning.explain import chance, count, times
from korisk.planning.plan import LEVELS
from korisk.report.figures.pilot import comparison_figure, plan_figure
from korisk.report.page.page import pilot_page

pytestmark = pytest.mark.usefixtures("bands_once", "bare_pages")

ROOT = Path(__file__).parents[2]
ASKED = (  # file, model, target: beyond the pilot, in doubt, inside it, out of reach, no 90%
    ("examples/pilot_h8.csv", "FC", 0.003),
    ("benchmarks/data/collapse_h8.csv", "FC", 0.003),
    ("examples/pilot_h8.csv", "KO", 0.003),
    ("examples/pilot_h8.csv", "KO", 0.0004),
    ("examples/pilot_h8.csv", "FC", 0.0015),
)


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("file", "model", "target"), ASKED)
def test_every_place_says_the_same(
    file: str, model: str, target: float, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = kr.plan(kr.Curve.read(ROOT / file, model=model), target)
    command = ("plan", ROOT / file, "--model", model, "--target", target)
    code = 0 if plan.middle is not None else 3
    assert korisk(*command) == code
    printed = one_line(capsys.readouterr().out)
    assert korisk(*command, "--json") == code
    (told,) = json.loads(capsys.readouterr().out)["plans"]
    page = pilot_page([plan.curve], title="pilot", target=target)
    words = plan.explain()
    # JSON is the plan's own.
    assert (told["samples"], told["chance"]) == (plan.middle, plan.chance)
    assert told["safe"] == {f"{level:g}": plan.samples(level) for level in LEVELS}
    assert told["explanation"] == words
    # The first sentence of the page is that of the templates, word for word.
    assert plan.brief() in page.replace("&#x27;", "'")
    places = (printed, words, one_line(written(plan_figure(plan))), plan.brief())
    if plan.middle is None:
        assert all(chance(plan.reach) in place for place in (printed, words, plan.brief()))
        return
    assert plan.chance is not None
    for place in places:
        assert count(plan.middle) in place
        assert chance(plan.chance) in place
    safe = plan.samples(0.9)
    for place in (printed, words, plan.brief()):
        if safe is None:
            assert chance(plan.reach) in place
            assert "o amount of data gives 90%" in place
        elif safe != plan.middle:
            assert f"{count(safe)} samples are enough with 90% probability" in place
    reached = plan.if_reached(0.9)
    if safe is None and reached is not None:  # never without its condition
        odds = chance(plan.probability(plan.before_long))
        for place in (printed, words):
            before = place.index(f"{count(reached)} samples are enough")
            condition = place[before - 120 : before]
            assert f"by N = {count(plan.before_long)} (chance {odds})" in condition


@pytest.mark.parametrize("second", [[0.9, 0.5, 0.28, 0.16, 0.09], [0.5, 0.31, 0.3, 0.3, 0.3]])
def test_a_comparison_says_the_same_everywhere(
    second: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first model met the target at once; the second comes to it, or never does."""
    rows = ["n,KO,FC"]
    rows += [f"{n},{0.002 - i * 1e-5},{second[i]}" for i, n in enumerate((16, 32, 64, 128, 256))]
    pilot, html = tmp_path / "pilot.csv", tmp_path / "page.html"
    pilot.write_text("\n".join(rows))
    first, other = kr.Curve.read_all(pilot)
    both = kr.compare(first, other, 0.05)
    code = 0 if both.second.middle else 3
    assert korisk("compare", pilot, "--target", 0.05, "--html", html) == code
    printed = one_line(capsys.readouterr().out)
    assert korisk("compare", pilot, "--target", 0.05, "--json") == code
    told = json.loads(capsys.readouterr().out)
    assert both.ratio_range is not None
    low = both.ratio_range[0]
    assert (told["ratio"], told["ratio_range"]) == (both.ratio, [low, None])
    assert (told["first"]["at_once"], told["first"]["samples"]) == (True, 16)
    page = html.read_text()
    data = json.loads(page.partition('"pairs":')[2].partition("}]")[0] + "}]")
    assert data[0]["ratio_range"] == [low, None]
    figure = one_line(written(comparison_figure(both)))
    assert "N ≤ 16" in figure
    assert "≤ 16" in printed
    for place in (printed, both.explain(), page):
        assert "KO needs at most 16 samples" in place
        assert f"at least {times(low)} with 95% probability" in place
