"""What a study is: the keys of its file, and the spec of each of its cells.

Start with `study.py`: `Study` reads and checks a file, and `problem_of` builds the problem of a
cell. `entries.py` has the keys and checks that all kinds share; `ct.py` (with the deeper network),
`mri.py` and `heat.py` have those of one kind each. A new kind is a new file and a line in `KINDS`.
"""
