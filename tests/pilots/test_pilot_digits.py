"""The example of scikit-learn's digits prints what it says, whatever the numbers are."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from korisk.pilots.adapters import held_out

PATH = Path(__file__).parents[2] / "examples" / "pilot_digits.py"
ROW = re.compile(
    r"(?P<name>.+?)  +(?P<target>[\d.]+)%  +"
    r"(?P<planned>(?:none|[\d,]+) / (?:none|[\d,]+) \(.+? to .+?\))  +"
    r"(?P<error>[\d.]+)% \((?P<low>[\d.]+)% to (?P<high>[\d.]+)%\)  +"
    r"(?P<truth>[\d.]+)% \((?P<least>[\d.]+)% to (?P<most>[\d.]+)%\)  +(?P<inside>yes|no)"
)


def test_the_table_shows_what_was_predicted_and_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pilot_digits.py", "--quick"])
    scope = runpy.run_path(str(PATH), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    rows = [found for line in lines[1:4] if (found := ROW.fullmatch(line))]
    assert [row["name"] for row in rows] == list(scope["estimators"]())
    inside = meet = 0
    for row in rows:
        keys = ("low", "error", "high", "truth", "least", "most")
        low, error, high, truth, least, most = (float(row[key]) for key in keys)
        assert low <= error <= high
        assert (row["inside"] == "yes") == (low <= truth <= high)
        inside += row["inside"] == "yes"
        meet += least <= high and low <= most
        mistakes = round(truth / 100 * 397)  # 5% are beyond each end; two digits are shown
        assert binom.sf(mistakes - 1, 397, least / 100) == pytest.approx(0.05, abs=4e-3)
        assert binom.cdf(mistakes, 397, most / 100) == pytest.approx(0.05, abs=4e-3)
    assert lines[-1].startswith(f"{meet} of 3 intervals")
    assert lines[-2].startswith(f"{inside} of 3 errors measured at N = 1400")
    x, y = load_digits(return_X_y=True)
    train, test = held_out(len(y), 397 / len(y), labels=y)
    assert (len(train), len(test)) == (1400, 397)
    model = KNeighborsClassifier(3).fit(x[train] / 16, y[train])
    wrong = 100 * (1 - model.score(x[test] / 16, y[test]))
    assert float(rows[2]["truth"]) == pytest.approx(wrong, abs=0.01)
