"""What is given to `fit` beside X and y reaches whom it concerns, row by row."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import conformix as cx

X, Y = (part[:600] for part in load_digits(return_X_y=True))
WEIGHT = np.random.default_rng(0).integers(1, 4, size=600).astype(float)


class Noting(GaussianNB):
    """Naive Bayes that notes the weights it is given."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = None if sample_weight is None else np.array(sample_weight)
        return super().fit(X, y, sample_weight)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def conformal(estimators, **options):
    return cx.ConformalClassifier(estimators, **({"random_state": 0, "alpha": 0.2} | options))


def weights_of_training_rows():
    """Return the weights of the rows that train, found through a feature that is the weight."""
    marked = conformal(Marked()).fit(np.column_stack([X, WEIGHT]), Y)
    return marked.estimators_[""].column_


class Marked(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        self.column_ = np.array(X[:, -1])
        return super().fit(X, y)


def test_without_routing_every_estimator_gets_the_weights_of_its_rows():
    clf = conformal([("a", Noting()), ("b", Noting())]).fit(X, Y, sample_weight=WEIGHT)
    for name in "ab":
        assert_array_equal(clf.estimators_[name].seen_, weights_of_training_rows())


def test_with_routing_only_who_asked_gets_them(routing):
    clf = conformal(
        [
            ("asked", Noting().set_fit_request(sample_weight=True)),
            ("not", Noting().set_fit_request(sample_weight=False)),
        ]
    ).fit(X, Y, sample_weight=WEIGHT)
    assert_array_equal(clf.estimators_["asked"].seen_, weights_of_training_rows())
    assert clf.estimators_["not"].seen_ is None


def test_with_routing_an_alias_is_followed(routing):
    asks = Noting().set_fit_request(sample_weight="importance")
    clf = conformal(asks).fit(X, Y, importance=WEIGHT)
    assert_array_equal(clf.estimators_[""].seen_, weights_of_training_rows())


def test_with_routing_what_nobody_has_spoken_for_is_refused(routing):
    with pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.*GaussianNB|Noting"):
        conformal(Noting()).fit(X, Y, sample_weight=WEIGHT)
    with pytest.raises(TypeError, match="sample_weigth"):
        conformal(Noting()).fit(X, Y, sample_weigth=WEIGHT)


def test_the_classifier_asks_for_its_own_too(routing):
    clf = conformal(Noting()).set_fit_request(groups=True, X_calibration=True, y_calibration=True)
    asked = clf.get_metadata_routing().consumes("fit", ["groups", "X_calibration", "X_test"])
    assert set(asked) == {"groups", "X_calibration"}


def test_a_grid_search_routes_weights_and_groups(routing):
    groups = np.repeat(np.arange(120), 5)
    clf = conformal(Noting().set_fit_request(sample_weight=True), split="efcp")
    search = GridSearchCV(
        clf.set_fit_request(groups=True),
        {"scores": [("thr",), ("thr", "rank")], "alpha": [0.2, 0.4]},
        scoring=cx.small_sets_scorer,
        cv=GroupKFold(2),
    ).fit(X, Y, sample_weight=WEIGHT, groups=groups)
    assert search.best_params_["alpha"] == 0.4
    best = search.best_estimator_
    assert len(best.estimators_[""].seen_) == len(X) - best.conformal_.predictor_.fitted.n
    assert best.conformal_.predictor_.fitted.n % 5 == 0


def test_weights_reach_through_pipelines_on_either_side(routing):
    asks = Noting().set_fit_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    inside = conformal(make_pipeline(scaler, asks)).fit(X, Y, sample_weight=WEIGHT)
    assert_array_equal(inside.estimators_[""][-1].seen_, weights_of_training_rows())
    at_the_end = make_pipeline(scaler, conformal(asks)).fit(X, Y, sample_weight=WEIGHT)
    assert_array_equal(at_the_end[-1].estimators_[""].seen_, weights_of_training_rows())


def test_without_routing_a_pipeline_inside_takes_parameters_by_step():
    inside = conformal(make_pipeline(StandardScaler(), Noting()))
    inside.fit(X, Y, noting__sample_weight=WEIGHT)
    assert_array_equal(inside.estimators_[""][-1].seen_, weights_of_training_rows())


def test_a_pipeline_ends_in_a_conformal_classifier():
    pipe = make_pipeline(StandardScaler(), conformal(DecisionTreeClassifier(random_state=0)))
    pipe.fit(X[:500], Y[:500])
    sets = pipe[-1].predict_set(pipe[:-1].transform(X[500:]))
    assert sets.shape == (100, 10)
    assert pipe.score(X[500:], Y[500:]) > 0.4


def test_groups_and_calibration_schemes_go_with_their_rows():
    strata = np.where(X[:, 10] > 8, "dark", "light")
    clf = conformal(GaussianNB(), calibration="group", split="efcp", calibration_share=0.5)
    clf.fit(X[:500], Y[:500], strata=strata[:500])
    sets = clf.predict_set(X[500:], strata=strata[500:])
    assert sets.shape == (100, 10)
