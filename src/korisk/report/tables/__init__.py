"""Tables of a study: `tables` has the values, `text` writes Markdown, LaTeX, CSV and HTML.

Titles, captions and columns are in `tables.yaml`, and templates of LaTeX in `.tex` files.
"""
