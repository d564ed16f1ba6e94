"""Rehearsals: networks trained on simulated pairs, before a scan is made.

Start reading at `rehearse`: it simulates pairs (`simulation`), trains networks on them
(`trainings`, which keeps finished ones in a folder; `budget` fits them into a limit of time), and
returns a `Rehearsal`; `rehearsal` also adds a pilot, and turns both into tables and JSON. `worth`
compares two rehearsals.
"""
