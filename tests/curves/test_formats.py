"""Forms of tables, each as small as it can be: what is read, and what is refused, told exactly."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from korisk import Curve, KoriskError
from korisk.curves import binary, formats
from korisk.curves.binary import Sheet
from korisk.curves.formats import Grid, Source, grid_of_frame, grid_of_records, read_grid
from korisk.errors import MissingExtraError

SHORT = "16 0.3, 64 0.2"


class File:
    """One file that is written and read again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, content: str | bytes) -> Path:
        self.path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.path

    def told(self, content: str | bytes, **options: Any) -> tuple[str, str]:
        """The rows of the only curve, and how it was read."""
        curve = Curve.read(self.write(content), **options)
        pairs = zip(curve.n, curve.error, curve.seed, strict=True)
        return ", ".join(f"{n} {e:g} {seed}".rstrip() for n, e, seed in pairs), curve.read_as

    def refused(self, content: str | bytes, **options: Any) -> str:
        with pytest.raises(KoriskError) as caught:
            Curve.read(self.write(content), **options)
        assert "\n" not in str(caught.value)
        return str(caught.value).replace(str(self.path), "FILE")

    def grid(self, content: str | bytes, worksheet: str | None = None) -> Grid:
        return read_grid(self.write(content), worksheet)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "table")


# --- Text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "read_as"),
    [
        ("n,error\n16,0.3\n64,0.2\n", ""),
        ("n;error\n16;0.3\n64;0.2\n", ""),
        ("n\terror\n16\t0.3\n64\t0.2\n", ""),
        ("  n   error\n 16     0.3\n 64     0.2\n", ""),
        ('"n", "error"\n"16", "0.3"\n64, 0.2\n', ""),
        ("\ufeffn,error\r\n16,0.3\r\n\r\n64,0.2\r\n", ""),
        ("n,error\n16,0.3\n64,0.2\n".encode("utf-16"), ""),
        (
            "n,error\n16,0.3 \n64,0.2\n# gr\u00f6\u00dfer".encode("cp1252"),
            "its text is in Windows-1252",
        ),
        ("A title\n\nn,error\n16,0.3\n64,0.2\n", "line 1 is a title"),
        ("A title\nAnother\nn,error\n16,0.3\n64,0.2\n", "line 1 is a title; line 2 is a title"),
        ("n,error\n16,0.3\n64,0.2\nby hand\n", "line 4 is a note"),
        ("n,error\n16,0.3\n64,0.2\nby hand\nlast year\n", "line 5 is a note; line 4 is a note"),
        ("# n error\n16 0.3\n64 0.2\n", "the header is a comment"),
        ("# n,error\n16,0.3\n64,0.2\n", "the header is a comment"),
        ("% first\n# n,error\n16,0.3\n64,0.2\n", "the header is a comment"),
        ("# n,error\n16,0.3\n# n,x\n64,0.2\n", "the header is a comment"),
        ("sep=;\nn;error\n16;0.3\n64;0.2\n", "line 1 is a title"),
        ("sep=,\nn,error\n16,0.3\n64,0.2\n", "line 1 is a title"),
        ("| n | error |\n|---|:-:|\n| 16 | 0.3 |\n| **64** | `0.2` |\n", ""),
        ("+----+-----+\n| n | error |\n+====+=====+\n| 16 | 0.3 |\n| 64 | 0.2 |\n", ""),
        ("n  error\n== =====\n16 0.3\n64 0.2\n", ""),
        # Rows that count or name the others.
        (",n,error\n0,16,0.3\n1,64,0.2\n", "not used: 'column 1'"),
        ("index,n,error\n1,16,0.3\n2,64,0.2\n", "not used: 'index'"),
        ("Unnamed: 0,n,error\n0,16,0.3\n1,64,0.2\n", "not used: 'Unnamed: 0'"),
        ("index,n,error\n2,16,0.3\n3,64,0.2\n", "not used: 'index'"),
        (",n,error\n5,16,0.3\n7,64,0.2\n", "not used: 'column 1'"),
        ("n,error\n0,16,0.3\n1,64,0.2\n", "not used: 'column 1'"),
        ("n,error\n1,16,0.3\n2,64,0.2\n", "not used: 'column 1'"),
        ("n,error\na,16,0.3\nb,64,0.2\n", "not used: 'column 1'"),
        # Empty columns and rows.
        ("n,error,,\n16,0.3,,\n64,0.2,,\n", ""),
        ("n,error\n16,0.3,,\n64,0.2\n", ""),
        ("n,,error\n16,,0.3\n,,\n64,,0.2\n", ""),
    ],
)
def test_text_of_many_forms_is_one_table(file: File, content: str | bytes, read_as: str) -> None:
    assert file.told(content) == (SHORT, read_as)


@pytest.mark.parametrize(
    "content",
    [
        "n,error\n<int>,<dbl>\n16,0.3\n64,0.2\n",
        "n,error\n[-],[-]\n16,0.3\n64,0.2\n",
        ",error,x\nn,,\n16,0.3,5\n64,0.2,5\n",
        ",FC,,KO,\nn,seed 1,seed 2,seed 1,seed 2\n16,0.2,0.4,0.1,0.1\n",
        ",mse,mse\nmodel,FC,KO\nn,,\n16,0.3,0.1\n64,0.16,0.07\n",
    ],
)
def test_a_head_of_two_rows_is_refused(file: File, content: str) -> None:
    assert file.refused(content) == "FILE: line 2 has no numbers; write a head of one row"


def test_seeds_below_models_are_refused(file: File) -> None:
    rows = "16,0.3,0.2,0.5,0.4\n64,0.2,0.1,0.4,0.3\n"
    assert "N is missing" in file.refused(f"n,KO,,FC,\n,1,2,1,2\n{rows}")


def uneven(*lines: tuple[int, int]) -> str:
    """What is said of lines with so many cells below a header of two."""
    places = (f"line {line} has {cells} cells where the header has 2" for line, cells in lines)
    return (
        f"{', '.join(places)}; fill them up, write 0.5 and not 0,5 between commas, and quote texts "
        "that hold the delimiter"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "holds no table; write a header such as n,error,seed first"),
        (" \n ", "holds no table; write a header such as n,error,seed first"),
        ("# n,error\n", "holds no table; write a header such as n,error,seed first"),
        ("<html>", "is a web page (HTML or XML); save its table as CSV"),
        ("n\0", "is a binary file; save it as .xlsx or CSV"),
        (b"\xff\xfen\x00,", "is damaged UTF-16 text; save it as UTF-8"),
        ("16,0.3\n", "no header, found '16', '0.3'; name the columns in the first line"),
        ("# n\n16,0.3\n", "no header, found '16', '0.3'; name the columns in the first line"),
        (
            ",".join(map(str, range(11))) + "\n",
            f"no header, found {', '.join(repr(str(k)) for k in range(10))}, ...; name the columns "
            "in the first line",
        ),
        (
            "abc\ndef\n",
            "no column 'n', found 'abc'; needed are n and error",
        ),
        ("n,error,n\n16,0.3,1\n", "column 'n' is there twice; rename or remove one"),
        ("n,N,error\n16,1,0.3\n", "column 'N' is there twice; rename or remove one"),
        (
            'n,error\n16,0.3\n64,"0.2\n',
            "line 3: not valid CSV: unexpected end of data; check its quotes",
        ),
        ("n,error\n16,0,3\n64,0.2\n", uneven((2, 3))),
        ("n,error\n7,16,0.3\n9,64,0.2\n", uneven((2, 3), (3, 3))),
        ("n,error\n16,0.3\n64,0.2\n\n5\n", uneven((5, 1))),
    ],
)
def test_what_is_no_table_is_refused(file: File, content: str | bytes, problem: str) -> None:
    assert file.refused(content) == f"FILE: {problem}"


@pytest.mark.parametrize(("wrong", "rest"), [(10, ""), (11, ", ...")])
def test_ten_rows_of_another_length_are_named(file: File, wrong: int, rest: str) -> None:
    content = "n,error\n" + "16,0.3,5\n" * wrong + "64,0.2\n" * 20
    places = ", ".join(f"line {k + 2} has 3 cells where the header has 2" for k in range(10))
    assert file.refused(content).startswith(f"FILE: {places}{rest}; fill them up")


def test_options_of_other_files_are_refused(file: File) -> None:
    text = "n,error\n16,0.3\n"
    assert file.refused(text, worksheet="a") == (
        "FILE: is no spreadsheet, so worksheet= does not apply; leave it out"
    )
    assert file.refused(text, point="a") == (
        "FILE: is no store, so point= does not apply; leave it out"
    )


def test_positions_are_lines_of_the_file(file: File) -> None:
    grid = file.grid('\n# c\nn,error\n\n16,"0.\n3"\n64,0.2\n')
    assert [position for position, _ in grid.rows] == [5, 7]
    assert grid.header == ["n", "error"]
    assert (grid.delimiter, grid.source.place, grid.source.column) == (",", "line", "column")


@pytest.mark.parametrize(
    ("content", "delimiter", "width"),
    [
        ("a,b;c\n1,2;3\n1,2;3\n", ";", 2),  # of two that fit alike the first in order counts
        ("a b,c\n1 2,3\n4,5\n", ",", 2),
        ("a b c,d\n1 2 3,4\n1 2 3,4\n", " ", 3),  # the one with more cells
        ('n,"a;b;c"\n1,"2;3;4"\n', ",", 2),
        ("a\n1\n2\n", "\t", 1),
    ],
)
def test_the_delimiter_gives_most_lines_the_same_cells(
    file: File, content: str, delimiter: str, width: int
) -> None:
    grid = file.grid(content)
    assert (grid.delimiter, len(grid.header)) == (delimiter, width)


# --- Limits --------------------------------------------------------------------------------------


def test_the_limits_are_those_of_the_reference() -> None:
    assert (formats.MAX_BYTES, formats.MAX_CELLS, formats.MAX_LINE) == (16 * 10**6, 200_000, 10**6)


def test_as_much_as_the_limit_is_read_and_no_more(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "n,error\n16,0.3\n64,0.2\n"
    for name, most, problem in (
        ("MAX_BYTES", len(content), "is larger than 2.1e-05 MB"),
        ("MAX_LINE", 7, "line 1 has more than 6 characters"),
        ("MAX_CELLS", 6, "holds more than 5 values; a pilot is some tens of rows"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(formats, name, most)
            assert file.told(content)[0] == SHORT
            patch.setattr(formats, name, most - 1)
            assert problem in file.refused(content)


def test_records_have_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_CELLS", 4)
    alike = [{"n": 16, "error": 0.3}, {"n": 64, "error": 0.2}]
    assert len(grid_of_records(alike, Source()).rows) == 2
    with pytest.raises(KoriskError, match="holds more than 4 values"):
        grid_of_records([*alike, {"n": 1}], Source())
    different = [{"a": 1}, {"b": 1}, {"c": 1}]
    with pytest.raises(KoriskError, match="holds more than 4 values"):
        grid_of_records(different, Source())
    assert grid_of_records(different[:2], Source()).header == ["a", "b"]


# --- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        '[{"n": 16, "error": 0.3}, {"n": 64, "error": 0.2}]',
        '{"rows": [{"n": 16, "error": 0.3}, {"n": 64, "error": 0.2}], "about": 1}',
        '{"n": [16, 64], "error": [0.3, 0.2]}',
        '{"n": 16, "error": 0.3}\n\n{"n": 64, "error": 0.2}\n',
        '[{"n": 16, "error": {"value": 0.3}}, {"n": 64, "error": {"value": 0.2}}]',
    ],
)
def test_json_of_many_forms_is_one_table(file: File, content: str) -> None:
    assert file.told(content, **({"ignore": []} if "value" not in content else {}))[0] == SHORT


def test_nested_keys_are_joined_down_to_the_fourth(file: File) -> None:
    content = '[{"a": {"b": {"c": {"d": {"e": 1}}}}, "n": 16, "error": 0.3}]'
    assert file.grid(content).header == ["a.b.c.d", "n", "error"]


def test_values_of_all_lists_are_counted_together(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = '{"n": [16, 64], "error": [0.3, 0.2]}'
    monkeypatch.setattr(formats, "MAX_CELLS", 4)
    assert file.told(content) == (SHORT, "")
    monkeypatch.setattr(formats, "MAX_CELLS", 3)
    assert "holds more than 3 values" in file.refused(content)


NO_LIST = (
    ': must hold a list of records, or one key with such a list; write [{"n": 64, "error": 0.1}, '
    "...]"
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            '{"n": [16], "error": [0.3, 0.2]}',
            ": its columns have [1, 2] rows; save columns of one length",
        ),
        (
            '{"n": 16}\n\n{"n": 64,\n',
            ", line 3: not valid JSON: Expecting property name enclosed in double quotes: line 1 "
            "column 10 (char 9); correct it",
        ),
        (
            '[{"n": 16}\n,',
            ": not valid JSON: Expecting value: line 2 column 2 (char 12); correct it",
        ),
        (
            '{"n": 16,\n',
            ": not valid JSON: Expecting property name enclosed in double quotes: line 2 column 1 "
            "(char 10); correct it",
        ),
        ('{"a": 1}', NO_LIST),
        *(
            (
                content,
                f": record {number} must be a mapping with the keys n and error, got {number}; "
                'write {"n": 64, "error": 0.1}',
            )
            for number, content in ((1, '{"list": [1, 2]}'), (2, '[{"n": 16, "error": 0.3}, 2]'))
        ),
        ("[]", ": holds no measurements; add rows with n and error"),
        (
            '[{"n": 16, "n": 17, "error": 0.3}]',
            ": not valid JSON: the key 'n' is given twice; remove one; correct it",
        ),
        ("[" * 10**5, ": not valid JSON: nested too deeply; correct it"),
        (
            '{"error": [[1, 2], [3, 4]], "n": [16, 64]}',
            ": row 1, column 'error': [1, 2] is no number, and so are 1 more; write numbers as 64, "
            "0.001 or 1e-3",
        ),
    ],
)
def test_wrong_json_is_refused_by_its_place(file: File, content: str, problem: str) -> None:
    assert file.refused(content) == f"FILE{problem}"


# --- Records and frames --------------------------------------------------------------------------


def test_cells_are_texts_numbers_or_nothing() -> None:
    cells = [" a ", "  ", float("nan"), np.float32(0.5), np.int64(3), np.ma.masked, None, [1], True]
    (row,) = grid_of_records([dict(zip("abcdefghi", cells, strict=True))], Source()).rows
    assert row == (1, ["a", None, None, 0.5, 3, None, None, [1], True])
    assert type(row[1][3]) is float


def test_empty_rows_go_and_positions_stay() -> None:
    records = [{"n": None, "error": ""}, {"n": 16, "error": 0.3}, {}, {"n": 64}]
    grid = grid_of_records(records, Source("", "record", "key"))
    assert grid.rows == [(2, [16, 0.3]), (4, [64, None])]
    with pytest.raises(KoriskError, match="these records: holds no measurements"):
        grid_of_records([{"n": None}], Source("", "record", "key"))


def frame(columns: dict[Any, list[Any]], levels: dict[str | None, list[Any]] | None = None) -> Any:
    """What korisk uses of a data frame, with an index of these levels."""

    class Frame(dict[Any, Any]):
        @property
        def columns(self) -> list[Any]:
            return list(self)

    made = Frame(columns)
    if levels is not None:
        values = list(levels.values())
        made.index = SimpleNamespace(  # type: ignore[attr-defined]
            names=list(levels), get_level_values=lambda level: values[level]
        )
    return made


def test_named_levels_of_an_index_are_columns() -> None:
    grid = grid_of_frame(frame({"error": [0.3, 0.2]}, {"n": [16, 64], "seed": [1, 2]}))
    assert grid.header == ["n", "seed", "error"]
    assert grid.rows == [(1, [16, 1, 0.3]), (2, [64, 2, 0.2])]
    plain = grid_of_frame(frame({"n": [16], "error": [0.3]}, {None: [0]}))
    assert plain.header == ["n", "error"]


def test_columns_of_several_levels_are_joined() -> None:
    grid = grid_of_frame(frame({("n", ""): [16], ("error", "mean"): [0.3], " x ": [1]}))
    assert grid.header == ["n", "error mean", "x"]
    with pytest.raises(KoriskError, match="two columns have the same name; rename one"):
        grid_of_frame(frame({("a", "b"): [1], "a b": [2]}))


# --- Workbooks ------------------------------------------------------------------------------------


class Reader:
    """Stands for the reader of `binary.py`."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.largest = 0

    def __call__(self, content: bytes, largest: int) -> Any:
        self.largest = largest
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    stand_in = Reader()
    monkeypatch.setattr(binary, "workbook", stand_in)
    return stand_in


def sheet(*rows: list[Any], hidden: Sequence[int] = (), **marks: Any) -> Sheet:
    return Sheet(list(rows), hidden=frozenset(hidden), **marks)


GOOD = (["n", "error"], [16.0, 0.3], [64.0, 0.2])
FIVE = "B2, B3, B4, B5, B6"


def test_a_file_is_read_with_limits(file: File, reader: Reader) -> None:
    reader.answer = {"a": sheet(*GOOD)}
    assert file.told(b"PK\x03\x04") == (SHORT, "")
    assert reader.largest == 200_000
    for old in (b"\xd0\xcf\x11\xe0\0", b"PAR1\0"):  # of Excel 2003; Parquet
        assert file.refused(old) == "FILE: is a binary file; save it as .xlsx or CSV"


def test_problems_of_a_reader_are_told_in_one_line(file: File, reader: Reader) -> None:
    class Panic(BaseException):
        pass

    for problem, words in (
        (ValueError("x" * 300), "x" * 200),
        (ValueError("first\nsecond"), "first"),
        (Panic(), "Panic"),
    ):
        reader.answer = problem
        rest = f"cannot be read: {words}; save it as .xlsx or CSV"
        assert file.refused(b"PK\x03\x04") == f"FILE: {rest}"
    reader.answer = ModuleNotFoundError("no", name="python_calamine")
    with pytest.raises(MissingExtraError, match="needs python-calamine, which is not installed"):
        Curve.read(file.write(b"PK\x03\x04"))
    reader.answer = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        Curve.read(file.write(b"PK\x03\x04"))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.pkl"])
def test_arrays_and_pickles_are_refused_with_what_to_give(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = {"n": np.array([16, 64]), "error": np.array([0.3, 0.2])}
    if name == "a.npz":
        np.savez(path, n=table["n"], error=table["error"])
    else:
        path.write_bytes(pickle.dumps(table)) if name == "a.pkl" else np.save(path, table["n"])
    with pytest.raises(KoriskError, match=r"CSV$"):
        Curve.read(path)


@pytest.mark.parametrize(
    ("sheets", "read_as"),
    [
        ({"a": sheet(*GOOD)}, ""),
        ({"a": sheet(*GOOD), "b": sheet([""])}, "sheet 'a'"),
        ({"b": sheet(["x"], visible=False), "a": sheet(*GOOD)}, "sheet 'a'"),
        ({"a": sheet(*GOOD, [128.0, 9.0], hidden=[4])}, "1 hidden row left out"),
        ({"a": sheet(*GOOD, [128.0, 9.0], [1.0, 2.0], hidden=[4, 5])}, "2 hidden rows left out"),
        ({"a": sheet(*GOOD, ["", ""], hidden=[4])}, ""),
        ({"a": sheet(["# by hand", ""], *GOOD)}, ""),
        ({"a": sheet(["A  title", ""], ["", ""], *GOOD)}, "row 1 is a title"),
        ({"a": sheet(["n", "error", ""], [16.0, 0.3, ""], [64.0, 0.2, ""])}, ""),
    ],
)
def test_a_sheet_is_read_as_it_is_seen(
    file: File, reader: Reader, sheets: Any, read_as: str
) -> None:
    reader.answer = sheets
    assert file.told(b"PK\x03\x04") == (SHORT, read_as)


@pytest.mark.parametrize(
    ("sheets", "options", "problem"),
    [
        (
            {"a": sheet(*GOOD), "b": sheet(*GOOD)},
            {},
            "has 2 sheets with content ('a', 'b'); pass worksheet='a' for that one, or "
            "worksheet='b' for that one",
        ),
        ({"a": sheet(*GOOD)}, {"worksheet": "c"}, "no sheet 'c'; there are 'a'"),
        *(
            (
                {"a": sheet(*GOOD, formulas=tuple(f"B{k}" for k in range(2, end)))},
                {},
                f"has formulas without values ({places}); open it in a spreadsheet program and "
                "save it, or as CSV",
            )
            for end, places in ((3, "B2"), (7, FIVE), (8, f"{FIVE}, ..."))
        ),
        ({"a": sheet([""])}, {}, "holds no table; write a header such as n,error,seed first"),
        ({"a": sheet(["# x"])}, {}, "holds no table; write a header such as n,error,seed first"),
        (
            {f"s{k}": sheet(*GOOD) for k in range(11)},
            {},
            f"has 11 sheets with content ({', '.join(repr(f's{k}') for k in range(10))}, ...); "
            "pass worksheet='s0' for that one, worksheet='s1' for that one, "
            "worksheet='s2' for that one, or worksheet='s3' for that one",
        ),
        (
            {f"s{k}": sheet(*GOOD) for k in range(11)},
            {"worksheet": "x"},
            f"no sheet 'x'; there are {', '.join(repr(f's{k}') for k in range(10))}, ...",
        ),
    ],
)
def test_a_sheet_that_is_unclear_is_refused(
    file: File, reader: Reader, sheets: Any, options: dict[str, str], problem: str
) -> None:
    reader.answer = sheets
    assert file.refused(b"PK\x03\x04", **options) == f"FILE: {problem}"


def test_a_named_sheet_is_read_even_where_it_is_hidden(file: File, reader: Reader) -> None:
    reader.answer = {"a": sheet(["x"]), "b": sheet(*GOOD, visible=False)}
    assert file.told(b"PK\x03\x04", worksheet="b") == (SHORT, "")


def test_positions_are_rows_of_the_sheet(file: File, reader: Reader) -> None:
    reader.answer = {"a": sheet(["", ""], *GOOD[:2], ["", ""], GOOD[2])}
    grid = file.grid(b"PK\x03\x04")
    assert [position for position, _ in grid.rows] == [3, 5]
    assert grid.header == ["n", "error"]
    reader.answer = {"a": sheet([16.0, 64.0], [0.3, 0.2])}
    assert file.grid(b"PK\x03\x04").header == ["16", "64"]  # and not 16.0
