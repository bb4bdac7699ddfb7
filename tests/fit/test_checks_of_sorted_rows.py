"""Numbers that are checked when they are sorted: refused as they would be before, or not at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import conformix as cx
from conformix.data.outputs import SUM_TOLERANCE, Outputs, check_outputs
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores.names import score_columns
from conformix.scores.upper_rows import over_sorted

THREE = score_columns(("",), ("thr", "aps", "rank"))
N, K = 400, 20


def rows_of(kind: str, dtype: type = np.float64) -> np.ndarray:
    logits = 2 * np.random.default_rng(0).normal(size=(N, K))
    if kind == "logits":
        return logits.astype(dtype)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return (np.log(probs) if kind == "logprobs" else probs).astype(dtype)


@pytest.fixture(autouse=True)
def compiled(monkeypatch) -> None:
    compile_for(WORTHWHILE)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)  # threads share few rows


def refusal(call) -> str | None:
    """Return what a call is refused with; it must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call()
        except cx.errors.InvalidInput as error:
            return str(error)
    return None


def both_refusals(values: np.ndarray, kind: str, threads: int) -> tuple[str | None, str | None]:
    """Return what is said where numbers are checked first, and where sorted rows are."""
    later = check_outputs(values, kind, later=True)
    assert later.unchecked is not None
    return (
        refusal(lambda: check_outputs(values, kind)),
        refusal(lambda: list(over_sorted(later, THREE, lambda *_: None, threads=threads))),
    )


ONE = np.eye(K)[0]
WRONG = {
    "probs": {
        "no number": lambda row: np.where(ONE, np.nan, row),
        "infinite": lambda row: np.where(ONE, np.inf, row),
        "negative": lambda row: row - 0.5 * ONE + 0.5 * np.eye(K)[1],
        "below zero by a little": lambda row: np.where(ONE, -1e-9, row),
        "too much": lambda row: row + 2 * SUM_TOLERANCE * ONE,
        "too little": lambda row: row * (1 - 2 * SUM_TOLERANCE),
        "logits": np.log,
        "per cents": lambda row: 100 * row,
    },
    "logits": {
        "no number": lambda row: np.where(ONE, np.nan, row),
        "infinite": lambda row: np.where(ONE, np.inf, row),
        "every class out": lambda row: row - np.inf,
    },
    "logprobs": {
        "no number": lambda row: np.where(ONE, np.nan, row),
        "too much": lambda row: row + 0.01,
    },
}


@pytest.mark.parametrize("threads", [1, 3, 7])
@pytest.mark.parametrize("first", [0, 250, N - 1])
@pytest.mark.parametrize(("kind", "fault"), [(k, f) for k, some in WRONG.items() for f in some])
def test_the_first_wrong_row_is_refused_in_the_same_words(kind, fault, first, threads) -> None:
    values = rows_of(kind)
    for row in {first, N - 1}:
        values[row] = WRONG[kind][fault](values[row])
    before, after = both_refusals(values, kind, threads)
    assert before is not None
    assert after == before


@pytest.mark.parametrize("threads", [1, 3, 7])
def test_of_faults_of_two_kinds_that_of_the_first_row_is_told(threads: int) -> None:
    for first, second in (("too little", "no number"), ("no number", "too little")):
        values = rows_of("probs")
        values[10] = WRONG["probs"][first](values[10])
        values[11] = WRONG["probs"][second](values[11])
        before, after = both_refusals(values, "probs", threads)
        assert before is not None
        assert "row 10" in before
        assert after == before


@pytest.mark.parametrize("threads", [1, 3])
def test_models_that_no_score_looks_at_are_checked_too(threads: int) -> None:
    fine, y = rows_of("probs"), np.arange(N) % K
    wrong = fine.copy()
    wrong[250, 3] = np.nan
    cp = cx.ScoreAverage(["a.thr", "a.aps", "a.rank"], random_state=0, threads=threads)
    cp.fit({"a": fine, "b": fine}, y)
    for outputs in ({"a": fine, "b": wrong}, {"a": wrong, "b": fine}):
        said = refusal(lambda outputs=outputs: check_outputs(outputs))
        assert said is not None
        assert refusal(lambda outputs=outputs: cp.predict_set(outputs)) == said
        assert refusal(lambda outputs=outputs: cp.fit(outputs, y)) == said


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_number_that_signals_is_refused_without_a_warning(dtype: type) -> None:
    values = rows_of("probs", dtype)
    bits = values.view(np.uint32 if dtype == np.float32 else np.uint16)
    bits[250, 3] = 0x7FA00000 if dtype == np.float32 else 0x7D00
    later = check_outputs(values, later=True)
    y = np.full(N, 3)
    said = refusal(lambda: list(over_sorted(later, THREE, lambda *_: None, threads=3, y=y)))
    assert said is not None
    assert "row 250, label 3 is nan" in said


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("threads", [1, 3, 7])
def test_rows_that_are_fine_are_read_once(kind, dtype, threads, monkeypatch) -> None:
    values = rows_of(kind, dtype)
    later = check_outputs(values, kind, later=True)
    monkeypatch.setattr(Outputs, "read", None)  # nobody looks at them apart from sorting
    assert list(over_sorted(later, THREE, lambda *_: True, threads=threads))


@pytest.mark.parametrize("threads", [1, 7])
def test_rows_that_are_fine_though_not_surely_are_not_refused(threads: int) -> None:
    probs, logits = rows_of("probs"), rows_of("logits")
    probs[[7, 300]] *= 1 + SUM_TOLERANCE - 1e-8  # next to what is refused
    logits[[0, 300], :-1] = -np.inf
    for values, kind in ((probs, "probs"), (logits, "logits"), (rows_of("logprobs"), "logprobs")):
        assert both_refusals(values, kind, threads) == (None, None)


@pytest.mark.parametrize("threads", [1, 7])
def test_what_is_sorted_in_their_place_does_not_speak_for_wrong_rows(threads: int) -> None:
    wrong = rows_of("probs")
    wrong[250] = np.nan
    fine = check_outputs(rows_of("probs"))
    later = check_outputs(wrong, later=True)
    said = refusal(
        lambda: list(
            over_sorted(
                later, THREE, lambda *_: None, threads=threads,
                over=lambda part: fine.rows(slice(0, part.n)),
            )
        )
    )  # fmt: skip
    assert said == refusal(lambda: check_outputs(wrong))


@pytest.mark.parametrize("scores", ["auto", ("thr", "aps", "rank")])
def test_a_model_refuses_wrong_rows_before_it_says_anything_of_them(scores) -> None:
    probs = rows_of("probs")
    y = np.arange(N) % K
    cp = cx.ScoreAverage(scores, random_state=0, threads=3).fit(probs, y)
    for fault in ("no number", "negative", "too little"):
        wrong = probs.copy()
        wrong[250] = WRONG["probs"][fault](wrong[250])
        said = refusal(lambda wrong=wrong: check_outputs(wrong))
        assert said is not None
        assert refusal(lambda wrong=wrong: cp.predict_set(wrong)) == said
        assert refusal(lambda wrong=wrong: cp.fit(wrong, y)) == said
