"""What a study is: the keys of its file, and the spec of each of its cells.

Start with `study.py`: `Study` reads and checks a file. `kind.py` has what a kind of problem tells
about itself, and `ct.py`, `mri.py`, `blur.py` and `pde.py` one kind each, which register
themselves. `entries.py` has the keys that they share, and `imaging.py` and
`motion.py` what kinds of images do.
"""

from korisk.files import Spec
from korisk.studies.spec import blur, ct, mri, pde  # noqa: F401 (registers them)
from korisk.studies.spec.entries import FieldStudyEntry, ModelEntry, PointEntry, StudyEntry
from korisk.studies.spec.kind import Kind, register

__all__ = [
    "FieldStudyEntry",
    "Kind",
    "ModelEntry",
    "PointEntry",
    "Spec",
    "StudyEntry",
    "register",
]
