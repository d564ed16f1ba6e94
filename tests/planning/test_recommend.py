"""Recommendations: one action with one number, which never contradicts the samples of the plan."""

import json
import math
import re
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import korisk as kr
from korisk.errors import UnreachableError
from korisk.planning import Longer, words
from korisk.planning.pilot import no_learning, shows_floor
from pilots import KnownLaw, known_forecast, known_plan, power_pilot, released_h8

N, MEANS = [16, 32, 64, 128], [0.4, 0.2, 0.1, 0.05]
PILOT = kr.Curve(N, MEANS, model="KO")  # falls as fast at its end, by single seeds
FLAT = kr.Curve(N, [0.05] * 4, model="KO")
BENT = kr.Curve(  # two seeds, and levels off
    np.repeat(N, 2), np.repeat([0.4, 0.2, 0.15, 0.14], 2) * np.tile([0.999, 1.001], 4), [1, 2] * 4
)
LONGER = Longer(n=128, factor=3, errors=[0.01, 0.012], before=[0.05, 0.05])
MEMORISED = kr.Curve(N, [0.9 * mean for mean in MEANS])  # training errors: data may not be it
DOUBT = "The curve cannot be extrapolated: Most seeds disagree."
SURE = (0.5, 0.7, 0.9, 0.95, 0.99)
RUN = "train N = 128 once with 3 times the steps"


# --- Laws ----------------------------------------------------------------------------------------


def drawn_pilot(draw: int) -> kr.Curve:
    """A pilot that falls, levels off, rests, rises, steps or collapses, with one to five seeds."""
    rng = np.random.default_rng(draw)
    n, seeds = 8 * 2 ** np.arange(int(rng.integers(3, 8))), int(rng.integers(1, 6))
    floor, rate = rng.choice([0.0, 0.02, 0.2, 0.9]), rng.uniform(0.1, 1.0)
    means = floor + (n / 8.0) ** -rate
    match draw % 6:
        case 4:
            means = means[::-1] if draw % 4 else np.full(len(n), 0.5)
        case 5:
            means[len(n) // 2 :] *= rng.choice([0.01, 1e-26])
    scatter = np.exp(rng.choice([0.0, 0.02, 0.3]) * rng.standard_normal((len(n), seeds)))
    errors = (means[:, None] * scatter).ravel()
    return kr.Curve(np.repeat(n, seeds), errors, [*range(seeds)] * len(n), "net")


@pytest.mark.parametrize("part", range(4))
def test_advice_never_contradicts_the_samples(part: int) -> None:
    """Two hundred plans of fifty drawn pilots, at every level; each action occurs."""
    actions = set()
    for draw in range(part, 52, 4):
        curve = drawn_pilot(draw)
        forecast = kr.forecast(curve)
        for factor in (1.4, 0.9, 0.5, 0.1):
            plan = forecast.plan(factor * float(curve.means[-1]))
            collects = []
            for sure in SURE:
                samples, advice = plan.samples(sure), plan.recommend(sure)
                actions.add(advice.action)
                collects.append(advice.action == "collect")
                assert (advice.sure, str(advice)) == (sure, advice.sentence)
                ends = (advice.even, advice.lower, advice.upper)
                assert ends[0] == plan.even
                if plan.doubt:
                    assert (samples, *ends, advice.reach) == (None,) * 5
                    assert math.isnan(plan.reach)
                    assert advice.action in ("unknown", "train")
                else:
                    plain = [end if math.isfinite(end) else None for end in plan.interval]
                    assert (list(ends[1:]), advice.reach) == (plain, plan.reach)
                    assert (samples is None) == (plan.reach < sure)
                if advice.n is not None:
                    assert f"{advice.n:,}" in advice.sentence
                if advice.action == "collect":
                    assert advice.n is not None
                    assert samples == advice.n <= 16 * plan.forecast.last
                    assert advice.chance == plan.probability(advice.n) >= sure
                    continue
                assert advice.reasons, "what stands against a number of samples"
                assert advice.chance is None
                denied = any("No number of samples" in reason for reason in advice.reasons)
                if samples is None:
                    assert denied == (advice.action == "measure")
                elif advice.action != "train":
                    assert advice.action == "measure", "more cannot be unlikely, or not known"
                    assert samples > 16 * plan.forecast.last
                    assert advice.reasons[0].startswith(f"{samples:,} samples would be enough")
                    assert not denied
                if advice.action == "stop":
                    assert plan.reach < 0.01
                    assert shows_floor(curve)
                elif advice.action == "unlikely":
                    assert plan.reach < 0.15
                elif advice.action == "measure":
                    twice = advice.n is not None and advice.n > plan.forecast.last
                    run = plan.limit is not None and plan.limit.next_run
                    assert plan.met_in_pilot or twice or (run and run in advice.sentence)
                assert (advice.seeds is None) == (advice.n is None)
            # What no N fulfils at one level is not to collect at a higher one.
            assert all(before >= after for before, after in pairwise(collects))
    assert {"collect", "measure", "unknown"} <= actions
    assert actions & {"stop", "unlikely"}


@pytest.mark.parametrize("floor", [0.4, 0.5, 0.6])
def test_what_is_met_at_sixteen_times_the_pilot_is_never_called_hopeless(floor: float) -> None:
    """Fifteen pilots of a floor c + a N^-b, and their true errors at 16 times the last N.

    In 0.3.0 three or four of each fifteen were told to stop.
    """
    for rate, draw in product((0.5, 0.7, 0.9, 1.1, 1.3), range(3)):
        scale, sizes = (1 - floor) * 16**rate, (16, 32, 64, 128, 256)
        curve = power_pilot(floor, scale, rate, noise=0.01, sizes=sizes, draw=draw)
        plan = kr.plan(curve, floor + scale * 4096**-rate)
        advice = plan.recommend()
        assert advice.action in ("measure", "unlikely", "collect")
        if advice.action == "unlikely":
            assert advice.reach == plan.reach < 0.15
            assert f"chance {words.chance(plan.reach)}" in advice.sentence
            assert "measure N = 512 with 3 seeds" in advice.sentence


@pytest.mark.parametrize(
    ("curve", "target"),
    [(released_h8("KO"), 0.003), (released_h8("KO"), 0.0022), (released_h8("FC"), 0.001),
     (BENT, 0.02), (FLAT, 0.02), (PILOT, 0.06), (PILOT, 0.001)],
)  # fmt: skip
def test_plain_values_agree_with_each_other(curve: kr.Curve, target: float) -> None:
    plan = kr.plan(curve, target)
    for sure in (0.8, 0.9, 0.925):
        content = json.loads(json.dumps(plan.to_dict(sure), allow_nan=False))
        advice, samples = content["recommendation"], content["samples"]
        assert advice == json.loads(json.dumps(plan.recommend(sure).to_dict()))
        for name, value in vars(plan.recommend(sure)).items():
            assert name == "limit" or advice[name] == (list(value) if name == "reasons" else value)
        assert samples == {f"{p:g}": plan.samples(p) for p in {0.5, 0.8, 0.9, 0.95, sure}}
        for name in ("even", "lower", "upper", "reach"):
            assert content[name] == advice[name]
        assert content["even"] == samples["0.5"]
        assert content["upper"] == samples["0.95"]
        assert advice["action"] != "collect" or advice["n"] == samples[f"{sure:g}"]
        counts = [math.inf if n is None else n for n in (samples[key] for key in sorted(samples))]
        assert counts == sorted(counts)
        for sentence in (advice["sentence"], advice["odds"], *advice["reasons"]):
            assert sentence in content["explanation"].replace("\n", " ")
        # No percentage in the explanation but those of the plan, and those that were asked for.
        odds = [plan.reach, plan.probability(advice["n"] or 2), advice["chance"] or 0, sure, 0.9]
        told = set(re.findall(r"(?:above |below )?[\d.]+%", f"{advice['sentence']}"))
        assert told <= {words.chance(p) for p in odds} | {f"{100 * sure:g}%"}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: kr.plan(PILOT, 0.02).recommend(sure=[0.8, 0.9]), "sure must be"),  # type: ignore[arg-type]
        (lambda: kr.plan(PILOT, 0.02).samples([0.9]), "sure must be"),  # type: ignore[arg-type]
        (lambda: kr.plan(PILOT, 0.02).recommend(sure=0.4), "ask for 0.9"),
        (lambda: kr.plan(PILOT, 0.02, related=None), "related must be a list of curves"),  # type: ignore[arg-type]
        (lambda: kr.plan(PILOT, 0.02, related=FLAT), "list"),  # type: ignore[arg-type]
        (lambda: kr.forecast(PILOT, related=FLAT), "list"),  # type: ignore[arg-type]
        (lambda: kr.forecast(PILOT, related=["simulated.csv"]), "be a Curve"),  # type: ignore[list-item]
        (lambda: kr.plan(PILOT, 0.02, longer=0.01), "longer must be"),  # type: ignore[arg-type]
        (lambda: kr.plan(PILOT, 0.02, training=[0.1]), "training must be"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_with_a_remedy(ask: Any, message: str) -> None:
    with pytest.raises(kr.KoriskError, match=message) as refusal:
        ask()
    assert ";" in str(refusal.value), "the remedy"


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="evidence"):
        kr.plan(PILOT, 0.02, evidence={})  # type: ignore[call-arg]


# --- Cases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("median", "facts"),
    [
        (3, "met already at N = 16, the smallest measured (90% sure)"),
        (60, "for 0.02 (90% sure). Do next: collect no more: the pilot has enough"),
        (200, "{n} samples are enough for 0.02 (90% sure). Do next: collect {more} more than"),
        (1300, "{n} samples are enough for 0.02 (90% sure). Do next: collect {more} more than"),
    ],
)
def test_what_to_collect(median: float, facts: str) -> None:
    plan = known_plan(PILOT, median)
    advice, n = plan.recommend(), max(16, math.ceil(median * math.exp(0.3 * ndtri(0.9))))
    assert (advice.action, advice.seeds) == ("collect", None)
    assert advice.n == pytest.approx(n, rel=0.01, abs=1)
    assert advice.n is not None
    assert facts.format(n=f"{advice.n:,}", more=f"{advice.n - 128:,}") in advice.sentence
    assert advice.sentence.startswith("KO: ")
    assert advice.limit is not None
    assert advice.limit.kind == "data"
    far = f"{advice.n:,} is {(advice.n or 0) / 128:.2g} times the pilot's largest N of 128."
    assert advice.reasons == ((far,) if median > 128 else ())
    assert "(92.5% sure)" in plan.recommend(0.925).sentence
    nameless = known_plan(kr.Curve(N, MEANS), median).recommend().sentence
    assert nameless == f"{advice.sentence[4].upper()}{advice.sentence[5:]}"


def test_numbers_are_recommended_up_to_sixteen_times_the_pilot_unless_data_does_not_help() -> None:
    at_most = 16 * 128 / math.exp(0.3 * ndtri(0.9))
    assert known_plan(PILOT, 0.99 * at_most).recommend().action == "collect"
    far = known_plan(PILOT, 1.01 * at_most)
    advice = far.recommend()
    assert (advice.action, advice.n, advice.seeds) == ("measure", 256, 3)
    assert f"{far.samples():,} samples would be enough" in advice.reasons[0]
    assert "more than 16 times" in advice.reasons[0]
    assert known_plan(PILOT, 200, known=(None, LONGER)).recommend().action == "train"
    met = known_plan(PILOT, 60, 0.06, known=(None, LONGER))
    assert met.recommend().action == "collect", "measured means are an answer, whatever limits it"
    assert known_plan(PILOT, 200, known=(MEMORISED, None)).recommend().action == "collect"


@pytest.mark.parametrize(("target", "easy"), [(4.0, False), (4.01, True)])
def test_a_target_ten_times_easier_than_all_is_questioned(target: float, easy: bool) -> None:
    reasons = known_plan(PILOT, 3, target).recommend().reasons
    assert (reasons != ()) == easy
    if easy:
        assert all(fact in reasons[0] for fact in ("from 0.4 on", "unit than 'error'?"))


def test_a_doubt_leaves_the_answer_unknown_with_what_would_tell() -> None:
    plan = known_plan(PILOT, 200, doubt=DOUBT)
    advice = plan.recommend()
    sentence = "KO: not known how many samples 0.02 needs: most seeds disagree. "
    sentence += "Do next: collect no more yet."
    assert (advice.action, advice.sentence, advice.odds) == ("unknown", sentence, "")
    assert plan.limit is not None
    remedy = "To find out, measure N = 256 and plan again."
    assert advice.reasons == (remedy,), "what cannot be extrapolated has no limit either"
    assert plan.lines()[0] == "\n".join(words.parts(sentence))
    run = known_plan(PILOT, 200, doubt=DOUBT, known=(MEMORISED, None)).recommend()
    assert run.reasons[0] == f"To find out, {RUN}."
    below_rounding = known_plan(PILOT, 200, 1e-19).recommend()
    assert below_rounding.reasons[0] == "Ask for an easier target."
    with pytest.raises(UnreachableError, match="most seeds disagree"):
        plan.require()
    assert not plan.recommend().helps


@pytest.mark.parametrize("curve", [PILOT, FLAT], ids=["falling", "flat"])
@pytest.mark.parametrize(("after", "meets"), [(0.02, True), (0.021, False)])
def test_training_comes_before_data(curve: kr.Curve, after: float, meets: bool) -> None:
    """A pilot without learning is told to train as well, where a longer run shows a gain."""
    longer = Longer(n=128, factor=2.5, errors=[after - 1e-3, after + 1e-3], before=[0.05, 0.05])
    plan = known_plan(curve, 200, reach=0.5, known=(None, longer))
    advice = plan.recommend()
    assert (advice.action, advice.n) == ("train", None)
    start = f"KO: at N = 128, 2.5 times the training gave {after:g}"
    assert advice.sentence.startswith(start)
    assert ("meets 0.02 without new samples" in advice.sentence) == meets
    assert ("plan again" in advice.sentence) != meets
    assert plan.limit is not None
    assert advice.reasons == (plan.limit.sentence,)
    assert plan.recommend().helps
    rising = known_plan(curve, 200, doubt=DOUBT, known=(None, longer))
    assert rising.recommend().action == "unknown"


def test_a_pilot_without_learning_shows_nothing() -> None:
    advice = known_plan(FLAT, 200).recommend()
    assert advice.action == "unknown"
    assert "the error does not improve with N in this pilot" in advice.sentence
    assert advice.reasons[0] == f"To find out, {RUN}."
    met = known_plan(FLAT, 3, 0.06).recommend()
    assert (met.action, met.n) == ("collect", 16)


@pytest.mark.parametrize(
    ("curve", "reach", "action"),
    [
        (BENT, 0.009, "stop"),
        (BENT, 0.011, "unlikely"),
        (BENT, 0.149, "unlikely"),
        (BENT, 0.151, "measure"),
        (PILOT, 0.009, "unlikely"),  # shows no floor
        (kr.Curve(N, [0.4, 0.2, 0.15, 0.14]), 0.009, "unlikely"),  # by single seeds
    ],
)
def test_stop_needs_a_floor_and_a_chance_below_one_percent(
    curve: kr.Curve, reach: float, action: str
) -> None:
    plan = known_plan(curve, 200, reach=reach, floor=0.1)
    advice = plan.recommend()
    assert advice.action == action
    chance = {0.011: "chance 1%", 0.149: "chance 15%"}.get(reach, "chance below 1%")
    assert (chance in advice.sentence) == (action != "measure")
    assert advice.reach == pytest.approx(reach)
    if action == "stop":
        assert (advice.n, advice.limit) == (None, None), "data cannot be what limits it"
        assert not advice.helps
        return
    assert (advice.n, advice.seeds) == (256, 3)
    assert plan.recommend().helps
    with pytest.raises(UnreachableError, match="N = 256"):
        plan.require()
    if action == "unlikely":
        assert advice.reasons == ("The error levels off at about 0.1.",)
        slow = known_plan(curve, 200, reach=reach, floor=0.01).recommend()
        assert slow.reasons == ("The error improves too slowly.",)


@pytest.mark.parametrize("reach", [0.05, 0.5])
def test_a_run_on_the_data_at_hand_comes_before_twice_the_largest_size(reach: float) -> None:
    plan = known_plan(PILOT, 200, reach=reach, known=(MEMORISED, None))
    advice = plan.recommend()
    assert (advice.n, advice.seeds) == (None, None)
    assert advice.action == ("unlikely" if reach < 0.15 else "measure")
    assert RUN in advice.sentence
    if advice.action == "measure":
        assert advice.sentence.endswith(f"Do next: {RUN} before more is collected for 0.02.")
        assert plan.limit is not None
        assert "at all is 50%" in advice.reasons[0]
        assert advice.reasons[1:] == (plan.limit.sentence,)
    direct = known_plan(PILOT, 200, reach=0.5).recommend()
    assert (direct.action, direct.n, direct.seeds, direct.chance) == ("measure", 256, 3, None)
    most, reached = direct.reasons
    assert "at all is 50%" in most
    assert reached.startswith("N = 256 reaches ")


@pytest.mark.parametrize(("sure", "model", "target"), [(0.8, "KO", 0.0022), (0.9, "FC", 0.0022)])
def test_what_the_next_size_does_reach_has_the_probability(
    sure: float, model: str, target: float
) -> None:
    plan = kr.plan(released_h8(model), target)
    advice = plan.recommend(sure)
    if advice.action == "measure":
        (there,) = [reason for reason in advice.reasons if " reaches " in reason]
        reached = float(there.split(" reaches ")[1].split()[0])
        chance = plan.forecast.plan(reached).probability(advice.n or 2)
        assert chance == pytest.approx(sure, abs=0.01)
    else:
        assert advice.action in ("unlikely", "stop", "collect")


@pytest.mark.parametrize(("target", "n", "seeds"), [(0.5, 16, 4), (0.15, 64, 6), (0.06, 128, 3)])
@pytest.mark.parametrize("longer", [None, LONGER])
def test_a_mean_that_meets_the_target_too_uncertainly_is_measured_again(
    target: float, n: int, seeds: int, longer: Longer | None
) -> None:
    """With twice its seeds, at least three, at the first size from which on all means meet it."""
    sizes, seeds_of = [16, 16, 32, 64, 64, 64, 128], ["1", "2", "1", "1", "2", "3", "1"]
    curve = kr.Curve(sizes, [0.4, 0.4, 0.2, 0.1, 0.1, 0.1, 0.05], seeds_of, "KO")
    plan = known_plan(curve, 200, target, reach=0.5, known=(None, longer))
    assert plan.met_in_pilot
    assert plan.samples() is None
    advice = plan.recommend()
    assert (advice.action, advice.n, advice.seeds) == ("measure", n, seeds)
    assert f"the mean at N = {n} meets {target}" in advice.sentence


def test_before_a_scan_a_first_measurement_checks_the_rehearsal() -> None:
    simulated = kr.Curve(N, MEANS, model="KO")
    forecast = known_forecast(simulated, KnownLaw(0.02 * 200), simulated=True)
    assert (forecast.basis, forecast.measured, forecast.last) == ("rehearsal", 0, 128)
    advice = forecast.plan(0.02).recommend()
    assert advice.action == "collect"
    assert "collect 16 samples first" in advice.sentence
    check = advice.reasons[-1]
    assert all(fact in check for fact in ("at N = 16", "noise", "images", "expect 0.25"))
    at_once = forecast.plan(0.8).recommend()
    assert "at most 16 samples are enough" in at_once.sentence
    assert "collect 16 samples first" in at_once.sentence
    far = known_forecast(simulated, KnownLaw(0.02 * 5000), simulated=True).plan(0.02)
    first = far.recommend()
    assert (first.action, first.seeds) == ("measure", 3)
    assert first.n == max(16, int(far.lower / 16)), "where the earliest plausible N is in range"
    stuck = known_forecast(simulated, KnownLaw(4.0, reach=0.5), simulated=True, undertrained=True)
    advice = stuck.plan(0.02).recommend()
    assert (advice.action, advice.n, advice.reasons) == ("train", None, ())


def test_odds_are_told_as_far_as_they_are_known() -> None:
    for reach, facts in ((1.0, 3), (0.9, 2), (0.3, 1), (0.03, 0)):
        advice = known_plan(PILOT, 400, reach=reach).recommend()
        numbers = [n for n in (advice.even, advice.lower, advice.upper) if n is not None]
        assert len(numbers) == facts
        assert all(f"{n:,}" in advice.odds for n in numbers)
        assert (advice.odds == "") == (facts == 0)
        assert ("or more" in advice.odds) == (facts == 2)
        assert ("at most 5%" in advice.odds) == (facts == 1)
        assert advice.explain().startswith(f"{advice.sentence} {advice.odds}".strip())


# --- What a pilot shows --------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 5])
def test_noise_is_rarely_taken_for_a_floor(seeds: int) -> None:
    """Power laws of several rates without a floor; bends of real ones are found."""
    shown = {"straight": 0, "bent": 0}
    for draw in range(40):
        rate = 0.2 + 0.02 * draw
        straight = power_pilot(floor=0.0, rate=rate, seeds=seeds, draw=draw)
        last = float(straight.means[-1])
        bent = power_pilot(floor=last, rate=max(rate, 0.5), seeds=seeds, draw=draw)
        shown["straight"] += shows_floor(straight)
        shown["bent"] += shows_floor(bent)
    assert shown["straight"] <= 4
    assert shown["bent"] >= 30


@pytest.mark.parametrize("seeds", [1, 3])
def test_flat_pilots_end_in_no_number(seeds: int) -> None:
    """Within two standard errors: 95% of them; the others rise or fall."""
    flat = 0
    for draw in range(20):
        scatter = np.exp(0.02 * np.random.default_rng(draw).standard_normal(4 * seeds))
        curve = kr.Curve(np.repeat(N, seeds), 0.1 * scatter, [*range(seeds)] * 4)
        plan = kr.plan(curve, 0.08)
        if no_learning(curve) and not plan.forecast.doubt:
            flat += 1
            assert plan.samples(0.5) is None
            assert plan.recommend().action == "unknown"
            explanation = plan.explain()
            assert all(fact in explanation for fact in ("training", "leak", "name its unit"))
            assert kr.plan(curve, 0.15).recommend().n == 16, "what was measured is answered"
    assert flat >= 17


@pytest.mark.parametrize(
    "errors",
    [
        [0.5, 0.3, 0.29, 0.3, 0.29],  # it fell, and is flat at its end
        [0.3, 0.3, 0.3, 0.3, 0.2],  # it falls late
        [0.5, 0.3, 0.2, 0.4, 0.42],  # double descent
    ],
)
def test_pilots_that_learn_somewhere_are_not_flat(errors: list[float]) -> None:
    assert not no_learning(kr.Curve([*N, 256], errors))
    # Nor where the first size scatters, and the noise of the others is small.
    scatter = np.array([0.4, 0.05, 0.02, 0.01, 0.01])[:, None] * np.array([-1.0, 0.0, 1.0])
    values = (np.array([0.3, 0.29, 0.25, 0.22, 0.2])[:, None] * (1 + scatter)).ravel()
    assert not no_learning(kr.Curve(np.repeat([*N, 256], 3), values, [1, 2, 3] * 5))
