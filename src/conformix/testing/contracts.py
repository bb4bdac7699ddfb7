"""Contracts: what every score, of labels or responses, normaliser and metric must hold.

Subclass one in your own test suite, set its attribute, and pytest runs the checks::

    class TestMyScore(ScoreContract):
        score = MyScore()
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.testing import assert_array_equal, assert_array_less

from conformix.kernels.arrays import FloatArray
from conformix.metrics import Metric
from conformix.regression import Regressed, RegressionScore
from conformix.scores import Column, Ranked, Score, Thr
from conformix.scores.scale import Normalizer


def awkward_rows(n_classes: int = 5, *, logits: bool = False) -> FloatArray:
    """Return rows that break careless code: ties, zeros, certainty, equal rows.

    Examples
    --------
    >>> awkward_rows(3).shape
    (7, 3)
    """
    rng = np.random.default_rng(7)
    rows = [rng.dirichlet(np.ones(n_classes)) for _ in range(2)]
    rows.append(np.full(n_classes, 1 / n_classes))
    rows.append(np.eye(n_classes)[n_classes - 1])
    halves = np.zeros(n_classes)
    halves[: min(2, n_classes)] = 1 / min(2, n_classes)
    tiny = np.full(n_classes, 1e-300)
    tiny[0] = 1.0
    stairs = np.arange(n_classes) // 2 + 1.0
    rows += [halves, tiny, stairs / stairs.sum()]
    probs = np.array(rows)
    return np.log(np.maximum(probs, 1e-300)) if logits else probs


class ScoreContract:
    """What every score holds.

    Attributes
    ----------
    score : Score
        The score under test.
    kind : {"probs", "logits"}
        What it needs.
    keeps_order : bool
        Whether a larger probability never has a smaller score; of those that learn it may.

    Examples
    --------
    >>> class TestThr(ScoreContract):
    ...     score = Thr()
    >>> TestThr().test_moves_with_the_labels()
    """

    score: ClassVar[Score]
    kind: ClassVar[Literal["probs", "logits"]] = "probs"
    keeps_order: ClassVar[bool] = True

    def scores_of(
        self, rows: FloatArray, u: FloatArray | None = None, order: Any = slice(None)
    ) -> FloatArray:
        """Return the scores of some rows; a score that learns has learnt from awkward ones.

        These have their labels in the same `order` as the rows.
        """
        score: Any = self.score
        if score.learns:
            taught_by = self.rows(rows.shape[1])[:, order]
            score = score.learnt(score.sums(Ranked(taught_by, self.kind)))
        return np.asarray(score(Ranked(rows, self.kind, u)))

    def rows(self, n_classes: int = 5) -> FloatArray:
        """Return awkward rows of the right kind."""
        return awkward_rows(n_classes, logits=self.kind == "logits")

    def test_gives_one_finite_float64_per_label(self) -> None:
        """Shape (n, K), float64, finite, for one class, two and many."""
        for n_classes in (1, 2, 5, 300):
            values = self.scores_of(self.rows(n_classes))
            assert values.shape == (7, n_classes)
            assert values.dtype == np.float64
            assert np.isfinite(values).all()

    def test_takes_half_single_and_double_precision(self) -> None:
        """Any float width is accepted and gives float64 scores."""
        for dtype in (np.float16, np.float32, np.float64):
            values = self.scores_of(np.clip(self.rows(), -6e4, 6e4).astype(dtype))
            assert values.dtype == np.float64
            assert np.isfinite(values).all()

    def test_moves_with_the_labels(self) -> None:
        """Permuting the labels permutes the scores, bit for bit."""
        order = np.random.default_rng(3).permutation(5)
        rows = self.rows()
        moved = self.scores_of(rows[:, order], order=order)
        assert_array_equal(moved, self.scores_of(rows)[:, order])

    def test_treats_rows_one_by_one(self) -> None:
        """A row's scores do not depend on the rows beside it."""
        rows = self.rows()
        u = np.linspace(0, 0.9, len(rows))
        alone = [self.scores_of(rows[i : i + 1], u[i : i + 1]) for i in range(len(rows))]
        assert_array_equal(np.vstack(alone), self.scores_of(rows, u))

    def test_leaves_its_input_alone(self) -> None:
        """The outputs are not modified."""
        rows = self.rows()
        before = rows.copy()
        self.scores_of(rows)
        assert_array_equal(rows, before)

    def test_never_scores_a_likelier_label_lower(self) -> None:
        """Within a row ``p_a > p_b`` implies ``s_a >= s_b``, for any ``u``."""
        if not self.keeps_order or self.score.learns:
            return
        rows = self.rows()
        for u in (None, np.linspace(0, 0.99, len(rows))):
            values = self.scores_of(rows, u)
            likelier = rows[:, :, None] > rows[:, None, :]
            higher = values[:, :, None] >= values[:, None, :]
            assert (higher | ~likelier).all()

    def test_reads_back_from_its_own_text(self) -> None:
        """The text of a built-in score parses to the same score."""
        from conformix.scores import SCORES, parse_score  # noqa: PLC0415

        if SCORES.names() and self.score.name in SCORES:
            assert parse_score(str(self.score)) == self.score


def awkward_responses() -> Regressed:
    """Return rows that break careless code: no spread, quantiles that meet or cross, equal rows.

    Examples
    --------
    >>> awkward_responses()
    Regressed(7 rows: mean, sigma, quantiles at 0.05, 0.25, 0.5, 0.75, 0.95)
    """
    mean = np.array([0.0, -3.0, 2.5, 2.5, 1e6, -1e-6, 7.0])
    sigma = np.array([1.0, 0.0, 0.5, 0.5, 1e5, 1e-9, 1e3])
    quantiles = mean[:, None] + sigma[:, None] * np.array([-1.6, -0.7, 0.1, 0.7, 1.6])
    quantiles[5] = quantiles[5][::-1]  # which cross
    return Regressed(mean, sigma, quantiles, [0.05, 0.25, 0.5, 0.75, 0.95])


class RegressionScoreContract:
    """What every score of a response holds.

    Attributes
    ----------
    score : RegressionScore
        The score under test.

    Examples
    --------
    >>> from conformix.regression import Abs
    >>> class TestAbs(RegressionScoreContract):
    ...     score = Abs()
    >>> TestAbs().test_treats_rows_one_by_one()
    """

    score: ClassVar[RegressionScore]
    floor: ClassVar[float] = 0.25

    def test_gives_four_finite_numbers_per_row_that_rise_from_a_centre(self) -> None:
        """Centre, offset and two slopes from 0 on, float64, finite, of shape (n,)."""
        rows = awkward_responses()
        for floor in (0.0, self.floor):
            vees = self.score.vees(rows, floor)
            assert len(vees) == 4
            for part in vees:
                assert part.shape == (len(rows),)
                assert part.dtype == np.float64
                assert np.isfinite(part).all()
            assert (vees.below >= 0).all()
            assert (vees.above >= 0).all()

    def test_treats_rows_one_by_one(self) -> None:
        """The numbers of a row do not depend on the rows beside it."""
        rows = awkward_responses()
        for floor in (0.0, self.floor):
            together = np.column_stack(self.score.vees(rows, floor))
            alone = [np.column_stack(self.score.vees(rows[i], floor)) for i in range(len(rows))]
            assert_array_equal(np.vstack(alone), together)

    def test_has_no_spread_below_the_floor(self) -> None:
        """Where spreads differ between rows, no slope exceeds one over the floor."""
        rows = awkward_responses()
        spread = self.score.spread(rows)
        if spread is None:
            return
        assert spread.shape == (len(rows),)
        assert np.isfinite(spread).all()
        assert (spread >= 0).all()
        _, _, below, above = self.score.vees(rows, self.floor)
        assert max(below.max(), above.max()) <= 1 / self.floor

    def test_leaves_its_input_alone(self) -> None:
        """What the model predicts is not modified."""
        rows = awkward_responses()
        before = rows.matrix().copy()
        self.score.vees(rows, self.floor)
        assert_array_equal(rows.matrix(), before)

    def test_reads_back_from_its_own_text(self) -> None:
        """The text of a built-in score parses to the same score."""
        from conformix.regression.scores import NOTATION  # noqa: PLC0415

        if self.score.name in NOTATION.registry:
            assert NOTATION.parse(str(self.score)) == self.score


class NormalizerContract:
    """What every normaliser holds.

    Attributes
    ----------
    normalizer : Normalizer
        The normaliser under test.

    Examples
    --------
    >>> from conformix.scores.scale import Ecdf
    >>> class TestEcdf(NormalizerContract):
    ...     normalizer = Ecdf()
    >>> TestEcdf().test_never_turns_an_order_round()
    """

    normalizer: ClassVar[Normalizer]

    @staticmethod
    def scores(n: int = 40) -> FloatArray:
        """Return a tensor (n, 4, 2) with ties and different scales."""
        rng = np.random.default_rng(11)
        return np.stack([rng.integers(0, 5, (n, 4)) / 4.0, 100 * rng.normal(size=(n, 4))], axis=-1)

    def transform(self) -> Any:
        """Return the normaliser fitted on the tensor."""
        columns = [Column("", Thr()), Column("", Thr(temperature=2.0))]
        return self.normalizer.fit(self.scores(), columns)

    def test_keeps_shape_and_stays_finite(self) -> None:
        """Any array (..., d) keeps its shape, far outside the fitted range too."""
        transform = self.transform()
        for values in (self.scores(7), self.scores(7)[:, 0], 1e6 * self.scores(7)):
            assert transform(values).shape == values.shape
            assert np.isfinite(transform(values)).all()

    def test_works_on_every_score_by_itself(self) -> None:
        """Changing one score leaves the other normalised ones as they were."""
        transform, values = self.transform(), self.scores(9)
        other = values.copy()
        other[..., 1] += 5.0
        assert_array_equal(transform(values)[..., 0], transform(other)[..., 0])

    def test_never_turns_an_order_round(self) -> None:
        """Larger scores stay no smaller, and ties stay ties, to the last bit."""
        transform = self.transform()
        values = np.sort(np.concatenate([self.scores(200), self.scores()]).reshape(-1, 2), axis=0)
        normalized = transform(values)
        assert (np.diff(normalized, axis=0) >= 0).all()
        assert_array_equal(transform(values[::-1])[::-1], normalized)

    def test_is_the_same_row_by_row(self) -> None:
        """A frozen transform does not look at the batch."""
        transform, values = self.transform(), self.scores(9)
        alone = np.concatenate([transform(values[i : i + 1]) for i in range(len(values))])
        assert_array_equal(alone, transform(values))

    def test_leaves_its_input_alone(self) -> None:
        """The scores are not modified."""
        values = self.scores(9)
        before = values.copy()
        self.transform()(values)
        assert_array_equal(values, before)


class MetricContract:
    """What every metric holds.

    Attributes
    ----------
    metric : Metric
        The metric under test.
    options : dict
        Options it needs.

    Examples
    --------
    >>> from conformix.metrics import coverage
    >>> class TestCoverage(MetricContract):
    ...     metric = staticmethod(coverage)
    >>> TestCoverage().test_returns_a_finite_python_float()
    """

    metric: ClassVar[Metric]
    options: ClassVar[dict[str, Any]] = {}

    def value(self, sets: Any, y: Any) -> float:
        """Return the metric."""
        return float(type(self).metric(sets, y, **self.options))

    @staticmethod
    def case() -> tuple[Any, Any]:
        """Return sets (60, 5) and labels."""
        rng = np.random.default_rng(5)
        sets = rng.random((60, 5)) < 0.4
        sets[0], sets[1] = False, [True, False, False, False, False]
        return sets, rng.integers(0, 5, 60)

    def test_returns_a_finite_python_float(self) -> None:
        """A plain float, finite on an ordinary case."""
        value = type(self).metric(*self.case(), **self.options)
        assert type(value) is float
        assert np.isfinite(value)

    def test_does_not_depend_on_the_order_of_rows(self) -> None:
        """Permuting the rows leaves the value."""
        sets, y = self.case()
        order = np.random.default_rng(1).permutation(len(y))
        assert_array_less(abs(self.value(sets[order], y[order]) - self.value(sets, y)), 1e-12)

    def test_takes_prediction_sets_and_arrays_alike(self) -> None:
        """`PredictionSets` and its mask give the same value."""
        from conformix.predictions.sets import PredictionSets  # noqa: PLC0415

        sets, y = self.case()
        assert self.value(PredictionSets(sets), y) == self.value(sets, y)


def assert_same_sets(actual: Any, expected: Any) -> None:
    """Raise AssertionError unless both hold the same labels in every row.

    Parameters
    ----------
    actual, expected : PredictionSets or boolean arrays of shape (n, K)
        The sets to compare.

    Examples
    --------
    >>> assert_same_sets(np.array([[True, False]]), np.array([[True, True]]))
    Traceback (most recent call last):
    AssertionError: sets differ in 1 of 1 rows; first in row 0: labels [0] against [0, 1].
    """
    left, right = np.asarray(actual), np.asarray(expected)
    if left.shape != right.shape:
        raise AssertionError(f"sets have shapes {left.shape} and {right.shape}.")
    rows = np.flatnonzero((left != right).any(axis=1))
    if len(rows):
        i = int(rows[0])
        labels = [np.flatnonzero(side[i]).tolist() for side in (left, right)]
        raise AssertionError(
            f"sets differ in {len(rows)} of {len(left)} rows; first in row {i}: labels {labels[0]} "
            f"against {labels[1]}."
        )
