"""From a curve to a sample size.

Start with `plan`, the answer for one pilot and target, and `compare`, two of them. A `forecast`
extrapolates a pilot by the `posterior` (or one curve of `fit`), mixed with `related` curves; `law`
has the laws of an error at N, and `chances` the table that answers are read off. `targets` chooses
targets to ask, `factors` holds both factors of the paper against plans, `next_size` says where to
measure next, and `explain` has the words for numbers and pilots; plans and comparisons explain
themselves.
"""
