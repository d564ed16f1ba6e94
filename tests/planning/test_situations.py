"""The advised action in situations whose truth is known."""

import pytest

from benchmarks.planner.situations import SITUATIONS, Situation

LEAST = 0.9  # of the situations in which the advice must be right


def test_the_advice_is_right_in_nine_of_ten_situations() -> None:
    assert len(SITUATIONS) >= 30
    wrong = {s.name: s.advice().sentence for s in SITUATIONS if not s.is_right(s.advice())}
    assert len(wrong) <= (1 - LEAST) * len(SITUATIONS), wrong


@pytest.mark.parametrize(
    "situation", [s for s in SITUATIONS if s.probed and s.training > 0.01], ids=lambda s: s.name
)
def test_nothing_is_collected_where_training_limits_and_a_probe_was_run(
    situation: Situation,
) -> None:
    advised = [situation.advice(draw) for draw in range(10)]
    assert {advice.action for advice in advised} == {"train"}
    assert all("3 times the training" in " ".join(advice.reasons) for advice in advised)


def test_a_judge_that_can_say_no() -> None:
    """Each of the six actions is right in some situation and wrong in another."""
    for action in ("collect", "measure", "train", "unlikely", "stop", "unknown"):
        assert any(action in situation.right for situation in SITUATIONS)
        assert any(action not in situation.right for situation in SITUATIONS)
    near = next(situation for situation in SITUATIONS if situation.name == "steep, near")
    advice = near.advice()
    assert near.is_right(advice)
    assert not near.is_right(type(advice)(**{**vars(advice), "n": int(near.needed / 2)}))
