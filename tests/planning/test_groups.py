"""A page's groups of curves: the target it opens with, its pairs, and the group it opens with."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.planning.targets import Group, main_group, with_valid_targets

SIZES = [16, 32, 64, 128, 256]
LOWEST = 0.0123456
HIGH = [0.2, 0.1, 0.05, 0.025]


def curves(models: int, low: float = LOWEST) -> tuple[kr.Curve, ...]:
    """Pilots that halve their error with every doubling of N."""
    return tuple(kr.Curve(SIZES, [*HIGH, low], model=f"M{index}") for index in range(models))


def test_one_model_opens_with_less_error_than_it_has_and_several_with_a_little_more() -> None:
    alone, pair = (Group.of_curves("pilot", curves(models)) for models in (1, 2))
    assert (alone.target, alone.why) == (0.00988, "20% less error than the lowest of M0")
    assert (pair.target, pair.why) == (0.013, "5% more error than the lowest of M0")
    for group in (alone, pair):
        assert [plan.target for plan in group.plans] == [group.target] * len(group.forecasts)
        assert all(plan.even is not None for plan in group.plans)


def test_a_target_without_a_number_gives_way_to_one_that_was_reached() -> None:
    levels_off = np.repeat(0.2 + 0.8 / np.array(SIZES), 2) * np.tile([0.999, 1.001], 5)
    flat = kr.Curve(np.repeat(SIZES, 2), levels_off, ["0", "1"] * 5, "M0")
    rises = kr.Curve(SIZES, [0.1, 0.12, 0.15, 0.2, 0.3], model="M0")
    for curve in (flat, rises):
        group = Group.of_curves("pilot", (curve,))
        assert group.target == pytest.approx(1.05 * curve.means.min(), rel=0.005)
        assert group.why == "5% more error than the lowest of M0"
    assert Group.of_curves("pilot", (flat,)).plans[0].even is not None


def test_a_target_of_the_user_needs_no_reason() -> None:
    group = Group.of_curves("pilot", curves(1), requested=0.3)
    assert (group.target, group.why) == (0.3, "")
    assert [plan.target for plan in group.plans] == [0.3]


def test_errors_at_rounding_are_not_the_lowest() -> None:
    curve = kr.Curve([*SIZES, 512], [*HIGH, LOWEST, 1e-18], model="KO")
    assert Group.of_curves("pilot", (curve,)).target == 0.00988


@pytest.mark.parametrize(
    ("unit", "target"), [("psnr", 20.05), ("accuracy", 0.99012), ("rmse", 0.0994)]
)
def test_the_first_target_is_rounded_in_the_users_unit(unit: str, target: float) -> None:
    convert = kr.curves.UNITS[unit].from_error
    group = Group.of_curves("pilot", (kr.Curve(SIZES, convert([*HIGH, LOWEST]), unit=unit),))
    assert group.target == target


def test_a_page_opens_with_the_last_group_that_is_complete_and_compares_models() -> None:
    def group(models: int, complete: bool = True) -> Any:
        return SimpleNamespace(forecasts=(None,) * models, complete=complete)

    def opening(groups: list[Any]) -> Any:
        return main_group(groups)

    none, alone, pair, last = group(0), group(1), group(2), group(3)
    partial, single = group(2, complete=False), group(1, complete=False)
    assert opening([none, pair, last, alone]) is last
    assert opening([last, pair, alone, partial]) is pair
    assert opening([partial, alone]) is partial
    assert opening([none, alone, single]) is alone
    assert opening([none]) is None


def test_an_impossible_target_is_refused_by_the_group_it_does_not_suit() -> None:
    error = (kr.Curve(SIZES, [1.9, 0.9, 0.4, 0.2, 0.1]),)
    score = (kr.Curve(SIZES, [0.2, 0.4, 0.6, 0.7, 0.8], unit="accuracy"),)
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
        self.target = first.target
        self.names = [plan.forecast.model for plan in (first, second)]
        self.crossing = SimpleNamespace(explanation="".join(self.names))
        self.record, self.likely, self.better = "Held.", self.target > 0.1, None

    def saving(self) -> str:
        return " ".join([*self.names, str(self.target)])


STOPS = [1.7, 0.8, 0.5, 0.25, 0.12, 0.06, 0.03, 0.02]


@pytest.mark.parametrize(
    ("models", "pairs"),
    [
        (1, []),
        (2, [(0, 1)]),
        (4, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
        (13, [(0, second) for second in range(1, 13)]),
        (15, [(0, second) for second in range(1, 13)]),
    ],
)
def test_of_many_models_the_first_twelve_pairs_are_compared_at_every_target(
    monkeypatch: pytest.MonkeyPatch, models: int, pairs: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr("korisk.planning.targets._stops", lambda *_: STOPS)
    monkeypatch.setattr("korisk.planning.targets.Comparison", BarePair)
    compared = Group.of_curves("pilot", curves(models)).pairs()
    assert [(pair["first"], pair["second"]) for pair in compared] == pairs
    for pair in compared:
        names = [f"M{pair[place]}" for place in ("first", "second")]
        assert pair["savings"] == [" ".join([*names, str(target)]) for target in STOPS]
        assert pair["likely"] == [target > 0.1 for target in STOPS]
        assert pair["crossover"] == "".join(names)
        assert pair["records"] == ["Held."] * len(STOPS)


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
    advice = kr.plan(first, 0.01).recommend()
    told = f"{advice.sentence} {advice.odds}"
    assert alone.sentence == f"{told} (MSE 0.01, 20% less error than the lowest of KO)"
    both = Group.of_curves("pilot", (first, second), requested=0.02)
    assert both.comparison is not None
    assert both.sentence == f"{kr.compare(first, second, 0.02).saving()} (MSE 0.02)"
    bare = kr.Curve(SIZES, means, model="KO")
    assert Group.of_curves("pilot", (bare,), requested=0.01).sentence.endswith(" (error 0.01)")
