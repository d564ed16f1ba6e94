"""Studies: problems at several operating points, run cell by cell into a store.

A study is a list of tasks (`korisk.store`): `spec/` builds them from a study file, `run/` runs them
into a store, and `results.py` turns stored results into curves and tables.
"""

from korisk.store.cells import Result, Row, Task
from korisk.store.store import STORE_NAME, Cell, Failure, FlatRow, Store, store_path
from korisk.studies.results import curves
from korisk.studies.run.engine import Compute, Event, Summary, run_study
from korisk.studies.spec.study import Study

__all__ = [
    "STORE_NAME",
    "Cell",
    "Compute",
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
