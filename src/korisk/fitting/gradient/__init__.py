"""Training by gradients: start with `train.train`, or `train.train_many` for several networks.

`stack` makes one network of several, `recipe` has the settings of a training.
"""
