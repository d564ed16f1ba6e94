"""The planner answers a dozen pilots as it did when its answers were kept."""

import json

import pytest

from benchmarks.planner.kept_numbers import KEPT, differences, numbers

FEW = {"h8 KO", "h8 FC", "step", "score", "one related"}  # of each kind one


@pytest.mark.parametrize("names", [FEW, pytest.param(None, marks=pytest.mark.slow)])
def test_answers_are_those_that_were_kept(names: set[str] | None) -> None:
    kept = json.loads(KEPT.read_text())
    if names is not None:
        kept = {name: content for name, content in kept.items() if name in names | {"compare h8"}}
    assert differences(numbers(names), kept) == []


def test_differences_beyond_rounding_are_seen() -> None:
    kept = {"n": 100, "chance": [0.5, None]}
    assert differences({"n": 101, "chance": [0.500001, None]}, kept) == []
    for n, chance, last in ((102, 0.5, None), (100, 0.5001, None), (100, 0.5, 0.5)):
        assert len(differences({"n": n, "chance": [chance, last]}, kept)) == 1
    assert differences({"n": 100}, kept)
