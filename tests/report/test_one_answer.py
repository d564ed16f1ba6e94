"""One answer: terminal, JSON, page, notebook and figure have the same sentences and numbers.

Every sentence of a plan or comparison stands in every view, and a number that one view shows is
shown by the others, so that none lacks or contradicts what another says.
"""

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from artists import written
from browser import chromium, fresh_page, slide
from commands import outputs
from matplotlib.figure import Figure

import korisk as kr
from korisk.planning import words
from korisk.planning.plan import Forecast, Plan, has_numbers, sample_cells
from korisk.planning.recommend import LEVELS, Recommendation
from korisk.prediction.misfit import BELIEF
from korisk.prediction.study import PointPrediction
from korisk.report import comparison_figure, plan_figure
from korisk.report.figures.style import plain
from korisk.store.usage import Usage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
H8 = ROOT / "examples" / "pilot_h8.csv"
H128 = ROOT / "examples" / "pilot_h128.csv"
DOUBLING = np.array([8, 16, 32, 64, 128, 256, 512])
UNITS = ("error", "rmse", "psnr", "accuracy", "percent")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?%?")


class Asked(NamedTuple):
    """A question to `korisk plan`."""

    file: Path
    curve: kr.Curve
    target: float
    action: str
    options: tuple[object, ...]
    details: dict[str, Any]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.fixture(autouse=True)
def few_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to more targets take seconds."""
    monkeypatch.setattr("korisk.planning.targets.STOPS", 6)
    monkeypatch.setattr("korisk.planning.targets._ROUND", (1, 3))


def one_line(text: str) -> str:
    return " ".join(text.split())


def seeded(means: "np.ndarray[Any, Any]", noise: float = 0.01, **names: str) -> kr.Curve:
    deviations = np.random.default_rng(3).standard_normal((3, len(DOUBLING)))
    error = (means * np.exp(noise * deviations)).ravel()
    return kr.Curve.of_errors(np.tile(DOUBLING, 3), error, np.repeat([1, 2, 3], 7), **names)


def saved(curve: kr.Curve, file: Path) -> Path:
    rows = [f"{row['n']},{row['error']!r},{row['seed']},{curve.model}" for row in curve.records()]
    file.write_text("\n".join([f"n,{curve.metric or 'error'},seed,model", *rows]) + "\n")
    return file


def example(model: str, target: float, action: str, file: Path = H8) -> Asked:
    curve = kr.Curve.read(file, model=model)
    return Asked(file, curve, target, action, ("--model", model), {})


def of_means(folder: Path, means: Any, target: float, action: str, unit: str = "error") -> Asked:
    made = seeded(np.asarray(means), model="net", metric="score", unit=unit)
    file = saved(made, folder / "pilot.csv")
    return Asked(file, kr.Curve.read(file, unit=unit), target, action, ("--unit", unit), {})


def longer(folder: Path) -> Asked:
    """A pilot whose training limits the error."""

    def fit(n: int, seed: int, longer: float = 1.0) -> dict[str, float]:
        return {"mse": (0.09 / longer + 0.05 * n**-0.5) * (1 + 0.01 * seed), "steps": 9 * longer}

    store = folder / "store"
    pilot = kr.run_pilot(fit, [16, 64, 256], 3, longer=3.0, store=store, quiet=True)
    details = {"training": pilot.training, "longer": pilot.longer}
    return Asked(store, pilot.curve, 0.05, "train", (), details)


def with_related(folder: Path) -> Asked:
    """A pilot of four sizes, with a simulated curve of the same shape."""
    alone = of_means(folder, 0.07 * DOUBLING**-0.5 + 0.0014, 0.003, "collect")
    shape = seeded(0.05 * DOUBLING**-0.5 + 0.001, 0.003, model="net")
    file = saved(shape, folder / "simulated.csv")
    related = [kr.Curve.read(file).renamed("net of simulated.csv")]
    options = (*alone.options, "--related", file)
    return alone._replace(options=options, details={"related": related}, action="")


CASES: dict[str, Callable[[Path], Asked]] = {
    "collect": lambda _: example("FC", 0.003, "collect"),
    "inside": lambda _: example("KO", 0.003, "collect"),
    "already": lambda _: example("KO", 0.01, "collect"),
    "repeat": lambda _: example("KO", 0.00235, "measure"),
    "measure": lambda _: example("FC", 0.0015, "measure"),
    "unlikely": lambda _: example("KO", 0.0004, "unlikely"),
    "without seeds": lambda _: example("KO", 0.03, "", H128),
    "train": longer,
    "related": with_related,
    "stop": lambda folder: of_means(folder, 0.05 + 1 / DOUBLING, 0.03, "stop"),
    "step": lambda folder: of_means(folder, [1, 1, 1, 0.01, 0.009, 0.008, 0.007], 0.003, "unknown"),
    "flat": lambda folder: of_means(folder, [0.5] * 7, 0.4, "unknown"),
    "psnr": lambda folder: of_means(folder, 0.02 * DOUBLING**-0.5, 32.0, "collect", "psnr"),
    "accuracy": lambda folder: of_means(folder, DOUBLING**-0.4, 0.95, "collect", "accuracy"),
}


def sentences(plan: Plan, advice: Recommendation) -> list[str]:
    """All that a view says of a plan."""
    every = [advice.sentence, advice.odds, advice.record, *advice.reasons, plan.about_related]
    return [str(text) for text in (*every, *plan.forecast.notes, *plan.findings) if text]


def numbers(text: str) -> set[str]:
    """The numbers in a text; those inside names do not count."""
    return {number.rstrip(",") for number in NUMBER.findall(text)}


def text_of(page: "Page", *names: str) -> str:
    """The text of elements; cells and items of lists are kept apart."""
    script = "(all) => all.map((one) => one.textContent)"
    places = (f"#{name} :is(p, h1, li, th, td), #{name}" for name in names)
    texts = (page.eval_on_selector_all(place, script) for place in places)
    return one_line(" ".join(text for group in texts for text in group[1:] or group))


def cells_of(page: "Page") -> list[list[str]]:
    """The rows of the table at the target that is asked about, without the names of models."""
    rows = page.locator("#samples tbody tr.asked").all()
    return [row.locator("td.number").all_text_contents() for row in rows]


def drawn_text(figure: Figure) -> str:
    """The words of a figure, whose notes come from the lowest line to the highest."""
    return one_line(" ".join(reversed(written(figure).splitlines())))


def notebook(item: Any) -> str:
    """The text of a notebook's output, without its figure."""
    html = re.sub(r"<(style|svg).*?</\1>", " ", item._repr_html_(), flags=re.DOTALL)
    return one_line(unescape(re.sub(r"<[^>]*>", " ", html)))


def check_page(page: "Page", plan: Plan, sure: float) -> None:
    """Sentences and numbers of a page are those of the plan, and it has no others."""
    advice = plan.recommend(sure)
    headline = page.text_content("#headline")
    assert f"{headline} {page.text_content('#next')}" == advice.sentence
    assert text_of(page, "odds").startswith(advice.odds)
    assert text_of(page, "record") == advice.record
    reasons = [*advice.reasons, plan.about_related, *plan.forecast.notes, *plan.findings]
    shown = page.locator("#reasons li").all_text_contents()
    assert shown == [str(reason) for reason in dict.fromkeys(reasons) if reason]
    assert cells_of(page) == [sample_cells(plan, LEVELS)]
    assert page.get_attribute("#headline", "data-n") == str(plan.samples(sure) or "")
    quantity = words.quantity(plan.forecast.metric, plan.forecast.unit.noun)
    goal = f"{quantity} {words.value(plan.target)}"
    assert page.text_content("#question") == words.question(
        "model", model=plan.forecast.model
    ).format(goal=goal)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_says_the_same_in_every_view(name: str, browser: "Browser", tmp_path: Path) -> None:
    asked = CASES[name](tmp_path)
    plan = kr.plan(asked.curve, asked.target, **asked.details)
    html = tmp_path / "page.html"
    for sure in (0.9, 0.95):
        advice = plan.recommend(sure)
        assert asked.action in (advice.action, "")
        code = 3 if advice.action in ("stop", "unknown") else 0
        command = ["plan", asked.file, f"--target={asked.target}", "--sure", sure, *asked.options]
        brief, full = (
            one_line(outputs(*command, *flag, code=code)[0]) for flag in ((), ("--full",))
        )
        (content,) = json.loads(outputs(*command, "--json", code=code)[0])["plans"]
        said = sentences(plan, advice)
        # In the terminal, with the table's row.
        options_named = full.replace(
            "--unit", "unit="
        )  # the terminal names the option of an argument
        assert [text for text in said if one_line(text) not in options_named] == []
        row = " ".join(sample_cells(plan, sorted({sure, *LEVELS})))
        assert (row in full) == has_numbers(plan)
        # In JSON.
        assert [x for x in said if one_line(x) not in one_line(content["explanation"])] == []
        recommended = advice.to_dict()
        assert content["recommendation"] == json.loads(json.dumps(recommended))
        for text in ("sentence", "odds", "record"):
            assert content["recommendation"][text] == getattr(advice, text)
        assert content["samples"] == {
            f"{p:g}": plan.samples(p) for p in sorted({0.5, sure, *LEVELS})
        }
        for number in ("even", "lower", "upper", "reach"):
            assert content[number] == getattr(advice, number)
        # On the page.
        if sure == 0.9:
            outputs("plan", asked.file, f"--target={asked.target}", *asked.options, "--html", html,
                    code=code)  # fmt: skip
        with fresh_page(browser) as page:
            page.goto(f"{html.as_uri()}#target={asked.target}&sure={sure}")
            check_page(page, plan, sure)
            answer = text_of(page, "headline", "next", "odds", "record", "reasons")
            if has_numbers(plan):  # the terminal has no row of dashes
                heads = page.locator("#samples thead th").all_text_contents()
                answer = " ".join([answer, *heads, *cells_of(page)[0]])
        # No number that only one of them has.
        start = " ".join(advice.sentence.split()[:3])
        printed = numbers(full.replace(words.LEGEND, "").partition(start)[2])
        assert numbers(answer) - printed - numbers(advice.sentence) == set()
        left_out = set() if sure == 0.9 else numbers(" ".join(advice.reasons))  # of the page
        assert printed - numbers(answer) - numbers(str(asked.file)) - left_out == set()
        if sure == 0.9:
            shown = notebook(plan)
            assert [text for text in said if plain(text) not in shown] == []
            brief = re.sub(r"\(\d+ more with --full\)", "", brief.replace(words.LEGEND, ""))
            default = numbers(brief.partition(start)[2])
            assert default <= numbers(shown)
            assert numbers(shown) - printed - numbers(advice.sentence) == set()
            drawn = drawn_text(plan_figure(plan))
            for text in (advice.sentence, advice.odds, advice.record):
                assert one_line(plain(text)) in drawn


MADE = kr.Rehearsal(
    curve=kr.Curve(
        [16, 64, 256, 1024] * 2,
        [0.00228, 0.00142, 0.00101, 0.00092, 0.00232, 0.00139, 0.00103, 0.00091],
        [0] * 4 + [1] * 4,
        "net",
        "mse",
    ),
    simulated="inputs of A (noise: 0.05) from 64 example images",
    unaltered=36,
    level=0.05,
    parameters=4153,
    belief=BELIEF,
    notes=("A note.",),
)
PILOT = kr.Curve([16, 32, 64] * 2, [0.0023, 0.0018, 0.0014, 0.0024, 0.0018, 0.00145], [0, 1] * 3)


@pytest.mark.parametrize("target", [0.003, 0.0011, 0.0001])
@pytest.mark.parametrize("pilot", [None, PILOT], ids=["alone", "with a pilot"])
def test_a_rehearsal_says_the_same_in_every_view(
    pilot: kr.Curve | None,
    target: float,
    browser: "Browser",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command is given the rehearsal, which it would train for a minute."""
    view: Forecast = MADE.forecast(pilot)
    point = PointPrediction(
        name="tiny",
        spec={"models": {}, "problem": {}},
        rehearsals=(MADE,),
        forecasts=(view,),
        notes=(),
        usage=Usage(started="", seconds=1.0),
    )
    monkeypatch.setattr("korisk.prediction.study.rehearse_study", lambda *_, **__: [point])
    plan, html, study = view.plan(target), tmp_path / "page.html", tmp_path / "tiny.yaml"
    study.write_text("name: tiny\nproblem: {beam: surrogate}\npoints: [{side: 8}]\n")
    for sure in (0.9, 0.8):
        advice = plan.recommend(sure)
        command = "rehearse", study, "--target", target, "--sure", sure
        code = 0 if advice.helps else 3
        printed = one_line(outputs(*command, code=code)[0])
        said = sentences(plan, advice)
        assert [text for text in said if one_line(text) not in printed] == []
        if has_numbers(plan):
            assert " ".join(sample_cells(plan, (sure,))) in printed
        (point_json,) = json.loads(outputs(*command, "--json", code=code)[0])["points"]
        (content,) = point_json["models"][0]["samples"]
        assert content == json.loads(json.dumps(plan.to_dict(sure), default=str))
        assert [x for x in said if one_line(x) not in one_line(content["explanation"])] == []
        if sure == 0.9:
            plan.to_html(html)
            shown = notebook(plan)
            assert [text for text in said if plain(text) not in shown] == []
        with fresh_page(browser) as page:
            page.goto(f"{html.as_uri()}#target={target}&sure={sure}")
            check_page(page, plan, sure)


@pytest.mark.parametrize("unit", UNITS)
def test_one_answer_at_every_stop_of_the_slider_in_every_unit(
    unit: str, browser: "Browser", tmp_path: Path
) -> None:
    """A law over random pilots."""
    rng = np.random.default_rng(UNITS.index(unit))
    scale = {"percent": 40.0, "accuracy": 0.4}.get(unit, 0.05)
    means = scale * (rng.uniform(0, 0.2) + (DOUBLING / 8.0) ** -rng.uniform(0.3, 0.9)) / 1.3
    made = seeded(means, rng.uniform(0.01, 0.08), model="net", unit=unit)
    html, actions = tmp_path / "page.html", set()
    made.to_html(html)
    with fresh_page(browser) as page:
        page.goto(html.as_uri())
        for position in range(0, int(page.get_attribute("#slider", "max") or 0) + 1, 4):
            slide(page, position)
            plan = kr.plan(made, float(page.input_value("#target")))
            check_page(page, plan, 0.9)
            actions.add(plan.recommend().action)
    assert "collect" in actions


FAR = [0.9, 0.5, 0.28, 0.16, 0.09, 0.05, 0.03]
NEVER = [0.5, 0.31, 0.3, 0.3, 0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    ("second", "target"),
    [(None, 0.003), (None, 0.0022), (FAR, 0.05), (FAR, 0.0019), (NEVER, 0.05)],
    ids=["examples", "harder", "met at once", "met by neither at once", "never"],
)
def test_a_comparison_says_the_same_in_every_view(
    second: list[float] | None, target: float, browser: "Browser", tmp_path: Path
) -> None:
    file, html = H8, tmp_path / "page.html"
    if second:
        file = saved(seeded(0.002 - 1e-5 * np.arange(7), model="KO"), tmp_path / "pilot.csv")
        rows = saved(seeded(np.array(second), model="FC"), tmp_path / "other.csv").read_text()
        file.write_text(file.read_text() + rows.partition("\n")[2])
    first, other = kr.Curve.read_all(file)
    both = kr.compare(first, other, target)
    actions = {plan.recommend().action for plan in (both.first, both.second)}
    code = 3 if actions & {"stop", "unknown"} else 0
    command = "compare", file, "--target", target
    full = one_line(outputs(*command, "--full", "--html", html, code=code)[0])
    content = json.loads(outputs(*command, "--json", code=code)[0])
    plans = dict(zip(both.names, (both.first, both.second), strict=True))
    shared = [both.saving(), both.record, both.crossing.explanation]
    of_models = [
        text.removeprefix(f"{name}: ")
        for name, plan in plans.items()
        for text in (*words.parts(plan.recommend().sentence), plan.recommend().odds, *plan.findings)
    ]
    said = [x for x in shared + both.steps()[:1] + of_models if x and not x.startswith(words.NEXT)]
    with fresh_page(browser) as page:
        page.goto(f"{html.as_uri()}#target={target}")
        assert page.text_content("#headline") == both.saving()
        assert page.text_content("#next") == both.steps()[0]
        assert text_of(page, "record") == both.record
        names = "advice", "reasons", "samples"
        views = {"terminal": full, "page": text_of(page, *names), "notebook": notebook(both)}
        assert cells_of(page) == [sample_cells(plan, LEVELS) for plan in plans.values()]
    views["json"] = content["explanation"]
    for view, text in views.items():
        assert [x for x in said if one_line(x) not in one_line(text)] == [], view
    for plan in plans.values():
        assert " ".join(sample_cells(plan, LEVELS)) in full
    ratio_range = content["ratio_range"] and [end or np.inf for end in content["ratio_range"]]
    assert content["ratio"] == both.ratio
    assert content["saving"] == both.saving()
    assert ratio_range == (both.ratio_range and [end or np.inf for end in both.ratio_range])
    drawn = drawn_text(comparison_figure(both))
    notes = [both.saving(), both.record, both.crossover.explain() if both.crossover else ""]
    assert [text for text in notes if text not in drawn] == []
