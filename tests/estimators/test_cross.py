"""Cross-conformal sets: the rule by hand, the proven coverage, and the tournament behind it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from calibration.rows import Z, covered, softmax
from conformix.errors import InvalidInput
from conformix.estimators.cross import CrossAverage, Fold, cross_coverage
from conformix.search import GridSearch

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")


def blobs(rng: np.random.Generator, n: int, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(n_classes, size=n)
    return np.eye(n_classes)[y] * 1.5 + rng.normal(size=(n, n_classes)), y


def centroid_model(X: np.ndarray, y: np.ndarray, n_classes: int = 3):
    """A classifier by distance to class means: a symmetric function of its rows."""
    centres = np.array([
        X[y == c].mean(axis=0) if (y == c).any() else np.full(X.shape[1], 9.0)
        for c in range(n_classes)
    ])  # fmt: skip
    return lambda Z: softmax(-((Z[:, None, :] - centres[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.35])
def test_jackknife_plus_covers_a_share_of_one_minus_two_alpha_of_every_bag(alpha: float) -> None:
    """The tournament: of any n+1 rows, fewer than 2 alpha (n+1) can lose to most of the others."""
    n = 11
    for seed in range(6):
        X, y = blobs(np.random.default_rng(seed), n + 1)
        hits = 0
        for i in range(n + 1):
            others = [j for j in range(n + 1) if j != i]
            folds, said = [], []
            for j in others:
                rest = [r for r in others if r != j]
                model = centroid_model(X[rest], y[rest])
                folds.append(Fold(model(X[j : j + 1]), y[j : j + 1]))
                said.append(model(X[i : i + 1]))
            cross = cx.CrossAverage(("thr", "aps"), weights=[0.6, 0.4], alpha=alpha).fit(folds)
            hits += bool(np.asarray(cross.predict_set(said))[0, y[i]])
        assert hits >= (1 - 2 * Fraction(str(alpha))) * (n + 1)


def fold_problem(seed: int, n_folds: int, size: int) -> tuple:
    """Folds with their models, tuned on rows outside the fold that trained nothing."""
    rng = np.random.default_rng(seed)
    X, y = blobs(rng, n_folds * size + 60)
    new, y_new = X[-60:], y[-60:]
    folds, models = [], []
    for f in range(n_folds):
        held = np.arange(f * size, (f + 1) * size)
        rest = np.setdiff1d(np.arange(n_folds * size), held)
        tune, train = rest[: len(rest) // 3], rest[len(rest) // 3 :]
        model = centroid_model(X[train], y[train])
        models.append(model)
        folds.append(Fold(model(X[held]), y[held], model(X[tune]), y[tune]))
    return folds, [model(new) for model in models], y_new


def test_the_set_is_the_published_rule() -> None:
    folds, said, _ = fold_problem(0, 4, 15)
    alpha = Fraction(1, 5)
    cross = cx.CrossAverage(("thr", "aps", "rank"), alpha=0.2, search=GridSearch(5)).fit(folds)
    above = np.zeros((60, 3), dtype=int)
    for f, fold in enumerate(folds):
        rule = cross.rules_[f]
        own = rule.combined(cx.score_tensor(fold.outputs))[np.arange(15), fold.y]
        candidates = rule.combined(cx.score_tensor(said[f]))
        above += (own[:, None, None] > candidates[None]).sum(axis=0)
    assert_array_equal(np.asarray(cross.predict_set(said)), above < (1 - alpha) * (60 + 1))
    assert_array_equal(np.asarray(cross.predict_set(said)), cross.predict_pvalues(said) > 0.2)
    assert cross.weights_.shape == (4, 3)


def test_coverage_of_cv_plus_is_above_its_bound_and_near_one_minus_alpha() -> None:
    alpha, shares = 0.15, []
    for seed in range(80):
        folds, said, y = fold_problem(seed, 4, 30)
        cross = cx.CrossAverage(
            ("thr", "aps", "rank"), alpha=alpha, search=GridSearch(5), threads=1
        ).fit(folds)
        shares.append(covered(cross.predict_set(said), y).mean())
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert np.mean(shares) > cross_coverage(alpha, [30] * 4) + Z * error
    assert abs(np.mean(shares) - (1 - alpha)) < 0.04
    assert cross.guarantee_.kind == "exact"
    assert f"{cross_coverage(alpha, [30] * 4):.4f}" in cross.guarantee_.statement


def test_weights_chosen_with_the_fold_itself_would_lose_coverage() -> None:
    """The reason for tuning rows outside the fold: many scores, few rows, and no honest gap."""
    inside, outside = [], []
    names = ("thr", "aps", "rank", "margin", "logrank")
    for seed in range(60):
        rng = np.random.default_rng(seed)
        probs = softmax(rng.normal(size=(40 + 300, 8)))
        y = rng.integers(8, size=340)  # pure noise: every gain in size is selection
        parts = [np.arange(a, a + 10) for a in (0, 10, 20, 30)]
        for found, cheat in ((inside, True), (outside, False)):
            folds = []
            for rows in parts:
                rest = rows if cheat else np.setdiff1d(np.arange(40), rows)
                folds.append(Fold(probs[rows], y[rows], probs[rest], y[rest]))
            cross = cx.CrossAverage(names, alpha=0.2, search=GridSearch(4), threads=1).fit(folds)
            found.append(covered(cross.predict_set([probs[40:]] * 4), y[40:]).mean())
    assert np.mean(inside) < np.mean(outside) - 0.02


def test_the_bound_has_both_terms_and_the_second_needs_even_folds() -> None:
    assert_allclose(cross_coverage(0.1, [20] * 5), 0.8 - min(1.6 / 21, (1 - 5 / 100) / 6))
    assert_allclose(cross_coverage(0.1, [50] * 2), 0.8 - 1 / 51)
    assert_allclose(cross_coverage(0.1, [19, 21, 20, 20, 20]), 0.8 - 1.6 / 21)
    assert cross_coverage(0.05, [1] * 40) == 0.9


@pytest.mark.parametrize(
    "sizes", [[2] * 39 + [3], [1] * 50 + [2], [5, 5, 6], [4] * 12, [1] * 30, [7, 8] * 6]
)
def test_what_is_proven_for_folds_of_one_size_is_not_claimed_for_others(sizes: list[int]) -> None:
    """Vovk (2015) for any folds; Barber et al. (2021) for folds of one size only."""
    f, n, alpha = len(sizes), sum(sizes), Fraction(1, 10)
    any_folds = 1 - 2 * alpha - 2 * (1 - Fraction(1, f)) / (Fraction(n, f) + 1)
    one_size = 1 - 2 * alpha - (1 - Fraction(f, n)) / (f + 1)
    proven = max(any_folds, one_size) if len(set(sizes)) == 1 else any_folds
    assert_allclose(cross_coverage(0.1, sizes), float(proven), rtol=1e-12)


def test_the_classifier_does_it_all() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    X, numbers = blobs(np.random.default_rng(3), 700)
    y = np.array(["a", "b", "c"])[numbers]
    clf = cx.CrossConformalClassifier(
        [("nb", GaussianNB()), ("lr", LogisticRegression())], cv=4, alpha=0.2, random_state=0,
        search=GridSearch(4), scores=("thr", "aps"),
    ).fit(X[:400], y[:400])  # fmt: skip
    sets = clf.predict_set(X[400:])
    assert sets.classes == ["a", "b", "c"]
    assert clf.cross_.weights_.shape == (4, 4)
    held = np.asarray(sets)[np.arange(300), numbers[400:]].mean()
    assert held > cross_coverage(0.2, [100] * 4)
    assert set(clf.predict(X[400:])) <= {"a", "b", "c"}
    assert_array_equal(np.asarray(sets), clf.predict_pvalues(X[400:]) > 0.2)


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([Fold([[0.5, 0.5]], [0])], "need at least 2 folds; got 1"),
        ([Fold([[0.5, 0.5]], [0])] * 2, "fold 0 has no rows to choose weights on"),
        (
            [Fold([[0.5, 0.5]], [0], tune_outputs=[[0.5, 0.5]])] * 2,
            "fold 0 has no rows to choose weights on; give tune_outputs and tune_y",
        ),
        ([Fold([[0.5, 0.5]], [0], tune_y=[0])] * 2, "fold 0 has no rows to choose weights on"),
        (
            [Fold([[0.5, 0.5]], [0], [[0.5, 0.5]], [0]), Fold([[1.0]], [0])],
            "outputs of fold 1 must have the 2 fitted classes; got 1",
        ),
    ],
)
def test_folds_that_cannot_be_are_refused(folds: list, message: str) -> None:
    with pytest.raises(cx.InvalidInput, match=message):
        cx.CrossAverage(alpha=0.5).fit(folds)


@pytest.mark.parametrize(
    ("options", "chooses"),
    [
        ({"scores": "thr"}, False),
        ({"scores": ("thr", "rank"), "search": [[0.5, 0.5]], "normalize": "scale"}, False),
        ({"scores": "thr", "normalize": "ecdf"}, True),
        ({"scores": ("thr", "rank"), "search": GridSearch(4)}, True),
    ],
    ids=["one score", "one candidate", "a scale that learns", "weights to choose"],
)
def test_rows_are_kept_from_training_only_where_there_is_something_to_choose(
    options: dict, chooses: bool
) -> None:
    from sklearn.naive_bayes import GaussianNB

    X, y = blobs(np.random.default_rng(3), 100)
    clf = cx.CrossConformalClassifier(
        GaussianNB(), cv=4, alpha=0.2, tune_share=0.2, random_state=0, **options
    ).fit(X, y)
    trained = [int(fold[""].class_count_.sum()) for fold in clf.fold_estimators_]
    assert trained == [60 if chooses else 75] * 4
    assert clf.cross_.n_ == 100


def test_every_fold_model_must_speak() -> None:
    cross = cx.CrossAverage("thr", weights=[1.0], alpha=0.5)
    with pytest.raises(cx.NotFitted, match="this CrossAverage is not fitted yet"):
        cross.predict_set([])
    cross.fit([Fold([[0.5, 0.5]], [0])] * 3)
    with pytest.raises(cx.InvalidInput, match="from the 3 fold models; got 1"):
        cross.predict_set([[[0.5, 0.5]]])
    with pytest.raises(cx.InvalidInput, match="from the 3 fold models; got 4"):
        cross.predict_set([[[0.5, 0.5]]] * 4)


def test_fold_models_must_speak_of_the_same_rows(cifar10) -> None:
    """One row of one fold would be stretched over all rows of the others."""
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    folds = [
        Fold(logits[a : a + 100], labels[a : a + 100], logits[600:], labels[600:]) for a in (0, 100)
    ]
    cross = CrossAverage(kind="logits").fit(folds)
    with pytest.raises(InvalidInput, match="same rows"):
        cross.predict_set([logits[:1], logits[:5]])
