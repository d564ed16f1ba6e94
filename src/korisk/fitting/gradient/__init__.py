"""Training by gradients: start with `train.train`.

`train` also has the step and the optimisers, `recipe` the settings and the outcome, and `many`
trains several networks at once.
"""
