"""``scores="auto"``: a blend learnt on the tuning rows, calibrated on the others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank
from conformix.errors import InvalidInput
from conformix.fit import rows as budget
from conformix.fit.blend import learn_blend
from conformix.fit.rows import array_rows
from conformix.fit.settings import resolve
from conformix.scores import Thr
from conformix.scores.blend import DICTIONARY, plan_rows
from conformix.scores.likelihood import most_likely
from conformix.scores.ranked import Ranked
from conformix.splits import Exact, Roles, ValidityFirst
from conformix.testing import leave_one_out


@pytest.fixture(scope="module")
def cifar10() -> cx.datasets.Dataset:
    return cx.datasets.load("cifar10")


def rows_of(outputs: dict, rows: slice) -> dict:
    return {model: values[rows] for model, values in outputs.items()}


def auto(**options: object) -> cx.ScoreAverage:
    return cx.ScoreAverage("auto", **({"kind": "logits", "random_state": 0} | options))


@pytest.mark.parametrize("split", ["vfcp", "exact"])
def test_one_model_or_many_fit_and_predict_with_the_exact_guarantee(cifar10, split) -> None:
    y = cifar10.labels
    for outputs in ({"": cifar10.outputs["vgg16"]}, cifar10.outputs):
        cp = auto(alpha=0.05, split=split).fit(rows_of(outputs, slice(0, 1000)), y[:1000])
        sets = cp.predict_set(rows_of(outputs, slice(5000, 10_000)))
        assert cp.guarantee_.kind == "exact"
        assert cx.metrics.coverage(sets, y[5000:]) > 0.93
        assert cx.metrics.mean_size(sets) < 1.3


def test_probabilities_and_their_logarithms_give_the_same_sets(cifar10) -> None:
    logits, y = cifar10.outputs["vgg16"][:1200], cifar10.labels[:1200]
    probs = Ranked(logits, "logits").probs
    of_logits = auto(alpha=0.05).fit(logits[:600], y[:600]).predict_set(logits[600:])
    of_probs = auto(alpha=0.05, kind="probs").fit(probs[:600], y[:600]).predict_set(probs[600:])
    assert np.mean(of_logits.mask != of_probs.mask) < 1e-3  # rounding of exp and log, at most


def test_the_rows_that_the_blend_learns_from_do_not_calibrate(cifar10) -> None:
    logits, y = cifar10.outputs["vgg16"][:600], cifar10.labels[:600].copy()
    cp = auto(alpha=0.1).fit(logits, y)
    share = plan_rows(600, 0.1, len(DICTIONARY), 10) / 600
    rng = np.random.default_rng(0)
    rng.spawn(1)
    roles = ValidityFirst(share).roles(600, 0, rng)
    own = cp.predictor_.scores(cp.predictor_.check(logits))[roles.calibrate, y[roles.calibrate], 0]
    np.testing.assert_array_equal(np.sort(own), cp.predictor_.fitted.calibration)
    wrong = y.copy()
    wrong[roles.calibrate] = (wrong[roles.calibrate] + 1) % 10  # labels it must not have read
    np.testing.assert_array_equal(
        auto(alpha=0.1).fit(logits, wrong).blend_.coefficients, cp.blend_.coefficients
    )


@pytest.mark.parametrize("seed", range(3))
def test_vfcp_with_a_learnt_blend_covers_k_of_any_n_plus_one_rows(cifar10, seed) -> None:
    rows = np.random.default_rng(seed).permutation(10_000)
    outputs = {model: values[rows] for model, values in cifar10.outputs.items()}
    y = cifar10.labels[rows]
    cp = auto(alpha=0.2).fit(rows_of(outputs, slice(0, 200)), y[:200])
    report = leave_one_out(cp.recalibrate, rows_of(outputs, slice(200, 225)), y[200:225], alpha=0.2)
    assert report.holds, str(report)


def exact_on(blend_rows: tuple, outputs: dict, y: np.ndarray, alpha: float) -> object:
    """The exact split on `outputs`, with the blend learnt once on other rows."""
    fixed = auto(alpha=alpha, split="exact").fit(*blend_rows)

    class Calibrated:
        def __init__(self, some: dict, labels: np.ndarray) -> None:
            predictor = fixed.predictor_
            scores = predictor.scores(predictor.check(some))
            old = predictor.fitted
            self.predictor, self.scores = predictor, scores
            self.fitted = type(old)(
                scores, labels, old.weights, old.transform, alpha, old.normalizer
            )

        def predict_set(self, some: dict) -> np.ndarray:
            scores = self.predictor.scores(self.predictor.check(some))
            return self.fitted.member(scores, alpha)

    return leave_one_out(Calibrated, outputs, y, alpha=alpha)


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_split_over_temperatures_covers_k_of_any_n_plus_one_rows(cifar10, seed) -> None:
    rows = np.random.default_rng(100 + seed).permutation(10_000)
    outputs = {model: values[rows] for model, values in cifar10.outputs.items()}
    y = cifar10.labels[rows]
    learnt = rows_of(outputs, slice(0, 120)), y[:120]
    report = exact_on(learnt, rows_of(outputs, slice(120, 150)), y[120:150], 0.2)
    assert report.holds, str(report)


def test_a_bad_model_does_not_hurt(cifar10) -> None:
    y = cifar10.labels
    good = {m: cifar10.outputs[m] for m in ("vgg16", "wideresnet_16_4")}
    bad = good | {"noise": np.random.default_rng(0).normal(size=(10_000, 10))}
    sizes = {}
    for name, outputs in (("good", good), ("bad", bad)):
        found = []
        for start in range(0, 3000, 1000):
            cp = auto(alpha=0.02).fit(
                rows_of(outputs, slice(start, start + 1000)), y[start:][:1000]
            )
            sets = cp.predict_set(rows_of(outputs, slice(4000, 10_000)))
            found.append(cx.metrics.size_at_coverage(blended(cp, outputs), y, coverage=0.98))
            assert sets.mask.shape == (6000, 10)
        sizes[name] = float(np.mean(found))
    assert sizes["bad"] < 1.02 * sizes["good"]
    total = sum(
        one.share for one in cx.contributions(cp, bad, y, by="model") if one.name == "noise"
    )
    assert total < 0.1


def blended(cp: cx.ScoreAverage, outputs: dict) -> np.ndarray:
    return cp.predictor_.scores(cp.predictor_.check(outputs))[..., 0]


@pytest.mark.parametrize("split", ["vfcp", "exact", ValidityFirst(0.4), Exact(shortlist=3)])
def test_a_saved_model_predicts_the_same_sets(cifar10, split, tmp_path) -> None:
    y = cifar10.labels
    cp = auto(alpha=0.05, split=split).fit(rows_of(cifar10.outputs, slice(0, 400)), y[:400])
    cp.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    new = rows_of(cifar10.outputs, slice(400, 900))
    np.testing.assert_array_equal(again.predict_set(new).mask, cp.predict_set(new).mask)
    assert again.scores == "auto"
    np.testing.assert_array_equal(again.blend_.coefficients, cp.blend_.coefficients)


def test_a_file_whose_blend_names_an_unknown_model_is_refused(cifar10, tmp_path) -> None:
    path = tmp_path / "model.json"
    auto().fit(rows_of(cifar10.outputs, slice(0, 100)), cifar10.labels[:100]).save(path)
    path.write_text(path.read_text().replace('"lenet5",\n     "rank"', '"lenet6",\n     "rank"'))
    with pytest.raises(cx.InvalidInput, match="name a model that is not among"):
        cx.load(path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"split": "efcp"}, 'split must be "holdout" (vfcp) or "exact"; got "efcp".'),
        ({"weights": [1.0]}, 'scores="auto" finds its own weights'),
        ({"search": "grid"}, "leave search at its default"),
        ({"objective": "singletons"}, "leave objective at its default"),
    ],
)
def test_what_does_not_go_with_auto_is_refused_in_one_sentence(options, sentence) -> None:
    with pytest.raises(cx.InvalidInput, match=re.escape(sentence)):
        auto(**options).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])


def test_two_classes_zero_probabilities_truncated_rows_and_a_handful_of_rows() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=40).round(1)  # exact zeros and ones among them
    y = (rng.uniform(size=40) < p).astype(int)
    cp = auto(kind="probs", alpha=0.2).fit(np.column_stack([1 - p, p]), y)
    assert cp.predict_set([[0.5, 0.5]]).mask.shape == (1, 2)
    top = cx.TopK(rng.integers(0, 50, (60, 1)), np.full((60, 1), 0.6), n_classes=50)
    cp = auto(kind="probs", alpha=0.2).fit(top, rng.integers(0, 50, 60))
    assert cp.predict_set(top.subset(slice(0, 5))).mask.shape == (5, 50)
    with pytest.warns(cx.TrivialSetsWarning):
        assert auto(kind="probs", alpha=0.2).fit([[0.3, 0.7]] * 3, [1, 1, 0]).n_classes_ == 2


def test_the_classifier_and_allow_empty_take_auto() -> None:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB

    X, y = load_digits(return_X_y=True)
    models = [("forest", RandomForestClassifier(20, random_state=0)), ("nb", GaussianNB())]
    clf = cx.ConformalClassifier(models, scores="auto", alpha=0.05, random_state=0)
    sets = clf.fit(X[:1200], y[:1200]).predict_set(X[1200:])
    assert sets.sizes.mean() < 1.6
    clf = cx.ConformalClassifier(models, scores="auto", allow_empty=False, random_state=0)
    assert clf.fit(X[:600], y[:600]).predict_set(X[600:]).sizes.min() >= 1


def test_a_blend_is_fitted_and_predicts_without_compiled_code() -> None:
    code = (
        "import sys; sys.modules['numba'] = None; import conformix as cx, numpy as np;"
        "P = np.full((60, 3), 1 / 3); cp = cx.ScoreAverage('auto').fit(P, [0, 1, 2] * 20);"
        "assert cp.predict_set(P).mask.all(); print(cp.search_.strategy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("blend by the likelihood of")


@pytest.mark.parametrize("n", [20, 100, 299, 300, 1000, 5000, 60_000])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_the_planned_rows_leave_a_whole_rank_where_that_is_possible(n, alpha) -> None:
    aside = plan_rows(n, alpha, n_scores=5, n_classes=100)
    rest = n - aside
    least = 1 if n > round(1 / alpha) - 1 else 0  # where all are needed to calibrate, none tunes
    assert least <= aside <= max(n // 2, 1) + 1
    tight = (rest + 1) * alpha == pytest.approx(round((rest + 1) * alpha))
    possible = round(1 / alpha) - 1 <= n - n / 2 and (n - n / 6) * alpha >= 2
    assert tight or not possible
    assert not tight or conformal_rank(rest, alpha) == pytest.approx((1 - alpha) * (rest + 1))


@pytest.mark.parametrize(("drawn_to", "ridge"), [(0.2, 0.5), (0.9, 200.0)], ids=["weak", "strong"])
def test_the_coefficients_are_the_constrained_maximum_of_the_likelihood(
    drawn_to: float, ridge: float
) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 5, 4))
    z = scores @ np.array([1.0, 0.5, 0.0, 0.0]) - 0.5 * scores[..., 3]
    shares = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (shares.cumsum(axis=1) < rng.uniform(size=(300, 1))).sum(axis=1)
    prior = np.array([drawn_to, 0.0, 0.0, 0.0])
    found = most_likely(scores, y, prior, ridge)

    def value(c: np.ndarray) -> float:
        z = scores @ c
        penalty = ridge * ((c - prior) ** 2).sum()
        return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(300), y]).sum() + penalty)

    assert found[3] == 0  # it would be negative
    for _ in range(200):
        other = np.maximum(found + rng.normal(scale=0.05, size=4), 0)
        assert value(other) >= value(found) - 1e-6


def test_the_split_has_the_rows_that_the_blend_has_seen(cifar10) -> None:
    settings = resolve("auto", alpha=0.1, kind="logits")
    rows = array_rows(cifar10.outputs["vgg16"][:300], cifar10.labels[:300], settings)
    chosen = learn_blend(rows, settings, np.random.default_rng(5))
    split = ValidityFirst(plan_rows(300, 0.1, 5, 10) / 300)
    assert chosen.settings.split == split
    drawn = split.roles(300, 0, np.random.default_rng(5))
    for ours, usual in zip(chosen.roles, drawn, strict=True):
        np.testing.assert_array_equal(ours, usual)


def test_the_shell_takes_auto_and_says_what_the_blend_is_made_of(cifar10, tmp_path, capsys) -> None:
    from conformix.cli import main

    file, model = tmp_path / "outputs.npz", tmp_path / "model.json"
    np.savez(file, labels=cifar10.labels[:200], **rows_of(cifar10.outputs, slice(0, 200)))
    assert main(["fit", str(file), "--scores", "auto", "--out", str(model), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scores"] == ["blend.thr"]
    assert sum(told["blend"].values()) > 0
    assert cx.load(model).scores == "auto"


def test_auto_beside_another_score_does_not_swallow_it(cifar10) -> None:
    logits, labels = cifar10.outputs["vgg16"][:900], cifar10.labels[:900]
    for scores in (["auto", Thr()], [Thr(), "auto"]):
        with pytest.raises(InvalidInput, match="stands alone"):
            cx.ScoreAverage(scores, kind="logits").fit(logits, labels)


class Elsewhere(ValidityFirst):
    """A split that never draws the same rows twice."""

    drawn: ClassVar[list[Roles]] = []

    def roles(self, n, n_test, rng, groups=None) -> Roles:
        order = np.random.default_rng(len(self.drawn)).permutation(n)
        tune, rest = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
        self.drawn.append(Roles(tune, tune, rest))
        return self.drawn[-1]


@pytest.mark.parametrize("tensor_bytes", [2**30, 1000])
def test_the_rows_of_a_blend_are_drawn_once(tensor_bytes, monkeypatch, cifar10) -> None:
    """Drawn again, another split would calibrate on rows whose labels the blend has seen."""
    logits, labels = cifar10.outputs["vgg16"][:900], cifar10.labels[:900]
    monkeypatch.setattr(budget, "TENSOR_BYTES", tensor_bytes)
    Elsewhere.drawn.clear()
    cp = cx.ScoreAverage("auto", kind="logits", split=Elsewhere(), random_state=0)
    cp.fit(logits, labels)
    (roles,) = Elsewhere.drawn
    assert cp.predictor_.fitted.n == len(roles.calibrate)
    other = labels.copy()
    other[roles.calibrate] = 0
    Elsewhere.drawn.clear()
    again = cx.ScoreAverage("auto", kind="logits", split=Elsewhere(), random_state=0)
    assert_array_equal(again.fit(logits, other).blend_.coefficients, cp.blend_.coefficients)


def test_blocks_of_a_blend_and_what_their_rows_bring_along_stay_together(monkeypatch) -> None:
    """Sets of groups with thresholds of their own, in blocks of seven rows and two threads."""
    data = cx.datasets.load("cifar10")
    logits, y = data.outputs["vgg16"][:700], data.labels[:700]
    groups = np.arange(700) * 7919 % 3
    cp = cx.ScoreAverage(
        "auto", alpha=0.1, kind="logits", calibration="group", random_state=0, threads=2
    )
    cp.fit(logits[:600], y[:600], strata=groups[:600])
    new, theirs = logits[600:], groups[600:]
    whole = np.asarray(cp.predict_set(new, strata=theirs))
    monkeypatch.setattr("conformix.scores.upper_rows.BLOCK_OUTPUTS", 7 * logits.shape[1])
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    np.testing.assert_array_equal(np.asarray(cp.predict_set(new, strata=theirs)), whole)


def test_a_blend_that_is_held_and_one_that_is_computed_when_asked_for_fit_alike(
    monkeypatch,
) -> None:
    data = cx.datasets.load("cifar10")
    logits, y = data.outputs["vgg16"][:500], data.labels[:500]
    cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)
    held = cp.fit(logits, y).predictor_.fitted
    monkeypatch.setattr("conformix.scores.blend.COMPUTED_TOGETHER", 0)
    asked_for = cp.fit(logits, y).predictor_.fitted
    np.testing.assert_array_equal(held.calibration, asked_for.calibration)
    assert held.held_out_size == asked_for.held_out_size
