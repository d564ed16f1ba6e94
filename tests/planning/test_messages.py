"""Files as people write them, and how much of a long list a message names."""

from pathlib import Path

import numpy as np
import pytest

import korisk as kr
from korisk.planning.next_size import open_sizes
from korisk.prediction.dense.moments import image_moment


def _file(folder: Path, text: str) -> Path:
    path = folder / "pilot.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "n,error\n4,0.3\n8,0.2\n",
        "\nn,error\n4,0.3\n8,0.2\n",
        "\n\n# a comment\nn,error\n\n4,0.3\n8,0.2",
        "n,error,,\n4,0.3,,\n8,0.2,,\n",
        "n,error\r4,0.3\r8,0.2\r",
    ],
)
def test_blank_lines_and_empty_cells_are_no_measurements(tmp_path: Path, text: str) -> None:
    curve = kr.Curve.read(_file(tmp_path, text))
    assert curve.n.tolist() == [4, 8]
    assert curve.error.tolist() == [0.3, 0.2]


@pytest.mark.parametrize(("columns", "more"), [(10, ""), (11, " and 1 more"), (14, " and 4 more")])
def test_ten_columns_are_named_and_the_rest_counted(
    tmp_path: Path, columns: int, more: str
) -> None:
    names = [f"x{chr(97 + k)}" for k in range(columns)]
    path = _file(tmp_path, ",".join(names) + "\n" + ",".join("1" * columns) + "\n")
    with pytest.raises(kr.KoriskError) as refused:
        kr.Curve.read(path)
    assert f"found {', '.join(map(repr, names[:10]))}{more};" in str(refused.value)


@pytest.mark.parametrize(("models", "more"), [(10, ""), (12, " and 2 more")])
def test_ten_models_are_named_and_the_rest_counted(tmp_path: Path, models: int, more: str) -> None:
    names = [f"m{chr(97 + k)}" for k in range(models)]
    path = _file(tmp_path, "n,error,model\n" + "".join(f"4,0.3,{name}\n" for name in names))
    with pytest.raises(kr.KoriskError) as refused:
        kr.Curve.read(path)
    listed = ", ".join(map(repr, names[:10]))
    assert f"holds {models} models, {listed}{more}; name one" in str(refused.value)


def test_a_table_has_so_many_cells_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korisk.curves.curve.MAX_TABLE", 8)

    def curve(sizes: int, seeds: int) -> kr.Curve:
        n = np.repeat(4 + np.arange(sizes), seeds)
        return kr.Curve(n, 1 / n, [str(seed) for seed in range(seeds)] * sizes)

    for shape in ((4, 2), (2, 4)):
        assert curve(*shape).table.shape == shape
    with pytest.raises(kr.KoriskError, match="at most 8 cells, got 3 N times 3 seeds"):
        _ = curve(3, 3).table


def test_what_is_open_is_two_to_a_doubling_up_to_the_largest() -> None:
    curve = kr.Curve([16, 32, 64], [0.3, 0.2, 0.1])
    assert open_sizes(curve) == [23, 45, 91, 128, 181, 256]
    assert open_sizes(curve, 200) == [23, 45, 91, 128, 181, 200]
    assert open_sizes(curve, 181) == [23, 45, 91, 128, 181]
    assert open_sizes(curve, 16) == []
    assert open_sizes(curve, 10) == [10]
    assert open_sizes(kr.Curve([2, 4, 8], [0.3, 0.2, 0.1]), 6) == [3, 6]


def test_moments_of_small_images_are_matrices_and_as_uncertain_as_their_energies() -> None:
    images = np.random.default_rng(0).normal(1.0, 0.3, (8, 32, 32))
    made = image_moment(images)
    matrix = made.apply(np.eye(1024))
    assert matrix.shape == (1024, 1024)
    assert np.trace(matrix) == pytest.approx(made.energy)
    energies = np.square(images).sum(axis=(1, 2))
    error = np.std(energies, ddof=1) / np.sqrt(8)
    assert made.uncertainty == pytest.approx(error / energies.mean())
