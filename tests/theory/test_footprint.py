"""What sharded training takes, against the paper's table and simple counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from korisk import published
from korisk.errors import KoriskError
from korisk.theory.footprint import (
    Footprint,
    adam_bytes,
    sharded_blocks,
    sharded_bytes,
    share_bytes,
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
