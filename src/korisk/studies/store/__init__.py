"""Where a study keeps its cells: one SQLite file.

Start with `store.py`: `Store` writes and reads cells. `file.py` creates, recognises, opens and
locks the file, and turns errors of SQLite into one line. The stored form of a result is in
`korisk.studies.result`.
"""
