"""A pilot beside a rehearsal: a law over the curves that chose the constants."""

from benchmarks.prediction.rehearse import OUT, answers

_MORE = 0.15  # of log error: how much worse than the better of the two an answer may be


def test_a_pilot_never_makes_an_answer_worse_than_the_better_of_the_two() -> None:
    given = answers(OUT, "choose")
    without, planner, both = (given[way] for way in ("no pilot", "planner", "pilot to 32"))
    worse = [
        abs(joint.off) - min(abs(alone.off), abs(fitted.off))
        for alone, fitted, joint in zip(without, planner, both, strict=True)
    ]
    assert len(worse) > 100
    assert max(worse) < _MORE
