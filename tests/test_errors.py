"""Messages: they read as Python says them, and know which of their parts are arguments."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korisk import Curve
from korisk._checks import one_of, require
from korisk.errors import Argument, KoriskError, Message, UnreachableError, invalid

TEXTS = st.text(max_size=30)
VALUES = TEXTS | st.integers() | st.booleans() | st.dictionaries(TEXTS, TEXTS, max_size=3)
PARTS = st.lists(TEXTS | st.builds(Argument, st.sampled_from(["unit", "columns"]), VALUES))


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (Argument("unit"), "unit"),
        (Argument("unit", ...), "unit="),
        (Argument("unit", "percent"), "unit='percent'"),
        (Argument("retry_failed", True), "retry_failed=True"),
        (Argument("model", None), "model=None"),
        (Argument("columns", {"n": "size", "error": ...}), "columns={'n': 'size', 'error': ...}"),
        (Argument("columns", {"n": "Ellipsis"}), "columns={'n': 'Ellipsis'}"),
    ],
)
def test_an_argument_reads_as_python_writes_it(argument: Argument, text: str) -> None:
    assert str(argument) == text
    assert str(KoriskError("pass ", argument, " here")) == f"pass {text} here"


@given(PARTS)
def test_a_message_is_the_text_of_its_parts(parts: list[str | Argument]) -> None:
    message = Message(*parts)
    assert message == "".join(map(str, parts)) == str(KoriskError(*parts))
    assert message.parts == tuple(parts)


@given(PARTS, PARTS)
def test_messages_in_messages_keep_their_arguments(
    first: list[str | Argument], second: list[str | Argument]
) -> None:
    nested = Message("pilot.csv: ", Message(*first, Message(*second)), "; correct it")
    assert nested.parts == ("pilot.csv: ", *first, *second, "; correct it")
    assert KoriskError(KoriskError(*first).message).message.parts == tuple(first)


@given(PARTS)
def test_parts_survive_pickling_and_copies(parts: list[str | Argument]) -> None:
    for error in (KoriskError(*parts), UnreachableError(*parts), invalid("unit", "be so", parts)):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(again) is type(error)
            assert str(again) == str(error)
            assert again.message.parts == error.message.parts
            assert again.__dict__ == error.__dict__


@pytest.mark.parametrize(
    "name", ["model=.csv", "unit='dB'", "columns={'n': 'x'}", "{unit}", "a=%s"]
)
def test_nothing_that_a_user_wrote_is_taken_for_an_argument(name: str) -> None:
    error = invalid(f"{name}: unit", "be short", name)
    assert not any(isinstance(part, Argument) for part in error.message.parts)
    assert name in str(error)
    with pytest.raises(KoriskError, match="no such file") as raised:
        Curve.read(name)
    assert str(raised.value).startswith(f"{name}: ")
    assert not any(isinstance(part, Argument) for part in raised.value.message.parts)


def test_an_invalid_value_is_told_with_name_rule_value_and_remedy() -> None:
    remedy = Message("pass ", Argument("rate", 0.1))
    error = invalid("steps", "be a whole number >= 1", -3, remedy)
    assert str(error) == "steps must be a whole number >= 1, got -3; pass rate=0.1"
    assert error.message.parts[0] == Argument("steps")
    assert error.message.parts[-1] == Argument("rate", 0.1)
    told = (error.argument, error.rule, error.value, error.remedy)
    assert told == ("steps", "be a whole number >= 1", -3, remedy)
    assert str(invalid("layer 'K': gain", "be 1", 2)) == "layer 'K': gain must be 1, got 2"
    assert str(invalid("images", "be square", [[1]], got="shape (1, 2)")).endswith("shape (1, 2)")
    assert len(str(invalid("x", "be short", "y" * 10_000))) < 200


def test_require_raises_where_the_rule_is_broken_and_only_there() -> None:
    require(True, "side", "be even", 7)
    with pytest.raises(KoriskError, match="side must be even, got 7; add one") as raised:
        require(False, "side", "be even", 7, "add one")
    assert raised.value.argument == "side"
    with pytest.raises(
        KoriskError, match=r"unit must be one of psnr, dice, got 'pnsr'; did .*psnr"
    ):
        one_of("unit", "pnsr", ("psnr", "dice"))


def test_readers_mark_the_arguments_that_they_ask_for() -> None:
    tables: list[tuple[Argument, list[dict[str, object]]]] = [
        (Argument("columns", {"n": "t"}), [{"t": 2, "error": 0.1}]),
        (
            Argument("model", "unit='x'"),
            [{"n": 2, "error": 1, "model": m} for m in ("unit='x'", 1)],
        ),
        (Argument("metric", "mse"), [{"n": 2, "error": 1, "metric": m} for m in ("mse", "mae")]),
    ]
    for argument, records in tables:
        with pytest.raises(KoriskError) as raised:
            Curve.read(records)
        marked = [part for part in raised.value.message.parts if isinstance(part, Argument)]
        assert argument in marked
