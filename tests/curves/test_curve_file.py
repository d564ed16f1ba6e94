"""Users' files of measurements: what is taken, and what is refused, in one line and with place."""

import csv
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from korisk._checks import LARGEST_N
from korisk.curves import binary, formats
from korisk.curves.curve import Curve
from korisk.errors import KoriskError

LONG = "n,error,seed,model\n16,0.5,1,KO\n4,0.9,1,KO\n4,0.7,2,KO\n"
KO = Curve([4, 4, 16], [0.9, 0.7, 0.5], ["1", "2", "1"], "KO")


def read(path: Path, content: str | bytes, **options: object) -> Curve:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Curve.read(path, **options)  # type: ignore[arg-type]


def refuse(path: Path, content: str | bytes, **options: object) -> str:
    with pytest.raises(KoriskError) as caught:
        read(path, content, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize(
    "content",
    [
        LONG,
        LONG.replace(",", ";"),
        LONG.replace(",", "\t"),
        LONG.replace(",", ", "),
        LONG.replace("\n", "\r\n"),
        LONG.replace("\n", "\r"),
        LONG.replace("\n", ",,\n"),
        LONG.rstrip(),
        "\ufeff" + LONG,
        "# a pilot\n\n" + LONG.replace("4,0.9", "\n#\n,,,\n4,0.9"),
        LONG.replace("n,error,seed,model", "N, Error ,SEED,Model"),
        LONG.replace("16,0.5", "1.6e1,5e-1").replace("4,0.9", "4.0,.9"),
        LONG.replace("KO", '"KO"').replace("0.5", '"0.5"'),
        "date,n,error,seed,model\n1,16,.5,1,KO\n\n,4,.9,1,KO\n,4,.7,2,KO\n",
        json.dumps(KO.records()),
        json.dumps({"records": KO.records(), "version": 1}, indent=1),
        " \n" + json.dumps([{k.upper(): v for k, v in row.items()} for row in KO.records()]),
    ],
)
def test_one_curve_in_many_spellings(tmp_path: Path, content: str) -> None:
    assert read(tmp_path / "pilot", content) == KO


def test_files_with_names_of_their_own(tmp_path: Path) -> None:
    columns = {"n": "Train size", "error": "test mse"}
    content = "train size,error,test MSE\n4,oops,0.9\n"
    curve = read(tmp_path / "pilot.csv", content, columns=columns)
    assert curve == Curve([4], [0.9], metric="test MSE")


def test_every_model_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("n,error,model\n4,0.9,b\n4,0.8,a\n8,0.5,b\n")
    assert [(c.model, len(c)) for c in Curve.read_all(path)] == [("b", 2), ("a", 1)]
    assert Curve.read(path, model="a") == Curve([4], [0.8], model="a")
    with pytest.raises(KoriskError, match="holds 2 models, 'b', 'a'; pass model='b'"):
        Curve.read(path)
    with pytest.raises(KoriskError, match="no model 'zzz'; known: b, a"):
        Curve.read(path, model="zzz")


@pytest.mark.parametrize("name", ["seed 3", "run7", "fold-2", "Rep_12", "trial 4"])
def test_headers_that_name_a_seed(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / "pilot.csv", f"n,{name}\n4,0.5\n").seeds == (name,)


def test_a_column_for_each_seed(tmp_path: Path) -> None:
    content = "n,seed1,seed2,model\n4,0.9,0.7,KO\n16,0.5,,KO\n"
    seeds = ("seed1", "seed2", "seed1")
    assert read(tmp_path / "pilot.csv", content) == Curve(KO.n, KO.error, seeds, "KO")
    curve = read(tmp_path / "pilot.csv", "n,seed 1,std\n4,0.5,0.1\n")
    assert "not used: 'std'" in curve.read_as


@pytest.mark.parametrize("name", ["test_mse", "accuracy", "U-Net"])
def test_headers_that_name_no_seed_beside_one_that_does(tmp_path: Path, name: str) -> None:
    assert repr(name) in refuse(tmp_path / "pilot.csv", f"n,seed 1,{name}\n4,0.5,0.1\n")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("n,1,2\n4,,\n", ": no column 'error', found 'n', '1', '2'"),
        ("n,1,1\n4,1,1\n", ": column '1' is there twice"),
        (",n,1\n7,4,0.5\n", ": '1' may be models, seeds, or no errors at all; pass wide='seed'"),
        ("#\n\nn,error\n\n4,abc\n", ": line 5, column 'error': 'abc' is no number"),
        ("n,error\nfour,1\n", ": line 2, column 'n': 'four' is no number"),
        ("n,error\n４,1\n", ": line 2, column 'n': '４' is no number"),  # noqa: RUF001
        ('n,error\n"1,000",1\n', "'1,000' may be a thousand or a decimal; write thousands"),
        ("n,error\n4,nan\n", ": holds no measurements"),
        ("n,error\n4,1e999\n", "got inf"),
        ("n,error\n4,0\n", "got 0.0; a fit needs its logarithm: leave it out"),
        ("n,error\n4.5,1\n", ": line 2, column 'n': N must be a whole number of samples from"),
        ("n,error\n1,1\n", "N must be a whole number of samples from 2 to 10^15, got 1.0"),
        ("n,error\n4,1\n8,1\n4,2\n", ": line 4, column 'n': N = 4 is given twice with seed ''"),
        ("n,error,seed\n4,1,3\n4,2,3\n", "'n': N = 4 is given twice with seed '3'"),
        ("n,error,model\n4,1,a\x07b\n", ": line 2: 'model' must be a printable text"),
        ("n,error,seed\n4,1," + "x" * 81 + "\n", ": line 2: 'seed' must be a printable text"),
        ('n,error\n4,"1"x\n', ": line 2: not valid CSV"),
        ("n,error\n4," + "1" * 200 + "\n", ": line 2, column 'error': '111111"),
        ('n,error\n4,"' + "1" * 200_000 + '"\n', ": line 2: not valid CSV: field larger"),
        ("n,error\n" + "," * 1_000_001 + "\n", ": line 2 has more than 1,000,000 characters"),
        ("n,error\n4,1\n".encode("utf-16-le"), ": is a binary file"),
        (b"PK\x03\x04\x00\x00", ": cannot be read: it is a damaged archive"),
        ("{}", ": must hold a list of records"),
        ("[4]", ": record 1 must be a mapping with the keys n and error, got 4"),
        ('[{"n": 4, "error": null}]', ": holds no measurements"),
        ('[{"n": 4, "error": true}]', ": record 1, key 'error': True is no number"),
        ('[{"n": 4, "error": NaN}]', ": holds no measurements"),
        ('[{"n": 4, "error": 1, "model": "\\ud800"}]', ": record 1: 'model' must be a printable"),
        ('[{"n": 4, "N": 4, "error": 1}]', ": key 'N' is there twice"),
        ('[{"n": 4,\n "error": 1},]', "line 2 column 1"),
        ('[{"n": ' + "9" * 5_000 + "}]", ": not valid JSON: Exceeds the limit"),
        ('[{"n": ' + "9" * 4_000 + ', "error": 1}]', "from 2 to 10^15, got inf"),
    ],
)
def test_wrong_files_are_refused_in_one_line(
    tmp_path: Path, content: str | bytes, expected: str
) -> None:
    message = refuse(tmp_path / "pilot", content)
    assert expected in message
    assert len(message) < 600


def test_a_column_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "pilot"
    message = refuse(path, LONG, columns={"seed": "sed"})
    assert "no column 'sed'" in message
    assert "did you mean 'seed'?" in message
    assert "no key 'run'" in refuse(path, '[{"n": 4, "error": 1}]', columns={"seed": "run"})


@pytest.mark.parametrize("columns", [{"x": "y"}, {"n": 4}, ["n"]])
def test_wrong_maps_of_columns(tmp_path: Path, columns: object) -> None:
    (tmp_path / "pilot").write_text(LONG)
    with pytest.raises(KoriskError, match=r"^(a key of )?columns"):
        Curve.read(tmp_path / "pilot", columns=columns)  # type: ignore[arg-type]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match="no such file"):
        Curve.read(tmp_path / "nowhere.csv")
    with pytest.raises(KoriskError, match=r"contains no study\.db"):
        Curve.read(tmp_path)
    for path in (3, None, b"pilot.csv", ""):
        for read in (Curve.read, Curve.read_all):
            with pytest.raises(KoriskError, match=r"must be (the name of a file|a path)"):
                read(path)


def test_ten_million_rows_are_refused_without_reading_them(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.write(b"n,error\n")
        file.truncate(130_000_000)
    with pytest.raises(KoriskError, match="is larger than 16 MB"):
        Curve.read(path)


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "pilot-file.md"
    limits = page.read_text(encoding="utf-8").split("## Limits")[1].split("##")[0]
    packed, unpacked = formats.MAX_BYTES / 1e6, binary.UNPACKED / 1e6
    stated = f"{packed:g} MB, {formats.MAX_CELLS:,} values, {unpacked:g} MB when unpacked"
    assert stated in limits
    assert f"from 2 to 10^{math.log10(LARGEST_N):g}" in limits


def test_numbers_beyond_floats_are_no_fault_in_columns_that_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    for name in ("id", "model", "exclude", "seed"):
        rows = [{"n": n, "error": 1 / n, name: 10**400} for n in (16, 64)]
        path.write_text(json.dumps(rows))
        if name in ("model", "seed"):  # a label has a length
            with pytest.raises(KoriskError, match=name):
                Curve.read(path)
        else:
            assert Curve.read(path).read_as == f"not used: {name!r}"


def test_lists_in_cells_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    path.write_text(
        json.dumps([{"n": n, "KO": 1 / n, "FC": [1] if n == 4 else 2 / n} for n in (4, 8, 16)])
    )
    with pytest.raises(KoriskError, match=r"record 1, key 'FC': \[1\] is no number"):
        Curve.read_all(path)


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, ", ...")])
def test_ten_columns_are_named_and_the_rest_counted(tmp_path: Path, count: int, more: str) -> None:
    names = [f"x{chr(97 + k)}" for k in range(count)]
    listed = ", ".join(map(repr, names[:10]))
    text = ",".join(names) + "\n" + ",".join("1" * count) + "\n"
    assert f"found {listed}{more};" in refuse(tmp_path / "pilot", text)


numbers = st.floats(1e-100, 1e100)
tables = st.dictionaries(
    st.tuples(st.integers(2, 10**15), st.integers(0, 20)), numbers, min_size=1, max_size=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables, st.sampled_from(",;\t"), st.text(st.characters(categories=("L", "P")), max_size=9))
def test_what_is_written_is_read(
    tmp_path: Path, table: dict[tuple[int, int], float], delimiter: str, model: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(["seed", "error", "model", "n"])
    writer.writerows([seed, repr(error), model, n] for (n, seed), error in table.items())
    curve = read(tmp_path / "pilot.csv", text.getvalue())
    assert len(curve) == len(table)
    assert set(curve.error.tolist()) == set(table.values())
    assert curve.model == model.strip()
    assert read(tmp_path / "pilot.json", json.dumps(curve.records())) == curve


def outcome(path: Path, content: str | bytes) -> None:
    """Read the content: a curve or one line, nothing else."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
    for reader in (Curve.read, Curve.read_all):
        message = ""
        try:
            reader(path)
        except KoriskError as error:
            message = str(error)
        assert "\n" not in message
        assert len(message) < len(str(path)) + 700


fuzz = settings(
    max_examples=4 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
table_pieces = ["n", "error", "seed", "model", "64", "0.5", "1e-3", "nan", "-1", "x", '"', "'"]
json_pieces = ["[", "]", "{", "}", ":", '"n"', '"error"', "null", "true", "NaN", "1e999", "\\u0000"]
marks = [",", ";", "\t", "\n", "\r", "#", " ", "\ufeff", "\x85", "\u2028", "9" * 50]


@fuzz
@given(
    st.lists(st.sampled_from(table_pieces + json_pieces + marks), max_size=40).map("".join)
    | st.text(max_size=80)
    | st.binary(max_size=80)
)
def test_no_input_gives_anything_but_a_curve_or_one_line(
    tmp_path: Path, content: str | bytes
) -> None:
    outcome(tmp_path / "fuzz", content)


@fuzz
@given(
    st.sampled_from([LONG, "n,1,2\n4,.9,.7\n16,.5,\n", json.dumps(KO.records())]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.text(max_size=2)), max_size=4),
)
def test_damaged_files_give_a_curve_or_one_line(
    tmp_path: Path, content: str, damages: list[tuple[int, int, str]]
) -> None:
    for place, length, text in damages:
        start = place % (len(content) + 1)
        content = content[:start] + text + content[start + length :]
    outcome(tmp_path / "fuzz", content)
