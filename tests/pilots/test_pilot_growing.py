"""Pilots that go on by themselves: when they end, what they say, and that they can be resumed."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pilot_fits import power

import korisk as kr
from korisk.planning.next_size import next_size, open_sizes

SIZES = [16, 32, 64, 128]


@pytest.fixture
def largest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheap suggestion, where it does not matter which one: the largest candidate."""

    def chosen(curve: kr.Curve, target: float, *, candidates: list[int], **rest: Any) -> Any:
        return SimpleNamespace(n=max(candidates))

    monkeypatch.setattr("korisk.pilots.run.next_size", chosen)


def counting(calls: list[tuple[int, int]]) -> Callable[[int, int], float]:
    def fit(n: int, seed: int) -> float:
        calls.append((n, seed))
        return power(n, seed)

    return fit


def test_it_ends_when_the_answer_is_narrow_enough_and_takes_the_suggested_sizes(
    tmp_path: Path,
) -> None:
    calls: list[tuple[int, int]] = []
    options: dict[str, Any] = {"target": 0.045, "largest": 600, "store": tmp_path / "p.db"}
    pilot = kr.run_pilot(counting(calls), SIZES, 3, **options)
    plan = pilot.plan()
    assert plan.upper <= 2 * plan.lower
    assert pilot.stopped.startswith("the answer is narrow enough: between N = ")
    added = list(dict.fromkeys(n for n, _ in calls[12:]))
    assert added
    known = list(SIZES)
    for n in added:  # each is what a plan of the sizes before would suggest
        before = kr.run_pilot(power, sorted(known), 3)
        offered = open_sizes(before.curve, 600)
        assert n == next_size(before.curve, 0.045, candidates=offered, seeds=3).n
        assert before.plan(0.045).upper > 2 * before.plan(0.045).lower
        known.append(n)
    assert pilot.curve.sizes.tolist() == sorted(known)

    made = len(calls)
    again = kr.run_pilot(counting(calls), SIZES, 3, **options)
    assert len(calls) == made  # nothing was fitted again,
    assert (again.stopped, again.curve) == (pilot.stopped, pilot.curve)  # and nothing changed
    assert str(again) == str(pilot)


@pytest.mark.usefixtures("largest_first")
def test_an_interrupted_round_is_taken_up_again(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    fit = counting(calls)

    def fragile(n: int, seed: int) -> float:
        if len(calls) == 14:
            calls.append((0, 0))
            raise KeyboardInterrupt
        return fit(n, seed)

    options: dict[str, Any] = {"target": 0.045, "largest": 2000, "model": "m"}
    with pytest.raises(KeyboardInterrupt):
        kr.run_pilot(fragile, SIZES, 3, store=tmp_path / "p.db", **options)
    resumed = kr.run_pilot(fragile, SIZES, 3, store=tmp_path / "p.db", **options)
    calm = kr.run_pilot(power, SIZES, 3, **options)
    assert (resumed.curve, resumed.stopped) == (calm.curve, calm.stopped)
    assert sum(call != (0, 0) for call in calls) == len(calm.curve)  # each fit once


@pytest.mark.usefixtures("largest_first")
def test_narrow_enough_is_what_the_user_says() -> None:
    target = 0.07  # met within the pilot, so that the interval has an end
    plan = kr.run_pilot(power, SIZES, 3).plan(target)
    spans = plan.upper / plan.lower
    assert spans > 1.01
    options: dict[str, Any] = {"target": target, "largest": 150}
    content = kr.run_pilot(power, SIZES, 3, narrow_enough=1.001 * spans, **options)
    assert content.curve.sizes.tolist() == SIZES
    greedy = kr.run_pilot(power, SIZES, 3, narrow_enough=0.999 * spans, **options)
    assert len(greedy.curve.sizes) > len(SIZES)


@pytest.mark.usefixtures("largest_first")
def test_it_ends_where_nothing_is_left_to_measure() -> None:
    pilot = kr.run_pilot(power, SIZES, 2, target=0.03, largest=200, narrow_enough=1.01)
    assert pilot.stopped == "no size up to N = 200 is left to measure"
    assert pilot.curve.sizes[-1] == 200
    assert set(open_sizes(pilot.curve, 200)) == set()


@pytest.mark.usefixtures("largest_first")
def test_it_ends_with_the_number_of_fits() -> None:
    calls: list[tuple[int, int]] = []
    pilot = kr.run_pilot(
        counting(calls), SIZES, 2, target=0.03, grow=True, most_fits=11, narrow_enough=1.01
    )
    assert len(calls) == 10
    assert pilot.stopped == "another size would be more than 11 fits"


def test_the_budget_counts_seconds_of_fitting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("korisk.studies.run.usage.time.perf_counter", lambda: clock[0])

    def slow(n: int, seed: int) -> float:
        clock[0] += 10.0
        if n == 32:
            raise ValueError("costs time too")
        return power(n, seed)

    for _ in range(2):  # the second goes on with the same store, and has no more to spend
        pilot = kr.run_pilot(slow, SIZES, 2, budget=55, store=tmp_path / "p.db")
        assert pilot.stopped == "the budget of 55 s of fitting is spent (60 s)"
        assert pilot.curve.sizes.tolist() == [16, 64]
        assert pilot.seconds == 60.0
    assert clock[0] == 60.0


@pytest.mark.usefixtures("largest_first")
def test_it_says_when_it_cannot_go_on() -> None:
    def fails(n: int, seed: int) -> float:
        if n > 32:
            raise MemoryError
        return power(n, seed)

    pilot = kr.run_pilot(fails, SIZES, 2, target=0.03, largest=1000)
    assert pilot.stopped == "too few sizes gave an error to continue: 2, and 3 are needed"
    wrong = kr.run_pilot(power, SIZES, 2, target=4.5, largest=1000)
    assert wrong.stopped.startswith("there is no plan for the target: target 4.5 is worse than")
    far = kr.run_pilot(lambda n, s: 0.5 + power(n, s) / 50, SIZES, 3, target=0.1, largest=1000)
    assert far.stopped.startswith("the target is hardly reachable: a probability of ")


@pytest.mark.usefixtures("largest_first")
def test_sizes_above_one_that_always_fails_are_not_tried() -> None:
    calls: list[tuple[int, int]] = []
    fit = counting(calls)

    def fails(n: int, seed: int) -> float:
        value = fit(n, seed)
        if n > 300:
            raise MemoryError
        return value

    pilot = kr.run_pilot(fails, SIZES, 2, target=0.025, largest=5000, narrow_enough=1.01)
    tried = list(dict.fromkeys(n for n, _ in calls[8:]))
    large = [n for n in tried if n > 300]
    assert large == sorted(large, reverse=True)
    assert pilot.stopped == f"no size up to N = {large[-1] - 1:,} is left to measure"


def test_costs_steer_where_it_goes() -> None:
    dear: dict[str, Any] = {"target": 0.04, "largest": 512, "most_fits": 8}
    free = kr.run_pilot(power, SIZES[1:], 2, **dear)
    paid = kr.run_pilot(power, SIZES[1:], 2, **dear, cost=lambda n: n**4)
    assert max(paid.curve.sizes) < max(free.curve.sizes)


def test_the_suggestion_of_a_pilot() -> None:
    pilot = kr.run_pilot(power, SIZES[1:], 3, largest=300, target=0.045, most_fits=9)
    assert pilot.next_size is not None
    assert pilot.next_size.seeds == 3
    asked = pilot.suggest(0.05)
    assert asked == next_size(pilot.curve, 0.05, largest=300)
    assert asked.candidates[-1].n == 300
    assert f"Measure N = {asked.n:,} next, with 3 seeds" in str(asked)
    open_ended = kr.run_pilot(power, SIZES[1:], 2)
    with pytest.raises(kr.KoriskError, match="suggest needs a target"):
        open_ended.suggest()
    assert open_ended.next_size is not None  # for the error that it reaches at four times its N


def test_nothing_that_failed_is_suggested_nor_anything_beyond() -> None:
    def fails(n: int, seed: int) -> float:
        if n == 23 or n > 100:
            raise MemoryError
        return power(n, seed)

    pilot = kr.run_pilot(fails, [16, 23, 32, 64, 256, 512], 3, target=0.05)
    assert pilot.too_large == 256
    assert pilot.next_size is not None
    assert [each.n for each in pilot.next_size.candidates] == [45, 91, 128, 181]
    grown = kr.run_pilot(fails, [16, 32, 64, 101], 2, target=0.05, largest=101, narrow_enough=1.01)
    assert grown.stopped == "no size up to N = 100 is left to measure"
    assert grown.next_size is None


@pytest.mark.usefixtures("largest_first")
def test_a_larger_end_takes_up_all_that_was_measured(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    options: dict[str, Any] = {"target": 0.03, "narrow_enough": 1.01, "store": tmp_path / "p.db"}
    fit = counting(calls)
    first = kr.run_pilot(fit, SIZES, 2, largest=200, **options)
    assert 200 in first.curve.sizes
    before = len(calls)
    second = kr.run_pilot(fit, SIZES, 2, largest=300, **options)
    assert set(first.curve.sizes) < set(second.curve.sizes)
    assert 300 in second.curve.sizes
    assert (
        len(calls)
        == len(second.fits)
        == before + 2 * len(set(second.curve.sizes) - set(first.curve.sizes))
    )
    third = kr.run_pilot(fit, SIZES, 3, largest=200, **options)  # another seed: they are filled up
    assert third.curve.sizes.tolist() == first.curve.sizes.tolist()
    assert set(third.curve.counts) == {3}
    made = len(calls)
    kr.run_pilot(fit, SIZES, 4, largest=200, most_fits=17, **options)
    assert len(calls) == made + len(SIZES)  # 16 fits, and another size would be 20


@pytest.mark.usefixtures("largest_first")
def test_a_small_chance_is_no_reason_to_end() -> None:
    start = kr.run_pilot(power, SIZES, 3)
    harder = (0.03 * 0.97**step for step in range(60))
    target = next(each for each in harder if start.plan(each).samples is None)
    assert start.plan(target).reach > 0.05
    pilot = kr.run_pilot(power, SIZES, 3, target=target, largest=150)
    assert len(pilot.curve.sizes) > len(SIZES)
