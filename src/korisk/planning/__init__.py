"""From a curve to a sample size, and to what should be done.

Start with `plan`, the answer for one pilot and target, `recommend`, what to do about it, and
`compare`, two of them. `protocol` is what every answer can be asked. An `extrapolation` continues a
pilot by the posterior of `futures` (or one curve of `fit`); a `forecast` answers by it for every
target; `chances` has the table that answers are read off. `limits` says what limits the error,
`next_size` where to measure next, `targets` which targets to ask; `factors` holds both factors of
the paper against plans. `explain` has the words for numbers and pilots, `answer` the tables.
"""
