"""The learning curve of weights in front of known operators. Start at `from_examples`."""
