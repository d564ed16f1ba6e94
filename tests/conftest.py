import gc
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
from hypothesis import settings

if TYPE_CHECKING:
    from korisk.store.store import Store

# The same examples in every run, so that a landing does not hang on a draw; `make slow` asks for
# the long profile, which draws new ones, and ten times as many of them.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("long", deadline=None, max_examples=200)
settings.load_profile("ci")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts us in the background has Ctrl-C ignored, which our children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Tests from end to end: pages and figures, commands of the documents, worker processes, trainings.
# They take most of the time of all tests, so that `make test` leaves them to `make thorough`.
LONG = {
    "ablation/test_ablate.py",
    *(f"cli/test_{name}_cli.py" for name in ("compute", "plan", "rehearse", "study")),
    *("cli/test_cli.py", "cli/test_plan_odds.py", "curves/test_tables_tried.py"),
    *(f"hardening/test_{name}.py" for name in ("bombs", "outputs", "readers")),
    *(f"pages/test_{name}.py" for name in ("api_examples", "equations", "pages_run")),
    *("networks/test_large_graphs.py", "paper/test_claims.py", "operators/test_anywhere.py"),
    "paper/test_theorem.py",
    *(f"pilots/test_pilot_{name}.py" for name in ("adapters", "growing", "workers")),
    "pilots/test_longer.py",
    *(f"prediction/test_{name}.py" for name in ("dense_examples", "independent", "trainings")),
    "prediction/test_rehearse.py",
    "prediction/test_pilot_beside_rehearsal.py",
    "report/test_rehearsal_page.py",
    *(f"report/test_{name}.py" for name in ("notebook", "one_answer", "page", "serve")),
    *("report/test_forecast_figure.py", "report/test_prediction_section.py"),
    *(f"report/test_{name}.py" for name in ("study_figures", "study_page")),
    *(
        f"studies/test_{name}.py"
        for name in ("cells", "clusters", "dask", "engine", "killed", "pde")
    ),
    *("studies/test_kinds.py", "studies/test_outside_kind.py"),
    *("test_examples.py", "test_without_paper.py"),
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which `make test` or `make thorough` would run no test."""
    wanted = {"not slow and not long": False, "long and not slow": True}.get(config.option.markexpr)
    if wanted is None or collection_path.suffix != ".py":
        return None
    is_long = collection_path.relative_to(Path(__file__).parent).as_posix() in LONG
    return True if is_long != wanted else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix() in LONG:
            item.add_marker(pytest.mark.long)


gc.disable()  # until all tests are found: what is made until then stays


def pytest_collection_finish() -> None:
    """Spare every search for garbage what lives as long as the tests: modules, and the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew for every call, which takes longer than most of them do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def bare_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without figures and answers to many targets: they take seconds, and have own tests."""
    monkeypatch.setattr("korisk.report.page.study.page_figures", lambda *_, **__: iter([]))
    # The first target alone.
    monkeypatch.setattr("korisk.planning.targets._stops", lambda _, first: [first])


@pytest.fixture
def store(tmp_path: Path) -> "Iterator[Store]":
    """A store of the study of tests/studies/dummy_work.py, open for writing."""
    from dummy_work import STUDY

    from korisk.store.store import Store

    with Store.create_or_open(tmp_path / "study.db", STUDY) as opened:
        yield opened


@pytest.fixture(scope="session")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two patients with three stacks of two images."""
    import numpy as np

    folder = tmp_path_factory.mktemp("clinic")
    rng = np.random.default_rng(7)
    for name in ("ann/1.npy", "ann/2.npy", "bob/1.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        np.save(folder / name, rng.uniform(0.1, 1, (2, 6, 6)))
    return folder
