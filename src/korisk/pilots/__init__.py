"""Pilots: learning curves measured with the user's training code.

Start with `run.py`: `run_pilot` runs each fit as a cell of a study (`fit.py`), with the options of
`options.py`, and returns a `Pilot` (`result.py`). `adapters.py` builds fits of scikit-learn
estimators and PyTorch datasets, which are imported when they are used.
"""

from korisk.pilots.adapters import pilot_sklearn, pilot_torch
from korisk.pilots.options import PilotModel
from korisk.pilots.result import Pilot
from korisk.pilots.run import run_pilot
from korisk.studies.run.engine import Compute

__all__ = ["Compute", "Pilot", "PilotModel", "pilot_sklearn", "pilot_torch", "run_pilot"]
