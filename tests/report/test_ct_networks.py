"""Norms of the networks that a report draws: those of the scanner itself."""

import pytest

from korisk.problems import CtScanner
from korisk.report.figures.ct_networks import _tail


@pytest.mark.parametrize("arc", [None, 60.0])
def test_the_norms_are_those_of_the_scanner_and_of_its_views(arc: float | None) -> None:
    layers, (whole,) = _tail(6, 5, 7, "parallel", arc)
    scanner = CtScanner(side=6, views=5, bins=7, beam="parallel", arc=arc)
    first, last = scanner.reconstruction().tail
    assert [layer.bracket for layer in layers] == [first.norm(), last.norm()]
    assert whole.bracket == (last @ first).norm()


def test_fewer_degrees_have_another_norm() -> None:
    [_, back], _ = _tail(6, 5, 7, "parallel", None)
    [_, narrow], _ = _tail(6, 5, 7, "parallel", 60.0)
    assert narrow.bracket.lower > back.bracket.upper  # so that the first test can fail
