"""The example networks: complete, and made by the script beside them."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import korisk as kr
from korisk.files import read_yaml
from korisk.paper import published
from korisk.studies import Study
from korisk.studies.run.cells import run_cell

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mk", EXAMPLES / "make_ct_networks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mk"] = module
    spec.loader.exec_module(module)
    vars(module)["norms"] = cache(module.norms)
    return module


@pytest.mark.parametrize("row", published.FOOTPRINT, ids=lambda row: f"H{row.size.H}")
def test_every_scale_is_there_with_its_parameters(row: published.FootprintRow) -> None:
    known = kr.Network.read(EXAMPLES / f"ct_h{row.size.H}_ko.yaml")
    dense = kr.Network.read(EXAMPLES / f"ct_h{row.size.H}_fc.yaml")
    assert [layer.parameters for layer in known.learned] == [row.size.known_parameters]
    assert [layer.parameters for layer in dense.learned] == [row.size.dense_parameters]
    assert known.names == ("W", "K", "A^T", "ReLU")
    assert dense.amplification("paper").tolist() == [2, 2]


@pytest.mark.parametrize("H", [8, 16, 128])
def test_the_script_makes_the_files(script: ModuleType, H: int) -> None:
    size = next(row.size for row in published.FOOTPRINT if row.size.H == H)
    for made, kind in zip(script.networks(size, script.norms(size)), ("ko", "fc"), strict=True):
        stored = kr.Network.read(EXAMPLES / f"ct_h{H}_{kind}.yaml")
        # Rounding up the fourth digit may fall either way where a norm ends in zeros.
        assert made.tails("composed") == pytest.approx(stored.tails("composed"), rel=2e-3)
        assert kr.barron_bound(made, 64).total == pytest.approx(
            kr.barron_bound(stored, 64).total, rel=5e-3
        )


@pytest.mark.parametrize("name", ["ct", "mri", "deblurring"])
def test_networks_of_today_train_behind_every_operator(name: str) -> None:
    content = read_yaml(EXAMPLES / f"networks_{name}.yaml")
    for network in content["models"]["networks"]:
        network |= {"steps": 10, "width": 2}
    few = {"sizes": [4], "seeds": [1], "pools": {"validation": 4, "test": 4}}
    (task,) = Study(content | few).tasks
    rows = run_cell(task, lambda share: None).rows
    assert len(rows) == len(content["models"]["networks"]) == 3
    errors = {row.model: row.metrics["mse"] for row in rows}
    known, dense = next(iter(errors)), "dense + U-Net"  # the known inverse comes first
    assert 0 < errors[known] < errors[dense]


def test_norms_at_h128_are_the_known_ones(script: ModuleType) -> None:
    found = script.norms(published.Scan(128, 60, 128))
    assert found.filter.upper == pytest.approx(0.0260, rel=0.01)
    assert found.backprojection.upper == pytest.approx(85.7, rel=0.01)
    assert found.composed.upper == pytest.approx(0.317, rel=0.01)
