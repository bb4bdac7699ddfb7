"""What ``scores="auto"`` learns from tensors: columns to the last bit, the same coefficients."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.kernels.arrays import to_host
from conformix.scores import evidence, likelihood
from conformix.scores.evidence import fit_evidence, log_spreads
from conformix.scores.learnt import parts_of
from conformix.scores.names import parse_score
from conformix.scores.ranked import ranked_rows

torch = pytest.importorskip("torch")


def rows(which: str) -> np.ndarray:
    """Probabilities: smooth ones, ones in eighths with zeros and ties, rows that are all alike."""
    rng = np.random.default_rng(3)
    if which == "eighths":
        return rng.multinomial(8, [0.5, 0.2, 0.1, 0.1, 0.1, 0.0], size=90) / 8
    probs = rng.dirichlet(np.full(12, 0.3), size=130)
    if which == "alike":
        probs[::3] = 1 / 12  # the pattern is zero
        probs[1] = np.eye(12)[4]  # and one label has nearly all its mass in one row
    return probs


@pytest.mark.parametrize("which", ["smooth", "eighths", "alike"])
@pytest.mark.parametrize("name", ["likeness", "kin", "rarity"])
def test_rows_that_taught_a_score_score_the_same_on_a_device(on_device, which, name) -> None:
    probs = rows(which)
    parts = parts_of(len(probs), None, probs.shape[1])
    score = parse_score(name)
    found = []
    for values in (probs, on_device(probs)):
        ranked = ranked_rows(values, "probs", "exact")
        sums = score.sums(ranked)
        left_out = score.left_out(ranked, sums, parts)
        assert isinstance(left_out, torch.Tensor) == isinstance(values, torch.Tensor)
        found.append((score.learnt(sums).factors, to_host(left_out)))
    np.testing.assert_array_equal(*(factors for factors, _ in found))
    np.testing.assert_array_equal(*(plane for _, plane in found))


def problem(n: int = 400, n_classes: int = 9, p: int = 4):
    rng = np.random.default_rng(0)
    planes = rng.normal(size=(p, n, n_classes))
    planes[0] *= 3
    y = (planes[0] + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return np.moveaxis(planes, 0, -1), y


def test_value_and_derivatives_on_a_device_are_those_of_the_host(on_device, monkeypatch) -> None:
    scores, y = problem()
    prior, c = np.zeros(4), np.array([0.7, 0.0, 0.2, 0.1])
    on_host = likelihood.Likelihood(scores, y, prior, 0.5)(c)
    monkeypatch.setattr(likelihood, "DEVICE_ENTRIES", 1000)  # in many blocks
    there = likelihood.Likelihood(on_device(scores), y, prior, 0.5)(c)
    for host, device in zip(on_host, there, strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-12)


@pytest.mark.parametrize("unsure", [0.0, 0.01, 0.51])
def test_coefficients_near_a_turn_of_rounding_are_those_of_the_host(
    on_device, monkeypatch, unsure
) -> None:
    scores, y = problem()
    prior = np.array([1.0, 0, 0, 0])
    expected = likelihood.most_likely(scores, y, prior, 0.5)
    places = []
    init = likelihood.Likelihood.__init__

    def noted(self, scores, *rest) -> None:
        places.append(isinstance(scores, torch.Tensor))
        init(self, scores, *rest)

    monkeypatch.setattr(likelihood.Likelihood, "__init__", noted)
    monkeypatch.setattr(likelihood, "UNSURE", unsure)
    np.testing.assert_array_equal(
        likelihood.most_likely(on_device(scores), y, prior, 0.5), expected
    )
    assert places == ([True, False] if unsure > 0.5 else [True])


def test_coefficients_are_where_the_likelihood_is_flat(on_device) -> None:
    """To far more digits than are kept, so that last bits of sums change none of them."""
    scores, y = problem()
    prior = np.array([1.0, 0, 0, 0])
    on_host = likelihood._minimum(likelihood.Likelihood(scores, y, prior, 0.5))
    there = likelihood._minimum(likelihood.Likelihood(on_device(scores), y, prior, 0.5))
    np.testing.assert_allclose(there, on_host, atol=1e-11)
    _, gradient, _ = likelihood.Likelihood(scores, y, prior, 0.5)(on_host)
    assert np.abs(gradient[on_host > 0]).max() < 1e-8


@pytest.mark.parametrize("split", ["holdout", "exact"])
def test_auto_learns_the_same_from_tensors(on_device, smooth, split) -> None:
    logits, y = smooth
    outputs = {"one": logits, "other": logits[:, ::-1] + logits}
    fits = [
        cx.ScoreAverage("auto", alpha=0.1, kind="logits", split=split, random_state=0).fit(
            {name: put(values[:400].copy()) for name, values in outputs.items()}, y[:400]
        )
        for put in (np.asarray, on_device)
    ]
    host, device = (fit.blend_ for fit in fits)
    assert [str(c) for c in host.columns] == [str(c) for c in device.columns]
    np.testing.assert_array_equal(host.coefficients, device.coefficients)
    for one, other in zip(host.columns, device.columns, strict=True):
        if one.score.learns:
            np.testing.assert_array_equal(one.score.factors, other.score.factors)
    new = {name: values[400:].copy() for name, values in outputs.items()}
    there = fits[1].predict_set({name: on_device(values) for name, values in new.items()})
    np.testing.assert_array_equal(fits[0].predict_set(new).mask, to_host(there.mask))


def drawn(n: int, n_classes: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    truth = rng.normal(size=(n, n_classes)) * rng.uniform(0.5, 3.0, size=(n, 1))
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return truth * rng.uniform(0.5, 3.0, size=(n, 1)), y


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("split", ["holdout", "exact"])
def test_the_evidence_of_tensors_is_that_of_the_host(on_device, kind: str, split: str) -> None:
    logits, y = drawn(360)
    values = logits if kind == "logits" else ranked_rows(logits, "logits", "exact").probs
    fits = [
        cx.ScoreAverage("auto", alpha=0.1, kind=kind, random_state=0, split=split).fit(
            put(values[:300].copy()), y[:300]
        )
        for put in (np.asarray, on_device)
    ]
    assert fits[0].blend_.evidence == fits[1].blend_.evidence is not None
    there = fits[1].predict_set(on_device(values[300:].copy()))
    np.testing.assert_array_equal(to_host(there.mask), fits[0].predict_set(values[300:]).mask)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_the_evidence_of_tensors_of_three_models_is_that_of_the_host(on_device, kind: str) -> None:
    logits, y = drawn(1660)
    noise = np.random.default_rng(7).normal(size=(2, *logits.shape))
    outputs = {"b": logits, "c": 0.7 * logits + noise[0], "a": logits + 2 * noise[1]}
    if kind == "probs":
        outputs = {m: ranked_rows(v, "logits", "exact").probs for m, v in outputs.items()}
    fits = [
        cx.ScoreAverage("auto", alpha=0.1, kind=kind, random_state=0).fit(
            {m: put(v[:1600].copy()) for m, v in outputs.items()}, y[:1600]
        )
        for put in (np.asarray, on_device)
    ]
    assert fits[0].blend_.evidence == fits[1].blend_.evidence is not None
    later = {m: v[1600:].copy() for m, v in outputs.items()}
    there = fits[1].predict_set({m: on_device(v) for m, v in later.items()})
    np.testing.assert_array_equal(to_host(there.mask), fits[0].predict_set(later).mask)


@pytest.mark.parametrize("evident", [False, True])
def test_a_blend_without_learnt_scores_is_that_of_the_host(
    on_device, monkeypatch, evident: bool
) -> None:
    monkeypatch.setattr("conformix.scores.blend.LEARNT", ())
    if not evident:  # all scores rise with the outputs, and rows are sorted on a device
        monkeypatch.setattr("conformix.scores.blend.MANY_CLASSES", 99)
    logits, y = drawn(1260)
    fits = [
        cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0).fit(
            put(logits[:300].copy()), y[:300]
        )
        for put in (np.asarray, on_device)
    ]
    assert all((fit.blend_.evidence is not None) == evident for fit in fits)
    there = fits[1].predict_set(on_device(logits[300:].copy()))
    np.testing.assert_array_equal(to_host(there.mask), fits[0].predict_set(logits[300:]).mask)


def test_a_device_next_to_a_turn_of_rounding_asks_the_host(on_device, monkeypatch) -> None:
    logits, y = drawn(90)
    model = ranked_rows(logits, "logits", "exact")
    expected, asked = fit_evidence(logits, y, log_spreads(model)), []
    odds = evidence.Odds.__init__

    def noted(self, log_probs, *rest) -> None:
        asked.append(isinstance(log_probs, np.ndarray))
        odds(self, log_probs, *rest)

    monkeypatch.setattr(evidence.Odds, "__init__", noted)
    for unsure, places in ((0.0, [False]), (0.51, [False, True])):
        asked.clear()
        monkeypatch.setattr("conformix.scores.likelihood.UNSURE", unsure)
        assert fit_evidence(on_device(logits), y, log_spreads(model)) == expected
        assert asked == places


def test_contributions_of_a_blend_of_tensors_are_those_of_the_host(on_device) -> None:
    logits, y = drawn(360)
    found = []
    for put in (np.asarray, on_device):
        cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)
        cp.fit(put(logits[:300].copy()), y[:300])
        found.append(cx.contributions(cp, put(logits[300:].copy()), y[300:]))
    assert [repr(one) for one in found[0]] == [repr(one) for one in found[1]]
