"""``fit(..., test="each")``: scores that learn from the calibration rows and the row to predict.

For every row that is predicted, matrices are made of the calibration rows and this row, beside the
rows that tuned: sums over rows, to which all n + 1 contribute alike. Weights and coefficients come
from the tuning rows and from what these taught. So the n + 1 true-label scores are exchangeable,
and every row has sets with the guarantee of the split, without a look at any other test row: what
``fit(..., test=row)`` gives for a batch of this one row, to the last bit, without its fit.

The scores of the calibration rows change with the row, and so does the threshold. A row costs a new
matrix for every score that learns, and its products with all calibration rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from conformix.data.checks import is_chunked
from conformix.data.outputs import Outputs
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.fit.learning import add_up
from conformix.fit.predictor import Predictor
from conformix.fit.rows import Rows
from conformix.fit.rule import Calibrated, Fitted, cut_by
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.cached import cached_property
from conformix.scores.learnt import RowSums
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked, ranked_models
from conformix.scores.tensor import fill_tensor
from conformix.splits import Roles

ONE_AT_A_TIME = (
    "for one row at a time: scores learn from the calibration rows and the row that is predicted"
)
HELD_IN_MEMORY = (
    'test="each" holds all calibration rows in memory, to which every row that is predicted is '
    "added; give NumPy arrays."
)


@dataclass(frozen=True)
class OneByOne(Calibrated):
    """What is fitted where every row has a threshold of its own; scores are for reading only."""

    nested: ClassVar[bool] = False

    @classmethod
    def of(cls, base: Calibrated) -> OneByOne:
        """Return what is left of a fit by scores that the tuning rows taught."""
        ledger = replace(base.ledger.assuming(ONE_AT_A_TIME), each_row=True)
        parts = {one.name: getattr(base, one.name) for one in fields(base)}
        return cls(**parts | {"ledger": ledger, "held_out_size": None, "reference": None})

    def at(self, *_: Any, **__: Any) -> NoReturn:
        raise InvalidInput(
            'test="each" gives every row a threshold of its own, by matrices that it has a part '
            "in; use predict_set or predict_pvalues."
        )

    threshold = at
    pvalues = at


@dataclass(frozen=True, eq=False)
class Held:
    """Stands in for a score: its numbers (n, K) of the calibration rows."""

    plane: FloatArray

    def __call__(self, ranked: Any) -> FloatArray:
        return self.plane


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """The calibration rows, to which every row that is predicted is added."""

    outputs: Outputs  # on the host
    y: IntArray
    data: RowData
    columns: tuple[Column, ...]
    apart: Mapping[
        int, RowSums
    ]  # by place of a column that learns: sums over other rows than these
    key: int
    threads: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again at first use."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def ranked(self) -> dict[str, Ranked]:
        return ranked_models(self.outputs)

    @cached_property
    def sums(self) -> dict[int, RowSums]:
        """What every column that learns has added up, without the row to predict."""
        sums = {}
        for j, (model, score) in enumerate(self.columns):
            if score.learns:
                own = add_up(score, model, [self.outputs])
                sums[j] = own.plus(self.apart[j]) if j in self.apart else own
        return sums

    @cached_property
    def held(self) -> dict[int, Held]:
        """The scores that do not learn, of all rows."""
        fixed = [j for j, column in enumerate(self.columns) if not column.score.learns]
        some = [self.columns[j] for j in fixed]
        tensor = fill_tensor(self.outputs, some, key=self.key, threads=self.threads)
        return {j: Held(tensor[..., place]) for place, j in enumerate(fixed)}

    def taught_by(self, row: Outputs) -> tuple[Column, ...]:
        """Return the columns by all calibration rows and one row, which are treated alike."""
        ranked, taught = ranked_models(row), list(self.columns)
        for j, sums in self.sums.items():
            model, score = self.columns[j]
            learning: Any = score
            taught[j] = Column(model, learning.learnt(sums.plus(learning.sums(ranked[model]))))
        return tuple(taught)

    def with_held(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return columns whose scores of these rows are at hand where they do not learn."""
        return tuple(
            Column(model, self.held.get(j, score))  # type: ignore[arg-type]
            for j, (model, score) in enumerate(columns)
        )


@dataclass(frozen=True, eq=False, repr=False)
class EachRow(Predictor):
    """A predictor whose scores learn from the calibration rows and from the row it predicts."""

    plain: Predictor = None  # type: ignore[assignment]  # by what the tuning rows taught
    rows: CalibrationRows = None  # type: ignore[assignment]

    nested: ClassVar[bool] = True  # type: ignore[assignment]

    @classmethod
    def of(cls, plain: Predictor, rows: Rows, roles: Roles) -> EachRow:
        """Return the predictor of a fit on some rows with their roles."""
        tuning = rows.take(roles.tune).outputs
        sources = [some for some in (tuning, rows.unlabelled) if some is not None and some.n]
        apart = {
            j: add_up(score, model, sources)
            for j, (model, score) in enumerate(counting(plain))
            if score.learns and sources
        }
        own = rows.take(roles.calibrate)
        return cls._over(plain, own.outputs, own.y, own.data, apart)

    @classmethod
    def _over(
        cls,
        plain: Predictor,
        outputs: Outputs,
        y: IntArray,
        data: RowData,
        apart: Mapping[int, RowSums],
    ) -> EachRow:
        held = CalibrationRows(
            outputs.to_host(), y, data, counting(plain), apart, plain.key, plain.threads
        )
        base: Any = plain.fitted
        shared = {one.name: getattr(plain, one.name) for one in fields(Predictor)}
        return cls(**shared | {"fitted": OneByOne.of(base)}, plain=plain, rows=held)

    def afresh(
        self,
        calibrate: Callable[[Predictor], Fitted],
        outputs: Any,
        y: Any,
        row_data: dict[str, Any],
    ) -> EachRow:
        """Return the predictor with other calibration rows: those before teach no longer."""
        if is_chunked(outputs):
            raise InvalidInput(HELD_IN_MEMORY)
        plain = replace(self.plain, fitted=calibrate(self.plain))
        fresh = self.check(outputs)
        labels, data = self.labels(y, fresh.n), self.row_data(fresh.n, **row_data)
        return self._over(plain, fresh, labels, data, self.rows.apart)

    def for_row(self, row: Outputs) -> Predictor:
        """Return the predictor of one row: what it and the calibration rows teach, and a threshold.

        Examples
        --------
        >>> import conformix as cx
        >>> data = cx.datasets.load("cifar10")
        >>> logits, y = data.outputs["vgg16"], data.labels
        >>> cp = cx.ScoreAverage(("thr", "kin"), kind="logits", random_state=0)
        >>> each = cp.fit(logits[:200], y[:200], test="each").predictor_
        >>> batch = cp.fit(logits[:200], y[:200], test=logits[200:201]).predictor_
        >>> one = each.for_row(each.check(logits[200:201]))
        >>> one.fitted.threshold(0.1) == batch.fitted.threshold(0.1)
        True
        """
        rows = self.rows
        columns = rows.taught_by(row.to_host())
        held = rows.with_held(columns)
        if self.blend is None:
            one = replace(self.plain, columns=columns)
            planes = np.stack([column.score(rows.ranked[column.model]) for column in held])
            scores = np.moveaxis(planes, 0, -1)
        else:
            numbers = self.blend.coefficients
            blend = replace(self.blend, columns=columns, coefficients=numbers[numbers > 0])
            one = replace(self.plain, blend=blend)
            logits = replace(blend, columns=held).added_up(rows.ranked)
            spread, given = blend.spread_of(rows.ranked), rows.outputs
            values = blend.outputs_of(logits, spread, given.kind, given.arithmetic)
            scores = self.scoring.tensor(blend.instead(rows.outputs, values))
        base: Any = self.plain.fitted
        values, cuts = cut_by(base.rule, base.cuts.plan, scores, rows.y, rows.data)
        fitted = Calibrated(base.rule, values, base.ledger, base.normalizer, cuts=cuts)
        return replace(one, fitted=fitted)

    def each(self, outputs: Outputs) -> Iterator[tuple[slice, Outputs, Predictor]]:
        """Yield the places of single rows, the rows, and their predictors."""
        for block in outputs.blocks():
            part = outputs.read(block).to_host()
            for i in range(part.n):
                row = part.rows(slice(i, i + 1))
                yield slice(block.start + i, block.start + i + 1), row, self.for_row(row)
            outputs.release_pages()

    def scores(self, outputs: Outputs) -> FloatArray:
        """Return the score tensor (n, K, d), every row by what it has a part in."""
        return np.concatenate([one.scores(row) for _, row, one in self.each(outputs)])

    def fill_sets(self, outputs: Outputs, alpha: float, data: RowData, mask: Any) -> list[IntArray]:
        """Fill `mask` (n, K) with the sets, row by row; return their labels, best first."""
        return [
            best
            for place, row, one in self.each(outputs)
            for best in one.fill_sets(row, alpha, data.take(place), mask[place])
        ]

    def fill_depths(
        self, outputs: Outputs, levels: Sequence[float], data: RowData, depth: Any
    ) -> list[IntArray]:
        """Fill `depth` (n, K) with the number of sets that a label is in; return their labels."""
        return [
            best
            for place, row, one in self.each(outputs)
            for best in one.fill_depths(row, levels, data.take(place), depth[place])
        ]

    def fill_pvalues(self, outputs: Outputs, smoothed: bool, data: RowData, pvalues: Any) -> None:
        """Fill `pvalues` (n, K) with those of checked outputs."""
        for place, row, one in self.each(outputs):
            one.fill_pvalues(row, smoothed, data.take(place), pvalues[place])


def counting(predictor: Predictor) -> tuple[Column, ...]:
    """Return the columns that count for something: of a blend those with a coefficient."""
    blend = predictor.blend
    if blend is None:
        return predictor.columns
    return tuple(c for c, number in zip(blend.columns, blend.coefficients, strict=True) if number)
