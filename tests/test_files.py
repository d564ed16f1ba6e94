"""Users' YAML files: what is refused, in one line, in bounded time and memory."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import korisk as kr
from korisk.files import MAX_YAML_BYTES


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
        ("layers:\n\t- K\n", "line 2, column 1: not valid YAML"),
        ("layers: [\n", "not valid YAML"),
        ("layers: 2026-13-45\n", "not valid YAML: month must be in"),
        ("a: &x 1\nb: *x\n", "aliases (*name) are not taken here"),
        ("layers: !!python/object/apply:os.system [ls]\n", "is not taken here; write plain values"),
        ("layers: !anything 3\n", "the tag '!anything' is not taken here"),
        ("layers: !!bool foo\n", "is not taken here; write plain values"),
        ("layers: !!binary aGk=\n", "is not taken here; write plain values"),
        ("layers: 0x" + "F" * 5_000 + "\n", "layers must be a list, got <int, too long to show>"),
        ("layers: 1" + ":1" * 5_000 + "\n", "layers must be a list, got <int, too long to show>"),
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


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(kr.KoriskError, match="no such file"):
        kr.Network.read(tmp_path / "nowhere.yaml")
    with pytest.raises(kr.KoriskError, match="is a folder"):
        kr.Network.read(tmp_path)
    with pytest.raises(kr.KoriskError, match="cannot be read"):
        kr.Network.read("null\0byte")


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


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
