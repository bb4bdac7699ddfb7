"""Scores that tie in masses are decided by a witness, not weight by weight."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.kernels.host.engine import candidate_counts
from conformix.kernels.host.engine.landscape import pose
from search.problems import brute_counts, combine, compositions, problem


def test_constant_scores_are_decided_at_the_root() -> None:
    true, parts = problem(0, "constant", 300, 5, 3)
    posed = pose(true, parts, 250, compositions(3, 20) / 20, 1)
    assert_array_equal(posed.brackets.witness, np.full(posed.cells.centre.shape, 0.3))


@pytest.mark.parametrize("kind", ["ties", "tenths", "saturated", "mixed", "constant"])
@pytest.mark.usefixtures("small")
def test_a_witness_has_the_value_of_the_threshold_for_all_weights_of_its_cell(kind: str) -> None:
    true, parts = problem(1, kind, 400, 5, 3)
    posed = pose(true, parts, 300, compositions(3, 30) / 30, 1)
    cells, witness = posed.cells, posed.brackets.witness
    seen = np.flatnonzero(~np.isnan(witness[:, 0]))
    assert len(seen) > 0
    for cell in seen:
        for i in range(cells.start[cell], cells.stop[cell]):
            assert combine(cells.weights[i], witness[cell]) == posed.thresholds[i]


def test_scores_without_ties_have_no_witness() -> None:
    true, parts = problem(1, "plain", 400, 5, 3)
    posed = pose(true, parts, 300, compositions(3, 30) / 30, 1)
    assert np.isnan(posed.brackets.witness).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_minus_zero_ties_with_zero(d: int) -> None:
    rng = np.random.default_rng(d)
    scores = np.where(rng.random((500, 6, d)) < 0.5, 0.0, -0.0)
    scores[rng.random((500, 6)) < 0.2] = 0.5
    true = scores[:, 0]
    weights = compositions(d, 4) / 4
    found = candidate_counts(true, [scores], 450, weights)
    assert_array_equal(found, brute_counts(true, [scores], 450, weights))
    assert_array_equal(found, np.full(len(weights), 3000))
