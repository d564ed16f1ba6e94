"""What was measured: learning curves, and the units and noise of their errors.

Start with `curve`; `read` takes tables of all kinds apart, `unit` turns metrics into errors, and
`noise` says how far seeds scatter.
"""
