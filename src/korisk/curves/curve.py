"""A learning curve: measured errors over the number of training samples."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from typing import Any, Self, TypeVar, Unpack, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk import _checks
from korisk._checks import LARGEST_N, require
from korisk._group import grouped
from korisk._show import Shown
from korisk.curves import formats
from korisk.curves import unit as units
from korisk.curves.cells import label
from korisk.curves.columns import PERCENT, Options, listed
from korisk.curves.formats import Answer, Question, Source, grid_of_frame, grid_of_records, in_short
from korisk.curves.read import Measurement, Measurements, measurements
from korisk.curves.unit import UNITS, Unit, metric_units, suggested_unit, unit_by_name, words
from korisk.errors import Argument, KoriskError, did_you_mean, invalid, shown
from korisk.texts import counted, natural

MAX_MODELS = 1_000
MAX_TABLE = 10_000_000  # cells
_FEW_ROWS = 5_000  # of tables whose remedies are tried before they are named
_FALLS = 0.95  # of the first mean: values without a name that fall less may be flat scores
# 1/MSE and -log10(MSE): no error and no score up to 1.
_FUNCTION = re.compile(
    r"(?i)^\s*1\s*/|^\s*[-\u2212\u2013]\s*(log|ln)|^neg\w*[\s_-]*(log10|ln)\b|\b(inverse|reciprocal)\b"
)

Floats = NDArray[np.float64]
Kind = TypeVar("Kind", bound=np.generic)
Place = Callable[[int, str], str]  # the place of a row's `n` or `error`, as messages name it


@final
@dataclass(frozen=True)
class Curve(Shown):
    """Measured errors over training samples, for one model and one metric.

    Values are given in the user's unit, here as in `read`, and stored as errors: positive, smaller
    is better (`of_errors` takes those). Rows are sorted by N, then by seed, so that the order of
    the input does not matter. Arrays are read-only.

    Parameters
    ----------
    n : array of int, (rows,)
        Training samples of each measurement, from 2 to 10^15.
    values : array of float, (rows,)
        The measured values, in the unit; as errors, from 1e-100 to 1e100.
    seed : sequence of str or int, (rows,), optional
        Labels of repetitions, whose N is then repeated.
    model, metric : str, default ""
        What was trained, and what was measured.
    unit : str or Unit, default "error"
        One of `UNITS`: the unit of values, targets and answers.

    Raises
    ------
    KoriskError
        If a number is out of range, or a measurement is given twice.

    Examples
    --------
    >>> import korisk as kr
    >>> curve = kr.Curve([64, 64, 128, 128], [0.12, 0.1, 0.07, 0.05], seed=[1, 2, 1, 2])
    >>> curve
    Curve(N = 64 ... 128 (2 sizes), 2 seeds)
    >>> curve.sizes.tolist(), curve.means.round(3).tolist(), curve.table.shape
    ([64, 128], [0.11, 0.06], (2, 2))
    """

    n: NDArray[np.int64]  # (rows,) training samples of each measurement
    error: Floats  # (rows,) its error
    seed: tuple[str, ...]  # (rows,) the label of the repetition, "" if there is none
    model: str
    metric: str
    unit: Unit
    read_as: str  # how its table was read, where that was not obvious

    def __init__(
        self,
        n: ArrayLike,
        values: ArrayLike,
        seed: Sequence[object] | NDArray[Any] | None = None,
        model: str = "",
        metric: str = "",
        unit: Unit | str = "error",
    ) -> None:
        self._fill(n, values, seed, (model, metric, unit))

    @classmethod
    def of_errors(
        cls,
        n: ArrayLike,
        errors: ArrayLike,
        seed: Sequence[object] | NDArray[Any] | None = None,
        model: str = "",
        metric: str = "",
        unit: Unit | str = "error",
    ) -> Self:
        """A curve from errors, with a unit for targets and answers.

        Parameters
        ----------
        n : array of int, (rows,)
            Training samples of each measurement.
        errors : array of float, (rows,)
            Its error: positive, smaller is better.
        seed, model, metric : optional
            As for the constructor.
        unit : str or Unit, default "error"
            The unit of targets and answers.

        Returns
        -------
        Curve
            The curve.

        Examples
        --------
        >>> import korisk as kr
        >>> kr.Curve.of_errors([64, 128], [0.25, 0.0625], unit="rmse") == kr.Curve(
        ...     [64, 128], [0.5, 0.25], unit="rmse"
        ... )
        True
        """
        curve = cls.__new__(cls)
        curve._fill(n, errors, seed, (model, metric, unit), values_unit=UNITS["error"])
        return curve

    def renamed(self, model: str) -> Self:
        """The curve under another name of its model, to tell two pilots apart.

        Parameters
        ----------
        model : str
            The new name.

        Returns
        -------
        Curve
            A copy.
        """
        return self.of_errors(self.n, self.error, self.seed, model, self.metric, self.unit)

    def _fill(
        self,
        n: ArrayLike,
        values: ArrayLike,
        seed: Sequence[object] | NDArray[Any] | None,
        labels: tuple[str, str, Unit | str],  # model, metric, unit
        where: Place = lambda row, name: f"{name}, measurement {row + 1}",
        values_unit: Unit | None = None,  # the unit of the values, if it is another
    ) -> None:
        """Check and sort the rows; errors name the place in the input."""
        n, values = _numbers("n", n), _numbers("error", values)
        if isinstance(seed, str | bytes) or not isinstance(seed, Iterable | None):
            raise invalid("seed", "be a list of labels, one for each n", seed, "pass a list")
        seeds = [""] * len(n) if seed is None else [label("seed", name) for name in seed]
        for name, length in (("error", len(values)), ("seed", len(seeds))):
            if length != len(n):
                remedy = f"give one {name} for each n, and repeat n for every seed"
                got = f"{len(n)} and {length}"
                raise invalid(f"n and {name}", "have the same length", length, remedy, got=got)
        if not len(n):
            raise KoriskError("a curve must have at least one measurement, got none; add rows")
        model, metric = map(label, ("model", "metric"), labels[:2])
        unit = units.unit(labels[2])
        # An accuracy that is planned with as an error would be minimised.
        values_unit, suggested = values_unit or unit, suggested_unit(metric)
        if suggested and not unit.larger_is_better:
            problem = f"metric {metric!r} needs a unit in which larger is better, got {unit.name!r}"
            raise KoriskError(f"{where(0, 'error')}: {problem}; pass ", Argument("unit", suggested))
        with np.errstate(invalid="ignore"):
            valid = (n == np.floor(n)) & (n >= 2) & (n <= LARGEST_N)
        if not valid.all():
            row = int(np.argmin(valid))
            remedy = "count the training samples; the rate log N / N needs N >= 2"
            rule, place = "be a whole number from 2 to 10^15", where(row, "n")
            raise invalid(f"{place}: N", rule, float(n[row]), remedy)
        errors = values_unit.to_error(values)
        valid = (errors >= units.SMALLEST_ERROR) & (errors <= units.LARGEST_ERROR)
        if not valid.all():
            row = int(np.argmin(valid))
            place = f"{where(row, 'error')}, N = {n[row]:.0f}"
            raise KoriskError(f"{place}: ", values_unit.refusal(float(values[row])))
        # Seeds are sorted as people count: 2 before 10.
        ranks = {seed: rank for rank, seed in enumerate(sorted(set(seeds), key=natural))}
        rank = np.array([ranks[seed] for seed in seeds])
        # Two rows of one N and seed are two models or a copy: averaging them would hide it.
        order = np.lexsort((rank, n))
        twice = (np.diff(n[order]) == 0) & (np.diff(rank[order]) == 0)
        if twice.any():
            row = int(order[np.argmax(twice) + 1])
            problem = f"{where(row, 'n')}: N = {n[row]:.0f} is given twice with seed {seeds[row]!r}"
            remedy = "add a seed column (or a model column), or rename or remove one"
            raise KoriskError(f"{problem}; {remedy}")
        sizes, errors = _read_only(n[order].astype(np.int64)), _read_only(errors[order])
        _checks.set_fields(self, n=sizes, error=errors, seed=tuple(seeds[row] for row in order))
        _checks.set_fields(self, model=model, metric=metric, unit=unit, read_as="")

    # --- Constructors ----------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        source: object,
        *,
        model: str | None = None,
        metric: str | None = None,
        unit: Unit | str | None = None,
        point: str | None = None,
        worksheet: str | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Read the curve in a table or a store.

        Parameters
        ----------
        source : str, path, iterable of mappings, or data frame
            Errors over N: the path of a table (CSV, Excel, JSON ...) with n and error,
            or one column for each seed or model; the store of a pilot or study; records such as
            {"n": 64, "error": 0.1, "seed": 1}; or a frame of pandas or polars. See
            docs/reference/pilot-file.md.
        model : str, optional
            Which model, if there are several; where none is named, what to call the curve.
        metric : str, optional
            Which metric, if there are several; where none is named, what to call it.
        unit : str or Unit, optional
            Unit of the values: error, complement, percent, psnr, squared, negated, accuracy, auc,
            dice, f1, iou, r2, ssim, db, rmse, log10, log2, ln, error_db, error_percent,
            rmse_percent. Default: by the metric's name, such as psnr, and error otherwise.
        point : str, optional
            Which point, if a study has several.
        worksheet : str, optional
            Which sheet, if a spreadsheet has several.
        **options : optional
            `columns`, `filter`, `ignore`, `last`, `scale`, `wide` and `seeds`, for tables whose
            names are ambiguous; see `korisk.curves.columns.Options`. An ambiguous table raises an
            error that names the option to pass.

        Returns
        -------
        Curve
            The curve.

        Raises
        ------
        KoriskError
            If the source cannot be read; the message names the line.

        Examples
        --------
        >>> import korisk as kr
        >>> from pathlib import Path
        >>> rows = "train_size,psnr,seed", "64,20,1", "128,23,1"
        >>> _ = Path("pilot.csv").write_text("\\n".join(rows))
        >>> columns = {"n": "train_size", "error": "psnr"}
        >>> kr.Curve.read("pilot.csv", unit="psnr", columns=columns)
        Curve(psnr, N = 64 ... 128 (2 sizes), 1 seed)
        >>> kr.Curve.read([{"n": 64, "accuracy": 0.9}, {"n": 128, "accuracy": 0.95}])
        Curve(accuracy, N = 64 ... 128 (2 sizes))
        """
        chosen = {"model": model, "metric": metric, "unit": unit, "worksheet": worksheet}
        return cls._read(source, point, {**options, **chosen}, single=True)[0]

    @classmethod
    def read_all(
        cls,
        source: object,
        *,
        metric: str | None = None,
        unit: Unit | str | None = None,
        point: str | None = None,
        worksheet: str | None = None,
        **options: Unpack[Options],
    ) -> tuple[Self, ...]:
        """Read one curve for each model, in order of appearance.

        Parameters
        ----------
        source, metric, unit, point, worksheet, **options : optional
            As in `read`.

        Returns
        -------
        tuple of Curve
            At most a thousand.

        Examples
        --------
        >>> from pathlib import Path
        >>> import korisk as kr
        >>> _ = Path("two.csv").write_text("n,error,model\\n64,0.1,KO\\n64,0.3,FC\\n")
        >>> [curve.model for curve in kr.Curve.read_all("two.csv")]
        ['KO', 'FC']
        """
        chosen = {"metric": metric, "unit": unit, "worksheet": worksheet}
        return cls._read(source, point, {**options, **chosen})

    @classmethod
    def _read(
        cls, source: object, point: str | None, options: dict[str, Any], *, single: bool = False
    ) -> tuple[Self, ...]:
        """The curves of a table or a store; the one of a model, if a single one is asked for."""
        known = {"model", "metric", "unit", "worksheet", *Options.__annotations__}
        for name in options.keys() - known:  # ignored, it would be taken for granted
            raise KoriskError(f"no option {shown(name)} of a table{did_you_mean(name, known)}")
        path = source if isinstance(source, str | PathLike) else None
        if path is not None and formats.is_store(path):
            curves = cls._stored(path, point, options)
            if not single:
                return curves
            models = [curve.model for curve in curves]
            model = _choose("model", options["model"], models, Source(str(path)))
            return (curves[models.index(model)],)
        if point is not None:
            rest = " does not apply; leave it out"
            raise KoriskError(
                f"{path or 'this table'}: is no store, so ", Argument("point", ...), rest
            )
        if path is not None:
            return cls._of_table(partial(formats.read_grid, path), options, single=single)
        grid = grid_of_frame(source) if hasattr(source, "columns") else grid_of_records(source)
        return cls._of_table(lambda _: grid, options, single=single)

    @classmethod
    def _stored(
        cls, path: str | PathLike[str], point: str | None, options: dict[str, Any]
    ) -> tuple[Self, ...]:
        """The curves of a pilot, or of a point of a study."""
        metric, unit = options["metric"], options["unit"]
        of_tables = any(options[name] for name in options.keys() - {"model", "metric", "unit"})
        if of_tables or (unit is not None and metric is None):
            problem = f"{path}: is a store, which knows its columns and the unit of its metric; "
            of_table, its_unit = Argument("columns", ...), Argument("unit", ...)
            out = "leave ", of_table, " and the like out, or give a ", Argument("metric", ...)
            raise KoriskError(problem, *out, " with its ", its_unit)
        from korisk.curves.stored import stored_curves  # `import korisk` needs no store

        curves = []
        known_unit = None if unit is None else units.unit(unit)
        for stored in stored_curves(path, point, metric, known_unit):
            n, error, seed = zip(*stored.values, strict=True)
            name, of_metric = stored.chosen.metric, stored.chosen.unit
            # A metric that the user picked may be a score.
            unknown = unit is None and metric is not None and not metric_units(words(name))
            if unknown and of_metric.name == "error" and error[-1] >= _FALLS * error[0]:
                answers = _units(("accuracy", "for fractions of 1"), ("error", "for errors"))
                problem = f"metric {shown(metric)} does not say whether larger is better"
                raise Question(f"{path}: {problem}", *answers)
            try:
                curve = cls.of_errors(n, error, seed, stored.model, name, of_metric)
            except KoriskError as wrong:
                raise KoriskError(f"{path}: ", wrong.message) from None
            _checks.set_fields(curve, read_as="; ".join(stored.notes))
            curves.append(curve)
        return tuple(curves)

    @classmethod
    def _of_table(
        cls, grid: Callable[[str | None], formats.Grid], options: dict[str, Any], *, single: bool
    ) -> tuple[Self, ...]:
        """The curves of a table; a question keeps only those answers that lead to a reading."""
        rows = 0

        def read(options: dict[str, Any]) -> tuple[Self, ...]:
            nonlocal rows
            content = grid(options.get("worksheet"))
            rows = len(content.rows)
            table = measurements(content, cast(Options, options))
            values, default = table.rows, options.get("model") or ""
            if single:
                models = (row.model for row in values)
                model = _choose("model", default or None, models, table.source)
                values = [row for row in values if row.model == model]
            metric, unit = options.get("metric"), options.get("unit")
            name = _choose("metric", metric, (row.metric for row in values), table.source)
            groups = grouped((row.model, row) for row in values if row.metric == name)
            if len(groups) > MAX_MODELS:
                raise table.source.error(f"names {len(groups):,} models; is it the right column?")
            return tuple(
                cls._of_rows(table, group, model or default, metric, unit)
                for model, group in groups.items()
            )

        def leads_on(options: dict[str, Any], further: int = 1) -> bool:
            try:
                read(options)
            except Question as question:
                first = question.answers[:further]
                return any(leads_on(_with_answer(options, answer), 0) for answer in first)
            except KoriskError:
                return False
            return True

        try:
            return read(options)
        except Question as question:
            if rows > _FEW_ROWS:  # to try all answers would take as long each time
                raise
            leading = [a for a in question.answers if leads_on(_with_answer(options, a))]
            raise Question(question.problem, *leading) from None

    @classmethod
    def _of_rows(
        cls,
        table: Measurements,
        rows: list[Measurement],
        model: str,
        metric: str | None,
        unit: Unit | str | None,
    ) -> Self:
        name = rows[0].metric or metric or ""
        n, values = np.array([row.n for row in rows]), np.array([row.value for row in rows])
        read_as = table.read_as
        if unit is None:
            unit = _unit_of(table, rows, name or rows[0].heads[1], values)
            if unit != "error":
                how = f"unit {unit}, by its {'column' if rows[0].unit else 'name'}"
                read_as = "; ".join(filter(None, (read_as, how)))
        if suggested_unit(name) and not units.unit(unit).larger_is_better:
            name = f"{name} error"  # the user calls values of a score errors
        errors = units.unit(unit).to_error(values)
        odd = ~((errors >= units.SMALLEST_ERROR) & (errors <= units.LARGEST_ERROR))
        if odd.any():
            rule = f"{units.unit(unit).refusal(float(values[np.argmax(odd)]))}"
            raise _out_of_range(table, rows, odd, rule)
        curve, seeds = cls.__new__(cls), [row.seed for row in rows]

        def where(row: int, field: str) -> str:
            return table.source.at(rows[row].position, rows[row].heads[field != "n"])

        try:
            curve._fill(n, values, seeds, (model, name, unit), where)
        except KoriskError as error:
            raise table.source.error(error.message) from None
        _checks.set_fields(curve, read_as=read_as)
        return curve

    # --- Content ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model of the curve, or else its metric, for messages."""
        return self.model or self.metric or "the curve"

    @cached_property
    def _groups(self) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.intp]]:
        return np.unique(self.n, return_index=True, return_counts=True)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """(K,) the distinct N, ascending."""
        return _read_only(self._groups[0])

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(K,) number of seeds at each N."""
        return _read_only(self._groups[2].astype(np.int64))

    @cached_property
    def means(self) -> Floats:
        """(K,) the mean error over the seeds at each N."""
        return _read_only(np.add.reduceat(self._ascending, self._groups[1]) / self.counts)

    @cached_property
    def _ascending(self) -> Floats:
        # Summed in this order, means do not depend on the labels of seeds, to the last bit.
        return self.error[np.lexsort((self.error, self.n))]

    @cached_property
    def deviations(self) -> Floats:
        """(K,) the sample standard deviation over the seeds, nan for a single seed."""
        squares = np.square(self._ascending - np.repeat(self.means, self.counts))
        sums = np.add.reduceat(squares, self._groups[1])
        freedom = np.where(self.counts > 1, self.counts - 1.0, np.nan)
        return _read_only(np.sqrt(sums / freedom))

    @cached_property
    def seeds(self) -> tuple[str, ...]:
        """(S,) the distinct seed labels, in natural order: 2 before 10."""
        return tuple(sorted(set(self.seed), key=natural))

    @cached_property
    def table(self) -> Floats:
        """(K, S) the error at each N for each seed, nan where it was not measured."""
        # Labels that differ at every N would make a huge, nearly empty table.
        shape = len(self.sizes), len(self.seeds)
        rule, got = f"have at most {MAX_TABLE:,} cells", f"{shape[0]:,} N times {shape[1]:,} seeds"
        remedy, small = "use the same seed labels at every N", shape[0] * shape[1] <= MAX_TABLE
        require(small, f"the table of {self.name}", rule, shape, remedy, got=got)
        column = {seed: index for index, seed in enumerate(self.seeds)}
        result = np.full(shape, np.nan)
        rows = np.repeat(np.arange(shape[0]), self.counts)
        result[rows, [column[seed] for seed in self.seed]] = self.error
        return _read_only(result)

    def records(self) -> list[dict[str, int | float | str]]:
        """The rows with values in the user's unit, as `read` takes them.

        Returns
        -------
        list of dict
            With the keys n, error, seed, model and metric, and unit unless the metric's name
            implies it.
        """
        values = self.unit.from_error(self.error)
        implied = unit_by_name(self.metric) == self.unit.name
        labels = {"model": self.model, "metric": self.metric}
        labels |= {} if implied else {"unit": self.unit.name}
        return [
            {"n": n, "error": value, "seed": seed, **labels}
            for n, value, seed in zip(self.n.tolist(), values.tolist(), self.seed, strict=True)
        ]

    # --- Derived curves --------------------------------------------------------------------------

    def up_to(self, n: float) -> Self:
        """The curve up to `n` training samples.

        Parameters
        ----------
        n : float
            The largest N to keep.

        Returns
        -------
        Curve
            The first part of the curve.

        Raises
        ------
        KoriskError
            If there is no such measurement.

        Examples
        --------
        >>> import korisk as kr
        >>> kr.Curve([16, 32, 64], [0.3, 0.2, 0.1]).up_to(40).sizes.tolist()
        [16, 32]
        """
        if not n >= self.n[0]:  # written this way to reject nan
            problem = f"{self.name} has no measurement up to N = {shown(n)}"
            raise KoriskError(f"{problem}; the smallest is N = {self.n[0]}")
        count = int(np.searchsorted(self.n, n, side="right"))
        rows = self.n[:count], self.error[:count], self.seed[:count]
        return self.of_errors(*rows, self.model, self.metric, self.unit)

    def require(self, points: int, what: str) -> None:
        """Raise if there are fewer than `points` distinct N for `what`, as in "a power law".

        Parameters
        ----------
        points : int
            The least number of distinct N.
        what : str
            What needs them, for the message.

        Raises
        ------
        KoriskError
            If there are fewer.
        """
        if len(self.sizes) < points:
            listed = ", ".join(map(str, self.sizes[:10].tolist()))
            raise KoriskError(
                f"{what} needs at least {points} distinct N, got {len(self.sizes)} ({listed}) in "
                f"{self.name}; measure more, for example N = {2 * self.sizes[-1]}"
            )

    def __len__(self) -> int:
        return len(self.n)

    @property
    def _key(self) -> tuple[object, ...]:
        numbers = self.n.tobytes(), self.error.tobytes()
        return self.model, self.metric, self.unit, self.seed, *numbers

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Curve) else NotImplemented

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and pickles restore writable arrays, including cached ones.
        for value in state.values():
            if isinstance(value, np.ndarray):
                _read_only(value)
        self.__dict__.update(state)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        ends = dict.fromkeys(self.sizes[[0, -1]].tolist())  # one entry if there is one size
        parts = [
            self.model and repr(self.model),
            self.metric,
            f"N = {' ... '.join(map(str, ends))} ({counted(len(self.sizes), 'size')})",
            "" if self.seeds == ("",) else counted(len(self.seeds), "seed"),
        ]
        return f"Curve({', '.join(filter(None, parts))})"


def _numbers(name: str, values: ArrayLike) -> Floats:
    # Masked arrays mark runs that failed, and would be taken for what lies under the mask.
    require(not np.ma.is_masked(values), name, "have no masked values", values, "leave these out")
    try:
        array = np.asarray(_detached(values))
        if array.ndim == 1 and (array.dtype.kind in "iuf" or not array.size):
            return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):  # ragged lists
        pass
    raise invalid(name, "be a list of numbers", values, "pass an array")


def _detached(values: Any) -> Any:
    """PyTorch tensors without gradients, alone or in lists, so that NumPy accepts them."""
    if isinstance(values, list | tuple):
        return [_detached(value) for value in values]
    return values.detach().cpu() if hasattr(values, "detach") else values


def _choose(kind: str, choice: str | None, names: Iterable[str], source: Source) -> str:
    # A file that names no model or metric takes the user's name for its only one.
    known = list(dict.fromkeys(names))
    if known == [""] or (choice is None and len(known) == 1):
        return known[0]
    if choice is None:
        likely = sorted(known, key=lambda name: "test" not in words(name))
        answers: list[Answer] = [(kind, name, "for that one") for name in likely[:4]]
        raise source.ask(f"holds {len(known)} {kind}s, {in_short(map(repr, known))}", *answers)
    if choice not in known:
        hint = did_you_mean(str(choice)[:80], known[:1_000])
        raise source.error(f"no {kind} {shown(choice)}{hint}")
    return choice


def _unit_of(table: Measurements, rows: list[Measurement], metric: str, values: Floats) -> str:
    """The unit of values by the names of their metric, column and unit; values never decide.

    Raises a question where names leave it open, and where values contradict them.
    """
    column, source = rows[0].heads[1], table.source
    where, row_units = f"{source.column} {shown(column)}", {row.unit.casefold() for row in rows}
    spoken, suggested = {*words(f"{metric} {column}")}, suggested_unit(metric)
    phrases = metric_units(words(f"{metric} {column}"))
    _, size = np.unique([row.n for row in rows], return_inverse=True)
    means = (np.bincount(size, values) / np.bincount(size)).tolist()
    percent = column in table.percent or not row_units.isdisjoint(PERCENT)
    is_error = bool({"error", "rmse"} & {*metric_units(words(metric or column)).values()})
    unit = unit_by_name(metric, column)

    def ask(problem: str, *answers: tuple[str, str]) -> Question:
        return source.ask(f"{where} {problem}", *_units(*answers))

    if known := row_units & UNITS.keys():
        if len(row_units) > 1:
            problem = f"has {shown(metric)} in units {in_short(sorted(row_units))}"
            raise source.error(f"{problem}; write all in one")
        (unit,) = known
    elif _FUNCTION.search(column) or ({"log", "likelihood"} <= spoken and not phrases):
        problem = f"{where} is a function of a metric of which larger is better without an end"
        raise source.error(f"{problem}; save the metric or the error itself")
    elif units.DECIBELS & (spoken | row_units):
        if suggested != "psnr" and not is_error:
            answers = ("psnr", "if larger is better"), ("error_db", "if smaller is better")
            raise ask("is in decibels", *answers)
        return "psnr" if suggested == "psnr" else "error_db"
    elif not unit:
        rest = ("log10", "if they are decimal"), ("ln", "if natural"), ("error", "if they are none")
        raise ask("has logarithms", *rest)
    elif suggested == "psnr" and not {"psnr", "peak"} & spoken:
        raise ask("may be a ratio", ("psnr", "if it is in decibels"))
    elif suggested and UNITS[suggested].law == "complement":
        unit = _fraction_or_percent(table, rows, metric, values, percent=percent)
    else:
        errors = {"error": "error_percent", "rmse": "rmse_percent"} if percent else {}
        # Without a name, values that fall are errors, as documented; others may be scores.
        falls = len(means) < 2 or (min(means[1:]) < _FALLS * means[0] and means[-1] < means[0])
        plain = falls and not {"score", "scores"} & spoken
        of_one = re.match(r"\s*1\s*[-\u2212\u2013]", metric)
        if not (plain or suggested or is_error or unit != "error" or of_one):
            most = "percent" if percent or max(means) > 1 else "accuracy"
            scores = (most, f"for scores up to {100 if most == 'percent' else 1}")
            error = (errors.get(unit, unit), "if smaller is better")
            others = ("psnr", "for decibels"), ("negated", "for scores below 0")
            raise ask("does not say whether larger is better", scores, error, *others)
        return errors.get(unit, unit)
    halved = len(means) > 1 and 0 < means[-1] < means[0] / 2  # by more data, as no score is
    if halved and UNITS[unit].law in ("complement", "percent"):
        error = ("error_percent" if unit == "percent" else "error", "if they are errors")
        raise ask("falls to less than half", (unit, "if larger is better"), error)
    return unit


def _fraction_or_percent(
    table: Measurements, rows: list[Measurement], metric: str, values: Floats, *, percent: bool
) -> str:
    """The unit of a score that is at most 1, or 100."""
    unit, low = suggested_unit(metric) or "complement", units.lowest(metric)
    where = f"{table.source.column} {shown(rows[0].heads[1])}"
    if percent and (values <= 1).all():
        answers = _units((unit, "if 1 is perfect"), ("percent", "if 100 is perfect"))
        raise table.source.ask(f"{where} is in percent, and its values are at most 1", *answers)
    most = 100 if percent or ((values > 1) & (values <= 100)).sum() > len(values) / 2 else 1
    odd = (values < low * most) | (values > most)
    if most == 100 and not percent:
        odd |= values <= 1
    if odd.any():
        rest = f"must be from {low * most:g} to {most}"
        few = bool(odd.sum() <= len(values) / 3) and (most == 1 or percent)
        raise _out_of_range(table, rows, odd, f"{shown(metric)} {rest}", leave_out=few)
    return "percent" if most == 100 else unit


def _out_of_range(
    table: Measurements,
    rows: list[Measurement],
    odd: NDArray[np.bool_],
    rule: str,
    *,
    leave_out: bool = True,
) -> Question:
    """The question about impossible values, which names their rows."""
    wrong = [row for row, is_odd in zip(rows, odd, strict=True) if is_odd]
    place = table.source.at
    got = in_short((f"{place(row.position, row.heads[1])}: {row.value:g}" for row in wrong), 5)
    texts = list(dict.fromkeys(f"!{row.text}" for row in wrong))
    out = ("filter", {wrong[0].heads[1]: texts}, "to leave these out")
    return table.source.ask(f"{got}: {rule}", *[out] * leave_out)


def _units(*answers: tuple[str, str]) -> list[Answer]:
    """The answers that name a unit."""
    return [("unit", name, when) for name, when in answers]


def _with_answer(options: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """Options with one more answer."""
    name, value, _ = answer
    before = options.get(name)
    if isinstance(value, dict):
        value = {**(before or {}), **value}
    elif name == "ignore":
        value = [*listed(before), *listed(value)]  # type: ignore[arg-type]
    return {**options, name: value}


def _read_only(array: NDArray[Kind]) -> NDArray[Kind]:
    array.setflags(write=False)
    return array
