"""`korisk.describe`: any PyTorch module as the network that the theory takes.

`describe` runs the module once on an example and records every operation (`recording`, which also
checks that the recorded steps are the module), makes a graph of the run (`graph`), and writes the
graph as layers (`layers`). `rules` knows how far an operation stretches distances, `linear`
computes norms of linear maps and samples slopes of others. `marks` are what a user states about a
module: `korisk.mark_known` and `korisk.mark_learned`. Start with `describe.describe`.
"""
