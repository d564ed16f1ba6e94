"""`korisk reproduce --published`: the paper's tables, counted and inverted."""

from dataclasses import asdict
from math import isinf, log10

from korisk.cli.common.output import print_json, show
from korisk.paper import published
from korisk.texts import Table, number, whole
from korisk.theory import two_factors

_TARGETS = (1.5, 2.0)  # multiples of the higher of the two calibrated floors


def print_published(*, as_json: bool) -> None:
    """Table 1 as printed and as counted, and the sample sizes that the paper's Table 2 implies."""
    answers = [
        (row, two_factors(row.known, row.dense, factor * max(row.known.floor, row.dense.floor)))
        for row in published.CALIBRATION
        for factor in _TARGETS
    ]
    counted = [(row, published.computed_footprint(row.size)) for row in published.FOOTPRINT]
    sizes = published.RELEASED_SWEEP.sizes
    # The error of KO at the largest N of the GPU sweeps, as a target for FC.
    matched = [(row, row.known.predict(sizes[-1])) for row in published.CALIBRATION]
    if as_json:
        content = [
            {
                "H": row.H,
                "device": row.device,
                "metric": row.metric,
                "target": answer.target,
                "samples_ko": answer.samples_known,
                "samples_fc": answer.samples_dense,
                "ratio": answer.ratio,
                "structural_factor": answer.structural,
                "approximation_budget_factor": answer.approximation_budget,
            }
            for row, answer in answers
        ]
        footprint = [
            {"printed": asdict(row), "counted": asdict(computed)} for row, computed in counted
        ]
        at_largest = [
            {"H": row.H, "target": target, "ratio": published.matched_ratio(row, target)}
            for row, target in matched
        ]
        print_json({"footprint": footprint, "calibration": content, "at_largest_n": at_largest})
        return
    rows = []
    for printed, computed in counted:
        size, *texts = vars(computed).values()
        agrees = "yes" if computed == printed else "no"
        rows.append([f"{size.H}, {size.V}, {size.B}", *texts, agrees])
    heads = ["H, V, B", "KO", "FC", "FC : KO", "KO weights", "with Adam", "FC weights", "with Adam"]
    title = "Parameters and memory, counted (the paper's Table 1)"
    show(Table(title, [*heads, "as printed"], rows))
    rows = []
    for row, answer in answers:
        point = f"H = {row.H}, {row.device}, {row.metric}"
        counts = [whole(answer.samples_known), whole(answer.samples_dense)]
        factors = answer.ratio, answer.structural, answer.approximation_budget
        rows.append([point, number(answer.target), *counts, *(number(x, 3) for x in factors)])
    heads = ["operating point", "target", "N of KO", "N of FC"]
    heads += ["N ratio", "sigma\nfactor", "floor\nfactor"]
    show(
        Table("Sample sizes from the paper's calibration (its Table 2)", heads, rows),
        "To reach the target, FC needs 'N ratio' times the samples of KO; the ratio of N / log N "
        "is sigma factor x floor factor (Proposition 1). N = 2 means that the line is below the "
        "target at every N. All of it relies on the paper's calibration, whose floor is the lowest "
        "error seen: it says nothing about targets below that.\n",
    )
    rows = []
    for row, target in matched:
        ratio = published.matched_ratio(row, target)
        never = "never: FC's floor is above" if isinf(ratio) else ""
        rows.append([f"H = {row.H}", number(target), never or number(ratio, 3)])
    heads = ["operating point", f"KO's error at N = {sizes[-1]:,}", "N ratio"]
    decades = f"The N of its GPU sweeps, {sizes[0]} to {sizes[-1]:,}, span"
    show(
        Table("The same for the error of KO at the largest N", heads, rows, "lrl"),
        f"{decades} {log10(sizes[-1] / sizes[0]):.3g} powers of ten.",
    )
