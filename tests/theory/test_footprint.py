"""What the two CT networks weigh, against simple counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from korisk.errors import KoriskError
from korisk.theory.footprint import MOST, Footprint, adam_bytes, format_bytes, weight_bytes


@given(count=some.integers(1, 10**12))
def test_weights_take_four_bytes_and_adam_sixteen(count: int) -> None:
    assert (weight_bytes(count), adam_bytes(count)) == (4 * count, 16 * count)


@given(side=some.integers(1, MOST), views=some.integers(1, MOST), bins=some.integers(1, MOST))
def test_a_dense_network_has_a_weight_for_every_pixel_of_a_known_one(
    side: int, views: int, bins: int
) -> None:
    size = Footprint(H=side, V=views, B=bins)
    assert size.ratio * size.known_parameters == size.dense_parameters
    assert size.dense_parameters == side * side * views * bins


@pytest.mark.parametrize("field", ["H", "V", "B"])
def test_sizes_go_to_a_million(field: str) -> None:
    one = {"H": 1, "V": 1, "B": 1}
    assert getattr(Footprint(**one | {field: 10**6}), field) == 10**6
    for value in (0, 10**6 + 1):
        with pytest.raises(KoriskError, match=f"{field} must be a whole number from 1"):
            Footprint(**one | {field: value})


@given(some.integers(1, 2**60))
def test_bytes_are_told_to_three_digits(size: int) -> None:
    number, unit = format_bytes(size).split()
    scale = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}[unit]
    decimals = len(number.partition(".")[2])
    assert abs(float(number) - size / scale) <= 0.5001 * 10.0**-decimals
    assert float(number) <= 100 or unit == "GiB"
    assert float(number) >= 0.09 or unit == "KiB"
    assert decimals == (2 if float(number) < 9.99 else 1 if float(number) < 99.9 else decimals)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (1024, "1.00 KiB"), (99 * 1024, "99.0 KiB"), (100 * 1024, "0.10 MiB"),
        (10 * 1024**2, "10.0 MiB"), (100 * 1024**2, "0.10 GiB"), (100 * 1024**3, "100 GiB"),
    ],
)  # fmt: skip
def test_the_next_unit_from_a_hundred_on(size: int, said: str) -> None:
    assert format_bytes(size) == said
