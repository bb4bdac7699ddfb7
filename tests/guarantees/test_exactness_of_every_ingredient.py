"""The leave-one-out identity, without tolerance, for everything that claims to keep exactness.

I1 is fixed: weights and normalisation are found on separate rows; then each of n + 1 rows is held
out in turn, the rule is calibrated on the others, and at least k of them must be covered.
"""

import numpy as np
import pytest

import conformix as cx
from conformix.testing import leave_one_out

RECIPES = {
    "plain": {},
    "randomised": {"scores": ("aps(randomized=True)", "saps(randomized=True)", "thr")},
    "ecdf": {"normalize": "ecdf"},
    "scale": {"normalize": "scale", "scores": ("thr", "logp", "margin", "-entropy")},
    "non-empty": {"allow_empty": False},
    "non-empty, ecdf, randomised": {
        "allow_empty": False,
        "normalize": "ecdf",
        "scores": ("raps(randomized=True)", "thr"),
    },
    "tempered": {
        "scores": ("thr(temperature=2)", "aps(temperature=0.5)", "rank(tie_break='prob')")
    },
}


def lattice_rows(rng, n, n_classes=4):
    """Probabilities in eighths: ties within rows and between rows everywhere."""
    counts = rng.multinomial(8, np.full(n_classes, 1 / n_classes), size=n)
    y = np.array([rng.choice(n_classes, p=(row + 0.5) / (8 + n_classes / 2)) for row in counts])
    return counts / 8, y


def smooth_rows(rng, n, n_classes=4):
    probs = rng.dirichlet(np.ones(n_classes), size=n)
    return probs, np.array([rng.choice(n_classes, p=row) for row in probs])


@pytest.mark.parametrize("recipe", list(RECIPES))
@pytest.mark.parametrize("rows", [lattice_rows, smooth_rows])
def test_at_least_k_of_n_plus_one_held_out_rows_are_covered(recipe, rows):
    rng = np.random.default_rng(17)
    for bag in range(6):
        alpha = float(rng.choice([0.1, 0.2, 0.25, 0.3]))
        tune, y_tune = rows(rng, 40)
        probs, y = rows(rng, int(rng.integers(10, 25)))
        options = {"search": "grid", "random_state": bag} | RECIPES[recipe]
        cp = cx.ScoreAverage(alpha=alpha, search=cx.search.GridSearch(8), **{
            key: value for key, value in options.items() if key != "search"
        })  # fmt: skip
        cp.fit(tune, y_tune)
        report = leave_one_out(cp.recalibrate, probs, y, alpha=alpha)
        assert report.holds, f"bag {bag}, alpha {alpha}: {report}"


def test_without_ties_exactly_k_are_covered():
    rng = np.random.default_rng(23)
    for bag in range(10):
        tune, y_tune = smooth_rows(rng, 40)
        probs, y = smooth_rows(rng, 19)
        cp = cx.ScoreAverage(("thr", "aps"), alpha=0.2, random_state=bag).fit(tune, y_tune)
        report = leave_one_out(cp.recalibrate, probs, y, alpha=0.2)
        assert report.covered == report.needed


def test_truncated_outputs_keep_the_identity():
    rng = np.random.default_rng(29)
    for bag in range(8):
        probs, y = smooth_rows(rng, 55, n_classes=6)
        order = np.argsort(-probs, axis=1)[:, :2]
        top = cx.TopK(order, np.take_along_axis(probs, order, axis=1), 6)
        cp = cx.ScoreAverage("paper", alpha=0.2, random_state=bag).fit(
            top.subset(slice(0, 40)), y[:40]
        )
        report = leave_one_out(cp.recalibrate, top.subset(slice(40, 55)), y[40:], alpha=0.2)
        assert report.holds


def test_patching_empty_sets_afterwards_is_what_the_lift_avoids():
    """Putting the best label back over-covers; the lifted rule covers as promised."""
    data = cx.datasets.load("cifar10")
    logits, y = data.outputs["vgg16"], data.labels
    half = 5000
    sizes, coverages = [], []
    for allow_empty in (True, False):
        cp = cx.ScoreAverage(
            "thr", alpha=0.1, kind="logits", weights=[1.0], allow_empty=allow_empty
        )
        sets = cp.fit(logits[:half], y[:half]).predict_set(logits[half:])
        sizes.append(sets.sizes)
        coverages.append(cx.metrics.coverage(sets, y[half:]))
    assert (sizes[0] == 0).any()
    assert (sizes[1] > 0).all()
    # The model is right in 93.6 % of the rows: non-empty sets cannot cover less than that, and
    # here every set is just the best label.
    assert (sizes[1] == 1).all()
    assert coverages[1] == (logits[half:].argmax(axis=1) == y[half:]).mean()
