"""Bad input, every public door x every case: our error, one sentence, inputs untouched."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from errors.entries import (
    ENTRIES,
    STRATA,
    WEIGHT,
    K,
    N,
    P,
    R,
    S,
    X,
    Y,
    entries_with,
    public_doors,
)  # fmt: skip


def changed(value: Any, where: tuple[int, ...] = (3, 1)) -> np.ndarray:
    array = P.copy()
    array[where] = value
    return array


def masked(array: np.ndarray, place: int = 3) -> np.ma.MaskedArray:
    """The array with one entry masked, and a number below the mask that looks fine."""
    covered = np.ma.array(array.copy())
    covered.mask = np.arange(array.size).reshape(array.shape) == place
    return covered


# Integers that Python refuses to print.
ENDLESS = 10**5000


def one_changed(array: np.ndarray, value: float) -> np.ndarray:
    """The array with another number in one place."""
    other = array.copy()
    other.flat[3] = value
    return other


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
    "masked": (masked(P), "no missing values; 1 of 480 are masked"),
    "rows of which one is masked": ([*P[:-1], masked(P[-1])], "no missing values; 1 of 4"),
    "an integer of 5,000 digits": ([[ENDLESS, 1]], "real numbers|number"),
    "bytes": (b"0.5", "number|shape|array"),
    "a generator": ((row for row in P), "number|shape|array"),
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
    "masked": (masked(Y), "y .*must have no missing values; 1 of 120 are masked"),
}
ALPHAS: dict[str, tuple[Any, str]] = {
    "zero": (0.0, "alpha"),
    "one": (1.0, "alpha"),
    "negative": (-0.1, "alpha"),
    "a percentage": (10, "alpha"),
    "NaN": (float("nan"), "alpha"),
    "text": ("0.1", "alpha"),
    "a truth value": (True, "alpha"),
    "an integer of 5,000 digits": (ENDLESS, "alpha|n must"),
    "a list of such integers": ([ENDLESS], "alpha"),
    "an array": (P, "alpha"),
}
WEIGHTS: dict[str, tuple[Any, str]] = {
    "too few": ([0.5, 0.5], "weights"),
    "off the simplex": ([0.5, 0.5, 0.5], "sum to 1"),
    "negative": ([-0.5, 0.5, 1.0], "non-negative"),
    "NaN": ([np.nan, 0.5, 0.5], "weights"),
    "text": ("abc", "weights"),
    "masked": (masked(np.array([0.5, 0.25, 0.25, 0.0])[:3], 1), "no missing values; 1 of 3"),
    "integers of 5,000 digits": ([ENDLESS, 0, 0], "weights"),
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
    "masked": (masked(S), "no missing values; 1 of 1,440 are masked"),
}
DELTAS = {case: (value, "delta") for case, (value, _) in ALPHAS.items()}
COUNTS: dict[str, tuple[Any, str]] = {
    "a fraction": (10.5, r"\bn\b"),
    "negative": (-3, r"\bn\b"),
    "text": ("10", r"\bn\b"),
    "NaN": (float("nan"), r"\bn\b"),
    "None": (None, r"\bn\b"),
    "an integer of minus 5,000 digits": (-ENDLESS, r"\bn\b"),
}
PVALUES: dict[str, tuple[Any, str]] = {
    "NaN": (np.stack([P, one_changed(P, np.nan)]), "pvalues"),
    "above one": (np.stack([P, P + 1]), "pvalues"),
    "two axes": (P, "pvalues"),
    "none at all": ([], "pvalues"),
    "ragged": ([P, P[:-1]], "pvalues"),
    "text": ("abc", "pvalues"),
    "None": (None, "pvalues"),
    "masked": ([masked(P), P], "pvalues must have no missing values"),
}
PVALUE_ROWS: dict[str, tuple[Any, str]] = {
    "NaN": (one_changed(P, np.nan), "pvalues must be finite"),
    "one axis": (P[0], r"pvalues .* \(n, p\)"),
    "no rows": (P[:0], "pvalues .* non-empty"),
    "text": ("abc", "pvalues .* numbers"),
    "None": (None, "pvalues .* numbers"),
    "masked": (masked(P), "pvalues must have no missing values"),
}
MASKS: dict[str, tuple[Any, str]] = {
    "numbers": ([P, P], "sets"),
    "one axis": ([P[0] > 0.2, P[0] > 0.2], "sets"),
    "different lengths": ([P > 0.2, P[:-1] > 0.2], "sets"),
    "masked": ([masked(P > 0.2), P > 0.2], "sets must have no missing values; 1 of 480"),
    "none at all": ([], "sets"),
    "None": (None, "sets"),
}
ONE_SET: dict[str, tuple[Any, str]] = {
    "numbers": (P, "sets"),
    "one axis": (P[0] > 0.2, "sets"),
    "ragged": ([[True, False], [True]], "sets"),
    "no rows": (P[:0] > 0.2, "sets"),
    "masked": (masked(P > 0.2), "sets must have no missing values; 1 of 480"),
    "None": (None, "sets"),
}
VOTES: dict[str, tuple[Any, str]] = {
    "too few": ([1.0], "weights"),
    "off the simplex": ([0.5, 0.6], "sum to 1"),
    "negative": ([-0.5, 1.5], "non-negative"),
    "NaN": ([np.nan, 0.5], "weights"),
    "text": ("ab", "weights"),
    "masked": (masked(np.array([0.5, 0.5]), 1), "weights must have no missing values"),
}
ROW: dict[str, tuple[Any, str]] = {
    "NaN": (np.array([np.nan, 0.5, 0.25, 0.25]), "finite"),
    "negative": (np.array([-0.5, 1.0, 0.25, 0.25]), "probabilities"),
    "two rows": (P[:2], "one row"),
    "ragged": ([[0.5, 0.5], [1.0]], "ragged"),
    "text": ("abc", "number"),
    "None": (None, "number"),
    "empty": ([], "empty"),
    "masked": (masked(P[0]), "no missing values; 1 of 4 are masked"),
    "an empty mapping": ({}, "at least one model"),
}
STRATA_CASES: dict[str, tuple[Any, str]] = {
    "fractions": (STRATA + 0.5, "strata"),
    "NaN": (np.where(STRATA == 1, np.nan, STRATA), "strata"),
    "too few": (STRATA[:-1], "strata"),
    "two axes": (np.column_stack([STRATA, STRATA]), "strata"),
    "None": (None, "needs strata"),
    "masked": (masked(STRATA), "strata must have no missing values; 1 of 120"),
    "mixed": ([None, "a", 1] * (N // 3), "strata"),
}
SAMPLE_WEIGHTS: dict[str, tuple[Any, str]] = {
    "NaN": (one_changed(WEIGHT, np.nan), "weight"),
    "infinite": (one_changed(WEIGHT, np.inf), "weight"),
    "negative": (one_changed(WEIGHT, -1.0), "weight"),
    "two axes": (np.column_stack([WEIGHT, WEIGHT]), "weight"),
    "text": (WEIGHT.astype(str), "weight"),
    "None": (None, "weight"),
    "masked": (masked(WEIGHT), "weight must have no missing values; 1 of 120"),
}
FEATURES: dict[str, tuple[Any, str]] = {
    "NaN": (one_changed(X, np.nan), "NaN|finite"),
    "one axis": (X[:, 0], "shape"),
    "text": (np.full(X.shape, "a"), "number"),
    "None": (None, "number|shape"),
    "no rows": (X[:0], "row|empty|shape"),
    "masked": (masked(X), "no missing values; 1 of 360"),
}
PREDICTED: dict[str, tuple[Any, str]] = {
    "NaN": (one_changed(X[:, 0], np.nan), "must be finite; row 3"),
    "infinite": (one_changed(X[:, 0], np.inf), "must be finite; row 3"),
    "a matrix": (X, r"Regressed\(quantiles="),
    "text": (np.full(N, "a"), "real numbers"),
    "None": (None, "real numbers|pass them"),
    "no rows": (X[:0, 0], "must not be empty"),
    "ragged": ([[1.0], [1.0, 2.0]], "same rows|rectangular"),
    "masked": (masked(X[:, 0]), "no missing values; 1 of 120"),
    "an empty mapping": ({}, "at least one model"),
    "parts of one model": ({"mean": X[:, 0], "sigma": WEIGHT}, r"say Regressed\(\.\.\.\)"),
    "models of different lengths": ({"a": X[:, 0], "b": X[:-1, 0]}, "same rows"),
    "complex numbers": (X[:, 0] + 1j, "real numbers"),
    "a mean alone": (X[:, 0], "sigma"),
}
RESPONSES: dict[str, tuple[Any, str]] = {
    "NaN": (one_changed(R, np.nan), "y must be finite"),
    "infinite": (one_changed(R, np.inf), "y must be finite"),
    "too few": (R[:-1], "y must hold one number"),
    "two axes": (np.column_stack([R, R]), "y must hold one number"),
    "text": (R.astype(str), "y must .*real numbers"),
    "None": (None, "y must"),
    "masked": (masked(R), "y must have no missing values; 1 of 120"),
}
PATHS: dict[str, tuple[Any, str]] = {
    "that does not exist": ("nowhere/model.json", "exist|ending"),
    "of a folder": (".", "is a folder; name a file|ending"),
    "of a device": ("/dev/null", "is no regular file|ending"),
    "that is a number": (5, "path must be a text or a path; got int"),
    "with a NUL": ("a\0b", "path must be a text or a path; got a text with a NUL"),
}
TABLE: dict[str, dict[str, tuple[Any, str]]] = {
    "outputs": OUTPUTS, "y": LABELS, "alpha": ALPHAS, "weights": WEIGHTS, "tensor": TENSORS,
    "delta": DELTAS, "n": COUNTS, "pvalues": PVALUES, "pvalue_rows": PVALUE_ROWS,
    "masks": MASKS, "votes": VOTES, "one_set": ONE_SET, "row": ROW,
    "strata": STRATA_CASES, "new_strata": STRATA_CASES, "sample_weight": SAMPLE_WEIGHTS,
    "new_weight": SAMPLE_WEIGHTS, "features": FEATURES, "path": PATHS,
    "predicted": PREDICTED, "responses": RESPONSES, **NAMES,
}  # fmt: skip
# Cells that are fine where they stand, each with its reason.
FINE = {
    ("ConformalClassifier.fit", "y", "too large"): "labels are class names there",
    ("ConformalClassifier.fit", "y", "negative"): "labels are class names there",
    ("CrossConformalClassifier.fit", "y", "too large"): "labels are class names there",
    ("CrossConformalClassifier.fit", "y", "negative"): "labels are class names there",
    ("calibration.effective_rows", "sample_weight", "too few"): "any number of rows",
    ("metrics.worst_slab_coverage", "features", "no rows"): "the number of rows is named",
    **{(f"{regressor}.fit", "y", case): "responses are any numbers"
       for regressor in ("ConformalRegressor", "CrossConformalRegressor")
       for case in ("too large", "negative", "fractions")},
    ("Intervals.contains", "responses", "NaN"): "in no interval",
    ("Intervals.contains", "responses", "infinite"): "in some intervals",
}  # fmt: skip
# Refused by scikit-learn's own checks, which speak for themselves.
THEIRS = {
    ("ConformalClassifier.fit", "y"), ("ConformalRegressor.fit", "y"),
    ("CrossConformalClassifier.fit", "y"), ("CrossConformalRegressor.fit", "y"),
}  # fmt: skip
# Doors with outputs that have no fitted model to agree with.
NO_MODEL = ("score_tensor", "OnlineAverage.run", "shift.label_ratios")


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
            if entry.startswith(NO_MODEL):
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


ARGUMENTS = {
    "outputs", "y", "alpha", "weights", "probs", "pvalues", "sets", "delta", "n", "path", "strata",
    "sample_weight", "weight", "new_outputs", "X_source", "features", "folds", "scores",
}  # fmt: skip
# Doors that are tested elsewhere, or take numbers that came from us.
ELSEWHERE = {
    "search.": "the searches' own tests; the objective is checked once in search_weights",
    "SizeObjective.": "built by search_weights, from checked arrays",
    "AutoSearch.picked": "told by the search",
    **dict.fromkeys(("CappedSize.", "ClassGap.", "LabelCosts.", "MeanSize.", "Singletons.",
                     "SizeStratified."), "called by the search: tests/search"),
    **dict.fromkeys(("metrics.empty_rate", "metrics.mean_size", "metrics.median_size",
                     "metrics.singleton_rate", "metrics.size_quantile", "metrics.share_interval"),
                    "labels unused, or counts only: tests/metrics"),
    "plots.": "tests/plots",
    "testing.": "for test suites", "MetricContract.": "for test suites",
    "NormalizerContract.": "for test suites", "ScoreContract.": "for test suites",
    "oracle.": "tests/guarantees",
    "scores.": "score_tensor",
    "conformal.": "threshold",
    "RankRule.rows_needed": "a number of rows, asked for by the plan of a blend: tests/scores",
    **dict.fromkeys(("LabelShift.", "RankedPerClass.", "Weighted.", "ACI.", "Betting.", "DtACI."),
                    "called by the pipeline and the stream, with what they checked"),
    **dict.fromkeys(("Normalizer.", "NaturalScale.", "Unscaled.", "Ecdf.", "Interpolated.",
                     "Split.",
                     "ValidityFirst.", "EfficiencyFirst.", "DataLeakage", "Exact."),
                    "called by the pipeline, with what it checked"),
    **dict.fromkeys(("blend.", "Blend."), "called by fit, with what it checked: tests/scores"),
    "merge.harmonic_factor": "a number of predictors: tests/calibration",
    "stream.": "tests/data", "ScoreAverage.fit_batches": "tests/data",
    "sets.write_sets": "tests/data",
    "ScoreAverage.predict_batches": "tests/data", "cluster.": "tests/data",
    "tensors.": "tests/data/tensors",
    "ScoreAverage.save": "what fails is the disk: tests/estimators, tests/environments",
    "CrossAverage.save": "as ScoreAverage.save; tests/estimators/test_cross_by_cell.py",
    "ConformalClassifier.score": "scikit-learn's own",
    "ConformalRegressor.score": "scikit-learn's own",
    "CrossConformalRegressor.score": "scikit-learn's own",
    **dict.fromkeys(("ConformalRegressor.save", "CrossConformalRegressor.save"),
                    "as RegressionAverage.save: tests/regression"),
    "CrossConformalClassifier.score": "scikit-learn's own",
    "small_sets_scorer": "called by scikit-learn",
    "PredictionSets.": "tests/sets/test_exports.py",
    "Intervals.to_": "tests/regression/test_intervals.py",
    "RegressionAverage.save": "as ScoreAverage.save: tests/regression",
    **dict.fromkeys(
        (f"{estimator}.{method}" for estimator in ("ConformalRegressor", "CrossConformalRegressor")
         for method in ("contributions", "explain", "report")),
        "ask what the methods of RegressionAverage check: tests/regression",
    ),
    "OnlineRegression.save": "as ScoreAverage.save: tests/online/test_intervals.py",
    **dict.fromkeys(("metrics.empty_interval_rate", "metrics.mean_width", "metrics.median_width"),
                    "responses unused: tests/metrics"),
    "RegressionScoreContract.": "for test suites",
    "inspect": "finds, and raises nothing: tests/data/test_inspection.py",
    **dict.fromkeys(
        (f"{estimator}.{method}"
         for estimator in ("ConformalClassifier", "CrossAverage", "CrossConformalClassifier",
                           "OnlineAverage", "ScoreAverage")
         for method in ("contributions", "evaluate", "explain", "report")),
        "ask what predict_set and verdict check: tests/estimators/test_one_surface.py",
    ),
    **dict.fromkeys(("ConformalClassifier.save", "CrossConformalClassifier.save",
                     "OnlineAverage.save"), "as ScoreAverage.save: test_one_surface.py"),
    **dict.fromkeys(("OnlineAverage.labels", "OnlineAverage.predict_pvalues",
                     "OnlineAverage.weighted_scores"), "as OnlineAverage.predict_set"),
    "build_report": "tests/report", "coverage_scorer": "called by scikit-learn",
}  # fmt: skip


def test_no_public_door_is_forgotten() -> None:
    """A new public function or method that takes a user's numbers needs a row, or a reason."""
    known = {name.split("(")[0] for name in ENTRIES}
    doors = dict(public_doors())
    forgotten = [
        name
        for name, function in doors.items()
        if ARGUMENTS & set(inspect.signature(function).parameters)
        and name not in known
        and not name.startswith(tuple(ELSEWHERE))
    ]
    assert forgotten == []
    assert not [reason for reason in ELSEWHERE if not any(n.startswith(reason) for n in doors)]


def test_new_outputs_of_other_models_or_classes_are_refused() -> None:
    three = P[:, :3] / P[:, :3].sum(1, keepdims=True)
    with pytest.raises(cx.InvalidInput, match="new_outputs must have 4 classes; got 3"):
        cx.shift.label_ratios(P, Y, three)
    with pytest.raises(cx.InvalidInput, match="new_outputs must come from one model; got a, b"):
        cx.shift.label_ratios(P, Y, {"a": P, "b": P})
    online = cx.OnlineAverage(window=20)
    online.run(P, Y)
    with pytest.raises(cx.InvalidInput, match="models and classes of the first row"):
        online.run(three, np.minimum(Y, 2))


def foreign_tables() -> dict[str, tuple[Any, str]]:
    """Tables and tensors of other libraries that cannot be read as numbers."""
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    pyarrow = pytest.importorskip("pyarrow")
    rows = torch.tensor(P)
    gaps = np.where(np.arange(K) == 1, np.nan, P)
    columns = {str(k): pyarrow.array(P[:, k]) for k in range(K)}
    columns["1"] = pyarrow.array([None, *P[1:, 1]])
    null = "must have no missing values; .* null|finite"
    return {
        "a frame with NA": (pandas.DataFrame(gaps).astype("Float64"), null),
        "an Arrow table with a null": (pyarrow.table(columns), null),
        "a meta tensor": (rows.to("meta"), "a meta tensor has none"),
        "a quantised tensor": (torch.quantize_per_tensor(rows.float(), 0.01, 0, torch.quint8),
                               "call .dequantize.. first"),
        "a nested tensor": (torch.nested.nested_tensor([rows[0], rows[1, :2]]), "dense|nested"),
        "a sparse tensor": (rows.to_sparse(), "dense"),
        "a complex tensor": (rows + 0j, "real|numbers"),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("entry", list(entries_with("outputs")))
def test_tables_and_tensors_that_hold_no_plain_numbers_are_refused(entry: str) -> None:
    for case, (value, sentence) in foreign_tables().items():
        with pytest.raises(cx.InvalidInput) as caught:
            ENTRIES[entry](outputs=value)
        told = str(caught.value)
        assert re.search(sentence, told), f"{case}: {told}"
        assert "\n" not in told


def test_labels_weights_and_strata_of_other_libraries_may_have_no_gaps() -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    gaps = [None, *Y[1:].tolist()]
    for y in (pandas.Series(gaps, dtype="Int64"), pyarrow.array(gaps)):
        with pytest.raises(cx.InvalidInput, match=r"y must have no missing values; 1 are null"):
            ENTRIES["ScoreAverage.fit"](y=y)
    strata = pyarrow.array([None, *STRATA[1:].tolist()])
    with pytest.raises(cx.InvalidInput, match=r"strata must have no missing values; 1 are null"):
        ENTRIES["ScoreAverage.fit(calibration=group)"](strata=strata)
    weight = pandas.Series([None, *WEIGHT[1:]], dtype="Float64")
    with pytest.raises(cx.InvalidInput, match=r"sample_weight must have no missing values"):
        ENTRIES["ScoreAverage.fit(calibration=weighted)"](sample_weight=weight)
    with pytest.raises(cx.InvalidInput, match=r"groups must have no missing values"):
        cx.ScoreAverage("paper", alpha=0.2).fit(P, Y, groups=pyarrow.array(gaps))


def test_class_names_are_a_sequence_of_names() -> None:
    for classes, told in ((5, "got int"), (int, "got type"), (masked(np.arange(K)), "masked")):
        with pytest.raises(cx.InvalidInput, match=f"classes must .*{told}"):
            cx.ScoreAverage("paper", alpha=0.2).fit(P, Y, classes=classes)
        with pytest.raises(cx.InvalidInput, match=f"classes must .*{told}"):
            cx.PredictionSets(P > 0.2, classes)


def test_masked_sets_and_truncated_outputs_are_refused() -> None:
    with pytest.raises(cx.InvalidInput, match="mask must have no missing values; 1 of 480"):
        cx.PredictionSets(masked(P > 0.2))
    listed = np.tile([0, 1], (5, 1))
    with pytest.raises(cx.InvalidInput, match="labels of TopK must have no missing values"):
        cx.TopK(masked(listed), np.full((5, 2), 0.4), K)
    with pytest.raises(cx.InvalidInput, match="values of TopK must have no missing values"):
        cx.TopK(listed, masked(np.full((5, 2), 0.4)), K)


GOOD: dict[str, Any] = {
    "a masked array with nothing masked": np.ma.array(P),
    "a view of memory": memoryview(np.ascontiguousarray(P)),
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
