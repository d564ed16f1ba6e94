"""Figures of studies, pilots and predictions, drawn without pyplot: no display, no global state.

Start with `study`, which lists the figures of a report. `efficiency`, `factors`,
`networks`, `images`, `pilot` and `prediction` compute what a figure shows, then draw it with what
`panels` (axes, ticks, legends) and `style` (colours, type, files) share.
"""

from korisk.errors import MissingExtraError

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError("a plot needs matplotlib; pip install 'korisk[report]'") from error
