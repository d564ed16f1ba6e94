"""On the login node korisk run sends jobs to Slurm, gives each worker one cell at a time over the
network, and alone writes the store; workers in jobs on nodes send results back."""

from _chart import GREY, arrow, box, canvas, text

figure, axes = canvas(height=2.7)
box(axes, 1.0, 1.5, 1.5, 0.75, "login node\nkorisk run")
box(axes, 1.0, 0.35, 1.5, 0.45, "study.db")
box(axes, 2.85, 2.35, 1.1, 0.45, "Slurm")
for y in (1.9, 1.15, 0.4):
    box(axes, 4.45, y, 1.3, 0.5, "job: worker\none cell")
    arrow(axes, (1.8, 1.42), (3.75, y - 0.05))
arrow(axes, (1.0, 1.1), (1.0, 0.6))
arrow(axes, (1.5, 1.9), (2.25, 2.3))
arrow(axes, (3.45, 2.3), (4.2, 2.18))
text(axes, 1.5, 2.25, "sbatch", color=GREY)
text(axes, 0.5, 0.85, "writes", color=GREY)
text(axes, 2.35, 0.55, "cells out,\nresults back", color=GREY)
