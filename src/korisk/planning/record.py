"""The record: how often answers held, on curves of networks that chose nothing.

`python -m benchmarks.planner.record` writes record.json from kept results of the benchmarks.
"""

import json
from importlib.resources import files

from korisk.planning.words import Held

# By the kind of evidence, and for ratios: rows by how far beyond the pilot N lies.
RECORD: dict[str, list[Held]] = json.loads(
    (files("korisk.planning") / "record.json").read_text("utf-8")
)
