"""The example of scikit-learn's digits prints what it says, whatever came out."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from korisk.pilots.adapters import held_out

PATH = Path(__file__).parents[2] / "examples" / "pilot_digits.py"
ROW = re.compile(
    r"(?P<name>.+?)  +(?P<target>[\d.]+)%  +(?P<planned>out of reach|[\d,]+ \([\d,]+ to .+?\))  +"
    r"(?P<error>[\d.]+)% \((?P<low>[\d.]+)% to (?P<high>[\d.]+)%\)  +"
    r"(?P<truth>[\d.]+)% \((?P<least>[\d.]+)% to (?P<most>[\d.]+)%\)  +(?P<inside>yes|no)"
)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pilot_digits", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pilot_digits", module)
    spec.loader.exec_module(module)
    return module


def test_the_table_says_what_was_foretold_and_what_came_out(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pilot_digits.py", "--quick"])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [found for line in lines[1:4] if (found := ROW.fullmatch(line))]
    assert [row["name"] for row in rows] == list(example.estimators())
    for row in rows:
        low, truth, high = (float(row[key]) for key in ("low", "truth", "high"))
        assert low <= float(row["error"]) <= high
        assert (row["inside"] == "yes") == (low <= truth <= high)
        mistakes = round(truth / 100 * 397)
        for end, tail in (("least", binom.sf), ("most", binom.cdf)):  # 5% beyond each end
            k = mistakes - 1 if end == "least" else mistakes
            assert tail(k, 397, float(row[end]) / 100) == pytest.approx(
                0.05, abs=4e-3
            )  # two digits are shown
    inside = sum(row["inside"] == "yes" for row in rows)
    meet = sum(
        float(row["least"]) <= float(row["high"]) and float(row["low"]) <= float(row["most"])
        for row in rows
    )
    assert lines[-1] == f"{meet} of 3 intervals of what was measured have a part in that band."
    assert lines[-2] == f"{inside} of 3 errors measured at N = 1400 lie in the 90% band."
    x, y = load_digits(return_X_y=True)
    train, test = held_out(len(y), 397 / len(y), labels=y)
    assert (len(train), len(test)) == (1400, 397)
    model = KNeighborsClassifier(3).fit(x[train] / 16, y[train])
    assert float(rows[2]["truth"]) == pytest.approx(
        100 * (1 - model.score(x[test] / 16, y[test])), abs=0.01
    )
