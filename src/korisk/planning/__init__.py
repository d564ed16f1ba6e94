"""From a curve to a sample size and a recommendation.

Start with `plan`, the answer for one pilot and target, `recommend`, the advice, and `compare`, for
two pilots. `protocol` lists the questions that every forecast answers. `extrapolation` continues a
pilot by the posterior of `futures` (or by one curve of `fit`); a `forecast` uses it for every
target; `chances` holds the table of probabilities. `limits` finds what limits the error,
`next_size` where to measure next, `targets` which targets to show; `factors` compares the paper's
two factors with plans. `explain` formats numbers and describes pilots, `answer` makes tables.
"""
