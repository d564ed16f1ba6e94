"""Rehearsals: networks trained on simulated pairs, before a scan is made.

Start reading at `rehearse`: it simulates pairs (`simulation`), trains networks on them
(`trainings`, as many as a limit of time allows: `budget`; `finished` keeps them in a folder), and
returns a `Rehearsal` (`rehearsal`). `rehearsed` adds a pilot, and turns both into tables and JSON;
`worth` compares two rehearsals.
"""
