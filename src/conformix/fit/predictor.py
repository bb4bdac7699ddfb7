"""From outputs to sets and p-values, once everything is fitted.

Prediction goes block by block: the scores of a block of rows, their combination, the comparison.
No tensor of all rows is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.checks import is_chunked
from conformix.data.frames import in_class_order
from conformix.data.inspection import warn_if_probabilities
from conformix.data.labels import label_indices
from conformix.data.outputs import Arithmetic, Form, Outputs, check_outputs, matching
from conformix.data.row_data import RowData, check_rows, row_ids
from conformix.errors import InvalidInput
from conformix.fit.predict_chunks import chunk_pvalues, predict_chunks
from conformix.fit.rule import Fitted, Rule
from conformix.fit.scored import Scoring, gather_rows
from conformix.fit.seen import SeenRows
from conformix.fit.upper_ends import UpperEnds, upper_ends
from conformix.kernels import combine, run_blocks
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    beside,
    is_tensor,
    to_device,
    to_host,
)
from conformix.kernels.blocks import (
    BLOCK_ENTRIES,
    DEVICE_ENTRIES,
    entries_at_once,
    row_blocks,
    threads_for,
    wake_helpers,
)
from conformix.kernels.order import falling_labels, falling_within_rows
from conformix.kernels.twins import compile_for
from conformix.predictions.sets import NestedSets, PredictionSets
from conformix.registry import check_flag
from conformix.scores import Column
from conformix.scores.blend import Blend
from conformix.scores.blending import Blending
from conformix.scores.ensemble import Ensemble, scored_models
from conformix.scores.tensor import fill_tensor, may_be_shared
from conformix.scores.uniforms import row_uniforms
from conformix.scores.upper_rows import over_sorted

T = TypeVar("T")

# Entries of the sets whose members are put in order at once.
ORDERED_ENTRIES = 2**18
# Outputs of the rows that a thread scores and answers at once: a cache holds what becomes of them.
SHARED_ENTRIES = 2**16
# What an output of a blend costs, in outputs that are sorted.
BLENDED = 4


@dataclass(frozen=True)
class Predictor:
    """A fitted rule together with what its inputs must look like: all that serving needs.

    `conformix.load_predictor` reads one from a file; with ``predict_set`` and ``predict_pvalues``
    it answers as the estimator does.

    Parameters
    ----------
    columns : tuple of Column
        Which score of which model every plane holds.
    models : tuple of str
        Names of the models.
    n_classes : int
        K.
    kind : {"probs", "logits", "logprobs", "shares", "binary"}
        What the outputs are.
    key : int
        Key of the row uniforms of randomised scores.
    alpha : float
        The level of the fit.
    fitted : Fitted
        What was learnt: one rule with its calibration, or the tables of the exact split.
    threads : int or None
        Threads for the scores; None takes the available cores.
    classes : tuple, optional
        Names of the classes.
    blend : Blend, optional
        The expert that ``scores="auto"`` made of the models; the columns are then its scores.
    arithmetic : {"exact", "numpy"}
        Whose exponential and logarithm; NumPy's in models that were saved by 0.1.0.
    ensemble : Ensemble, optional
        How the models are averaged before they are scored; the columns are then its scores.
    seen : SeenRows, optional
        Digests of rows of the fit, by which they are recognised (`conformix.fit.seen`).

    Examples
    --------
    >>> import conformix as cx
    >>> P, y = [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], ["cat", "dog", "dog"]
    >>> cp = cx.ScoreAverage("thr", alpha=0.4, split="efcp").fit(P, y, classes=["cat", "dog"])
    >>> cp.predictor_.predict_set([[0.1, 0.9]]).labels(0)
    ['dog']
    """

    columns: tuple[Column, ...]
    models: tuple[str, ...]
    n_classes: int
    kind: Form
    key: int
    alpha: float
    fitted: Fitted
    threads: int | None = None
    classes: tuple[Any, ...] | None = None
    blend: Blend | None = None
    arithmetic: Arithmetic = "exact"
    ensemble: Ensemble | None = None
    seen: SeenRows | None = None

    def __repr__(self) -> str:
        models = f" of {len(self.models)} models" if len(self.models) > 1 else ""
        scores = ", ".join(dict.fromkeys(str(column.score) for column in self.columns))
        return (
            f"{type(self).__name__}({scores}{models} over {self.n_classes:,} classes, alpha "
            f"{self.alpha:g}, guarantee {self.fitted.ledger.kind})"
        )

    def check(self, outputs: Any, name: str = "outputs", *, later: bool = False) -> Outputs:
        """Return checked outputs of the fitted models, in the fitted order.

        With `later` the numbers are checked as `blocks` reads them. What was checked before is
        returned as it is.
        """
        if isinstance(outputs, Outputs):
            return outputs
        outputs = in_class_order(outputs, self.classes)
        checked = check_outputs(outputs, self.kind, name=name, later=later)
        if self.kind == "logits":
            warn_if_probabilities(checked.models, name)
        checked = replace(checked, arithmetic=self.arithmetic)
        checked = matching(checked, self.models, self.n_classes, name)
        return checked if self.blend is None or checked.stays_on_device else checked.to_host()

    @property
    def nested(self) -> bool:
        """Whether the sets of a row are nested in alpha."""
        return self.fitted.nested

    @property
    def scoring(self) -> Scoring:
        """How outputs become scores."""
        return Scoring(self.columns, self.key, self.threads, self.ensemble)

    @property
    def scored_models(self) -> tuple[str, ...]:
        """The models that scores are named after: all of them, or the one that is their mean."""
        return scored_models(self.models, self.ensemble)

    def scores(self, outputs: Outputs) -> FloatArray:
        """Return the score tensor (n, K, d) of checked outputs."""
        if self.blend is not None:
            outputs = self.blend.over(outputs)
        return self.scoring.tensor(outputs)

    def weighted_scores(
        self, outputs: Any
    ) -> list[tuple[tuple[Column, ...], FloatArray, FloatArray]]:
        """Return what is averaged: the columns, their weights (d,) and their scores (n, K, d)."""
        if self.fitted.nested and not self.fitted.additive:
            raise InvalidInput(
                "every score of a vote has one voice; there are no weights to share out."
            )
        checked = self.check(outputs)
        if self.blend is not None:
            columns = self.blend.columns
            return [(columns, self.blend.coefficients, to_host(fill_tensor(checked, columns)))]
        rule = self.fitted.rule
        return [(self.columns, rule.weights, to_host(rule.transform(self.scores(checked))))]

    def labelled_scores(self, outputs: Outputs, y: IntArray) -> Any:
        """Return the scores of labelled rows for calibration, gathered block by block."""
        if outputs.on_device:
            return self.scores(outputs)
        if self.blend is not None:
            outputs = self.blend.over(outputs)
        return gather_rows(outputs, y, np.arange(0), self.scoring)

    def blocks(self, outputs: Outputs) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of rows with their scores (rows, K, d)."""
        for rows in outputs.blocks():
            yield rows, self.scores(outputs.read(rows))
            outputs.release_pages()

    def map_scores(self, outputs: Outputs, function: Callable[[slice, FloatArray], T]) -> list[T]:
        """Return what a function says of blocks of rows and of their scores (rows, K, d).

        On the host threads have small blocks of their own, as long as all that they ask is the
        library's, and has no threads of its own. The scores are held until the function returns.
        """
        fitted: Any = self.fitted
        ours = not getattr(fitted.transform, "holds_rows", True)
        ours &= getattr(fitted.cuts, "threaded", False)
        shared = fitted.nested and ours and may_be_shared(self.columns)
        if outputs.on_device or not shared:
            return [function(rows, scores) for rows, scores in self.blocks(outputs)]
        blend, entries = self.blend, outputs.n * outputs.n_classes
        compile_for(entries)
        alone = replace(self.scoring, threads=1)
        if blend is not None:
            threads = threads_for(BLENDED * entries, self.threads)
            return Blending(blend, outputs, threads).map(
                lambda rows, values: function(rows, alone.view(blend.instead(outputs, values)))
            )

        def of_thread(rows: slice) -> T:
            answer = function(rows, alone.view(outputs.read(rows)))
            outputs.release_pages()
            return answer

        threads = threads_for(entries, self.threads)
        together = entries_at_once(SHARED_ENTRIES, outputs.n, outputs.n_classes, threads)
        if alone.are_outputs(outputs):  # nothing becomes of them: few long calls
            together = BLOCK_ENTRIES
        return run_blocks(of_thread, row_blocks(outputs.n, outputs.n_classes, together), threads)

    def labels(self, y: Any, n: int) -> IntArray:
        """Return true labels of n rows, given by index or by class name, as indices (n,)."""
        return label_indices(y, self.classes, n, self.n_classes)

    def for_row(self, row: Outputs) -> Predictor:
        """Return the predictor of one row: this one, unless scores learn from the row."""
        return self

    def afresh(
        self,
        calibrate: Callable[[Predictor], Fitted],
        outputs: Any,
        y: Any,
        row_data: dict[str, Any],
    ) -> Predictor:
        """Return the predictor that fresh labelled rows calibrate."""
        return replace(self, fitted=calibrate(self))

    def row_data(self, n: int, strata: Any = None, sample_weight: Any = None) -> RowData:
        """Return what n rows bring along, checked against what the calibration needs."""
        name = self.fitted.ledger.facts.calibration
        return check_rows(strata, sample_weight, n, self.fitted.needs, name)

    @overload
    def predict_set(
        self, outputs: Any, alpha: float | None = None, **rows: Any
    ) -> PredictionSets: ...
    @overload
    def predict_set(self, outputs: Any, alpha: Sequence[float], **rows: Any) -> NestedSets: ...

    def predict_set(
        self, outputs: Any, alpha: float | Sequence[float] | None = None, **rows: Any
    ) -> PredictionSets | NestedSets:
        """Return the sets at the level of the fit, at another one, or at several.

        `rows` may hold ``strata`` and ``sample_weight``, where the calibration needs them.
        """
        if is_chunked(outputs):
            return predict_chunks(self, outputs, alpha, **rows)  # type: ignore[arg-type,no-any-return]
        if alpha is None:
            return self.predict_at(outputs, self.alpha, **rows)
        if np.ndim(alpha) == 1:
            return self.predict_nested(outputs, alpha, **rows)  # type: ignore[arg-type]
        self.fitted.warn(alpha)  # type: ignore[arg-type]
        return self.predict_at(outputs, alpha, **rows)  # type: ignore[arg-type]

    def predict_at(self, outputs: Any, alpha: float, **rows: Any) -> PredictionSets:
        """Return the sets at one level."""
        checked = self.check(outputs, later=True)
        if self.blend is not None or len(self.columns) > 1:
            wake_helpers(checked, self.threads)
        data = self.row_data(checked.n, **rows)
        mask = checked.empty("bool")
        best = np.concatenate(self.fill_sets(checked, alpha, data, mask))
        return PredictionSets(checked.to_caller(mask), self.classes, best, ids=row_ids(outputs))

    def fill_sets(self, outputs: Outputs, alpha: float, data: RowData, mask: Any) -> list[IntArray]:
        """Fill `mask` (n, K) with the sets of checked outputs; return their labels, best first."""
        thresholds = self.fitted.row_thresholds(alpha, data)
        ends = None if thresholds is None else self._ends(outputs)
        if ends is not None:

            def fill(block: Any, rows: slice) -> IntArray:
                return ends.fill(block, cut_at(thresholds, rows), mask[rows])

            return [best for _, best in self._sorted(outputs, fill)]

        blending = None if thresholds is None else self._blending(outputs)
        if blending is not None:
            # A copy: code for memory that must not be written would be compiled apart.
            lowest = np.array(np.broadcast_to(thresholds, (outputs.n, 1))[:, 0])
            best = blending.sets(lowest, mask)
            if best is not None:
                return [best]

        def fill_rows(rows: slice, scores: FloatArray) -> IntArray:
            member = self.fitted.member(scores, alpha, data.take(rows))
            mask[rows] = beside(member, mask)
            return best_first(member, scores, self.fitted.rule)

        return self.map_scores(outputs, fill_rows)

    def _blending(self, outputs: Outputs) -> Blending | None:
        """Return what makes sets by a loop, where the blend of one model is the only score."""
        blend, rule = self.blend, self.fitted.rule
        if blend is None or outputs.on_device or len(outputs.models) > 1 or not rule.counts_alone:
            return None
        ((_, score),) = self.columns
        if not score.is_output(blend.kind_of(outputs.kind)):
            return None
        compile_for(outputs.n * outputs.n_classes)
        threads = threads_for(BLENDED * outputs.n * outputs.n_classes, self.threads)
        return Blending(blend, outputs, threads)

    def _ends(self, outputs: Outputs) -> UpperEnds | None:
        """Return how sets are found as upper ends of sorted rows, where they are."""
        blended = outputs if self.blend is None else self.blend.over(outputs)
        return upper_ends(self.scoring, self.fitted.rule, blended)

    def fill_depths(
        self, outputs: Outputs, levels: Sequence[float], data: RowData, depth: Any
    ) -> list[IntArray]:
        """Fill `depth` (n, K) with the number of sets that a label is in; return their labels."""
        fitted: Any = self.fitted
        thresholds = [fitted.row_thresholds(level, data) for level in levels]
        ends = None if thresholds[0] is None else self._ends(outputs)
        if ends is not None:
            return self._depths(ends, outputs, thresholds, depth)

        def fill(rows: slice, scores: FloatArray) -> IntArray:
            depth[rows] = beside(fitted.depth(scores, levels, data.take(rows)), depth)
            return best_first(depth[rows] > 0, scores, fitted.rule)

        return self.map_scores(outputs, fill)

    def _depths(
        self, ends: UpperEnds, outputs: Outputs, thresholds: Sequence[Any], depth: Any
    ) -> list[IntArray]:
        """Fill `depth` where sets are upper ends of sorted rows."""

        def depths(block: Any, rows: slice) -> IntArray:
            cuts = [cut_at(threshold, rows) for threshold in thresholds]
            return ends.depths(block, cuts, depth[rows])

        return [order for _, order in self._sorted(outputs, depths)]

    def _sorted(
        self, outputs: Outputs, function: Callable[[Any, slice], T]
    ) -> Iterator[tuple[slice, T]]:
        """Yield what a function says of blocks of sorted rows, checked and blended, by threads."""
        over = None if self.blend is None else self.blend.over
        compile_for(0 if outputs.on_device else outputs.n * outputs.n_classes)
        scoring = self.scoring
        return over_sorted(
            outputs, scoring.columns, function, key=scoring.key, threads=self.threads, over=over
        )

    def levels(self, alphas: Sequence[float]) -> list[float]:
        """Return several levels, rising, for sets that are nested in them."""
        levels = sorted({float(simple_fraction(alpha)) for alpha in alphas})
        if not levels:
            raise InvalidInput("alpha must hold at least one level; got none.")
        if not self.nested:
            raise InvalidInput(
                'sets of split "exact" need not be nested in alpha; predict one level at a time.'
            )
        return levels

    def predict_nested(self, outputs: Any, alphas: Sequence[float], **rows: Any) -> NestedSets:
        """Return the sets at several levels, from one pass over the rows."""
        levels = self.levels(alphas)
        self.fitted.warn(levels[0])
        checked = self.check(outputs, later=True)
        data = self.row_data(checked.n, **rows)
        depth = checked.empty(str(np.min_scalar_type(len(levels))))
        order = self.fill_depths(checked, levels, data, depth)
        depth = checked.to_caller(depth)
        best = np.concatenate(order)
        return NestedSets(depth, levels, self.classes, best, ids=row_ids(outputs))

    def predict_pvalues(self, outputs: Any, *, smoothed: bool = False, **rows: Any) -> FloatArray:
        """Return the p-value of every label, shape (n, K)."""
        check_flag(smoothed, "smoothed")
        if is_chunked(outputs):
            return chunk_pvalues(self, outputs, smoothed=smoothed, **rows)  # type: ignore[no-any-return]
        checked = self.check(outputs, later=True)
        data = self.row_data(checked.n, **rows)
        pvalues = checked.empty("float64")
        self.fill_pvalues(checked, smoothed, data, pvalues)
        return checked.to_caller(pvalues)  # type: ignore[no-any-return]

    def fill_pvalues(self, outputs: Outputs, smoothed: bool, data: RowData, pvalues: Any) -> None:
        """Fill `pvalues` (n, K) with those of checked outputs."""
        key = self.key ^ 0x5DEECE66D  # not the scores': the two uniforms are independent

        def fill(rows: slice, scores: FloatArray) -> None:
            tau = row_uniforms(outputs, rows, key)[:, None] if smoothed else None
            pvalues[rows] = beside(self.fitted.pvalues(scores, tau, data.take(rows)), pvalues)

        self.map_scores(outputs, fill)


def cut_at(thresholds: Any, rows: slice) -> Any:
    """Return the thresholds of some rows: one for all, or one each."""
    return thresholds if isinstance(thresholds, float) else thresholds[rows]


def best_first(mask: BoolArray, scores: FloatArray, rule: Rule) -> IntArray:
    """Return the labels in the sets, row after row, by falling combined score within a row.

    Only members are combined and sorted. Under the exact split, where every label has weights of
    its own, the weights for reading decide; ties keep the order of the labels.
    """
    # A member costs some eighty bytes on the way, so that rows go by in small blocks.
    entries = DEVICE_ENTRIES if is_tensor(scores) else ORDERED_ENTRIES
    blocks = row_blocks(len(mask), mask.shape[1], entries)
    return np.concatenate([_best_first(mask[rows], scores[rows], rule) for rows in blocks])


def _best_first(mask: BoolArray, scores: FloatArray, rule: Rule) -> IntArray:
    small = np.min_scalar_type(mask.shape[1] - 1)
    if rule.leaves_scores and not is_tensor(scores):
        return falling_labels(scores[..., 0], mask).astype(small)
    # Members are few: they alone come to the host.
    members = mask.reshape(-1).nonzero()[:, 0] if is_tensor(mask) else np.flatnonzero(mask)  # type: ignore[call-overload]
    rows, labels = np.divmod(to_host(members), mask.shape[1])
    order = labels.astype(small)
    sizes = np.bincount(rows, minlength=len(mask))
    several = sizes > 1
    if not several.any():
        return order
    chosen = np.flatnonzero(np.repeat(several, sizes))  # sets of one label are in order
    rows, labels = rows[chosen], labels[chosen]
    member_scores = scores[to_device(rows, scores), to_device(labels, scores)]
    values = to_host(combine(rule.transform(member_scores), rule.weights))
    order[chosen] = order[chosen[falling_within_rows(values, sizes[several])]]
    return order
