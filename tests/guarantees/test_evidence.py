"""The evidence of a blend is learnt from tuning rows alone, and keeps the leave-one-out identity.

A few rows and labels have it here, as many rows and labels have it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conformix as cx
from cases import Bag, FirstRowsAside, FirstRowsTeach, bags, levels
from conformix.fit import blend as blend_of_fit
from conformix.scores import blend
from conformix.scores.evidence import fit_evidence, log_spreads
from conformix.scores.ranked import ranked_rows
from conformix.testing import audit_roles
from guarantees.test_learnt_scores import (
    EVERY_SOURCE,
    average,
    covered_when_held_out,
    enough_of_a_bag_are_covered,
    other_rows,
    rows_without_ties,
)

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")


@pytest.fixture(scope="module", autouse=True)
def few_have_evidence() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blend, "MANY_CLASSES", 1)
        patch.setattr(blend, "EVIDENT_ROWS", 1)
        patch.setattr(blend, "EVIDENT_ROWS_OF_SEVERAL", 1)
        patch.setattr(blend, "FEWEST_ROWS", 1)
        yield


@settings(max_examples=12)
@given(bag=bags(max_models=3, min_rows=3, max_rows=9), level=levels(), data=st.data())
@pytest.mark.parametrize("source", EVERY_SOURCE)
def test_at_least_k_of_n_plus_one_rows_are_covered_with_ties(
    source: str, bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    n_tune = data.draw(st.integers(1, len(bag.y) - 2), label="tuning rows")
    cp = enough_of_a_bag_are_covered("auto", source, bag, level, n_tune)
    assert cp.blend_.evidence is not None


@pytest.mark.parametrize("source", EVERY_SOURCE)
def test_exactly_k_of_n_plus_one_rows_are_covered_without_ties(source: str) -> None:
    n_tune, n = 40, 9
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, n_tune + n + 1)
        cp = average(FirstRowsTeach(n_tune=n_tune), alpha, "auto")
        hits = covered_when_held_out(cp, probs, y, n_tune, source, other_rows(5, 5))
        assert hits == cx.conformal_rank(n, alpha)
        assert cp.score_names_ == ("blend.logit",)
        assert abs(cp.blend_.evidence.top) > 0.01


def test_exactly_k_of_n_plus_one_rows_are_covered_by_three_models() -> None:
    n_tune, n = 40, 9
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, n_tune + n + 1)
        noise = np.random.default_rng(seed).uniform(0.5, 2, size=(2, *probs.shape))
        models = {"a": probs, "b": probs * noise[0], "c": np.sqrt(probs) * noise[1]}
        models = {name: rows / rows.sum(axis=1, keepdims=True) for name, rows in models.items()}
        cp, hits = average(FirstRowsTeach(n_tune=n_tune), alpha, "auto"), 0
        for i in range(n_tune, len(y)):
            cp.fit({m: np.delete(v, i, axis=0) for m, v in models.items()}, np.delete(y, i))
            held_out = {m: v[i : i + 1] for m, v in models.items()}
            hits += bool(np.asarray(cp.predict_set(held_out))[0, y[i]])
        assert hits == cx.conformal_rank(n, alpha)
        assert abs(cp.blend_.evidence.top) > 0.01


def test_the_exact_split_covers_exactly_k_of_n_plus_one_rows_without_ties() -> None:
    n_tune, n = 12, 9
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, n_tune + n + 1)
        cp = average(FirstRowsAside(shortlist=2, n_tune=n_tune), alpha, "auto")
        assert covered_when_held_out(cp, probs, y, n_tune) == cx.conformal_rank(n, alpha)
        assert "blend.logit" in cp.score_names_


@pytest.mark.parametrize("split", ["holdout", "exact"])
def test_no_row_both_teaches_evidence_and_calibrates(split: str) -> None:
    probs, y = rows_without_ties(2, 24, n_classes=4)
    cp = cx.ScoreAverage("auto", alpha=0.3, split=split, random_state=3, threads=1)
    report = audit_roles(cp.fit, probs, y)
    assert report.holds, report
    assert report.by_label["blend"].any()
    assert cp.blend_.evidence is not None


def test_evidence_that_saw_calibration_labels_breaks_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Coefficients are those of the tuning rows: the evidence alone has seen more."""
    learn_blend = blend_of_fit.learn_blend

    def leaking(rows: Any, *rest: Any) -> Any:
        found = learn_blend(rows, *rest)
        ((model, values),) = rows.outputs.models.items()
        ranked = ranked_rows(values, rows.outputs.kind, "exact")
        z = found.blend.added_up({model: ranked})
        evidence = fit_evidence(z, rows.y, log_spreads(ranked))
        leaky = replace(found.blend, evidence=evidence)
        return found._replace(blend=leaky, rows=rows.blended(leaky))

    monkeypatch.setattr("conformix.fit.fit.learn_blend", leaking)
    missed = []
    for seed in (15, 16, 19, 28):
        probs, y = rows_without_ties(seed, 26)
        cp = average(FirstRowsTeach(n_tune=5), 0.1, "auto")
        missed.append(covered_when_held_out(cp, probs, y, 5) - cx.conformal_rank(20, 0.1))
    assert max(missed) < 0
