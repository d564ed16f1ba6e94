"""A page's groups of curves: the target it opens with, its pairs, and the group it opens with."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.planning.compare import Crossing
from korisk.planning.targets import Group, main_group, telling, with_valid_targets
from pilots import known_plan

SIZES = [16, 32, 64, 128, 256]
LOWEST = 0.0123456
HIGH = [1.9, 0.9, 0.4, 0.2]  # far from every candidate of the first target
STRETCH = (0.8, 0.9, 0.95, 0.7, 0.6, 1.05, 1.2, 1.5, 2.0)  # candidates for one model, times the
NEARLY = (1.05, 1.02, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 3.0)  # lowest, and for several


def curves(models: int, low: float = LOWEST) -> tuple[kr.Curve, ...]:
    """Pilots whose two seeds agree exactly, so that no target is within their noise."""
    n, means, seeds = np.repeat(SIZES, 2), np.repeat([*HIGH, low], 2), ["0", "1"] * len(SIZES)
    return tuple(kr.Curve(n, means, seeds, f"M{index}", "mse") for index in range(models))


@pytest.fixture
def informative(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace plans by their targets, and say which of them are informative."""
    factors: list[float] = []

    def score(plan: SimpleNamespace) -> int:
        return int(any(abs(plan.goal / (factor * LOWEST) - 1) < 0.01 for factor in factors))

    def bare_plan(outlook: kr.Forecast, target: float, *_: object) -> SimpleNamespace:
        goal = float(outlook.unit.to_error(target))
        return SimpleNamespace(target=target, goal=goal, forecast=outlook)

    monkeypatch.setattr("korisk.planning.targets.Plan", bare_plan)
    monkeypatch.setattr("korisk.planning.targets.telling", score)
    return lambda *informative_factors: factors.extend(informative_factors)


def rounded_up(error: float) -> float:
    """Up to three digits."""
    step = 10.0 ** (math.floor(math.log10(error)) - 2)
    return float(f"{math.ceil(error / step) * step:.8g}")


@pytest.mark.parametrize(
    ("models", "factor", "preferred"),
    [(1, factor, STRETCH[: index + 1]) for index, factor in enumerate(STRETCH)]
    + [(2, factor, NEARLY[: index + 1]) for index, factor in enumerate(NEARLY)],
)
def test_of_equally_informative_targets_the_preferred_one_is_first(
    informative: Callable[..., None], models: int, factor: float, preferred: tuple[float, ...]
) -> None:
    """The last candidate of the order that is informative, and the first of two that are."""
    candidates = STRETCH if models == 1 else NEARLY
    informative(*[later for later in candidates if later not in preferred[:-1]])
    group = Group.of_curves("pilot", curves(models))
    change = f"{round(abs(100 * (factor - 1)))}% {'more' if factor > 1 else 'less'}"
    assert group.target == rounded_up(factor * LOWEST)
    assert group.why == f"{change} error than the lowest of M0"


def test_a_target_of_the_user_needs_no_reason(informative: Callable[..., None]) -> None:
    group = Group.of_curves("pilot", curves(1), requested=0.3)
    assert (group.target, group.why) == (0.3, "")
    assert [plan.target for plan in group.plans] == [0.3]


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("distance", "factor"), [(0.078, 0.8), (0.082, 1.2)])
def test_two_standard_errors_from_a_mean_matter_more_than_the_information(
    informative: Callable[..., None], side: int, distance: float, factor: float
) -> None:
    """Single seeds are taken to deviate by 4%: 8% on either side of a mean are too near."""
    informative(1.2)
    near = rounded_up(1.2 * LOWEST) * math.exp(side * distance)
    group = Group.of_curves("pilot", (kr.Curve(SIZES, [*HIGH[:3], near, LOWEST], model="KO"),))
    assert group.target == rounded_up(factor * LOWEST)


def test_the_noise_of_the_seeds_says_what_is_near(informative: Callable[..., None]) -> None:
    """Seeds that agree exactly are no noise: a target next to their mean is clear of it."""
    informative(1.2)
    near = rounded_up(1.2 * LOWEST) * math.exp(0.001)
    means = np.array([*HIGH[:3], near, LOWEST])
    twice, seeds = np.repeat(SIZES, 2), ["0", "1"] * 5
    equal = kr.Curve(twice, np.repeat(means, 2), seeds, "KO")
    assert Group.of_curves("pilot", (equal,)).target == rounded_up(1.2 * LOWEST)
    scattered = kr.Curve(twice, np.repeat(means, 2) * np.tile([0.9, 1.1], 5), seeds)
    assert Group.of_curves("pilot", (scattered,)).target != rounded_up(1.2 * LOWEST)


def test_of_several_models_every_mean_counts_and_two_inform(
    informative: Callable[..., None],
) -> None:
    informative(1.3)
    first, second, third = curves(3)
    assert Group.of_curves("pilot", (first, second, third)).target == rounded_up(1.3 * LOWEST)
    near = rounded_up(1.3 * LOWEST)
    noisy = kr.Curve(SIZES, [*HIGH[:3], near, LOWEST], model="M2")
    group = Group.of_curves("pilot", (first, second, noisy))
    assert group.target == rounded_up(1.1 * LOWEST)
    assert group.complete
    assert group.told == [0, 0]


def test_errors_at_rounding_are_not_the_lowest(informative: Callable[..., None]) -> None:
    curve = kr.Curve([*SIZES, 512], [*HIGH, LOWEST, 1e-15], model="KO")
    assert Group.of_curves("pilot", (curve,)).target == rounded_up(0.8 * LOWEST)


@pytest.mark.parametrize(("unit", "digits"), [("psnr", 4), ("accuracy", 8), ("rmse", 8)])
def test_the_first_target_is_rounded_in_the_users_unit(
    informative: Callable[..., None], unit: str, digits: int
) -> None:
    errors = np.array([0.9, 0.7, 0.4, 0.2, LOWEST])
    convert = kr.curves.UNITS[unit].from_error
    group = Group.of_curves("pilot", (kr.Curve(SIZES, convert(errors), unit=unit),))
    assert group.target == float(f"{float(convert(rounded_up(0.8 * LOWEST))):.{digits}g}")


@pytest.mark.parametrize(
    ("values", "score"),
    [
        ({"reach": 0.149}, 0),
        ({"doubt": "It rises."}, 0),
        ({"median": 8.0, "spread": 0.01}, 1),
        ({"target": 0.3, "median": 60.0, "doubt": "It rises."}, 3),  # met inside the pilot
        ({"reach": 0.9}, 3),
        ({}, 4),
    ],
)
def test_a_plan_informs_most_with_a_bounded_interval_and_no_doubt(
    values: dict[str, Any], score: int
) -> None:
    pilot = kr.Curve(SIZES, [*HIGH, LOWEST])
    assert telling(known_plan(pilot, **{"median": 400.0, "target": 0.01} | values)) == score


def test_a_page_opens_with_the_last_of_the_most_informative_groups() -> None:
    """Complete groups of several models come first, where there are any."""

    def group(models: int, told: list[int], complete: bool = True) -> Any:
        return SimpleNamespace(forecasts=(None,) * models, told=told, complete=complete)

    def opening(groups: list[Any]) -> Any:
        return main_group(groups)

    none, alone, pair, last = group(0, []), group(1, [4]), group(2, [1, 3]), group(2, [2, 2])
    best, partial = group(3, [3, 2]), group(2, [4, 4], complete=False)
    assert opening([none, alone, pair, last]) is last
    assert opening([best, none, alone, pair, last, partial]) is best
    assert opening([partial, alone]) is partial
    assert opening([none, alone]) is alone
    assert opening([group(1, [4]), alone, group(1, [4], complete=False)]) is alone
    assert opening([none]) is None


def test_an_impossible_target_is_refused_by_the_group_it_does_not_suit() -> None:
    error, score = curves(1), (kr.Curve(SIZES, [0.2, 0.4, 0.6, 0.7, 0.8], unit="accuracy"),)
    groups = [
        Group.of_curves("a", error, requested=3.0),
        Group.of_curves("b", score, requested=3.0),
        Group.of_curves("c", error),
    ]
    allowed, refused = with_valid_targets(groups)
    assert [group.requested for group in allowed] == [3.0, None, None]
    assert [group.name for group in allowed] == ["a", "b", "c"]
    assert len(refused) == 1
    assert refused[0].startswith("b: target must be below 1")
    assert refused[0].endswith(".")
    with pytest.raises(kr.KoriskError, match=r"^b: target must be below 1.*[^.]$"):
        with_valid_targets(groups[1:2])
    with pytest.raises(kr.KoriskError, match=r"^b: target"):
        with_valid_targets([groups[1], groups[1]])
    assert with_valid_targets([]) == ([], [])


class BarePair:
    """A comparison that records what it compares."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second, self.target = first, second, first.target
        names = [plan.forecast.model for plan in (first, second)]
        self.crossing = Crossing(None, None, "".join(names), 256, 5)
        self.saving = lambda: " ".join([*names, str(second.target)])
        self.record = "Held."

    @property
    def likely(self) -> bool:
        return bool(self.target > 0.1)


STOPS = [1.7, 0.8, 0.5, 0.25, 0.12, 0.06, 0.03, 0.02]


@pytest.fixture
def bare_pairs(monkeypatch: pytest.MonkeyPatch, informative: Callable[..., None]) -> None:
    """Compare nothing: plans, stops and crossings are stand-ins."""

    def stops(_: Any, first: float) -> list[float]:
        return sorted([*STOPS, first], reverse=True)

    monkeypatch.setattr("korisk.planning.targets._stops", stops)
    monkeypatch.setattr("korisk.planning.targets.Comparison", BarePair)


@pytest.mark.parametrize(
    ("models", "pairs"),
    [
        (1, []),
        (2, [(0, 1)]),
        (4, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
        (5, [(0, 1), (0, 2), (0, 3), (0, 4)]),
        (13, [(0, second) for second in range(1, 13)]),
        (15, [(0, second) for second in range(1, 13)]),
    ],
)
def test_all_pairs_of_four_models_are_compared_and_of_more_the_first_with_twelve(
    bare_pairs: None, models: int, pairs: list[tuple[int, int]]
) -> None:
    group = Group.of_curves("pilot", curves(models))
    compared = group.pairs()
    assert [(pair["first"], pair["second"]) for pair in compared] == pairs
    stops = sorted([*STOPS, group.target], reverse=True)
    for pair in compared:
        names = f"M{pair['first']} M{pair['second']}"
        # The first pair at every stop, others at every fourth, and all at the first target.
        every = stops
        if (pair["first"], pair["second"]) != (0, 1):
            every = sorted({*stops[::4], group.target}, reverse=True)
        assert [stops[stop] for stop in pair["stops"]] == every
        assert pair["savings"] == [f"{names} {target}" for target in every]
        assert pair["likely"] == [target > 0.1 for target in every]
        assert f"M{pair['first']}M{pair['second']} is better" in pair["crossover"]
        assert pair["records"] == ["Held."] * len(every)


def test_short_curves_have_no_forecast_and_the_group_says_so() -> None:
    two = kr.Curve([4, 8], [1.0, 0.5], model="two")
    single = kr.Curve([4], [1.0], model="single")
    three = kr.Curve([4, 8, 16], [1.0, 0.5, 0.25], model="three")
    group = Group.of_curves("pilot", (two, three, single))
    assert group.short == (two, single)
    assert [outlook.curve for outlook in group.forecasts] == [three]
    for number, curves_of in (("2 training set sizes", (two, single)), ("1 training", (single,))):
        sentence = Group.of_curves("pilot", curves_of).sentence
        assert sentence.startswith(number)
        assert "3 are needed" in sentence
    assert Group.of_curves("pilot", (single,)).why == ""


def test_the_sentence_answers_for_one_model_or_compares_two() -> None:
    means = [0.2, 0.1, 0.05, 0.025, 0.0125]
    first = kr.Curve(SIZES, means, model="KO", metric="mse")
    second = kr.Curve(SIZES, [4 * mean for mean in means], model="FC", metric="mse")
    alone = Group.of_curves("pilot", (first,))
    assert alone.comparison is None
    assert alone.told == [4]
    advice = kr.plan(first, 0.01).recommend()
    told = f"{advice.sentence} {advice.odds}"
    assert alone.sentence == f"{told} (mse 0.01, 20% less error than the lowest of KO)"
    both = Group.of_curves("pilot", (first, second), requested=0.02)
    assert both.told == [4, 4]
    assert both.comparison is not None
    assert both.sentence == f"{kr.compare(first, second, 0.02).saving()} (mse 0.02)"
    bare = kr.Curve(SIZES, means, model="KO")
    assert Group.of_curves("pilot", (bare,), requested=0.01).sentence.endswith(" (error 0.01)")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("models", [1, 2])
def test_the_first_target_lies_outside_the_noise_of_what_was_measured(
    seed: int, models: int
) -> None:
    """Not within two standard errors of a mean: there, chance decides which side it is on."""
    rng = np.random.default_rng(seed)
    n, curves = np.array([8, 16, 32, 64, 128]), []
    for model in ("KO", "FC")[:models]:
        floor, rate, noise = rng.uniform(0, 0.5), rng.uniform(0.3, 1.2), rng.uniform(0.02, 0.15)
        means = floor + (1 - floor) * (n / 8.0) ** -rate
        errors = means[:, None] * np.exp(noise * rng.standard_normal((5, 4)))
        names = [*range(4)] * 5
        curves.append(kr.Curve(np.repeat(n, 4), errors.ravel(), names, model))
    group = Group.of_curves("pilot", tuple(curves))
    for curve in curves:
        deviations = curve.deviations / np.sqrt(curve.counts)
        # The planner draws each spread toward its neighbours', so that two may come to be one.
        assert np.all(np.abs(curve.means - group.target) > deviations)
