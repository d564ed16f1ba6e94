"""Learning curves: pilots, their extrapolation, and the sample sizes that follow."""
