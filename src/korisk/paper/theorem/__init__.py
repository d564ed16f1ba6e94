"""The check of the theorem on trained networks, layer by layer.

Start with `check.py`: `read_theorem` computes bounds from stored errors of layers and compares
them with the errors of the networks. It also compares predicted with measured sample sizes of two
models. `explain.py` writes the sentences. `layers.py` measures the layers of networks against true
ones. `kind.py` registers that for studies with `theorem: true`, and the kind `deep`, whose true
network is known: the problems of `problems.py`.
"""

from korisk.paper.theorem import kind  # noqa: F401 (registers itself)
