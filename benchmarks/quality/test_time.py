"""Where the time of CI goes, in CPU seconds: the parts of its targets, and the tests by folder.

    python -m benchmarks.quality.test_time                      # every part, one after the other
    python -m benchmarks.quality.test_time --only unit --slowest 20
    python -m benchmarks.quality.test_time --json benchmarks/results/test_time.json

A part is a target of the Makefile; in a fresh clone it finds nothing that an earlier run kept. What
its processes take is counted as soon as they end. As a plugin of pytest this module writes what
each test takes, with its fixtures and the processes that it waits for, into a JUnit file.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("lint", "types", "unit", "docs", "core", "long")
TESTS = ("unit", "long")  # parts of which the time of every test is taken
_BEGUN = pytest.StashKey[float]()


def cpu(whose: int = resource.RUSAGE_CHILDREN) -> float:
    """CPU seconds of the processes that have ended, or of this one."""
    taken = resource.getrusage(whose)
    return taken.ru_utime + taken.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note when a test begins."""
    item.stash[_BEGUN] = cpu() + cpu(resource.RUSAGE_SELF)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Add what a test took to its report."""
    result = yield
    taken = cpu() + cpu(resource.RUSAGE_SELF) - item.stash[_BEGUN]
    item.user_properties.append(("cpu", taken))
    return result


def tests(report: Path) -> dict[str, float]:
    """CPU seconds of every test in a JUnit file."""
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}": float(entry.get("value", 0))
        for case in cases
        for entry in case.iter("property")
    }


def main() -> None:
    """Run the parts, print their times, and keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--slowest", type=int, default=0, help="list so many tests, too")
    parser.add_argument("--json", type=Path, help="keep the times in this file")
    options = parser.parse_args()
    seconds: dict[str, float] = {}
    folders: defaultdict[str, float] = defaultdict(float)
    for part in [options.only] if options.only else PARTS:
        with tempfile.TemporaryDirectory() as made:
            report, before = Path(made) / "tests.xml", cpu()
            plugin = f"-p benchmarks.quality.test_time --junitxml={report}"
            environment = os.environ | ({"PYTEST_ADDOPTS": plugin} if part in TESTS else {})
            subprocess.run(["make", part], cwd=ROOT, env=environment, check=False)
            seconds[part] = cpu() - before
            taken = tests(report) if part in TESTS else {}
        for test in sorted(taken, key=taken.__getitem__, reverse=True)[: options.slowest]:
            print(f"{taken[test]:8.1f} {test}")
        for test in taken:
            folders["/".join(test.partition("::")[0].split(".")[:2])] += taken[test]
    for name, total in [*seconds.items(), *sorted(folders.items())]:
        print(f"{total:8.1f} {name}")
    if options.json:
        machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
        kept = {"machine": machine, "parts": seconds, "folders": dict(sorted(folders.items()))}
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
