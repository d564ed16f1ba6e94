"""What may be stored is what comes back: one rule for both ways."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from korisk.studies.result import Result, Row
from korisk.studies.result import ResultError, pack, unpack_row

names = st.text(max_size=100)
metrics = st.dictionaries(names, st.floats(allow_nan=False), max_size=3)


@given(names, st.integers(-1, 2**64), metrics)
@example("KO\u00a0gross", 8, {"mse": 0.1})
@example("a\nb", 8, {"mse": 0.1})
@example("K" * 81, 8, {})
@example("KO", 10**15, {"m" * 80: 1.0})
def test_what_is_packed_is_unpacked_and_the_rest_is_named(
    model: str, n: int, metrics: dict[str, float]
) -> None:
    row = Row(model=model, n=n, metrics=metrics)
    odd = max(map(len, (model, *metrics))) > 80 or not 0 <= n <= 10**15
    if odd or any(ord(each) < 32 or 126 < ord(each) < 160 for each in "".join((model, *metrics))):
        with pytest.raises(ResultError):
            pack(Result(rows=(row,)))
        return
    [stored] = pack(Result(rows=(row,))).rows
    assert unpack_row(*stored) == row


@pytest.mark.parametrize(
    ("model", "n", "words"),
    [
        ("a\x1b[2J", 4, "control characters"),
        ("K" * 81, 4, "has 81 characters, more than 80"),
        ("KO", 10**15 + 1, "n must be from 0 to .* got 1000000000000001"),
    ],
)
def test_what_cannot_be_stored_says_why(model: str, n: int, words: str) -> None:
    with pytest.raises(ResultError, match=words):
        pack(Result(rows=(Row(model=model, n=n, metrics={"mse": 0.1}),)))
