"""Dask clusters on one machine: 10^7 rows of 10 classes, and an experiment, against one process.

    python -m benchmarks.cluster                         # 10^7 rows, two and four workers
    python -m benchmarks.cluster --rows 1000000 --workers 2

Rows are made chunk by chunk from the number of the chunk, on the workers. The fit in memory is the
reference: weights, all calibration scores, held-out size and the sets must be its bit for bit. In a
second run of every cluster one worker process is killed while its chunk is being made. The same for
an experiment, whose file of rows must be the same byte for byte. Times count from a cluster that is
up; starting it is told apart.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.measure import ROOT, surroundings

RESULTS = ROOT / "benchmarks" / "results" / "cluster.jsonl"
K = 10
CHUNK = 250_000


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
    """Return Dask arrays of probabilities and labels; the third chunk kills where asked."""
    import dask.array as da
    from dask import delayed

    parts = []
    for number, start in enumerate(range(0, n, CHUNK)):
        size = min(CHUNK, n - start)
        made = delayed(make_chunk)(number, size, flag if number == 2 else "")
        parts.append(da.from_delayed(made, (size, 1 + K), dtype=float))
    whole = da.concatenate(parts)
    return whole[:, 1:], whole[:, 0].astype(int)


def settings(max_rows: int) -> dict:
    from conformix.splits import ValidityFirst

    return {"alpha": 0.1, "split": ValidityFirst(max_rows=max_rows), "random_state": 0}


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


def in_memory(n: int, max_rows: int) -> tuple[dict, dict]:
    import conformix as cx

    start = time.perf_counter()
    rows = [make_chunk(i, min(CHUNK, n - s)) for i, s in enumerate(range(0, n, CHUNK))]
    probs, y = np.concatenate([r[:, 1:] for r in rows]), np.concatenate([r[:, 0] for r in rows])
    del rows
    times = {"make_seconds": time.perf_counter() - start}
    start = time.perf_counter()
    cp = cx.ScoreAverage(**settings(max_rows)).fit(probs, y.astype(int))
    times["fit_seconds"] = time.perf_counter() - start
    start = time.perf_counter()
    sets = hashlib.sha256()
    for block in range(0, n, CHUNK):
        sets.update(np.asarray(cp.predict_set(probs[block : block + CHUNK])).tobytes())
    times["predict_seconds"] = time.perf_counter() - start
    return told_of(cp) | {"sets": sets.hexdigest()[:16]}, times


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
    with cx.cluster.connected("local", workers=workers):
        times = {"start_seconds": time.perf_counter() - start}
        probs, y = arrays(n, str(flag) if kill else "")
        start = time.perf_counter()
        cp = cx.ScoreAverage(**settings(max_rows)).fit(probs, y)
        times["fit_seconds"] = time.perf_counter() - start
        start = time.perf_counter()
        found = told_of(cp) | {"sets": sets_digest(cp.predict_set(probs))}
        times["predict_seconds"] = time.perf_counter() - start
    if kill and not flag.exists():
        raise RuntimeError("no worker was killed")
    return {"found": found, **times}


def experiment(workers: int | None, folder: Path, runs: int, *, kill: bool = False) -> dict:
    import conformix as cx
    from conformix.experiments import Spec, run

    spec = Spec("cifar100", ("thr", "aps", "average"), models=("wideresnet_16_4",), runs=runs)
    path = folder / f"rows{workers}{kill}.jsonl"
    if workers is None:
        start = time.perf_counter()
        run(spec, path, workers=1)
        return {"seconds": time.perf_counter() - start, "rows": digest(path.read_bytes())}
    with cx.cluster.connected("local", workers=workers) as client:

        def maybe(done: int, total: int) -> None:
            if kill and done == 3:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        start = time.perf_counter()
        run(spec, path, progress=maybe)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": digest(path.read_bytes())}


def digestible(row: dict) -> dict:
    return {name: round(v, 2) if isinstance(v, float) else v for name, v in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--max-rows", type=int, default=50_000, help="rows that tune")
    parser.add_argument("--runs", type=int, default=20, help="splits of the experiment")
    chosen = parser.parse_args()
    around = surroundings()
    around["load"] = round(os.getloadavg()[0], 1)

    def keep(row: dict) -> None:
        print(json.dumps(row), flush=True)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | around) + "\n")

    shape = {"n": chosen.rows, "K": K, "d": 3, "max_rows": chosen.max_rows}
    wanted, times = in_memory(chosen.rows, chosen.max_rows)
    keep({"case": "fit", **shape, "workers": 0, **digestible(times), "found": wanted})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = experiment(None, folder, chosen.runs)
        keep({"case": "experiment", "runs": chosen.runs, "workers": 0, **digestible(alone)})
        for kill in (True, False):
            for workers in chosen.workers:
                row = on_cluster(chosen.rows, chosen.max_rows, workers, folder, kill=kill)
                row |= {"same": row.pop("found") == wanted, "killed": kill}
                keep({"case": "fit", **shape, "workers": workers, **digestible(row)})
                row = experiment(workers, folder, chosen.runs, kill=kill)
                row |= {"same": row["rows"] == alone["rows"], "killed": kill}
                told = {"case": "experiment", "runs": chosen.runs, "workers": workers}
                keep(told | digestible(row))


if __name__ == "__main__":
    main()
