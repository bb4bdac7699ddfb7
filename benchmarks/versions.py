"""Two versions of the library against each other: ``python -m benchmarks.versions OLD [NEW]``.

Both run at the same time, each in a process of its own, and take turns: every case is timed in one
and then in the other, so that a busy machine slows both. Printed is the median of the paired ratios
new / old with a 95 % bootstrap interval, and beside it the peak of the memory that Python traces
(arrays included), which hardly varies. OLD and NEW are checkouts or revisions of this
repository; NEW is this tree by default.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "release"))

from identity import checkout  # noqa: E402  the one place that lays out a revision

from benchmarks.measure import interval  # noqa: E402

# What a version does for a living: it reads what to measure of which case, and answers.
SERVER = r"""
import sys, tempfile, time, tracemalloc, warnings
warnings.simplefilter("ignore")
import numpy as np
import dask.array as da
import conformix as cx

rng = np.random.default_rng(0)


def rows(n, k):
    logits = rng.normal(size=(n, k)) * 2
    y = rng.integers(0, k, n)
    logits[np.arange(n), y] += 3
    z = np.exp(logits - logits.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True), y


P, y = rows(10_000, 100)
Q, t = rows(4_000, 400)
THREE = ("thr", "aps", "rank")
new = lambda *a, **k: cx.ScoreAverage(*a, random_state=0, **k)
three, auto = new(THREE).fit(P[:5000], y[:5000]), new("auto").fit(P[:5000], y[:5000])
exact = new(THREE, split="exact").fit(P[:300], y[:300])
sure = new(THREE, split="exact", alpha=0.01).fit(Q[:500], t[:500])
scores = cx.score_tensor(P, THREE)
chunks = da.from_array(P[:5000], chunks=(1000, -1))
one = P[:1]
CASES = {
    "fit, three scores": lambda: new(THREE).fit(P[:5000], y[:5000]),
    "fit, three scores, K = 400": lambda: new(THREE).fit(Q[:2000], t[:2000]),
    "fit, one score": lambda: new("thr", weights=[1.0]).fit(P[:5000], y[:5000]),
    "fit, efcp": lambda: new(THREE, split="efcp").fit(P[:5000], y[:5000]),
    "fit, auto": lambda: new("auto").fit(P[:5000], y[:5000]),
    "fit, exact": lambda: new(THREE, split="exact").fit(P[:300], y[:300]),
    "fit, never empty": lambda: new(THREE, allow_empty=False).fit(P[:5000], y[:5000]),
    "fit, per class": lambda: new(THREE, calibration="class").fit(P[:5000], y[:5000]),
    "predict, three scores": lambda: three.predict_set(P[5000:]),
    "predict, one row": lambda: [three.predict_set(one) for _ in range(50)],
    "predict, auto": lambda: auto.predict_set(P[5000:]),
    "predict, exact": lambda: exact.predict_set(P[5000:5500]),
    "predict, exact, 99 %, K = 400": lambda: sure.predict_set(Q[2000:2100]),
    "p-values": lambda: three.predict_pvalues(P[5000:]),
    "several levels, auto": lambda: auto.predict_set(P[5000:], alpha=[0.01, 0.05, 0.1]),
    "scores of all labels": lambda: cx.score_tensor(P[:5000], THREE),
    "search, 5,151 weights": lambda: cx.search.search_weights(scores, y, alpha=0.05),
    "batches": lambda: new(THREE).fit_batches(cx.stream.from_arrays(P[:5000], y[:5000], rows=1000)),
    "dask": lambda: new(THREE).fit(chunks, y[:5000]).predict_set(chunks).compute(),
}
for case in CASES.values():
    case()
print(*CASES, sep="|", flush=True)
for line in sys.stdin:
    what, name = line.strip().split("|")
    if what == "memory":
        tracemalloc.start()
        CASES[name]()
        print(tracemalloc.get_traced_memory()[1] / 2**20, flush=True)
        tracemalloc.stop()
        continue
    start = time.perf_counter()
    CASES[name]()
    print(time.perf_counter() - start, flush=True)
"""


class Version:
    """A version of the library that times cases on demand."""

    def __init__(self, tree: Path) -> None:
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"),
            "CONFORMIX_DATA": str(ROOT / "data"),
        }
        self.process: Any = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def cases(self) -> list[str]:
        """Return the names of the cases, once everything is compiled."""
        return self.process.stdout.readline().strip().split("|")  # type: ignore[no-any-return]

    def seconds(self, case: str) -> float:
        """Return how long a case takes."""
        return self._answer(f"seconds|{case}")

    def peak_mib(self, case: str) -> float:
        """Return the peak of the memory that a case asks for."""
        return self._answer(f"memory|{case}")

    def _answer(self, question: str) -> float:
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default=str(ROOT))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", nargs="+", help="words of the cases; all by default")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        old = Version(checkout(asked.old, one))
        new = Version(checkout(asked.new, other))
        names = old.cases()
        if new.cases() != names:
            raise SystemExit("the two versions do not run the same cases.")
        if asked.only:
            names = [name for name in names if any(word in name for word in asked.only)]
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for number in range(asked.rounds):
            for name in names:
                order = (old, new) if number % 2 else (new, old)
                times = {version: version.seconds(name) for version in order}
                pairs[name].append((times[old], times[new]))
        peaks = {name: (old.peak_mib(name), new.peak_mib(name)) for name in names}
        for version in (old, new):
            version.process.stdin.close()
            version.process.wait()
    head = f"{'case':<28} {'old ms':>9} {'new ms':>9} {'new / old':>10}  95 % interval "
    print(f"{head} {'old MiB':>8} {'new MiB':>8}")
    for name, taken in pairs.items():
        a, b = np.array(taken).T
        low, high = interval(b / a)
        print(
            f"{name:<28} {1e3 * np.median(a):9.1f} {1e3 * np.median(b):9.1f} "
            f"{np.median(b / a):10.3f}  [{low:.3f}, {high:.3f}] "
            f"{peaks[name][0]:8.1f} {peaks[name][1]:8.1f}"
        )


if __name__ == "__main__":
    main()
