"""Time and peak memory of automatic scores and EFCP on rows that are not in memory, beside VFCP.

    python -m benchmarks.doors                                   # 10^7 Dask rows, K = 20,000 mapped
    python -m benchmarks.doors --only dask --rows 200000 --workers 2
    python -m benchmarks.doors --only mapped --mapped-rows 3000 --classes 2000

dask
    Rows of 10 classes, made chunk by chunk on the workers of a cluster on this machine.
mapped
    A float32 file of K classes, written to a temporary folder and mapped.

Every fit runs in a process of its own, which tells its seconds (wall and its own processor's) and
its peak of resident memory; of workers the largest peak is told. "vfcp" tunes on as many rows as
its memory for scores holds, "auto" on at most 4,000, "efcp" on all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.cluster import arrays, small_fit
from benchmarks.measure import ROOT, surroundings
from benchmarks.out_of_core import forget_high_water, high_water, write_case

RESULTS = ROOT / "benchmarks" / "results" / "doors.jsonl"
METHODS: dict[str, dict] = {
    "vfcp": {},
    "auto": {"scores": "auto"},
    "efcp": {"split": "efcp"},
}


def measured(method: str, fit: Callable[..., object]) -> dict:
    """Return the time and the memory of one fit, and what came out."""
    import conformix as cx

    cp = cx.ScoreAverage(
        **{"scores": ("thr", "aps", "rank"), **METHODS[method]}, alpha=0.1, random_state=0
    )
    forget_high_water()
    before, start, own = high_water(), time.perf_counter(), time.process_time()
    fit(cp)
    facts = cp.guarantee_.facts
    return {
        "method": method,
        "seconds": round(time.perf_counter() - start, 2),
        "processor_seconds": round(time.process_time() - own, 2),
        "start_gb": round(before, 3),
        "peak_gb": round(high_water(), 3),
        "n_tune": facts.n_tune,
        "n_cal": facts.n_cal,
        "weights": cp.weights_.tolist(),
        "threshold": cp.threshold_,
        "held_out_size": cp.held_out_size_,
        "searched_size": cp.search_.size,
    }


def on_dask(method: str, n: int, workers: int) -> dict:
    import conformix as cx

    with cx.cluster.connected("local", workers=workers) as client:
        client.run(small_fit)
        small_fit()
        client.run(forget_high_water)
        probs, y = arrays(n)
        told = measured(method, lambda cp: cp.fit(probs, y))
        peaks = client.run(high_water).values()
    return {"case": "dask", "n": n, "K": 10, "workers": workers, **told,
            "worker_peak_gb": round(max(peaks), 3)}  # fmt: skip


def on_file(method: str, folder: str) -> dict:
    small_fit()
    outputs = np.load(Path(folder) / "outputs.npy", mmap_mode="r")
    y = np.load(Path(folder) / "labels.npy")
    told = measured(method, lambda cp: cp.fit(outputs, y))
    return {"case": "mapped", "n": len(y), "K": outputs.shape[1], **told}


def in_a_process(step: str, *given: object) -> dict:
    command = [sys.executable, "-m", "benchmarks.doors", step, *map(str, given)]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["on_dask"]:
        print(json.dumps(on_dask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    if sys.argv[1:2] == ["on_file"]:
        print(json.dumps(on_file(sys.argv[2], sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=["dask", "mapped"], default=["dask", "mapped"])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the Dask arrays")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--mapped-rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=20_000, help="of the mapped file")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of JSON lines, added to")
    chosen = parser.parse_args()
    around = surroundings()

    def note(row: dict) -> None:
        with chosen.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | around) + "\n")
        workers = f", workers {row['worker_peak_gb']} GB" if "worker_peak_gb" in row else ""
        print(
            f"{row['case']:<7} {row['n']:>12,} x {row['K']:<6,} {row['method']:<5}"
            f"{row['seconds']:>9.1f} s {row['peak_gb']:>8.3f} GB{workers}",
            flush=True,
        )

    if "dask" in chosen.only:
        for method in METHODS:
            note(in_a_process("on_dask", method, chosen.rows, chosen.workers))
    if "mapped" in chosen.only:
        with tempfile.TemporaryDirectory() as name:
            write_case(Path(name), chosen.mapped_rows, chosen.classes)
            for method in METHODS:
                note(in_a_process("on_file", method, name))


if __name__ == "__main__":
    main()
