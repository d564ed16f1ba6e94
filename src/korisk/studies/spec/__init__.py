"""Study files: their keys, and the spec of each cell.

Start with `study.py`: `Study` reads and checks a file. `kind.py` is the base class of kinds of
problems; `ct.py`, `mri.py`, `blur.py` and `pde.py` have one kind each, which register themselves.
`entries.py` has the keys that all kinds share, `imaging.py` and `motion.py` those of imaging.
"""

from korisk.files import Spec
from korisk.studies.spec import blur, ct, mri, pde  # noqa: F401 (registers them)
from korisk.studies.spec.entries import FieldStudyEntry, ModelEntry, PointEntry, StudyEntry
from korisk.studies.spec.kind import Kind, register

__all__ = ["FieldStudyEntry", "Kind", "ModelEntry", "PointEntry", "Spec", "StudyEntry", "register"]
