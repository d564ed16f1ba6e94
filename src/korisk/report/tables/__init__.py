"""Tables of a study: `tables` has the values, `text` writes Markdown, LaTeX, CSV and HTML."""
