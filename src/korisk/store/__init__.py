"""Storage of results: one SQLite file for each study or pilot.

Start with `store.py`: `Store` writes and reads cells. A `Task` of `cells.py` is one cell, a
`Result` its output, with the form in which both are stored. `file.py` creates, recognises, opens
and locks the file, and turns errors of SQLite into one line; `repair.py` copies the intact cells of
a damaged file before a run writes to it; `usage.py` measures time and memory of a cell.
"""
