"""What a fresh process waits for: imports, first sets, the compiler; in processes of their own.

Wanted: first fit and first sets of 1,000 rows and 10 classes within 3 s of starting Python with
an empty cache, within 1 s in a second process; all kernels compiled in 8 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.measure import ROOT, Report

FIRST_SETS = """
import time
start = time.perf_counter()
import numpy as np
import conformix as cx
imported = time.perf_counter()
rng = np.random.default_rng(0)
probs = rng.dirichlet(np.full(10, 0.3), 2000)
y = (probs.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1).clip(max=9)
begin = time.perf_counter()
model = cx.ScoreAverage({scores!r}, split={split!r}).fit(probs[:1000], y[:1000])
fitted = time.perf_counter()
model.predict_set(probs[1000:])
done = time.perf_counter()
import json, sys
print(json.dumps([imported - start, fitted - begin, done - fitted, "numba" in sys.modules]))
"""
# Too much for NumPy, so that numba is loaded and its cache read.
LARGE_SEARCH = """
import json, time
import numpy as np
import conformix as cx
rng = np.random.default_rng(0)
scores, y = rng.random((20_000, 10, 3)), np.zeros(20_000, dtype=int)
times = [time.perf_counter()]
for _ in range(2):
    cx.search.search_weights(scores, y, alpha=0.1, threads=1)
    times.append(time.perf_counter())
print(json.dumps(np.diff(times).tolist()))
"""
ALL_KERNELS = """
import json
from conformix.estimators.warmup import warm_up
result = warm_up()
print(json.dumps([result.seconds, result.compiled]))
"""
# What any first call of numba imports, whatever it calls.
NUMBA_ALONE = """
import json, time
import numpy
start = time.perf_counter()
import numba, scipy.linalg
print(json.dumps([time.perf_counter() - start]))
"""
THREE = ("thr", "aps", "rank")
BYTECODE = tempfile.TemporaryDirectory()
CASES = [(scores, split) for scores in (THREE, "auto") for split in ("vfcp", "exact")]


def in_a_fresh_process(code: str, cache: str) -> list[float]:
    """Return what a process prints; bytecode of Python is there, as after an installation."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": BYTECODE.name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def first_sets(report: Report) -> None:
    for scores, split in CASES:
        code = FIRST_SETS.format(scores=scores, split=split)
        with tempfile.TemporaryDirectory() as cache:
            in_a_fresh_process(code, cache)  # for the bytecode
        with tempfile.TemporaryDirectory() as cache:
            empty = in_a_fresh_process(code, cache)
            later = [in_a_fresh_process(code, cache) for _ in range(5)]
        name = scores if isinstance(scores, str) else ",".join(scores)
        for when, (imported, fit, predict, numba) in (
            ("empty cache", empty),
            ("later", min(later, key=sum)),
        ):
            report.add(
                f"start: import to first sets, {name}, {split}, 1,000 x 10, {when}",
                imported + fit + predict,
                import_s=round(imported, 4),
                fit_s=round(fit, 4),
                predict_s=round(predict, 4),
                numba=numba,
            )


def startup(report: Report) -> None:
    first_sets(report)
    with tempfile.TemporaryDirectory() as cache:
        in_a_fresh_process(NUMBA_ALONE, cache)  # for the bytecode
        first, _ = in_a_fresh_process(LARGE_SEARCH, cache)
        report.add("start: first large search, nothing compiled before", first)
    with tempfile.TemporaryDirectory() as cache:
        seconds, compiled = in_a_fresh_process(ALL_KERNELS, cache)
        report.add("start: conformix warmup, all kernels", compiled, total_s=round(seconds, 4))
        warm = [in_a_fresh_process(LARGE_SEARCH, cache) for _ in range(5)]
        numba = min(in_a_fresh_process(NUMBA_ALONE, cache)[0] for _ in range(3))
    first, second = (min(times) for times in zip(*warm, strict=True))
    report.add(
        "start: first large search, compiled before, numba included",
        first,
        numba_import_s=round(numba, 4),
    )
    report.add("start: second large search", second)
