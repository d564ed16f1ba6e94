"""Bound over error for random chains of one to eight layers, on a logarithmic scale: equal to 1
for one layer; for eight the composed bound is below 100, Minkowski's some thousand and the
paper's some hundred thousand times the error."""

import numpy as np
from _chart import BLUE, PURPLE, RED, TYPE, chart

import korisk as kr

FORMS = {"paper": RED, "minkowski": BLUE, "composed": PURPLE}
DEPTHS, CHAINS = range(1, 9), 40
random = np.random.default_rng(1)
ratio = {form: np.zeros((len(DEPTHS), CHAINS)) for form in FORMS}
for row, depth in enumerate(DEPTHS):
    for chain in range(CHAINS):
        true = random.normal(size=(depth, 12, 12)) / 4
        learned = true + 0.02 * random.normal(size=true.shape)
        x = random.normal(size=(12, 500))
        exact, made, errors = x, x, {}
        for place, (u, v) in enumerate(zip(true, learned, strict=True)):
            errors[str(place)] = float((((v - u) @ made) ** 2).sum(0).mean())
            exact, made = u @ exact, v @ made
        norms = [np.linalg.norm(u, 2) for u in true]
        layers = [kr.Learned(str(i), lipschitz=norm) for i, norm in enumerate(norms)]
        tails = [
            kr.theory.Composition(str(i), str(depth - 1), lipschitz=np.linalg.norm(product, 2))
            for i in range(1, depth - 1)
            for product in [np.linalg.multi_dot([*true[: i - 1 : -1]])]
        ]
        net = kr.Network(layers, compositions=tails)
        error = ((exact - made) ** 2).sum(0).mean()
        for form in FORMS:
            ratio[form][row, chain] = kr.theory.deep_risk(net, errors, bound=form).total / error

figure, (axes,) = chart(yscale="log", xlabel="layers L", ylabel="bound / error", xlim=(0.8, 10.2))
for form, colour in FORMS.items():
    low, middle, high = np.quantile(ratio[form], (0.05, 0.5, 0.95), axis=1)
    axes.fill_between(DEPTHS, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(DEPTHS, middle, color=colour)
    axes.text(8.15, middle[-1], form, color=colour, va="center", fontsize=TYPE)
axes.set_yticks([1, 10, 100, 1e3, 1e4, 1e5], ["1", "10", "100", "1,000", "10,000", "100,000"])
axes.set_xticks(DEPTHS)
axes.minorticks_off()
