"""CIFAR-100, WideResNet, 5,000 : 5,000 at alpha = .01, a light form of examples/score_averaging.py.

Two of its twenty repetitions; the bounds on sizes are wide enough for single splits.
"""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx


@pytest.fixture(scope="module")
def results(cifar100: tuple) -> dict[str, np.ndarray]:
    """Coverage and mean size of single `thr` and of the average under EFCP, by repetition."""
    logits, y = cifar100
    rows: dict[str, list[tuple[float, float]]] = {"thr": [], "efcp": []}
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        cal, test = order[:5000], order[5000:]
        for method, cp in {
            "thr": cx.ScoreAverage("thr", alpha=0.01, kind="logits", weights=[1.0]),
            "efcp": cx.ScoreAverage(alpha=0.01, kind="logits", split="efcp"),
        }.items():
            sets = cp.fit(logits[cal], y[cal]).predict_set(logits[test])
            rows[method].append((cx.metrics.coverage(sets, y[test]), cx.metrics.mean_size(sets)))
    return {method: np.array(values) for method, values in rows.items()}


def test_single_thr_needs_about_twenty_labels(results: dict) -> None:
    assert 18.5 < results["thr"][:, 1].mean() < 22.5


def test_the_average_needs_a_quarter_fewer_labels_than_thr(results: dict) -> None:
    assert (results["efcp"][:, 1] < 0.78 * results["thr"][:, 1]).all()


def test_the_average_still_covers(results: dict) -> None:
    # A split of 5,000 : 5,000 has standard deviation 0.002 around .99: five of them.
    np.testing.assert_allclose(results["efcp"][:, 0], 0.99, atol=0.01)
    np.testing.assert_allclose(results["thr"][:, 0], 0.99, atol=0.01)
