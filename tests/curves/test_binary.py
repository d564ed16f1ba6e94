"""Workbooks as plain values, and what is refused before it is unpacked."""

import io
import sys
import zipfile
from types import SimpleNamespace

import pytest

from korisk.curves import binary

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OF = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGES = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
LINKS = "xl/_rels/workbook.xml.rels"


def packed(files: dict[str, str | bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
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


def row(number: int, *cells: float, mark: str = "", extra: str = "") -> str:
    numbers = "".join(
        f'<c r="{column}{number}"><v>{cell}</v></c>'
        for column, cell in zip("ABC", cells, strict=False)
    )
    return f'<row r="{number}"{mark}>{numbers}{extra}</row>'


# --- Spreadsheets --------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "/xl/"])
def test_a_workbook_is_read_with_what_excel_hides(root: str) -> None:
    pytest.importorskip("python_calamine")
    first = row(1, 16, 0.5) + row(2, 64, 0.25, mark=' hidden="1"')
    first += row(4, 256, mark=' hidden="true"') + row(5, 1024, mark=' hidden="0"')
    content = excel({"first": first, "second": row(1, 9)}, root=root, state=' state="hidden"')
    sheets = binary.workbook(content, 100)
    assert list(sheets) == ["first", "second"]
    assert [sheets[name].visible for name in sheets] == [True, False]
    # An empty row counts, so that positions are those that the program shows.
    rows = [[16, 0.5], [64, 0.25], ["", ""], [256, ""], [1024, ""]]
    assert sheets["first"].rows == rows
    assert [sorted(sheets[name].hidden) for name in sheets] == [[2, 4], []]
    assert [sheets[name].formulas for name in sheets] == [(), ()]


def test_a_table_keeps_its_place_in_the_sheet() -> None:
    pytest.importorskip("python_calamine")
    content = excel({"only": '<row r="2"><c r="B2"><v>7</v></c></row>'})
    assert binary.workbook(content, 100)["only"].rows == [["", ""], ["", 7]]


def test_formulas_count_where_they_have_no_value() -> None:
    pytest.importorskip("python_calamine")
    cells = {"A1": "<f>B1</f>", "B1": "<f>C1</f><v>3</v>", "C1": "<v>4</v>"}
    texts = "".join(f'<c r="{name}">{content}</c>' for name, content in cells.items())
    texts += '<c r="D1" t="str"><f>"" &amp; ""</f><v></v></c>'
    content = excel({"only": f'<row r="1">{texts}</row>'})
    assert binary.workbook(content, 100)["only"].formulas == ("A1",)


def test_cells_of_all_sheets_are_counted_together() -> None:
    pytest.importorskip("python_calamine")
    # One cell in the 101st row and column: about 10,000 cells, which are all but one empty.
    far = '<row r="101"><c r="CW101"><v>1</v></c></row>'
    for sheets in (["a"], ["a", "b"]):
        content = excel(dict.fromkeys(sheets, far))
        assert len(binary.workbook(content, 101**2 * len(sheets))) == len(sheets)
        with pytest.raises(ValueError, match="cells far outside of any table"):
            binary.workbook(content, 100**2 * len(sheets) - 1)


def test_texts_that_cells_share_are_counted_in_all_sheets() -> None:
    pytest.importorskip("python_calamine")
    cell = '<row r="1"><c r="A1" t="s"><v>0</v></c></row>'

    def shared(length: int, sheets: int) -> bytes:
        with zipfile.ZipFile(io.BytesIO(excel(dict.fromkeys("abcdefgh"[:sheets], cell)))) as book:
            files: dict[str, str | bytes] = {name: book.read(name) for name in book.namelist()}
        texts = f'<sst xmlns="{MAIN}"><si><t>{"x" * length}</t></si></sst>'
        return packed(files | {"xl/sharedStrings.xml": texts})

    assert len(binary.workbook(shared(10**7, 4), 10)) == 4
    with pytest.raises(ValueError, match="it unpacks to more than"):
        binary.workbook(shared(10**7, 7), 10)


# --- Archives ------------------------------------------------------------------------------------


def test_what_is_no_workbook_is_refused_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("python_calamine")
    assert list(binary.workbook(excel({"a": row(1, 1)}), 10)) == ["a"]
    with zipfile.ZipFile(io.BytesIO(excel({"a": row(1, 1)}))) as archive:
        both: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    both["content.xml"] = "<a/>"
    others: list[dict[str, str | bytes]] = [{"a.txt": "n,error"}, {"n.npy": b""}, both]
    for files in others:
        with pytest.raises(ValueError, match="a ZIP archive and no workbook of Excel's"):
            binary.workbook(packed(files), 10)
    for damaged in (b"PK\x03\x04", excel({"a": row(1, 1)})[:-30]):
        with pytest.raises(ValueError, match="it is a damaged archive"):
            binary.workbook(damaged, 10)
    # An archive may have as many bytes and members as the limit says, and no more.
    content = excel({"a": row(1, 1)})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(member.file_size for member in archive.infolist())
        members = len(archive.infolist())
    for name, most in (("UNPACKED", size), ("MEMBERS", members)):
        with monkeypatch.context() as patch:
            patch.setattr(binary, name, most)
            assert len(binary.workbook(content, 10)) == 1
            patch.setattr(binary, name, most - 1)
            with pytest.raises(ValueError, match="it unpacks to more than"):
                binary.workbook(content, 10)


def test_the_limits_leave_room_for_any_pilot() -> None:
    assert (binary.UNPACKED, binary.MEMBERS, binary.MOST_SHEETS) == (64 * 10**6, 2000, 100)


@pytest.mark.parametrize(
    "sheets",
    [
        '<row r="1"><c r="XFD1048576"><v>1</v></c></row>',
        '<row r="1048576"><c><v>1</v></c></row>',
        '<row r="1"><c r="A1048576"><v>1</v></c></row>',
    ],
)
def test_a_sheet_with_cells_far_away_is_not_opened(
    sheets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = SimpleNamespace(CalamineWorkbook=None)  # which nothing may ask for
    monkeypatch.setitem(sys.modules, "python_calamine", reader)
    with pytest.raises(ValueError, match="cells"):
        binary.workbook(excel({"a": sheets}), 29)


@pytest.mark.parametrize(
    ("letters", "number"), [("B", 2), ("Z", 26), ("AA", 27), ("cw", 101), ("XFD", 16384)]
)
def test_columns_are_counted_as_excel_names_them(letters: str, number: int) -> None:
    pytest.importorskip("python_calamine")
    content = excel({"a": f'<row r="1"><c r="{letters}1"><v>1</v></c></row>'})
    assert len(binary.workbook(content, number)["a"].rows[0]) == number
    with pytest.raises(ValueError, match="cells far outside of any table"):
        binary.workbook(content, number - 1)
