"""The README's picture in a light and a dark version: python docs/images/draw.py"""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import yaml

LIGHT = Path(__file__).parent / "rehearsed_ct.svg"
QUESTION = ("rehearse", "examples/rehearse_ct.yaml", "--target", "0.0017", "--device", "cpu")
subprocess.run([sys.executable, "-m", "korisk", *QUESTION, "--plot", LIGHT], check=True)
theme = files("korisk.report.figures").joinpath("theme.yaml").read_text(encoding="utf-8")
text = LIGHT.read_text(encoding="utf-8")
for colour, (_, dark) in yaml.safe_load(theme).items():
    text = text.replace(colour, dark)
text = text.replace("<svg ", '<svg fill="#f0f0f0" ', 1)  # of text, which has no colour of its own
LIGHT.with_stem("rehearsed_ct_dark").write_text(text, encoding="utf-8")
