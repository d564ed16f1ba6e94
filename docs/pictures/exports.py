"""Two ways out of korisk: commands print JSON with --json, and korisk export writes a store as a
table in CSV or JSON; scripts, spreadsheets and notebooks read both."""

from _chart import GREY, arrow, box, canvas, text

figure, axes = canvas(height=2.0)
box(axes, 0.8, 1.5, 1.4, 0.6, "plan, bound,\nrehearse, …")
box(axes, 0.8, 0.5, 1.4, 0.6, "study.db\npilot.db")
box(axes, 2.85, 1.5, 1.2, 0.45, "JSON")
box(axes, 2.85, 0.5, 1.2, 0.6, "CSV, JSON")
box(axes, 4.6, 1.0, 1.1, 0.85, "scripts,\nsheets,\nnotebooks")
for y, words in ((1.5, "--json"), (0.5, "export")):
    arrow(axes, (1.5, y), (2.25, y))
    text(axes, 1.87, y + 0.15, words, color=GREY)
    arrow(axes, (3.45, y), (4.05, 1.0 + (y - 1) / 2))
