"""Megabytes that each way to install takes: the core alone a quarter of a gigabyte, with PyTorch
more than three times as much."""

import json
from pathlib import Path

from _chart import BLUE, chart

found = json.loads(Path("benchmarks/results/release_arm.json").read_text())["installs"]
figure, (axes,) = chart(height=2.6, xlabel="megabytes on disk")
names = [each["what"] for each in reversed(found)]
axes.barh(names, [each["megabytes"] for each in reversed(found)], color=BLUE, height=0.6)
