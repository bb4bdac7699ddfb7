"""True-label scores that stay with the workers: one number per row comes back, bit for bit."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import LabelShift
from conformix.fit.scored import HeldScores, merged, rising
from conformix.splits import ValidityFirst

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

N = 3000


def same_bits(one: Any, other: Any) -> None:
    """Equal in every bit: ``0.0`` is not ``-0.0`` here."""
    one, other = np.asarray(one), np.asarray(other)
    assert (one.shape, one.dtype) == (other.shape, other.dtype)
    assert one.tobytes() == other.tobytes()


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    data = cx.datasets.load("cifar10")
    return data.outputs["vgg16"][:N], data.labels[:N]


def tied(n: int, d: int = 1) -> np.ndarray:
    """Return numbers that tie almost always, zeros of both signs among them."""
    return np.random.default_rng(n).choice([-0.5, -0.0, 0.0, 0.25], size=(n, d))


def first(scores: np.ndarray) -> np.ndarray:
    return scores[:, 0]


@pytest.mark.parametrize("arity", [2, 3, 8, 100])
@pytest.mark.parametrize("n_runs", [1, 2, 7, 8, 9, 65])
def test_a_tree_of_merges_is_the_stable_sort_of_all(n_runs, arity) -> None:
    from conformix.data.workers import fold

    parts = np.array_split(tied(300)[:, 0], n_runs)
    whole = np.concatenate(parts)
    assert np.signbit(rising(whole)[whole.size // 2 :]).any(), "the signs of zeros are mixed"
    same_bits(fold([rising(part) for part in parts], merged, arity), rising(whole))
    order = np.argsort(whole, kind="stable")
    same_bits(rising(whole), whole[order])


CUTS = {
    "one chunk": (40,),
    "chunks of one row": (1,) * 40,
    "many": (3, 9, 1, 7, 2, 5, 1, 1, 6, 4, 1),
    "no row of the second": (10, 5, 25),
}


@pytest.mark.parametrize("sizes", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_scores_in_chunks_answer_as_scores_here(sizes, scheduler) -> None:
    from conformix.fit.chunks import ChunkScores

    values = tied(40, 2)
    ends = np.cumsum(sizes)
    parts = tuple(map(dask.delayed, np.split(values, ends[:-1])))
    here, there = HeldScores(values), ChunkScores(parts, sizes)
    some = np.setdiff1d(np.arange(0, 40, 2), np.arange(10, 15))
    with dask.config.set(scheduler=scheduler):
        for own, its in [
            (here, there),
            (here.take(some), there.take(some)),
            (here.take(some).take(np.array([1, 3])), there.take(some).take(np.array([1, 3]))),
            (here.take(some[:0]), there.take(some[:0])),
        ]:
            assert len(own) == len(its)
            same_bits(its.combined(first), own.combined(first))
            same_bits(its.rising(first), own.rising(first))


SETTINGS = {
    "one threshold": {},
    "ties": {"scores": ("rank", "thr"), "search": [(1.0, 0.0)], "normalize": "none"},
    "given weights": {"weights": (0.5, 0.25, 0.25), "normalize": "scale"},
    "given weights, per class": {"weights": (1.0, 0.0, 0.0), "calibration": "class"},
    "given weights, no empty sets": {"weights": (1.0, 0.0, 0.0), "allow_empty": False},
    "no empty sets": {"allow_empty": False},
    "per class": {"calibration": "class"},
    "per cluster": {"calibration": "cluster"},
    "ranks per class": {"calibration": "rc3p"},
    "label shift": {"calibration": LabelShift(tuple(np.linspace(0.5, 1.5, 10)))},
    "per group": {"calibration": "group"},
    "weighted": {"calibration": "weighted"},
    "pac": {"guarantee": "pac"},
    "few rows tune": {"split": ValidityFirst(max_rows=10)},
}


def with_the_rows(settings: dict) -> dict:
    """Return what `fit` takes beside the labels."""
    if settings.get("calibration") == "group":
        return {"strata": np.arange(N) % 3}
    if settings.get("calibration") == "weighted":
        return {"sample_weight": np.linspace(0.0, 2.0, N)}
    return {}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_calibration_is_that_of_the_rows_in_memory(settings, rows) -> None:
    logits, y = rows
    options = {"kind": "logits", "random_state": 2, "threads": 1} | settings
    more = with_the_rows(settings)
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits, y, **more)
    chunks = da.from_array(logits, chunks=((1, 1299, 700, 999, 1), 10))
    parts = cx.ScoreAverage(**{"scores": "paper", **options}).fit(chunks, y, **more)
    mine, its = parts.predictor_.fitted, whole.predictor_.fitted
    same_bits(mine.calibration, its.calibration)
    same_bits(mine.rule.weights, its.rule.weights)
    assert mine.held_out_size == its.held_out_size
    assert mine.ledger == its.ledger
    np.testing.assert_array_equal(
        parts.predict_pvalues(logits[:50], **{k: v[:50] for k, v in more.items()}),
        whole.predict_pvalues(logits[:50], **{k: v[:50] for k, v in more.items()}),
    )


def test_chunks_whose_rows_all_tune_have_nothing_to_sort(rows) -> None:
    logits, y = rows
    groups = np.arange(N) // 500
    options = {"kind": "logits", "random_state": 0, "threads": 1}
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits, y, groups=groups)
    chunks = da.from_array(logits, chunks=(500, 10))
    parts = cx.ScoreAverage(**{"scores": "paper", **options}).fit(chunks, y, groups=groups)
    assert parts.guarantee_.facts.n_tune == 1500, "three of six chunks"
    same_bits(parts.predictor_.fitted.calibration, whole.predictor_.fitted.calibration)
    assert parts.held_out_size_ == whole.held_out_size_


def test_chunks_that_a_filter_has_emptied_are_passed_over(rows) -> None:
    logits, y = rows
    chunks = da.from_array(logits, chunks=(500, 10))
    inside = np.arange(N) >= 1200
    some = chunks[da.from_array(inside, chunks=500)].compute_chunk_sizes()
    assert some.chunks[0][:2] == (0, 0)
    options = {"kind": "logits", "random_state": 0, "threads": 1}
    parts = cx.ScoreAverage(**{"scores": "paper", **options}).fit(some, y[inside])
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits[inside], y[inside])
    same_bits(parts.predictor_.fitted.calibration, whole.predictor_.fitted.calibration)
    sets = parts.predict_set(some).compute()
    np.testing.assert_array_equal(sets, whole.predict_set(logits[inside]))


class Postman:
    """Notes all that `dask.compute` brings here, the one way by which anything comes."""

    def __init__(self) -> None:
        self.floats, self.labels, self.integers = [], [], []
        self._compute = dask.compute

    def __call__(self, *tasks: Any, **options: Any) -> Any:
        found = self._compute(*tasks, **options)
        self.note(found)
        return found

    def note(self, found: Any) -> None:
        if isinstance(found, dict):
            found = list(found.values())
        if isinstance(found, list | tuple):
            for one in found:
                self.note(one)
        elif isinstance(found, np.ndarray) and found.dtype.kind == "f":
            self.floats.append(found.size)
        elif isinstance(found, np.ndarray):
            self.labels.append(found)
        elif isinstance(found, int):
            self.integers.append(found)
        else:
            assert isinstance(found, slice)


@pytest.fixture
def postman(monkeypatch) -> Postman:
    one = Postman()
    monkeypatch.setattr(dask, "compute", one)
    return one


@pytest.mark.parametrize("calibration", ["marginal", "class"])
def test_of_a_calibration_row_one_number_and_its_label_come_back(calibration, rows, postman):
    logits, y = rows
    cp = cx.ScoreAverage(
        "paper",
        kind="logits",
        random_state=0,
        split=ValidityFirst(max_rows=100),
        calibration=calibration,
    )
    cp.fit(da.from_array(logits, chunks=(250, 10)), y)
    n_cal = N - 100
    assert sum(postman.floats) == 100 * 10 + n_cal, "outputs of the tuning rows, then one number"
    assert [part.dtype for part in postman.labels] == [np.uint8] * 12
    same_bits(np.concatenate(postman.labels), y.astype(np.uint8))
    assert postman.integers == [round(cp.held_out_size_ * n_cal)], "twelve chunks, one sum"
    if calibration == "marginal":
        assert postman.floats[-1] == n_cal, "sorted and merged where they are"


def test_labels_of_many_classes_take_two_bytes(postman) -> None:
    rng = np.random.default_rng(0)
    logits, y = rng.standard_normal((400, 300)), rng.integers(300, size=400)
    cx.ScoreAverage(kind="logits", weights=(1, 0, 0)).fit(da.from_array(logits, chunks=100), y)
    assert {part.dtype for part in postman.labels} == {np.dtype(np.uint16)}
    same_bits(np.concatenate(postman.labels).astype(int), y)


def test_a_landscape_is_added_up_by_the_workers(rows, postman) -> None:
    logits, y = rows[0][:400], rows[1][:400]
    scores = cx.score_tensor(logits, kind="logits")
    there = cx.search.spread.landscape(scores, y, alpha=0.1, resolution=10, parts=20)
    assert [part.shape for part in postman.labels] == [(66,)], "twenty parts, one row of counts"
    same_bits(there[1], cx.search.landscape(scores, y, alpha=0.1, resolution=10)[1])


def test_a_part_of_a_search_takes_one_core(rows, monkeypatch) -> None:
    seen, counts = [], cx.search.SizeObjective.counts
    monkeypatch.setattr(
        cx.search.SizeObjective,
        "counts",
        lambda self, w: seen.append(self.threads) or counts(self, w),
    )
    scores = cx.score_tensor(rows[0][:100], kind="logits")
    cx.search.search_weights(
        scores, rows[1][:100], alpha=0.1, search=cx.search.SpreadGrid(5, parts=3), threads=4
    )
    assert seen == [1, 1, 1]


@dataclass(frozen=True)
class Murderous:
    """A search that kills a worker which keeps scores, before it looks for weights."""

    client: Any

    def __call__(self, objective: Any, rng: Any = None) -> Any:
        holds = self.client.has_what()
        worker = max(holds, key=lambda address: len(holds[address]))
        assert holds[worker], "scores stay with the workers"
        os.kill(self.client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
        return cx.search.GridSearch(20)(objective, rng)


def noting(folder: str) -> Any:
    """Return a function of blocks that leaves a file for every time that it makes one."""

    def same(block: np.ndarray) -> np.ndarray:  # workers cannot import tests
        if len(block):
            Path(folder, f"{time.time_ns()}-{os.getpid()}").touch()
        return block

    return same


@pytest.mark.filterwarnings("default")  # what a killed process leaves open is not ours to close
def test_scores_that_die_with_a_worker_before_the_merge_are_made_again(rows, tmp_path) -> None:
    logits, y = rows
    options = {"kind": "logits", "random_state": 2, "threads": 1}
    whole = cx.ScoreAverage(search=cx.search.GridSearch(20), **options).fit(logits, y)
    with cx.cluster.connected("local", workers=2) as client:
        chunks = da.from_array(logits, chunks=(500, -1)).map_blocks(
            noting(str(tmp_path)), dtype=logits.dtype, meta=np.empty((0, 0))
        )
        parts = cx.ScoreAverage(search=Murderous(client), **options).fit(chunks, y)
        made = len(list(tmp_path.iterdir()))
        mine, its = parts.predictor_.fitted, whole.predictor_.fitted
        same_bits(mine.calibration, its.calibration)
        same_bits(mine.rule.weights, its.rule.weights)
        assert mine.held_out_size == its.held_out_size
        assert made > 2 * 6, "each chunk for scores and for sizes, and lost ones once more"
        until = time.monotonic() + 10
        while any(client.has_what().values()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(client.has_what().values()), "nothing stays behind a fit"
