"""Pages in a real browser: what they show, what they compute, and that they leave nobody out."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import chromium, fresh_page, shown_facts, slide
from commands import korisk
from made_studies import content, made_study
from PIL import Image

import korisk as kr
from korisk.curves.curve import Curve
from korisk.planning.compare import compare
from korisk.planning.fit import calibrate
from korisk.planning.words import two_factors
from korisk.report.contents import read_contents, relative_error

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

Captured = pytest.CaptureFixture[str]
NASTY = "<img src=x onerror=alert(1)>"
SCREEN = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
A4 = {"width": 718, "height": 1046}  # CSS pixels between margins of a centimetre
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")
LEAST_TYPE = 9  # CSS pixels


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def few_stops() -> Iterator[None]:
    """Answers to many targets take seconds; test_planner_js asks all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korisk.planning.targets.STOPS", 20)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = content([{"side": 8}, {"side": 16, "name": NASTY}], name=f"made up {NASTY}")
    folder = made_study(tmp_path_factory.mktemp("study"), said, missing=1, failed=1)
    assert korisk("report", folder, "--only", "page") == 0
    return folder


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of a pilot, with a model of a nasty name, and its page beside it."""
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
def opened(browser: "Browser", file: Path, state: str = "", **settings: Any) -> "Iterator[Page]":
    """A page that may neither ask anyone for anything nor complain."""
    with fresh_page(browser, **settings) as page:
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: complaints.append(request.url[:100]))
        page.goto(file.as_uri() + state)
        yield page
        asked = [each for each in complaints if not each.startswith(("data:", file.as_uri()))]
        assert not asked


def stop(page: "Page", share: float) -> None:
    slide(page, round(share * int(page.get_attribute("#slider", "max") or 0)))


def number(item: "Locator", name: str) -> float:
    return float(item.get_attribute(name) or "nan")


def test_answer_slider_and_chart_are_one_screen_and_move_together(
    browser: "Browser", study: Path
) -> None:
    file = study / "report.html"
    with opened(browser, file, viewport=SCREEN) as page:
        for name in ("#headline", "#odds", "#slider", "#sure", "#plot", "#odds-plot", "#found"):
            box = page.locator(name).bounding_box()
            assert box is not None
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= SCREEN["height"], name
        seen = set()
        for share in (0.5, 0.7, 0.9):
            stop(page, share)
            target = page.input_value("#target")
            line, mark = (
                page.locator("#target-line"),
                page.locator("#plot .samples[data-model='0']"),
            )
            samples = page.get_attribute("#headline", "data-value")
            if samples:
                assert mark.get_attribute("data-n") == samples
                bar = page.locator(".interval[data-model='0']")
                assert number(bar, "x1") <= number(mark, "x1") <= number(bar, "x2")
            else:
                assert mark.count() == 0
            seen.add((target, number(line, "y1"), samples))
        assert [len(set(column)) for column in zip(*seen, strict=True)] == [3, 3, 3]
        # A link opens the same answer; a reload stays where it is.
        page.select_option("#model", label="FC")
        said = page.inner_text("#found")
        page.wait_for_function("() => location.hash.includes('model=FC')")  # when the slider rests
        state = page.evaluate("location.hash")
        page.evaluate("scrollTo(0, 700)")
        page.reload()
        assert page.inner_text("#found") == said
        page.wait_for_function("() => scrollY > 600")
    with opened(browser, file, state, viewport=SCREEN) as page:
        assert page.inner_text("#found") == said
        # What is not here is said, and so is what is no target; the answer stays.
        kept = page.inner_text("#headline")
        page.evaluate("location.hash = 'point=elsewhere&model=FC&target=1e9'")
        page.wait_for_selector("#refusal:not([hidden])")
        assert all(each in page.inner_text("#refusal") for each in ("elsewhere", "1e9"))
        assert page.inner_text("#headline") == kept
        for text in ("", "x", "0x10", "5%", "-1", "0", "1e999", "30"):
            page.fill("#target", text)
            page.wait_for_selector("#target[aria-invalid=true]")
            assert page.is_visible("#refusal")
            assert page.inner_text("#headline") == kept
        page.fill("#target", "0.0040123")
        page.wait_for_selector("#target[aria-invalid=false]")
        assert not page.is_visible("#refusal")
        assert re.search(r"between the answers to [\d.]+ and [\d.]+", page.inner_text("#about"))
        assert page.locator("#reasons li").count()


def test_the_study_page_says_what_was_run_and_a_row_opens_its_point(
    browser: "Browser", study: Path
) -> None:
    with opened(browser, study / "report.html", viewport=SCREEN) as page:
        assert page.inner_text(".title") == page.title() == f"made up {NASTY}"
        missing, failed = page.locator("header .notes li").all_inner_texts()
        assert missing.startswith(f"{NASTY}: 1 of 3 cells are missing (seed 3)")
        assert failed == f"{NASTY}: 1 cell failed, the first: a pixel <b>fell</b> out"
        assert page.locator("img[src=x]").count() == 0
        rows = page.locator("#every tbody tr")
        names = [NASTY, "rigorous-8"]
        assert page.locator("#point option").all_inner_texts() == names
        assert rows.locator("th").all_inner_texts() == names
        heads = page.locator("#every thead th")
        column = heads.all_inner_texts().index("KO, 90% sure")
        for order in ("ascending", "descending"):
            heads.nth(column).locator("button").click()
            assert heads.nth(column).get_attribute("aria-sort") == order
            keys = [number(row.locator("td").nth(column - 1), "data-value") for row in rows.all()]
            assert keys == sorted(keys, reverse=order == "descending")
        for name in names:
            row = rows.filter(has_text=name)
            row.click()
            page.wait_for_function("(name) => point.selectedOptions[0].text === name", arg=name)
            assert page.locator("#scene option:checked").inner_text() == name  # the pictures, too
            assert row.locator("td").first.inner_text() == page.input_value("#target")
            cells = [cell.replace(",", "") for cell in row.locator("td").all_inner_texts()]
            assert page.get_attribute("#headline", "data-value") in cells
        # The slider over N changes the pictures.
        page.select_option("#scene", label="rigorous-8")
        seen = set()
        picture = page.locator("figure[data-model=KO][data-image='1'][data-kind=image] img")
        for at, n in enumerate((0, 4, 8, 16, 32, 64, 128)):
            slide(page, at, "size")
            assert page.inner_text("#size-text") == ("none, untrained" if n == 0 else str(n))
            assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)")
            assert f"N = {n}:" in (picture.get_attribute("alt") or "")
            seen.add(picture.get_attribute("src"))
            absent = page.locator("figure[data-model=FC].absent").count()
            assert absent == (4 if n == 0 else 0)  # a dense network has no untrained state
        assert len(seen) == 7
        (point,) = (each for each in read_contents(study).points if each.name == "rigorous-8")
        pictures = point.pictures
        assert pictures is not None
        slide(page, 1, "size")
        off = 100 * relative_error(pictures.images["KO"][4][0], pictures.truth[0])
        caption = page.locator("figure[data-model=KO][data-image='0'] figcaption").first
        shown = float(caption.inner_text().removeprefix("KO: ").removesuffix("% off"))
        assert shown == pytest.approx(off, rel=0.01)
        said = page.inner_text("#frames-caption")
        assert said.endswith("Shown at 8 \N{MULTIPLICATION SIGN} 8 pixels.")
        # The keyboard alone reaches every control.
        wanted = page.evaluate(
            """() => [...document.querySelectorAll("a, button, input, select, summary, .table")]
              .filter((each) => each.checkVisibility())
              .map((each, at) => { each.dataset.place = at; return at; })"""
        )
        page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        reached = set()
        for _ in range(len(wanted) + 30):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.dataset.place"))
        assert {str(place) for place in wanted} <= reached
        page.focus("#slider")
        before = page.input_value("#target")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("(old) => target.value !== old", arg=before)
        page.focus("#plot")
        right = page.input_value("#count").replace(",", "")
        page.keyboard.press("ArrowLeft")
        assert int(page.input_value("#count").replace(",", "")) < int(right)


def test_the_comparison_and_the_error_at_a_number_are_the_commands(
    browser: "Browser", pilot: Path, capsys: Captured
) -> None:
    with opened(browser, pilot.with_suffix(".html")) as page:
        both = compare(Curve.read(pilot, model="KO"), Curve.read(pilot, model=NASTY), 0.01)
        for share in (0.3, 0.7):
            stop(page, share)
            both = compare(
                both.first.forecast.evidence,
                both.second.forecast.evidence,
                float(page.input_value("#target")),
            )
            assert page.inner_text("#ratio") == both.saving()  # with its interval at every stop
            greyed = "unlikely" in (page.get_attribute("#ratio", "class") or "")
            assert greyed == (not both.likely)
            facts = shown_facts(page, "versus-facts")
            assert facts["Crossover"] == both.crossing.explain()
            factors = both.to_dict()["two_factors"]
            expected = two_factors(None if "unknown" in factors else factors)
            assert facts["Two factors, the paper's lines"] == expected
        target = page.input_value("#target")
        capsys.readouterr()
        korisk("plan", pilot, "--model", "KO", "--at", "1000", "--target", target, "--json")
        (expected,) = json.loads(capsys.readouterr().out)["plans"][0]["at"]
        page.fill("#count", "1,000")
        page.wait_for_function("() => location.hash.includes('n=1000')")
        row = page.locator("#readout tbody tr").first.locator("td").all_inner_texts()
        assert float(row[0]) == pytest.approx(expected["value"], rel=0.01)
        band = [float(end) for end in NUMBER.findall(row[1])]
        assert band == pytest.approx([expected["lower"], expected["upper"]], rel=0.01)
        odds_there = float(NUMBER.findall(row[2])[0]) / 100
        assert odds_there == pytest.approx(expected["chances"][0], abs=0.02)
        page.fill("#count", "1.5")
        page.wait_for_selector("#count[aria-invalid=true]")
        assert page.inner_text("#count-note").startswith("Give a whole number from 4 to ")
        page.click("#more summary")
        page.fill("#cost", "5 each")
        page.wait_for_selector("#cost-note:not([hidden])")


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


def smallest_type(page: "Page") -> float:
    """The height of the smallest letters in any figure that is shown, in CSS pixels."""
    found: float = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll("svg text")]
          .filter((each) => each.checkVisibility() && each.textContent.trim())
          .map((each) => {
            const { c, d } = each.getScreenCTM();
            return parseFloat(getComputedStyle(each).fontSize) * Math.hypot(c, d);
          }))"""
    )
    return found


@pytest.mark.parametrize("page_of", ["study", "pilot"])
def test_no_barrier_is_found_and_nothing_overflows(
    browser: "Browser", study: Path, pilot: Path, page_of: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    file = study / "report.html" if page_of == "study" else pilot.with_suffix(".html")
    for theme, size in (("light", SCREEN), ("dark", PHONE)):
        with opened(browser, file, color_scheme=theme, viewport=size) as page:
            box = page.locator("#headline").bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= size["height"]
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert not overflowing(page, size["width"])
            assert smallest_type(page) >= LEAST_TYPE
            # Inside of images there is nothing to check, and it takes half a minute.
            page.evaluate(
                """() => {
                  for (const each of document.querySelectorAll("details")) each.open = true;
                  for (const each of document.querySelectorAll(".k-figure")) each.replaceChildren();
                }"""
            )
            found = Axe().run(page).response["violations"]
            assert not [(each["id"], each["nodes"][0]["html"][:200]) for each in found]


def test_on_paper_it_is_six_pages_and_no_figure_is_cut(browser: "Browser", study: Path) -> None:
    with opened(browser, study / "report.html", viewport=A4, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert not overflowing(page, A4["width"])
        for box in page.locator("main img, main svg, main figure").all():
            if box.is_visible():
                place = box.bounding_box()
                assert place is not None
                assert place["height"] <= A4["height"]
                if box.evaluate("(each) => Boolean(each.closest('figure'))"):
                    style = "getComputedStyle(each.closest('figure')).breakInside"
                    assert box.evaluate(f"(each) => {style}") == "avoid"
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) <= 6


def test_the_first_sheet_has_the_question_the_answer_and_the_record(
    browser: "Browser", pilot: Path
) -> None:
    address = "#model=KO&target=0.004"
    with opened(browser, pilot.with_suffix(".html"), address, viewport=SCREEN) as page:
        assert not page.is_visible("#question")
        page.emulate_media(media="print")
        question = "How many training samples does KO need to reach"
        assert page.inner_text("#question").startswith(question)
        assert page.inner_text("#question").endswith(" 0.004?")
        order = ("#question", "#headline", "#record", "#found", "#plot", "#promises", "#measured")
        boxes = [page.locator(name).bounding_box() for name in order]
        tops = [box["y"] for box in boxes if box is not None]
        assert (len(tops), tops) == (len(order), sorted(tops))
        for name in ("#slider", "#target", "#sure", "#cost", "nav", "#theme", "summary"):
            assert not page.locator(name).first.is_visible(), name
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 2


def test_the_theme_can_be_chosen_and_scripts_can_be_off(browser: "Browser", pilot: Path) -> None:
    with opened(browser, pilot.with_suffix(".html"), color_scheme="dark") as page:
        colour = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(colour)
        page.click("#theme")
        assert page.evaluate(colour) == "rgb(255, 255, 255)" != dark
        assert page.inner_text("#theme") == "Dark colours"
        page.wait_for_function("() => location.hash.includes('theme=light')")
        page.reload()
        assert page.evaluate(colour) == "rgb(255, 255, 255)"
    with opened(browser, pilot.with_suffix(".html"), java_script_enabled=False) as page:
        assert "sure" in page.inner_text("#headline")
        assert page.is_visible("noscript svg")
        assert "needs JavaScript" in page.inner_text("#planner")


def test_the_page_is_small_and_names_no_other_place(study: Path, pilot: Path) -> None:
    for file in (study / "report.html", pilot.with_suffix(".html")):
        text = file.read_text()
        assert len(text.encode()) <= 5_000_000
        assert NASTY not in text  # escaped everywhere
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        addresses = set(re.findall(r"https?://[\w./-]+", text))
        assert all(each.startswith("http://www.w3.org/") for each in addresses)  # names of SVG


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
        first = float(page.input_value("#target"))
        stop(page, 0.8)
        target = page.input_value("#target")
        assert float(target) > first  # harder is more decibels
        capsys.readouterr()
        korisk("plan", file, "--unit", "psnr", "--target", target, "--json")
        (found,) = json.loads(capsys.readouterr().out)["plans"]
        assert page.get_attribute("#headline", "data-value") == str(found["samples"]["0.9"] or "")
        means = page.locator("#measured tbody td:last-child").all_inner_texts()
        expected = [20.2 + 4 * n**0.2 for n in (10, 40, 160, 640)]
        assert [float(mean) for mean in means] == pytest.approx(expected, abs=0.02)
        assert page.locator("#measured tbody td:nth-child(3)").all_inner_texts() == ["3"] * 4
        drawn = page.locator("#plot .mean")
        assert [number(each, "data-mean") for each in drawn.all()] == pytest.approx(
            [float(mean) for mean in means], abs=0.02
        )
        ups = [each.bounding_box() for each in drawn.all()]
        heights = [box["y"] for box in ups if box is not None]
        assert heights == sorted(heights, reverse=True)  # more decibels are higher


def points_of(path: "Locator") -> list[tuple[float, float]]:
    text = path.get_attribute("d") or ""
    return [tuple(map(float, each.split())) for each in text.strip("M").split("L")]  # type: ignore[misc]


def test_the_chart_shows_bands_lines_and_what_is_extrapolated(
    browser: "Browser", pilot: Path
) -> None:
    with opened(browser, pilot.with_suffix(".html"), viewport=SCREEN) as page:
        samples = page.get_attribute("#headline", "data-value")
        other = page.get_attribute("#versus", "data-value")
        marks = page.locator("#plot .samples")
        assert [each.get_attribute("data-n") for each in marks.all()] == [samples, other]
        labels = page.locator("#plot .label").all_text_contents()
        for n, label in zip((samples, other), labels, strict=True):
            assert f"N = {int(n or 0):,} (90% sure)" in label
        for kind, count in (("band", 2), ("hatch", 2), ("error-bar", 12), ("axis-title", 1)):
            assert page.locator(f"#plot .{kind}").count() == count, kind
        words = page.locator("#plot, #odds-plot").all_text_contents()
        assert all("training samples N" in each for each in words)
        assert "standard error" in page.inner_text("#legend")
        assert "KO: known operator" in page.inner_text("#legend")
        dashes = "(each) => getComputedStyle(each).strokeDasharray"
        solid = page.locator("#plot .curve:not(.extrapolated)").first.evaluate(dashes)
        assert (solid, page.locator("#plot .extrapolated").first.evaluate(dashes) != "none") == (
            "none",
            True,
        )
        for at in (0, 1):
            dashed = page.locator(f"#plot .extrapolated[data-model='{at}']")
            solid = page.locator(f"#plot .curve:not(.extrapolated)[data-model='{at}']")
            end = max(x for x, _ in points_of(solid))
            assert min(x for x, _ in points_of(dashed)) == end  # at the pilot's last N
            means = page.locator("#plot .mean").all()[6 * at : 6 * at + 6]
            box = means[-1].bounding_box()
            plot = page.locator("#plot").bounding_box()
            assert box is not None
            assert plot is not None
            assert box["x"] + box["width"] / 2 - plot["x"] == pytest.approx(end, abs=1)
        # What stands under the pointer is read off the curve, with its band and its chance.
        page.locator("#plot").hover(position={"x": 500, "y": 200})
        page.wait_for_function("(old) => count.value !== old", arg=f"{int(samples or 0):,}")
        cells = page.locator("#readout tbody td").all_inner_texts()
        assert len(cells) == 6
        assert all("%" in each for each in cells[2::3])
        page.check("#lines")
        line = points_of(page.locator("#plot .paper").first)
        # Pixels to errors: by two means whose places are known.
        curve = Curve.read(pilot, model="KO")
        line_at = dict(line)
        along = points_of(page.locator("#plot .curve:not(.extrapolated)[data-model='0']"))
        ends = (along[0], along[-1])
        logs = np.log([float(curve.means[0]), float(curve.means[-1])])
        slope = (logs[1] - logs[0]) / (ends[1][1] - ends[0][1])
        fitted = calibrate(curve)
        for place, size in ((0, 4), (-1, 128)):
            drawn = logs[0] + slope * (line_at[ends[place][0]] - ends[0][1])
            assert drawn == pytest.approx(np.log(fitted.predict(size)), abs=0.02)


def test_every_choice_changes_what_is_shown(browser: "Browser", tmp_path: Path) -> None:
    lines = ["n,error,seed,model"]
    for at, model in enumerate("abc"):
        for n in (8, 32, 128, 512):
            lines += [f"{n},{(0.1 + at) * n**-0.5 * s!r},{s},{model}" for s in (1.0, 1.01)]
    lines += ["8,0.1,1,short", "32,0.05,1,short"]
    file = tmp_path / "many.csv"
    file.write_text("\n".join(lines) + "\n")
    assert korisk("plan", file, "--html", file.with_suffix(".html")) == 0
    with opened(browser, file.with_suffix(".html")) as page:
        assert page.locator("#other option").all_inner_texts() == ["b", "c"]
        legend = page.locator("#readout tbody th")

        def named() -> list[str]:
            return [text.split()[-1] for text in legend.all_text_contents()]

        assert named() == ["a", "b", "short"]
        page.select_option("#other", label="c")
        assert page.locator("#versus-title").text_content() == "a against c"
        assert named() == ["a", "c", "short"]
        page.check("#all")
        assert named() == ["a", "b", "c", "short"]
        page.select_option("#model", label="c")
        assert page.locator("#versus-title").text_content() == "c against a"
        assert page.inner_text(".notes li") == "short has 2 sizes; the planner needs 3."


def test_firefox_draws_the_answer_that_a_link_asks_for(pilot: Path, tmp_path: Path) -> None:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("neither firefox-esr nor firefox is installed")

    def shot(name: str, target: float) -> np.ndarray[Any, Any]:
        file = tmp_path / f"{name}.png"
        profile = tmp_path / f"profile-{name}"
        profile.mkdir()
        address = f"{pilot.with_suffix('.html').as_uri()}#model=KO&target={target}"
        asked = ("--headless", "--no-remote", "--profile", str(profile), "--window-size=1440,900")
        command = [program, *asked, "--screenshot", str(file), address]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
        return np.asarray(Image.open(file).convert("L")).astype(int)

    first, again, other = shot("first", 0.0025), shot("again", 0.0025), shot("other", 0.004)
    assert np.array_equal(first, again)
    assert (first[:900, 720:] != other[:900, 720:]).any()  # the chart stands on the right
    assert (first[:900, :720] != other[:900, :720]).any()  # and the answer on the left


def test_the_advice_comes_first_for_keyboard_and_screen_reader(
    browser: "Browser", study: Path
) -> None:
    with opened(browser, study / "report.html", viewport=SCREEN) as page:
        first = "document.querySelector('section, header, main, nav, [role=region]').id"
        assert page.evaluate(first) == "advice"
        assert page.evaluate("document.querySelector('h1, h2, h3').id") == "headline"
        assert page.get_attribute("#headline", "aria-live") == "polite"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "advice"
        # It is not read out while a slider moves, but when it rests.
        slide(page, 3)
        assert page.get_attribute("#advice", "aria-busy") == "true"
        page.wait_for_selector("#advice:not([aria-busy])")


def test_the_level_is_a_slider(browser: "Browser", pilot: Path) -> None:
    curve = Curve.read(pilot, model="KO")
    with opened(browser, pilot.with_suffix(".html"), "#model=KO", viewport=SCREEN) as page:
        plan = kr.plan(curve, float(page.input_value("#target")))
        page.focus("#sure")
        seen = set()
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "End"):
            page.keyboard.press(key)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
            said = page.get_attribute("#sure", "aria-valuetext") or ""
            sure = float(said.removesuffix("% sure")) / 100
            seen.add(sure)
            assert page.get_attribute("#headline", "data-value") == str(plan.samples(sure) or "")
            assert page.inner_text("#sure-text") == said
        assert seen == {0.5, 0.55, 0.6, 0.65, 0.99}
        page.wait_for_function("() => location.hash.includes('sure=0.99')")
        page.reload()
        assert page.inner_text("#sure-text") == "99% sure"
        # The curve of chance is the plan's, where the chart shows it.
        path = points_of(page.locator("#odds-plot .odds[data-model='0']"))
        lowest, highest = (y for _, y in (path[0], path[-1]))
        assert lowest >= highest
        assert all(a[1] >= b[1] - 0.11 for a, b in pairwise(path))


def test_model_target_and_level_stay_when_the_point_changes(
    browser: "Browser", study: Path
) -> None:
    with opened(browser, study / "report.html", "#point=rigorous-8&model=FC&sure=0.8") as page:
        page.fill("#target", "0.004")
        page.select_option("#point", label=NASTY)
        assert page.locator("#model option:checked").inner_text() == "FC"
        assert (page.input_value("#target"), page.inner_text("#sure-text")) == ("0.004", "80% sure")
        assert not page.is_visible("#refusal")
        hard = page.evaluate("koriskTable && document.querySelector('#hard').textContent")
        page.fill("#target", hard.removeprefix("harder: "))
        page.wait_for_selector("#target[aria-invalid=false]")
        page.select_option("#point", label="rigorous-8")
        target = page.input_value("#target")
        if target != hard.removeprefix("harder: "):  # the other point does not answer it
            assert f"Here is {float(target):.4g}" in page.inner_text("#refusal")


def test_a_comparison_opens_on_the_ratio_and_the_crossing(
    browser: "Browser", pilot: Path, tmp_path: Path
) -> None:
    html = tmp_path / "compare.html"
    korisk("compare", pilot, "--target", 0.01, "--html", html)
    ko, other = (Curve.read(pilot, model=model) for model in ("KO", NASTY))
    with opened(browser, html, viewport=SCREEN) as page:
        for share in (0.2, 0.5, 0.9):
            stop(page, share)
            both = compare(ko, other, float(page.input_value("#target")))
            assert page.inner_text("#headline") == both.saving()
            assert page.inner_text("#odds") == both.crossing.explain()
            grey = "unlikely" in (page.get_attribute("#headline", "class") or "")
            assert grey == (not both.likely)
        assert page.locator("#bars p").count() == 2
