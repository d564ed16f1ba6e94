"""What a comparison says: sentences about two plans with known numbers of samples."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import paired_correlation
from korisk.errors import UnreachableError
from korisk.planning.chances import Chances

SIZES = [16, 32, 64, 128, 256]
MEANS = np.array([0.2, 0.1, 0.05, 0.025, 0.0125])


@pytest.fixture(scope="module")
def pair() -> kr.Comparison:
    known, dense = kr.Curve(SIZES, MEANS, model="KO"), kr.Curve(SIZES, 4 * MEANS, model="FC")
    return kr.compare(known, dense, 0.01)


def numbered(pair: kr.Comparison, bounds: object, **values: Any) -> kr.Comparison:
    """A comparison with a given interval of the ratio, and given numbers in its plans."""
    first = replace(pair.first, **{key[:-2]: v for key, v in values.items() if key[-1] == "1"})
    second = replace(pair.second, **{key[:-2]: v for key, v in values.items() if key[-1] == "2"})
    changed = kr.Comparison(first, second)
    changed.__dict__["ratio_range"] = bounds  # a cached property
    return changed


def step(n: float, reach: float = 1.0) -> Chances:
    """Odds that jump to the reach at N."""
    return Chances(np.array([16.0, n - 1, n, 1e6]), np.array([0.0, 0.0, reach, reach]))


ODDS = {"chances_1": step(400), "chances_2": step(1600)}
NEITHER = {"chances_1": step(400, 0.3), "chances_2": step(1600, 0.3)}
SECOND_ONLY = {"chances_1": step(400, 0.3), "chances_2": step(1600)}


@pytest.mark.parametrize(
    ("bounds", "values", "saving", "ratio"),
    [
        ((2.0, 8.0), ODDS, "KO needs 4 times fewer samples than FC for 0.01 (90%: 2 to 8).",
         "4 (90%: 2 to 8)"),
        ((2.0, math.inf), ODDS,
         "KO needs 4 times fewer samples than FC for 0.01 (95% sure: at least 2).",
         "4 (at least 2 with 95% probability)"),
        ((0.0, 8.0), ODDS,
         "KO needs 4 times fewer samples than FC for 0.01 (95% sure: at most 8).",
         "4 (at most 8 with 95% probability)"),
        ((0.0, math.inf), ODDS, "KO needs 4 times fewer samples than FC for 0.01.", "4"),
        (None, ODDS,
         "Which of KO and FC needs fewer samples for 0.01 is not clear: even odds at 400 and "
         "1,600.", "4"),
        (None, NEITHER, "Which of FC and KO needs fewer samples for 0.01 is not known.",
         "not known"),
        ((3.0, math.inf), NEITHER,
         "KO needs at least 3 times fewer samples than FC for 0.01 (95% sure).",
         "at least 3 with 95% probability"),
        ((1.0, math.inf), NEITHER, "Which of KO and FC needs fewer samples for 0.01 is not known.",
         "at least 1 with 95% probability"),
        ((1.01, math.inf), NEITHER,
         "KO needs at least 1 times fewer samples than FC for 0.01 (95% sure).",
         "at least 1 with 95% probability"),
        ((0.0, 0.25), SECOND_ONLY,
         "FC needs at least 4 times fewer samples than KO for 0.01 (95% sure).",
         "at most 0.25 with 95% probability"),
    ],
)  # fmt: skip
def test_an_interval_is_told_as_far_as_it_is_known(
    pair: kr.Comparison, bounds: object, values: dict[str, Any], saving: str, ratio: str
) -> None:
    compared = numbered(pair, bounds, **values)
    assert compared.saving() == saving
    assert compared.ratio_words() == ratio


@pytest.mark.parametrize(
    ("bounds", "ends"),
    [
        ((0.125, 0.5), " (90%: 2 to 8)"),
        ((0.0, 0.5), " (95% sure: at least 2)"),
        ((0.125, math.inf), " (95% sure: at most 8)"),
        ((0.0, math.inf), ""),
    ],
)
def test_where_the_second_needs_fewer_the_interval_is_inverted(
    pair: kr.Comparison, bounds: tuple[float, float], ends: str
) -> None:
    compared = numbered(pair, bounds, chances_1=step(1600), chances_2=step(400))
    assert compared.ratio == 0.25
    assert compared.saving() == f"FC needs 4 times fewer samples than KO for 0.01{ends}."


def test_equal_numbers_name_no_winner(pair: kr.Comparison) -> None:
    equal = numbered(pair, (0.5, 2.0), chances_1=step(400), chances_2=step(400))
    assert equal.ratio == 1
    assert equal.saving() == "KO and FC need about as many samples for 0.01 (90%: 0.5 to 2)."


def test_a_model_that_meets_the_target_at_its_smallest_size_leaves_a_bound(
    pair: kr.Comparison,
) -> None:
    at_once = {"chances_1": step(17), "middle_1": 16, "chances_2": step(1600)}
    compared = numbered(pair, (50.0, math.inf), **at_once)
    assert compared.ratio == pytest.approx(1600 / 17)
    assert compared.open_end == " or more"
    words = "KO needs at least 94 times fewer samples than FC for 0.01 (95% sure: at least 50)."
    assert compared.saving() == words
    assert compared.ratio_words() == "94 or more (at least 50 with 95% probability)"
    assert (
        "KO needs at most 17 samples (chance above 99%) and FC about 1,600" in compared.headline()
    )
    swapped = kr.Comparison(compared.second, compared.first)
    swapped.__dict__["ratio_range"] = (0.0, 0.02)
    assert swapped.open_end == " or less"
    assert swapped.saving().startswith("KO needs at least 94 times fewer samples than FC")
    both = numbered(pair, None, **at_once | {"chances_2": step(17), "middle_2": 16})
    assert both.ratio is None
    assert both.headline().endswith("; what they need in relation to each other is not known.")


def test_the_headline_has_the_reach_where_that_is_below_95_percent(pair: kr.Comparison) -> None:
    compared = numbered(pair, (2.0, 8.0), **ODDS, reach_1=0.95, reach_2=0.94)
    assert compared.headline() == (
        "To reach 0.01, KO needs about 400 samples (chance above 99%) and FC about 1,600 (chance "
        "above 99%, at most 94% at any N), a ratio of 4 (90%: 2 to 8)."
    )


def test_a_model_without_a_number_is_told_by_its_plan(pair: kr.Comparison) -> None:
    alone = numbered(pair, (3.0, math.inf), chances_1=step(400), chances_2=step(1600, 0.3))
    assert alone.numbers == (400, None)
    ratio = "The ratio, FC over KO, is at least 3 with 95% probability."
    plans = f"KO: {alone.first.headline()} FC: {alone.second.headline()}"
    assert alone.headline() == f"{plans} {ratio}"
    unknown = numbered(pair, None, chances_1=step(400), chances_2=step(1600, 0.3))
    assert unknown.headline() == plans
    # At the smallest size there is a number all the same.
    at_once = numbered(
        pair, None, chances_1=step(400, 0.3), middle_1=16, **{"chances_2": step(9e4, 0.2)}
    )
    assert at_once.headline().startswith("KO needs at most 16 samples (chance below 1%). FC: ")


def test_an_unlikely_ratio_has_its_condition(pair: kr.Comparison) -> None:
    for reach, likely in ((0.5, True), (0.49, False)):
        compared = numbered(pair, (2.0, 8.0), **ODDS, reach_1=0.9, reach_2=reach)
        assert compared.likely == likely
        condition = "" if likely else "; if both reach it, chance 49%"
        assert compared.saving().endswith(f"(90%: 2 to 8{condition}).")
    bare = numbered(pair, (0.0, math.inf), **ODDS, reach_1=0.4, reach_2=0.49)
    assert bare.saving().endswith("for 0.01 (if both reach it, chance 40%).")


def test_equal_or_missing_names_are_first_and_second(pair: kr.Comparison) -> None:
    assert pair.names == ("KO", "FC")
    bare, named = kr.Curve(SIZES, MEANS), kr.Curve(SIZES, 2 * MEANS, model="KO")
    for first, second in ((bare, bare), (named, bare), (bare, named), (named, named)):
        assert kr.compare(first, second, 0.05).names == ("first", "second")


def test_another_fit_is_named_and_has_no_interval(pair: kr.Comparison) -> None:
    curves = pair.first.curve, pair.second.curve
    by_fit = kr.compare(*curves, 0.06, fit="paper")
    assert by_fit.numbers == (by_fit.first.middle, by_fit.second.middle)
    assert by_fit.ratio_range is None
    lines = [kr.planning.calibrate(curve) for curve in curves]
    assert by_fit.ratio == lines[1].samples(0.06) / lines[0].samples(0.06)
    assert "times fewer samples than FC for 0.06 by fit 'paper'." in by_fit.saving()


def test_a_brief_has_a_line_for_every_model(pair: kr.Comparison) -> None:
    lines = pair.brief().split("\n")
    advice = [plan.recommend().sentence for plan in (pair.first, pair.second)]
    assert lines[0] == pair.saving()
    assert lines[1:3] == advice
    assert lines[1].startswith("KO: collect ")
    assert lines[3] == pair.crossing.explain()
    assert lines[4:] == [f"{model}: {pair.first.findings[0]}" for model in ("KO", "FC")]
    bare = kr.compare(kr.Curve(SIZES, MEANS), kr.Curve(SIZES, 4 * MEANS), 0.01)
    advice = [plan.recommend().sentence for plan in (bare.first, bare.second)]
    assert advice[0].startswith("Collect ")
    assert bare.brief().split("\n")[1:3] == [
        f"first: c{advice[0][1:]}",
        f"second: c{advice[1][1:]}",
    ]
    guessed = "With one seed at every N, the noise is guessed: repeat with other seeds."
    assert bare.first.findings == (guessed,)
    assert bare.brief().split("\n")[-2:] == [f"first: {guessed}", f"second: {guessed}"]
    bare.require()


def test_an_unreachable_target_is_refused_by_the_name_of_the_model(pair: kr.Comparison) -> None:
    rising = [0.05, 0.06, 0.08, 0.1, 0.2]
    for model in ("FC", ""):
        worse = kr.compare(pair.first.curve, kr.Curve(SIZES, rising, model=model), 0.01)
        with pytest.raises(UnreachableError) as refusal:
            worse.require()
        why = worse.second.recommend().explain()
        assert str(refusal.value) == (why if model else f"second: {why}")


def test_plain_values_have_both_plans_and_both_calibrations() -> None:
    n, rate = np.array(SIZES), np.log(SIZES) / np.array(SIZES)
    first = kr.Curve(n, 0.01 + 0.5 * rate, model="KO")
    second = kr.Curve(n, 0.02 + 2.0 * rate, model="FC")
    pair = kr.compare(first, second, 0.05)
    content = pair.to_dict()
    line = pair.factors("line")
    assert content["two_factors"]["line"] == {
        "structural": line.structural,
        "approximation_budget": line.approximation_budget,
        "product": line.product,
    }
    assert line.structural == pytest.approx(4)
    assert content["first"]["name"] == "KO"
    assert content["second"]["middle"] == pair.second.middle
    assert content["crossover"] is None
    said = pair.explain()
    assert "the ratio of N / log N is 4 (sigmas) times 1.3 (distances of the floors" in said
    for name, plan in (("KO", pair.first), ("FC", pair.second)):
        assert f"{name}: {plan.findings[0]}" in said
    low = kr.compare(first, second, 0.015)
    assert "are not defined at this target" in low.explain()
    assert low.to_dict()["two_factors"]["line"].keys() == {"unknown"}
    assert not low.to_dict()["two_factors"]["line"]["unknown"].startswith("as errors")
    roots = [kr.Curve(n, np.sqrt(c.means), model=c.model, unit="rmse") for c in (first, second)]
    squared = kr.compare(roots[0], roots[1], math.sqrt(0.015)).to_dict()["two_factors"]
    assert squared["line"]["unknown"].startswith("as errors, made of rmse: ")


@pytest.mark.parametrize(
    ("middles", "expected"),
    [((300, 300), 0.2), ((None, 300), 0.2), ((256, 300), 0.0), ((300, 256), 0.0)],
)
def test_beyond_the_pilots_forecasts_err_alike(
    pair: kr.Comparison, middles: tuple[int | None, int | None], expected: float
) -> None:
    """One inside its pilot and one beyond are independent."""
    first, second = (
        replace(plan, middle=middle)
        for plan, middle in zip((pair.first, pair.second), middles, strict=True)
    )
    assert kr.Comparison(first, second).together == expected


def test_inside_the_pilots_shared_seeds_say_how_forecasts_err() -> None:
    rng = np.random.default_rng(0)
    shared = 0.1 * rng.standard_normal((len(SIZES), 4))
    curves = [
        kr.Curve(
            np.repeat(SIZES, 4),
            (factor * MEANS[:, None] * np.exp(shared + 0.05 * rng.standard_normal((5, 4)))).ravel(),
            ["0", "1", "2", "3"] * len(SIZES),
            f"M{factor}",
        )
        for factor in (1, 4)
    ]
    inside = kr.compare(curves[0], curves[1], 0.15)
    paired = paired_correlation(curves[0], curves[1])
    assert 0.3 < paired < 1
    assert inside.together == paired


@pytest.mark.parametrize(("factor", "doubted"), [(150.0, True), (15.0, False), (1.5, False)])
def test_percent_beside_fractions_is_asked_about(factor: float, doubted: bool) -> None:
    n, errors = [8, 16, 32, 64], np.array([0.4, 0.3, 0.2, 0.15])
    known = kr.Curve(n, errors, model="KO")
    dense = kr.Curve(n, factor * errors, model="FC")
    for pair in ((known, dense), (dense, known)):
        comparison = kr.compare(*pair, target=0.1)
        for text in (comparison.brief(), comparison.explain(), comparison.saving()):
            # The question comes first: the number after it may be wrong.
            assert text.startswith("All errors of FC are above 1 and all of KO below") is doubted
