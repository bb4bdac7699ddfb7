from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import conformix as cx
from conformix.errors import InvalidInput
from conformix.search import GridSearch
from conformix.splits import SPLITS as ALL_SPLITS

NAMES = ("thr", "aps", "rank")
SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+")


@pytest.fixture
def rows(cifar10: tuple) -> tuple[np.ndarray, np.ndarray]:
    return cifar10[0][:600], cifar10[1][:600]


def average(**options: object) -> cx.ScoreAverage:
    usual = {
        "scores": NAMES,
        "kind": "logits",
        "search": GridSearch(5),
        "normalize": "none",
        "random_state": 0,
    }
    return cx.ScoreAverage(**{"scores": "paper", **usual, **options})


@pytest.mark.parametrize("split", SPLITS)
def test_a_fitted_object_says_what_it_found_and_what_it_promises(split: str, rows: tuple) -> None:
    logits, y = rows
    cp = average(split=split)
    assert cp.fit(logits, y, test=logits) is cp
    assert cp.weights_.shape == (3,)
    np.testing.assert_allclose(cp.weights_.sum(), 1)
    assert cp.score_names_ == NAMES
    assert cp.guarantee_.guarantee == ALL_SPLITS[split].guarantee
    assert cp.search_.n_evaluated == 21
    assert "optimistic" in repr(cp.search_)
    assert isinstance(cp.predict_set(logits), cx.PredictionSets)
    assert (cp.held_out_size_ is not None) == (split == "vfcp")


def test_a_set_holds_the_labels_whose_combined_score_reaches_the_threshold(rows: tuple) -> None:
    logits, y = rows
    cp = average(alpha=0.02).fit(logits, y)
    combined = cx.kernels.combine(cx.score_tensor(logits, NAMES, kind="logits"), cp.weights_)
    assert_array_equal(cp.predict_set(logits), combined >= cp.threshold_)


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
@pytest.mark.parametrize("split", ["efcp", "dlcp", "dlcp+"])
def test_where_calibration_rows_choose_the_weights_the_searched_size_is_that_of_the_sets(
    split: str, guarantee: str, rows: tuple
) -> None:
    logits, y = rows
    cp = average(split=split, alpha=0.1, guarantee=guarantee)
    cp.fit(logits[:400], y[:400], test=logits[400:] if split != "efcp" else None)
    counted = {"efcp": logits[:400], "dlcp": logits[400:], "dlcp+": logits}[split]
    assert cp.predict_set(counted).sizes.mean() == cp.search_.size


def test_under_efcp_at_least_k_calibration_rows_are_covered_exactly_k_without_ties(
    rows: tuple,
) -> None:
    logits, y = rows
    cp = average(split="efcp", alpha=0.1, scores="thr").fit(logits, y)
    assert cx.metrics.covered(cp.predict_set(logits), y).sum() == cx.conformal_rank(600, 0.1)


def test_fixed_weights_need_no_search_use_every_row_and_are_exact(rows: tuple) -> None:
    logits, y = rows
    cp = average(weights=[0.5, 0.25, 0.25], split="efcp").fit(logits, y)
    assert_array_equal(cp.weights_, [0.5, 0.25, 0.25])
    assert cp.search_ is None
    assert cp.guarantee_.kind == "exact"
    combined = cx.kernels.combine(cx.score_tensor(logits, NAMES, kind="logits"), cp.weights_)
    k = cx.conformal_rank(600, 0.1)
    assert cp.threshold_ == np.sort(combined[np.arange(600), y])[-k]


def test_candidate_weights_may_lie_outside_the_simplex(rows: tuple) -> None:
    logits, y = rows
    doubled = average(search=[[2.0, -0.5, 0.25]]).fit(logits, y)
    plain = average(search=[[1.0, -0.25, 0.125]]).fit(logits, y)
    assert_array_equal(doubled.weights_, [2.0, -0.5, 0.25])
    assert_array_equal(doubled.predict_set(logits), plain.predict_set(logits))


def test_changing_the_weights_given_in_does_not_change_the_fit(rows: tuple) -> None:
    logits, y = rows
    weights = np.array([1.0, 0.0, 0.0])
    cp = average(weights=weights).fit(logits, y)
    before = np.asarray(cp.predict_set(logits))
    weights[:] = [0.0, 0.0, 1.0]
    assert_array_equal(cp.predict_set(logits), before)


def test_changing_the_candidates_given_in_does_not_change_the_fit(rows: tuple) -> None:
    logits, y = rows
    candidates = np.eye(3)
    cp = average(search=candidates).fit(logits, y)
    before = np.asarray(cp.predict_set(logits))
    candidates[:] = [0.1, 0.2, 0.7]
    assert_array_equal(cp.predict_set(logits), before)


def test_another_alpha_at_predict_time_keeps_the_weights(rows: tuple) -> None:
    logits, y = rows
    cp = average().fit(logits, y)
    weights, t = cp.weights_.copy(), cp.threshold_
    sets = cp.predict_set(logits, alpha=0.02)
    assert sets.sizes.sum() >= cp.predict_set(logits).sizes.sum()
    assert_array_equal(cp.weights_, weights)
    assert cp.threshold_ == t
    same = average(weights=weights, alpha=0.02)
    calibrate = ALL_SPLITS["vfcp"].roles(600, 0, np.random.default_rng(0)).calibrate
    same.fit(logits[calibrate], y[calibrate])
    assert_array_equal(sets, same.predict_set(logits))


def test_recalibration_keeps_the_weights_takes_a_fresh_threshold_and_is_exact(
    cifar10: tuple,
) -> None:
    logits, y = cifar10
    cp = average(split="efcp").fit(logits[:500], y[:500])
    weights, old = cp.weights_.copy(), cp.threshold_
    assert cp.recalibrate(logits[500:900], y[500:900]) is cp
    assert_array_equal(cp.weights_, weights)
    assert cp.guarantee_.kind == "exact"
    fresh = average(weights=weights).fit(logits[500:900], y[500:900])
    assert cp.threshold_ == fresh.threshold_ != old
    assert_array_equal(cp.predict_set(logits[:50]), fresh.predict_set(logits[:50]))


def test_p_values_above_alpha_are_the_set(rows: tuple) -> None:
    logits, y = rows
    cp = average(alpha=0.125, weights=[0.5, 0.25, 0.25]).fit(logits[:255], y[:255])
    p = cp.predict_pvalues(logits)
    assert p.shape == logits.shape
    assert p.min() >= 1 / 256
    assert p.max() <= 1
    assert_array_equal(cp.predict_set(logits), p > 0.125)


def test_models_may_come_in_another_order_at_predict_time() -> None:
    data = cx.datasets.load("cifar10")
    few = {name: logits[:300] for name, logits in data.outputs.items()}
    cp = average(scores=("thr", "rank"), search=GridSearch(2)).fit(few, data.labels[:300])
    assert cp.score_names_[:3] == ("vgg16.thr", "vgg16.rank", "wideresnet_16_4.thr")
    backwards = dict(reversed(few.items()))
    assert_array_equal(cp.predict_set(backwards), cp.predict_set(few))


def test_one_score_gets_all_the_weight(rows: tuple) -> None:
    cp = average(scores="thr", search="auto").fit(*rows)
    assert_array_equal(cp.weights_, [1.0])
    assert cp.score_names_ == ("thr",)


def test_a_random_state_may_be_a_generator_or_a_legacy_state(rows: tuple) -> None:
    by_number = average(random_state=3).fit(*rows).threshold_
    assert average(random_state=np.random.default_rng(3)).fit(*rows).threshold_ == by_number
    legacy = [average(random_state=np.random.RandomState(5)).fit(*rows) for _ in range(2)]
    assert legacy[0].threshold_ == legacy[1].threshold_


# Awkward but valid input.


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.filterwarnings("ignore::conformix.errors.SmallBatchWarning")
@pytest.mark.parametrize("n_classes", [1, 2])
def test_one_and_two_classes_work(split: str, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    first = rng.random((40, 1))
    probs = np.hstack([first, 1 - first]) if n_classes == 2 else np.ones((40, 1))
    y = rng.integers(0, n_classes, size=40)
    cp = cx.ScoreAverage(NAMES, split=split, alpha=0.2, normalize="none", random_state=0)
    cp.fit(probs, y, test=probs)
    sets = cp.predict_set(probs)
    assert sets.shape == (40, n_classes)
    if n_classes == 1:
        assert sets.sizes.min() == 1


def test_a_batch_of_one_works(rows: tuple) -> None:
    cp = average().fit(*rows)
    assert cp.predict_set(rows[0][:1]).shape == (1, 10)
    with pytest.warns(cx.SmallBatchWarning):
        average(split="dlcp").fit(*rows, test=rows[0][:1])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.filterwarnings("ignore::conformix.errors.SmallBatchWarning")
def test_zero_probabilities_and_all_equal_rows_work(split: str) -> None:
    probs = np.vstack([np.eye(4), np.full((4, 4), 0.25), np.eye(4)])
    y = np.array([0, 1, 2, 3, 0, 1, 2, 3, 1, 1, 2, 0])
    cp = cx.ScoreAverage(NAMES, split=split, alpha=0.4, normalize="none", random_state=0)
    cp.fit(probs, y, test=probs)
    sets = np.asarray(cp.predict_set(probs))
    assert len(np.unique(sets[4:8].sum(axis=1))) == 1  # an all-equal row is all in or all out
    assert set(sets[4:8].sum(axis=1)) <= {0, 4}


@pytest.mark.parametrize("split", SPLITS)
def test_classes_missing_from_the_calibration_rows_work(split: str, cifar10: tuple) -> None:
    logits, y = cifar10
    few = np.flatnonzero(y < 3)[:300]
    cp = average(split=split).fit(logits[few], y[few], test=logits[:200])
    assert cp.predict_set(logits[:200]).shape == (200, 10)


def test_half_and_single_precision_outputs_work(rows: tuple) -> None:
    logits, y = rows
    probs = cx.score_tensor(logits, "thr", kind="logits")[..., 0]
    for dtype in (np.float16, np.float32, np.float64):
        cp = average(kind="probs").fit(probs.astype(dtype), y)
        assert cx.metrics.coverage(cp.predict_set(probs.astype(dtype)), y) > 0.85


# scikit-learn's conventions.


def test_the_constructor_only_stores() -> None:
    cp = cx.ScoreAverage("nonsense", alpha=7, split=3, weights="no", threads=-1)
    assert cp.get_params()["alpha"] == 7
    assert cp.scores == "nonsense"


def test_parameters_can_be_read_set_and_misspelt() -> None:
    cp = cx.ScoreAverage()
    assert cp.set_params(alpha=0.3, split="efcp") is cp
    assert (cp.alpha, cp.split) == (0.3, "efcp")
    with pytest.raises(
        cx.InvalidInput, match=r"did you mean 'alpha'\? known: scores, alpha, split"
    ):
        cp.set_params(aplha=0.1)


@pytest.mark.parametrize(
    "options",
    [{}, {"weights": np.array([1.0, 0.0, 0.0])}, {"search": np.eye(3)}, {"scores": "thr"}],
)
def test_scikit_learn_can_clone_it(options: dict, rows: tuple) -> None:
    cp = average(**options).fit(*rows)
    copy = clone(cp)
    assert not hasattr(copy, "weights_")
    assert repr(cp) == repr(copy) + f" [fitted, guarantee {cp.guarantee_.kind}]"
    copy.fit(*rows)
    assert_array_equal(copy.weights_, cp.weights_)
    assert copy.threshold_ == cp.threshold_


def test_the_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(cx.ScoreAverage()) == "ScoreAverage()"
    shown = repr(cx.ScoreAverage(("thr", "rank"), alpha=0.2, split="efcp"))
    assert shown == "ScoreAverage(scores=('thr', 'rank'), alpha=0.2, split='efcp')"


def test_a_fitted_repr_says_what_is_promised(cifar10):
    logits, labels = cifar10
    cp = cx.ScoreAverage(alpha=0.2, kind="logits", split="efcp", search=np.eye(3))
    assert "guarantee" not in repr(cp)
    assert repr(cp.fit(logits[:50], labels[:50])).endswith("[fitted, guarantee approximate]")


def test_measured_coverage_is_not_told_of_a_selection_that_was_not_made(cifar10) -> None:
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    cp = cx.ScoreAverage(
        ("thr", "rank"), kind="logits", split="efcp", search=np.eye(2), objective="singletons"
    ).fit(logits[:200], labels[:200])
    with pytest.raises(InvalidInput, match="smallest mean size"):
        cp.measured_coverage(logits[:200], labels[:200])
