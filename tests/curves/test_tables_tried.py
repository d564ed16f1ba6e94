"""Tables as people keep them, with their truth: none is read wrongly, and every remedy works."""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from commands import content, outputs, refused, text
from hypothesis import assume, given
from hypothesis import strategies as st
from tables_tried import COLLECTIONS, DATA, KEPT, Table, outcome

from korisk import Curve, KoriskError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pilot-file.md"
TABLES = [(name, table) for name, tables in COLLECTIONS.items() for table in tables]


def ids() -> list[str]:
    return [f"{name}: {table.about}" for name, table in TABLES]


def test_there_are_three_hundred_tables_and_a_hundred_by_new_hands() -> None:
    assert len(TABLES) >= 300
    assert len(COLLECTIONS["labs"]) + len(COLLECTIONS["guests"]) >= 100


@pytest.mark.parametrize("table", [table for _, table in TABLES], ids=ids())
def test_a_table_is_read_rightly_or_every_remedy_works(table: Table, tmp_path: Path) -> None:
    result = outcome(table, tmp_path)
    assert result.kind in ("read", "asked", "refused"), result.why
    if result.command is None:
        return
    # The command at the end of the message does the same as the option in it.
    path = table.write(tmp_path)
    message = refused("plan", path)
    command = shlex.split(message[message.rindex(": korisk ") + 2 :])
    assert command[:2] == ["korisk", "plan"]
    try:
        curves = Curve.read_all(path, **result.command)
    except KoriskError:  # one more question
        refused(*command[1:])
        return
    shown = content(*command[1:])["curves"]
    assert [curve["sizes"] for curve in shown] == [curve.sizes.tolist() for curve in curves]
    assert [curve["unit"] for curve in shown] == [curve.unit.name for curve in curves]


def test_the_page_counts_the_tables_and_most_clear_ones_are_read_at_once(tmp_path: Path) -> None:
    results = [(table, outcome(table, tmp_path).kind) for _, table in TABLES]
    kinds = Counter(kind for _, kind in results)
    clear = [kind for table, kind in results if table.sees == "one" and table.truths]
    assert clear.count("read") >= 2 * len(clear) / 3
    page = " ".join(PAGE.read_text().split())
    for fact in (
        f"Of {len(TABLES)} tables with their truth, {kinds['read']} are read at once, "
        f"{kinds['asked']} after a question, {kinds['refused']} stay refused",
        f"Of the {len(clear)} in which a person sees one reading only, "
        f"{clear.count('read')} are read at once",
    ):
        assert fact in page
    assert {path.name for path in (DATA / "tables").iterdir()} == {*KEPT}


SCORES = {
    "psnr": 27,
    "ssim": 0.91,
    "Dice": 0.8,
    "accuracy": 0.8,
    "AUC": 0.8,
    "mAP": 0.4,
    "MCC": 0.4,
}
SCORES |= {"BLEU": 24, "kappa": 0.5, "C-index": 0.7, "IoU": 0.6, "F1": 0.7, "R²": 0.6}
SCORES |= {"peak signal-to-noise ratio": 30, "structural similarity": 0.9}
ERRORS = {
    "MSE": 0.02,
    "root mean squared error": 0.3,
    "NMSE": 0.03,
    "cross-entropy": 0.6,
    "WER": 20,
}


@pytest.mark.parametrize("slope", [-0.02, 0, 0.02])
@pytest.mark.parametrize(("name", "level"), [*SCORES.items(), *ERRORS.items()])
def test_a_name_decides_whether_values_rise_fall_or_stay(
    tmp_path: Path, name: str, level: float, slope: float
) -> None:
    values = [level * (1 + slope * k) for k in range(5)]
    rows = [f"{30 * 2**k},{value * 1.01:.5g},{value:.5g}\n" for k, value in enumerate(values)]
    path = tmp_path / "pilot.csv"
    path.write_text(f"n_train,val_{name},test_{name}\n" + "".join(rows), encoding="utf-8")
    (curve,) = Curve.read_all(path)
    assert curve.unit.larger_is_better == (name in SCORES)
    assert curve.unit.from_error(curve.error) == pytest.approx(values, rel=1e-3)
    assert f"not used: 'val_{name}'" in curve.read_as


def test_without_a_target_a_plan_shows_how_a_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("n_train,train_psnr,val_psnr,test_psnr\n30,33,27.2,27\n60,31,27.1,26.9\n")
    shown = text("plan", path)
    for fact in ("n_train", "test_psnr", "psnr", "larger is better", "27 at N = 30", "--target"):
        assert fact in shown
    assert "val_psnr" in shown
    assert len(outputs("plan", path)[0].strip().splitlines()) == 5


def test_of_many_models_ten_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("n,error,model\n" + "".join(f"64,0.1,m{k}\n128,0.05,m{k}\n" for k in range(12)))
    shown = text("plan", path)
    assert "m9 0.1 at N = 64" in shown
    assert "m10" not in shown
    assert "2 further models; all with --json" in shown
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
    st.text(st.characters(codec="utf-8", exclude_characters=',;"\r\n'), min_size=1, max_size=12),
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
