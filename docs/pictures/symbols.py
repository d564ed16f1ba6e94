"""A chain of layers with the symbols of the theory: layer l stretches the error of its input by
at most its Lipschitz constant, adds an error of its own if it is learned or only nearly known,
and what it adds is amplified by the layers behind."""

from _chart import GREY, arrow, box, canvas, text

figure, axes = canvas(height=2.5)
NAMES = [r"$\hat u_1$", r"$\hat u_l$", r"$u_L$"]
PLACES = [0.95, 2.6, 4.25]
for x, name, kind in zip(PLACES, NAMES, ("learned", "learned", "known"), strict=True):
    box(axes, x, 1.4, 0.95, 0.55, "", learned=kind == "learned")
    text(axes, x, 1.4, name, fontsize=13, parse_math=True)
    text(axes, x, 1.88, kind, color=GREY)
for start, end in ((0.1, 0.45), (1.45, 2.1), (3.1, 3.75), (4.75, 5.1)):
    arrow(axes, (start, 1.4), (end, 1.4))
text(axes, 0.2, 1.62, "x")
text(axes, 1.77, 1.65, "…")
text(axes, 3.42, 1.65, "…")
WORDS = [
    (2.6, 0.88, r"$\|\delta_l\| \leq \ell_l \, \|\delta_{l-1}\| + \|e_l\|$"),
    (2.6, 2.3, r"own error $e_l$, risk $r_l = E \|e_l\|^2$"),
    (2.6, 0.35, r"at the output: $E \|\delta_L\|^2 \leq \sum_l A_l \, r_l$"),
]
for x, y, words in WORDS:
    text(axes, x, y, words, parse_math=True, fontsize=11)
