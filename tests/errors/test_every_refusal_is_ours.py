"""Bad input is refused by this library's own error, never by one that escapes from NumPy.

The wording is free here: each message must name the argument. Warnings point at the caller's line.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix import guarantees as gs
from conformix import metrics
from conformix.errors import InvalidInput
from conformix.fit.contributions import contributions
from conformix.search import GridSearch, landscape, search_weights
from conformix.splits import ValidityFirst

P = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
Y = np.array([0, 1, 0])
S = cx.score_tensor(P)
RAGGED = [[0], [1, 2], [0]]


def fit(outputs: Any = P, y: Any = Y, groups: Any = None, **options: Any) -> cx.ScoreAverage:
    options = {"alpha": 0.5, "split": "vfcp", "random_state": 0, **options}
    return cx.ScoreAverage(**{"scores": "paper", **options}).fit(outputs, y, groups=groups)


REFUSALS: list[tuple[str, str, Callable[[], object]]] = [
    ("resolution zero in a search", "resolution",
     lambda: search_weights(S, Y, alpha=0.5, resolution=0)),
    ("resolution zero in a strategy", "resolution",
     lambda: fit(split="efcp", search=GridSearch(0))),
    ("ragged rows inside a list of models", "outputs",
     lambda: fit([[[0.5, 0.5], [1.0]]] * 2, Y[:2])),
    ("ragged labels", r"\by\b", lambda: fit(y=RAGGED)),
    ("ragged groups", "groups", lambda: fit(groups=RAGGED)),
    ("groups that do not compare", "groups", lambda: fit(groups=[None, 1, "a"])),
    ("weights of text", "weights", lambda: fit(weights=["a", "b", "c"])),
    ("candidates of text", "weights",
     lambda: search_weights(S, Y, alpha=0.5, search=[["a", "b", "c"]])),
    ("ragged candidates", "weights",
     lambda: search_weights(S, Y, alpha=0.5, search=[[1, 0, 0], [1, 0]])),
    ("no scores at all", "score", lambda: cx.score_tensor(P, None)),
    ("a number for scores", "score", lambda: fit(scores=5)),
    ("a split class instead of a split", "split", lambda: fit(split=ValidityFirst)),
    ("own score of text", "score", lambda: cx.score_tensor(P, lambda p: "text")),
    ("random state of text", "random_state", lambda: fit(random_state="zero")),
    ("negative random state", "random_state", lambda: fit(random_state=-1)),
    ("unknown normalisation", "normali", lambda: fit(normalize="zscore")),
    ("unknown normalisation beside fixed weights", "normali",
     lambda: fit(normalize="zscore", weights=[1, 0, 0])),
    ("unknown search beside fixed weights", "search",
     lambda: fit(search="gird", weights=[1, 0, 0])),
    ("bad threads beside fixed weights", "threads", lambda: fit(threads=0, weights=[1, 0, 0])),
    ("bad tune_alpha beside fixed weights", "alpha", lambda: fit(tune_alpha=3, weights=[1, 0, 0])),
    ("bad tune_alpha by its own name", "tune_alpha", lambda: fit(tune_alpha=3)),
    ("a fractional number of rows", r"\bn\b", lambda: cx.conformal_rank(99.5, 0.1)),
    ("a negative number of rows", r"\bn\b", lambda: cx.conformal_rank(-5, 0.1)),
    ("threshold of NaN scores", "scores",
     lambda: cx.conformal.threshold(np.array([np.nan, 0.2, 0.3]), alpha=0.5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "act"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
def test_bad_input_is_refused_by_our_own_error(word: str, act: Callable[[], object]) -> None:
    with pytest.raises(cx.InvalidInput, match=word):
        act()


@pytest.mark.parametrize(
    "act",
    [
        lambda: fit(alpha=0.05, split="efcp"),
        lambda: fit(alpha=0.05, weights=[1, 0, 0]),
        lambda: fit(weights=[1, 0, 0]).recalibrate(P[:1], Y[:1]).predict_set(P, alpha=0.05),
        lambda: fit(weights=[1, 0, 0], alpha=0.3).recalibrate(P[:1], Y[:1]),
        lambda: cx.conformal.threshold(np.array([0.1]), alpha=0.05),
    ],
    ids=["fit", "fit with fixed weights", "predict", "recalibrate", "threshold"],
)
def test_warnings_point_at_the_line_of_the_caller(act: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        act()
    assert seen
    assert {warning.filename for warning in seen} == {__file__}


def test_a_bare_search_warns_too_when_the_rows_are_too_few() -> None:
    with pytest.warns(cx.TrivialSetsWarning):
        search_weights(S, Y, alpha=0.05, resolution=2)
    with pytest.warns(cx.TrivialSetsWarning):
        landscape(S, Y, alpha=0.05, resolution=2)


NO_ARGUMENTS = "a search must take (objective, rng) and return a SearchResult; got "


@pytest.mark.parametrize(
    "search",
    [lambda: None, lambda objective: None, lambda objective, rng, third: None, len],
    ids=["none", "one", "three", "built in"],
)
def test_a_search_that_takes_other_arguments_is_refused(search: Any) -> None:
    for act in (
        lambda: fit(search=search),
        lambda: fit(search=search, weights=[1, 0, 0]),
        lambda: search_weights(S, Y, alpha=0.5, search=search),
    ):
        with pytest.raises(cx.InvalidInput) as caught:
            act()
        assert str(caught.value).startswith(NO_ARGUMENTS)
        assert str(caught.value).endswith(", which takes other arguments.")


@pytest.mark.parametrize("objective", ["size", "singletons"])
def test_a_search_that_returns_anything_but_a_result_is_refused(objective: str) -> None:
    for returned in (1, np.full(3, 1 / 3), None):
        for act in (
            lambda found=returned: fit(search=lambda *_: found, objective=objective),
            lambda found=returned: search_weights(
                S, Y, alpha=0.5, search=lambda *_: found, objective=objective
            ),
        ):
            with pytest.raises(cx.InvalidInput) as caught:
                act()
            assert str(caught.value) == f"{NO_ARGUMENTS}{returned!r} from this one."


def test_a_search_may_be_any_function_of_objective_and_rng() -> None:
    grid = GridSearch(4)
    for search in (grid, grid.__call__, partial(grid)):
        assert fit(search=search).search_.weights.shape == (3,)


def test_numpy_integers_are_thread_counts_too() -> None:
    search_weights(S, Y, alpha=0.5, resolution=2, threads=np.int64(2))


def test_two_models_whose_names_spell_alike_are_not_silently_merged() -> None:
    try:
        tensor = cx.score_tensor({1: P, "1": P}, "thr")
    except cx.InvalidInput:
        return
    assert tensor.shape[2] == 2


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: cx.scores.parse_score("raps(penalty='a')"), "^penalty must be a non-negative"),
        (lambda: cx.scores.parse_score("raps(penalty=-1)"), "^penalty must be a non-negative"),
        (lambda: cx.scores.parse_score("raps(penalty=1e400)"), "^penalty must be a non-negative"),
        (
            lambda: cx.scores.parse_score("raps(k_reg=None)"),
            "^k_reg must be a non-negative integer",
        ),
        (lambda: cx.scores.parse_score("thr(temperature=[1])"), "^temperature must be a positive"),
        (lambda: gs.pac_rank(10.5, 0.1, 0.1), "^n must be an integer from 1 on; got 10.5"),
        (lambda: gs.pac_rank(100, 0.1, 0.1, n_weights=0), "^n_weights must be an integer from 1"),
        (lambda: gs.batch_pac_rank(100, 0, 0.1, 0.1), "^m must be an integer from 1 on; got 0"),
        (lambda: gs.marginal_bound(10, 0), "^k must be an integer from 1 on; got 0"),
        (lambda: gs.vc_eta(0, 3, 0.1), "^n must be an integer from 1 on; got 0"),
        (lambda: metrics.size_quantile([[True]], q=2), "^sets must be|^q must be a number"),
        (lambda: metrics.size_quantile(np.array([[True]]), q=2), "^q must be a number strictly"),
        (lambda: metrics.size_at_coverage(np.array([[0.5]]), [0], coverage=2), "^coverage must be"),
        (lambda: metrics.size_at_coverage(np.array([[np.nan]]), [0], coverage=0.5), "^scores must"),
        (lambda: metrics.share_interval(1, 2, level=2), "^level must be a number strictly"),
        (
            lambda: metrics.class_table(np.array([[True]]), [0], classes=[]),
            "^classes must name all",
        ),
        (lambda: cx.TopK([[0]], [["a"]], 3), "^values of TopK must be a rectangular array"),
        (lambda: cx.TopK([[0]], [[0.5]], 2.5), "^n_classes of TopK must be a positive integer"),
        (lambda: cx.datasets.load(["a"]), "^unknown data set"),
        (
            lambda: cx.ScoreAverage(weights=[1, 0, 0]).fit([[0.5, 0.5]], [0], groups=[1, 2]),
            "^groups",
        ),
        (
            lambda: cx.ScoreAverage("paper").fit([[0.5, 0.5]] * 9, [0] * 9, test="x"),
            "^test must hold real",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning")
def test_bad_options_are_refused_in_our_words(act, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        act()


def test_contributions_by_something_unknown_are_refused(cifar10) -> None:
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    cp = cx.ScoreAverage("paper", kind="logits", random_state=0).fit(logits, labels)
    with pytest.raises(InvalidInput, match="by must be"):
        contributions(cp, logits, labels, by="modle")


def test_integers_beside_class_names_of_text_and_numbers_are_ambiguous() -> None:
    with pytest.raises(InvalidInput, match="names or indices"):
        cx.ScoreAverage("paper").fit([[0.2, 0.8], [0.7, 0.3]], [1, 0], classes=["a", 1])
