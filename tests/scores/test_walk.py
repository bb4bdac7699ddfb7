"""Sorted rows by compiled loops and by NumPy: the same bits, of every score at every place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.kernels import twins
from conformix.kernels.host.sorting import SHORT_RUN
from conformix.scores import names as named
from conformix.scores import score_columns
from conformix.scores.ranked import Ranked, Rising
from conformix.scores.sorted_rows import HELD_PLACES, SortedRows, scores_at
from conformix.scores.tensor import fill_tensor, score_tensor
from conformix.scores.upper_rows import UpperRows, true_label_scores

SCORES = (
    "thr", "aps", "rank", "logrank", "invrank", "margin", "raps(penalty=0.3, k_reg=1)",
    "aps(temperature=0.5)", "saps(u=1.0)", "rank(tie_break='prob')", "logp", "entropy",
    "aps(u=0.5)", "thr(temperature=2.0)",
)  # fmt: skip
COLUMNS = score_columns(("",), SCORES)
NEED_MORE = {"logit", "energy"}  # than probabilities


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what says who computes from now on: the compiled loops, or NumPy."""
    loaded = {name: import_module(f"conformix.kernels.host.{name}") for name in twins.LOOPS}

    def choose(who: str) -> None:
        monkeypatch.setattr(twins, "_loaded", loaded if who == "compiled" else {})
        monkeypatch.setattr(twins, "MANY", 0 if who == "compiled" else 2**62)

    return choose


def signed_bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)


LOOKED_UP = score_columns(("",), ("rank", "thr", "invrank", "aps", "logrank"))


def sorted_block(who: str, block: np.ndarray, kind: str, y: np.ndarray | None, columns) -> Any:
    """Return rows of which loops hold the upper ends, or that NumPy sorts."""
    rows = SortedRows(block, kind)
    return UpperRows(rows, columns, y).filled() if who == "compiled" else rows.upper(columns, y)


def answers(who: str, block: np.ndarray, kind: str, y: np.ndarray) -> list[np.ndarray]:
    """Return the scores of all places, of parts of them, of deep windows of few rows, of labels."""
    n, n_classes = block.shape
    top = max(n_classes - HELD_PLACES, 0)
    some, found = np.arange(0, n, 2), []
    for columns in (COLUMNS, LOOKED_UP):
        rows = sorted_block(who, block, kind, y, columns)
        assert rows.true is not None
        at = rows.at(np.repeat(some, 2), np.tile([0, n_classes - 1], len(some)))
        found += [
            rows.scores(columns, None, slice(n_classes - 1, n_classes)),
            rows.scores(columns, None, slice(top, n_classes)),
            rows.scores(columns, some, slice((top + n_classes) // 2, n_classes)),
            rows.scores(columns, some, slice(top // 2, max(top, 1))),
            rows.scores(columns, some[:1], slice(0, n_classes)),
            rows.scores(columns, None, slice(0, n_classes)),
            scores_at(at, columns),
            rows.true,
            rows.true_scores(columns, y[some], some),
            rows.outputs_at(np.arange(n) % (n_classes + 1)),
        ]
    return found


def assert_twins_agree(
    by: Callable[[str], None], block: np.ndarray, kind: str, y: np.ndarray
) -> None:
    by("NumPy")
    plain = answers("NumPy", block, kind, y)
    by("compiled")
    for one, other in zip(plain, answers("compiled", block, kind, y), strict=True):
        assert_array_equal(signed_bits(one), signed_bits(other))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [1, 2, 3, HELD_PLACES, HELD_PLACES + 1, 100])
@pytest.mark.parametrize("digits", [1, 3, 17])
def test_probabilities(by, n_classes: int, dtype: type, digits: int) -> None:
    rng = np.random.default_rng(n_classes)
    probs = rng.dirichlet(np.full(n_classes, 0.2), 30).round(digits).astype(dtype)
    probs[::7] = 0.0
    probs[3] = -0.0
    probs[:, 0] = np.maximum(probs[:, 0], 0.125)  # no row of zeros
    assert_twins_agree(by, probs, "probs", rng.integers(n_classes, size=30))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [1, 2, 33, 100])
def test_logits(by, n_classes: int, dtype: type) -> None:
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(0, 4, (40, n_classes)).round(1).astype(dtype)
    largest = float(np.finfo(dtype).max) / 2
    logits[::5, 0] = largest
    logits[1::5, -1] = -largest
    logits[2] = -0.0
    assert_twins_agree(by, logits, "logits", rng.integers(n_classes, size=40))


@pytest.mark.parametrize("columns", [COLUMNS, LOOKED_UP], ids=["computed", "looked up"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_rows_that_threads_share(by, monkeypatch, kind: str, dtype: type, columns) -> None:
    rng = np.random.default_rng(5)
    monkeypatch.setattr("conformix.kernels.blocks.PART_OUTPUTS", 50)  # one row is worth a thread
    monkeypatch.setattr("conformix.kernels.blocks.FOR_TWO", 50)
    block, y = rng.dirichlet(np.full(50, 0.2), 31).astype(dtype), rng.integers(50, size=31)
    block[:, 1:] += np.arange(1, 50, dtype=dtype) / 64  # no ties but these, in a later part
    block[3, [10, 11]] = block[3].max()
    by("NumPy")
    whole = sorted_block("NumPy", block, kind, y, columns)
    places = [slice(first, 50) for first in (0, 50 - HELD_PLACES, 49)]
    expected = [whole.true, *(whole.scores(columns, None, some) for some in places)]
    by("compiled")
    for width in (1, HELD_PLACES, 50):
        for threads in (1, 2, 3):
            shared = UpperRows(SortedRows(block, kind), columns, y, width, threads=threads).filled()
            found = [shared.true, *(shared.scores(columns, None, some) for some in places)]
            for one, other in zip(found, expected, strict=True):
                assert_array_equal(signed_bits(one), signed_bits(other))


@pytest.mark.parametrize("n_classes", [SHORT_RUN, SHORT_RUN + 1, 700])
@pytest.mark.parametrize("digits", [True, False])
def test_long_rows_by_digits_and_by_numpy(by, monkeypatch, n_classes: int, digits: bool) -> None:
    monkeypatch.setattr("conformix.kernels.host.upper.BY_DIGITS", digits)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(n_classes, 0.1), 9)
    probs[1], probs[2] = 1 / n_classes, np.eye(n_classes)[3]
    crowd = 1.0 + rng.permutation(n_classes) * 2.0**-40  # alike in their first bits
    crowd[0] = 0.0
    probs[3] = crowd / crowd.sum()
    y = rng.integers(n_classes, size=9)
    assert_twins_agree(by, probs, "probs", y)
    assert_twins_agree(by, rng.normal(0, 5, (9, n_classes)), "logits", y)


@pytest.mark.parametrize("arithmetic", ["exact", "numpy"])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_true_labels_by_whose_exponential_the_model_asks_for(by, kind: str, arithmetic) -> None:
    by("compiled")
    rng = np.random.default_rng(7)
    logits, y = rng.normal(0, 6, (300, 40)), rng.integers(40, size=300)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    outputs = check_outputs(logits if kind == "logits" else probs, kind)
    outputs = replace(outputs, arithmetic=arithmetic)
    columns = score_columns(("",), ("thr", "aps", "rank", "aps(randomized=True)"))
    found = true_label_scores(outputs, y, columns, key=5)
    expected = fill_tensor(outputs, columns, key=5)[np.arange(300), y]
    assert_array_equal(signed_bits(found), signed_bits(expected))


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("n_classes", [1, 2, 9])
def test_scores_that_are_looked_up_are_what_calling_them_gives(n_classes: int, kind: str) -> None:
    logits = np.random.default_rng(n_classes).normal(size=(40, n_classes)).round(1)  # with ties
    probs = score_tensor(logits, "thr", kind="logits")[..., 0]
    ranked = Ranked(logits if kind == "logits" else probs, kind)
    found = set()
    for name in [*SCORES, *(name for name in named.SCORES if name not in NEED_MORE)]:
        (column,) = score_columns(("",), name)
        known = column.score.looked_up(n_classes)
        if known is not None:
            values = getattr(ranked, known.by)
            values = values if known.table is None else known.table[values]
            assert_array_equal(signed_bits(values), signed_bits(column.score(ranked)))
            found.add(name)
    assert found == {"thr", "aps", "rank", "logrank", "invrank"}


@pytest.mark.parametrize("layout", ["by columns", "read only", "every other"])
def test_rows_in_any_memory(by, layout: str) -> None:
    rng = np.random.default_rng(2)
    probs, y = rng.dirichlet(np.full(40, 0.3), 25).round(2) + 0.001, rng.integers(40, size=25)
    rows = {
        "by columns": np.asfortranarray(probs), "read only": probs.copy(),
        "every other": np.repeat(probs, 2, axis=1)[:, ::2],
    }[layout]  # fmt: skip
    rows.flags.writeable = layout != "read only"
    assert_twins_agree(by, rows, "probs", y)


values = st.one_of(st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, 5e-324]), st.floats(0, 1))


@given(data=st.data(), n_classes=st.integers(1, 40))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(by, data, n_classes: int) -> None:
    rows = st.lists(values, min_size=n_classes, max_size=n_classes)
    block = np.array(data.draw(st.lists(rows, min_size=2, max_size=5)))
    block[:, 0] = np.maximum(block[:, 0], 0.125)
    labels = st.lists(st.integers(0, n_classes - 1), min_size=len(block), max_size=len(block))
    assert_twins_agree(by, block, "probs", np.array(data.draw(labels)))


@pytest.mark.parametrize("who", ["compiled", "NumPy"])
def test_a_single_row_has_the_mass_of_its_tie_groups(by, who: str) -> None:
    by(who)
    row, aps = np.array([[0.1, 0.2, 0.2, 0.5]]), score_columns(("",), "aps")
    found = sorted_block(who, row, "probs", None, aps).scores(aps, None, slice(0, 4))
    assert_array_equal(found, score_tensor(row, ("aps",)))


def test_the_lowest_label_held_may_tie_with_one_that_is_not(by) -> None:
    row = np.arange(1.0, HELD_PLACES + 3)[None, :]
    row[0, 1] = row[0, 2]  # the second is the first that is not held
    assert_twins_agree(by, row / row.sum(), "probs", np.array([0]))


def test_some_of_the_rows_keep_what_is_known_of_them() -> None:
    logits, u = np.sort(np.random.default_rng(0).normal(size=(5, 7)), axis=1), np.arange(5) / 5
    whole = Rising(logits, "logits", u)
    for _ in range(2):
        part = whole.some(np.array([1, 4]))
        assert_array_equal(part.logits, logits[[1, 4]])
        assert_array_equal(part.probs, whole.probs[[1, 4]])  # the second time they are there
        assert_array_equal(part.u, u[[1, 4], None])


@pytest.mark.parametrize("width", [5, 40])
def test_rows_that_are_read_in_place_are_those_that_were_asked_for(by, width: int) -> None:
    by("compiled")
    block, which = np.random.default_rng(3).dirichlet(np.ones(40), size=30), np.array([7, 2, 29, 2])
    chosen = UpperRows(SortedRows(block), LOOKED_UP, None, width, rows=which, threads=2).filled()
    copied = UpperRows(SortedRows(block[which]), LOOKED_UP, None, width).filled()
    every, two, places = np.arange(4), np.array([1, 3]), slice(40 - width, 40)
    assert_array_equal(
        chosen.scores(LOOKED_UP, None, places), copied.scores(LOOKED_UP, None, places)
    )
    assert_array_equal(
        chosen.scores(LOOKED_UP, two, slice(0, 40)), copied.scores(LOOKED_UP, two, slice(0, 40))
    )
    assert_array_equal(chosen.some(two).block, block[which[two]])
    y = np.array([4, 0, 39, 8])
    assert_array_equal(
        chosen.true_scores(LOOKED_UP, y, every), copied.true_scores(LOOKED_UP, y, every)
    )


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("scores", [("thr", "aps", "rank"), ("rank",), "auto"])
def test_whole_fits_and_sets(by, scores, kind: str) -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 2, (600, 50)).round(1)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    outputs = logits
    if kind == "probs":
        outputs = np.exp(logits)
        outputs /= outputs.sum(axis=1, keepdims=True)
    found = []
    for who in ("NumPy", "compiled"):
        by(who)
        cp = cx.ScoreAverage(scores, kind=kind, random_state=0).fit(outputs[:400], y[:400])
        sets = cp.predict_set(outputs[400:])
        found.append((cp.weights_, cp.predictor_.fitted.held_out_size, sets.mask, sets.order))
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)
