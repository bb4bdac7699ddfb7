"""Every number of a report is what the library's own calls give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix import InvalidInput, metrics
from conformix.experiments import compare
from conformix.experiments.statistics import interval
from conformix.report import build_report, compare_report
from report.by_hand import counted


def test_measures_are_those_of_evaluate_at_every_level(case) -> None:
    for a, alpha in enumerate(case.report.rows.alphas):
        sets = case.model.predict_set(case.outputs, alpha=alpha)
        for name, value in metrics.evaluate(sets, case.y, alpha=alpha).items():
            assert_array_equal(case.report.measured.columns[name][a, 0], value)


def test_classes_are_those_of_the_class_table(case) -> None:
    sets = case.model.predict_set(case.outputs, alpha=0.05)
    table = metrics.class_table(sets, case.y)
    a = case.report.rows.alphas.index(0.05)
    pairs = {"coverage": "coverage", "low": "low", "high": "high", "size": "mean_size"}
    for ours, theirs in pairs.items():
        assert_array_equal(case.report.classes.columns[ours][a], table[theirs])
    assert_array_equal(case.report.classes.rows, table["rows"])


def test_every_weight_is_calibrated_on_one_half_and_measured_on_the_other(case) -> None:
    found = case.report.weights
    assert len(found.grid) == 1326
    for place in range(0, 1326, 97):
        for a, alpha in enumerate(case.report.rows.alphas):
            labels, hits = counted(case, found.grid[place] / found.resolution, alpha)
            assert (found.totals[a, place], found.hits[a, place]) == (labels, hits)


def test_the_halves_have_no_row_in_common_and_are_all_rows(case) -> None:
    first, second = case.report.rows.halves()
    assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(len(case.y)))


def test_single_scores_of_the_method_table_are_the_corners_of_the_triangle(case) -> None:
    methods, found = case.report.methods, case.report.weights
    for j, name in enumerate(case.report.rows.names):
        place = int(np.flatnonzero(found.grid[:, j] == found.resolution)[0])
        column = methods.names.index(name)
        assert_array_equal(methods.columns["size"][:, column], found.totals[:, place] / found.n)
        assert_array_equal(methods.columns["coverage"][:, column], found.hits[:, place] / found.n)


def two_kinds_of_models(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """One is never far off, the other is right or lost: which is better depends on the level."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 10, n)
    careful = rng.random((n, 10)) * (rng.random((n, 10)) < 0.4) + 1e-3
    careful[np.arange(n), y] = rng.uniform(0.5, 1, n)
    bold = rng.random((n, 10)) * 0.05 + 1e-3
    right = rng.random(n) < 0.88
    bold[np.arange(n), np.where(right, y, (y + 1) % 10)] = 1.0
    return {
        name: p / p.sum(axis=1, keepdims=True) for name, p in (("careful", careful), ("bold", bold))
    }, y


def test_gains_are_against_the_best_single_score_of_the_same_level() -> None:
    outputs, y = two_kinds_of_models(1200)
    first, rest = (
        {m: p[rows] for m, p in outputs.items()} for rows in (slice(400), slice(400, None))
    )
    model = cx.ScoreAverage("thr", random_state=0).fit(first, y[:400])
    table = build_report(model, rest, y[400:], alphas=(0.02, 0.05, 0.2)).methods
    singles = [name for name in table.names if name.endswith(".thr")]
    assert len(set(table.baselines)) == len(singles) == 2, "each is best somewhere"
    for a, baseline in enumerate(table.baselines):
        sizes = dict(zip(table.names, table.columns["size"][a], strict=True))
        assert sizes[baseline] == min(sizes[name] for name in singles)
        gains = [sizes[baseline] - sizes[name] for name in table.names]
        assert_allclose(table.columns["gain"][a], gains, atol=1e-12)


def test_the_first_method_is_the_model_itself(case) -> None:
    sets = case.model.predict_set(case.outputs, alpha=0.2)
    size = interval(np.asarray(sets.sizes))
    a = case.report.rows.alphas.index(0.2)
    columns = case.report.methods.columns
    assert columns["size"][a, 0] == metrics.mean_size(sets)
    assert (columns["size_low"][a, 0], columns["size_high"][a, 0]) == (size.low, size.high)
    assert columns["coverage"][a, 0] == metrics.coverage(sets, case.y)


def test_the_parts_of_a_score_add_up_to_it_and_decide_membership(case) -> None:
    rows = case.report.rows
    pvalues = case.model.predict_pvalues(case.outputs)
    for one in case.report.examples.rows:
        np.testing.assert_allclose(one.parts.sum(axis=1), one.scores, rtol=1e-12)
        assert one.truth in one.labels
        assert_array_equal(one.pvalues, pvalues[one.row, one.labels])
        for a, alpha in enumerate(rows.alphas):
            sets = case.model.predict_set(case.outputs, alpha=alpha)
            assert_array_equal(one.member[a], np.asarray(sets)[one.row, one.labels])
            assert_array_equal(one.member[a], one.scores >= one.thresholds[a])
            assert one.sizes[a] == sets.sizes[one.row]


def test_examples_are_of_the_kind_they_say(case) -> None:
    sets = case.model.predict_set(case.outputs)
    hits = metrics.covered(sets, case.y)
    kinds = {one.kind: one.row for one in case.report.examples.rows}
    assert set(kinds) == {"easy", "typical", "hard", "missed"}
    assert hits[kinds["easy"]]
    assert sets.sizes[kinds["easy"]] == 1
    assert sets.sizes[kinds["hard"]] >= sets.sizes[kinds["typical"]]
    assert not hits[kinds["missed"]]


def test_the_verdict_says_when_rows_are_unlike_the_calibration_rows(case) -> None:
    wrong = (case.y + 1) % 10  # labels of another world
    found = build_report(case.model, case.outputs, wrong, alphas=[0.1])
    assert found.measured.verdicts == ("broken",)
    assert "less than chance allows" in found.measured.sentences[0]


def test_a_level_that_is_not_promised_is_asked_for(cifar10) -> None:
    logits, y = cifar10
    for split, word in (("vfcp", "Promised"), ("efcp", "Asked for")):
        model = cx.ScoreAverage(kind="logits", split=split, search=CANDIDATES[3], random_state=0)
        page = build_report(
            model.fit(logits[:300], y[:300]), logits[300:500], y[300:500], alphas=[0.1]
        ).html()
        assert (f'<dt data-t="wanted">{word}</dt>' in page, ("Promised" in page)) == (
            True,
            split == "vfcp",
        )


@pytest.mark.parametrize("scores", [("thr",), ("thr", "rank"), ("thr", "aps", "rank", "logp")])
@pytest.mark.parametrize("options", [{}, {"split": "exact"}, {"calibration": "class"}], ids=str)
def test_models_of_every_kind_have_a_report(cifar10, scores, options) -> None:
    logits, y = cifar10
    model = cx.ScoreAverage(scores, alpha=0.2, kind="logits", random_state=0, search=CANDIDATES[
        len(scores)], **options)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cx.TrivialSetsWarning)  # few rows per class
        model.fit(logits[:300], y[:300])
        found = build_report(model, logits[300:500], y[300:500], alphas=[0.1])
    for a, alpha in enumerate(found.rows.alphas):
        sets = model.predict_set(logits[300:500], alpha=alpha)
        assert found.measured.columns["mean_size"][a, 0] == metrics.mean_size(sets)
    assert (found.weights is None) == (len(scores) == 1)
    assert "<!doctype html>" in found.html()


CANDIDATES = {d: np.vstack([np.eye(d), np.full(d, 1 / d)]) for d in (1, 2, 3, 4)}


def test_strata_reach_the_sets(cifar10) -> None:
    logits, y = cifar10
    strata = np.where(np.arange(len(y)) % 2, "odd", "even")
    model = cx.ScoreAverage("thr", alpha=0.2, kind="logits", calibration="group", random_state=0)
    model.fit(logits[:400], y[:400], strata=strata[:400])
    new = slice(400, 600)
    found = build_report(model, logits[new], y[new], alphas=[], strata=strata[new])
    sets = model.predict_set(logits[new], strata=strata[new])
    assert found.measured.columns["mean_size"][0, 0] == metrics.mean_size(sets)


def test_what_has_no_report_is_refused_in_one_sentence(case) -> None:
    with pytest.raises(
        InvalidInput, match="a report is about a fitted ScoreAverage or RegressionAverage; got None"
    ):
        build_report(None, case.outputs, case.y)
    with pytest.raises(cx.NotFitted):
        build_report(cx.ScoreAverage("paper"), case.outputs, case.y)
    with pytest.raises(InvalidInput, match="classes must name all 10 classes; got 2"):
        build_report(case.model, case.outputs, case.y, class_names=["a", "b"])
    with pytest.raises(InvalidInput, match="alpha must be a number strictly between 0 and 1"):
        build_report(case.model, case.outputs, case.y, alphas=[1.5])


def test_a_comparison_has_the_numbers_of_compare(tmp_path) -> None:
    settings = {
        "models": ["llama13b_prompt0"], "runs": 2, "rows": 400, "resolution": 10, "workers": 1,
        "folder": tmp_path,
    }  # fmt: skip
    found = compare_report("mmlu_llama13b", alpha=0.2, levels=[0.1], **settings)
    table = found.report.methods
    assert found.report.rows.alphas == (0.1, 0.2)
    for a, alpha in enumerate((0.1, 0.2)):
        again = compare("mmlu_llama13b", alpha=alpha, **settings)
        assert table.sentences[a].lower() == again.verdict.sentence.lower()
        for record in again.summary():
            place = table.names.index(record["method"])
            assert table.columns["size"][a, place] == record["size"]
            assert table.columns["coverage"][a, place] == record["coverage"]
            assert table.columns["gain"][a, place] == record["saved"]
    assert found.comparison.alpha == 0.2
    assert found.report.rows.n == 80
