"""Ridge regression: `dense` in dual form, `diagonal` in front of known operators.

`choice` has the score and the choice of lambda, `solvers` the linear systems of many lambdas, and
`refinement` the steps that take the ReLU into the loss.
"""
