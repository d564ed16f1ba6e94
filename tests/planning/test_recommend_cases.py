"""Recommendations: every branch with its sentence, its numbers and its thresholds."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.planning.chances import Chances
from korisk.planning.limits import Limit, Longer
from korisk.planning.protocol import Expectation
from korisk.planning.recommend import (
    check_words,
    collectable,
    no_number,
    otherwise,
    price_of,
    recommend,
)

PILOT = kr.Curve([16, 32, 64, 128], [0.4, 0.2, 0.1, 0.05], model="KO")
SEEDED = kr.Curve([16, 16, 64, 64, 128, 128], [0.4, 0.41, 0.1, 0.11, 0.05, 0.051], [1, 2] * 3)
FLAT = kr.Curve([16, 32, 64, 128], [0.05, 0.05, 0.05, 0.05], model="KO")
TABLE = Chances(np.array([100.0, 200.0, 400.0, 1600.0]), np.array([0.0, 0.5, 0.95, 0.97]))
DATA = Limit("data", "The amount of data limits the error.")
LONGER = Longer(n=128, factor=3, errors=[0.03], before=[0.05])
OPEN = Limit("unknown", "What limits it is not known.", "train once more")


def bare_plan(samples: int | None = 300, **values: Any) -> Any:
    """A plan of given numbers, for a target of 0.02."""
    fields = {"curve": PILOT, "target": 0.02, "goal": 0.02, "last": 128, "doubt": "", "reach": 0.9}
    fields |= {"met_in_pilot": False, "met_at_smallest": False, "limit": DATA, "even": 200}
    fields |= {"chances": TABLE, "below_rounding": False, "training": None, "longer": None}
    fields |= {"why_out_of_reach": "It levels off.", "probability": lambda n: 0.123}
    forecast = SimpleNamespace(horizon=1_280_000, quantile=lambda n, p: np.array([0.03]))
    return SimpleNamespace(samples=lambda sure: samples, forecast=forecast, **fields | values)


@pytest.mark.parametrize(
    ("samples", "at_once", "sentence"),
    [
        (16, True, "KO: 0.02 is met already at N = 16, the smallest measured (90% sure)."),
        (17, True, "KO: 17 samples are enough for 0.02 (90% sure); the pilot has them."),
        (16, False, "KO: 16 samples are enough for 0.02 (90% sure); the pilot has them."),
        (128, False, "KO: 128 samples are enough for 0.02 (90% sure); the pilot has them."),
        (129, False, "KO: collect 129 samples for 0.02 (90% sure)."),
        (2048, False, "KO: collect 2,048 samples for 0.02 (90% sure)."),
    ],
)
def test_what_to_collect(samples: int, at_once: bool, sentence: str) -> None:
    advice = recommend(bare_plan(samples, met_at_smallest=at_once))
    assert (advice.action, advice.n, advice.sentence) == ("collect", samples, sentence)
    assert (advice.sure, advice.chance, advice.cost, advice.seeds) == (0.9, 0.123, None, None)
    assert (advice.even, advice.lower, advice.upper) == (200, 107, 400)
    assert advice.limit == DATA
    far = f"That is {samples / 128:.2g} times the pilot's largest N of 128."
    assert advice.reasons == ((far,) if samples > 128 else ())
    paid = recommend(bare_plan(samples, met_at_smallest=at_once), 0.925, 2.5)
    assert "(92.5% sure)" in paid.sentence
    assert paid.cost == 2.5 * max(samples - 128, 0)
    words = f"{samples - 128:,} more samples than the pilot's 128 cost {paid.cost:,.6g}."
    assert paid.reasons[-1] == (words if samples > 128 else "Nothing more has to be collected.")
    with pytest.raises(kr.KoriskError, match="cost must be"):
        recommend(bare_plan(samples), 0.9, 0.0)


def test_a_model_without_a_name_begins_with_the_advice() -> None:
    nameless = kr.Curve([16, 32, 64, 128], [0.4, 0.2, 0.1, 0.05])
    assert recommend(bare_plan(300, curve=nameless)).sentence.startswith("Collect 300 samples")
    open_end = Chances(TABLE.n, 0.5 * TABLE.p)
    advice = recommend(bare_plan(300, chances=open_end))
    assert (advice.lower, advice.upper) == (math.floor(100 * 2**0.2), None)
    never = recommend(bare_plan(300, chances=Chances(TABLE.n, 0.01 * TABLE.p)))
    assert (never.lower, never.upper) == (None, None)


def test_numbers_are_recommended_up_to_sixteen_times_the_pilot_unless_data_does_not_help() -> None:
    assert recommend(bare_plan(16 * 128)).action == "collect"
    far = recommend(bare_plan(16 * 128 + 1))
    assert (far.action, far.n, far.seeds) == ("measure", 256, 3)
    assert collectable(bare_plan(), 16 * 128)
    assert not collectable(bare_plan(), 16 * 128 + 1)
    assert far.reasons[0] == (
        "2,049 samples would be enough with 90%, but lie more than 16 times beyond the pilot, "
        "where odds were not checked."
    )
    limited = bare_plan(300, limit=Limit("training", "So."), longer=LONGER)
    assert recommend(limited).action == "train"
    assert not collectable(limited, 300)
    limited.met_in_pilot = True
    assert recommend(limited).action == "collect"
    assert recommend(bare_plan(300, limit=OPEN)).action == "collect"
    assert recommend(bare_plan(300, doubt="It rises.")).action == "unknown"
    assert recommend(bare_plan(300, curve=FLAT)).action == "unknown"
    assert recommend(bare_plan(300, curve=FLAT, met_in_pilot=True)).action == "collect"


@pytest.mark.parametrize(("goal", "easy"), [(4.0, False), (4.001, True)])
def test_a_target_ten_times_easier_than_all_is_questioned(goal: float, easy: bool) -> None:
    advice = recommend(bare_plan(16, goal=goal, target=goal))
    words = "Every measured error is far better, from 0.4 on: is the target in another unit than "
    assert (advice.reasons == (f"{words}'error'?",)) == easy


def test_a_doubt_leaves_the_answer_unknown() -> None:
    doubt = "The curve cannot be extrapolated: Most seeds disagree."
    advice = otherwise(bare_plan(None, doubt=doubt))
    words = "KO: not known how many samples 0.02 needs: most seeds disagree."
    assert (advice.action, advice.sentence) == ("unknown", words)
    remedy = "To find out, measure N = 256 and plan again."
    assert advice.reasons == (DATA.sentence, remedy)
    assert (advice.even, advice.lower, advice.upper) == (None, None, None)
    probe = otherwise(bare_plan(None, doubt=doubt, limit=OPEN))
    assert probe.reasons == (OPEN.sentence, "To find out, train once more.")
    easier = "Ask for an easier target."
    assert otherwise(bare_plan(None, doubt=doubt, below_rounding=True)).reasons[1] == easier
    for last, remedy in ((LARGEST_N // 2, "measure N ="), (LARGEST_N // 2 + 1, easier)):
        assert remedy in otherwise(bare_plan(None, doubt=doubt, last=last)).reasons[1]


def test_training_comes_before_data() -> None:
    limit = Limit("training", "Training limits the error.")
    for after, end in (
        (0.02, ", which meets 0.02 without new samples."),
        (0.021, "; plan again with the longer training before more is collected."),
    ):
        longer = Longer(n=1280, factor=2.5, errors=[after - 0.001, after + 0.001], before=[0.05])
        plan = bare_plan(None, limit=limit, longer=longer)
        start = f"KO: train 2.5 times as long: at N = 1,280 that gave {after:.4g}"
        advice = otherwise(plan)
        assert (advice.action, advice.sentence) == ("train", start + end)
        assert advice.reasons == (limit.sentence,)


def test_a_pilot_without_learning_shows_nothing() -> None:
    advice = otherwise(bare_plan(None, curve=FLAT, limit=OPEN))
    words = "KO: not known how to reach 0.02: the error does not improve with N in this pilot."
    assert (advice.action, advice.sentence) == ("unknown", words)
    assert advice.reasons == (OPEN.sentence, "To find out, train once more.")


@pytest.mark.parametrize(("reach", "action"), [(0.149, "stop"), (0.15, "measure")])
def test_out_of_reach_ends_the_search_where_seeds_were_repeated(reach: float, action: str) -> None:
    advice = otherwise(bare_plan(None, curve=SEEDED, reach=reach))
    assert advice.action == action
    if action == "stop":
        words = "Stop: more data of this kind will not reach 0.02 (chance 15% by N = 1,280,000)."
        assert advice.sentence == words
        assert advice.reasons == ("It levels off.",)
        assert advice.limit is None, "data cannot be what limits it"
        probe = otherwise(bare_plan(None, curve=SEEDED, reach=reach, limit=OPEN))
        assert probe.reasons[1] == "Or train once more: training may limit it."
        assert probe.limit == OPEN
    single = otherwise(bare_plan(None, reach=reach))
    assert single.action == "measure"
    unsettled = "single seeds cannot tell whether 0.02 is out of reach"
    assert (unsettled in single.sentence) == (action == "stop")


def test_a_run_on_the_data_at_hand_comes_before_twice_the_largest_size() -> None:
    unknown = otherwise(bare_plan(None, limit=OPEN), 0.9, 2.0)
    words = "KO: not known whether more data reaches 0.02: something else may limit the error."
    assert (unknown.action, unknown.sentence) == ("unknown", words)
    assert unknown.reasons == (OPEN.sentence, "To find out, train once more.")
    advice = otherwise(bare_plan(None), 0.9, 2.0)
    words = "KO: measure N = 256 next, twice the pilot's largest, with 3 seeds."
    assert (advice.action, advice.sentence) == ("measure", words)
    assert (advice.n, advice.seeds, advice.chance, advice.cost) == (256, 3, None, 256.0)
    most = "No number of samples has a chance of 90%; the most is a little less."
    relied = "What N = 256 does reach is 0.03 (90% sure)."
    paid = "128 more samples than the pilot's 128 cost 256."
    assert advice.reasons == (most, relied, paid)


def test_at_the_largest_size_nothing_is_left_to_measure() -> None:
    advice = otherwise(bare_plan(None, last=LARGEST_N))
    words = "KO: not known how to reach 0.02: no larger N is planned for."
    assert (advice.action, advice.sentence) == ("unknown", words)
    assert advice.reasons[1] == "Ask for an easier target."
    nearly = otherwise(bare_plan(None, last=LARGEST_N - 1))
    assert (nearly.action, nearly.n) == ("measure", LARGEST_N)


@pytest.mark.parametrize(("goal", "n", "seeds"), [(0.5, 16, 4), (0.15, 64, 6), (0.06, 128, 3)])
def test_a_mean_that_meets_the_target_too_uncertainly_is_measured_again(
    goal: float, n: int, seeds: int
) -> None:
    """With twice its seeds, at least three, at the first size from which on all means meet it."""
    sizes, seeds_of = [16, 16, 32, 64, 64, 64, 128], ["1", "2", "1", "1", "2", "3", "1"]
    curve = kr.Curve(sizes, [0.4, 0.4, 0.2, 0.1, 0.1, 0.1, 0.05], seeds_of, "KO")
    plan = bare_plan(None, curve=curve, goal=goal, target=goal, met_in_pilot=True)
    advice = otherwise(plan, 0.9, 3.0)
    assert (advice.action, advice.n, advice.seeds) == ("measure", n, seeds)
    assert advice.sentence == (
        f"KO: measure N = {n} again, with {seeds} seeds: its mean meets {goal}, but the seeds "
        "measured so far give it a chance of 12%."
    )
    assert advice.cost == 0
    assert advice.reasons[-1] == "Nothing more has to be collected."


def test_prices_and_missing_numbers_are_sentences() -> None:
    assert price_of(None, 128, 2.0) == (None, "")
    assert price_of(300, 128, None) == (None, "")
    assert price_of(129, 128, 2.0) == (2.0, "1 more samples than the pilot's 128 cost 2.")
    assert price_of(128, 128, 2.0) == (0.0, "Nothing more has to be collected.")
    assert price_of(1500, 0, 2.0) == (3000.0, "1,500 more samples cost 3,000.")
    most = "No number of samples has a chance of 92.5%; the most is 80%."
    assert no_number(0.925, 0.8) == most
    assert no_number(0.9, 0.896).endswith("90%; the most is a little less.")
    words = check_words(Expectation(1024, 0.5, 0.25, 0.75))
    assert "Check it at N = 1,024: expect 0.5 (90%: 0.25 to 0.75); if not" in words
