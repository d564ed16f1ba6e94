"""`korisk.describe`: any PyTorch module as the network that the theory takes.

`describe` runs the module once on an example and records every operation (`recording`, `steps`),
cuts the run into a chain (`chain`), and writes the chain as layers (`layers`). `rules` and
`constants` know how far an operation stretches distances, `linear` computes norms of linear maps,
`verify` checks that the recorded steps are the module and samples slopes. `marks` are what a user
states about a module: `korisk.known` and `korisk.learned`. Start with `describe.describe`.
"""
