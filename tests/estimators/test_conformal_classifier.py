"""ConformalClassifier obeys scikit-learn, and its sets keep the promise."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import conformix as cx
from conformix.errors import InvalidInput

X, Y = load_digits(return_X_y=True)
NAMES = np.array([f"digit {y}" for y in range(10)])


@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([cx.ConformalClassifier(LogisticRegression(), random_state=0)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.long(short="test_scikit_learns_own_checks")
@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        cx.ConformalClassifier(
            [("lr", LogisticRegression()), ("tree", DecisionTreeClassifier(random_state=0))],
            random_state=0,
        )
    ]
)
def test_scikit_learns_own_checks_around_several_models(estimator, check):
    check(estimator)


def fitted(estimators=None, **options):
    usual = {"alpha": 0.1, "random_state": 0}
    return cx.ConformalClassifier(estimators or GaussianNB(), **(usual | options)).fit(
        X[:1200], Y[:1200]
    )


def test_sets_cover_and_predictions_are_the_estimators():
    clf = fitted()
    sets = clf.predict_set(X[1200:])
    # 360 calibration rows under VFCP leave 180: s.d. of the coverage about .026
    assert cx.metrics.coverage(sets, Y[1200:]) > 0.9 - 4.5 * 0.026
    assert_array_equal(clf.predict(X[1200:]), clf.estimators_[""].predict(X[1200:]))
    assert_array_equal(clf.predict_pvalues(X[1200:1210]) > 0.1, clf.predict_set(X[1200:1210]).mask)


def test_text_labels_name_the_sets():
    clf = cx.ConformalClassifier(GaussianNB(), alpha=0.1, random_state=0).fit(
        X[:1200], NAMES[Y[:1200]]
    )
    assert_array_equal(clf.classes_, np.unique(NAMES))
    assert set(clf.predict_set(X[1200:1201]).labels(0)) <= set(NAMES)
    assert set(clf.predict(X[1200:])) <= set(NAMES)


def test_already_fitted_models_calibrate_on_every_row():
    model = GaussianNB().fit(X[:700], Y[:700])
    clf = cx.ConformalClassifier(FrozenEstimator(model), split="efcp").fit(X[700:1200], Y[700:1200])
    assert clf.conformal_.predictor_.fitted.n == 500
    assert_array_equal(clf.predict(X[1200:]), model.predict(X[1200:]))


def test_calibration_rows_of_ones_own():
    clf = cx.ConformalClassifier(GaussianNB(), split="efcp")
    clf.fit(X[:700], Y[:700], X_calibration=X[700:1200], y_calibration=Y[700:1200])
    assert clf.conformal_.predictor_.fitted.n == 500
    same = GaussianNB().fit(X[:700], Y[:700])
    assert_array_equal(clf.predict_proba(X[1200:]), same.predict_proba(X[1200:]))


def test_a_class_that_the_model_never_saw_gets_probability_zero_and_can_still_be_covered():
    model = GaussianNB().fit(X[:700][Y[:700] < 9], Y[:700][Y[:700] < 9])
    clf = cx.ConformalClassifier(FrozenEstimator(model), split="efcp").fit(X[700:1200], Y[700:1200])
    assert len(clf.classes_) == 10
    assert (clf.predict_proba(X[1200:])[:, 9] == 0).all()


def test_a_classifier_without_probabilities_is_taken_by_its_decisions():
    clf = fitted(make_pipeline(StandardScaler(), LinearSVC(random_state=0)))
    assert cx.metrics.coverage(clf.predict_set(X[1200:]), Y[1200:]) > 0.78
    two = cx.ConformalClassifier(LinearSVC(random_state=0), random_state=0).fit(
        X[:600], Y[:600] > 4
    )
    assert two.predict_proba(X[600:]).shape[1] == 2


def test_grid_search_over_alpha_scores_and_the_estimators_options():
    clf = cx.ConformalClassifier([("tree", DecisionTreeClassifier(random_state=0))], random_state=0)
    search = GridSearchCV(
        clf,
        {"alpha": [0.1, 0.3], "scores": [("thr",), ("thr", "rank")], "tree__max_depth": [3, 6]},
        scoring=cx.small_sets_scorer,
        cv=2,
    ).fit(X[:500], Y[:500])
    assert search.best_params_["alpha"] == 0.3
    assert search.best_estimator_.estimators_["tree"].max_depth in (3, 6)


def test_grid_search_over_the_split():
    search = GridSearchCV(
        cx.ConformalClassifier(GaussianNB(), alpha=0.1, random_state=0),
        {"split": ["vfcp", "efcp", "exact"], "scores": [("thr", "rank")]},
        scoring=cx.small_sets_scorer,
        cv=2,
    ).fit(X[:400], Y[:400])
    assert len(search.cv_results_["mean_test_score"]) == 3
    assert (search.cv_results_["mean_test_score"] < 0).all()


def test_several_levels_at_once_are_nested_and_named():
    clf = cx.ConformalClassifier(GaussianNB(), alpha=0.1, random_state=0).fit(
        X[:1200], NAMES[Y[:1200]]
    )
    nested = clf.predict_set(X[1200:], alpha=[0.05, 0.2])
    for alpha in (0.05, 0.2):
        assert nested.at(alpha).members() == clf.predict_set(X[1200:], alpha=alpha).members()


@pytest.mark.parametrize("way", [pickle, joblib, copy])
def test_a_fitted_classifier_travels(way, tmp_path):
    clf = fitted()
    if way is joblib:
        joblib.dump(clf, tmp_path / "clf.joblib")
        again = joblib.load(tmp_path / "clf.joblib")
    else:
        again = copy.deepcopy(clf) if way is copy else pickle.loads(pickle.dumps(clf))
    assert again.predict_set(X[1200:]).members() == clf.predict_set(X[1200:]).members()


def test_what_it_learnt_can_be_saved_and_served_without_it(tmp_path):
    clf = cx.ConformalClassifier(GaussianNB(), alpha=0.1, random_state=0).fit(
        X[:1200], NAMES[Y[:1200]]
    )
    clf.conformal_.save(tmp_path / "model.json")
    served = cx.load_predictor(tmp_path / "model.json")
    sets = served.predict_set(clf.predict_proba(X[1200:]))
    assert sets.members() == clf.predict_set(X[1200:]).members()


def test_every_setting_of_the_average_is_a_setting_of_the_classifier():
    missing = set(cx.ScoreAverage().get_params()) - set(cx.ConformalClassifier().get_params())
    assert missing == {"kind", "renormalize"}  # it makes probabilities itself
    assert fitted(weights=[1.0, 0.0, 0.0]).conformal_.weights_.tolist() == [1.0, 0.0, 0.0]


def test_clone_keeps_the_settings_and_forgets_the_fit():
    copy = clone(fitted(alpha=0.3, split="exact"))
    assert (copy.alpha, copy.split) == (0.3, "exact")
    assert not hasattr(copy, "conformal_")


def as_frame(library, rows, labels):
    """Return features as a frame and labels, as text, as a series of pandas or polars."""
    frames = pytest.importorskip(library)
    table = {f"x{j}": rows[:, j] for j in range(rows.shape[1])}
    return frames.DataFrame(table), frames.Series("y", labels) if library == "polars" else (
        frames.Series(labels, name="y")
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_and_series_in_give_the_sets_of_arrays(library):
    frame, labels = as_frame(library, X[:900], NAMES[Y[:900]])
    plain = cx.ConformalClassifier(GaussianNB(), alpha=0.1, random_state=0)
    framed = clone(plain).fit(frame[:600], labels[:600])
    plain.fit(X[:600], NAMES[Y[:600]])
    assert_array_equal(framed.feature_names_in_, [f"x{j}" for j in range(64)])
    assert_array_equal(framed.classes_, plain.classes_)
    sets = framed.predict_set(frame[600:])
    assert sets.members() == plain.predict_set(X[600:900]).members()
    assert cx.metrics.coverage(sets, labels[600:]) > 0.75
    assert_array_equal(framed.predict(frame[600:]), plain.predict(X[600:900]))
    own = clone(plain).fit(
        frame[:400], labels[:400], X_calibration=frame[400:600], y_calibration=labels[400:600]
    )
    assert own.predict_set(frame[600:]).shape == (300, 10)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_columns_are_refused(library):
    frame, labels = as_frame(library, X[:300], NAMES[Y[:300]])
    clf = cx.ConformalClassifier(GaussianNB(), alpha=0.3, random_state=0).fit(frame, labels)
    other = frame.rename(columns={"x0": "z"}) if library == "pandas" else frame.rename({"x0": "z"})
    with pytest.raises(ValueError, match="feature names"):
        clf.predict_set(other)


def test_groups_stay_on_one_side():
    groups = np.repeat(np.arange(120), 10)
    clf = cx.ConformalClassifier(GaussianNB(), random_state=0, split="efcp")
    clf.fit(X[:1200], Y[:1200], groups=groups)
    assert clf.conformal_.predictor_.fitted.n % 10 == 0


def test_the_html_picture_and_the_repr_work():
    clf = fitted()
    assert "ConformalClassifier" in clf._repr_html_()
    assert "GaussianNB" in repr(clf)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda: cx.ConformalClassifier(estimators=[]).fit(X, Y),
            r"^estimators must hold at least",
        ),
        (lambda: cx.ConformalClassifier().fit(X[:2], Y[:2]), r"needs at least 4 samples to train"),
        (lambda: cx.ConformalClassifier().fit(X[0], Y[:64]), r"^X must have shape \(n, p\); got"),
    ],
)
def test_bad_input_is_refused(act, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        act()
