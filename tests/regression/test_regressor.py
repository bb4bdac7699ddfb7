"""ConformalRegressor obeys scikit-learn, learns out of fold, and its intervals keep the promise."""

import copy
import pickle
from typing import ClassVar

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import conformix as cx
from conformix.errors import InvalidInput
from conformix.regression.members import (
    MeanMember,
    QuantileMember,
    StackMember,
    level_parameter,
)

X, Y = make_friedman1(700, noise=1.0, random_state=0)
X[:, 0] = np.arange(len(X)) / len(X)  # the number of a row, to be recognised by
NEAR = KNeighborsRegressor(10)


def number(rows):
    """Return the numbers of rows, by their first feature."""
    return set(np.rint(np.asarray(rows)[:, 0] * len(X)).astype(int).tolist())


@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([cx.ConformalRegressor(Ridge(), sigma=Ridge(), random_state=0)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.long(short="test_scikit_learns_own_checks")
@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        cx.ConformalRegressor(
            [("ridge", Ridge()), ("line", LinearRegression()),
             ("q", GradientBoostingRegressor(loss="quantile", n_estimators=5, random_state=0))],
            random_state=0,
        )
    ]
)  # fmt: skip
def test_scikit_learns_own_checks_around_several_models(estimator, check):
    check(estimator)


def fitted(estimators=None, **options):
    usual = {"alpha": 0.1, "random_state": 0, "sigma": NEAR}
    members = Ridge() if estimators is None else estimators
    regressor = cx.ConformalRegressor(members, **(usual | options))
    return regressor.fit(X[:500], Y[:500])


def same(one, other):
    return np.array_equal(one.lower, other.lower) and np.array_equal(one.upper, other.upper)


def test_intervals_cover_and_predictions_are_the_estimators():
    reg = fitted()
    intervals = reg.predict_interval(X[500:])
    # 200 calibration rows leave 120 under vfcp: s.d. of the coverage about .035 on 200 rows
    assert intervals.contains(Y[500:]).mean() > 0.9 - 4.5 * 0.035
    assert_array_equal(reg.predict(X[500:]), reg.estimators_[""].estimator.predict(X[500:]))
    assert reg.evaluate(X[500:], Y[500:])["coverage"] == intervals.contains(Y[500:]).mean()
    assert reg.guarantee_.kind == "exact"
    assert reg.outputs(X[500:]).has == {"mean", "sigma"}


class Noted(RegressorMixin, BaseEstimator):
    """A line that notes the rows of every fit and of every prediction."""

    notes: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        self.line_ = LinearRegression().fit(X, y)
        self.note_ = {"fit": number(X), "predict": [], "weights": sample_weight, "X": X}
        Noted.notes.append(self.note_)
        return self

    def predict(self, X):
        self.note_["predict"].append(number(X))
        return self.line_.predict(X)


@pytest.fixture
def notes():
    Noted.notes.clear()
    return Noted.notes


@pytest.mark.parametrize("estimators", [Noted(), [Noted(), Noted()]])
def test_rows_that_train_do_not_calibrate_and_no_fold_predicts_what_trained_it(notes, estimators):
    reg = fitted(estimators, sigma=Noted())
    several = isinstance(estimators, list)
    trained = set().union(*(note["fit"] for note in notes))
    assert len(trained) == 300
    assert reg.conformal_.guarantee_.facts.n_cal + reg.conformal_.guarantee_.facts.n_tune == 200
    whole = [note for note in notes if note["fit"] == trained]
    folds = [note for note in notes if note["fit"] != trained]
    assert len(folds) == 5 * (1 + several)
    assert len(whole) == (2 if not several else 5)  # of every mean a sigma; a stack has one too
    for note in notes:
        for rows in note["predict"]:
            assert not rows & note["fit"]
    for start in range(0, len(folds), 5):
        held = [rows for note in folds[start : start + 5] for rows in note["predict"]]
        assert set().union(*held) == trained
        assert sum(map(len, held)) == len(trained)
    for note in whole:
        for rows in note["predict"]:
            assert rows == set(range(500)) - trained


def test_a_group_is_on_one_side_of_every_split(notes):
    groups = np.repeat(np.arange(100), 5)
    reg = cx.ConformalRegressor(Noted(), sigma=Noted(), random_state=0)
    reg.fit(X[:500], Y[:500], groups=groups)
    assert reg.guarantee_.facts.grouped
    for note in notes:
        for rows in (note["fit"], *note["predict"]):
            counts = np.bincount([i // 5 for i in rows], minlength=100)
            assert set(counts.tolist()) <= {0, 5}


def test_weights_of_rows_reach_the_estimators_with_their_rows(notes):
    reg = cx.ConformalRegressor(Noted(), sigma=Noted(), random_state=0)
    reg.fit(X[:500], Y[:500], sample_weight=np.arange(500.0))
    weighted = [note for note in notes if note["weights"] is not None]
    assert len(weighted) == 6
    for note in weighted:
        assert_array_equal(note["weights"], np.rint(note["X"][:, 0] * len(X)))


def test_residuals_are_out_of_fold():
    # A model that knows its training rows by heart has residuals of zero there.
    reg = fitted(KNeighborsRegressor(1), stack=False)
    typical = np.abs(Y[500:] - reg.predict(X[500:])).mean()
    assert 0.5 * typical < reg.outputs(X[500:]).sigma.mean() < 2 * typical


def test_a_stack_beside_several_means_is_what_predict_returns():
    reg = fitted([Ridge(), KNeighborsRegressor()])
    assert list(reg.estimators_) == ["ridge", "kneighborsregressor", "stack"]
    stack = reg.estimators_["stack"]
    assert isinstance(stack, StackMember)
    assert (stack.weights.coef_ >= 0).all()
    assert_array_equal(reg.predict(X[500:]), stack.predict(X[500:]))
    errors = [np.mean((Y[500:] - one.predict(X[500:])) ** 2) for one in reg.estimators_.values()]
    assert errors[-1] <= 1.05 * min(errors)
    assert {"stack.abs", "stack.norm"} <= set(reg.conformal_.score_names_)
    plain = fitted([Ridge(), KNeighborsRegressor()], stack=False)
    assert list(plain.estimators_) == ["ridge", "kneighborsregressor"]
    means = [one.predict(X[500:]) for one in plain.estimators_.values()]
    assert_array_equal(plain.predict(X[500:]), np.mean(means, axis=0))


def test_a_stack_learns_from_means_out_of_fold():
    # By its training rows alone, a model that knows them by heart would have all the weight.
    reg = fitted({"by heart": KNeighborsRegressor(1), "line": Ridge()})
    by_heart, line = reg.estimators_["stack"].weights.coef_
    assert by_heart < line


def test_no_sigma_is_below_a_tenth_of_the_mean_residual():
    reg = fitted(Ridge(), sigma=LinearRegression())
    sigma = reg.estimators_[""].sigma
    far = np.concatenate([X + 50, X - 50])
    assert sigma.estimator.predict(far).min() < 0
    assert reg.outputs(far).sigma.min() == sigma.least > 0


def test_a_model_of_the_users_may_be_called_stack():
    reg = fitted({"stack": Ridge(), "line": LinearRegression()})
    assert list(reg.estimators_) == ["stack", "line", "stack_"]


QUANTILE = {
    "boosting": (GradientBoostingRegressor(loss="quantile", n_estimators=10), "alpha"),
    "histograms": (HistGradientBoostingRegressor(loss="quantile", max_iter=10), "quantile"),
    "linear": (QuantileRegressor(alpha=0.0), "quantile"),
    "a pipeline": (
        make_pipeline(StandardScaler(), QuantileRegressor(alpha=0.0)),
        "quantileregressor__quantile",
    ),
}


@pytest.mark.parametrize("name", QUANTILE)
def test_quantile_regressors_are_recognised_and_trained_once_per_level(name):
    estimator, parameter = QUANTILE[name]
    assert level_parameter(estimator) == parameter
    reg = fitted(estimator, levels=(0.1, 0.5, 0.9))
    member = reg.estimators_[""]
    assert isinstance(member, QuantileMember)
    assert [one.get_params()[parameter] for one in member.estimators] == [0.1, 0.5, 0.9]
    outputs = reg.outputs(X[500:])
    assert outputs.has == {"quantiles"}
    below = (Y[500:, None] <= outputs.quantiles).mean(axis=0)
    assert below[0] < below[1] < below[2]
    assert reg.conformal_.score_names_ == ("cqr", "cqr_r", "cqr_m")
    middle = member.estimators[1].predict(X[500:])
    assert_array_equal(reg.predict(X[500:]), middle)


@pytest.mark.parametrize(
    "estimator",
    [Ridge(), GradientBoostingRegressor(), HistGradientBoostingRegressor(), make_pipeline(Ridge())],
)
def test_other_regressors_are_of_means(estimator):
    assert level_parameter(estimator) is None


@pytest.mark.parametrize(
    ("alpha", "levels"),
    [(0.1, [0.05, 0.2, 0.5, 0.8, 0.95]), (0.05, [0.025, 0.1, 0.5, 0.9, 0.975]),
     (0.3, [0.15, 0.5, 0.85])],
)  # fmt: skip
def test_levels_follow_alpha_unless_given(alpha, levels):
    reg = fitted(QuantileRegressor(alpha=0.0), alpha=alpha)
    np.testing.assert_allclose(reg.outputs(X[500:]).levels, levels)


class Asked(RegressorMixin, BaseEstimator):
    """A regressor whose `predict` takes levels."""

    def fit(self, X, y):
        self.y_ = np.asarray(y)
        return self

    def predict(self, X, quantiles=None):
        return np.tile(self.y_.mean() + np.asarray(quantiles), (len(X), 1))


@pytest.mark.parametrize("prefit", [False, True])
def test_a_regressor_that_takes_levels_is_asked_for_them(prefit):
    model = Asked().fit(X[:100], Y[:100])
    reg = cx.ConformalRegressor(model, levels=(0.05, 0.95), prefit=prefit, random_state=0)
    reg.fit(X[:500], Y[:500])
    member = reg.estimators_[""]
    mean = member.estimators[0].y_.mean()
    assert_array_equal(reg.outputs(X[500:]).quantiles[0], mean + np.array([0.05, 0.95]))
    assert reg.conformal_.guarantee_.facts.n_cal > 0


def test_a_model_that_tells_its_own_spread_keeps_it():
    reg = fitted(BayesianRidge())
    model = reg.estimators_[""].estimator
    assert_array_equal(reg.outputs(X[500:]).sigma, model.predict(X[500:], return_std=True)[1])


def test_already_fitted_models_calibrate_on_every_row():
    model = Ridge().fit(X[:200], Y[:200])
    for way in (
        cx.ConformalRegressor(FrozenEstimator(model)),
        cx.ConformalRegressor(model, prefit=True),
    ):
        reg = way.fit(X[200:500], Y[200:500])
        assert reg.guarantee_.facts.n_cal == 300
        assert_array_equal(reg.predict(X[500:]), model.predict(X[500:]))
        assert reg.outputs(X[500:]).has == {"mean"}
    with pytest.warns(cx.RefitWarning, match="fitted already"):
        cx.ConformalRegressor(model, random_state=0).fit(X[:300], Y[:300])


def test_calibration_rows_of_ones_own():
    reg = cx.ConformalRegressor(Ridge(), sigma=NEAR, split="efcp")
    reg.fit(X[:300], Y[:300], X_calibration=X[300:500], y_calibration=Y[300:500])
    assert reg.guarantee_.facts.n_cal == 200
    assert_array_equal(reg.predict(X[500:]), Ridge().fit(X[:300], Y[:300]).predict(X[500:]))
    assert isinstance(reg.estimators_[""], MeanMember)


def test_a_score_that_no_model_will_have_is_refused_before_any_training(notes):
    for options, sentence in (
        ({"scores": "cqr"}, "needs quantiles"),
        ({"scores": "norm", "sigma": None}, "needs sigma"),
        ({"scores": "stack.abs", "stack": False}, "stack"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            fitted([Noted(), Noted()], **options)
    assert not notes
    assert fitted([Noted(), Noted()], scores="stack.abs").conformal_.score_names_ == ("stack.abs",)


def test_without_sigma_and_stack_nothing_is_trained_twice(notes):
    reg = fitted([Noted(), Noted()], sigma=None, stack=False)
    assert len(notes) == 2
    assert reg.conformal_.score_names_ == ("noted-1.abs", "noted-2.abs")


def test_features_that_are_no_numbers_have_sigmas_by_the_estimator_itself():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"kind": np.where(X[:, 1] > 0.5, "a", "b"), "x": X[:, 2]})
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"), Ridge()
    )
    reg = cx.ConformalRegressor(model, random_state=0).fit(frame[:500], Y[:500])
    sigma = reg.estimators_[""].sigma
    assert [name for name, _ in sigma.estimator.steps] == [name for name, _ in model.steps]
    assert list(reg.predict_interval(frame[500:]).ids) == list(range(500, 700))
    numbers = cx.ConformalRegressor(Ridge(), random_state=0).fit(frame[["x"]][:200], Y[:200])
    assert type(numbers.estimators_[""].sigma.estimator).__name__ == "RandomForestRegressor"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_give_the_intervals_of_arrays(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})
    framed = cx.ConformalRegressor(Ridge(), sigma=NEAR, random_state=0)
    framed.fit(frame[:500], Y[:500])
    # Features lie in another order in memory, which moves the last bits of a line.
    ends = np.asarray(framed.predict_interval(frame[500:]))
    np.testing.assert_allclose(ends, np.asarray(fitted().predict_interval(X[500:])), rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        framed.predict_interval(frame[["x1", *(f"x{j}" for j in range(10) if j != 1)]][500:])


def test_several_levels_are_nested():
    reg = fitted()
    nested = reg.predict_interval(X[500:], alpha=[0.05, 0.2])
    for alpha in (0.05, 0.2):
        assert same(nested.at(alpha), reg.predict_interval(X[500:], alpha=alpha))


@pytest.mark.parametrize("way", [pickle, copy])
def test_a_fitted_regressor_travels(way):
    reg = fitted([Ridge(), QuantileRegressor(alpha=0.0)])
    again = copy.deepcopy(reg) if way is copy else pickle.loads(pickle.dumps(reg))
    assert same(again.predict_interval(X[500:]), reg.predict_interval(X[500:]))


def test_what_it_learnt_is_saved_and_loaded_around_its_estimators(tmp_path):
    reg = fitted([Ridge(), KNeighborsRegressor(), QuantileRegressor(alpha=0.0)])
    reg.save(tmp_path / "model.json")
    again = cx.ConformalRegressor.load(tmp_path / "model.json", reg.estimators_)
    assert same(again.predict_interval(X[500:]), reg.predict_interval(X[500:]))
    assert_array_equal(again.predict(X[500:]), reg.predict(X[500:]))
    assert again.n_features_in_ == X.shape[1]
    with pytest.raises(InvalidInput, match=r"^estimators must be called"):
        cx.ConformalRegressor.load(tmp_path / "model.json", {"ridge": reg.estimators_["ridge"]})


def test_every_setting_of_the_average_is_a_setting_of_the_regressor():
    average, own = cx.RegressionAverage().get_params(), cx.ConformalRegressor().get_params()
    assert set(average) <= set(own)
    assert {name: own[name] for name in average} == average
    assert fitted(weights=[1.0, 0.0]).conformal_.weights_.tolist() == [1.0, 0.0]


def test_grid_search_over_alpha_and_the_estimators_options():
    reg = cx.ConformalRegressor([("ridge", Ridge())], sigma=None, random_state=0)
    search = GridSearchCV(reg, {"alpha": [0.1, 0.2], "ridge__alpha": [0.1, 1e6]}, cv=2)
    search.fit(X[:400], Y[:400])
    assert search.best_params_["ridge__alpha"] == 0.1
    assert clone(search.best_estimator_).estimators[0][1].alpha == 0.1


def test_jobs_at_the_same_time_give_the_intervals_of_one_after_the_other():
    estimators = [Ridge(), KNeighborsRegressor()]
    one = fitted(estimators)
    with joblib.parallel_config("threading"):
        two = fitted(estimators, n_jobs=2)
    assert same(one.predict_interval(X[500:]), two.predict_interval(X[500:]))


def test_thresholds_per_group_and_weights_of_calibration_rows():
    strata = (X[:, 3] > 0.5).astype(int)
    reg = cx.ConformalRegressor(Ridge(), sigma=None, calibration="group", random_state=0)
    reg.fit(X[:500], Y[:500], strata=strata[:500])
    assert len(reg.predict_interval(X[500:], strata=strata[500:])) == 200
    assert "group" in reg.guarantee_.statement
    ratios = np.where(strata, 2.0, 0.5)
    reg = cx.ConformalRegressor(Ridge(), sigma=None, calibration="weighted", random_state=0)
    reg.fit(X[:500], Y[:500], calibration_weight=ratios[:500])
    assert len(reg.predict_interval(X[500:], sample_weight=ratios[500:])) == 200


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: cx.ConformalRegressor([]).fit(X, Y), r"^estimators must hold at least one \(name, "
         r"regressor\)"),
        (lambda: cx.ConformalRegressor().fit(X[:2], Y[:2]), r"ConformalRegressor needs at least 4"),
        (lambda: cx.ConformalRegressor(cv=1).fit(X, Y), r"^cv must be a number of folds"),
        (lambda: cx.ConformalRegressor(levels=[0.1]).fit(X, Y), r"^levels must be at least two"),
        (lambda: cx.ConformalRegressor(scores="density").fit(X, Y), r"not convex"),
        (lambda: cx.ConformalRegressor(estimator=Ridge()), r"say estimators"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(act, sentence):
    with pytest.raises((InvalidInput, TypeError), match=sentence):
        act()


def quantile(level):
    return QuantileRegressor(quantile=level, alpha=0.0).fit(X[:200], Y[:200])


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda one: {"estimators": one, "prefit": True},
        lambda one: {"estimators": FrozenEstimator(one)},
        lambda one: {"estimators": [("upper", FrozenEstimator(one)), ("line", Ridge())]},
        lambda one: {"estimators": make_pipeline(StandardScaler(), one).fit(X[:200], Y[:200]),
                     "prefit": True},
    ],
    ids=["prefit", "frozen", "frozen beside one that trains", "pipeline"],
)  # fmt: skip
def test_a_fitted_model_of_one_quantile_is_no_mean(wrapped):
    reg = cx.ConformalRegressor(**wrapped(quantile(0.9)), random_state=0)
    with pytest.raises(InvalidInput) as refused:
        reg.fit(X[200:], Y[200:])
    told = str(refused.value)
    assert "is fitted for one quantile, at 0.9, which is neither a mean nor a median" in told
    assert "QuantileMember((low, high), (0.05, 0.95))" in told
    assert told.startswith(("QuantileRegressor", "FrozenEstimator", "Pipeline", "upper"))


def test_a_fitted_median_stands_for_a_mean_and_two_quantiles_for_themselves():
    median = cx.ConformalRegressor(quantile(0.5), prefit=True, random_state=0)
    median.fit(X[200:], Y[200:])
    assert median.conformal_.score_names_ == ("abs",)
    assert_array_equal(median.outputs(X[:9]).mean, quantile(0.5).predict(X[:9]))
    pair = QuantileMember((quantile(0.05), quantile(0.95)), (0.05, 0.95))
    both = cx.ConformalRegressor(pair, prefit=True, random_state=0).fit(X[200:], Y[200:])
    assert both.conformal_.score_names_ == ("cqr", "cqr_r")
    told = both.explain(X[:9], 3)
    assert (told.lower, told.upper) == both.predict_interval(X[:9])[3]


def test_a_regressor_is_explained_reported_and_taken_apart_like_its_average(tmp_path):
    reg = cx.ConformalRegressor([Ridge(), KNeighborsRegressor()], sigma=NEAR, random_state=0)
    reg.fit(X[:500], Y[:500])
    outputs, y = reg.outputs(X[500:]), Y[500:]
    assert reg.explain(X[500:], 7, y=y).sentence == reg.conformal_.explain(outputs, 7, y=y).sentence
    assert reg.contributions(X[500:], y) == reg.conformal_.contributions(outputs, y)
    page = reg.report(X[500:], y, alphas=[]).save(tmp_path / "page.html")
    assert page.read_text() == reg.conformal_.report(outputs, y, alphas=[]).html()
