"""The answer of `korisk bound` for people: tables."""

from rich.table import Table

from korisk.cli.bound_answer import Answer, parts, with_dimension
from korisk.cli.bound_words import n_text, saved, words
from korisk.cli.output import cells, console, number, short, table, whole
from korisk.theory import BOUNDS, BarronBound, Layer, Learned


def show(answer: Answer, replaced: tuple[str, Answer] | None) -> None:
    """Print the tables and what they mean."""
    out = console()
    out.print(_layer_table(answer))
    if answer.question.both:
        out.print(_dimension_table(answer))
    out.print(_totals_table(answer))
    for sentence in [*words(answer), *(saved(answer, *replaced) if replaced else [])]:
        out.print(sentence, highlight=False, markup=False)


def _layer_table(answer: Answer) -> Table:
    chosen = answer.chosen
    shown = table(
        answer.net.name or "network",
        "layer",
        "",
        "Lip-\nschitz",
        *(f"A_l,\n{m}" for m in BOUNDS),
        "param-\neters",
        f"bound at\nN = {n_text(chosen.n)}" + ",\neffective" * answer.question.effective,
        "share",
        text=2,
    )
    factors = {m: answer.net.amplification(m) for m in BOUNDS}
    for index, layer in enumerate(answer.net):
        shown.add_row(
            *cells(
                layer.name,
                layer.kind,
                _constant(layer),
                *(number(float(factors[m][index])) for m in BOUNDS),
                _parameters(layer),
                number(float(chosen.contributions[index])),
                f"{chosen.whole.shares[index]:.0%}",
            )
        )
    return shown


def _dimension_table(answer: Answer) -> Table:
    """Both dimensions of the learned layers, and what each makes of the layer's term."""
    shown = table(
        "p beside the effective dimension",
        "layer",
        "parameters",
        "effective",
        f"bound at\nN = {n_text(answer.chosen.n)}",
        "the same,\neffective",
    )
    bounds = [with_dimension(answer.chosen, effective=each) for each in (False, True)]
    for index, layer in enumerate(answer.net):
        if not isinstance(layer, Learned):
            continue
        shown.add_row(
            *cells(
                layer.name,
                _parameters(layer),
                "-" if layer.effective is None else _effective(layer.effective),
                *(number(float(b.contributions[index])) if b else "-" for b in bounds),
            )
        )
    return shown


def _totals_table(answer: Answer) -> Table:
    columns = [
        "bound",
        f"total at\nN = {n_text(answer.chosen.n)}",
        "floor",
        "estimation",
        "looser\nby",
    ]
    if answer.target is not None:
        columns.append(f"N for\n{number(answer.target)}")
    shown = table("", *columns)
    for bound, found in answer.bounds.items():
        for effective in (False, True) if answer.question.both else (False,):
            label = f"{bound}, effective" if effective else bound
            row = _totals(answer, found, effective=effective)
            if row and answer.target is not None:
                samples = (answer.estimates if effective else answer.samples)[bound]
                row.append("unreachable" if samples is None else whole(samples))
            shown.add_row(*cells(label, *(row or ["-" for _ in columns[1:]])))
    return shown


def _totals(answer: Answer, found: BarronBound | None, *, effective: bool) -> list[str]:
    """Total, floor, estimation, and the total over the tightest with the same dimension."""
    own = parts(found, effective=effective)
    if own is None:
        return []
    others = [with_dimension(each, effective=effective) for each in answer.bounds.values()]
    tightest = min(each.total for each in others if each is not None)
    looser = number(own["total"] / tightest, 3) if tightest else "-"
    return [*map(number, own.values()), looser]


def _parameters(layer: Layer) -> str:
    return short(layer.parameters) if isinstance(layer, Learned) and layer.parameters else "-"


def _effective(value: float) -> str:
    return number(value) if value < 1000 else short(round(value))


def _constant(layer: Layer) -> str:
    bracket = layer.bracket
    if bracket.upper <= 1.01 * bracket.lower:
        return number(bracket.upper)
    if bracket.lower == 0 and bracket.upper == float("inf"):
        return "-"
    if bracket.upper == float("inf"):
        return f">= {number(bracket.lower)}"
    return f"{number(bracket.lower)} to {number(bracket.upper)}"
