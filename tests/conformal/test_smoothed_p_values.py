"""Smoothed p-values are uniform over the draw of rows and key, not over rows under one key.

The number that breaks ties is a hash of the row's outputs under a key: over keys it is uniform,
under one key rows with equal outputs share it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.conformal import smoothed_ranks
from conformix.data.outputs import check_outputs
from conformix.scores.uniforms import row_uniforms

Z = 4.5
# Eleven rows of three probabilities; several are equal, and their scores tie as well.
BAG = np.array([[6, 3, 1], [6, 3, 1], [6, 3, 1], [5, 3, 2], [5, 3, 2], [3, 5, 2], [3, 6, 1],
                [2, 2, 6], [2, 2, 6], [1, 1, 8], [4, 4, 2]]) / 10  # fmt: skip
LABELS = np.array([0, 0, 1, 0, 1, 1, 1, 2, 0, 2, 1])


@pytest.mark.parametrize("seed", range(5))
def test_over_the_bag_and_the_number_the_law_is_exactly_uniform(seed: int) -> None:
    """Row i of n + 1 has a p-value uniform on an interval; together these fill [0, 1] evenly."""
    scores = np.random.default_rng(seed).integers(0, 5, size=12).astype(float)
    covered = [Fraction(0)] * 12  # how much falls on each of the intervals (j/12, (j+1)/12]
    for i in range(12):
        rest = np.sort(np.delete(scores, i))
        low, high = (
            int(smoothed_ranks(rest, scores[i : i + 1, None], np.array([[tau]]))[0, 0])
            for tau in (0.0, 1.0)
        )
        for j in range(low, high):
            covered[j] += Fraction(1, high - low)
    assert covered == [1] * 12


def test_over_keys_the_number_of_a_row_is_uniform_and_rows_are_uncorrelated() -> None:
    outputs = check_outputs(BAG[[0, 3, 7]])
    keys = np.random.default_rng(1).integers(2**63, size=4000)
    found = np.array([row_uniforms(outputs, slice(0, 3), int(key)) for key in keys])
    rank = np.arange(1, 4001) / 4000
    for own in found.T:
        distance = np.abs(np.sort(own) - rank).max()
        assert distance < 2.2 / np.sqrt(4000)  # Kolmogorov: exceeded with probability 1.3e-4
    correlations = np.corrcoef(found.T)[np.triu_indices(3, 1)]
    assert (np.abs(correlations) < Z / np.sqrt(4000)).all()


def test_the_numbers_of_scores_and_of_smoothing_are_uncorrelated_over_keys() -> None:
    outputs = check_outputs(BAG[:1])
    keys = np.random.default_rng(2).integers(2**63, size=4000)
    pairs = [
        [row_uniforms(outputs, slice(0, 1), int(key) ^ other)[0] for other in (0, 0x5DEECE66D)]
        for key in keys
    ]
    assert abs(np.corrcoef(np.array(pairs).T)[0, 1]) < Z / np.sqrt(4000)


@pytest.mark.parametrize("score", ["rank", "aps(randomized=True)"])
def test_over_rows_and_keys_the_p_value_of_a_true_label_is_uniform(score: str) -> None:
    rng, draws, found = np.random.default_rng(3), 60, []
    for i in range(len(BAG)):
        rest = np.arange(len(BAG)) != i
        for _ in range(draws):
            # A fresh key for every draw; calibration and prediction use the same one.
            cp = cx.ScoreAverage(score, alpha=0.2, weights=[1.0], random_state=rng)
            cp.fit(BAG[rest], LABELS[rest])
            found.append(cp.predict_pvalues(BAG[i : i + 1], smoothed=True)[0, LABELS[i]])
    for level in (0.05, 0.1, 0.25, 0.5, 0.9):
        spread = np.sqrt(level * (1 - level) / len(found))
        assert abs(np.mean(np.array(found) <= level) - level) < Z * spread


def test_under_one_key_rows_with_equal_outputs_share_number_and_p_value() -> None:
    cp = cx.ScoreAverage("rank", alpha=0.2, weights=[1.0], random_state=0).fit(BAG, LABELS)
    many = np.tile(BAG[:1], (500, 1))
    smooth = cp.predict_pvalues(many, smoothed=True)
    assert_array_equal(smooth, np.tile(smooth[:1], (500, 1)))
    # Not even the order of labels tells them apart: one number, so nothing like 500 draws.
    turned = cp.predict_pvalues(many[:, ::-1], smoothed=True)
    assert_array_equal(turned[:, ::-1], smooth)
    other = replace(cp.predictor_, key=cp.predictor_.key + 1)
    assert (other.predict_pvalues(many[:1], smoothed=True) != smooth[0]).any()


def test_randomised_scores_of_equal_rows_are_equal_and_so_are_their_sets() -> None:
    cp = cx.ScoreAverage(
        ("aps(randomized=True)", "saps(randomized=True)"), alpha=0.3, random_state=0, split="efcp"
    ).fit(np.tile(BAG, (4, 1)), np.tile(LABELS, 4))
    mask = np.asarray(cp.predict_set(np.tile(BAG[3:4], (50, 1))))
    assert_array_equal(mask, np.tile(mask[:1], (50, 1)))


@pytest.mark.long(short="test_over_rows_and_keys_the_p_value_of_a_true_label_is_uniform")
def test_smoothed_p_values_are_uniform_over_fits_even_with_three_distinct_rows():
    rng = np.random.default_rng(0)
    kinds = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.6, 0.25, 0.15]])
    seen = []
    for seed in range(1500):
        rows = kinds[rng.integers(0, 3, 50)]
        y = np.array([rng.choice(3, p=row) for row in rows])
        cp = cx.ScoreAverage("rank", alpha=0.1, weights=[1.0], random_state=seed)
        cp.fit(rows[:49], y[:49])
        seen.append(cp.predict_pvalues(rows[49:], smoothed=True)[0, y[49]])
    shares = [(np.array(seen) <= level).mean() for level in (0.2, 0.5, 0.8)]
    # z = 4.5 with 1,500 draws
    assert (np.abs(np.subtract(shares, (0.2, 0.5, 0.8))) < 4.5 * np.sqrt(0.25 / 1500)).all(), shares
