"""The curve of a dense layer, from the spectrum of the second moment."""
