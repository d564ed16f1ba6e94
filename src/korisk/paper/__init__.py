"""The paper's own bench: what checks and reproduces it. Only the command line knows this package.

`published.py` has the paper's tables, `reproduction.py` its study, `claims.py` a verdict on each of
its claims, and `theorem/` checks the bounds on trained networks, layer by layer. `supplement.py`
adds them to reports once this package is imported; `commands/` has `korisk reproduce` and `korisk
check`.
"""

from korisk.paper import supplement  # noqa: F401  (reports have the paper's parts from now on)
