"""CrossConformalRegressor: a response is in by its rank among the rows of all folds."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import conformix as cx
from conformix.errors import InvalidInput
from conformix.fit.cross import cross_coverage
from conformix.regression.cross import held_by

X, Y = make_friedman1(260, noise=1.0, random_state=0)
NEAR = KNeighborsRegressor(10)


def fitted(estimators=None, n=160, **options):
    usual = {"alpha": 0.1, "random_state": 0, "sigma": NEAR, "cv": 4, "inner_cv": 2}
    members = [Ridge(), KNeighborsRegressor()] if estimators is None else estimators
    return cx.CrossConformalRegressor(members, **(usual | options)).fit(X[:n], Y[:n])


@pytest.mark.long(short="test_a_response_is_in_by_its_rank_among_all_rows")
@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [cx.CrossConformalRegressor(Ridge(), sigma=Ridge(), inner_cv=2, random_state=0)]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_hull_of_what_enough_intervals_hold_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        n, m = rng.integers(1, 8), 3
        lower = rng.integers(0, 6, size=(n, m)).astype(float)
        upper = lower + rng.integers(-1, 5, size=(n, m))
        empty = lower > upper
        lower[empty], upper[empty] = np.inf, -np.inf
        lower[rng.random((n, m)) < 0.05] = -np.inf
        enough = int(rng.integers(1, n + 1))
        found = held_by(lower, upper, enough)
        points = np.concatenate([[-np.inf], np.arange(-1, 12, 0.5)])
        for row in range(m):
            counts = ((lower[:, [row]] <= points) & (points <= upper[:, [row]])).sum(axis=0)
            held = points[counts >= enough]
            expected = (held.min(), held.max()) if len(held) else (np.inf, -np.inf)
            assert (found[0][row], found[1][row]) == expected


def by_ranks(reg, row, grid, alpha):
    """Return which numbers of a grid are in, by the definition."""
    ranks = np.ones(len(grid))
    n = 0
    for fold, members in zip(reg.cross_.folds, reg.fold_estimators_, strict=True):
        outputs = fold.predictor.check(reg._by_name(row, members))
        planes = fold.rule.transform(outputs)
        values = np.array([planes.combined(fold.rule.weights, np.array([y]))[0] for y in grid])
        ranks += (values[:, None] <= fold.scores).sum(axis=1)
        n += len(fold.scores)
    return ranks > alpha * (n + 1)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_a_response_is_in_by_its_rank_among_all_rows(alpha):
    reg = fitted([Ridge(), QuantileRegressor(alpha=0.0)])
    intervals = reg.predict_interval(X[160:166], alpha=alpha)
    for i, (low, high) in enumerate(intervals):
        grid = np.linspace(low - 3, high + 3, 301)
        inside = grid[by_ranks(reg, X[160 + i : 161 + i], grid, alpha)]
        step = grid[1] - grid[0]
        assert low <= inside.min() <= low + step
        assert high - step <= inside.max() <= high


def test_intervals_cover_and_the_proven_share_is_that_of_the_folds():
    reg = fitted()
    intervals = reg.predict_interval(X[160:])
    assert intervals.contains(Y[160:]).mean() > 0.8
    assert reg.evaluate(X[160:], Y[160:])["coverage"] == intervals.contains(Y[160:]).mean()
    share = cross_coverage(0.1, [40] * 4)
    assert f"{share:.3f}"[:4] in reg.guarantee_.statement
    assert "classes" not in reg.guarantee_.assumption
    means = [reg._middle(X[160:], members) for members in reg.fold_estimators_]
    assert_array_equal(reg.predict(X[160:]), np.mean(means, axis=0))


@pytest.mark.parametrize("scores", [["abs"], "auto"])
def test_a_fold_is_scored_by_models_and_weights_that_have_not_seen_it(scores):
    """One response moves the scores of its own fold by its own score alone."""
    moved = Y[:160].copy()
    moved[7] += 100.0
    fits = [
        cx.CrossConformalRegressor(
            [("line", LinearRegression()), ("near", KNeighborsRegressor())], scores=scores, cv=4,
            alpha=0.1, random_state=0, sigma=None, stack=False,
        ).fit(X[:160], y)
        for y in (Y[:160], moved)
    ]  # fmt: skip
    before, after = (reg.cross_.folds for reg in fits)
    changed = [
        len(np.setdiff1d(a.scores, b.scores)) for a, b in zip(before, after, strict=True)
    ]  # fmt: skip
    assert max(changed) > 20  # models of other folds have seen it
    own = changed.index(1)
    assert_array_equal(before[own].rule.weights, after[own].rule.weights)
    assert before[own].rule.transform.means == after[own].rule.transform.means


def test_tuning_rows_train_nothing_and_one_score_needs_none():
    sizes = [len(fold.scores) for fold in fitted().cross_.folds]
    assert sizes == [40] * 4
    for scores, n_train in ((["norm"], 120), ("auto", 90)):
        reg = fitted(KNeighborsRegressor(1), scores=scores)
        assert {one[""].estimator.n_samples_fit_ for one in reg.fold_estimators_} == {n_train}
        learnt = [any(fold.rule.transform.floors) for fold in reg.cross_.folds]
        assert learnt == [scores == "auto"] * 4  # a scale is learnt from tuning rows, or not at all
    # A quarter of the 120 rows outside a fold chose its weights.
    assert {fold.predictor.fitted.n for fold in reg.cross_.folds} == {30}


def test_groups_stay_in_one_fold():
    groups = np.repeat(np.arange(40), 4)
    reg = cx.CrossConformalRegressor(Ridge(), sigma=None, cv=4, random_state=0)
    reg.fit(X[:160], Y[:160], groups=groups)
    for fold in reg.cross_.folds:
        assert len(fold.scores) % 4 == 0


def test_ranges_and_empty_intervals():
    bounded = fitted(y_range=(0.0, 30.0)).predict_interval(X[160:])
    assert (bounded.lower >= 0).all()
    assert (bounded.upper <= 30).all()
    narrow = fitted(alpha=0.9).predict_interval(X[160:])
    filled = fitted(alpha=0.9, allow_empty=False).predict_interval(X[160:])
    assert narrow.is_empty.any()
    assert not filled.is_empty.any()
    there = ~narrow.is_empty
    assert_array_equal(filled.lower[there], narrow.lower[there])


def test_too_few_rows_leave_everything_in():
    with pytest.warns(cx.ConformixWarning):
        reg = fitted(scores=["abs"], alpha=0.004, n=40)
    assert np.isinf(reg.predict_interval(X[160:]).width).all()


def test_fitted_estimators_are_refused_for_folds():
    model = Ridge().fit(X, Y)
    with pytest.raises(InvalidInput, match=r"every fold trains its own"):
        cx.CrossConformalRegressor(model, prefit=True).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"^cv must be a number of folds"):
        cx.CrossConformalRegressor(cv=1).fit(X, Y)
