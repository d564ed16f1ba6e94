"""The page of a study or a pilot, one HTML file: start with `study` or `page`.

`page` says what a page answers, `planner` packs the planner's answers into a table, `page` writes
the file around `assets/` (style, scripts, parts of HTML).
"""
