"""The paper's study and its tables. Only the command line knows this package.

`published.py` has the paper's tables, `reproduction.py` its study, `commands/` has `korisk
reproduce`, and `supplement.py` adds the paper's tables to reports once this package is imported.
"""

from korisk.paper import supplement  # noqa: F401  (reports have the paper's parts from now on)
