"""What the first search of a process costs, in fresh processes: imports, cache, cold compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.measure import ROOT, Report

FIRST_SEARCH = """
import json, time
import numpy as np
start = time.perf_counter()
import conformix as cx
imported = time.perf_counter()
rng = np.random.default_rng(0)
scores, y = rng.random((200, 10, 3)), np.zeros(200, dtype=int)
cx.search.search_weights(scores, y, alpha=0.1, resolution=20, threads=1)
first = time.perf_counter()
cx.search.search_weights(scores, y, alpha=0.1, resolution=20, threads=1)
second = time.perf_counter()
print(json.dumps([imported - start, first - imported, second - first]))
"""
# What any first call of numba imports, whatever it calls.
NUMBA_ALONE = """
import json, time
import numpy
start = time.perf_counter()
import numba, scipy.linalg
print(json.dumps([time.perf_counter() - start]))
"""


def in_a_fresh_process(code: str, cache: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def startup(report: Report) -> None:
    with tempfile.TemporaryDirectory() as cache:
        _, cold, _ = in_a_fresh_process(FIRST_SEARCH, cache)
        warm = [in_a_fresh_process(FIRST_SEARCH, cache) for _ in range(5)]
        numba = min(in_a_fresh_process(NUMBA_ALONE, cache)[0] for _ in range(3))
    imported, first, second = (min(times) for times in zip(*warm, strict=True))
    report.add("start: import conformix", imported)
    report.add(
        "start: first search, compiled before, numba included",
        first,
        numba_import_s=round(numba, 4),
    )
    report.add("start: first search, nothing compiled before", cold)
    report.add("start: second search", second)
