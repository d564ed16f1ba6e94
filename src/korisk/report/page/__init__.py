"""The page of a study or a pilot, one HTML file: start with `study` or `page`.

`planner` packs what `korisk.planning.targets` answers for the scripts; `page` writes the file
around `assets/` (style, scripts, parts of HTML).
"""
