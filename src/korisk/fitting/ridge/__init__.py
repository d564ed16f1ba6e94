"""Ridge regression: `dense` in dual form, `diagonal` in front of known operators.

`diagonal` also solves the linear systems of many lambdas. `choice` has the score and the choice of
lambda, and `refinement` the steps that take the ReLU into the loss.
"""
