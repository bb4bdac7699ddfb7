"""NumPy for small problems, compiled kernels for large ones: the same bits, chosen in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.fit.exact import leave_one_out_efcp
from conformix.kernels import elementary, twins
from conformix.kernels.simplex import simplex_grid
from conformix.search.weights import candidate_weights

SEEDS = range(12)


def pair(family: str) -> tuple[ModuleType, ModuleType]:
    return tuple(import_module(f"conformix.kernels.{room}.{family}") for room in ("plain", "host"))  # type: ignore[return-value]


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what says by which twins everything is computed from now on."""

    def choose(room: str) -> None:
        monkeypatch.setattr(twins, "_spent", dict.fromkeys(twins.FAMILIES, 0))
        monkeypatch.setattr(twins, "PATIENCE", 2**62 if room == "plain" else -1)

    return choose


def problem(seed: int) -> dict[str, Any]:
    """Scores with many ties, weights on the simplex and beside it, of several d, K and types."""
    rng = np.random.default_rng(seed)
    n, n_classes, d = rng.integers(5, 60), rng.integers(2, 9), 1 + seed % 4
    scores = (
        rng.integers(0, 7, (n, n_classes, d)) / 7 if seed % 2 else rng.random((n, n_classes, d))
    )
    if seed % 3 == 0:
        weights = rng.normal(size=(40, d))
        weights[5] = weights[9]
    else:
        weights = simplex_grid(d, 6) / 6
    y = rng.integers(0, n_classes, n)
    return {
        "scores": scores.astype(np.float32) if seed % 5 == 0 else scores,
        "y": y,
        "weights": np.ascontiguousarray(weights),
        "k": int(rng.integers(1, n + 1)),
        "rng": rng,
    }


def planes_of(scores: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(scores, -1, 0), dtype=np.float64)


@pytest.mark.parametrize("family", twins.FAMILIES)
def test_twins_have_the_same_functions_with_the_same_arguments(family: str) -> None:
    plain, host = pair(family)
    names = set(getattr(host, "__all__", ()))
    for name, kernel in vars(host).items():
        options = getattr(kernel, "targetoptions", {"inline": "always"})
        if "inline" not in options and "no_cpython_wrapper" not in options:
            names.add(name)
    assert names
    for name in names:
        theirs = getattr(host, name)
        theirs = getattr(theirs, "py_func", theirs)
        assert inspect.signature(getattr(plain, name)) == inspect.signature(theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_thresholds_and_winners_are_the_same(seed: int) -> None:
    case = problem(seed)
    scores, y, weights, k = case["scores"], case["y"], case["weights"], case["k"]
    of_labels = scores[np.arange(len(y)), y].astype(np.float64)
    half = len(scores) // 2
    arguments = (of_labels, [scores[:half], scores[half:]], k, weights)
    plain, host = pair("engine")
    for mine, theirs in zip(
        plain.counts_and_thresholds(*arguments), host.counts_and_thresholds(*arguments), strict=True
    ):
        assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert_array_equal(plain.candidate_counts(*arguments), host.candidate_counts(*arguments))
    assert plain.smallest_count(*arguments, weights) == host.smallest_count(*arguments, weights)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_any_size_give_the_same_counts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = problem(seed)
    of_labels = case["scores"][np.arange(len(case["y"])), case["y"]]
    arguments = (of_labels, [case["scores"]], case["k"], case["weights"])
    plain, _ = pair("engine")
    whole = plain.counts_and_thresholds(*arguments)
    monkeypatch.setattr(plain, "ENTRIES", 10)
    for mine, theirs in zip(plain.counts_and_thresholds(*arguments), whole, strict=True):
        assert_array_equal(mine, theirs)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_counted_alike(seed: int) -> None:
    case = problem(seed)
    planes, weights, rng = planes_of(case["scores"]), case["weights"], case["rng"]
    _, n, n_classes = planes.shape
    m = len(weights)
    # Thresholds that some scores meet exactly.
    combined = planes[0, :, 0] * weights[:, :1]
    for j in range(1, len(planes)):
        combined = combined + planes[j, :, 0] * weights[:, j : j + 1]
    thresholds = np.ascontiguousarray(np.sort(combined, axis=1)[:, n // 2])
    by_label = np.ascontiguousarray(combined[:, rng.integers(0, n, n_classes)])
    by_label[:, 0] = -np.inf
    of_size = rng.integers(0, 99, n_classes + 1)
    of_label = rng.integers(0, 99, n_classes)
    ends = np.array([0, n // 3, n // 3, n])
    ranks = np.array([1, 1, n])
    rows = np.ascontiguousarray(np.moveaxis(planes[:, :, 0], 0, -1))
    jobs: list[tuple[str, tuple[Any, ...], tuple[int, ...], type]] = [
        ("count_nonempty", (planes, weights, thresholds), (m,), np.int64),
        ("row_tops", (planes, weights), (m, n), np.float64),
        ("row_costs", (planes, weights, thresholds, of_size, of_label), (m,), np.int64),
        ("row_sizes", (planes, weights, thresholds), (m, n), np.int64),
        ("stratum_thresholds", (rows, ends, ranks, weights), (m, 3), np.float64),
        ("count_by_label", (planes, weights, by_label), (m,), np.int64),
    ]
    for name, arguments, shape, kind in jobs:
        answers = [np.ones(shape, dtype=kind) for _ in range(2)]
        for room, answer in zip(pair("counting"), answers, strict=True):
            getattr(room, name)(*arguments, answer)
        assert_array_equal(*answers, err_msg=name)


@pytest.mark.parametrize("name", ["three", "auto"])
@pytest.mark.parametrize("entries", [2**15, 64])
def test_the_exact_split_selects_the_same_weights(
    name: str, entries: int, by: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = pair("selection")
    monkeypatch.setattr(plain, "ENTRIES", entries)
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.full(6, 0.5), 260).round(2)  # ties
    probs /= probs.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(6, p=row) for row in probs])
    scores: Any = ("thr", "aps", "rank") if name == "three" else "auto"
    answers = []
    for room in ("plain", "host"):
        by(room)
        model = cx.ScoreAverage(scores, alpha=0.15, split="exact", random_state=0)
        model.fit(probs[:160], y[:160])
        sets = np.asarray(model.predict_set(probs[160:]))
        answers.append((sets, model.predict_pvalues(probs[160:]), model.weights_))
    for mine, theirs in zip(*answers, strict=True):
        assert_array_equal(mine, theirs)


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 7])
def test_leaving_one_out_is_the_same(seed: int, by: Callable[[str], None]) -> None:
    case = problem(seed)
    d = case["scores"].shape[-1]
    weights = candidate_weights(cx.search.GridSearch(6), d)
    answers = []
    for room in ("plain", "host"):
        by(room)
        answers.append(leave_one_out_efcp(case["scores"], case["y"], weights, alpha=0.3))
    assert answers[0] == answers[1]


def room_of(kernels: ModuleType) -> str:
    return kernels.__name__.split(".")[2]


def test_the_choice_turns_where_the_work_has_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "_spent", dict.fromkeys(twins.FAMILIES, 0))
    monkeypatch.setattr(twins, "PATIENCE", 4 * twins.CALL)
    rooms = [room_of(twins.host_kernels("engine", n)) for n in (1, 3 * twins.CALL, 1, 1)]
    assert rooms == ["plain", "plain", "host", "host"]
    # Other families have their own kernels to compile.
    assert room_of(twins.host_kernels("selection", 1)) == "plain"


def test_what_a_large_problem_compiled_serves_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "_spent", dict.fromkeys(twins.FAMILIES, 0))
    monkeypatch.setattr(twins, "PATIENCE", 2**30)
    assert room_of(twins.host_kernels("engine", 2**30 + 1)) == "host"
    assert room_of(twins.host_kernels("engine", 1)) == "host"


def test_fits_on_both_sides_of_the_turn_are_the_same(by: Callable[[str], None]) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), 300)
    y = rng.integers(0, 5, 300)
    for options in (
        {},
        {"allow_empty": False},
        {"calibration": "class"},
        {"objective": "singletons"},
        {"split": "efcp", "objective": cx.search.CappedSize(2)},
    ):
        answers = []
        for room in ("plain", "host"):
            by(room)
            model = cx.ScoreAverage(("thr", "rank"), alpha=0.2, random_state=0, **options)
            model.fit(probs[:200], y[:200])
            answers.append((model.weights_, np.asarray(model.predict_set(probs[200:]))))
        for mine, theirs in zip(*answers, strict=True):
            assert_array_equal(mine, theirs)


def test_patience_can_be_spent_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "_spent", dict.fromkeys(twins.FAMILIES, 0))
    monkeypatch.setattr(twins, "PATIENCE", 2**30)
    twins.spend_patience()
    assert {room_of(twins.host_kernels(name, 1)) for name in twins.FAMILIES} == {"host"}


def test_loops_serve_few_numbers_once_many_have_compiled_them() -> None:
    assert twins.loops("ranks", twins.MANY) is None  # nobody has loaded any
    twins.compile_for(twins.WORTHWHILE)
    assert twins.loops("ranks", twins.MANY - 1) is None
    assert twins.loops("ranks", twins.MANY) is not None
    assert twins.loops("ranks", 1) is not None
    assert twins.loops("ranks", 0) is None  # NumPy knows what to do with nothing
    assert twins.loops("terms", 1) is None
    assert twins.loops("elementary", twins.MANY, "log_into") is not None
    assert twins.loops("elementary", 1, "log_into") is not None
    assert twins.loops("elementary", 1, "exp_into") is None


def test_rows_that_must_not_be_written_compile_nothing_anew() -> None:
    twins.compile_for(twins.WORTHWHILE)
    kernels = import_module("conformix.kernels.host.elementary")
    rows = np.random.default_rng(0).normal(size=(60, 50))

    def compute(values: np.ndarray) -> list[np.ndarray]:
        functions = (elementary.exp, elementary.log, elementary.softmax, elementary.log_sum_exp)
        found = [function(values) for function in functions]
        return [*found, *elementary.softmax_and_log_sums(values)]

    def signatures() -> int:
        parts = (kernels.exp_into, kernels._logs, kernels._softmax, kernels._log_sums)
        return sum(len(part.signatures) for part in parts)

    expected = compute(rows)
    before = signatures()
    frozen = rows.copy()
    frozen.flags.writeable = False
    for found, same in zip(compute(frozen), expected, strict=True):
        assert_array_equal(found, same)
    assert signatures() == before
