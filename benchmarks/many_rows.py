"""A hundred million rows of ten classes, in mapped files on a local Dask cluster.

    python -m benchmarks.many_rows                        # 10^6, 10^7 and 10^8 rows; 5 GB of disk
    python -m benchmarks.many_rows --rows 100000 1000000

Outputs (float32) and labels (one byte) are written to a temporary folder in which every task maps
the rows of its chunk; the folder is removed at the end. Every fit (automatic scores) runs in a
process of its own with a cluster of its own; while it runs, one worker is killed and started anew.
Then all rows are predicted, and what comes back are counts: labels in the sets, and rows covered.
Told are seconds, the peak of resident memory of the client and of the largest worker (pages of the
files included), and the exponent of growth between two sizes. The first rows are fitted in memory
too, and must agree with the same rows on the cluster to the last bit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.cluster import K, digest, make_chunk
from benchmarks.measure import ROOT, surroundings
from benchmarks.out_of_core import forget_high_water, high_water

RESULTS = ROOT / "benchmarks" / "results" / "many_rows.jsonl"
CHUNK = 500_000
SUBSET = 200_000
# A worker is killed after so many seconds, and one more for every ten million rows.
SECONDS_UNTIL_KILL = 0.4


def write_rows(folder: Path, n: int) -> float:
    """Write outputs and labels of n rows, and return the size of both in GB."""
    shape = {"outputs": ((n, K), np.float32), "labels": ((n,), np.uint8)}
    files = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, size)
        for name, (size, kind) in shape.items()
    }
    for number, start in enumerate(range(0, n, CHUNK)):
        rows = slice(start, min(start + CHUNK, n))
        made = make_chunk(number, rows.stop - start)
        files["outputs"][rows], files["labels"][rows] = made[:, 1:], made[:, 0]
    for file in files.values():
        file.flush()
    return sum(path.stat().st_size for path in folder.glob("*.npy")) / 1e9


def mapped_rows(path: str, start: int, stop: int) -> np.ndarray:
    return np.load(path, mmap_mode="r")[start:stop]


def arrays(folder: Path, n: int, chunk: int = CHUNK):
    """Return Dask arrays of the first n rows of the files."""
    import dask.array as da
    from dask import delayed

    def of(name: str, rest: tuple[int, ...], kind: type):
        parts = []
        for start in range(0, n, chunk):
            stop = min(start + chunk, n)
            rows = delayed(mapped_rows)(str(folder / f"{name}.npy"), start, stop)
            parts.append(da.from_delayed(rows, (stop - start, *rest), dtype=kind))
        return da.concatenate(parts)

    return of("outputs", (K,), np.float32), of("labels", (), np.uint8).astype(np.int64)


def kill_one(client, pids: list[int]) -> None:
    """Kill one worker, and note its number; its nanny starts another."""
    pid = next(iter(client.run(os.getpid).values()))
    pids.append(pid)
    os.kill(pid, signal.SIGKILL)


def counted(sets: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    return int(sets.sum()), int(sets[np.arange(len(y)), y].sum())


def added_up(sets, y) -> tuple[int, int]:
    """Return the labels in lazily predicted sets, and the rows that they cover."""
    from dask import compute, delayed

    chunks = zip(sets.to_delayed()[:, 0], y.to_delayed(), strict=True)
    found = compute(*[delayed(counted)(*chunk) for chunk in chunks])
    return sum(labels for labels, _ in found), sum(covered for _, covered in found)


def average():
    import conformix as cx

    return cx.ScoreAverage("auto", alpha=0.1, random_state=0)


def told_of(cp) -> dict:
    fitted, blend = cp.predictor_.fitted, cp.predictor_.blend
    return {
        "coefficients": blend.coefficients.tolist(),
        "threshold": cp.threshold_,
        "calibration": digest(fitted.calibration),
    }


def subset(folder: Path) -> dict:
    """Fit the first rows in memory and on a cluster, and compare."""
    import conformix as cx

    n = min(SUBSET, len(np.load(folder / "labels.npy", mmap_mode="r")))
    outputs = np.array(np.load(folder / "outputs.npy", mmap_mode="r")[:n])
    y = np.load(folder / "labels.npy", mmap_mode="r")[:n].astype(np.int64)
    here = average().fit(outputs, y)
    with cx.cluster.connected("local", workers=2):
        probs, labels = arrays(folder, n, 37_000)
        there = average().fit(probs, labels)
        same_sets = np.array_equal(there.predict_set(probs).compute(), here.predict_set(outputs))
    return {"subset_rows": n, "same_fit": told_of(here) == told_of(there), "same_sets": same_sets}


def on_cluster(folder: Path, workers: int) -> dict:
    """Fit and predict all rows of the files; one worker is killed on the way."""
    import conformix as cx

    n = len(np.load(folder / "labels.npy", mmap_mode="r"))
    killed: list[int] = []
    with cx.cluster.connected("local", workers=workers, progress=True) as client:
        probs, y = arrays(folder, n)
        average().fit(probs[:CHUNK], y[:CHUNK])  # loads and compiles what there is
        client.run(forget_high_water)
        forget_high_water()
        timer = threading.Timer(SECONDS_UNTIL_KILL + n / 1e7, kill_one, (client, killed))
        timer.start()
        start = time.perf_counter()
        cp = average().fit(probs, y)
        fit = time.perf_counter() - start
        timer.join()
        client.wait_for_workers(workers)
        told = {"fit_seconds": round(fit, 1), "fit_peak_gb": round(high_water(), 3)}
        told["fit_worker_peak_gb"] = round(max(client.run(high_water).values()), 3)
        forget_high_water()
        start = time.perf_counter()
        labels, covered = added_up(cp.predict_set(probs), y)
        told["predict_seconds"] = round(time.perf_counter() - start, 1)
        told["predict_peak_gb"] = round(high_water(), 3)
    facts = cp.guarantee_.facts
    return {
        "n": n, "K": K, "workers": workers, "killed": len(killed), **told,
        "n_tune": facts.n_tune, "n_cal": facts.n_cal, "mean_size": labels / n,
        "coverage": covered / n, **told_of(cp),
    }  # fmt: skip


def in_a_process(step: str, folder: Path, *given: object) -> dict:
    command = [sys.executable, "-m", "benchmarks.many_rows", step, str(folder), *map(str, given)]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def growth(rows: list[dict], what: str) -> float:
    """Return the exponent of growth between the last two sizes."""
    one, other = rows[-2:]
    return math.log(other[what] / one[what]) / math.log(other["n"] / one["n"])


def main() -> None:
    if sys.argv[1:2] == ["on_cluster"]:
        print(json.dumps(on_cluster(Path(sys.argv[2]), int(sys.argv[3]))))
        return
    if sys.argv[1:2] == ["subset"]:
        print(json.dumps(subset(Path(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of JSON lines")
    chosen = parser.parse_args()
    rows: list[dict] = []
    for n in sorted(chosen.rows):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            file_gb = round(write_rows(folder, n), 2)
            row = {"case": "many_rows", "file_gb": file_gb}
            row |= in_a_process("on_cluster", folder, chosen.workers)
            row |= in_a_process("subset", folder) | surroundings()
        rows.append(row)
        chosen.out.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
        print(
            f"{n:>12,} x {K}  {file_gb} GB  fit {row['fit_seconds']} s, predict "
            f"{row['predict_seconds']} s; client {row['fit_peak_gb']} GB, worker "
            f"{row['fit_worker_peak_gb']} GB; killed {row['killed']}; coverage "
            f"{row['coverage']:.4f}; first {row['subset_rows']:,} rows as in memory: "
            f"{'yes' if row['same_fit'] and row['same_sets'] else 'NO'}",
            flush=True,
        )
    if len(rows) > 1:
        told = {what: growth(rows, what) for what in ("fit_seconds", "predict_seconds")}
        print("growth: " + ", ".join(f"{what} n^{value:.2f}" for what, value in told.items()))


if __name__ == "__main__":
    main()
