"""Learning curves: pilots, what they foretell, and the sample sizes that follow."""
