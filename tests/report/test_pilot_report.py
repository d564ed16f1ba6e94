"""A pilot of one's own function as a report tells it: one point for each model."""

from pathlib import Path

import korisk as kr
from korisk.report.contents import read_contents
from korisk.report.tables.tables import study_tables


def test_a_pilot_is_one_point_with_all_its_sizes(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"
    for model, factor in (("mine", 1.0), ("other", 2.0)):
        kr.run_pilot(
            lambda n, seed, factor=factor: factor * (1 + seed / 100) / n,  # type: ignore[misc]
            [2, 4, 8],
            2,
            store=store,
            model=model,
            quiet=True,
        )
    contents = read_contents(store)
    assert [point.name for point in contents.points] == ["mine", "other"]
    for point in contents.points:
        [curve] = point.curves
        assert curve.sizes.tolist() == [2, 4, 8]
        assert len(point.cells) == 6
    [cells] = [table for table in study_tables(contents) if table.name == "cells"]
    assert {row[0] for row in cells.rows} == {"mine", "other"}
