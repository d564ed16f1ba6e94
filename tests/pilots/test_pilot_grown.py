"""Pilots that are taken on from size to size, as docs/reference/pilot.md shows it."""

from pathlib import Path

from pilot_fits import power

import korisk as kr

SIZES = [16, 32, 64, 128]


class Counting:
    """A fit that keeps its calls, and fails above a size."""

    __qualname__ = "Counting"

    def __init__(self, fails_above: float = 1e9) -> None:
        self.calls: list[tuple[int, int]] = []
        self.fails_above = fails_above

    def __call__(self, n: int, seed: int) -> float:
        self.calls.append((n, seed))
        if n > self.fails_above:
            raise MemoryError
        return power(n, seed)


def test_doubling_the_largest_size_narrows_the_answer_and_fits_nothing_twice(
    tmp_path: Path,
) -> None:
    fit, store = Counting(), tmp_path / "p.db"
    pilot = kr.run_pilot(fit, SIZES, 3, target=0.045, store=store)
    widths = []
    while (n := pilot.next_n) and n <= 512:
        assert n == 2 * pilot.sizes[-1]
        widths.append(pilot.plan().upper / pilot.plan().lower)
        pilot = kr.run_pilot(fit, [*pilot.sizes, n], 3, target=0.045, store=store)
    assert pilot.sizes == [*SIZES, 256, 512]
    assert len(fit.calls) == len(set(fit.calls)) == len(pilot.curve)
    assert pilot.plan().upper / pilot.plan().lower < min(widths)
    assert pilot.curve == kr.run_pilot(power, pilot.sizes, 3, model="Counting").curve


def test_nothing_that_failed_is_measured_next_nor_anything_beyond() -> None:
    fit = Counting(fails_above=100)
    pilot = kr.run_pilot(fit, [16, 32, 64, 256, 512], 3, target=0.05)
    assert (pilot.too_large, pilot.next_n) == (256, 128)
    grown = kr.run_pilot(fit, [16, 32, 64, 101], 2, target=0.05)
    assert grown.next_n is None
