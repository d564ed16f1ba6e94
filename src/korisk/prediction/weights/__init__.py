"""The curve of weights around known operators."""
