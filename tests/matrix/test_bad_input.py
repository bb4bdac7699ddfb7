"""Bad input, every public door x every case: our error, one sentence, inputs untouched."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from matrix.entries import ENTRIES, K, P, S, Y, entries_with, public_functions


def changed(value: Any, where: tuple[int, ...] = (3, 1)) -> np.ndarray:
    array = P.copy()
    array[where] = value
    return array


# What is wrong with the outputs -> (the outputs, what the sentence says).
OUTPUTS: dict[str, tuple[Any, str]] = {
    "NaN": (changed(np.nan), "NaN|finite"),
    "infinite": (changed(np.inf), "inf|finite"),
    "negative": (changed(-0.1), "negative|between 0 and 1|probabilit"),
    "above one": (changed(1.5), "between 0 and 1|above|probabilit|sum"),
    "rows that sum to two": (2 * P / 2.0 + P, "sum|probabilit"),
    "logits for probabilities": (np.log(P + 1e-9) + 5, "logits|probabilit|sum"),
    "one row as a vector": (P[0], r"\(n, K\)|shape|2"),
    "four axes": (P[None, None], r"\(n, K\)|shape"),
    "no rows": (P[:0], "row|empty|at least"),
    "no classes": (P[:, :0], "class|column|empty|at least|shape"),
    "text": (np.full(P.shape, "a"), "number|numeric|dtype|float"),
    "objects": (np.full(P.shape, None, dtype=object), "number|numeric|dtype|float"),
    "complex numbers": (P + 1j, "number|complex|real|dtype"),
    "None": (None, "outputs|test"),
    "ragged rows": ([[0.5, 0.5], [1.0]], "rectang|ragged|shape|number|array"),
    "an empty mapping": ({}, "model|empty|at least"),
    "models of different lengths": ({"a": P, "b": P[:-1]}, "row|same|length|shape"),
    "models of different widths": ({"a": P, "b": P[:, :3] / P[:, :3].sum(1, keepdims=True)},
                                   "class|same|shape|column"),
}  # fmt: skip
# Fine on their own, wrong for a fitted model.
MISMATCH: dict[str, tuple[Any, str]] = {
    "another number of classes": (P[:, :3] / P[:, :3].sum(1, keepdims=True), "4 fitted classes"),
    "other models": ({"a": P, "b": P}, "fitted model"),
}
LABELS: dict[str, tuple[Any, str]] = {
    "too large": (np.where(np.arange(len(Y)) == 3, K, Y), "class|label|0"),
    "negative": (np.where(np.arange(len(Y)) == 3, -1, Y), "class|label|0|negative"),
    "fractions": (Y + 0.5, "integer|whole|class|label"),
    "NaN": (np.where(np.arange(len(Y)) == 3, np.nan, Y), "integer|NaN|label|class"),
    "too few": (Y[:-1], "length|row|shape|samples|inconsistent"),
    "two axes": (np.column_stack([Y, Y]), "shape|1-d|one label|1d|rows"),
    "None": (None, "y"),
}
ALPHAS: dict[str, tuple[Any, str]] = {
    "zero": (0.0, "alpha"),
    "one": (1.0, "alpha"),
    "negative": (-0.1, "alpha"),
    "a percentage": (10, "alpha"),
    "NaN": (float("nan"), "alpha"),
    "text": ("0.1", "alpha"),
    "a truth value": (True, "alpha"),
}
WEIGHTS: dict[str, tuple[Any, str]] = {
    "too few": ([0.5, 0.5], "weights"),
    "off the simplex": ([0.5, 0.5, 0.5], "sum to 1"),
    "negative": ([-0.5, 0.5, 1.0], "non-negative"),
    "NaN": ([np.nan, 0.5, 0.5], "weights"),
    "text": ("abc", "weights"),
}
NAMES: dict[str, dict[str, tuple[Any, str]]] = {
    "scores": {"unknown": (("thr", "asp"), "aps"), "none": ((), "score"), "a number": (3, "score")},
    "split": {"unknown": ("vcfp", "vfcp"), "None": (None, "split")},
    "search": {"unknown": ("gird", "grid")},
    "normalize": {"unknown": ("ecfd", "ecdf")},
    "kind": {"unknown": ("logit", "logits")},
}
TENSORS: dict[str, tuple[Any, str]] = {
    "NaN": (np.where(np.arange(S.size).reshape(S.shape) == 7, np.nan, S), "finite|NaN"),
    "two axes": (S[..., 0], r"\(n, K, d\)|shape"),
    "no rows": (S[:0], "row|empty|at least|shape"),
    "text": (np.full(S.shape, "a"), "number|float|dtype"),
}
TABLE: dict[str, dict[str, tuple[Any, str]]] = {
    "outputs": OUTPUTS, "y": LABELS, "alpha": ALPHAS, "weights": WEIGHTS, "tensor": TENSORS,
    **NAMES,
}  # fmt: skip
# Cells that are fine where they stand, each with its reason.
FINE = {
    ("ConformalClassifier.fit", "y", "too large"): "labels are class names there",
    ("ConformalClassifier.fit", "y", "negative"): "labels are class names there",
    ("metrics.evaluate", "alpha", "None"): "no level asked for",
}
# Refused by scikit-learn's own checks, which speak for themselves.
THEIRS = {("ConformalClassifier.fit", "y")}


def cells() -> list[Any]:
    listed = []
    for argument, bad in TABLE.items():
        for entry in entries_with(argument):
            for case, (value, sentence) in bad.items():
                if (entry, argument, case) not in FINE:
                    name = f"{entry} | {argument} | {case}"
                    listed.append(pytest.param(entry, argument, value, sentence, id=name))
    for entry in entries_with("outputs"):
        if "fit" not in entry or "test" in entry:
            if entry == "score_tensor":
                continue
            for case, (value, sentence) in MISMATCH.items():
                listed.append(
                    pytest.param(entry, "outputs", value, sentence, id=f"{entry} | fit | {case}")
                )
    return listed


@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.parametrize(("entry", "argument", "value", "sentence"), cells())
def test_bad_input_gets_one_sentence(entry: str, argument: str, value: Any, sentence: str) -> None:
    before = value.copy() if isinstance(value, np.ndarray) else value
    expected = ValueError if (entry, argument) in THEIRS else cx.InvalidInput
    with pytest.raises(expected) as caught:
        ENTRIES[entry](**{argument: value})
    told = str(caught.value)
    assert re.search(sentence, told), told
    if expected is cx.InvalidInput:
        assert "\n" not in told
        assert told.endswith((".", "?", ")")), told
        assert len(told) < 400
    if isinstance(value, np.ndarray):
        assert_array_equal(value, before)


def test_every_door_works_with_its_good_arguments() -> None:
    for entry in ENTRIES.values():
        entry()


ARGUMENTS = {"outputs", "y", "alpha", "weights", "probs"}
# Doors that are tested elsewhere, or take numbers that came from us.
ELSEWHERE = {
    "search.": "the searches' own tests; the objective is checked once in search_weights",
    "metrics.": "metrics share the checks of metrics.evaluate (tests/contracts)",
    "guarantees.": "all of them check alpha by simple_fraction, as pac_rank does",
    "plots.": "tests/plots",
    "testing.": "for test suites",
    "oracle.": "tests/unit",
    "scores.": "score_tensor",
    "conformal.": "threshold",
    "splits.": "names only",
    "normalize.": "names only",
    "calibration.": "tests/conditional",
    "shift.": "tests/conditional",
    "merge.": "tests/conditional",
    "online.": "tests/conditional",
    "cross.": "tests/conditional",
    "tensors.": "tests/tensors",
    "ConformalClassifier.score": "scikit-learn's own",
    "small_sets_scorer": "called by scikit-learn",
}


def test_no_public_door_is_forgotten() -> None:
    """A new public function that takes a user's numbers needs a column here, or a reason."""
    known = {name.split("(")[0] for name in ENTRIES}
    forgotten = [
        name
        for name, function in public_functions()
        if ARGUMENTS & set(inspect.signature(function).parameters)
        and name not in known
        and not name.startswith(tuple(ELSEWHERE))
    ]
    assert forgotten == []


GOOD: dict[str, Any] = {
    "float16": P.astype(np.float16),
    "float32": P.astype(np.float32),
    "Fortran order": np.asfortranarray(P),
    "every other column of a wider array": np.repeat(P, 2, axis=1)[:, ::2],
    "a list of lists": P.tolist(),
    "zeros and ones": np.eye(K)[Y],
    "all equal": np.full_like(P, 1 / K),
    "sums off by 1e-7": P * (1 + 1e-7),
    "denormal numbers": np.where(np.arange(K) == 0, 1.0, 5e-324) * np.ones_like(P),
}


@pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")
@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("entry", list(entries_with("outputs")))
def test_awkward_but_valid_outputs_are_taken(entry: str, case: str) -> None:
    ENTRIES[entry](outputs=GOOD[case])


@pytest.mark.parametrize("entry", list(entries_with("outputs")))
def test_read_only_outputs_are_taken(entry: str) -> None:
    mine = P.copy()
    mine.setflags(write=False)
    ENTRIES[entry](outputs=mine)


@pytest.mark.parametrize("n_classes", [1, 2, 300], ids=["one class", "two classes", "many classes"])
@pytest.mark.parametrize("split", ["vfcp", "efcp", "exact"])
def test_any_number_of_classes(split: str, n_classes: int) -> None:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(n_classes), size=40)
    y = rng.integers(n_classes, size=40)
    cp = cx.ScoreAverage(alpha=0.2, split=split, random_state=0, search=cx.search.GridSearch(3))
    assert cp.fit(probs, y).predict_set(probs[:1]).shape == (1, n_classes)
