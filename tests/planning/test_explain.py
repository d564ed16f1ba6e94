"""What is said of a plan: its numbers with their odds, its conditions, its remedies."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import korisk as kr
from korisk.planning import explain as words
from korisk.planning.compare import Crossing, Crossover
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8

STEP_N = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
STEP = kr.Curve(STEP_N, [1.0] * 4 + [0.01] * 5, model="step")


@pytest.fixture(scope="module")
def plan() -> kr.Plan:
    """A pilot from 16 to 512 and a target beyond it."""
    made = kr.plan(power_pilot(floor=0.0, noise=0.02), 0.012)
    assert made.middle is not None
    assert made.last == 512
    return replace(made, reach=0.99, lower=1000.0, upper=2000.0)


@pytest.fixture(scope="module")
def doubtful() -> kr.Plan:
    """A target that 90% is out of reach of, and that is probably reachable."""
    made = kr.plan(released_h8("KO"), 0.0022)
    assert made.samples(0.9) is None
    assert 0.5 < made.reach < 0.9
    return made


def percentages(text: str) -> set[str]:
    return set(re.findall(r"(?:above |below )?\d+%", text))


@pytest.mark.parametrize(
    ("p", "said"),
    [(0.0, "below 1%"), (0.0099, "below 1%"), (0.01, "1%"), (0.5, "50%"), (0.99, "99%"),
     (0.9901, "above 99%"), (math.nan, "not known")],
)  # fmt: skip
def test_no_chance_is_called_certain(p: float, said: str) -> None:
    assert words.chance(p) == said


@pytest.mark.parametrize(
    ("factor", "said"), [(0.123, "0.12"), (9.44, "9.4"), (10, "10"), (12.3, "12"), (1236, "1,236")]
)
def test_factors_have_two_digits_where_these_are_few(factor: float, said: str) -> None:
    assert words.times(factor) == said


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [(98.0, 1200.0, "98 to 1,200"), (1098.0, math.inf, "at least 1,098")],
)
def test_intervals_may_have_no_upper_end(lower: float, upper: float, said: str) -> None:
    assert (words.span(lower, upper), words.count(math.inf)) == (said, "∞")
    assert words.count(lower) == f"{lower:,.0f}"


@pytest.mark.parametrize("samples", [513, 1536])
def test_beyond_the_pilot_the_number_has_its_chance_and_distance(
    plan: kr.Plan, samples: int
) -> None:
    said = replace(plan, middle=samples).headline()
    odds = words.chance(plan.probability(samples))
    assert f"about {samples:,} samples (chance {odds})" in said
    far = f"{words.times(samples / 512)} times" if samples > 600 else "little more than"
    assert f"{far} the pilot's largest N of 512" in said


def test_inside_the_pilot_the_measured_means_answer() -> None:
    made = kr.plan(released_h8("KO"), 0.003)  # means 0.00315 at 16 and 0.00252 at 32
    assert made.middle is not None
    assert made.chance is not None
    said = made.explain()
    assert "measured means of KO" in said
    assert "between N = 16 and 32" in said
    assert f"at about {made.middle} (chance {words.chance(made.chance)})" in said
    assert said.startswith(f"KO: {made.samples(0.9)} samples are enough for 0.003 (90% sure)")
    assert "ollect" not in said
    told = kr.plan(kr.Curve(N_128, FC_128), 0.09).headline()  # a curve without a name
    assert told.startswith("The measured means meet the target 0.09 between N = 64 and 256")


def test_a_target_met_at_once_asks_for_a_harder_one() -> None:
    made = kr.plan(released_h8("KO"), 0.02)
    said = made.explain()
    for fact in ("already at the pilot's smallest N = 4 (chance above 99%)", "harder", "smaller N"):
        assert fact in said
    assert "are enough" not in said  # 4 are, as was said


@pytest.mark.parametrize(("samples", "far"), [(64 * 512, False), (64 * 512 + 1, True)])
def test_far_out_only_the_order_means_much(plan: kr.Plan, samples: int, far: bool) -> None:
    said = replace(plan, middle=samples).headline()
    assert ("order of magnitude" in said) == far


@pytest.mark.parametrize(("sure", "level"), [(0.5, "50%"), (0.9, "90%"), (0.925, "92.5%")])
def test_what_to_collect_comes_first_with_its_level_and_its_cost(
    plan: kr.Plan, sure: float, level: str
) -> None:
    samples = plan.samples(sure)
    assert samples is not None
    said = plan.explain(sure, cost=2.5)
    assert said.startswith(f"Collect {samples:,} samples for 0.012 ({level} sure).")
    more = samples - plan.last
    assert f"{more:,} more samples than the pilot's {plan.last:,} cost {2.5 * more:,.6g}." in said
    assert "cost" not in plan.explain(sure)


@pytest.mark.parametrize(
    ("reach", "conditional", "against"),
    [(0.95, False, False), (0.949, True, False), (0.5, True, False), (0.499, False, True)],
)
def test_conditions_come_as_the_reach_falls(
    plan: kr.Plan, reach: float, conditional: bool, against: bool
) -> None:
    said = replace(plan, middle=1000, reach=reach).headline()
    assert ("if the target is reachable" in said) == conditional
    assert ("probably does not reach" in said) == against
    assert (f"at most {words.chance(reach)}" in said) == (conditional or against)
    assert words.chance(plan.probability(1000)) in said


def test_the_interval_is_told_beyond_the_pilot(plan: kr.Plan) -> None:
    said = replace(plan, middle=1200).explain()
    assert "With 90% probability it takes 1,000 to 2,000 samples." in said
    assert f"collect {plan.samples(0.9):,} samples for 0.012 (90% sure)." in said.lower()
    open_end = replace(plan, middle=1200, upper=math.inf).explain()
    assert "With 95% probability it takes at least 1,000 samples." in open_end


@pytest.mark.parametrize("p", [0.5, 0.8, 0.9, 0.925])
def test_enough_is_enough_with_that_probability(plan: kr.Plan, p: float) -> None:
    n = plan.samples(p)
    assert n is not None
    assert plan.probability(n) >= p > plan.probability(n - 1)
    said = plan.enough(p)
    assert said == f"{n:,} samples are enough with {100 * p:g}% probability."


def test_no_safe_number_lies_outside_the_interval() -> None:
    """Inside noisy pilots too, whose neighbouring sizes are nearer than the ends of the law."""
    wider = 0
    for seed in range(6):
        spread = np.random.default_rng(seed).lognormal(0, 0.6, 16)
        n = np.repeat([8, 16, 32, 64], 4)
        made = kr.plan(kr.Curve(n, 2 * spread / n, seed=[*range(4)] * 4), 0.1)
        safe = made.samples(0.9)
        assert made.lower <= (made.even or math.inf) <= (safe or math.inf) <= made.upper
        wider += made.between is not None and made.upper > made.between[1]
    assert wider


def test_where_no_number_is_enough_the_condition_is_told_with_its_odds(doubtful: kr.Plan) -> None:
    said = doubtful.enough()
    assert "No amount of data gives 90%" in said
    assert "levels off above the target" in said
    assert f"at most {words.chance(doubtful.reach)}" in said
    by = doubtful.near_horizon
    odds = words.chance(doubtful.probability(by))
    assert f"If the target is reachable by N = {by:,} (chance {odds})" in said
    assert f"{doubtful.if_reached(0.9):,} samples are enough with 90% probability" in said
    assert said in doubtful.explain()
    said = replace(doubtful, reach=0.898).enough()  # no more than what no number has
    assert "just below 90%" in said
    assert "at most 90%" not in said
    said = kr.plan(kr.Curve.of_errors(N_128, KO_128, unit="accuracy"), 0.946).enough()
    assert "the accuracy levels off below the target" in said


@pytest.mark.parametrize("target", [0.02, 0.006, 0.003, 0.0022, 0.0015, 0.001, 0.0001])
@pytest.mark.parametrize("model", ["KO", "FC"])
def test_every_percentage_is_one_of_the_plans(model: str, target: float) -> None:
    made = kr.plan(released_h8(model), target)
    odds = [made.reach, made.probability(made.near_horizon), 0.9, 0.95]
    odds += [p for p in (made.chance, made.recommend().chance) if p is not None]
    assert percentages(made.explain()) <= {words.chance(p) for p in odds}


def test_other_methods_say_whose_odds_they_have(doubtful: kr.Plan) -> None:
    other = kr.plan(doubtful.curve, 1.05 * doubtful.curve.means.min(), fit="paper")
    assert other.middle is not None
    said = other.explain()
    assert f"about {other.middle} samples" in said
    assert "The chances and the interval are those of the default fit." in said
    assert "If the target is reachable by" not in said


def test_a_method_that_levels_off_says_where() -> None:
    curve = power_pilot(floor=0.1)
    told = kr.plan(curve, 0.05, fit="paper").headline()
    floor = kr.planning.calibrate(curve).floor
    assert f"not reachable: its curve levels off at {floor:.4g}. " in told
    assert "By the default fit the chance of meeting it by N = 5,120,000 is" in told
    slow = kr.Curve(N_128, 0.5 * np.array(N_128) ** -0.05, model="KO")
    said = kr.plan(slow, (1 + 1e-8) * slow.means.min(), fit="paper").headline()
    assert "does not get there by N = 20,480,000" in said
    assert "levels off" not in said


def test_a_method_that_denies_what_was_measured_is_contradicted() -> None:
    curve = released_h8("KO")
    made = kr.plan(curve, float(curve.means.min()), fit="paper")
    assert made.middle is None
    said = made.explain()
    assert all(fact in said for fact in ("measured means meet it inside the pilot", "default fit"))
    advice, default = made.recommend(), kr.plan(curve, made.target).recommend()
    assert (advice.sentence, advice.n, advice.even) == (default.sentence, default.n, default.even)


def test_out_of_reach_has_its_floor_its_odds_and_a_remedy() -> None:
    errors = [error * factor for error in KO_128 for factor in (0.99, 1.0, 1.01)]
    made = kr.plan(kr.Curve(np.repeat(N_128, 3), errors, [1, 2, 3] * len(N_128), model="KO"), 0.03)
    said = made.explain()
    assert "not reachable according to this pilot" in said
    assert f"the error of KO levels off at about {made.floor:.4g}" in said
    assert "by N = 20,480,000 is below 1%" in said
    advice = made.recommend()
    assert (advice.action, advice.n) == ("stop", None)
    assert "train N = 2,048 once with 3 times the steps" in said


def test_a_hard_target_is_questioned_in_a_sentence() -> None:
    told = kr.plan(kr.Curve([16, 32, 64], [20.0, 16.0, 14.5]), 0.12).headline()
    assert ". The pilot runs from 14.5 to 20: was the target given as a fraction of one?" in told
    assert told.endswith("then ask for 12.")


def test_a_step_has_no_number_beyond_and_one_inside() -> None:
    beyond = kr.plan(STEP, 0.005)
    said = beyond.explain()
    assert beyond.doubt in said
    assert beyond.recommend().action == "unknown"
    assert f"To find out, {beyond.limit.next_run}." in said
    assert "N = 1,024" in beyond.limit.next_run  # its last decade is flat: training may limit it
    assert "chance" not in said
    assert "are enough" not in said
    inside = kr.plan(STEP, 0.5)
    assert inside.middle is not None
    assert 32 < inside.middle <= 64
    said = inside.explain()
    assert f"between N = 32 and 64, at about {inside.middle}" in said
    assert "cannot be extrapolated" not in said


def test_below_rounding_an_easier_target_is_the_remedy() -> None:
    curve = kr.Curve([4, 8, 16, 32, 64], [1.0, 0.5, 0.3, 1e-19, 1e-20])
    for target in (1e-18, 1e-21):
        said = kr.plan(curve, target).explain()
        assert all(fact in said for fact in ("below rounding", "easier target"))
        assert "measure" not in said
        assert "are enough" not in kr.plan(curve, target).enough()


def test_inside_a_pilot_that_cannot_be_extrapolated_nothing_is_said_of_beyond() -> None:
    curve = kr.Curve([4, 4, 8, 8, 16, 16], [1.0, 0.9, 0.5, 0.4, 0.3, 1e-19], [1, 2] * 3)
    made = kr.plan(curve, 0.2)
    assert made.middle is not None
    assert made.samples(0.9) is None
    said = made.enough()
    assert f"No N inside the pilot gives 90%; at most {words.chance(made.reach)}." in said
    assert made.forecast.doubt in said
    assert "No amount of data" not in said


N = np.array([4, 8, 16, 32, 64, 128, 256, 512, 1024])
ALIKE = kr.Curve(N, 0.05 * N**-0.5 + 0.001, model="simulated")
OTHER = kr.Curve(N, [1.0, 0.99, 0.97, 0.9, 0.5, 0.1, 0.05, 0.04, 0.039], model="misleading")
PILOT = kr.Curve(N[1:5], 1.4 * ALIKE.means[1:5] * [1.01, 0.99, 1.0, 1.01], model="KO")


def test_what_related_curves_change_is_told() -> None:
    made = kr.plan(PILOT, 0.006, related=[ALIKE])
    alone = kr.plan(PILOT, 0.006)
    assert made.trust is not None
    assert alone.chance is not None
    said = made.explain()
    assert f'("simulated") explain the pilot (trust {words.chance(made.trust)})' in said
    assert f"about {alone.middle} (chance {words.chance(alone.chance)})" in said
    assert "simulated" not in alone.explain()


def test_related_curves_may_take_a_hope_away() -> None:
    """By itself the pilot is a power law; its relative levels off."""
    made = kr.plan(PILOT, 0.0012, related=[ALIKE])
    assert made.middle is None
    assert made.alone.middle is not None
    odds = words.chance(made.alone.chance)
    without = f"without them the answer would be about {made.alone.middle:,} (chance {odds})"
    assert without in made.explain()


def test_curves_that_step_or_disagree_are_said_to() -> None:
    said = kr.plan(PILOT, 0.006, related=[OTHER]).explain()
    assert '("misleading") cannot be extrapolated and are not used' in said
    sizes, errors = np.repeat(N[:6], 5), np.repeat(0.2 * N[:6] ** -0.9, 5)
    sure = kr.Curve(sizes, errors * np.tile([0.99, 1.0, 1.01, 1.0, 1.0], 6), [1, 2, 3, 4, 5] * 6)
    flat = kr.Curve(N, 1.0 - 0.02 * np.log(N), model="flat")
    made = kr.plan(sure, 0.5 * float(sure.means[-1]), related=[flat])
    assert '("flat") disagree with the pilot (trust below 1%)' in made.explain()
    assert made.middle == made.alone.middle


def test_related_curves_change_nothing_inside_the_pilot_and_remove_no_doubt() -> None:
    said = kr.plan(PILOT, 0.013, related=(ALIKE, OTHER)).explain()
    assert all(fact in said for fact in ("not change the answer", '("simulated", "misleading")'))
    said = kr.plan(STEP, 0.005, related=[ALIKE]).explain()
    assert "cannot be extrapolated" in said
    assert 'Related curves ("simulated") are not used.' in said


def test_both_numbers_have_their_chances() -> None:
    both = kr.compare(released_h8("KO"), released_h8("FC"), 0.003)
    said = both.headline()
    for made in (both.first, both.second):
        assert made.even is not None
        odds = words.chance(made.probability(made.even))
        assert f"{made.even:,}{' samples' * (made is both.first)} (chance {odds}" in said


EASY = kr.Curve([16, 32, 64, 128], [0.01, 0.005, 0.0025, 0.00125])
HARD = kr.Curve([16, 32, 64, 128], [0.4, 0.2, 0.1, 0.05])
LEVELLED = kr.Curve(
    [16, 32, 64, 128] * 2, [0.4, 0.21, 0.2, 0.2, 0.41, 0.22, 0.2, 0.2], [1] * 4 + [2] * 4
)


def test_a_pilot_that_meets_the_target_at_once_may_need_fewer() -> None:
    both = kr.compare(EASY, HARD, 0.02)
    told, even = both.headline(), both.second.even
    assert even is not None
    assert "first needs at most 16 samples (chance " in told
    assert f"second about {even:,} (chance " in told
    assert f"a ratio of {words.times(even / 16)} or more" in told


def test_one_that_does_not_reach_the_target_is_told_apart() -> None:
    both = kr.compare(HARD, LEVELLED, 0.02)
    assert both.second.even is None
    told = both.headline()
    assert told.startswith(f"first: {both.first.headline()} second: {both.second.headline()}")


def test_a_doubt_of_one_side_is_told() -> None:
    curve = kr.Curve(STEP_N, [0.5 / math.sqrt(n) for n in STEP_N], model="KO")
    both = kr.compare(curve, STEP, 0.005)
    said = both.headline()
    assert both.second.doubt in said
    assert f"KO needs about {both.first.middle:,} samples" in said


def test_a_ratio_is_told_with_its_range() -> None:
    first, second = (
        kr.plan(power_pilot(floor=0.0, scale=scale, noise=0.02), 0.015) for scale in (0.4, 0.6)
    )
    compared = kr.Comparison(first, second)
    assert compared.ratio_range is not None
    low, high = (words.times(end) for end in compared.ratio_range)
    assert low != high
    assert f"(90%: {low} to {high})." in compared.headline()


@pytest.mark.parametrize(
    ("n", "measured", "means", "better", "agrees"),
    [
        (300, True, (256, 512), "FC", True),
        (512, True, (256, 512), "FC", True),
        (544, True, (256, 512), "FC", False),
        (200, True, (256, 512), "FC", False),
        (544, True, None, "KO", False),
        (2780, False, None, "KO", True),
        (2780, False, (256, 512), "FC", False),  # it is the better one already
        (300, True, None, "", True),  # no N in common, so that no means contradict it
    ],
)
def test_measured_means_contradict_no_crossover(
    n: int, measured: bool, means: tuple[int, int] | None, better: str, agrees: bool
) -> None:
    found = Crossover(n, n / 2, math.inf, "FC", measured=measured)
    assert Crossing(found, means, better, 1024).agrees == agrees
    said = Crossing(found, means, better, 1024).explain()
    if agrees:
        assert f"cross at about N = {n:,}" in said
        assert ("within the pilots" in said, "extrapolation" in said) == (measured, not measured)
        assert all(fact in said for fact in (f"90%: at least {n // 2:,}", "FC is probably better"))
    else:
        assert ("do not clearly cross" if means is None else "not clear") in said
        assert "cross at about" not in said
        assert f"{n:,}" not in said
        assert (f"between N = {means[0]} and {means[1]}" if means else "every measured N") in said
        assert f"{better} is better at" in said


def test_without_a_crossover_the_means_are_told() -> None:
    said = Crossing(None, None, "KO", 1024).explain()
    assert "KO is better at every measured N, up to 1,024" in said
    assert "do not clearly cross" in Crossing(None).explain()


def test_curves_that_cross_are_said_to() -> None:
    both = kr.compare(
        kr.Curve(N_128, KO_128, model="KO"), kr.Curve(N_128, FC_128, model="FC"), 0.06
    )
    found = both.crossover
    assert found is not None
    assert 256 < found.n < 1024
    interval = f"90%: {found.lower:,.0f} to {found.upper:,.0f}"
    said = both.explain()
    assert f"cross at about N = {found.n} (within the pilots; {interval})" in said


def test_sizes_that_one_pilot_lacks_are_interpolated() -> None:
    """Means at 16, 64, 256 and at 32, 128, 512 cross at 90 without a common N."""
    n = np.array([8, 16, 32, 64, 128, 256, 512, 1024])
    flat = kr.Curve(n[::2], 0.1 * (n[::2] / 90) ** -0.1, model="flat")
    steep = kr.Curve(n[1::2], 0.1 * (n[1::2] / 90) ** -0.7, model="steep")
    both = kr.compare(flat, steep, 0.1)
    assert both.crossover is not None
    assert f"cross at about N = {both.crossover.n}" in both.explain()
    assert both.crossover.n == pytest.approx(90, rel=0.15)


def _repeated(errors: dict[int, list[float]]) -> kr.Curve:
    rows = [(n, error, str(s)) for n, each in errors.items() for s, error in enumerate(each)]
    return kr.Curve([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


@pytest.mark.parametrize(("second", "rising"), [(0.31, True), (0.303, False), (0.29, False)])
def test_without_seeds_two_percent_are_a_rise(second: float, rising: bool) -> None:
    found = words.rises(kr.Curve([4, 8, 16], [0.3, second, 0.1]))
    assert found == ([1] if rising else [])


@pytest.mark.parametrize(("factor", "rising"), [(1.28, False), (1.34, True)])
def test_with_seeds_a_rise_exceeds_two_standard_errors(factor: float, rising: bool) -> None:
    """Means with a standard error of 0.3 / sqrt 10 each; twice both is 0.27 in the logarithm."""
    seeds = np.array([0.7, 1.0, 1.0, 1.0, 1.3])
    curve = _repeated({4: list(seeds), 8: list(factor * seeds)})
    assert bool(words.rises(curve)) == rising


@pytest.mark.parametrize(
    ("errors", "odd"),
    [([1, 1, 1, 2], True), ([1, 1, 1, 0.5], True), ([1, 1, 1, 1.4], False), ([1, 1, 2], False)],
)
def test_a_seed_half_as_large_again_as_four_that_agree_is_an_outlier(
    errors: list[float], odd: bool
) -> None:
    found = words.outliers(_repeated({4: errors, 8: [1.0, 1.0, 3.0]}))  # three are not judged
    assert found == pytest.approx({3: errors[-1]} if odd else {})


def test_among_seeds_that_scatter_an_outlier_is_farther_out() -> None:
    """The median distance from the median is 0.2 in the logarithm; 4 x 1.4826 x 0.2 = 1.19."""
    logs = np.array([-0.2, -0.2, 0.0, 0.2, 0.2])
    for away, odd in ((1.1, False), (1.3, True)):
        errors = np.exp(np.append(logs, [-0.2, 0.2, away]))
        curve = _repeated({4: list(errors), 8: list(np.exp([-0.2, -0.2, 0.2, 0.2]))})
        assert bool(words.outliers(curve)) == odd


def test_no_learning_is_judged_by_the_ends() -> None:
    said = "No learning from N = 4 to 32"
    assert any(said in each for each in words.findings(kr.Curve([4, 8, 32], [0.3, 0.2, 0.31])))
    assert "unit=" in kr.plan(kr.Curve([4, 8, 16, 32], [0.5, 0.6, 0.7, 0.8]), 0.4).explain()
    assert any(said in each for each in words.findings(kr.Curve([4, 8, 32], [0.3, 0.2, 0.3])))
    assert not any(said in each for each in words.findings(kr.Curve([4, 8, 32], [0.3, 0.35, 0.28])))


@pytest.mark.parametrize(("sizes", "said"), [([4, 5, 10], "a factor of 2.5 in"), ([4, 5, 16], "")])
def test_a_narrow_pilot_is_told_its_span(sizes: list[int], said: str) -> None:
    found = [each for each in words.findings(kr.Curve(sizes, [3, 2, 1])) if "spans" in each]
    assert bool(found) == bool(said)
    assert all(said in each for each in found)


@pytest.mark.parametrize(
    ("seeds", "said"), [(1, "one seed at every N"), (2, "fewer than three seeds"), (3, "")]
)
def test_few_seeds_are_told(seeds: int, said: str) -> None:
    scatter = 1 + 0.01 * np.arange(seeds)
    curve = _repeated({n: list(scatter / n) for n in (4, 8, 16)})
    found = [each for each in words.findings(curve) if "seed" in each]
    assert bool(found) == bool(said)
    assert all(said in each for each in found)


def test_three_are_told_in_full_and_the_rest_counted() -> None:
    zigzag = [1.0, 0.5] * 6
    rising = words.findings(kr.Curve([4 * 2**k for k in range(12)], zigzag))
    assert sum("not monotone" in each for each in rising) == 3
    assert "There are 2 more rises." in rising
    assert any("N = 16: the mean there, 1, is worse than 0.5 at N = 8" in each for each in rising)
    odd = {4 * 2**k: [1.0, 1.0, 1.0, 1.0, 5.0] for k in range(5)}
    told = words.findings(_repeated(odd))
    assert sum("is an outlier" in each for each in told) == 3
    assert "There are 2 more outliers." in told
    exact = words.findings(_repeated({n: odd[n] for n in (4, 8, 16)}))
    assert not any("more" in each and "outliers" in each for each in exact)


def test_seeds_that_are_copies_are_named() -> None:
    def sentences(table: list[list[float]]) -> list[str]:
        """Findings on copies in a pilot of N = 4, 8, 16 with one list of errors for each seed."""
        n, seeds = [4, 8, 16] * len(table), [str(k) for k in range(len(table)) for _ in range(3)]
        curve = kr.Curve(n, [error for run in table for error in run], seed=seeds)
        return [text for text in words.findings(curve) if "same error" in text]

    run, another = [0.3, 0.2, 0.1], [0.31, 0.2, 0.1]
    assert sentences([run, another]) == []  # one N tells them apart
    (pasted,) = sentences([another, run, run])
    assert pasted.startswith("Seeds 1, 2 have the same error")
    (unused,) = sentences([run] * 5)
    assert unused.startswith("Seeds 0, 1, 2, ... have")
    # Two sizes may agree by chance, as rates of a small test set do.
    few = kr.Curve([4, 8, 4, 8, 16], [0.3, 0.2, 0.3, 0.2, 0.1], seed=["1", "1", "2", "2", "3"])
    assert not any("same error" in text for text in words.findings(few))
