"""Dask clusters on one machine: a fit, an experiment and a search, against one process.

    python -m benchmarks.cluster                         # 10^7 rows; one, two and four workers
    python -m benchmarks.cluster --only fit --rows 1000000 --workers 2

fit
    10^7 rows of 10 classes, made chunk by chunk from the number of the chunk, on the workers. The
    fit in memory is the reference: weights, all calibration scores, held-out size and the sets must
    be its bit for bit. With more than one worker there is a second run, in which a worker process
    is killed while it makes a chunk.
experiment
    Splits of CIFAR-100 with three methods, whose file of rows must be the same byte for byte; a
    worker is killed here too. Processes and workers load their libraries while the clock runs.
search
    All sizes of the simplex grid, and its winner; the scores travel to the workers.

Times of a fit count from workers that are up and have loaded their libraries, which "start" tells.
"Speed-up" is against the first line of a case. For a fit on workers that is one thread that does
the same: workers make rows twice for a fit and once for a prediction, so the time to make them is
added. One worker beside one thread is what Dask costs. Rows of the parts that run replace those in
the file; rows of other parts stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, fastest, surroundings

RESULTS = ROOT / "benchmarks" / "results" / "cluster.jsonl"
K = 10
CHUNK = 250_000
SINGULAR = {"workers": "worker", "threads": "thread", "processes": "process"}
COLUMNS = {"start": 7, "fit": 9, "predict": 9, "seconds": 9, "speed-up": 12, "same": 6}


def make_chunk(number: int, size: int, flag: str = "") -> np.ndarray:
    """Return labels and probabilities of one chunk, (size, 1 + K); kill the worker where asked."""
    if flag and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng(number)
    y = rng.integers(K, size=size)
    logits = rng.standard_normal((size, K))
    logits[np.arange(size), y] += rng.normal(2.5, 1.0, size)
    weights = np.exp(logits)
    probs = weights / weights.sum(axis=1, keepdims=True)
    return np.concatenate([y[:, None], probs], axis=1)


def arrays(n: int, flag: str = ""):
    """Return Dask arrays of probabilities and labels; one chunk kills where asked."""
    import dask.array as da
    from dask import delayed

    parts = []
    starts = range(0, n, CHUNK)
    for number, start in enumerate(starts):
        size = min(CHUNK, n - start)
        kills = number == min(2, len(starts) - 1)
        made = delayed(make_chunk)(number, size, flag if kills else "")
        parts.append(da.from_delayed(made, (size, 1 + K), dtype=float))
    whole = da.concatenate(parts)
    return whole[:, 1:], whole[:, 0].astype(int)


def settings(max_rows: int, threads: int | None = None) -> dict:
    from conformix.splits import ValidityFirst

    split = ValidityFirst(max_rows=max_rows)
    return {"alpha": 0.1, "split": split, "random_state": 0, "threads": threads}


def digest(values) -> str:
    content = values if isinstance(values, bytes) else np.ascontiguousarray(values).tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def told_of(cp) -> dict:
    fitted = cp.predictor_.fitted
    return {
        "weights": cp.weights_.tolist(),
        "threshold": cp.threshold_,
        "held_out_size": cp.held_out_size_,
        "calibration": digest(fitted.calibration),
    }


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def rows_in_memory(n: int) -> tuple[np.ndarray, np.ndarray]:
    probs, y = np.empty((n, K)), np.empty(n, dtype=int)
    for number, start in enumerate(range(0, n, CHUNK)):
        rows = slice(start, min(start + CHUNK, n))
        made = make_chunk(number, rows.stop - start)
        probs[rows], y[rows] = made[:, 1:], made[:, 0]
    return probs, y


def small_fit() -> None:
    """Load all that a fit and a prediction need, and compile what is compiled."""
    import conformix as cx

    rows = make_chunk(0, 1000)
    cp = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), **settings(500)}).fit(
        rows[:, 1:], rows[:, 0].astype(int)
    )
    cp.predict_set(rows[:, 1:])


def in_memory(probs: np.ndarray, y: np.ndarray, max_rows: int, threads: int) -> dict:
    import conformix as cx

    small_fit()
    cp = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), **settings(max_rows, threads)})
    fit, cp = seconds_of(lambda: cp.fit(probs, y))
    start = time.perf_counter()
    sets = hashlib.sha256()
    for block in range(0, len(y), CHUNK):
        sets.update(np.asarray(cp.predict_set(probs[block : block + CHUNK])).tobytes())
    times = {"fit_seconds": fit, "predict_seconds": time.perf_counter() - start}
    return {**times, "found": told_of(cp) | {"sets": sets.hexdigest()[:16]}}


def sets_digest(sets) -> str:
    """Return the digest of lazily predicted sets; only their hashes' input comes back in parts."""
    from dask import compute, delayed

    parts = compute(*[delayed(np.packbits)(part, axis=1) for part in sets.to_delayed()[:, 0]])
    found = hashlib.sha256()
    for part in parts:
        found.update(np.unpackbits(part, axis=1, count=K).astype(bool).tobytes())
    return found.hexdigest()[:16]


def on_cluster(n: int, max_rows: int, workers: int, folder: Path, *, kill: bool) -> dict:
    import conformix as cx

    flag = folder / f"killed{workers}"
    start = time.perf_counter()
    with cx.cluster.connected("local", workers=workers) as client:
        client.run(small_fit)
        times = {"start_seconds": time.perf_counter() - start}
        probs, y = arrays(n, str(flag) if kill else "")
        cp = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), **settings(max_rows)})
        times["fit_seconds"], cp = seconds_of(lambda: cp.fit(probs, y))
        times["predict_seconds"], sets = seconds_of(lambda: sets_digest(cp.predict_set(probs)))
    if kill and not flag.exists():
        raise RuntimeError("no worker was killed")
    return {**times, "found": told_of(cp) | {"sets": sets}}


def runs_of(workers: list[int], *, kill: bool) -> list[tuple[int, bool]]:
    """Return the clusters to measure: all as they are, then those that can spare a worker."""
    return [(w, False) for w in workers] + [(w, True) for w in workers if kill and w > 1]


def fits(chosen: Any, threads: list[int], folder: Path) -> Iterator[dict]:
    """Yield the rows of the fit in memory and on workers."""
    n, max_rows = chosen.rows, chosen.max_rows
    shape = {"case": "fit", "n": n, "K": K, "d": 3, "max_rows": max_rows}
    make, (probs, y) = seconds_of(lambda: rows_in_memory(n))
    one: dict = {}
    for number in threads:
        row = in_memory(probs, y, max_rows, number)
        one = one or row
        yield {
            **shape, "workers": 0, "threads": number, "killed": False, "make_seconds": make, **row,
            "same": row["found"] == one["found"],
            "speedup": one["fit_seconds"] / row["fit_seconds"],
            "predict_speedup": one["predict_seconds"] / row["predict_seconds"],
        }  # fmt: skip
    del probs, y
    for workers, kill in runs_of(chosen.workers, kill=chosen.kill):
        row = on_cluster(n, max_rows, workers, folder, kill=kill)
        same = row.pop("found") == one["found"]
        yield {
            **shape, "workers": workers, "killed": kill, **row, "same": same,
            "speedup": (one["fit_seconds"] + 2 * make) / row["fit_seconds"],
            "predict_speedup": (one["predict_seconds"] + make) / row["predict_seconds"],
        }  # fmt: skip


def experiment(workers: int, folder: Path, runs: int, *, processes: int = 1, kill=False) -> dict:
    import conformix as cx
    from conformix.experiments import Spec, run

    spec = Spec("cifar100", ("thr", "aps", "average"), models=("wideresnet_16_4",), runs=runs)
    path = folder / f"rows{workers}{processes}{kill}.jsonl"
    if not workers:
        seconds, _ = seconds_of(lambda: run(spec, path, workers=processes))
        return {"seconds": seconds, "rows": digest(path.read_bytes())}
    with cx.cluster.connected("local", workers=workers) as client:

        def maybe(done: int, total: int) -> None:
            if kill and done == 3:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        seconds, _ = seconds_of(lambda: run(spec, path, progress=maybe))
    return {"seconds": seconds, "rows": digest(path.read_bytes())}


def experiments(chosen: Any, threads: list[int], folder: Path) -> Iterator[dict]:
    """Yield the rows of the experiment in one process, in one per core, and on workers."""
    shape = {"case": "experiment", "runs": chosen.runs}
    one: dict = {}
    for number in threads:
        row = experiment(0, folder, chosen.runs, processes=number)
        one = one or row
        yield told_beside(one, {**shape, "workers": 0, "processes": number, "killed": False, **row})
    # A cluster with one worker is no use to joblib, which then runs all cases in this process.
    several = [workers for workers in chosen.workers if workers > 1]
    for workers, kill in runs_of(several, kill=chosen.kill):
        row = experiment(workers, folder, chosen.runs, kill=kill)
        yield told_beside(one, {**shape, "workers": workers, "killed": kill, **row})


def told_beside(one: dict, row: dict) -> dict:
    """Return a row with what it is beside one thread: as fast, and the same."""
    return {
        **row, "same": row["rows"] == one["rows"], "speedup": one["seconds"] / row["seconds"],
    }  # fmt: skip


def searches(chosen: Any, threads: list[int], folder: Path) -> Iterator[dict]:
    """Yield the rows of the grid: all its sizes, and its winner."""
    import conformix as cx

    shape = {"n": 20_000, "K": 100, "d": 3, "resolution": 100}
    rng = np.random.default_rng(0)
    y = rng.integers(shape["K"], size=shape["n"])
    logits = rng.standard_normal((shape["n"], shape["K"]))
    logits[np.arange(len(y)), y] += rng.normal(3.0, 1.0, len(y))
    given = (cx.score_tensor(logits, kind="logits"), y)
    options = {"alpha": 0.1, "resolution": shape["resolution"]}
    first: dict[str, dict] = {}

    def told(what: str, call: Callable[[], Any], **where: Any) -> dict:
        begun, found = seconds_of(call)
        values = found[1] if isinstance(found, tuple) else [*found.weights, found.count]
        row = {"seconds": fastest(call, 3), "first_seconds": begun, "rows": digest(values)}
        one = first.setdefault(what, row)
        place = {"case": "search", "what": what, **shape, **where, "killed": False}
        return told_beside(one, {**place, **row})

    for number in threads:
        own = {**options, "threads": number}
        where = {"workers": 0, "threads": number}
        yield told("landscape", lambda own=own: cx.search.landscape(*given, **own), **where)
        yield told("winner", lambda own=own: cx.search.search_weights(*given, **own), **where)
    for workers in chosen.workers:
        spread = cx.search.SpreadGrid(shape["resolution"], parts=workers)
        own = {**options, "parts": workers}
        with cx.cluster.connected("local", workers=workers):
            yield told(
                "landscape",
                lambda own=own: cx.search.spread.landscape(*given, **own),
                workers=workers,
            )
            yield told(
                "winner",
                lambda by=spread: cx.search.search_weights(*given, alpha=0.1, search=by),
                workers=workers,
            )


PARTS = {"fit": fits, "experiment": experiments, "search": searches}


class Log:
    """A line of a table for every row, and the file, in which other parts keep theirs."""

    def __init__(self, path: Path, parts: list[str]) -> None:
        self._path = path
        self._around = surroundings()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._rows = [row for row in map(json.loads, lines) if row["case"] not in parts]
        head = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
        print(f"{self._around['cores']} cores, {self._around['cpu']}\n{'':<42}{head}", flush=True)

    def add(self, row: dict) -> None:
        """Note one row; a run that is cut short leaves what it has measured."""
        row = {name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()}
        self._rows.append(row | self._around | {"load": round(os.getloadavg()[0], 1)})
        self._path.write_text("".join(json.dumps(one) + "\n" for one in self._rows), "utf-8")
        what = next(what for what in ("workers", "threads", "processes") if row.get(what))
        who = f"{row[what]} {what if row[what] > 1 else SINGULAR[what]}"
        told = [row.get("what", row["case"]), who, "one killed" if row["killed"] else ""]
        speed = [f"{row[name]:.1f}" for name in ("speedup", "predict_speedup") if name in row]
        cells = [row.get(f"{name}_seconds", "") for name in ("start", "fit", "predict")]
        cells += [row.get("seconds", ""), " / ".join(speed), "yes" if row["same"] else "NO"]
        shown = [f"{cell:.2f}" if isinstance(cell, float) else cell for cell in cells]
        line = "".join(f"{c:>{w}}" for c, w in zip(shown, COLUMNS.values(), strict=True))
        print(f"{', '.join(filter(None, told)):<42}{line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, nargs="+", help="in memory; by default 1 and all")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="kill no worker")
    parser.add_argument("--max-rows", type=int, default=50_000, help="rows that tune")
    parser.add_argument("--runs", type=int, default=100, help="splits of the experiment")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of JSON lines")
    chosen = parser.parse_args()
    from conformix.kernels import available_threads

    threads = chosen.threads or sorted({1, available_threads(None)})
    log = Log(chosen.out, chosen.only)
    with tempfile.TemporaryDirectory() as name:
        for part in chosen.only:
            for row in PARTS[part](chosen, threads, Path(name)):
                log.add(row)


if __name__ == "__main__":
    main()
