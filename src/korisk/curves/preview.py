"""A preview of how a table is read, before a plan."""

from dataclasses import dataclass

from korisk.texts import Table, number, whole


@dataclass(frozen=True)
class Understood:
    """One curve as it was read, in the user's unit.

    Parameters
    ----------
    model, metric, unit : str
        Its model, metric and unit; empty where the table names none.
    larger_is_better : bool
        The direction of its unit.
    sizes : tuple of int
        The distinct N.
    values : tuple of float
        The mean error at each N, converted to the unit.
    seeds : tuple of int
        Number of seeds at each N.
    """

    model: str
    metric: str
    unit: str
    larger_is_better: bool
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Preview:
    """How a table is read; `str` shows it, and `to_dict` returns it as plain values.

    Parameters
    ----------
    name : str
        The file.
    curves : tuple of Understood
        One for each model; empty if there is a question.
    notes : tuple of str
        How the table was read, and what was left out and why.
    unused : tuple of str
        Columns without a role in any curve.
    question : str
        Why the table is ambiguous, with the options that resolve it; empty if it is not.

    Examples
    --------
    >>> from pathlib import Path
    >>> import korisk as kr
    >>> _ = Path("pilot.csv").write_text("n,FC,KO,GPU\\n64,0.3,0.1,2\\n128,0.2,0.08,2\\n")
    >>> print(kr.Curve.preview("pilot.csv"))
    pilot.csv: 2 models
    model  metric  unit   better   N=64  N=128  seeds
    FC     -       error  smaller   0.3    0.2      1
    KO     -       error  smaller   0.1   0.08      1
    Read: one column for each model ('FC', 'KO').
    Not used: 'GPU'.
    """

    name: str
    curves: tuple[Understood, ...] = ()
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    question: str = ""

    def table(self) -> Table:
        """The models with their values and seeds at each N, as texts.

        Returns
        -------
        Table
            One row for each model; with more than eight N, the first and last four.
        """
        sizes = sorted({n for curve in self.curves for n in curve.sizes})
        columns = sizes if len(sizes) <= 8 else [*sizes[:4], *sizes[-4:]]
        rows = []
        for curve in self.curves:
            value = dict(zip(curve.sizes, curve.values, strict=True))
            counts = sorted(set(curve.seeds))
            direction = "larger" if curve.larger_is_better else "smaller"
            rows.append([curve.model or "-", curve.metric or "-", curve.unit, direction])
            rows[-1] += [number(value.get(n)) for n in columns]
            rows[-1].append(
                " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
            )
        heads = ["model", "metric", "unit", "better", *(f"N={whole(n)}" for n in columns), "seeds"]
        count = f"{len(rows)} model{'s' * (len(rows) != 1)}"
        count += f", {len(sizes)} sizes of which 8 are shown" if columns != sizes else ""
        return Table(f"{self.name}: {count}", heads, rows, "llllr")

    def sentences(self) -> list[str]:
        """How the table was read, and which columns were not used.

        Returns
        -------
        list of str
            At most two.
        """
        sentences = [f"Read: {'; '.join(self.notes)}."] if self.notes else []
        if self.unused:
            sentences.append(f"Not used: {', '.join(map(repr, self.unused))}.")
        return sentences

    def to_dict(self) -> dict[str, object]:
        """The preview as plain values, for JSON.

        Returns
        -------
        dict
            With the names of the fields.
        """
        curves = [dict(vars(curve)) for curve in self.curves]
        return {**vars(self), "curves": curves, "question": str(self.question) or None}

    def __str__(self) -> str:
        if self.question:
            return str(self.question)
        return "\n".join([str(self.table()), *self.sentences()])
