"""Computed tomography: scanners, projectors, filters and filtered backprojection.

Start with `geometry.py` and `cone.py` (where rays run; `scan.py` has what these share), then
`stencils.py` (which pixel meets which bin with which weight), `engines.py` and `triton_joseph.py`
(how these weights are applied), `projector.py` (the operators), and `filter.py` and `fbp.py`
(reconstruction, ours and as in the authors' code).
"""
