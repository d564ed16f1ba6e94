"""Reports of studies and pilots, from results that are already computed.

`contents` reads a store once; `figures` draws, `tables` lists, `page` writes one HTML file.
Start with `contents.read_contents`. Figures and the page need Matplotlib.
"""
