"""Users' YAML files: what is refused, in one line, in bounded time and memory."""

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import korisk as kr
from korisk.files import MAX_YAML_BYTES, from_cell, read_yaml, to_cell, write_yaml
from korisk.studies.results import Table, csv_text


def refuse(path: Path, content: bytes | str) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(kr.KoriskError) as caught:
        kr.Network.read(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(f"{path}")


KNOWN = "layers:\n- {known: K, lipschitz: 1}\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "must be a mapping of keys to values, got None"),
        ("- a\n- b\n", "must be a mapping of keys to values, got ["),
        ("just words\n", "must be a mapping of keys to values, got 'just words"),
        ("name: x\n", "layers is missing"),
        ("layers: []\n", "layers must hold at least one layer"),
        ("layers: 3\n", "layers must be a list, got 3; start every entry with '- '"),
        ("layers: [3]\n", "layers[1] must be a mapping of keys to values, got 3; keys: known,"),
        ("layer:\n- {known: K}\n", "unknown key 'layer'; did you mean 'layers'?"),
        (
            "layers:\n- {known: K, lipshitz: 1}\n",
            "'lipshitz' in layers[1]; did you mean 'lipschitz'",
        ),
        ("layers:\n- {learned: W, zzz: 1}\n", "unknown key 'zzz' in layers[1]; known: known,"),
        (
            "layers:\n- {known: K, lipschitz: {lower: 1, uper: 2}}\n",
            "unknown key 'uper' in layers[1].lipschitz; did you mean 'upper'?",
        ),
        ("layers:\n- {known: K, lipschitz: {lower: 1}}\n", "layers[1].lipschitz.upper is missing"),
        ("layers:\n- {known: K, lipschitz: {lower: 2, upper: 1}}\n", "lower must be <= upper"),
        ("layers:\n- {known: K, lipschitz: -1}\n", "layer 'K': lipschitz must be a finite number"),
        ("layers:\n- {known: K, lipschitz: .nan}\n", "layer 'K': lipschitz must be a finite"),
        (
            "layers:\n- {known: K, lipschitz: big}\n",
            "lipschitz must be a number, got 'big'; write it",
        ),
        ("layers:\n- {known: K, lipschitz: true}\n", "lipschitz must be a number, got True"),
        ("layers:\n- {known: 3}\n", "layers[1].known must be a text, got 3; quote it"),
        ("layers:\n- {known: K, learned: K}\n", "exactly one of the keys 'known' and 'learned'"),
        ("layers:\n- {lipschitz: 1}\n", "exactly one of the keys 'known' and 'learned'"),
        ("layers:\n- {known: K, kappa: 1}\n", "a known layer takes no kappa"),
        ("layers:\n- {learned: K, mismatch: 1}\n", "a learned layer takes no mismatch"),
        ("layers:\n- {learned: K, parameters: 1.5}\n", "parameters must be a whole number"),
        ("layers:\n- {known: K}\n- {known: K}\n", "layer names must differ, got 'K' twice"),
        ("layers:\n- {known: K, known: L}\n", "line 2, column 14: not valid YAML: key 'known'"),
        ("1: x\n" + KNOWN, "keys must be texts, got 1"),
        ("1: x\n0x1: x\n" + KNOWN, "line 2, column 1: not valid YAML: key '0x1' is given twice"),
        ("layers:\n- {known: K, lipschitz: 1:30}\n", "a number, got '1:30'; write it as 1000, 0."),
        ("layers:\n- {learned: W, parameters: 1_000}\n", "got '1_000'; write it in digits"),
        ("layers:\n- {known: K, lipschitz: no}\n", "lipschitz must be a number, got 'no'"),
        ("layers:\n- {known: K, lipschitz: 1e999}\n", "line 2, column 25: not valid YAML: '1e999'"),
        ("layers:\n\t- K\n", "line 2, column 1: not valid YAML"),
        ("layers: [\n", "not valid YAML"),
        ("layers: 2026-13-45\n", "layers must be a list, got '2026-13-45'"),
        ("a: &x 1\nb: *x\n", "aliases (*name) are not taken here"),
        ("layers: !!python/object/apply:os.system [ls]\n", "is not taken here; write plain values"),
        ("layers: !anything 3\n", "the tag '!anything' is not taken here"),
        ("layers: !!bool foo\n", "is not taken here; write plain values"),
        ("layers: !!binary aGk=\n", "is not taken here; write plain values"),
        ("layers: 0x" + "F" * 5_000 + "\n", "layers must be a list, got <int, too long to show>"),
        ("layers: [" + "9" * 5_000 + "]\n", "too many digits; shorten it"),
        ("? [a]\n: b\n", "not valid YAML"),
        ("[" * 5_000, "nested too deeply"),
        (b"\xff\xfel\x00a\x00", "is not UTF-8 text"),
        (b"layers: \x00", "not valid YAML"),
        (KNOWN + "compositions:\n- {first: K, last: Z, lipschitz: 1}\n", "no layer 'Z'"),
    ],
)
def test_wrong_files_are_refused_in_one_line(
    tmp_path: Path, content: bytes | str, expected: str
) -> None:
    assert expected in refuse(tmp_path / "net.yaml", content)


@pytest.mark.parametrize(
    ("text", "value"),  # by the core schema of YAML 1.2.2, section 10.3.2
    [
        *((text, None) for text in ("null", "Null", "NULL", "~", "")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        *(("017", 17), ("08", 8), ("-12", -12), ("+3", 3), ("0o17", 15), ("0x1F", 31)),
        *(("1e-3", 1e-3), ("1E5", 1e5), (".5", 0.5), ("5.", 5.0), ("-0.1", -0.1), ("1.e3", 1e3)),
        *((".inf", math.inf), ("-.Inf", -math.inf), ("+.INF", math.inf)),
        *((text, text) for text in ("yes", "No", "on", "OFF", "y", "1:30", "1:30.5", "1_000")),
        *((text, text) for text in ("0b1", "-0x1F", "0o8", "1e", "2026-01-01", "<<", "=", "tRUE")),
    ],
)
def test_scalars_are_those_of_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"a: {text}\n")
    found = read_yaml(path)["a"]
    assert (found, type(found)) == (value, type(value))


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
tricky = st.from_regex(r"[-+0-9.:_eExoabnNyYtTfF~<=#'\" ]{1,9}", fullmatch=True)


@given(st.lists(plain | tricky, max_size=5))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[object]
) -> None:
    path = tmp_path_factory.mktemp("yaml") / "a.yaml"
    write_yaml(path, {"values": values})
    found = read_yaml(path)["values"]
    assert list(map(repr, found)) == list(map(repr, values))


def test_nothing_is_written_that_would_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(kr.KoriskError, match=r"a\.yaml: would have 0\.\d+ MB"):
        write_yaml(tmp_path / "a.yaml", ["x" * 99] * (MAX_YAML_BYTES // 100))
    assert not list(tmp_path.iterdir())


@given(st.text(st.sampled_from("'=+-@#%\t\r\n a1"), max_size=6) | st.text(max_size=6))
def test_no_text_of_a_csv_file_is_a_formula(text: str) -> None:
    cell = to_cell(text)
    assert from_cell(cell) == text
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "#", "%"))
    assert not cell.startswith(("\t", "\r"))
    assert from_cell(to_cell(cell)) == cell


def test_numbers_of_a_csv_file_stay_numbers() -> None:
    assert [to_cell(value) for value in (-3.5, -1, None, 1e-300)] == [-3.5, -1, None, 1e-300]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(kr.KoriskError, match="no such file"):
        kr.Network.read(tmp_path / "nowhere.yaml")
    with pytest.raises(kr.KoriskError, match="is a folder"):
        kr.Network.read(tmp_path)
    with pytest.raises(kr.KoriskError, match="cannot be read"):
        kr.Network.read("null\0byte")
    with pytest.raises(kr.KoriskError, match="path must be the name of a file, got 0; name the"):
        kr.Network.read(0)  # type: ignore[arg-type]  # and does not read what is typed


def test_a_100_mb_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(kr.KoriskError, match=r"is larger than 0\.2 MB"):
        kr.Network.read(path)


def test_no_tag_ever_builds_an_object(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    refuse(
        tmp_path / "net.yaml",
        f"layers: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path "
        f"['{witness}']]\n",
    )
    assert not witness.exists()


words = "layers known learned lipschitz parameters compositions first K"
values = "1e-3 -1 .nan null 0x1F 0b_ 1:1 << ~ 2026-01-01"
marks = "&a *a !!str !!int !x ? | > ' \" # , { } [ ] --- ... %"
texts = f"{words} {values} {marks}".split()
pieces = st.sampled_from([*texts, ": ", "\n", "- ", "  ", "\t", " "])


@settings(
    max_examples=8 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(pieces, max_size=40).map("".join) | st.text(max_size=80) | st.binary(max_size=80))
def test_no_input_gives_anything_but_a_network_or_one_line(
    tmp_path: Path, content: str | bytes
) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
    message = ""
    try:
        kr.Network.read(path)
    except kr.KoriskError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < len(str(path)) + 600


def test_the_largest_file_that_is_taken_reads_well(tmp_path: Path) -> None:
    line = "- {known: K%05d, lipschitz: 1.5}\n"
    count = (MAX_YAML_BYTES - 10) // len(line % 0)
    path = tmp_path / "long.yaml"
    path.write_text("layers:\n" + "".join(line % i for i in range(count)))
    assert len(kr.Network.read(path)) == count


@given(st.text(st.sampled_from("=+-@'#%a1"), min_size=1, max_size=5))
def test_exported_names_are_read_back(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "pilot.csv"
    rows = tuple((n, 1 / n, 1, name, "mse") for n in (4, 16, 64))
    path.write_text(csv_text(Table(("n", "error", "seed", "model", "metric"), rows)))
    assert kr.Curve.read(path).model == name
    columns = ("model", "seed", "n", "error")  # a name in front
    path.write_text(csv_text(Table(columns, tuple((name, 1, n, 1 / n) for n in (4, 16, 64)))))
    assert kr.Curve.read(path).model == name
