"""The guarantee speaks of labels among the classes: which are named, or met in fit and so too few.

Labels follow Zipf's law over 400 classes: whatever rows are drawn, a share of the next labels has
not been met. With all classes named, unmet ones have probability 0, a score like any other.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import conformix as cx
from conformix.errors import InvalidInput

pytestmark = [
    pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

K, Z = 400, 4.5
ALL = np.arange(K)
SHARES = 1 / (1.0 + ALL)
SHARES /= SHARES.sum()
PLACES = np.random.default_rng(0).normal(size=(K, 2)) * 4
UNMET = "classes_ are those met in fit, a label first met later is in no set (see classes=)"


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.choice(K, size=n, p=SHARES)
    return PLACES[y] + rng.normal(size=(n, 2)), y


class Nearby(GaussianNB):
    """Naive Bayes whose classes share one width, so that a class of one row is no needle."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.var_[:] = 1.0
        return self


def coverage(draws: int, n: int, make, m: int = 20) -> tuple[float, float, cx.ConformalClassifier]:
    """Mean coverage over draws of everything, its standard error, and the last classifier."""
    found = []
    for draw in range(draws):
        rng = np.random.default_rng([draw, 4])
        clf = make(draw).fit(*rows(rng, n))
        X, y = rows(rng, m)
        sets = clf.predict_set(X)
        inside = np.zeros(m, dtype=bool)
        place = {label: column for column, label in enumerate(clf.classes_.tolist())}
        for i, label in enumerate(y.tolist()):
            inside[i] = label in place and sets.mask[i, place[label]]
        found.append(inside.mean())
    return float(np.mean(found)), float(np.std(found) / np.sqrt(draws)), clf


def classifier(draw: int, **options: object) -> cx.ConformalClassifier:
    usual = {"alpha": 0.3, "random_state": draw, "threads": 1}
    return cx.ConformalClassifier(Nearby(), **(usual | options))


def test_sixty_rows_at_95_per_cent_cover_with_all_classes_named_and_not_without() -> None:
    short, error, clf = coverage(40, 60, lambda draw: classifier(draw, alpha=0.05))
    assert short + Z * error < 0.95
    assert clf.guarantee_.kind == "exact"
    assert clf.guarantee_.assumption.endswith(f"; every label among the classes; {UNMET}")
    named, error, clf = coverage(40, 60, lambda draw: classifier(draw, alpha=0.05, classes=ALL))
    assert named >= 0.95 - Z * error
    assert clf.guarantee_.assumption.endswith("; every label among the classes")


@pytest.mark.parametrize(
    "options",
    [
        {"scores": "thr", "weights": [1.0]},
        {"scores": ("thr", "aps", "rank")},
        {"scores": ("logp", "margin", "saps"), "split": "exact", "search": np.eye(3)},
        {"scores": "auto"},
        {"scores": "thr", "weights": [1.0], "calibration": "class"},
        {"scores": ("aps(randomized=True)",), "weights": [1.0], "allow_empty": False},
    ],
    ids=lambda options: f"{options['scores']}, {options.get('calibration', 'marginal')}",
)
def test_named_classes_are_covered_at_the_promised_level_whatever_is_scored(options: dict) -> None:
    found, error, clf = coverage(15, 150, lambda draw: classifier(draw, classes=ALL, **options))
    assert found >= 0.7 - Z * error
    assert clf.guarantee_.kind == "exact"
    assert len(clf.classes_) == K


def test_sets_over_named_classes_need_not_hold_everything() -> None:
    clf = classifier(0, classes=ALL, scores="thr", weights=[1.0])
    clf.fit(*rows(np.random.default_rng(0), 400))
    assert 0 < clf.predict_set(rows(np.random.default_rng(1), 50)[0]).sizes.mean() < 20


def test_cross_conformal_sets_cover_labels_that_no_fold_model_was_trained_on() -> None:
    def cross(draw: int, **options: object) -> cx.CrossConformalClassifier:
        return cx.CrossConformalClassifier(
            Nearby(),
            cv=4,
            alpha=0.1,
            scores=("thr", "aps"),
            random_state=draw,
            threads=1,
            **options,
        )

    found, error, clf = coverage(15, 60, lambda draw: cross(draw, classes=ALL))
    promised = float(clf.guarantee_.statement.rpartition(" ")[2])
    assert found >= promised - Z * error
    assert clf.guarantee_.assumption.endswith("order of rows; every label among the classes")
    assert clf.predict_proba(rows(np.random.default_rng(0), 3)[0]).shape == (3, K)
    without = cross(0).fit(*rows(np.random.default_rng(0), 60))
    assert without.guarantee_.assumption.endswith(f"; every label among the classes; {UNMET}")


def test_columns_of_classes_that_were_not_trained_on_are_zero_and_never_predicted() -> None:
    X, y = rows(np.random.default_rng(0), 120)
    clf = classifier(0, classes=ALL[::-1]).fit(X, y)
    assert_array_equal(clf.classes_, ALL)
    probabilities = clf.predict_proba(X)
    trained = np.isin(ALL, clf.estimators_[""].classes_)
    assert probabilities.shape == (120, K)
    assert (probabilities[:, ~trained] == 0).all()
    assert np.isin(clf.predict(X), ALL[trained]).all()
    assert clf.predict_pvalues(X).shape == (120, K)
    # Labels of one score have one p-value: those without a model are in together or out together.
    unmet = clf.predict_set(X).mask[:, ~trained]
    assert_array_equal(unmet.all(axis=1), unmet.any(axis=1))


def test_a_class_without_calibration_rows_is_always_in_given_its_class() -> None:
    X, y = rows(np.random.default_rng(0), 300)
    clf = classifier(0, classes=ALL, calibration="class", scores="thr", weights=[1.0]).fit(X, y)
    assert clf.predict_set(X).mask[:, ~np.isin(ALL, y)].all()


@pytest.mark.parametrize("dtype", [np.int64, float, str, object])
def test_names_may_be_numbers_or_text_and_come_out_as_those_of_y(dtype: type) -> None:
    X, y = rows(np.random.default_rng(0), 120)
    y = np.minimum(y, 6)
    named = np.array([f"class {c}" for c in y], dtype=dtype) if dtype in (str, object) else y
    every = [f"class {c}" for c in range(9)] if dtype in (str, object) else list(range(9))
    clf = classifier(0, classes=every).fit(X, named.astype(dtype))
    assert clf.classes_.tolist() == every
    assert clf.predict(X).dtype.kind == np.dtype(dtype).kind
    assert set(clf.predict_set(X[:5]).labels(0)) <= set(every)


def test_a_fitted_estimator_brings_its_classes() -> None:
    X, y = rows(np.random.default_rng(0), 300)
    model = FrozenEstimator(Nearby().fit(X[:200], y[:200]))
    clf = cx.ConformalClassifier(model, classes=ALL, random_state=0).fit(X[200:], y[200:])
    assert len(clf.classes_) == K
    few = np.unique(y[200:])
    with pytest.raises(InvalidInput, match=r"^classes must hold every label of y and of fitted "):
        cx.ConformalClassifier(model, classes=few, random_state=0).fit(X[200:], y[200:])


def test_calibration_rows_of_ones_own_may_hold_labels_that_were_not_trained_on() -> None:
    X, y = rows(np.random.default_rng(0), 300)
    clf = classifier(0, classes=ALL).fit(X[:60], y[:60], X_calibration=X[60:], y_calibration=y[60:])
    assert len(np.setdiff1d(y[60:], y[:60])) > 5
    assert np.isfinite(clf.predict_pvalues(X)).all()


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (5, r"^classes must be a sequence of labels; got 5\.$"),
        ("abc", r"^classes must be a sequence of labels; got 'abc'\.$"),
        (
            [0, 1, 2],
            r"^classes must hold every label of y and of fitted estimators; 3 is missing\.$",
        ),
        ([0, 1, 1, 2, 3], r"^classes must be distinct; got 1 of them twice\.$"),
        (["0", "1", "2", "3"], r"^classes must be one sequence of numbers, like y; got \['0'"),
        ([[0, 1, 2, 3]], r"^classes must be one sequence of numbers, like y; got \[\[0"),
        (
            [0, 1, 2, 3, np.nan],
            r"^classes must be finite where they are numbers; got NaN or inf\.$",
        ),
    ],
)
@pytest.mark.parametrize("kind", [cx.ConformalClassifier, cx.CrossConformalClassifier])
def test_classes_that_cannot_be_are_refused(kind: type, classes: object, sentence: str) -> None:
    X, y = np.arange(40.0)[:, None], np.arange(40) % 4
    with pytest.raises(InvalidInput, match=sentence):
        kind(GaussianNB(), classes=classes).fit(X, y)


def test_the_classes_are_a_parameter_like_any_other() -> None:
    clf = clone(classifier(0, classes=[3, 1, 2]))
    assert clf.classes == [3, 1, 2]
    assert clone(clf.set_params(classes=None)).classes is None


def test_labels_that_no_set_can_hold_are_refused_where_coverage_is_measured() -> None:
    X, y = rows(np.random.default_rng(0), 300)
    clf = classifier(0).fit(X[:100], y[:100])
    sets = clf.predict_set(X[100:])
    first = int(np.flatnonzero(~np.isin(y[100:], clf.classes_))[0])
    sentence = (
        rf"row {first} holds {y[100 + first]}, which no set can hold: name it among the classes in "
        r"fit, or count the row as missed\.$"
    )
    for measure in (cx.metrics.coverage, cx.metrics.evaluate, cx.metrics.covered):
        with pytest.raises(InvalidInput, match=sentence):
            measure(sets, y[100:])
    with pytest.raises(InvalidInput, match=r"which no set can hold"):
        clf.conformal_.recalibrate(clf.predict_proba(X[100:]), y[100:])
    named = classifier(0, classes=ALL).fit(X[:100], y[:100])
    assert 0 < cx.metrics.coverage(named.predict_set(X[100:]), y[100:]) <= 1


def test_every_ledger_assumes_labels_among_the_classes() -> None:
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    for split in ("vfcp", "efcp", "dlcp", "dlcp+", "exact"):
        for guarantee in ("marginal", "pac") if split != "exact" else ("marginal",):
            cp = cx.ScoreAverage(
                split=split, search=np.eye(3), guarantee=guarantee, normalize="none"
            )
            told = cp.fit(probs, y, test=probs).guarantee_
            assert "every label among the classes" in told.assumption
    online = cx.OnlineAverage(window=20)
    online.run(probs, y)
    assert online.guarantee_.assumption.endswith("; every label among the classes")
