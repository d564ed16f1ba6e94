"""Training by gradients: start with `train.train`.

`recipe` has the settings and the outcome, `steps` one step and the optimisers, and `sharded` the
dense network whose matrix is spread over several processes.
"""
