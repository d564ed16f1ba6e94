"""A crossing is called measured only where the measured means cross there."""

import math

import pytest

from korisk.cli.studying import in_words
from korisk.curves.compare import Crossover
from korisk.studies.results import Crossing


@pytest.mark.parametrize(
    ("n", "within", "means", "how"),
    [
        (300, True, (256, 512), "(measured)"),
        (512, True, (256, 512), "(measured)"),
        (
            544,
            True,
            (256, 512),
            "(by the fitted curves; the means first change their order between N = 256 and 512)",
        ),
        (
            200,
            True,
            (256, 512),
            "(by the fitted curves; the means first change their order between N = 256 and 512)",
        ),
        (544, True, None, "(by the fitted curves; the means keep their order)"),
        (2780, False, None, "(foretold from N up to 1,024)"),
    ],
)
def test_how_a_crossing_is_known(
    n: int, within: bool, means: tuple[int, int] | None, how: str
) -> None:
    found = Crossover(n, n / 2, math.inf, "FC", measured=within)
    crossing = Crossing(found, means, "FC", 1024, 9)
    assert in_words(crossing).endswith(how)
