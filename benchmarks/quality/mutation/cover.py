"""Which tests run which lines: one file of tests under coverage, for `mutation.run`.

    python -m benchmarks.quality.mutation.cover tests/theory/test_bound.py found.json

Run from the root of the tree. Lines that run while modules are imported belong to no test and are
listed under the empty name.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest


class Recorder:
    """Tells coverage which test is running, and takes the time of each."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around one test, with its fixtures."""
        self.measured.switch_context(item.nodeid)
        start = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - start
        self.measured.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails even without a fault."""
        if report.failed:
            self.failed.append(report.nodeid)


def main() -> int:
    """Write the lines and seconds of every test; the exit status is pytest's."""
    tests, out = sys.argv[1:]
    root = Path.cwd()
    packages = [str(root / "src/korisk" / package) for package in ("theory", "curves", "planning")]
    measured = coverage.Coverage(data_file=None, source=packages, config_file=False)
    recorder = Recorder(measured)
    measured.start()
    status = pytest.main(["-q", "-p", "no:cacheprovider", tests], plugins=[recorder])
    measured.stop()
    data = measured.get_data()
    lines = {
        Path(path).relative_to(root).as_posix(): data.contexts_by_lineno(path)
        for path in data.measured_files()
    }
    found = {"seconds": recorder.seconds, "failed": recorder.failed, "lines": lines}
    Path(out).write_text(json.dumps(found))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
