"""Tables as people keep them: each file of data/tables is read right, or refused with a remedy.

tables.yaml says for each what it must be read as, checked by eye against what the file shows; for a
refused one also what its remedy (options, or an edit of the text) must then give.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import content, korisk, outputs, refused, text
from hypothesis import assume, given
from hypothesis import strategies as st

from korisk import Curve, KoriskError

DATA = Path(__file__).parents[1] / "data"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pilot-file.md"
TABLES: dict[str, Any] = yaml.safe_load((DATA / "tables.yaml").read_text(encoding="utf-8"))


def described(curve: Curve) -> str:
    """A curve in the words of tables.yaml."""
    values = zip(curve.sizes, curve.unit.from_error(curve.means), strict=True)
    points = ", ".join(f"{n} {round(float(value), 6):g}" for n, value in values)
    seeds = f"{len(curve.seeds)} seed{'s' * (len(curve.seeds) > 1)}"
    return f"{curve.model or '-'} / {curve.metric or '-'} / {curve.unit.name} / {seeds}: {points}"


def file_of(name: str) -> Path:
    needed = {".xlsx": "python_calamine", ".ods": "python_calamine", ".parquet": "pyarrow"}
    if module := needed.get(Path(name).suffix):
        pytest.importorskip(module)
    return DATA / "tables" / name


def test_the_list_and_its_page_have_every_table() -> None:
    assert sorted(TABLES) == sorted(path.name for path in (DATA / "tables").iterdir())
    listed = PAGE.read_text(encoding="utf-8").split("## Tables that were tried")[1].splitlines()
    for outcome in ("Read", "Refused", "Asked"):
        abouts = [
            each["about"].replace("|", "&#124;")
            for each in TABLES.values()
            if outcome == ("Read", "Refused", "Asked")[("refused" in each) + ("then" in each)]
        ]
        (line,) = [line for line in listed if line.startswith(f"| {outcome}")]
        assert f"({len(abouts)}) | " in line
        assert outcome == "Read" or line.endswith(f" | {'; '.join(abouts)} |")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_right_or_its_remedy_works(name: str, tmp_path: Path) -> None:
    expected, path = TABLES[name], file_of(name)
    if "refused" not in expected:
        curves = Curve.read_all(path)
        assert [described(curve) for curve in curves] == expected["curves"]
        assert curves[0].read_as == expected["read_as"]
        return
    with pytest.raises(KoriskError) as caught:
        Curve.read_all(path)
    assert expected["refused"] in str(caught.value)
    if "edit" in expected:
        table = path.read_text(encoding="utf-8")
        for old, new in expected["edit"]:
            assert old in table
            table = table.replace(old, new)
        path = tmp_path / name
        path.write_text(table, encoding="utf-8")
    if "curves" in expected:
        curves = Curve.read_all(path, **expected.get("then", {}))
        assert [described(curve) for curve in curves] == expected["curves"]


@pytest.mark.parametrize("name", [name for name, each in TABLES.items() if "then" in each])
def test_the_command_at_the_end_of_a_refusal_reads_the_table(name: str) -> None:
    said = refused("plan", file_of(name), "--target", 0.5)
    command = shlex.split(said[said.rindex(": korisk ") + 2 :])
    assert korisk(*command[1:]) in (0, 2, 3)
    again = outputs(*command[1:], code=korisk(*command[1:]))
    assert "target" in again[0] + again[1]  # past the reading, whatever this target gives


@pytest.mark.parametrize("name", TABLES)
def test_without_a_target_a_plan_shows_how_a_table_is_read(name: str) -> None:
    path = file_of(name)
    if "refused" in TABLES[name]:  # the same question as with a target
        asked = refused("plan", path, "--target", 0.5)
        assert refused("plan", path) == asked.replace(" --target 0.5", "")
        return
    shown, curves = text("plan", path), Curve.read_all(path)
    assert shown.endswith("For a plan, add --target E.")
    assert (f"Read: {curves[0].read_as}." in shown) == bool(curves[0].read_as)
    for curve, read in zip(curves, content("plan", path)["curves"], strict=True):
        ends = curve.unit.from_error(curve.means)[[0, -1]]
        better = "larger" if curve.unit.larger_is_better else "smaller"
        for fact in (curve.model, curve.metric, f"{better} is better", f"{ends[1]:.4g} at N ="):
            assert fact in shown
        assert (read["model"], read["metric"]) == (curve.model, curve.metric)
        assert (read["unit"], read["sizes"]) == (curve.unit.name, curve.sizes.tolist())
        assert (read["values"][0], read["values"][-1]) == pytest.approx(ends)
        assert (read["seeds"], read["read_as"]) == (curve.counts.tolist(), curve.read_as)


def test_of_many_models_ten_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("n,error,model\n" + "".join(f"64,0.1,m{k}\n128,0.05,m{k}\n" for k in range(12)))
    shown = text("plan", path)
    assert "m9, unit error" in shown
    assert "m10" not in shown
    assert "2 further models; all with --json." in shown
    assert len(content("plan", path)["curves"]) == 12


NAMED_AS_SEED = re.compile(
    r"(seed|run|rep\w*|fold|trial|split|s)[\W_]*[0-9]+|[0-9]+", re.IGNORECASE
)
words = st.sampled_from(
    [
        *("U-Net", "ResNet", "KO", "dense", "test", "train", "val", "error", "mse", "psnr", "acc"),
        *("18", "1", "2", "a", "v1", "s", "n", "std", "mean", "seed", "run", "fold", "net"),
    ]
)
heads = st.one_of(
    st.lists(words, min_size=1, max_size=3).map(" ".join),
    st.lists(words, min_size=2, max_size=3).map("_".join),
    st.text(st.characters(codec="utf-8", exclude_characters=',"\r\n'), min_size=1, max_size=12),
)


@given(names=st.lists(heads, min_size=2, max_size=5, unique_by=str.casefold))
def test_columns_that_are_not_named_as_seeds_are_never_averaged(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    assume(not any(NAMED_AS_SEED.fullmatch(name) for name in names))
    path = tmp_path_factory.getbasetemp() / "heads.csv"
    rows = [",".join(f"{(k + 2) / n:.6f}" for k in range(len(names))) for n in (64, 256)]
    path.write_text(f"n,{','.join(names)}\n64,{rows[0]}\n256,{rows[1]}\n", encoding="utf-8")
    try:
        curves = Curve.read_all(path)
    except KoriskError:
        return
    assert all(curve.counts.max() == 1 for curve in curves)
    assume(all(len(curve) == 2 and curve.seeds == ("",) for curve in curves))  # no labels
    unused = curves[0].read_as.partition("not used: ")[2].partition(";")[0]
    assert len(curves) + len(unused.split(", ")) - (not unused) == len(names)
