"""Importance weights: weighted exchangeability as an identity, and shifts of known law.

For any bag of n+1 labelled rows with weights w, hold each out in turn and calibrate on the others
with their weights and its own. The covered rows then carry at least a share ``1 - alpha`` of the
weight, always: no tolerance, no simulation.
"""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from calibration.rows import NAMES, WEIGHTS, Z, covered, fixed, softmax, uneven_classes
from cases import Bag, bags, choices, levels
from conformix.calibration import LabelShift, Weighted, shift
from conformix.calibration.cuts import Single
from conformix.calibration.shift import density_ratio, effective_rows, label_ratios
from conformix.calibration.sums import RunningSums
from conformix.calibration.weighted import Reweighted
from conformix.conformal import conformal_rank
from conformix.data.row_data import RowData

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")


@settings(max_examples=60)
@given(bag=bags(max_models=1, min_rows=3, max_rows=14), level=levels(), data=st.data())
def test_held_out_rows_carry_a_share_of_one_minus_alpha_of_the_weight(
    bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    alpha, meant = level
    n = len(bag.y)
    weight = 1 + data.draw(choices(n, 5))
    cp = cx.ScoreAverage(NAMES, alpha=alpha, weights=WEIGHTS, calibration=Weighted(known=True))
    reached = 0
    for i in range(n):
        rest = np.arange(n) != i
        cp.fit(bag.outputs["a"][rest], bag.y[rest], sample_weight=weight[rest])
        sets = cp.predict_set(bag.outputs["a"][~rest], sample_weight=weight[~rest])
        reached += int(weight[i]) * bool(np.asarray(sets)[0, bag.y[i]])
    assert reached >= (1 - meant) * int(weight.sum())


@settings(max_examples=60)
@given(bag=bags(max_models=1, min_rows=3, max_rows=14), level=levels(), data=st.data())
def test_the_same_holds_when_the_weight_belongs_to_the_label(
    bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    alpha, meant = level
    k = bag.outputs["a"].shape[1]
    ratios = data.draw(st.lists(st.integers(1, 5), min_size=k, max_size=k))
    shift = LabelShift(tuple(ratios), known=True)
    cp = cx.ScoreAverage(NAMES, alpha=alpha, weights=WEIGHTS, calibration=shift)
    reached, total = 0, sum(ratios[c] for c in bag.y)
    for i in range(len(bag.y)):
        rest = np.arange(len(bag.y)) != i
        cp.fit(bag.outputs["a"][rest], bag.y[rest])
        inside = np.asarray(cp.predict_set(bag.outputs["a"][~rest]))[0, bag.y[i]]
        reached += ratios[bag.y[i]] * bool(inside)
    assert reached >= (1 - meant) * total


@settings(max_examples=40)
@given(bag=bags(max_models=1, min_rows=3, max_rows=12), data=st.data())
def test_smoothed_pvalues_of_held_out_rows_are_uniform_under_the_weights(
    bag: Bag, data: st.DataObject
) -> None:
    """A smoothed p-value is linear in its uniform number: it spreads the weight of its row evenly
    from its value at 0 to its value at 1. Together the rows cover [0, 1] evenly, ties and all.
    """
    n = len(bag.y)
    weight = 1 + data.draw(choices(n, 5))
    cp = cx.ScoreAverage(NAMES, weights=WEIGHTS, calibration=Weighted(known=True))
    ends = np.empty((n, 2))
    for i in range(n):
        rest = np.arange(n) != i
        cp.fit(bag.outputs["a"][rest], bag.y[rest], sample_weight=weight[rest])
        fitted = cp.predictor_.fitted
        own = cp.predictor_.row_data(1, sample_weight=weight[~rest])
        scores = cx.score_tensor(bag.outputs["a"][~rest], NAMES)
        for tau in (0, 1):
            p = fitted.pvalues(scores, np.full((1, 1), float(tau)), own)
            ends[i, tau] = p[0, bag.y[i]]
    for t in np.linspace(0, 1, 23):
        below = np.clip((t - ends[:, 0]) / (ends[:, 1] - ends[:, 0]), 0, 1)
        assert_allclose((weight * below).sum() / weight.sum(), t, atol=1e-12)


EQUAL = (1.0, 3.0, 0.1, 1 / 3, np.pi, 1e-300, 5e-324, 1e300, float(np.finfo(float).max))


@pytest.mark.parametrize("weight", EQUAL)
@pytest.mark.parametrize("alpha", [0.1, 1 - 0.9, 0.25, 1 / 3, 0.02, np.exp(-2)])
def test_equal_weights_are_no_weights_bit_for_bit(alpha: float, weight: float) -> None:
    rng = np.random.default_rng(0)
    for n in (*range(1, 60), 99, 199, 749, 1199):  # (n + 1) alpha is an integer for many of them
        values = np.sort(rng.integers(0, n, size=n) / 7)
        new = np.concatenate([values, rng.random(5) * n / 7])[:, None]
        weighted = Reweighted(Weighted(), values, np.full(n, weight))
        own = RowData(weight=np.full(len(new), weight))
        plain = Single(values)
        cut = plain.at(alpha, conformal_rank)
        assert_array_equal(weighted.at(alpha, conformal_rank, own), np.full((len(new), 1), cut))
        assert_array_equal(weighted.pvalues(new, data=own), plain.pvalues(new))
        assert_allclose(
            weighted.pvalues(new, np.full((len(new), 1), 0.3), own),
            plain.pvalues(new, np.full((len(new), 1), 0.3)),
            rtol=1e-14,
        )


def share_at_least(score: float, values: np.ndarray, weight: np.ndarray, own: float) -> Fraction:
    """The weighted p-value of a score, in rational numbers: nothing is rounded."""
    inside = sum(Fraction(float(w)) for w in weight[values <= score]) + Fraction(float(own))
    return inside / (sum(Fraction(float(w)) for w in weight) + Fraction(float(own)))


TENTHS = st.integers(0, 12).map(lambda tenths: tenths / 10)  # sums of these are never exact
ANY = st.floats(0, 1e300, allow_subnormal=True)


@settings(max_examples=150, deadline=None)
@given(level=levels(), data=st.data(), some=st.sampled_from([TENTHS, ANY]))
def test_a_label_is_in_exactly_where_its_rational_p_value_exceeds_alpha(
    level: tuple[float, Fraction], data: st.DataObject, some: st.SearchStrategy[float]
) -> None:
    alpha, meant = level
    n = data.draw(st.integers(1, 20))
    weight = np.array(data.draw(st.lists(some, min_size=n, max_size=n)))
    assume(weight.any())
    own = np.array(data.draw(st.lists(some, min_size=4, max_size=4)))
    values = np.sort(data.draw(st.lists(st.integers(0, 8), min_size=n, max_size=n))).astype(float)
    cuts = Reweighted(Weighted(), values, weight)
    rows = RowData(weight=own)
    scores = np.arange(-1.0, 10.0)
    inside = scores >= cuts.at(alpha, conformal_rank, rows)
    found = cuts.pvalues(np.tile(scores, (4, 1)), data=rows)
    for i in range(4):
        exact = [share_at_least(s, values, weight, own[i]) for s in scores]
        assert inside[i].tolist() == [p > meant for p in exact]
        # No p-value is off by more than its own rounding, so p > alpha never adds a label.
        rounded = np.array([float(p) for p in exact])
        tiny = rounded < 1e-200  # below what pairs of floats resolve
        assert_array_equal(found[i][~tiny], rounded[~tiny])
        assert (found[i][tiny] < 1e-190).all()


@settings(max_examples=25, deadline=None)
@given(level=levels(), power=st.integers(-60, 60), seed=st.integers(0, 10**6))
def test_a_power_of_two_in_all_weights_changes_no_bit(
    level: tuple[float, Fraction], power: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    probs, y = uneven_classes(rng, 40)
    weight = rng.choice([0.1, 0.2, 0.7, 1.3], size=40) * rng.choice([1.0, rng.random()])
    found = []
    for factor in (1.0, 2.0**power):
        cp = cx.ScoreAverage(
            NAMES, alpha=level[0], weights=WEIGHTS, calibration="weighted", random_state=0
        ).fit(probs, y, sample_weight=factor * weight)
        rows = {"sample_weight": factor * weight}
        smooth = cp.predict_pvalues(probs, smoothed=True, **rows)
        found.append(
            (np.asarray(cp.predict_set(probs, **rows)), cp.predict_pvalues(probs, **rows), smooth)
        )
        found[-1] += (str(cp.guarantee_),)
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


def test_sums_of_a_hundred_thousand_weights_are_exact_too() -> None:
    rng = np.random.default_rng(3)
    n = 100_000
    weight = rng.choice([0.1, 0.2, 0.3, 1e-9, 0.0], size=n)
    cuts = Reweighted(Weighted(), np.arange(n, dtype=float), weight)
    tenths = np.rint(weight * 1e10).astype(np.int64)  # what a person means by these weights
    own = np.array([0.0, 0.1, 0.7])
    for alpha in (0.1, 0.05, 0.37):
        meant = Fraction(alpha).limit_denominator(100)
        below = [sum(map(Fraction, map(float, weight[:j]))) for j in (10, 999)]
        assert [cuts.sums.exact(j) * cuts.sums.UNIT for j in (10, 999)] == below
        t = cuts.at(alpha, conformal_rank, RowData(weight=own))
        for cut, w in zip(t[:, 0], own, strict=True):
            j = int(cut)
            whole = meant * (int(tenths.sum()) + round(w * 1e10))
            assert tenths[:j].sum() + w * 1e10 <= whole + 1  # within the rounding of the weights
            assert tenths[: j + 1].sum() + w * 1e10 > whole - 1


def test_the_smoothed_p_value_smooths_the_own_weight_too() -> None:
    values, weight = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])
    cuts = Reweighted(Weighted(), values, weight)
    rows, scores = RowData(weight=np.array([5.0])), np.array([[0.5, 2.0, 9.0]])
    for tau in (0.0, 0.25, 1.0):
        # below + tau (at the score + own), over the 10 + 5 of all
        expected = [(0 + tau * 5) / 15, (1 + tau * (5 + 5)) / 15, (10 + tau * 5) / 15]
        assert_allclose(cuts.pvalues(scores, np.array([[tau]]), rows)[0], expected, rtol=1e-15)


def test_the_law_of_smoothed_weighted_p_values_is_uniform_over_the_bag() -> None:
    """Hold out each row with its weight: its p-value is uniform on an interval of that length.

    The intervals of all rows fill [0, 1] without a gap or an overlap of two scores: with tau
    uniform, the p-value of a row drawn by weight is uniform, ties or not.
    """
    values, weight = np.array([1.0, 2.0, 2.0, 3.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    grid = np.linspace(0, 1, 4001)
    reached = np.zeros_like(grid)
    for i in range(5):
        rest = np.arange(5) != i
        cuts = Reweighted(Weighted(), values[rest], weight[rest])
        ends = [
            cuts.pvalues(
                values[i : i + 1, None], np.array([[tau]]), RowData(weight=weight[i : i + 1])
            )
            for tau in (0.0, 1.0)
        ]
        low, high = (float(end[0, 0]) for end in ends)
        reached += weight[i] / weight.sum() * np.clip((grid - low) / (high - low), 0, 1)
    assert_allclose(reached, grid, atol=1e-12)


def test_weighted_pvalues_and_sets_agree() -> None:
    rng = np.random.default_rng(1)
    probs, y = uneven_classes(rng, 400)
    cp = cx.ScoreAverage(NAMES, alpha=0.1, calibration="weighted", random_state=0)
    cp.fit(probs, y, sample_weight=rng.integers(1, 9, size=400))
    rows = {"sample_weight": rng.integers(1, 9, size=400)}
    sets = np.asarray(cp.predict_set(probs, **rows))
    assert_array_equal(sets, cp.predict_pvalues(probs, **rows) > 0.1)
    nested = cp.predict_set(probs, alpha=[0.1, 0.2], **rows)
    assert_array_equal(sets, np.asarray(nested.at(0.1)))


def covariate_shift(rng: np.random.Generator, n: int, mean: float) -> tuple:
    """Rows with x ~ N(mean, 1); the model is worse where x is large. Weight N(1,1) : N(0,1)."""
    x = rng.normal(mean, size=n)
    y = rng.integers(3, size=n)
    logits = rng.normal(size=(n, 3))
    logits[np.arange(n), y] += np.clip(2.5 - 1.5 * x, -1, 4)
    return x, softmax(logits), y


def test_known_ratios_restore_coverage_under_covariate_shift_and_none_does_not() -> None:
    alpha, hits, plain_hits, m = 0.1, 0, 0, 0
    for r in range(60):
        rng = np.random.default_rng([r, 3])
        x, probs, y = covariate_shift(rng, 400, 0.0)
        x_new, new, y_new = covariate_shift(rng, 5, 1.0)
        ratio = lambda x: np.exp(x - 0.5)  # noqa: E731  the density of N(1,1) over N(0,1)
        cp = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha, calibration=Weighted(known=True))
        cp.fit(probs, y, sample_weight=ratio(x))
        hits += covered(cp.predict_set(new, sample_weight=ratio(x_new)), y_new).sum()
        plain = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha).fit(probs, y)
        plain_hits += covered(plain.predict_set(new), y_new).sum()
        m += 5
    spread = np.sqrt(m * alpha * (1 - alpha) * 1.5)  # rows of one repetition share a threshold
    assert hits > (1 - alpha) * m - Z * spread
    assert plain_hits < (1 - alpha) * m - Z * spread


def test_estimated_ratios_come_close_and_say_that_they_are_estimated() -> None:
    rng = np.random.default_rng(4)
    x, probs, y = covariate_shift(rng, 3000, 0.0)
    x_new, new, y_new = covariate_shift(rng, 3000, 1.0)
    ratio = density_ratio(x[:, None], x_new[:, None])
    truth = np.exp(x - 0.5)
    assert_allclose(np.log(ratio.source), np.log(np.minimum(truth, 50)), atol=0.35)
    assert 0 < ratio.effective_rows < 3000
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.1, calibration="weighted")
    cp.fit(probs, y, sample_weight=ratio.source)
    inside = covered(cp.predict_set(new, sample_weight=ratio(x_new[:, None])), y_new)
    # 3,000 new rows, and a threshold from so many effective rows.
    spread = np.sqrt(0.09 * (1 / 3000 + 1 / ratio.effective_rows))
    assert inside.mean() > 0.9 - Z * spread
    assert cp.guarantee_.kind == "approximate"
    assert "effective rows of 3,000" in cp.guarantee_.assumption


def test_without_cross_fitting_a_flexible_classifier_overfits_the_ratios() -> None:
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(5)
    same = rng.normal(size=(600, 2))
    forest = RandomForestClassifier(30, random_state=0)
    own = density_ratio(same[:300], same[300:], classifier=forest, folds=1)
    crossed = density_ratio(same[:300], same[300:], classifier=forest, folds=5)
    # The two samples follow one law: the true ratios are 1.
    assert own.source.mean() < 0.5 < crossed.source.mean()


def test_a_classifier_of_two_samples_is_shown_zeros_and_ones() -> None:
    """Some ask for labels that count from 0."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    shown = []

    class Known(ClassifierMixin, BaseEstimator):
        def fit(self, X: np.ndarray, z: np.ndarray) -> Known:
            shown.append((X[:, 0] > 0, z))
            return self

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return np.full((len(X), 2), 0.5)

    density_ratio(-np.ones((6, 1)), np.ones((4, 1)), classifier=Known(), folds=2, random_state=0)
    assert len(shown) == 3  # all rows, and those outside either fold
    for target, z in shown:
        assert_array_equal(z, target.astype(int))


@pytest.mark.parametrize(("n", "m"), [(2000, 400), (400, 2000)])
def test_samples_of_one_law_have_ratios_near_one_whatever_their_sizes(n: int, m: int) -> None:
    rng = np.random.default_rng(8)
    ratio = density_ratio(rng.normal(size=(n, 1)), rng.normal(size=(m, 1)))
    # The coefficients have standard errors near 1 / sqrt(400), and so have logarithms of ratios.
    assert abs(np.log(ratio.source)).mean() < Z / np.sqrt(400)
    assert abs(np.log(ratio(np.zeros((1, 1)))))[0] < Z / np.sqrt(400)


@pytest.mark.parametrize("old_priors", [(1 / 3, 1 / 3, 1 / 3), (0.2, 0.3, 0.5)])
@pytest.mark.parametrize("method", ["confusion", "em"])
def test_class_priors_are_found_without_new_labels(
    method: str, old_priors: tuple[float, ...]
) -> None:
    rng = np.random.default_rng(6)

    def rows(priors: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        y = rng.choice(3, size=20_000, p=np.array(priors))
        x = np.eye(3)[y] * 2 + rng.normal(size=(20_000, 3))
        logits = 2 * x + np.log(old_priors)  # the Bayes rule under the old priors
        return softmax(logits), y

    old, y = rows(old_priors)
    new, _ = rows((0.6, 0.3, 0.1))
    found = label_ratios(old, y, new, method=method)
    assert_allclose(found * old_priors, [0.6, 0.3, 0.1], atol=0.02)


def test_label_shift_restores_coverage_and_no_weights_do_not() -> None:
    alpha, hits, plain_hits, m = 0.1, 0, 0, 0
    old, new = (0.6, 0.3, 0.1), (0.1, 0.2, 0.7)
    shift = LabelShift(tuple(np.array(new) / old), known=True)
    for r in range(40):
        rng = np.random.default_rng([r, 7])
        probs, y = uneven_classes(rng, 600, old)
        fresh, y_new = uneven_classes(rng, 10, new)
        cp = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha, calibration=shift).fit(probs, y)
        hits += covered(cp.predict_set(fresh), y_new).sum()
        plain = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha).fit(probs, y)
        plain_hits += covered(plain.predict_set(fresh), y_new).sum()
        m += 10
    spread = np.sqrt(m * alpha * (1 - alpha) * 2)  # rows of one repetition share a threshold
    assert hits > (1 - alpha) * m - Z * spread
    assert plain_hits < (1 - alpha) * m - Z * spread
    assert cp.guarantee_.kind == "exact"
    assert cp.guarantee_.assumption.endswith(
        "effective rows of 600; but for that shift calibration and test rows exchangeable; weights "
        "chosen without these rows; every label among the classes"
    )


@pytest.mark.parametrize("known", [True, False])
def test_a_weighted_model_is_saved_and_read(known: bool, tmp_path) -> None:
    rng = np.random.default_rng(8)
    probs, y = uneven_classes(rng, 300)
    rows = {"sample_weight": rng.random(300)}
    cases = ((Weighted(known), rows), (LabelShift((0.5, 1.0, 2.0), known), {}))
    for calibration, more in cases:
        cp = cx.ScoreAverage(weights=WEIGHTS, calibration=calibration).fit(probs, y, **more)
        cp.save(tmp_path / "model.json")
        again = cx.load(tmp_path / "model.json")
        assert_array_equal(
            np.asarray(again.predict_set(probs, **more)), np.asarray(cp.predict_set(probs, **more))
        )
        assert str(again.guarantee_) == str(cp.guarantee_)
        assert again.calibration == calibration


def test_effective_rows_are_all_rows_for_equal_weights_and_one_for_a_single_one() -> None:
    assert effective_rows(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_rows([0, 0, 2.0]) == 1


def test_effective_rows_do_not_ask_for_the_unit_of_the_weights() -> None:
    weight = np.random.default_rng(0).random(50)
    for factor in (2.0**-1000, 2.0**-500, 2.0**500, 2.0**1000):
        assert effective_rows(factor * weight) == effective_rows(weight)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({}, 'calibration "weighted" needs sample_weight=...'),
        ({"sample_weight": [1.0, -1.0, 1.0]}, "not negative; row 1 holds -1.0"),
        ({"sample_weight": [1.0, np.nan, 1.0]}, "must be finite and not negative; row 1"),
        ({"sample_weight": [0, 0, 0]}, "must not all be 0"),
        ({"sample_weight": [1.0]}, "sample_weight must hold one number per row"),
    ],
)
def test_weights_that_cannot_be_are_refused(rows: dict, message: str) -> None:
    probs = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
    cp = cx.ScoreAverage(weights=WEIGHTS, alpha=0.5, calibration="weighted")
    with pytest.raises(cx.InvalidInput, match=message):
        cp.fit(probs, [0, 1, 1], **rows)


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ((1.0,), r"one number per class, 2 of them, .* got shape \(1,\)"),
        ((1.0, 1.0, 1.0), r"one number per class, 2 of them, .* got shape \(3,\)"),
        (((1.0, 1.0),), r"one number per class, 2 of them, .* got shape \(1, 2\)"),
        (((1.0,), (1.0,)), r"one number per class, 2 of them, .* got shape \(2, 1\)"),
        ((1.0, -1.0), "not negative"),
        ((0.0, 0.0), "not all 0"),
        ((1.0, np.inf), "ratios must be finite"),
    ],
    ids=["one", "three", "a row", "a column", "negative", "all 0", "infinite"],
)
def test_ratios_that_cannot_be_are_refused(ratios: tuple, message: str) -> None:
    with pytest.raises(cx.InvalidInput, match=message):
        fixed(0.5, LabelShift(ratios)).fit([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 1])


@pytest.mark.parametrize("weight", [0.1, 1.0, 7.0])
def test_weighted_rows_that_are_too_few_are_told_and_just_enough_are_not(weight: float) -> None:
    probs, y = np.tile([[0.7, 0.3]], (9, 1)), np.zeros(9, dtype=int)
    cp, rows = fixed(0.1, "weighted"), {"sample_weight": np.full(9, weight)}
    with warnings.catch_warnings(action="error"):
        cp.fit(probs, y, **rows)
    message = "^9 weighted calibration rows are too few for alpha=0.09: sets of points of average"
    with pytest.warns(cx.TrivialSetsWarning, match=message):
        assert np.asarray(cp.predict_set(probs, alpha=0.09, **rows)).all()


def test_a_weighted_model_has_no_single_threshold_and_no_pac_rank() -> None:
    probs = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
    cp = cx.ScoreAverage(weights=WEIGHTS, alpha=0.5, calibration="weighted")
    cp.fit(probs, [0, 1, 1], sample_weight=[1, 1, 1])
    with pytest.raises(cx.InvalidInput, match="has no single threshold"):
        _ = cp.threshold_
    with pytest.raises(cx.InvalidInput, match='guarantee="pac" is not known'):
        cp.set_params(guarantee="pac").fit(probs, [0, 1, 1], sample_weight=[1, 1, 1])


@pytest.mark.parametrize(
    "weights",
    [[0.1] * 20, [1.0], [0.0, 3.0, 1e-9, 0.0], [1e300, 1.0, 5e-324, 1e-300, 0.3],
     np.random.default_rng(0).random(23), np.random.default_rng(1).integers(1, 4, 12) / 4],
    ids=["tenths", "one", "with zeros", "far apart", "random", "ties"],
)  # fmt: skip
def test_running_sums_decide_and_divide_as_fractions_do(weights: object) -> None:
    weights = np.array(weights)
    n, sums = len(weights), RunningSums(weights)
    exact = [sum(map(Fraction, weights[:j].tolist()), Fraction(0)) for j in range(n + 1)]
    assert [sums.exact(j) * RunningSums.UNIT for j in range(n + 1)] == exact
    for new in {*weights.tolist(), 0.1, 0.7, 12.0}:
        w = Fraction(new)
        whole = exact[n] + w
        for level in (Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(19, 20)):
            within = [j for j in range(n) if exact[j] + w <= level * whole]
            assert sums.last_within(level, np.array([new])).tolist() == [max(within, default=-1)]
        places = np.arange(n + 1)
        found = sums.shares(places, np.full(n + 1, new))
        assert found.tolist() == [float((exact[j] + w) / whole) for j in places]
        for below, j, tau in ((0, n, 0.25), (n // 2, n, 0.5), (n // 3, n // 2, 1.0)):
            tied = exact[below] + Fraction(tau) * (exact[j] - exact[below] + w)
            smooth = sums.smoothed(np.array([below]), np.array([j]), np.array([new]), tau)
            assert_allclose(smooth, [float(tied / whole)], rtol=1e-14)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"folds": folds}, r"^folds must be a positive integer; got") for folds in (True, 0, 2.0)]
    + [({"clip": clip}, r"^clip must be positive; got") for clip in (0, -1.0, np.nan)],
)
def test_folds_and_bounds_of_a_density_ratio_that_cannot_be_are_refused(options, sentence) -> None:
    X = np.random.default_rng(0).random((20, 2))
    with pytest.raises(cx.InvalidInput, match=sentence):
        density_ratio(X, X, **options)


@pytest.mark.parametrize("method", ["confusion", "em"])
def test_ratios_of_labels_do_not_depend_on_where_logits_stand(method: str) -> None:
    rng = np.random.default_rng(0)
    y, new = rng.integers(3, size=200), rng.integers(2, size=200)
    before, after = (rng.normal(size=(200, 3)) + 2 * np.eye(3)[labels] for labels in (y, new))
    expected = label_ratios(before, y, after, method=method, kind="logits")
    for moved in (1000.0, -1000.0):
        found = label_ratios(before + moved, y, after + moved, method=method, kind="logits")
        assert_allclose(found, expected, rtol=1e-6)


def test_frequencies_are_improved_until_a_step_changes_them_no_more() -> None:
    rng = np.random.default_rng(0)
    new, priors = rng.dirichlet(np.ones(3), size=50), np.array([0.5, 0.3, 0.2])
    frequencies, steps = priors, 0
    while True:
        posterior = new / priors * frequencies
        fresh = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
        change, frequencies, steps = np.abs(fresh - frequencies).max(), fresh, steps + 1
        if change < shift.EM_CHANGE:
            break
    assert steps < shift.EM_STEPS
    assert_allclose(shift._em(new, priors), frequencies, rtol=1e-13)
    once_more = (new / priors * frequencies) / (new / priors * frequencies).sum(axis=1)[:, None]
    assert np.abs(once_more.mean(axis=0) - frequencies).max() > 1e-13  # a step more would be seen


@pytest.mark.parametrize(("split", "kind"), [("vfcp", "exact"), ("efcp", "approximate")])
@pytest.mark.parametrize("known", [True, False])
def test_known_ratios_promise_no_more_than_the_split_does(split: str, kind: str, known) -> None:
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(3), 200), rng.integers(3, size=200)
    shift = LabelShift((1.0, 2.0, 1.0), known=known)
    cp = cx.ScoreAverage("paper", split=split, calibration=shift, random_state=0).fit(probs, y)
    assert cp.guarantee_.kind == (kind if known else "approximate")
    assert ("minus a selection term" in cp.guarantee_.statement) is (split == "efcp")
