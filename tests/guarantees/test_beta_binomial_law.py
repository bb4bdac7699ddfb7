"""Over repeated splits of a pool, covered test rows follow BetaBinomial(m, k, n3 + 1 - k).

Given the pool, every random split is an independent draw, and the calibration and test rows are
exchangeable whatever the tuning rows chose: the law is exact where the scores do not tie.

There are six two-sided comparisons with ``|z| < Z`` in this file, all with fixed seeds; under the
normal approximation they raise a false alarm with probability below 6 * 6.8e-6 < 1e-4 together.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import betabinom

import conformix as cx
from conformix.search import GridSearch

Z = 4.5
REPETITIONS = 400
MODELS = {"cifar10": "vgg16", "cifar100": "wideresnet_16_4"}


@cache
def covered_counts(
    name: str,
    *,
    alpha: float,
    split: str,
    n: int,
    m: int,
    scores: tuple[str, ...] = ("thr", "aps"),
    repetitions: int = REPETITIONS,
) -> np.ndarray:
    """Covered test rows in every one of the repeated splits of a data set."""
    data = cx.datasets.load(name)
    logits, y = data.outputs[MODELS[name]], data.labels
    cp = cx.ScoreAverage(
        scores, alpha=alpha, kind="logits", split=split, search=GridSearch(20), threads=1
    )
    hits = np.empty(repetitions, dtype=int)
    for r in range(repetitions):
        rows = np.random.default_rng([r, n]).permutation(len(y))[: n + m]
        cal, test = rows[:n], rows[n:]
        cp.set_params(random_state=r).fit(logits[cal], y[cal])
        hits[r] = cx.metrics.covered(cp.predict_set(logits[test]), y[test]).sum()
    return hits


def z_of_mean_and_variance(hits: np.ndarray, law: object) -> tuple[float, float]:
    """Standardised distance of the sample mean and variance from the exact law."""
    mean, variance = law.mean(), law.var()
    support = np.arange(law.support()[1] + 1)
    fourth = float((law.pmf(support) * (support - mean) ** 4).sum())
    repetitions = len(hits)
    z_mean = (hits.mean() - mean) / np.sqrt(variance / repetitions)
    squares = (hits - mean) ** 2
    z_variance = (squares.mean() - variance) / np.sqrt((fourth - variance**2) / repetitions)
    return float(z_mean), float(z_variance)


def test_vfcp_follows_the_law_in_mean_and_variance() -> None:
    assert_law_of_vfcp(0.1, 198, 500)


@pytest.mark.long(short="test_vfcp_follows_the_law_in_mean_and_variance")
@pytest.mark.parametrize(("alpha", "n", "m"), [(0.05, 400, 500), (0.2, 98, 200)])
def test_vfcp_follows_the_law_at_other_levels(alpha: float, n: int, m: int) -> None:
    assert_law_of_vfcp(alpha, n, m)


def assert_law_of_vfcp(alpha: float, n: int, m: int) -> None:
    n3 = n - n // 2
    k = cx.conformal_rank(n3, alpha)
    hits = covered_counts("cifar10", alpha=alpha, split="vfcp", n=n, m=m)
    z_mean, z_variance = z_of_mean_and_variance(hits, betabinom(m, k, n3 + 1 - k))
    assert abs(z_mean) < Z
    assert abs(z_variance) < Z


def test_a_rank_that_is_off_by_one_would_be_noticed() -> None:
    n, m, alpha = 198, 500, 0.1
    k = cx.conformal_rank(99, alpha)
    hits = covered_counts("cifar10", alpha=alpha, split="vfcp", n=n, m=m)
    for wrong in (k - 1, k + 1):
        assert abs(z_of_mean_and_variance(hits, betabinom(m, wrong, 100 - wrong))[0]) > Z


def test_efcp_with_few_rows_would_be_noticed() -> None:
    n, m, alpha = 49, 150, 0.1
    k = cx.conformal_rank(n, alpha)
    # Three scores select harder than two; ties of `rank` could only raise the coverage.
    three = ("thr", "aps", "rank")
    hits = covered_counts(
        "cifar100", alpha=alpha, split="efcp", n=n, m=m, scores=three, repetitions=250
    )
    assert z_of_mean_and_variance(hits, betabinom(m, k, n + 1 - k))[0] < -Z
