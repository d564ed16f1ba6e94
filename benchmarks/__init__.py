"""Benchmarks: what they ask, by folder; `benchmarks/README.md` lists them."""
