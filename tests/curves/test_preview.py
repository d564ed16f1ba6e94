"""How a table was read, told before a plan."""

from pathlib import Path

from korisk import Curve
from korisk.curves.preview import Preview, Understood


def curve(model: str, sizes: range, seeds: tuple[int, ...] = (), **labels: str) -> Understood:
    return Understood(
        model,
        labels.get("metric", ""),
        labels.get("unit", "error"),
        labels.get("unit") == "psnr",
        tuple(sizes),
        tuple(1 / n for n in sizes),
        seeds or (1,) * len(sizes),
    )


def test_every_model_has_a_row_with_its_own_values_and_seeds() -> None:
    curves = (
        curve("KO", range(2, 5), (3, 1, 5), metric="loss"),
        curve("", range(4, 6), (2, 2), unit="psnr"),
    )
    table = Preview("pilot.csv", curves).table()
    assert table.title == "pilot.csv: 2 models"
    assert table.align == "llllr"
    heads = ["model", "metric", "unit", "better", "N=2", "N=3", "N=4", "N=5", "seeds"]
    assert table.heads == heads
    assert table.rows == [
        ["KO", "loss", "error", "smaller", "0.5", "0.3333", "0.25", "-", "1 to 5"],
        ["-", "-", "psnr", "larger", "-", "-", "0.25", "0.2", "2"],
    ]


def test_one_model_is_one() -> None:
    assert Preview("a", (curve("KO", range(2, 4)),)).table().title == "a: 1 model"


def test_many_sizes_are_cut_to_the_first_and_last_four() -> None:
    for most, shown in ((9, range(2, 10)), (10, (2, 3, 4, 5, 7, 8, 9, 10))):
        table = Preview("a", (curve("KO", range(2, most + 1)),)).table()
        assert table.heads[4:-1] == [f"N={n}" for n in shown]
        assert len(table.rows[0]) == len(table.heads)
    assert table.title == "a: 1 model, 9 sizes of which 8 are shown"
    assert Preview("a", (curve("KO", range(1000, 1002)),)).table().heads[4] == "N=1,000"


def test_sentences_tell_how_it_was_read_and_what_was_not_used() -> None:
    assert Preview("a").sentences() == []
    assert Preview("a", notes=("one", "two")).sentences() == ["Read: one; two."]
    assert Preview("a", unused=("GPU", "x")).sentences() == ["Not used: 'GPU', 'x'."]


def test_a_question_stands_for_everything_else() -> None:
    asked = Preview("a", question="which column?")
    assert str(asked) == "which column?"
    assert asked.to_dict()["question"] == "which column?"
    preview = Preview("a", (curve("KO", range(2, 4)),), ("read so",), ("GPU",))
    lines = str(preview).splitlines()
    assert lines[0] == "a: 1 model"
    assert lines[-2:] == ["Read: read so.", "Not used: 'GPU'."]
    content = preview.to_dict()
    assert content["question"] is None
    assert content["notes"] == ("read so",)
    assert content["curves"] == [
        {
            "model": "KO",
            "metric": "",
            "unit": "error",
            "larger_is_better": False,
            "sizes": (2, 3),
            "values": (1 / 2, 1 / 3),
            "seeds": (1, 1),
        }
    ]


def test_a_table_is_previewed_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("n,KO,FC,GPU\n16,20,15,2\n64,25,18,2\n")
    preview = Curve.preview(path, unit="psnr")
    assert preview.name == str(path)
    assert [(curve.model, curve.unit, curve.larger_is_better) for curve in preview.curves] == [
        *(("KO", "psnr", True), ("FC", "psnr", True)),
    ]
    assert [round(value, 9) for value in preview.curves[1].values] == [15, 18]
    assert preview.notes == ("one column for each model ('KO', 'FC')",)
    assert preview.unused == ("GPU",)
    assert not preview.question
    asked = Curve.preview(path)
    assert "does not say whether larger is better" in str(asked.question)
    assert asked.curves == ()
