"""Images of one's own: files of several formats, brought to one size and value scale, split by patient."""
