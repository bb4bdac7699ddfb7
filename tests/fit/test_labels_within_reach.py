"""Labels that no weights can put into a set are left out of the search, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conformix.data.outputs import check_outputs
from conformix.fit.scored import HeldOutputs, HeldTensor, Scoring, with_order
from conformix.fit.tuning import TuningRows
from conformix.kernels.simplex import simplex_grid
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import score_columns
from conformix.scores.scale import NORMALIZERS
from conformix.scores.upper_rows import UpperRows
from conformix.search.certain import reach
from conformix.search.objective import SizeObjective

GRID = simplex_grid(3, 20) / 20
KINDS = {
    "sure": (4.0, None, 40), "unsure": (0.5, None, 40), "ties": (2.0, 0, 40),
    "few labels": (2.0, None, 2), "one label": (1.0, None, 1),
}  # fmt: skip


def tuning_rows(kind: str, normalize: str, n: int = 200) -> tuple[TuningRows, HeldOutputs]:
    signal, digits, n_classes = KINDS[kind]
    rng = np.random.default_rng(1)
    y = rng.integers(n_classes, size=n)
    logits = rng.normal(0, 1.5, (n, n_classes)) + signal * np.eye(n_classes)[y]
    logits = logits if digits is None else logits.round(digits)
    scoring = Scoring(score_columns(("",), ("thr", "aps", "rank")), 0)
    held = with_order(HeldOutputs(check_outputs(logits, "logits"), scoring))
    return TuningRows(held, y, NORMALIZERS[normalize], scoring.columns), held


@pytest.mark.parametrize("normalize", NORMALIZERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 100, 180, 199, 200])
def test_counts_of_all_weights_are_those_of_all_labels(kind, normalize, k) -> None:
    rows, _ = tuning_rows(kind, normalize)
    labels = rows.within_reach(k)
    shape = (labels.n_rows, labels.n_classes)
    some = SizeObjective(rows.true_scores, [labels.scores], k, shape=shape)
    whole = SizeObjective(rows.true_scores, [rows.scores], k)
    assert_array_equal(some.counts(GRID), whole.counts(GRID))
    assert (some.n_size, some.n_pairs) == (whole.n_size, whole.n_pairs)


@pytest.mark.parametrize("kind", ["sure", "unsure", "ties"])
@pytest.mark.parametrize("k", [1, 100, 180, 201])
def test_one_compiled_pass_finds_the_labels_that_numpy_finds(kind, k, monkeypatch) -> None:
    compile_for(WORTHWHILE)
    rows, _ = tuning_rows(kind, "ecdf")
    passes = []
    within = UpperRows.within

    def counted(*given):
        passes.append(1)
        return within(*given)

    monkeypatch.setattr(UpperRows, "within", counted)
    compiled = rows.within_reach(k).scores[:, 0]
    n_passes = len(passes)
    assert n_passes
    monkeypatch.setattr(rows._source.ordered, "compiled", False)
    plain = rows.within_reach(k).scores[:, 0]
    assert len(passes) == n_passes
    for found in (compiled, plain):
        found[:] = found[np.lexsort(found.T)]
    assert_array_equal(compiled, plain)


def test_most_labels_are_left_out_where_rows_are_sure() -> None:
    rows, _ = tuning_rows("sure", "ecdf")
    assert len(rows.within_reach(180).scores) < 0.25 * 200 * 40


@pytest.mark.parametrize("k", [1, 2, 100, 180, 200])
@pytest.mark.parametrize("spread", [0.0, 0.3, 30.0])
def test_labels_out_of_reach_lie_below_k_true_labels_in_every_score(k, spread) -> None:
    rng = np.random.default_rng(2)
    true = (rng.normal(size=(200, 1)) + spread * rng.normal(size=(200, 3))).round(1)
    cuts = np.array(reach(true, k))
    assert (true > cuts).all(axis=1).sum() >= k
    rising = np.sort(true, axis=0)
    assert (cuts > rising[(200 - k) // 3] - 1e-6).all()  # no lower than by equal shares
    if spread == 0:  # where the scores agree nothing is lost: the threshold of each
        assert_allclose(cuts, rising[200 - k], atol=1e-9)


def test_no_label_is_out_of_reach_of_an_infinite_threshold() -> None:
    assert reach(np.zeros((3, 2)), 4) == [-np.inf, -np.inf]


def test_all_labels_are_within_reach_of_an_infinite_threshold() -> None:
    rows, _ = tuning_rows("sure", "ecdf")
    assert len(rows.within_reach(201).scores) == 200 * 40


@pytest.mark.parametrize("normalize", NORMALIZERS)
def test_the_scale_and_true_scores_are_those_of_the_tensor(normalize) -> None:
    rows, held = tuning_rows("ties", normalize)
    source = HeldTensor(held.tensor)
    plain = TuningRows(source, rows.y, NORMALIZERS[normalize], held.scoring.columns)
    assert_array_equal(rows.true_scores, plain.true_scores)
    assert_array_equal(rows.scores, plain.scores)
