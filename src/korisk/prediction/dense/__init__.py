"""The learning curve of a dense layer, from its inputs' spectrum. Start at `from_examples`."""
