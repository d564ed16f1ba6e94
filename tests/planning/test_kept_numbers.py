"""The planner answers a dozen pilots as it did when its answers were kept."""

import json

from benchmarks.planner.kept_numbers import KEPT, differences, numbers


def test_answers_are_those_that_were_kept() -> None:
    assert differences(numbers(), json.loads(KEPT.read_text())) == []


def test_differences_beyond_rounding_are_seen() -> None:
    kept = {"n": 100, "chance": [0.5, None]}
    assert differences({"n": 101, "chance": [0.500001, None]}, kept) == []
    for n, chance, last in ((102, 0.5, None), (100, 0.5001, None), (100, 0.5, 0.5)):
        assert len(differences({"n": n, "chance": [chance, last]}, kept)) == 1
    assert differences({"n": 100}, kept)
