"""The report speaks to somebody who has never heard of conformal sets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix import metrics
from conformix.experiments.statistics import interval
from conformix.report import build_report
from conformix.report.methods import AGAIN, AVERAGE, MODEL, in_words
from conformix.report.opening import in_braces
from conformix.report.page import texts

NAMES = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(scope="module")
def auto(cifar10: tuple[np.ndarray, np.ndarray]) -> tuple[cx.ScoreAverage, Any, np.ndarray, Any]:
    """A model by the default scores, rows, labels, and their report."""
    logits, y = cifar10
    model = cx.ScoreAverage("auto", alpha=0.05, kind="logits", random_state=0)
    model.fit(logits[:1000], y[:1000])
    new, labels = logits[1000:2000], y[1000:2000]
    return model, new, labels, build_report(model, new, labels, class_names=NAMES, alphas=[0.01])


def plainly(page: str) -> str:
    """The first paragraph of a page, as text."""
    inner = re.search(r'<p class="plainly">(.*?)</p>', page, re.DOTALL)[1]
    return re.sub(r"<[^>]+>", "", inner).replace("\u202f", " ")


def test_the_first_paragraph_says_what_a_set_is_and_what_to_do_with_two_labels(auto) -> None:
    page = auto[3].html()
    said = plainly(page)
    assert said.startswith(
        "For every row this model names a set of labels instead of a single one, made so that the "
        "true label is in it for at least 95 % of new rows like these. For example, row "
    )
    assert "With two or more, the truth is likely among them and the model cannot tell" in said
    assert "With none, no label fits: look at the row." in said
    assert page.index('class="plainly"') < page.index('class="tone"')


def test_the_example_of_the_first_paragraph_is_a_set_of_the_model(auto) -> None:
    model, new, y, report = auto
    row, names = report.opening.row, np.array(NAMES)
    for a, alpha in enumerate(report.rows.alphas):
        sets = model.predict_set(new, alpha=alpha)
        members = [NAMES[label] for label in sets.labels(row)]
        held = "holds" if y[row] in sets.labels(row) else "misses"
        assert report.opening.sentences[a] == (
            f"For example, row {row} (counted from 0) has the set {{{', '.join(members)}}}, which "
            f"{held} its true label, {names[y[row]]}."
        )
    fitted = model.predict_set(new)
    two = (fitted.sizes == 2) & metrics.covered(fitted, y)
    assert row == np.flatnonzero(two)[0]


def test_an_example_that_misses_the_truth_is_not_embellished(auto) -> None:
    model, new, _, _ = auto
    worst = np.asarray(new[:20]).argmin(axis=1)  # in no set
    report = build_report(model, new[:20], worst, class_names=NAMES, alphas=[])
    truth = NAMES[worst[report.opening.row]]
    assert report.opening.sentences[0].endswith(f"}}, which misses its true label, {truth}.")


def test_long_sets_are_counted_and_empty_ones_named() -> None:
    assert in_braces([*"abcdefg"]) == "the set {a, b, c, d, e and 2 more}"
    assert in_braces([]) == "the empty set"


def test_a_model_by_the_default_scores_is_compared_with_plain_ones_and_their_average(auto) -> None:
    _, new, y, report = auto
    table = report.methods
    assert table.names == (MODEL, AGAIN, "thr", "aps", "rank", AVERAGE)
    assert table.guarantees == ("exact", "exact", "exact", "exact", "exact", "approximate")
    for name, scores in (("thr", "thr"), ("aps", "aps"), (AVERAGE, "paper")):
        sizes = np.zeros((len(report.rows.alphas), len(y)))
        for half, test in report.rows.both_ways():  # the library's own calls, on either half
            again = cx.ScoreAverage(scores, alpha=0.05, split="all-rows", kind="logits",
                                    random_state=0).fit(new[half], y[half])  # fmt: skip
            for a, alpha in enumerate(report.rows.alphas):
                sizes[a, test] = again.predict_set(new[test], alpha=alpha).sizes
        place = table.names.index(name)
        assert_array_equal(table.columns["size"][:, place], sizes.mean(axis=1))


def test_the_first_paragraph_says_how_much_smaller_than_the_plain_method(cifar100) -> None:
    logits, y = cifar100
    model = cx.ScoreAverage("auto", alpha=0.05, kind="logits", random_state=0)
    model.fit(logits[:2000], y[:2000])
    report = build_report(model, logits[2000:4000], y[2000:4000], alphas=[])
    sizes = dict(zip(report.methods.names, report.methods.columns["size"][0], strict=True))
    ours, plain = sizes[AGAIN], sizes["thr"]
    said = report.methods.sentences[0]
    assert said.startswith(f"The sets are {100 * (1 - ours / plain):.1f} % (95 % interval ")
    assert said.endswith(
        "smaller than those of the plain method (thr, the probability of a label alone): "
        f"{ours:.2f} labels on average in place of {plain:.2f}, both calibrated on these rows."
    )
    assert said in plainly(report.html())


def test_a_model_that_loses_to_the_plain_method_is_told_so() -> None:
    plain = np.tile([1, 2, 3, 2], 100)
    more = plain + np.tile([1, 0, 1, 1], 100)
    saved = interval(plain - more)
    shares = f"37.5 % (95 % interval {-50 * saved.high:.1f} to {-50 * saved.low:.1f})"
    lost = (
        "The plain method has the smaller sets here: thr, the probability of a label alone, needs "
        f"2.00 labels on average and this model 2.75, which is {shares} more, both calibrated on "
        "these rows. "
    )
    advice = 'On these rows the model does not pay: fit scores="thr" instead.'
    assert in_words("thr", more, plain, None) == lost + advice
    later = "The model was fitted for alpha = 0.1, not for this level."
    assert in_words("thr", more, plain, 0.1) == lost + later
    assert "about as large" in in_words("thr", plain, plain, None)


def test_the_plain_method_is_compared_whatever_scores_are_averaged(cifar10) -> None:
    logits, y = cifar10
    for scores, names in (
        (("aps", "rank"), (MODEL, AGAIN, "aps", "rank", "uniform weights", "thr")),
        ("aps", (MODEL, "aps", "thr")),
        ("thr", (MODEL,)),
    ):
        model = cx.ScoreAverage(scores, kind="logits", random_state=0).fit(logits[:300], y[:300])
        table = build_report(model, logits[300:600], y[300:600], alphas=[]).methods
        assert table.names == names
        assert ("This model is the plain method itself" in table.sentences[0]) == (scores == "thr")


def test_a_level_that_was_not_fitted_would_have_held(case) -> None:
    report = case.report
    for a, one in enumerate(report.measured.judged):
        later = a != report.rows.fitted_place
        assert ("would have" in one.sentence) == later
        plain = case.model.verdict(case.outputs, case.y, alpha=report.rows.alphas[a])
        assert plain.word == one.word
        assert "would have" not in plain.sentence
    shown = texts(report)
    assert set(shown["wanted"]) == {"Promised", "Would be promised"}
    assert {"Promise would have held", "Would have been within chance"} >= {
        word for a, word in enumerate(shown["verdict"]) if a != report.rows.fitted_place
    }


def test_parts_for_experts_are_folded(case) -> None:
    page = case.report.html()
    for part in ("weights", "guarantees", "settings"):
        inner = re.search(rf'<section id="{part}"(.*?)</section>', page, re.DOTALL)[1]
        assert '<details class="fold"><summary><h2' in inner
        assert inner.rstrip().endswith("</details>")
    for part in ("promise", "methods", "classes", "examples", "reading"):
        inner = re.search(rf'<section id="{part}"(.*?)</section>', page, re.DOTALL)[1]
        assert "fold" not in inner
