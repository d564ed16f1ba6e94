"""Pages in a real browser: every kind fits every screen and one sheet, and answers as Python."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium, fresh_page, slide
from commands import korisk
from made_studies import content, made_study
from pages_of_answers import ablated, rehearsed

import korisk as kr
from korisk.curves.curve import Curve
from korisk.paper.reproduction import NAME
from korisk.planning import words
from korisk.planning.compare import compare
from korisk.report.contents import read_contents

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

Captured = pytest.CaptureFixture[str]
NASTY = "<img src=x onerror=alert(1)>"
SCREENS = [{"width": width, "height": height} for width, height in
           ((390, 844), (820, 1180), (1440, 900))]  # fmt: skip
PHONE, _, SCREEN = SCREENS
A4 = {"width": 703, "height": 1032}  # CSS pixels between margins of 12 mm
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")
LEAST_TYPE = 9  # CSS pixels
KINDS = ("plan", "compare", "rehearse", "with pilot", "ablate", "study", "reproduce")
# Every target that the slider may put into its box is read whole; both ends of it stay in the page.
LONGEST_TARGETS_FIT = """() => {
  const { groups } = JSON.parse(document.getElementById("data").textContent);
  const [box, hard, legend] = ["target", "hard", "legend"].map((id) => document.getElementById(id));
  const before = box.value;
  const fits = groups.flatMap(({ texts }) => texts || []).every((text) => {
    box.value = text;
    return box.scrollWidth <= box.clientWidth;
  });
  box.value = before;
  return fits && hard.getBoundingClientRect().right <= legend.getBoundingClientRect().right + 1;
}"""
MISSING = re.compile(r"NaN|undefined|null|Infinity|\[object|\bnan\b|\binf\b|None\b")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def few_stops() -> Iterator[None]:
    """Answers to many targets take seconds; test_one_answer asks all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korisk.planning.targets.STOPS", 12)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = content([{"side": 8}, {"side": 16, "name": NASTY}], name=f"made up {NASTY}")
    folder = made_study(tmp_path_factory.mktemp("study"), said, missing=1, failed=1)
    assert korisk("report", folder, "--only", "page") == 0
    return folder / "report.html"


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


@pytest.fixture(scope="module")
def pages(pilot: Path, study: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind of answer."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {kind: folder / f"{kind}.html" for kind in KINDS}
    assert korisk("plan", pilot, "--model", "KO", "--target", 0.0025, "--html", pages["plan"]) == 0
    assert korisk("compare", pilot, "--target", 0.01, "--html", pages["compare"]) == 0
    rehearsed().forecast().plan(0.0011).to_html(pages["rehearse"])
    measured = kr.Curve(
        [16, 32, 64] * 2, [0.0023, 0.0018, 0.0014, 0.0024, 0.0018, 0.00145], [0, 1] * 3
    )
    rehearsed().forecast(measured).plan(0.0011).to_html(pages["with pilot"])
    ablated(0.003).to_html(pages["ablate"])
    again = content([{"side": 8}, {"side": 16}], name=NAME)
    made_study(folder / "paper", again)
    assert korisk("report", folder / "paper", "--only", "page") == 0
    return pages | {"study": study, "reproduce": folder / "paper" / "report.html"}


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


def top(page: "Page", name: str) -> float:
    box = page.locator(name).first.bounding_box()
    assert box is not None, name
    return box["y"]


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


def check_words(page: "Page") -> None:
    """Every number of the answer is there: no place of one is empty, and none is undefined."""
    text = page.inner_text("main")
    assert not MISSING.search(text), MISSING.search(text)
    assert re.search(r"\d", page.inner_text("#headline"))
    for place in ("#question", "#next", "#reasons", "#legend", "#readout td", "#samples td"):
        for item in page.locator(place).all():
            assert (item.text_content() or "").strip(), place


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_fits_every_screen_in_both_themes(
    browser: "Browser", pages: dict[str, Path], kind: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    papers = set()
    for size, theme in product(SCREENS, ("light", "dark")):
        with opened(browser, pages[kind], color_scheme=theme, viewport=size) as page:
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            first = page.locator(".answer").first.bounding_box()
            assert first is not None
            assert first["y"] + first["height"] <= size["height"]
            check_words(page)
            page.evaluate(
                "for (const each of document.querySelectorAll('details')) each.open = true"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert not overflowing(page, size["width"])
            assert page.evaluate(LONGEST_TARGETS_FIT)
            assert smallest_type(page) >= LEAST_TYPE
            # The order is that of the questions: what, how sure, why, what to check, how.
            places = ("#question", "#headline", "#next", "#plot", "#numbers", "#method")
            heights = [top(page, place) for place in places]
            assert heights == sorted(heights)
            if (size, theme) in ((SCREEN, "light"), (PHONE, "dark")):
                # Inside of figures there is nothing to check, and it takes half a minute.
                every = "[...document.querySelectorAll('.k-figure')]"
                page.evaluate(f"{every}.forEach((figure) => figure.replaceChildren())")
                found = Axe().run(page).response["violations"]
                assert not [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
    assert len(papers) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_on_paper_it_is_one_sheet(browser: "Browser", pages: dict[str, Path], kind: str) -> None:
    for size in (SCREEN, PHONE):
        with opened(browser, pages[kind], viewport=size, color_scheme="dark") as page:
            sheets = page.pdf(format="A4", prefer_css_page_size=True)
            assert len(re.findall(rb"/Type\s*/Page\b", sheets)) == 1
    with opened(browser, pages[kind], viewport=A4, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert not overflowing(page, A4["width"])
        for name in ("#slider", "#target", "#sure", "#readout", "details"):
            assert not page.locator(name).first.is_visible(), name
        # Two models have room for the targets next to the one asked for; their reasons are long.
        assert page.locator("#samples tbody tr:visible").count() <= 6
        order = ["#question", "#headline", "#next", "#plot", "#assumes", "#numbers"]
        if kind == "reproduce":  # the paper's tables take the place of the figure
            order = [".question", "#opening h1", "#opening table", "#headline", "#numbers"]
        heights = [top(page, name) for name in order]
        assert heights == sorted(heights)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"


def test_the_reproduction_opens_with_the_verdicts_of_the_terminal(
    browser: "Browser", pages: dict[str, Path]
) -> None:
    from korisk.paper.supplement import opening

    question, sentences, _ = opening(read_contents(pages["reproduce"].parent))
    assert "Table 3" in sentences[0]
    with opened(browser, pages["reproduce"], viewport=SCREEN) as page:
        assert page.locator("h1").all_inner_texts() == [sentences[0]]
        assert page.inner_text(".question") == question
        shown = page.locator("#opening p + p, #opening h1 + p").all_inner_texts()
        assert shown == sentences[1:3]
        assert [x.split(":")[0] for x in shown] == ["Do next", "How sure"]
        assert page.locator("#verdicts li").all_text_contents() == sentences[3:]
        heads = page.locator("#opening table").first.locator("th[scope=col]").all_inner_texts()
        assert {"paper", "ours, rigorous"} <= set(heads)
        assert not page.is_visible("#figures figure")
        assert top(page, "#opening table") < top(page, "#slider")


def test_answer_slider_and_chart_are_one_screen_and_move_together(
    browser: "Browser", study: Path
) -> None:
    with opened(browser, study, viewport=SCREEN) as page:
        for name in ("#headline", "#odds", "#slider", "#sure", "#plot", "#odds-plot"):
            box = page.locator(name).bounding_box()
            assert box is not None
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= SCREEN["height"], name
        seen = set()
        for share in (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7):
            stop(page, share)
            target = page.input_value("#target")
            line, mark = (
                page.locator("#target-line"),
                page.locator("#plot .samples[data-model='0']"),
            )
            samples = page.get_attribute("#headline", "data-n")
            if samples:
                assert mark.get_attribute("data-n") == samples
                bar = page.locator(".interval[data-model='0']")
                assert number(bar, "x1") <= number(mark, "x1") <= number(bar, "x2")
            else:
                assert mark.count() == 0
            seen.add((target, number(line, "y1"), samples))
        targets, heights, numbers = (set(column) for column in zip(*seen, strict=True))
        assert len(targets) == len(heights) == 7
        assert len(numbers) >= 3
        # A link opens the same answer; a reload stays where it is.
        page.select_option("#model", label="FC")
        said = page.inner_text("#advice")
        page.wait_for_function("() => location.hash.includes('model=FC')")  # when the slider rests
        state = page.evaluate("location.hash")
        page.evaluate("scrollTo(0, 400)")
        page.reload()
        assert page.inner_text("#advice") == said
        page.wait_for_function("() => scrollY > 300")
    with opened(browser, study, state, viewport=SCREEN) as page:
        assert page.inner_text("#advice") == said
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


def test_a_target_between_two_answers_gets_that_of_the_harder_one(
    browser: "Browser", pilot: Path
) -> None:
    curve = Curve.read(pilot, model="KO")
    with opened(browser, pilot.with_suffix(".html"), "#model=KO", viewport=SCREEN) as page:
        page.fill("#target", "0.0040123")
        page.wait_for_selector("#refusal:not([hidden])")
        said = re.fullmatch(
            r"The next harder target answered here is ([\d.]+)\.", page.inner_text("#refusal")
        )
        assert said is not None
        harder = float(said[1])
        assert 0.9 * 0.0040123 < harder < 0.0040123
        sentence = kr.plan(curve, harder).recommend().sentence
        assert (page.inner_text("#headline"), page.inner_text("#next")) == words.parts(sentence)


def test_the_study_page_says_what_was_run_and_a_row_opens_its_point(
    browser: "Browser", study: Path
) -> None:
    with opened(browser, study, viewport=SCREEN) as page:
        assert page.inner_text("header p >> nth=0") == page.title() == f"made up {NASTY}"
        missing, failed = page.locator("div.note li").all_inner_texts()
        assert missing.startswith(f"{NASTY}: 1 of 3 cells are missing (seed 3)")
        assert failed == f"{NASTY}: 1 cell failed, the first: a pixel <b>fell</b> out"
        assert page.locator("img[src=x]").count() == 0
        rows = page.locator("#every tbody tr")
        names = [NASTY, "rigorous-8"]
        assert page.locator("#point option").all_inner_texts() == names
        assert rows.locator("th").all_inner_texts() == names
        for name in names:
            row = rows.filter(has_text=name)
            row.click()
            page.wait_for_function("(name) => point.selectedOptions[0].text === name", arg=name)
            saving = page.inner_text("#others li:last-child").partition(" How sure")[0]
            assert saving in row.locator("td").inner_text()
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


def test_the_error_and_the_chance_at_a_number_are_the_commands(
    browser: "Browser", pilot: Path, capsys: Captured
) -> None:
    with opened(browser, pilot.with_suffix(".html"), "#model=KO") as page:
        for share, n in ((0.3, 12), (0.5, 100), (0.7, 1000)):
            stop(page, share)
            target = page.input_value("#target")
            capsys.readouterr()
            korisk("plan", pilot, "--model", "KO", "--at", n, "--target", target, "--json")
            (expected,) = json.loads(capsys.readouterr().out)["plans"][0]["at"]
            page.fill("#count", str(n))
            page.wait_for_timeout(100)
            row = page.locator("#readout tbody tr").first.locator("td").all_inner_texts()
            assert float(row[0]) == pytest.approx(expected["value"], rel=0.01)
            band = [float(end) for end in NUMBER.findall(row[1])]
            assert band == pytest.approx([expected["lower"], expected["upper"]], rel=0.01)
            odds_there = float(NUMBER.findall(row[2])[0]) / 100
            assert odds_there == pytest.approx(expected["chances"][0], abs=0.02)


def test_without_scripts_the_answer_and_its_numbers_stand_there(
    browser: "Browser", pilot: Path
) -> None:
    with opened(browser, pilot.with_suffix(".html"), java_script_enabled=False) as page:
        assert "sure" in page.inner_text("#headline")
        assert "need JavaScript" in page.inner_text("main")
        assert page.locator("#samples tbody tr").count() == 2
        assert page.locator("#reasons li").count()


def test_the_page_is_small_and_names_no_other_place(study: Path, pilot: Path) -> None:
    for file in (study, pilot.with_suffix(".html")):
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
        assert page.get_attribute("#headline", "data-n") == str(found["samples"]["0.9"] or "")
        page.click("#measured summary")
        means = page.locator("#measured tbody td:last-child").all_inner_texts()
        expected = [20.2 + 4 * n**0.2 for n in (10, 40, 160, 640)]
        assert [float(mean) for mean in means] == pytest.approx(expected, abs=0.02)
        assert page.locator("#measured tbody td:nth-last-child(2)").all_inner_texts() == ["3"] * 4
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


def test_a_number_at_the_smallest_n_is_an_upper_bound_everywhere(
    browser: "Browser", pages: dict[str, Path]
) -> None:
    with opened(browser, pages["ablate"], viewport=SCREEN) as page:
        assert "N ≤ 16 (90% sure)" in page.locator("#plot .label").first.inner_html()
        assert "at N ≤ 16" in (page.get_attribute("#odds-plot", "aria-label") or "")
        cells = page.locator("#samples tr.asked").first.locator("td.number").all_inner_texts()
        assert cells[:6] == ["≤ 16"] * 6
        assert "at most 16 samples" in page.inner_text("#others")


def test_the_chart_shows_bands_lines_and_what_is_extrapolated(
    browser: "Browser", pilot: Path
) -> None:
    with opened(browser, pilot.with_suffix(".html"), viewport=SCREEN) as page:
        samples = page.get_attribute("#headline", "data-n")
        other = page.locator("#samples tr.asked").nth(1).locator("td").nth(2).inner_text()
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
        for meaning in ("KO: known operator", "MSE: mean squared error"):
            assert meaning in page.inner_text("#legend")
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
        page.wait_for_function("(old) => count.value !== old", arg=samples)
        cells = page.locator("#readout tbody td").all_inner_texts()
        assert len(cells) == 6
        assert all("%" in each for each in cells[2::3])


def test_every_choice_changes_what_is_shown(browser: "Browser", tmp_path: Path) -> None:
    lines = ["n,error,seed,model"]
    for at, model in enumerate("abc"):
        for n in (8, 32, 128, 512):
            lines += [f"{n},{(0.1 + at) * n**-0.5 * (1 + s / 99)!r},{s},{model}" for s in (1, 2)]
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
        assert "c" in page.inner_text("#others li:last-child")
        assert named() == ["a", "c", "short"]
        page.check("#all")
        assert named() == ["a", "b", "c", "short"]
        page.select_option("#model", label="c")
        assert page.inner_text("#headline").startswith("c: ")
        assert page.inner_text("div.note li") == "short has 2 sizes; the planner needs 3."


def test_the_advice_comes_first_for_keyboard_and_screen_reader(
    browser: "Browser", study: Path
) -> None:
    with opened(browser, study, viewport=SCREEN) as page:
        first = "document.querySelector('section, nav, [role=region]').id"
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
            assert page.get_attribute("#headline", "data-n") == str(plan.samples(sure) or "")
            assert page.inner_text("#sure-text") == said
        assert seen == {0.5, 0.8, 0.9, 0.95, 0.99}
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
    with opened(browser, study, "#point=rigorous-8&model=FC&sure=0.8") as page:
        page.fill("#target", "0.004")
        page.select_option("#point", label=NASTY)
        assert page.locator("#model option:checked").inner_text() == "FC"
        assert (page.input_value("#target"), page.inner_text("#sure-text")) == ("0.004", "80% sure")
        assert not page.is_visible("#refusal")


def test_a_comparison_opens_on_the_ratio_and_what_to_do_next(
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
            first, *others = both.steps()
            assert page.inner_text("#next") == first
            items = page.locator("#others li").all_inner_texts()
            items = [item.removeprefix("● ").removeprefix("■ ") for item in items]
            assert items == [*others, both.crossing.explanation]
            grey = "unlikely" in (page.get_attribute("#headline", "class") or "")
            assert grey == (not both.likely)
