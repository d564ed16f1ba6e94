"""Tables of a study: `tables` has the values, `text` writes CSV and HTML.

Titles, captions and columns are in `tables.yaml`.
"""
