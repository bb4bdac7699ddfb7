"""How time and memory grow: rows, classes, scores, weights.

    python -m benchmarks.growth                 # all axes, one JSON row per point
    python -m benchmarks.growth --axes classes

Every point runs in a process of its own. CPU seconds are told beside wall seconds: on a busy
machine they are the steadier of the two. A first fit loads what is compiled and is not counted.
Workers are measured by ``python -m benchmarks.cluster``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import ROOT, surroundings

RESULTS = ROOT / "benchmarks" / "results" / "growth.jsonl"
SCORES = ("thr", "aps", "rank", "logp", "margin", "invrank")
BASE = {"n": 20_000, "K": 100, "d": 3, "resolution": 100, "max_rows": 10_000}
AXES = {
    "rows": [{"n": n, "K": 10} for n in (20_000, 200_000, 2_000_000)],
    "classes": [{"K": K, "n": 8_000_000 // K, "max_rows": 200} for K in (10, 100, 1000, 20_000)],
    "scores": [{"d": d, "resolution": 12} for d in (1, 2, 3, 4, 6)],
    "weights": [{"resolution": m} for m in (10, 30, 100, 300)],
}


def make(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    logits = rng.standard_normal((n, n_classes), dtype=np.float32)
    logits[np.arange(n), y] += rng.normal(3.0, 1.0, n)
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True), y


def timed(call, told: dict, name: str) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    call()
    told[f"{name}_seconds"] = round(time.perf_counter() - start, 3)
    told[f"{name}_cpu_seconds"] = round(time.process_time() - cpu, 3)


def high_water() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def point(n: int, K: int, d: int, resolution: int, max_rows: int) -> dict:
    import conformix as cx
    from conformix.search import GridSearch, landscape, search_weights, simplex_grid
    from conformix.splits import ValidityFirst

    def model(rows: int) -> cx.ScoreAverage:
        split, search = ValidityFirst(max_rows=rows), GridSearch(resolution)
        return cx.ScoreAverage(SCORES[:d], split=split, search=search, random_state=0)

    def searches(scores: np.ndarray, y: np.ndarray, told: dict) -> None:
        how = {"alpha": 0.1, "resolution": resolution}
        timed(lambda: search_weights(scores, y, **how), told, "argmin")
        timed(lambda: landscape(scores, y, **how), told, "landscape")

    first, labels = make(20_000, 20)  # large enough for all that is compiled
    model(10_000).fit(first, labels).predict_set(first)
    searches(cx.score_tensor(first, SCORES[:d]), labels, {})
    probs, y = make(n, K)
    told: dict = {"n_weights": len(simplex_grid(d, resolution)), "start_mib": high_water()}
    cp = model(max_rows)
    timed(lambda: cp.fit(probs, y), told, "fit")
    told |= {"n_tune": cp.guarantee_.facts.n_tune, "peak_mib": high_water()}
    timed(lambda: [cp.predict_set(probs[i : i + 10_000]) for i in range(0, n, 10_000)], told,
          "predict")  # fmt: skip
    rows = slice(0, min(n, max_rows))
    scores = cx.score_tensor(probs[rows], SCORES[:d])
    searches(scores, y[rows], told)
    return told


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "point":
        print(json.dumps(point(**json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    around = surroundings() | {"load": round(os.getloadavg()[0], 1)}
    for axis in parser.parse_args().axes:
        for change in AXES[axis]:
            case = BASE | change
            command = [sys.executable, "-m", "benchmarks.growth", "point", json.dumps(case)]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            row = {"axis": axis, **case, **json.loads(done.stdout)}
            print(json.dumps(row), flush=True)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row | around) + "\n")


if __name__ == "__main__":
    main()
