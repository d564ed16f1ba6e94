"""Study files: their keys, and the spec of each cell.

Start with `study.py`: `Study` reads and checks a file. `kind.py` is the base class of kinds of
problems; `imaging.py`, `ct.py` and `pde.py` have those of korisk, and `registry.py` finds them.
`entries.py` has the keys that all kinds share.
"""

from korisk.studies.spec.kind import Kind, register

__all__ = ["Kind", "register"]
