"""`korisk run` and `korisk reproduce` print no crossover that the measured means contradict."""

import math

import pytest

from korisk.planning.compare import Crossing, Crossover


@pytest.mark.parametrize(
    ("n", "within", "means", "better", "kept"),
    [(300, True, (256, 512), "FC", True), (544, True, None, "KO", False)],
)
def test_a_crossover_is_told_where_the_means_allow_it(
    n: int, within: bool, means: tuple[int, int] | None, better: str, kept: bool
) -> None:
    found = Crossover(n, n / 2, math.inf, "FC", measured=within)
    crossing = Crossing(found, means, better, 1024, 9)
    said = crossing.explain(sizes=True)
    assert (f"cross at about N = {n:,}" in said) == kept
    if not kept:
        assert f"{n:,}" not in said
        assert f"{better} is better at" in said
    content = crossing.to_dict()
    assert (content["found"] is not None, content["explanation"]) == (kept, said)
    assert content["last"] == 1024


def test_two_sizes_are_too_few_to_extrapolate() -> None:
    said = Crossing(None, None, "KO", 16, 2).explain(sizes=True)
    assert "KO is better at every measured N, up to 16" in said
    assert "At least 3 sizes are needed" in said
