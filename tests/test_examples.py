"""The example networks: complete, and made by the script beside them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import korisk as kr
from korisk import published

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mk", EXAMPLES / "make_ct_networks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mk"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("row", published.FOOTPRINT, ids=lambda row: f"H{row.size.H}")
def test_every_scale_is_there_with_its_parameters(row: published.FootprintRow) -> None:
    known = kr.Network.read(EXAMPLES / f"ct_h{row.size.H}_ko.yaml")
    dense = kr.Network.read(EXAMPLES / f"ct_h{row.size.H}_fc.yaml")
    assert [layer.parameters for layer in known.learned] == [row.size.known_parameters]
    assert [layer.parameters for layer in dense.learned] == [row.size.dense_parameters]
    assert known.names == ("W", "K", "A^T", "ReLU")
    assert dense.amplification("paper").tolist() == [2, 2]


@pytest.mark.parametrize("H", [8, 16, 32, 128])
def test_the_script_makes_the_files(script: ModuleType, H: int) -> None:
    size = next(row.size for row in published.FOOTPRINT if row.size.H == H)
    for made, kind in zip(script.networks(size, script.norms(size)), ("ko", "fc"), strict=True):
        stored = kr.Network.read(EXAMPLES / f"ct_h{H}_{kind}.yaml")
        # Rounding up the fourth digit may fall either way where a norm ends in zeros.
        assert made.tails("composed") == pytest.approx(stored.tails("composed"), rel=2e-3)
        assert kr.barron_bound(made, 64).total == pytest.approx(
            kr.barron_bound(stored, 64).total, rel=5e-3
        )


def test_norms_at_h128_are_the_known_ones(script: ModuleType) -> None:
    found = script.norms(kr.Footprint(128, 60, 128))
    assert found.filter == pytest.approx(0.0260, rel=0.01)
    assert found.backprojection == pytest.approx(85.7, rel=0.01)
    assert found.composed == pytest.approx(0.317, rel=0.01)


def test_the_projector_integrates_a_disc(script: ModuleType) -> None:
    # An independent reference: chords of a disc, 2 sqrt(r^2 - s^2), and its mass in every view.
    size = kr.Footprint(128, 12, 128)
    axis = range(128)
    radius = 40.0
    import numpy as np

    x, y = np.meshgrid(np.array(axis) - 63.5, np.array(axis) - 63.5)
    disc = (x**2 + y**2 <= radius**2).astype(float)
    sinogram = (script.projector(size) @ disc.ravel()).reshape(size.V, size.B)
    s = np.arange(size.B) - 63.5
    chords = 2 * np.sqrt(np.maximum(radius**2 - s**2, 0))
    assert np.abs(sinogram - chords).mean() < 1.0
    assert sinogram.sum(axis=1) == pytest.approx(disc.sum(), rel=0.01)


@pytest.mark.parametrize("row", published.CALIBRATION, ids=lambda row: f"H{row.H}")
def test_composed_bounds_of_the_examples_are_the_calibrated_lines(
    row: published.CalibrationRow,
) -> None:
    for kind, line in (("ko", row.known), ("fc", row.dense)):
        found = kr.risk_line(kr.Network.read(EXAMPLES / f"ct_h{row.H}_{kind}.yaml"))
        assert line.floor <= found.floor <= 1.005 * line.floor
        assert line.slope <= found.slope <= 1.005 * line.slope
