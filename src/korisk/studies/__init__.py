"""Studies: problems at several points, run cell by cell into a store, and read from it again.

Start with `result.py`: a `Task` is one cell, a `Result` what it returns. `spec/` turns study files
into tasks, `run/` runs them, `store/` keeps them, `results.py` makes curves and tables of them.
`theorem/` checks bounds on trained networks; `reproduction.py` is the paper's own study.
"""

from korisk.studies.result import Result, Row, Task
from korisk.studies.results import curves
from korisk.studies.run.engine import Event, Summary, run_study
from korisk.studies.spec.study import Study
from korisk.studies.store.store import STORE_NAME, Cell, Failure, FlatRow, Store, store_path

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
