"""What a study is: the keys of its file, and the spec of each of its cells.

Start with `study.py`: `Study` reads and checks a file, and `problem_of` builds the problem of a
cell. `kinds.py` has what all kinds of problems share, and a section for each. A new kind is a new
section and a line in `KINDS`.
"""
