"""Defects that users of other libraries met, as rules that hold here.

Each test names the library and the defect (releases: MAPIE 1.6, TorchCP 1.2.1, crepes 0.9.1, puncc
0.9.3); ``make versions WHAT=peers`` shows some of them live beside the exact rule.
"""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import binom

import conformix as cx
from memory import peak_bytes

SCORES = ["thr", "aps", "rank", "raps", "saps", "margin", "logp", "logrank",
          "aps(randomized=True)", "raps(randomized=True)", "saps(randomized=True)"]  # fmt: skip


def task(n=600, n_classes=8, strength=2.5, seed=0):
    """Probabilities and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = strength * rng.standard_normal((n, n_classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probs, (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def covered(sets, y):
    return np.asarray(sets)[np.arange(len(y)), y]


@pytest.mark.parametrize("score", SCORES)
def test_puncc_set_size_was_capped_at_the_number_of_rows(score):
    """A batch of one had at most one label; here rows one by one are the batch, bit for bit."""
    probs, y = task()
    cp = cx.ScoreAverage(score, weights=[1.0], alpha=0.1).fit(probs[:300], y[:300])
    batch = np.asarray(cp.predict_set(probs[300:340]))
    one_by_one = np.vstack([np.asarray(cp.predict_set(row[None])) for row in probs[300:340]])
    assert_array_equal(one_by_one, batch)
    assert batch.sum(axis=1).max() > 1


@pytest.mark.parametrize("score", SCORES)
def test_torchcp_saps_calibrated_another_score_than_it_predicted_with(score):
    """Coverage was 0. Here the law of coverage given 1,000 test rows bounds every score."""
    probs, y = task(2_000, strength=6.0)
    cp = cx.ScoreAverage(score, weights=[1.0], alpha=0.1).fit(probs[:1_000], y[:1_000])
    hits = covered(cp.predict_set(probs[1_000:]), y[1_000:]).sum()
    # Coverage itself varies over calibration draws by about .0095; .86 is four of those below.
    assert binom.cdf(hits, 1_000, 0.86) > 1e-6


def test_mapie_raps_crashed_where_a_class_has_one_calibration_row():
    probs, y = task()
    keep = np.r_[np.flatnonzero(y != 3)[:300], np.flatnonzero(y == 3)[:1]]
    for split in ("vfcp", "efcp", "exact"):
        cp = cx.ScoreAverage(("raps", "thr"), alpha=0.1, split=split, random_state=0)
        assert len(cp.fit(probs[keep], y[keep]).predict_set(probs)) == len(probs)


def test_mapie_failed_where_a_class_is_missing_from_calibration():
    probs, y = task(1_500)
    keep = np.flatnonzero(y != 3)
    cp = cx.ScoreAverage(("thr", "aps"), alpha=0.1, random_state=0).fit(probs[keep], y[keep])
    assert cp.predict_set(probs)[:, 3].any()  # the model may still say so


def test_mapie_third_axis_and_frozen_level():
    """One level gives (n, K); another level at prediction is honoured, not ignored."""
    probs, y = task()
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.1).fit(probs, y)
    wide, narrow = cp.predict_set(probs, alpha=0.01), cp.predict_set(probs, alpha=0.3)
    assert wide.shape == probs.shape
    assert wide.sizes.mean() > cp.predict_set(probs).sizes.mean() > narrow.sizes.mean()


def test_mapie_could_not_be_calibrated_twice():
    probs, y = task()
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.1).fit(probs[:300], y[:300])
    again = copy.deepcopy(cp).fit(probs[300:], y[300:])
    assert again.threshold_ == cp.recalibrate(probs[300:], y[300:]).threshold_


@pytest.mark.parametrize("score", ["aps", "raps"])
def test_mapie_randomised_sets_could_be_larger_than_deterministic_ones(score):
    """At one threshold a randomised set is inside the deterministic one (MAPIE #456)."""
    probs, _ = task()
    random = cx.score_tensor(probs, f"{score}(randomized=True)", random_state=0)
    plain = cx.score_tensor(probs, score)
    for threshold in (0.05, 0.2, 0.5):
        assert not ((random >= threshold) & ~(plain >= threshold)).any()


def test_mapie_ten_levels_took_ten_copies_and_a_sort_of_each():
    probs, y = task(3_000, 200)
    # In one thread: the peaks of several may meet or not.
    cp = cx.ScoreAverage(("thr", "aps"), weights=[0.5, 0.5], alpha=0.1, threads=1).fit(probs, y)
    alphas = np.linspace(0.02, 0.2, 10)
    one = peak_bytes(lambda: cp.predict_set(probs, alpha=0.1))
    ten = peak_bytes(lambda: cp.predict_set(probs, alpha=alphas))
    assert ten < one + 2 * probs.size  # a byte per label, and room to breathe


def test_torchcp_and_crepes_pvalues_were_cubic():
    """No (n_test, n_cal, K) array: 500 x 500 x 200 booleans would be 50 MB twice."""
    probs, y = task(1_000, 200)
    cp = cx.ScoreAverage("thr", weights=[1.0]).fit(probs[:500], y[:500])
    assert peak_bytes(lambda: cp.predict_pvalues(probs[500:])) < 10e6


def test_torchcp_predictions_differed_from_call_to_call():
    probs, y = task()
    fits = [
        cx.ScoreAverage("aps(randomized=True)", weights=[1.0], random_state=4).fit(probs, y)
        for _ in range(2)
    ]
    first, second, fresh = (np.asarray(f.predict_set(probs)) for f in (fits[0], fits[0], fits[1]))
    assert_array_equal(first, second)
    assert_array_equal(first, fresh)


def test_torchcp_margin_overwrote_the_callers_array():
    probs, y = task()
    mine = probs.copy()
    mine.setflags(write=False)
    for score in SCORES:
        cx.ScoreAverage(score, weights=[1.0]).fit(mine, y).predict_pvalues(mine)
    assert_array_equal(mine, probs)


def test_torchcp_warned_on_every_use_and_could_not_be_pickled():
    probs, y = task()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cp = cx.ScoreAverage("thr", weights=[1.0]).fit(probs, y)
        again = pickle.loads(pickle.dumps(cp))
    assert_array_equal(np.asarray(again.predict_set(probs)), np.asarray(cp.predict_set(probs)))


def test_torchcp_imported_packages_it_did_not_use():
    code = "import conformix, sys; print(*(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "scipy", "sklearn", "numba", "pandas"} & set(done.stdout.split())


def test_crepes_returned_lists_of_labels_and_random_ones():
    probs, y = task()
    cp = cx.ScoreAverage("thr", weights=[1.0]).fit(probs, y)
    sets = cp.predict_set(probs)
    assert np.asarray(sets).dtype == bool
    # and the direction of a p-value: in the set where it exceeds alpha
    assert_array_equal(np.asarray(sets), cp.predict_pvalues(probs) > 0.1)


def test_zero_probabilities_let_every_label_in():
    """Labels of probability 0 (MAPIE #254, #266) share one score and stay out where they should."""
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=500)
    probs = np.zeros((500, 6))
    probs[np.arange(500), y] = 0.75
    probs[np.arange(500), (y + rng.integers(1, 6, 500)) % 6] += 0.25
    for score in SCORES:
        cp = cx.ScoreAverage(score, weights=[1.0], alpha=0.2).fit(probs[:250], y[:250])
        sets = np.asarray(cp.predict_set(probs[250:]))
        assert not sets[probs[250:] == 0].any()
        assert covered(sets, y[250:]).mean() >= 0.7


@pytest.mark.parametrize("score", SCORES)
def test_ties_were_broken_by_memory_position(score):
    """Tied labels are in or out together, and the order of the columns does not matter."""
    rng = np.random.default_rng(1)
    probs = rng.integers(1, 4, size=(400, 7)).astype(float)
    probs /= probs.sum(axis=1, keepdims=True)
    y = rng.integers(7, size=400)
    order = rng.permutation(7)
    options = {"weights": [1.0], "alpha": 0.3, "random_state": 0}
    plain = np.asarray(cx.ScoreAverage(score, **options).fit(probs, y).predict_set(probs))
    turned = cx.ScoreAverage(score, **options).fit(probs[:, order], np.argsort(order)[y])
    assert_array_equal(np.asarray(turned.predict_set(probs[:, order])), plain[:, order])
    for row, member in zip(probs, plain, strict=True):
        assert all(len(set(member[row == value])) == 1 for value in np.unique(row))


def test_the_quantile_lacked_the_row_to_come():
    """`quantile(scores, 1 - alpha)` without n + 1 (conformal_classification, the paper's code)."""
    n, alpha = 9, 0.1
    assert cx.conformal_rank(n, alpha) == 9  # not 8.1 of 9: coverage would be 9/10 * 0.9
    hits = []
    for seed in range(400):
        probs, y = task(n + 1, seed=seed)
        cp = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha).fit(probs[:n], y[:n])
        hits.append(covered(cp.predict_set(probs[n:]), y[n:])[0])
    assert binom.cdf(sum(hits), 400, 0.9) > 1e-3


def test_the_papers_code_lost_35_weights_of_its_grid():
    weights = cx.search.simplex_grid(3, 100)
    assert len(weights) == 5_151
    assert len(np.unique(weights, axis=0)) == 5_151
    assert (weights[:, 2] == 0).sum() == 101  # mixtures without the third score: all of them


def test_empty_sets_were_patched_after_calibration():
    """`allow_empty=False` is one rule in both phases: no empty set, and no over-coverage by it."""
    probs, y = task(4_000, strength=6.0)
    options = {"weights": [1.0], "alpha": 0.3}
    free = cx.ScoreAverage("aps(u=1)", **options).fit(probs[:2_000], y[:2_000])
    full = cx.ScoreAverage("aps(u=1)", allow_empty=False, **options)
    full.fit(probs[:2_000], y[:2_000])
    assert (free.predict_set(probs[2_000:]).sizes == 0).any()
    assert full.predict_set(probs[2_000:]).sizes.min() == 1
    patched = np.array(free.predict_set(probs[2_000:]))
    patched[np.arange(2_000), probs[2_000:].argmax(axis=1)] = True
    assert full.predict_set(probs[2_000:]).sizes.mean() <= patched.sum(axis=1).mean()


def test_two_classes():
    """Binary problems were refused or needed another class (MAPIE #216, #323)."""
    probs, y = task(600, 2)
    for split in ("vfcp", "efcp", "exact"):
        cp = cx.ScoreAverage("paper", alpha=0.1, split=split, random_state=0).fit(
            probs[:300], y[:300]
        )
        assert covered(cp.predict_set(probs[300:]), y[300:]).mean() > 0.8


def test_twenty_thousand_classes_in_bounded_memory():
    """Peers make several (n, K) float copies and sort twice; ours goes block by block."""
    rng = np.random.default_rng(0)
    n, n_classes = 120, 20_000
    y = rng.integers(n_classes, size=n)
    logits = rng.standard_normal((n, n_classes)).astype(np.float32)
    logits[np.arange(n), y] += 12
    cp = cx.ScoreAverage(("thr", "aps", "rank"), weights=[0.4, 0.3, 0.3], kind="logits")
    cp.fit(logits, y)
    sets = None

    def predict():
        nonlocal sets
        sets = cp.predict_set(logits)

    assert peak_bytes(predict) < 8 * logits.nbytes
    assert covered(sets, y).mean() >= 0.9
