"""Figures of studies, pilots and predictions, drawn without pyplot: no display, no global state.

Start with `study`, which lists the figures of a report. `efficiency`, `factors`, `networks`,
`images`, `pilot` and `prediction` compute what a figure shows, then draw it with the parts that
they share: `panels` (axes, ticks, legends) and `style` (colours, type, files).
"""

from korisk.errors import needed_by

with needed_by("a plot", "matplotlib", "'korisk[report]'"):
    import matplotlib  # noqa: F401
