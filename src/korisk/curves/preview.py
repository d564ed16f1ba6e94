"""A preview of how a table is read, before a plan."""

from dataclasses import dataclass

from korisk.texts import Table, number, whole


@dataclass(frozen=True)
class Understood:
    """One curve as it was read, in the user's unit."""

    model: str
    metric: str
    unit: str
    larger_is_better: bool
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Preview:
    """How a table is read; `str` shows it, and `to_dict` returns it as plain values."""

    name: str
    curves: tuple[Understood, ...] = ()
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    question: str = ""

    def table(self) -> Table:
        """The models with their values and seeds at each N, as texts."""
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
        """How the table was read, and which columns were not used."""
        sentences = [f"Read: {'; '.join(self.notes)}."] if self.notes else []
        if self.unused:
            sentences.append(f"Not used: {', '.join(map(repr, self.unused))}.")
        return sentences

    def to_dict(self) -> dict[str, object]:
        """The preview as plain values, for JSON."""
        curves = [dict(vars(curve)) for curve in self.curves]
        return {**vars(self), "curves": curves, "question": str(self.question) or None}

    def __str__(self) -> str:
        if self.question:
            return str(self.question)
        return "\n".join([str(self.table()), *self.sentences()])
