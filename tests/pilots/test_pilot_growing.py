"""Pilots that go on by themselves: when they end, what they say, and that they can be resumed."""

from pathlib import Path
from typing import Any

import pytest
from pilot_fits import power

import korisk as kr
from korisk.pilots import Limits

SIZES = [16, 32, 64, 128]


class Counting:
    """A fit that keeps its calls, and fails above a size, at one size, or at one call."""

    __qualname__ = "Counting"

    def __init__(self, fails_above: float = 1e9, fails_at: int = 0, stops: int = -1) -> None:
        self.calls: list[tuple[int, int]] = []
        self.fails_above, self.fails_at, self.stops = fails_above, fails_at, stops

    def __call__(self, n: int, seed: int) -> float:
        if len(self.calls) == self.stops:
            self.stops = -1
            raise KeyboardInterrupt
        self.calls.append((n, seed))
        if n > self.fails_above or n == self.fails_at:
            raise MemoryError
        return power(n, seed)


def test_it_doubles_the_largest_size_until_the_answer_is_narrow(tmp_path: Path) -> None:
    fit = Counting()
    options: dict[str, Any] = {"target": 0.045, "limits": Limits(largest=600)}
    options["store"] = tmp_path / "p.db"
    pilot = kr.run_pilot(fit, SIZES, 3, **options)
    plan = pilot.plan()
    assert plan.upper <= 2 * plan.lower
    assert pilot.stopped.startswith("the answer is narrow enough: between N = ")
    added = list(dict.fromkeys(n for n, _ in fit.calls[12:]))
    assert added
    known = list(SIZES)
    for n in added:
        before = kr.run_pilot(power, known, 3)
        assert n == before.next_n == 2 * known[-1]
        assert before.plan(0.045).upper > 2 * before.plan(0.045).lower
        known.append(n)
    assert pilot.curve.sizes.tolist() == known
    made = len(fit.calls)
    again = kr.run_pilot(fit, SIZES, 3, **options)
    assert len(fit.calls) == made  # nothing was fitted again,
    assert (again.stopped, again.curve) == (pilot.stopped, pilot.curve)  # and nothing changed
    assert str(again) == str(pilot)


def test_an_interrupted_round_is_taken_up_again(tmp_path: Path) -> None:
    fit = Counting(stops=14)
    options: dict[str, Any] = {"target": 0.045, "model": "m"}
    options["limits"] = Limits(largest=2000)
    with pytest.raises(KeyboardInterrupt):
        kr.run_pilot(fit, SIZES, 3, store=tmp_path / "p.db", **options)
    resumed = kr.run_pilot(fit, SIZES, 3, store=tmp_path / "p.db", **options)
    calm = kr.run_pilot(power, SIZES, 3, **options)
    assert (resumed.curve, resumed.stopped) == (calm.curve, calm.stopped)
    assert len(fit.calls) == len(calm.curve)  # each fit once


def test_narrow_enough_is_what_the_user_says() -> None:
    plan = kr.run_pilot(power, SIZES, 3).plan(0.058)
    spans = plan.upper / plan.lower
    content, greedy = (
        kr.run_pilot(
            power,
            SIZES,
            3,
            target=0.058,
            limits=Limits(largest=150, narrow_enough=share * spans),
        )
        for share in (1.001, 0.999)
    )
    assert content.curve.sizes.tolist() == SIZES
    assert greedy.curve.sizes.tolist() == [*SIZES, 150]


def test_a_target_that_the_means_meet_needs_no_larger_size() -> None:
    limits = Limits(largest=5000, narrow_enough=1.0001)
    pilot = kr.run_pilot(power, SIZES, 3, target=0.07, limits=limits)
    assert pilot.stopped == "the measured mean at N = 128 meets the target"
    assert pilot.curve.sizes.tolist() == SIZES


def test_it_ends_where_nothing_is_left_to_measure_or_to_spend() -> None:
    near = Limits(largest=200, narrow_enough=1.01)
    pilot = kr.run_pilot(power, SIZES, 2, target=0.03, limits=near)
    assert pilot.stopped == "no size up to N = 200 is left to measure"
    assert (pilot.curve.sizes[-1], pilot.next_n) == (200, None)
    fit = Counting()
    few = Limits(grow=True, most_fits=11, narrow_enough=1.01)
    limited = kr.run_pilot(fit, SIZES, 2, target=0.03, limits=few)
    assert (len(fit.calls), limited.stopped) == (10, "another size would be more than 11 fits")


def test_the_budget_counts_seconds_of_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("korisk.store.usage.time.perf_counter", lambda: clock[0])

    def slow(n: int, seed: int) -> float:
        clock[0] += 10.0
        if n == 32:
            raise ValueError("costs time too")
        return power(n, seed)

    for _ in range(2):  # the second goes on with the same store, and has no more to spend
        pilot = kr.run_pilot(slow, SIZES, 2, limits=Limits(budget=55), store=tmp_path / "p.db")
        assert pilot.stopped == "the budget of 55 s of fitting is spent (60 s)"
        assert (pilot.curve.sizes.tolist(), pilot.seconds) == ([16, 64], 60.0)
    assert clock[0] == 60.0


def test_it_says_when_it_cannot_go_on() -> None:
    pilot = kr.run_pilot(
        Counting(fails_above=32), SIZES, 2, target=0.03, limits=Limits(largest=1000)
    )
    assert pilot.stopped == "too few sizes gave an error to continue: 2, and 3 are needed"
    wrong = kr.run_pilot(power, SIZES, 2, target=4.5, limits=Limits(largest=1000))
    assert wrong.stopped.startswith("there is no plan for the target: target 4.5 is worse than")
    far = kr.run_pilot(
        lambda n, s: (0.05 + 1 / n) * (1 + 0.01 * s),
        SIZES,
        3,
        target=0.03,
        limits=Limits(largest=1000),
    )
    assert far.stopped == "the target will not be reached (chance below 1%)"


def test_sizes_above_one_that_always_fails_are_not_tried() -> None:
    fit = Counting(fails_above=300)
    pilot = kr.run_pilot(
        fit, SIZES, 2, target=0.025, limits=Limits(largest=5000, narrow_enough=1.01)
    )
    assert [n for n, _ in fit.calls[8::2]] == [256, 512]
    assert pilot.stopped == "no size up to N = 511 is left to measure"


def test_nothing_that_failed_is_measured_next_nor_anything_beyond() -> None:
    fit = Counting(fails_above=100)
    pilot = kr.run_pilot(fit, [16, 32, 64, 256, 512], 3, target=0.05)
    assert (pilot.too_large, pilot.next_n) == (256, 128)
    grown = kr.run_pilot(fit, [16, 32, 64, 101], 2, target=0.05)
    assert grown.next_n is None


def test_a_larger_end_takes_up_all_that_was_measured(tmp_path: Path) -> None:
    fit = Counting()
    options: dict[str, Any] = {"target": 0.03, "store": tmp_path / "p.db"}
    first = kr.run_pilot(fit, SIZES, 2, limits=Limits(largest=200, narrow_enough=1.01), **options)
    assert 200 in first.curve.sizes
    before = len(fit.calls)
    second = kr.run_pilot(fit, SIZES, 2, limits=Limits(largest=300, narrow_enough=1.01), **options)
    new = set(second.curve.sizes) - set(first.curve.sizes)
    assert set(first.curve.sizes) < set(second.curve.sizes)
    assert 300 in new
    assert len(fit.calls) == len(second.fits) == before + 2 * len(new)
    third = kr.run_pilot(
        fit, SIZES, 3, limits=Limits(largest=200, narrow_enough=1.01), **options
    )  # another seed: they are filled up
    assert third.curve.sizes.tolist() == first.curve.sizes.tolist()
    assert set(third.curve.counts) == {3}
    made = len(fit.calls)
    kr.run_pilot(
        fit, SIZES, 4, limits=Limits(largest=200, most_fits=17, narrow_enough=1.01), **options
    )
    assert len(fit.calls) == made + len(SIZES)  # 16 fits, and another size would be 20


def test_a_small_chance_is_no_reason_to_end() -> None:
    start = kr.run_pilot(power, SIZES, 3)
    harder = (0.03 * 0.9**step for step in range(60))
    target = next(each for each in harder if start.plan(each).even is None)
    assert start.plan(target).reach > 0.05
    pilot = kr.run_pilot(power, SIZES, 3, target=target, limits=Limits(largest=150))
    assert len(pilot.curve.sizes) > len(SIZES)
