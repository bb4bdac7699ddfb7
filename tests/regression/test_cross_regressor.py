"""CrossConformalRegressor: a response is in by its rank among the rows of all folds."""

import copy
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import conformix as cx
from conformix.errors import InvalidInput
from conformix.fit.cross import cell_coverage, cross_coverage
from conformix.regression.bands import bands
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


STRATA = np.where(np.arange(260) % 3, "often", "seldom")


def test_several_levels_are_nested_and_those_of_each_alone():
    reg = fitted(alpha=0.1)
    levels = [0.4, 0.05, 0.1]
    nested = reg.predict_interval(X[160:], alpha=levels)
    assert nested.alphas == (0.05, 0.1, 0.4)
    for level in levels:
        alone = reg.predict_interval(X[160:], alpha=level)
        assert_array_equal(np.asarray(nested.at(level)), np.asarray(alone))
    with pytest.raises(InvalidInput, match=r"^alpha must hold at least one level"):
        reg.predict_interval(X[160:], alpha=[])


def test_points_instead_of_empty_intervals_lie_within_those_of_smaller_levels():
    reg = fitted(alpha=0.1, allow_empty=False)
    nested = reg.predict_interval(X[160:], alpha=[0.5, 0.9, 0.95])
    wide, *rest = (nested.at(level) for level in nested.alphas)
    empty = fitted(alpha=0.1).predict_interval(X[160:], alpha=0.95).is_empty
    assert empty.any()
    for narrow in rest:
        assert not narrow.is_empty.any()
        assert (wide.lower <= narrow.lower).all()
        assert (narrow.upper <= wide.upper).all()
        wide = narrow
    assert (nested.at(0.95).width[empty] == 0).all()


def grouped(**options):
    usual = {"alpha": 0.2, "random_state": 0, "sigma": NEAR, "cv": 3, "inner_cv": 2}
    reg = cx.CrossConformalRegressor(Ridge(), calibration="group", **(usual | options))
    return reg.fit(X[:160], Y[:160], strata=STRATA[:160])


def test_within_a_group_a_response_is_ranked_among_its_rows_alone():
    reg = grouped()
    together = reg.predict_interval(X[160:], strata=STRATA[160:])
    for group in ("often", "seldom"):
        new = STRATA[160:] == group
        folds = [fold.scores[fold.data.strata == group] for fold in reg.cross_.folds]
        n = sum(map(len, folds))
        assert n == (STRATA[:160] == group).sum()
        enough = n - cx.conformal_rank(n, 0.2) + 1  # of n intervals; alpha (n + 1), rounded down
        ends = [[], []]
        for fold, scores, members in zip(reg.cross_.folds, folds, reg.fold_estimators_,
                                         strict=True):  # fmt: skip
            outputs = fold.predictor.check(reg._by_name(X[160:], members))
            planes = fold.rule.transform(outputs.rows(np.flatnonzero(new)))
            for side, values in zip(ends, bands(planes, fold.rule.weights, scores[:, None]),
                                    strict=True):  # fmt: skip
                side.append(values)
        lower, upper = held_by(*(np.concatenate(side) for side in ends), enough)
        assert_array_equal(together.lower[new], lower)
        assert_array_equal(together.upper[new], upper)


def test_rows_of_a_fold_keep_their_groups():
    reg = grouped()
    for fold, members in zip(reg.cross_.folds, reg.fold_estimators_, strict=True):
        planes = fold.rule.transform(fold.predictor.check(reg._by_name(X[:160], members)))
        every = planes.combined(fold.rule.weights, Y[:160])
        off = np.abs(every[:, None] - fold.scores)
        assert (off.min(axis=0) < 1e-9).all()
        assert_array_equal(STRATA[off.argmin(axis=0)], fold.data.strata)


def test_the_proven_share_is_that_of_the_group_of_which_least_is_proven():
    reg = grouped()
    shares = [
        cell_coverage(0.2, [int((fold.data.strata == group).sum()) for fold in reg.cross_.folds])
        for group in ("often", "seldom")
    ]
    assert reg.guarantee_.statement == (
        f"P(y in set | group of the row) >= {np.floor(1e4 * min(shares)) / 1e4:.4f}"
    )
    assert "classes" not in reg.guarantee_.assumption
    told = reg.evaluate(X[160:], Y[160:], strata=STRATA[160:])
    made = reg.predict_interval(X[160:], strata=STRATA[160:])
    assert told["coverage"] == made.contains(Y[160:]).mean()
    new = np.full(100, "never seen")
    assert np.isinf(reg.predict_interval(X[160:], strata=new).width).all()
    with pytest.raises(InvalidInput, match='calibration "group" needs strata'):
        reg.predict_interval(X[160:])


@pytest.mark.parametrize(
    ("calibration", "sentence"),
    [
        ("bins", "would lay down other cells in each: no response would be ranked among the same "
                 "rows; give bins that are known beforehand as strata"),
        ("weighted", "what is proven of folds is a mean of their p-values by numbers of rows"),
        ("class", "did you mean 'group'"),
    ],
)  # fmt: skip
def test_calibrations_that_folds_cannot_hold_are_refused_before_training(calibration, sentence):
    reg = cx.CrossConformalRegressor(Untrainable(), calibration=calibration)
    with pytest.raises(InvalidInput) as refused:
        reg.fit(X, Y, strata=STRATA)
    assert sentence in str(refused.value)


class Untrainable(Ridge):
    def fit(self, *rows, **options):
        raise AssertionError


KINDS = {
    "several": {"estimators": [Ridge(), QuantileRegressor(alpha=0.0)]},
    "one": {"estimators": Ridge(), "scores": "norm", "y_range": (-10.0, 50.0)},
    "points": {"estimators": Ridge(), "weights": [0.5, 0.5], "allow_empty": False},
    "groups": {"estimators": Ridge(), "calibration": "group"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_regressor_predicts_what_the_saved_one_did(kind, tmp_path):
    usual = {"alpha": 0.2, "random_state": 0, "sigma": NEAR, "cv": 3, "inner_cv": 2}
    rows = {"strata": STRATA[:160]} if kind == "groups" else {}
    reg = cx.CrossConformalRegressor(**(usual | KINDS[kind])).fit(X[:160], Y[:160], **rows)
    reg.save(tmp_path / "model.json")
    again = cx.CrossConformalRegressor.load(tmp_path / "model.json", reg.fold_estimators_)
    new = {"strata": STRATA[160:]} if rows else {}
    for alpha in (None, 0.05, [0.1, 0.3]):
        made, loaded = (one.predict_interval(X[160:], alpha=alpha, **new) for one in (reg, again))
        assert_array_equal(np.asarray(loaded), np.asarray(made))
    assert again.guarantee_ == reg.guarantee_
    assert_array_equal(again.predict(X[160:]), reg.predict(X[160:]))
    again.save(tmp_path / "again.json")
    first, second = ((tmp_path / f"{name}.json").read_text() for name in ("model", "again"))
    assert first == second


def test_files_of_folds_that_do_not_fit_are_refused(tmp_path):
    reg = fitted(Ridge(), scores="abs", sigma=None)
    path = tmp_path / "model.json"
    reg.save(path)
    load = cx.CrossConformalRegressor.load
    with pytest.raises(InvalidInput, match=r"^estimators must be those of the 4 folds; got 3"):
        load(path, reg.fold_estimators_[:3])
    with pytest.raises(InvalidInput, match=r"^estimators must be called '', as in the saved"):
        load(path, [{"other": one[""]} for one in reg.fold_estimators_])
    with pytest.raises(InvalidInput, match=r"conformix\.CrossConformalRegressor\.load reads it"):
        cx.load(path)
    whole = json.loads(path.read_text())
    for change, sentence in (
        (lambda one: one["cross"]["folds"].pop() and one["cross"].update(folds=[]), "fewer than"),
        (lambda one: one["cross"].update(alpha=0.3), "params.alpha"),
        (lambda one: one["cross"]["folds"][0]["calibration"]["data"].reverse(), "does not rise"),
        (lambda one: one["params"].update(allow_empty=False), "params.allow_empty"),
        (lambda one: one["cross"]["folds"][1].update(more=1), "'more'"),
        (lambda one: one["cross"]["folds"][0]["predictor"].update(key=-1), "key is out of range"),
        (lambda one: one["cross"]["folds"][2]["predictor"]["fitted"]["facts"].update(n_cal=500),
         "n_cal"),
    ):  # fmt: skip
        document = copy.deepcopy(whole)
        change(document)
        path.write_text(json.dumps(document))
        with pytest.raises(InvalidInput, match=sentence):
            load(path, reg.fold_estimators_)
    reg.set_params(alpha=0.3)
    with pytest.raises(InvalidInput, match="changed after fit"):
        reg.save(path)


def test_folds_say_why_they_have_no_report_and_no_explanation():
    reg = fitted(Ridge(), scores=["abs", "norm"])
    with pytest.raises(InvalidInput, match="folds have weights of their own, no common threshold"):
        reg.report(X[160:], Y[160:])
    with pytest.raises(InvalidInput, match="no scores of one average set its ends"):
        reg.explain(X[160:])
    told = {one.name: one for one in reg.contributions(X[160:], Y[160:])}
    weights = np.mean([fold.rule.weights for fold in reg.cross_.folds], axis=0)
    assert told["abs"].weight == pytest.approx(weights[0])


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
