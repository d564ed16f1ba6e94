"""The check of the theorem on trained networks, layer by layer.

Start with `check.py`: `read_theorem` computes bounds from stored errors of layers and compares
them with the errors of the networks. It also compares predicted with measured sample sizes of two
models. `explain.py` writes the sentences. `deep.py` and `networks.py` have the problems whose true
network is known, and `layers.py` measures the layers of any module against a true one.
"""
