"""Learning curves: measured errors over the number of training samples."""
