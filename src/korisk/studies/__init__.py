"""Studies: problems at several points, run cell by cell into a store, and read from it again.

A study is a list of tasks (`korisk.store`): `spec/` makes them from a study's file, `run/` runs
them into a store, `results.py` makes curves and tables of what is stored.
`reproduction.py` is the paper's own study.
"""

from korisk.store.cells import Result, Row, Task
from korisk.store.store import STORE_NAME, Cell, Failure, FlatRow, Store, store_path
from korisk.studies.results import curves
from korisk.studies.run.engine import Event, Summary, run_study
from korisk.studies.spec.study import Study

__all__ = [
    "STORE_NAME",
    "Cell",
    "Event",
    "Failure",
    "FlatRow",
    "Result",
    "Row",
    "Store",
    "Study",
    "Summary",
    "Task",
    "curves",
    "run_study",
    "store_path",
]
