"""The paper's own bench: what checks and reproduces it. Only the command line knows this package.

`theorem/` checks the bounds on trained networks, layer by layer.
"""
