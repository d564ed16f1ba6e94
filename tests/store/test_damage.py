"""One bit changed or the end cut off: no file that korisk wrote then gives other numbers."""

from collections import Counter

import pytest

import damage


@pytest.mark.parametrize("name", damage.KINDS)
def test_no_number_changes_silently(name: str) -> None:
    kind, found = damage.KINDS[name], Counter[str]()
    for way, outcome, said in damage.tried(kind, flips=60, cuts=20, seed=1):
        assert outcome in ("refused", "repaired", "unchanged"), (way, outcome, said)
        found[outcome] += 1
    # What can be computed again always is, and ends equal to an undamaged one.
    assert found["repaired" if kind.again else "refused"]
    assert not found["refused" if kind.again else "repaired"]
