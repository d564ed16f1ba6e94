"""How far rehearsed errors are off, by population: at most 6% in the median from 64 examples, but
14% on chest CT and 18% on clip art; with a pilot to N = 32; by the planner with that pilot."""

from pathlib import Path

from _chart import BLUE, GREEN, RED, TYPE, chart

text = Path("benchmarks/results/rehearse.txt").read_text()
reported = text[text.index("part: report") :].splitlines()
cells = [line.split("|")[1:-1] for line in reported if line.startswith("| ") and "---" not in line][
    1:
]
populations = ["icons", "fashion", "glyphs", "chest_ct", "brain_mri_c"]
named = ["clip art", "clothing", "glyphs", "chest CT", "brain MRI"]
off = {name.strip(): [float(cell.split()[0]) for cell in row] for name, *row in cells}
looks = [("o", BLUE, "no pilot"), ("^", GREEN, "pilot to 32"), ("s", RED, "planner, that pilot")]
figure, (axes,) = chart(height=2.6, xscale="log", xlabel="median |log(said / measured)|")
for column, (marker, colour, label) in enumerate(looks):
    axes.plot([off[name][column] for name in populations], named, marker, color=colour, label=label)
axes.set_xticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
axes.minorticks_off()
axes.legend(fontsize=TYPE, frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
axes.legend_.set_in_layout(True)
