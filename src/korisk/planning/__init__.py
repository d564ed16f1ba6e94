"""From a curve to a sample size.

Start with `plan`, the answer for one pilot and target, and `compare`, two of them. A `forecast`
extrapolates a pilot by the `posterior` (or one curve of `fit`), mixed with `related` curves;
`posterior` also has the laws of an error at N. `next_size` says where to measure next, and
`explain` turns all of it into sentences.
"""
