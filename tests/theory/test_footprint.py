"""What sharded training takes, against the paper's table and simple counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from korisk import published
from korisk.errors import KoriskError
from korisk.theory.footprint import (
    MOST,
    Footprint,
    adam_bytes,
    format_bytes,
    sharded_blocks,
    sharded_bytes,
    share_bytes,
    weight_bytes,
)


@pytest.mark.parametrize("row", published.FOOTPRINT, ids=lambda row: str(row.size.H))
def test_one_rank_spares_the_gradient_of_all_weights(row: published.FootprintRow) -> None:
    count = row.size.dense_parameters
    assert share_bytes(count, ranks=1, optimiser="adam") == adam_bytes(count) * 3 // 4


@given(
    count=some.integers(1, 10**12),
    ranks=some.integers(1, 512),
    blocks=some.integers(1, 4096),
    optimiser=some.sampled_from(["adam", "adagrad", "sgd"]),
)
def test_ranks_share_all_but_the_block_in_flight(
    count: int, ranks: int, blocks: int, optimiser: str
) -> None:
    alone = sharded_bytes(count, ranks=1, optimiser=optimiser, blocks=blocks)
    each = sharded_bytes(count, ranks=ranks, optimiser=optimiser, blocks=blocks)
    flight = sharded_bytes(count, ranks=ranks, optimiser=optimiser, blocks=blocks, offload=True)
    assert 0 <= ranks * (each - flight) - (alone - flight) < 12 * ranks
    assert flight >= 3 * 4 * count / blocks


@given(rows=some.integers(1, 2**20), columns=some.integers(1, 2**20))
def test_blocks_are_neither_large_nor_many(rows: int, columns: int) -> None:
    blocks = sharded_blocks(rows, columns)
    size = 4 * rows * columns
    assert 1 <= blocks <= rows
    assert blocks == rows or size / blocks <= 2**30
    assert blocks <= max(16, size / 2**30 + 1)


def test_a_block_in_flight_is_at_most_half_the_share_of_eight_ranks() -> None:
    size = Footprint(256, 360, 64)
    blocks = sharded_blocks(size.H**2, size.V * size.B)
    settings = {"ranks": 8, "optimiser": "adam"}
    flight = sharded_bytes(size.dense_parameters, blocks=blocks, offload=True, **settings)  # type: ignore[arg-type]
    share = share_bytes(size.dense_parameters, **settings)  # type: ignore[arg-type]
    assert flight <= 0.5 * share + 2**20


def test_what_cannot_be_is_refused() -> None:
    for options in ({"ranks": 0}, {"blocks": 0}, {"optimiser": "lion"}, {"momentum": True}):
        settings = {"ranks": 1, "optimiser": "adam", "blocks": 1, **options}
        with pytest.raises(KoriskError):
            sharded_bytes(10, **settings)  # type: ignore[arg-type]


@given(count=some.integers(1, 10**12))
def test_optimisers_remember_so_many_numbers_of_every_weight(count: int) -> None:
    weights = weight_bytes(count)
    assert weights == 4 * count
    assert share_bytes(count, ranks=1, optimiser="sgd") == weights
    assert share_bytes(count, ranks=1, optimiser="sgd", momentum=True) == 2 * weights
    assert share_bytes(count, ranks=1, optimiser="adagrad") == 2 * weights
    assert share_bytes(count, ranks=1, optimiser="adam") == 3 * weights


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
        (1024, "1.00 KiB"),
        (99 * 1024, "99.0 KiB"),
        (100 * 1024, "0.10 MiB"),
        (10 * 1024**2, "10.0 MiB"),
        (100 * 1024**2, "0.10 GiB"),
        (100 * 1024**3, "100 GiB"),
    ],
)
def test_the_next_unit_from_a_hundred_on(size: int, said: str) -> None:
    assert format_bytes(size) == said


@pytest.mark.parametrize(
    ("rows", "columns", "blocks"),
    [
        (1, 1, 1),  # no smaller than a megabyte
        (1024, 256, 1),
        (1024, 257, 2),
        (1024, 256 * 16, 16),
        (1024, 256 * 1000, 16),  # sixteen will do
        (2**16, 2**18, 64),  # but none is larger than a gigabyte
        (3, 2**34, 3),  # nor smaller than a row
    ],
)
def test_blocks_are_few_and_of_a_size_to_move(rows: int, columns: int, blocks: int) -> None:
    assert sharded_blocks(rows, columns) == blocks


def test_the_share_is_on_the_device_unless_it_is_offloaded() -> None:
    flight = sharded_bytes(1000, ranks=2, optimiser="sgd", blocks=10, offload=True)
    assert flight == 3 * 100 * 4
    assert sharded_bytes(1000, ranks=2, optimiser="sgd", blocks=10) == flight + 500 * 4
