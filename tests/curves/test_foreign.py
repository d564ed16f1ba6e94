"""Workbooks, NumPy archives and Parquet files as plain values, read in this process."""

import io
import json
import sys
import zipfile
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from korisk.curves import foreign

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OF = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGES = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
LINKS = "xl/_rels/workbook.xml.rels"
NAMES = "urn:oasis:names:tc:opendocument:xmlns"


def packed(files: dict[str, str | bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            # The kind of a spreadsheet of LibreOffice's must be readable without unpacking.
            stored = zipfile.ZIP_STORED if name == "mimetype" else None
            archive.writestr(name, text, stored)
    return content.getvalue()


def excel(sheets: dict[str, str], *, root: str = "", state: str = "") -> bytes:
    """A workbook of Excel's; `root` stands before the paths of its sheets."""
    numbered = list(enumerate(sheets, start=1))
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGES}/content-types"><Default '
            'Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{KIND}.sheet.main+xml"/>'
            + "".join(
                f'<Override PartName="/xl/s{k}.xml" ContentType="{KIND}.worksheet+xml"/>'
                for k, _ in numbered
            )
            + "</Types>",
            "_rels/.rels": f'<Relationships xmlns="{PACKAGES}/relationships"><Relationship Id="r" '
            f'Type="{OF}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OF}"><sheets>'
            + "".join(
                f'<sheet name="{name}" sheetId="{k}" r:id="r{k}"{state * (k > 1)}/>'
                for k, name in numbered
            )
            + "</sheets></workbook>",
            LINKS: f'<Relationships xmlns="{PACKAGES}/relationships">'
            + "".join(
                f'<Relationship Id="r{k}" Type="{OF}/worksheet" Target="{root}s{k}.xml"/>'
                for k, _ in numbered
            )
            + "</Relationships>",
            **{
                f"xl/s{k}.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{sheets[name]}</sheetData>'
                "</worksheet>"
                for k, name in numbered
            },
        }
    )


def archive_links(files: dict[str, str | bytes]) -> str:
    """The file of a workbook that tells where its sheets are."""
    content = files[LINKS]
    return content.decode() if isinstance(content, bytes) else content


def row(number: int, *cells: float, mark: str = "", extra: str = "") -> str:
    numbers = "".join(
        f'<c r="{column}{number}"><v>{cell}</v></c>'
        for column, cell in zip("ABC", cells, strict=False)
    )
    return f'<row r="{number}"{mark}>{numbers}{extra}</row>'


def libre(tables: dict[str, str]) -> bytes:
    """A spreadsheet of LibreOffice's."""
    spaces = "".join(f' xmlns:{name}="{NAMES}:{name}:1.0"' for name in ("office", "table", "text"))
    body = "".join(
        f'<table:table table:name="{name}">{rows}</table:table>' for name, rows in tables.items()
    )
    body = f"<office:body><office:spreadsheet>{body}</office:spreadsheet></office:body>"
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return packed(
        {
            "mimetype": kind,
            "content.xml": f"<office:document-content{spaces}>{body}</office:document-content>",
            "META-INF/manifest.xml": "<manifest/>",
        }
    )


def libre_row(value: float, mark: str = "") -> str:
    cell = f'<table:table-cell office:value-type="float" office:value="{value}"/>'
    return f"<table:table-row{mark}>{cell}</table:table-row>"


# --- Spreadsheets --------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "/xl/"])
def test_a_workbook_is_read_with_what_excel_hides(root: str) -> None:
    pytest.importorskip("python_calamine")
    first = row(1, 16, 0.5) + row(2, 64, 0.25, mark=' hidden="1"')
    first += row(4, 256, mark=' hidden="true"') + row(5, 1024, mark=' hidden="0"')
    content = excel({"first": first, "second": row(1, 9)}, root=root, state=' state="hidden"')
    sheets = foreign.workbook(content, 100)["sheets"]
    assert list(sheets) == ["first", "second"]
    assert [sheets[name]["visible"] for name in sheets] == [True, False]
    # An empty row counts, so that positions are those that the program shows.
    rows = [[16, 0.5], [64, 0.25], ["", ""], [256, ""], [1024, ""]]
    assert sheets["first"]["rows"] == rows
    assert [sheets[name]["hidden"] for name in sheets] == [[2, 4], []]
    assert [sheets[name]["formulas"] for name in sheets] == [[], []]


def test_a_table_keeps_its_place_in_the_sheet() -> None:
    pytest.importorskip("python_calamine")
    content = excel({"only": '<row r="2"><c r="B2"><v>7</v></c></row>'})
    assert foreign.workbook(content, 100)["sheets"]["only"]["rows"] == [["", ""], ["", 7]]


def test_formulas_count_where_they_have_no_value() -> None:
    pytest.importorskip("python_calamine")
    cells = {
        "A1": "<f>B1</f>",
        "B1": "<f>C1</f><v>3</v>",
        "C1": "<v>4</v>",
    }
    texts = "".join(f'<c r="{name}">{content}</c>' for name, content in cells.items())
    texts += '<c r="D1" t="str"><f>"" &amp; ""</f><v></v></c>'
    content = excel({"only": f'<row r="1">{texts}</row>'})
    assert foreign.workbook(content, 100)["sheets"]["only"]["formulas"] == ["A1"]


def test_a_binary_sheet_has_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = excel({"first": row(1, 9), "second": row(1, 9, mark=' hidden="1"')})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    links = archive_links(files).replace("s1.xml", "s1.bin")
    # No library writes such a file here: one that names its sheets stands for the reader.
    sheet = SimpleNamespace(end=None, total_height=0, total_width=0, to_python=lambda **_: [])
    sheets = [SimpleNamespace(name=name, visible=True) for name in ("first", "second", "other")]
    book = SimpleNamespace(sheets_metadata=sheets, get_sheet_by_name=lambda _: sheet)
    reader = SimpleNamespace(
        CalamineWorkbook=SimpleNamespace(from_filelike=lambda _: book),
        SheetVisibleEnum=SimpleNamespace(Visible=True),
    )
    monkeypatch.setitem(sys.modules, "python_calamine", reader)
    for target, hidden in ((links, [[], [1], []]), (None, [[], [], []])):
        changed = {name: text for name, text in files.items() if name != LINKS}
        result = foreign.workbook(packed(changed | ({LINKS: target} if target else {})), 10)
        assert [entry["hidden"] for entry in result["sheets"].values()] == hidden


def test_hidden_rows_of_libreoffice_are_counted_with_their_repetitions() -> None:
    pytest.importorskip("python_calamine")
    twice = ' table:number-rows-repeated="2"'
    rows = libre_row(16, twice) + libre_row(64, f'{twice} table:visibility="collapse"')
    rows += libre_row(256) + libre_row(1024, ' table:visibility="filter"')
    rows += libre_row(2048, ' table:visibility="visible"')
    sheets = foreign.workbook(libre({"a": rows, "b": libre_row(9)}), 100)["sheets"]
    values = [16, 16, 64, 64, 256, 1024, 2048]
    assert sheets["a"]["rows"] == [[value] for value in values]
    assert sheets["a"]["hidden"] == [3, 4, 6]
    assert sheets["a"]["formulas"] == []
    assert sheets["b"]["hidden"] == []


def test_a_million_hidden_rows_are_cut() -> None:
    pytest.importorskip("python_calamine")
    mark = ' table:number-rows-repeated="1048575" table:visibility="collapse"'
    empty = f"<table:table-row{mark}><table:table-cell/></table:table-row>"
    sheet = foreign.workbook(libre({"a": libre_row(16) + empty}), 10)["sheets"]["a"]
    assert sheet["rows"] == [[16]]
    assert (sheet["hidden"][0], len(sheet["hidden"])) == (2, 100_000)


def test_cells_of_all_sheets_are_counted_together() -> None:
    pytest.importorskip("python_calamine")
    # One cell in the 101st row and column: about 10,000 cells, which are all but one empty.
    far = '<row r="101"><c r="CW101"><v>1</v></c></row>'
    for sheets in (["a"], ["a", "b"]):
        content = excel(dict.fromkeys(sheets, far))
        assert len(foreign.workbook(content, 101**2 * len(sheets))["sheets"]) == len(sheets)
        with pytest.raises(ValueError, match="cells far outside of any table"):
            foreign.workbook(content, 100**2 * len(sheets) - 1)


# --- NumPy ---------------------------------------------------------------------------------------


def saved(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def alone(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def test_arrays_become_lists_by_name() -> None:
    content = saved(n=[4, 8], error=[[0.5, 0.25], [0.125, 1.0]], name=np.array([b"a", b"b"]))
    expected = {"n": [4, 8], "error": [[0.5, 0.25], [0.125, 1.0]], "name": ["a", "b"]}
    assert foreign.arrays(content, 100) == {"arrays": expected}
    assert foreign.arrays(alone([4, 8]), 100) == {"arrays": {"": [4, 8]}}
    flags = alone(np.array([True, False]))
    assert foreign.arrays(flags, 100) == {"arrays": {"": [True, False]}}


def test_fields_of_an_array_are_columns() -> None:
    table = np.array([(4, 0.5), (8, 0.25)], [("n", "i4"), ("error", "f8")])
    expected = {"arrays": {"n": [4, 8], "error": [0.5, 0.25]}}
    assert foreign.arrays(alone(table), 100) == expected


def test_values_of_all_arrays_are_counted_together() -> None:
    content = saved(n=[4, 8], error=[0.5, 0.25])
    assert len(foreign.arrays(content, 4)["arrays"]) == 2
    with pytest.raises(ValueError, match="it holds too many values"):
        foreign.arrays(content, 3)


@pytest.mark.parametrize("value", [1j, np.datetime64("2026-01-01")])
def test_what_is_no_number_or_text_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not numbers or texts"):
        foreign.arrays(alone([value]), 100)


def test_pickled_objects_are_not_loaded() -> None:
    with pytest.raises(ValueError, match="allow_pickle=False"):
        foreign.arrays(alone(np.array([{}], object)), 100)


# --- Archives ------------------------------------------------------------------------------------


def test_an_archive_is_known_by_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("python_calamine")
    assert foreign.archive(saved(n=[4]), 10) == {"arrays": {"n": [4]}}
    assert list(foreign.archive(excel({"a": row(1, 1)}), 10)["sheets"]) == ["a"]
    assert list(foreign.archive(libre({"b": libre_row(1)}), 10)["sheets"]) == ["b"]
    for files in ({"a.txt": "n,error"}, {}):
        with pytest.raises(ValueError, match="a ZIP archive and no table; unpack it first"):
            foreign.archive(packed(dict(files)), 10)
    with pytest.raises(ValueError, match="a ZIP archive and no table"):
        foreign.archive(packed({"a.npy": alone([1]), "b.txt": ""}), 10)
    for damaged in (b"PK\x03\x04", saved(n=[4])[:-30]):
        with pytest.raises(ValueError, match="it is a damaged archive"):
            foreign.archive(damaged, 10)
    # An archive may have as many bytes and members as the limit says, and no more.
    content = saved(n=[4], error=[5])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    for name, most in (("UNPACKED", size), ("MEMBERS", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(foreign, name, most)
            assert len(foreign.archive(content, 10)["arrays"]) == 2
            patch.setattr(foreign, name, most - 1)
            with pytest.raises(ValueError, match="it unpacks to more than"):
                foreign.archive(content, 10)


def test_the_limits_of_an_archive_leave_room_for_any_pilot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (foreign.UNPACKED, foreign.MEMBERS) == (64 * 10**6, 2000)
    monkeypatch.setattr(foreign, "UNPACKED", 2_500_000)
    with pytest.raises(ValueError, match=r"it unpacks to more than 2\.5 MB"):
        foreign.archive(packed({"n.npy": bytes(2_500_001)}), 10)


# --- Parquet -------------------------------------------------------------------------------------


def test_columns_of_parquet_come_without_nested_ones() -> None:
    arrow = pytest.importorskip("pyarrow")
    content = io.BytesIO()
    table = arrow.table(
        {
            "n": [4, 8],
            "error": [0.5, None],
            "list": [[1], [2]],
            "bytes": arrow.array([b"ab", b"cd"], arrow.binary(2)),
            "name": ["a", "b"],
        }
    )
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, content)
    columns = {"n": [4, 8], "error": [0.5, None], "name": ["a", "b"]}
    assert foreign.parquet(content.getvalue(), 10) == {"columns": columns}
    with pytest.raises(ValueError, match="it holds more than 9 values"):
        foreign.parquet(content.getvalue(), 9)


# --- The process ---------------------------------------------------------------------------------


def answer(monkeypatch: pytest.MonkeyPatch, content: bytes, largest: int = 100) -> Any:
    """What the process prints for a file, and the limits that it sets itself."""
    limits: dict[str, tuple[int, int]] = {}
    out = io.StringIO()
    with monkeypatch.context() as patch:
        resource = pytest.importorskip("resource")
        for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_CORE"):
            patch.setattr(resource, name, name)
        patch.setattr(resource, "setrlimit", limits.__setitem__)
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        patch.setattr(sys, "stdout", out)
        foreign.main(largest)
    assert limits == {
        "RLIMIT_AS": (3 * 1024**3, 3 * 1024**3),
        "RLIMIT_CPU": (10, 10),
        "RLIMIT_CORE": (0, 0),
    }
    return json.loads(out.getvalue())


def test_a_file_is_known_by_its_first_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, alone([4])) == {"arrays": {"": [4]}}
    assert answer(monkeypatch, saved(n=[4])) == {"arrays": {"n": [4]}}
    # The first line of what the parser says, or its name where it says nothing.
    problem = answer(monkeypatch, b"PK\x03\x04 damaged")
    assert problem == {"problem": "it is a damaged archive"}
    problem = answer(monkeypatch, saved(n=[4, 5, 6]), largest=2)
    assert problem == {"problem": "it holds too many values"}

    failures: list[tuple[BaseException, dict[str, str]]] = [
        (ValueError("first\nsecond"), {"problem": "first"}),
        (KeyboardInterrupt(), {"problem": "KeyboardInterrupt"}),
        (ModuleNotFoundError("no", name="pyarrow"), {"missing": "pyarrow"}),
        (ImportError("broken"), {"problem": "broken"}),
    ]
    for failure, expected in failures:

        def fails(content: bytes, largest: int, failure: BaseException = failure) -> Any:
            raise failure

        monkeypatch.setattr(foreign, "parquet", fails)
        assert answer(monkeypatch, b"PAR1") == expected


def test_other_bytes_are_a_workbook_of_old_excel(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("python_calamine")
    (problem,) = answer(monkeypatch, b"\xd0\xcf\x11\xe0 damaged")
    assert problem == "problem"
    monkeypatch.setattr(foreign, "workbook", lambda content, largest: {"rows": largest})
    assert answer(monkeypatch, b"\xd0\xcf\x11\xe0", 7) == {"rows": 7}


def test_a_system_without_limits_is_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to exceed maximum limit")

    out = io.StringIO()
    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(alone([4]))))
    monkeypatch.setattr(sys, "stdout", out)
    foreign.main(10)
    assert json.loads(out.getvalue()) == {"arrays": {"": [4]}}
