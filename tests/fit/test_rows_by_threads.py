"""Threads that share the rows to predict give what one pass over all of them gives."""

from __future__ import annotations

import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.calibration.cuts import Single
from conformix.fit import predictor as module
from conformix.scores.uniforms import row_uniforms

N, K = 240, 12
RNG = np.random.default_rng(4)
LABELS = RNG.integers(K, size=2 * N)
LOGITS = RNG.normal(0, 2, (2 * N, K)) + 3 * np.eye(K)[LABELS]
TIED = (LOGITS * 2).round() / 2
STRATA = np.arange(2 * N) % 3
MODELS = {"a": LOGITS, "b": TIED + RNG.normal(0, 1, LOGITS.shape).round()}

FITS = {
    "three scores": (TIED, {"scores": "paper"}),
    "one score": (LOGITS, {"scores": "logp", "weights": [1.0]}),
    "randomised": (TIED, {"scores": ("aps(randomized=True)", "thr")}),
    "several models": (MODELS, {"scores": ("thr", "rank"), "normalize": "scale"}),
    "never empty": (MODELS, {"scores": "thr", "allow_empty": False}),
    "a vote": (TIED, {"scores": ("thr", "aps"), "calibration": "vote"}),
    "classes": (TIED, {"scores": ("thr", "aps"), "calibration": "class"}),
    "groups": (TIED, {"scores": ("thr", "aps"), "calibration": "group"}),
    "weights": (TIED, {"scores": ("thr", "aps"), "calibration": "weighted"}),
    "ranks of classes": (TIED, {"scores": ("thr", "aps"), "calibration": "rc3p"}),
    "a blend": (LOGITS, {"scores": "auto"}),
    "a blend of models": (MODELS, {"scores": "auto"}),
    "exact": (TIED, {"scores": ("thr", "aps"), "split": "exact"}),
}
BROUGHT = {"groups": {"strata": STRATA}, "weights": {"sample_weight": 1.0 + STRATA}}


def rows(outputs, which):
    if isinstance(outputs, dict):
        return {name: values[which] for name, values in outputs.items()}
    return outputs[which]


def fitted(name: str, threads: int):
    outputs, settings = FITS[name]
    cp = cx.ScoreAverage(alpha=0.2, kind="logits", random_state=0, threads=threads, **settings)
    brought = {key: values[:N] for key, values in BROUGHT.get(name, {}).items()}
    cp.fit(rows(outputs, slice(0, N)), LABELS[:N], **brought)
    return cp, rows(outputs, slice(N, None)), {k: v[N:] for k, v in BROUGHT.get(name, {}).items()}


def as_one_block(cp, new, brought, *, smoothed: bool):
    """Return the p-values as the definition has them, of the scores of all rows at once."""
    one = cp.predictor_
    checked = one.check(new)
    tau = row_uniforms(checked, slice(0, N), one.key ^ 0x5DEECE66D)[:, None] if smoothed else None
    return one.fitted.pvalues(one.scores(checked), tau, one.row_data(N, **brought))


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch) -> int:
    """So many threads, which have small blocks of rows of their own."""
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    monkeypatch.setattr(module, "SHARED_ENTRIES", 7 * K)
    monkeypatch.setattr("conformix.fit.upper_ends.WORTHWHILE", 2**62)
    monkeypatch.setattr("conformix.scores.blending.PIECE_ENTRIES", 11 * K)
    return request.param


@pytest.mark.parametrize(
    ("name", "smoothed"),
    [
        (name, smoothed)
        for name in FITS
        for smoothed in (False, True)
        if name != "a vote" or not smoothed
    ],
)
def test_p_values_are_those_of_one_block(name: str, smoothed: bool, threads: int) -> None:
    cp, new, brought = fitted(name, threads)
    found = cp.predict_pvalues(new, smoothed=smoothed, **brought)
    assert_array_equal(found, as_one_block(cp, new, brought, smoothed=smoothed))


@pytest.mark.parametrize("name", FITS)
def test_sets_are_those_of_rows_one_by_one(name: str, threads: int) -> None:
    cp, new, brought = fitted(name, threads)
    sets = cp.predict_set(new, **brought)
    for i in range(0, N, 17):
        here = {key: values[i : i + 1] for key, values in brought.items()}
        assert sets.labels(i) == cp.predict_set(rows(new, slice(i, i + 1)), **here).labels(0)
    if name != "exact":
        levels = [0.2, 0.3, 0.4]
        nested = cp.predict_set(new, alpha=levels, **brought)
        for level in levels:
            one = cp.predict_set(new, alpha=level, **brought)
            assert_array_equal(np.asarray(nested.at(level)), np.asarray(one))
            assert [nested.at(level).labels(i) for i in range(N)] == [
                one.labels(i) for i in range(N)
            ]


def test_the_first_bad_row_is_named_whoever_finds_one(threads: int) -> None:
    cp, new, _ = fitted("three scores", threads)
    bad = new.copy()
    bad[[201, 77, 230], 3] = np.nan
    with pytest.raises(cx.errors.InvalidInput, match="row 77, label 3"):
        cp.predict_pvalues(bad)


def test_what_the_user_wrote_is_called_by_the_thread_that_asks(threads: int) -> None:
    called = set()

    class Noted:
        name, learns = "noted", False

        def fit(self, scores, columns):
            def halved(values):
                called.add(threading.get_ident())
                return values / 2

            return halved

    def own(probs):
        called.add(threading.get_ident())
        return probs

    for settings in ({"scores": ("thr", "aps"), "normalize": Noted()}, {"scores": (own, "thr")}):
        cp = cx.ScoreAverage(kind="logits", random_state=0, threads=threads, **settings)
        cp.fit(TIED[:N], LABELS[:N])
        called.clear()
        cp.predict_pvalues(TIED[N:])
        cp.predict_set(TIED[N:], alpha=[0.1, 0.2])
        assert called == {threading.get_ident()}


def test_a_calibration_of_the_users_is_asked_by_the_thread_that_asks(threads: int) -> None:
    called = set()

    class Cut(Single):
        threaded = False  # as where nothing is said

        def at(self, *given):
            called.add(threading.get_ident())
            return super().at(*given)

        def pvalues(self, *given):
            called.add(threading.get_ident())
            return super().pvalues(*given)

    cp, new, _ = fitted("three scores", threads)
    own = replace(cp.predictor_.fitted, cuts=Cut(cp.predictor_.fitted.calibration))
    predictor = replace(cp.predictor_, fitted=own)
    assert_array_equal(predictor.predict_pvalues(new), cp.predict_pvalues(new))
    assert_array_equal(np.asarray(predictor.predict_set(new)), np.asarray(cp.predict_set(new)))
    assert called == {threading.get_ident()}


def test_a_scale_that_works_in_place_leaves_the_outputs_alone(threads: int) -> None:
    class Halved:
        name, learns = "halved", False

        def fit(self, scores, columns):
            def halved(values):
                values *= 0.5
                return values

            return halved

    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    before = probs.copy()
    cp = cx.ScoreAverage("thr", weights=[1.0], normalize=Halved(), threads=threads)
    cp.fit(probs[:N], LABELS[:N])
    cp.predict_set(probs[N:])
    cp.predict_set(probs[N:], alpha=[0.1, 0.2])
    cp.predict_pvalues(probs[N:])
    assert_array_equal(probs, before)


def test_outputs_that_are_the_only_score_are_answered_in_one_long_call(monkeypatch) -> None:
    """Nothing is made of them that would leave the cache, and short calls take longer."""
    probs = RNG.dirichlet(np.ones(50), 3_000)
    cp = cx.ScoreAverage("thr", weights=[1.0], threads=2).fit(probs[:500], np.arange(500) % 50)
    asked, member = [], type(cp.predictor_.fitted).member

    def noted(self, scores, *given):
        asked.append(len(scores))
        return member(self, scores, *given)

    monkeypatch.setattr(type(cp.predictor_.fitted), "member", noted)
    cp.predict_set(probs)
    assert probs.size > 2 * module.SHARED_ENTRIES
    assert asked == [3_000]


def test_p_values_hold_the_scores_of_few_rows() -> None:
    n_classes, n = 100, 6_000
    probs = RNG.dirichlet(np.ones(n_classes), n)
    cp = cx.ScoreAverage("paper", random_state=0, threads=1)
    cp.fit(probs[:1000], RNG.integers(n_classes, size=1000))
    cp.predict_pvalues(probs[:1000])
    tracemalloc.start()
    try:
        cp.predict_pvalues(probs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    answer, tensor = probs.nbytes, 3 * probs.nbytes
    assert peak < answer + tensor
