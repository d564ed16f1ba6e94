"""One bit changed or the end cut off: no file that korisk wrote then gives other numbers."""

import json
from collections import Counter

import pytest

from benchmarks.quality import damage


@pytest.mark.parametrize("name", damage.KINDS)
def test_no_number_changes_silently(name: str) -> None:
    kind, found = damage.KINDS[name], Counter[str]()
    for way, outcome, said in damage.tried(kind, flips=24, cuts=8, seed=1):
        assert outcome in ("refused", "repaired", "unchanged"), (way, outcome, said)
        found[outcome] += 1
    # What can be computed again always is, and ends equal to an undamaged one.
    assert found["repaired" if kind.again else "refused"]
    assert not found["refused" if kind.again else "repaired"]


def test_the_page_has_the_outcomes_that_were_kept() -> None:
    kept, found = json.loads(damage.KEPT.read_text(encoding="utf-8")), dict[str, Counter[str]]()
    assert damage.TABLE.read_text(encoding="utf-8").splitlines() == list(damage.table(kept))
    page = damage.ROOT / "docs" / "reference" / "store.md"
    assert f"results/{damage.TABLE.name}\n" in page.read_text(encoding="utf-8")
    for row in kept["kinds"]:
        found.setdefault(row["way"], Counter()).update(row["outcomes"])
    assert found["bit"].total() >= 2000
    assert found["cut"].total() >= 200
    assert not any(each["SILENT CHANGE"] or each["FAULT"] for each in found.values())
