"""Pages in a real browser: what they show, what they compute, and that they leave nobody out."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import chromium, fresh_page, shown_facts, slide
from commands import korisk
from made_studies import content, made_study

from korisk.curves.curve import Curve
from korisk.planning.explain import chance, times
from korisk.planning.fit import calibrate
from korisk.report.contents import read_contents, relative_error

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Captured = pytest.CaptureFixture[str]
SHORT = "short (too few sizes to plan)"
NASTY = "<img src=x onerror=alert(1)>"
PHONE = {"width": 390, "height": 844}
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")
A4 = {"width": 718, "height": 1046}  # CSS pixels between margins of a centimetre


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = content([{"side": 8}, {"side": 16, "name": NASTY}], name=f"made up {NASTY}")
    folder = made_study(tmp_path_factory.mktemp("study"), said, missing=1, failed=1)
    assert korisk("report", folder, "--only", "page") == 0
    return folder


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of the first point's pilot, with a model of a nasty name, and its page beside it."""
    folder = tmp_path_factory.mktemp("pilot")
    lines = ["n,error,seed,model,metric"]
    for n in (4, 8, 16, 32, 64, 128):
        for seed, off in ((1, 0.97), (2, 1.0), (3, 1.04)):
            lines.append(f"{n},{off * (0.002 + 0.01 / n)!r},{seed},KO,mse")
            lines.append(f"{n},{off * (0.0003 + 0.15 / n)!r},{seed},{NASTY},mse")
    file = folder / "pilot.csv"
    file.write_text("\n".join(lines) + "\n")
    assert korisk("plan", file, "--html", folder / "pilot.html") == 0
    return file


@contextmanager
def opened(browser: "Browser", file: Path, **settings: Any) -> "Iterator[Page]":
    """A page that may neither ask anyone for anything nor complain."""
    with fresh_page(browser, **settings) as page:
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: complaints.append(request.url[:100]))
        page.goto(file.as_uri())
        yield page
        asked = [each for each in complaints if not each.startswith(("data:", file.as_uri()))]
        assert not asked


def scroll_to_curves(page: "Page") -> None:
    """They are drawn when they come near."""
    page.locator("#plot").scroll_into_view_if_needed()
    page.wait_for_selector("html[data-drawn]")


def planned(file: Path, model: str, target: str, capsys: Captured) -> Any:
    capsys.readouterr()
    code = korisk("plan", file, "--model", model, "--target", target, "--json")
    assert code in (0, 3), target
    (found,) = json.loads(capsys.readouterr().out)["plans"]
    return found


def interval(found: dict[str, Any], last: int = 128) -> str:
    upper = "∞" if found["upper"] is None else f"{found['upper']:,.0f}"
    return f"{found['lower']:,.0f} {'and' if found['samples'] <= last else 'to'} {upper}"


def stop(page: "Page", share: float) -> None:
    slide(page, round(share * int(page.get_attribute("#slider", "max") or 0)))


def test_the_slider_gives_korisk_plan(browser: "Browser", pilot: Path, capsys: Captured) -> None:
    answers: list[int | None] = []
    kinds = set()
    with opened(browser, pilot.with_suffix(".html")) as page:
        for model in ("KO", NASTY):
            page.select_option("#model", label=model)
            for share in (0, 0.06, 0.15, 0.26, 0.4, 0.52, 0.64, 0.76, 0.88, 1):
                stop(page, share)
                target = page.input_value("#target")
                found = planned(pilot, model, target, capsys)
                shown = page.get_attribute("#samples", "data-value")
                assert shown == ("" if found["samples"] is None else str(found["samples"])), target
                assert page.is_hidden("#between")  # nothing is interpolated
                facts = shown_facts(page)
                assert facts["Chance to reach it at all"] == chance(found["reach"])
                coming = found["next_round"]
                assert facts["Collect next, in all"] == (f"{coming:,}" if coming else "nothing")
                odds = found["reach"] if found["samples"] is None else found["chance"]
                assert page.inner_text("#samples-chance") == f"chance {chance(odds)}"
                answers.append(found["samples"])
                if found["samples"] is None:
                    assert facts["Levels off at about"] == f"{found['floor']:.4g}"
                    continue
                at_once = "already at the pilot's smallest" in found["explanation"]
                assert (interval(found) in facts.values()) != at_once
                for level, number in found["safe"].items():
                    kinds.add(number is None)
                    text = facts[f"Enough with {100 * float(level):.0f}% probability"]
                    assert text == f"{number:,}" if number else "no amount of data" in text
    assert None in answers  # one of each kind was there
    assert kinds == {True, False}
    assert len({each for each in answers if each is not None}) >= 8


def test_between_stops_is_interpolated(browser: "Browser", pilot: Path, capsys: Captured) -> None:
    with opened(browser, pilot.with_suffix(".html")) as page:
        page.select_option("#model", label=NASTY)
        page.fill("#target", "0.0012345")
        page.wait_for_selector("#between:not([hidden])")
        easier, harder = re.findall(r"[\d.e-]+\d", page.inner_text("#between"))
        assert float(harder) <= 0.0012345 <= float(easier)
        found = planned(pilot, NASTY, "0.0012345", capsys)
        shown = int(page.get_attribute("#samples", "data-value") or "0")
        assert shown == pytest.approx(found["samples"], rel=0.02, abs=1)


def test_the_comparison_is_the_commands(browser: "Browser", pilot: Path, capsys: Captured) -> None:
    with opened(browser, pilot.with_suffix(".html")) as page:
        target = page.input_value("#target")  # the first one is exact for both
        facts = shown_facts(page, "versus-facts")
        stop(page, 0.3)
        assert "90%" not in shown_facts(page, "versus-facts")[f"Ratio, {NASTY} over KO"]
    capsys.readouterr()
    assert korisk("compare", pilot, "--target", target, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    for name, key in (("KO", "first"), (NASTY, "second")):
        said = facts[f"Samples of {name}"]
        assert said.startswith(f"{found[key]['samples']:,} (chance {chance(found[key]['chance'])};")
        assert said.endswith(f" {interval(found[key])})")
    low, high = found["ratio_range"]
    odds = [chance(found[key]["chance"]) for key in ("second", "first")]
    assert facts[f"Ratio, {NASTY} over KO"] == (
        f"{times(found['ratio'])} (chance {odds[0]} for {NASTY}, {odds[1]} for KO; "
        f"90%: {times(low)} to {times(high)} if both reach it)"
    )
    for method, words in (("line", "fitted lines"), ("paper", "the paper's lines")):
        factors = found["two_factors"][method]
        text = facts[f"Two factors, {words}"]
        if "unknown" in factors:
            assert text.startswith("not defined")
        else:
            shown = [float(part) for part in text.replace(",", "").split() if part[0].isdigit()]
            expected = [factors[name] for name in ("structural", "approximation_budget", "product")]
            assert shown == pytest.approx(expected, rel=0.06)
    assert f"N = {found['crossover']['n']:,}" in facts["Crossover"]
    assert facts["Crossover"] in found["explanation"]


def test_costs_and_the_error_at_a_number(browser: "Browser", pilot: Path, capsys: Captured) -> None:
    capsys.readouterr()
    asked = ("--model", "KO", "--at", "1000", "--target", "0.0021", "--json")
    assert korisk("plan", pilot, *asked) == 0
    (expected,) = json.loads(capsys.readouterr().out)["plans"][0]["at"]
    error, lower, upper = (expected[name] for name in ("value", "lower", "upper"))
    with opened(browser, pilot.with_suffix(".html")) as page:
        page.fill("#target", "0.0021")
        page.fill("#cost", "2.5")
        page.fill("#currency", "EUR")
        page.fill("#count", "1,000")
        page.wait_for_function("() => document.getElementById('expected').textContent !== ''")
        samples = int(page.get_attribute("#samples", "data-value") or "0")
        price = shown_facts(page)["Cost of these samples"]
        assert price.endswith(" EUR")
        assert float(price.removesuffix(" EUR").replace(",", "")) == 2.5 * samples
        costs = {name for name in shown_facts(page) if name.startswith("Cost")}
        assert len(costs) == 1  # no amount of data gives 90%, so that nothing has a price
        told = [float(number) for number in NUMBER.findall(page.inner_text("#expected"))]
        assert told[:4] == pytest.approx([error, 90, lower, upper], rel=0.01)
        assert told[4] / 100 == pytest.approx(expected["probability_of_target"], abs=0.02)
        page.fill("#target", "0.005")
        page.wait_for_function("() => document.getElementById('facts').children.length > 6")
        safe = shown_facts(page)["Enough with 90% probability"]
        price = shown_facts(page)["Cost of those that are enough with 90%"].removesuffix(" EUR")
        assert float(price.replace(",", "")) == 2.5 * int(safe.replace(",", ""))
        page.fill("#count", "1.5")
        page.wait_for_function("() => document.getElementById('count').ariaInvalid === 'true'")
        assert page.inner_text("#expected").startswith("Give a whole number from 4 to ")


def test_a_target_that_is_none_is_refused_in_words(browser: "Browser", pilot: Path) -> None:
    with opened(browser, pilot.with_suffix(".html")) as page:
        for text in ("", "x", "0x10", "5%", "-1", "0", "1e999", "30"):
            page.fill("#target", text)
            page.wait_for_selector("#refusal:not([hidden])")
            assert page.inner_text("#refusal")
            assert not page.is_visible("#samples")
            page.fill("#target", "0.004")
            page.wait_for_selector("#samples")
            assert not page.is_visible("#refusal")
        page.fill("#cost", "5 each")
        page.wait_for_selector("#cost-note:not([hidden])")


def test_the_study_page_says_what_was_run_and_what_is_not(browser: "Browser", study: Path) -> None:
    with opened(browser, study / "report.html") as page:
        assert page.inner_text("h1") == page.title() == f"made up {NASTY}"
        assert "chance" in page.inner_text(".answer")
        missing, failed = page.locator(".notes li").all_inner_texts()
        assert missing.startswith(f"{NASTY}: 1 of 3 cells are not there yet (seed 3)")
        assert failed == f"{NASTY}: 1 cell failed, the first: a pixel <b>fell</b> out"
        assert (page.locator("img[src=x]").count(), page.locator("b").count()) == (0, 0)
        names = page.locator("#point option").all_inner_texts()
        assert names == [NASTY, "rigorous-8"]
        page.select_option("#point", label="rigorous-8")
        scroll_to_curves(page)
        assert page.get_attribute("#plot", "aria-label")
        assert page.locator("#legend li span:last-child").all_text_contents() == ["KO", "FC"]


def test_the_slider_over_n_changes_the_pictures(browser: "Browser", study: Path) -> None:
    with opened(browser, study / "report.html") as page:
        seen = set()
        for at, n in enumerate((0, 4, 8, 16, 32, 64, 128)):
            slide(page, at, "size")
            assert page.inner_text("#size-text") == ("none, untrained" if n == 0 else str(n))
            picture = page.locator("figure[data-model=KO][data-image='1'][data-kind=image] img")
            assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)")
            assert f"N = {n}:" in (picture.get_attribute("alt") or "")
            seen.add(picture.get_attribute("src"))
            absent = page.locator("figure[data-model=FC].absent").count()
            assert absent == (4 if n == 0 else 0)  # a dense network has no untrained state
        assert len(seen) == 7
        first = page.locator("figure[data-model=KO][data-image='0'] img")
        image, error = (first.nth(at).get_attribute("src") for at in (0, 1))
        assert image != error
        (point,) = (each for each in read_contents(study).points if each.name == "rigorous-8")
        pictures = point.pictures
        assert pictures is not None
        page.select_option("#scene", label="rigorous-8")
        slide(page, 1, "size")
        off = 100 * relative_error(pictures.images["KO"][4][0], pictures.truth[0])
        caption = page.locator("figure[data-model=KO][data-image='0'] figcaption").first
        shown = float(caption.inner_text().removeprefix("KO: ").removesuffix("% off"))
        assert shown == pytest.approx(off, rel=0.01)
        caption_text = page.inner_text("#frames-caption")
        assert caption_text.endswith("Shown at 8 \N{MULTIPLICATION SIGN} 8 pixels.")


def test_the_keyboard_alone_reaches_every_control(browser: "Browser", study: Path) -> None:
    with opened(browser, study / "report.html") as page:
        wanted = page.evaluate(
            """() => [...document.querySelectorAll("a, button, input, select, summary, .table")]
              .filter((each) => each.checkVisibility())
              .map((each, at) => { each.dataset.place = at; return at; })"""
        )
        reached = []
        for _ in range(len(wanted) + 5):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.dataset.place"))
        assert {str(place) for place in wanted} <= set(reached)

        page.focus("#slider")
        before = page.input_value("#target")
        page.keyboard.press("ArrowRight")
        changed = "(old) => document.getElementById('target').value !== old"
        page.wait_for_function(changed, arg=before)
        page.focus("#model")
        page.keyboard.press("ArrowDown")
        assert (page.input_value("#model"), page.input_value("#other")) == ("1", "0")


def overflowing(page: "Page", width: int) -> list[str]:
    """What is visible, ends beyond the width, and is in nothing that scrolls."""
    found: list[str] = page.evaluate(
        """(width) => [...document.querySelectorAll("body *")]
          .filter((each) => each.checkVisibility())
          .filter((each) => each.getBoundingClientRect().right > width + 1)
          .filter((each) => {
            for (let up = each; up; up = up.parentElement)
              if (getComputedStyle(up).overflowX !== "visible") return false;
            return !each.closest("svg");
          })
          .map((each) => each.outerHTML.slice(0, 120))""",
        width,
    )
    return found


@pytest.mark.parametrize("page_of", ["study", "pilot"])
@pytest.mark.parametrize(("theme", "phone"), [("light", False), ("dark", True)])
def test_no_serious_barrier_is_found_and_nothing_overflows(
    browser: "Browser", study: Path, pilot: Path, page_of: str, theme: str, phone: bool
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    file = study / "report.html" if page_of == "study" else pilot.with_suffix(".html")
    size = PHONE if phone else {"width": 1280, "height": 900}
    with opened(browser, file, color_scheme=theme, viewport=size) as page:
        scroll_to_curves(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert not overflowing(page, size["width"])
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        found = Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not [(each["id"], each["nodes"][0]["html"][:200]) for each in serious]


def test_on_paper_no_figure_is_cut(browser: "Browser", study: Path, tmp_path: Path) -> None:
    with opened(browser, study / "report.html", viewport=A4, color_scheme="dark") as page:
        scroll_to_curves(page)
        page.emulate_media(media="print")
        assert not overflowing(page, A4["width"])
        assert page.is_visible(".still img")
        assert not page.is_visible("#plot")
        for box in page.locator("main img, main svg, main figure").all():
            if box.is_visible():
                place = box.bounding_box()
                assert place is not None
                assert place["height"] <= A4["height"]
                style = "getComputedStyle(each.closest('figure') || each).breakInside"
                assert box.evaluate(f"(each) => {style}") == "avoid"
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        assert len(page.pdf(format="A4")) > 10_000


def test_the_theme_can_be_chosen_and_scripts_can_be_off(browser: "Browser", pilot: Path) -> None:
    with opened(browser, pilot.with_suffix(".html"), color_scheme="dark") as page:
        colour = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(colour)
        page.click("#theme")
        assert page.evaluate(colour) == "rgb(255, 255, 255)" != dark
        assert page.inner_text("#theme") == "Dark colours"
    with opened(browser, pilot.with_suffix(".html"), java_script_enabled=False) as page:
        assert "chance" in page.inner_text(".answer")
        assert page.is_visible(".still img")
        assert "needs JavaScript" in page.inner_text("#planner")


def test_the_page_is_small_and_names_no_other_place(study: Path, pilot: Path) -> None:
    for file in (study / "report.html", pilot.with_suffix(".html")):
        text = file.read_text()
        assert len(text.encode()) < 6_000_000
        assert NASTY not in text  # escaped everywhere
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        own = text.partition('id="library"')[0]  # the drawing library is packed
        assert "http://" not in own
        assert "https://" not in own


def test_scores_have_their_own_unit(browser: "Browser", tmp_path: Path, capsys: Captured) -> None:
    lines = ["n,error,seed"]
    for n in (10, 40, 160, 640):
        lines += [f"{n},{20 + 4 * n**0.2 + 0.1 * seed!r},{seed}" for seed in (1, 2, 3)]
    file, html = tmp_path / "psnr.csv", tmp_path / "psnr.html"
    file.write_text("\n".join(lines) + "\n")
    assert korisk("plan", file, "--unit", "psnr", "--html", html) == 0
    with opened(browser, html) as page:
        start = int(page.input_value("#slider"))
        assert 0 < start < int(page.get_attribute("#slider", "max") or 0)
        slide(page, start)
        first = float(page.input_value("#target"))
        answered = float(page.inner_text(".answer").split()[2].rstrip(","))
        assert first == pytest.approx(answered, abs=0.05)
        stop(page, 0.8)
        target = page.input_value("#target")
        assert float(target) > first  # harder is more decibels
        capsys.readouterr()
        korisk("plan", file, "--unit", "psnr", "--target", target, "--json")
        (found,) = json.loads(capsys.readouterr().out)["plans"]
        assert page.get_attribute("#samples", "data-value") == str(found["samples"] or "")
        means = page.locator("#measured tbody td:last-child").all_inner_texts()
        expected = [20.2 + 4 * n**0.2 for n in (10, 40, 160, 640)]
        assert [float(mean) for mean in means] == pytest.approx(expected, abs=0.02)
        counts = page.locator("#measured tbody td:nth-child(3)").all_inner_texts()
        assert counts == ["3"] * 4
        scroll_to_curves(page)
        assert page.evaluate("document.getElementById('plot')._fullLayout.yaxis.type") == "linear"
        drawn = page.evaluate("document.getElementById('plot').data.at(-1).y")
        assert drawn == pytest.approx([float(mean) for mean in means], abs=0.02)


def test_curves_show_bands_lines_and_the_target(browser: "Browser", pilot: Path) -> None:
    with opened(browser, pilot.with_suffix(".html")) as page:
        scroll_to_curves(page)

        def plot(expression: str) -> Any:
            return page.evaluate(f"((plot) => {expression})(document.getElementById('plot'))")

        assert plot("plot._fullLayout.yaxis.type") == "log"
        marks = plot("plot.layout.shapes.map((s) => [s.x0, s.x1, s.y0, s.y1, s.line.color])")
        target = float(page.input_value("#target"))
        samples = int(page.get_attribute("#samples", "data-value") or "0")
        other = int(page.get_attribute("#versus", "data-value") or "0")
        wanted = [[0, 1, target, target], [samples, samples, 0, 1], [other, other, 0, 1]]
        assert [mark[:4] for mark in marks] == wanted
        assert len({mark[4] for mark in marks}) == 3
        labels = plot("plot.layout.annotations.map((each) => each.text)")
        for n, label in zip((samples, other), labels, strict=True):
            assert f"N = {n:,}, chance " in label
        bands = "plot.data.filter((t) => t.fill === 'tonexty')"
        assert plot(f"{bands}.length") == 2
        (low, high) = plot("[plot.data[0].y, plot.data[1].y]")
        assert all(a < b for a, b in zip(low, high, strict=True))
        dashed = plot("plot.data.filter((t) => t.line && t.line.dash === 'dash')[0]")
        for n, y in zip(dashed["x"], dashed["y"], strict=True):
            assert (y is not None) == (n >= 128)
        page.uncheck("#bands")
        assert plot(f"{bands}.length") == 0
        page.check("#lines")
        line = plot("plot.data.filter((t) => t.line && t.line.dash === 'longdashdot')[0]")
        fitted = calibrate(Curve.read(pilot, model="KO"), "paper")
        expected = fitted.predict(np.array(line["x"]))
        assert line["y"] == pytest.approx(expected.tolist(), rel=1e-3)

        before = plot("plot._fullLayout.xaxis.range")
        page.evaluate("window.Plotly.relayout('plot', {'xaxis.range': [1, 2]})")
        page.click("#reset")
        assert plot("plot._fullLayout.xaxis.range") == pytest.approx(before)
        stop(page, 1)
        assert plot("plot.layout.shapes[0].y0") == float(page.input_value("#target"))


def test_every_choice_changes_what_is_shown(browser: "Browser", many: Path) -> None:
    with opened(browser, many) as page:
        assert page.locator("#other option").all_inner_texts() == ["b", "c"]
        scroll_to_curves(page)
        legend = page.locator("#legend li span:last-child")
        assert legend.all_text_contents() == ["a", "b", SHORT]
        page.select_option("#other", label="c")
        assert page.inner_text("#versus-title") == "a against c"
        assert legend.all_text_contents() == ["a", "c", SHORT]
        page.check("#all")
        assert legend.all_text_contents() == ["a", "b", "c", SHORT]
        page.select_option("#model", label="c")
        assert page.inner_text("#versus-title") == "c against a"
        assert page.inner_text(".notes li") == "short has 2 sizes; the planner needs 3."


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = ["n,error,seed,model"]
    for at, model in enumerate("abc"):
        for n in (8, 32, 128, 512):
            lines += [f"{n},{(0.1 + at) * n**-0.5 * s!r},{s},{model}" for s in (1.0, 1.01)]
    lines += ["8,0.1,1,short", "32,0.05,1,short"]
    file = tmp_path_factory.mktemp("many") / "many.csv"
    file.write_text("\n".join(lines) + "\n")
    assert korisk("plan", file, "--html", file.with_suffix(".html")) == 0
    return file.with_suffix(".html")
