"""Images that several tests read."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two patients with three stacks of two images."""
    folder = tmp_path_factory.mktemp("clinic")
    rng = np.random.default_rng(7)
    for name in ("ann/1.npy", "ann/2.npy", "bob/1.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        np.save(folder / name, rng.uniform(0.1, 1, (2, 6, 6)))
    return folder
