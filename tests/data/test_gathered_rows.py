"""Rows that are never all in memory: the same fit, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.fit import rows as budget
from conformix.fit import scored as gathered
from conformix.splits import ValidityFirst


def same(a: cx.ScoreAverage, b: cx.ScoreAverage) -> None:
    np.testing.assert_array_equal(a.weights_, b.weights_)
    one, other = a.predictor_.fitted, b.predictor_.fitted
    np.testing.assert_array_equal(one.calibration, other.calibration)
    assert one.held_out_size == other.held_out_size
    assert one.search.size == other.search.size
    np.testing.assert_array_equal(one.threshold(a.alpha), other.threshold(a.alpha))
    assert one.ledger.facts == other.ledger.facts


SETTINGS = {
    "plain": {},
    "three scores, no scale": {"scores": ("thr", "aps", "rank"), "normalize": "none"},
    "a randomised score": {"scores": ("thr", "aps(randomized=True)")},
    "no empty sets": {"allow_empty": False},
    "given weights": {"weights": (0.5, 0.25, 0.25), "normalize": "scale"},
    "a threshold per class": {"calibration": "class", "alpha": 0.2},
    "ranks per class": {"calibration": "rc3p", "alpha": 0.2},
    "pac": {"guarantee": "pac"},
    "few tuning rows": {"split": ValidityFirst(max_rows=150)},
    "automatic scores": {"scores": "auto"},
}


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch):
    """Memory for scores so small that they are gathered, with bounds on rows out of the way."""

    def use() -> None:
        monkeypatch.setattr(budget, "TENSOR_BYTES", 1)
        monkeypatch.setattr("conformix.fit.fit.rows_held", lambda n_classes, d: 10**9)
        monkeypatch.setattr("conformix.data.outputs.READ_ENTRIES", 700)

    return use


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_fit_on_gathered_rows_is_the_fit_on_all_scores(settings, cifar10, little_memory) -> None:
    logits, y = cifar10[0][:1200], cifar10[1][:1200]
    options = {"kind": "logits", "random_state": 3, "threads": 1} | settings
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits, y)
    if settings.get("weights"):
        assert whole.search_ is None
    little_memory()
    parts = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits, y)
    if settings.get("weights"):
        np.testing.assert_array_equal(
            parts.predictor_.fitted.calibration, whole.predictor_.fitted.calibration
        )
    else:
        same(parts, whole)
    new = cifar10[0][1200:1500]
    np.testing.assert_array_equal(parts.predict_set(new), whole.predict_set(new))


def test_little_memory_means_that_rows_are_gathered(cifar10, little_memory, monkeypatch) -> None:
    seen = []
    whole = gathered.gather_rows
    monkeypatch.setattr(
        "conformix.fit.rows.gather_rows", lambda *a, **k: seen.append(1) or whole(*a, **k)
    )
    little_memory()
    cx.ScoreAverage("paper", kind="logits", random_state=0).fit(cifar10[0][:300], cifar10[1][:300])
    assert seen == [1]


def test_groups_stay_together_when_rows_are_gathered(cifar10, little_memory) -> None:
    logits, y = cifar10[0][:900], cifar10[1][:900]
    groups = np.arange(900) // 7
    cp = cx.ScoreAverage("paper", kind="logits", random_state=1, split=ValidityFirst(max_rows=100))
    whole = cp.fit(logits, y, groups=groups).predictor_.fitted
    assert whole.ledger.facts.n_tune <= 100
    little_memory()
    np.testing.assert_array_equal(
        cp.fit(logits, y, groups=groups).predictor_.fitted.calibration, whole.calibration
    )


def test_the_default_bound_on_tuning_rows_follows_from_the_shape_alone() -> None:
    assert budget.rows_held(1000, 3) * 1000 * 3 * 8 <= budget.HELD_BYTES
    assert budget.rows_held(10**9, 50) == 1


def test_a_split_that_needs_all_scores_is_refused_where_they_cannot_fit() -> None:
    with pytest.raises(cx.InvalidInput, match='split "efcp" keeps the scores of all rows, 1000000'):
        budget.refuse_beyond_memory("efcp", 10**15)


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, True, "many"])
def test_a_bound_on_tuning_rows_is_a_positive_integer(max_rows, cifar10) -> None:
    cp = cx.ScoreAverage("paper", kind="logits", split=ValidityFirst(max_rows=max_rows))
    with pytest.raises(cx.InvalidInput, match="max_rows must be a positive integer or None"):
        cp.fit(cifar10[0][:50], cifar10[1][:50])
