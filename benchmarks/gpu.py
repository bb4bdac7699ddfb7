"""The search on a GPU beside the search on the host: one case, identical results, the roofline.

``python benchmarks/gpu.py`` needs a CUDA device for the GPU rows. Without one it times the host and
leaves its counts in `benchmarks/results/gpu_reference.npz`, against which a machine that has a GPU,
and perhaps no numba, compares. The case is made by exactly rounded operations alone, so that it is
the same numbers on every machine; a digest says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import conformix as cx
from conformix.search.simplex import simplex_grid

RESULTS = Path(__file__).resolve().parent / "results"
REFERENCE = RESULTS / "gpu_reference.npz"
ALPHA = 0.1
# What the datasheet of an H200 says: bytes per second, and float64 instructions per second that
# are no fused pair of two (half of 34e12).
BYTES_PER_S, FLOAT64_PER_S = 4.8e12, 17e12


def make_case(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (n, K) and labels (n,): powers of uniform numbers, the truth raised."""
    rng = np.random.default_rng(0)
    values = rng.random((n, n_classes))
    for _ in range(5):
        values *= values
    y = rng.integers(n_classes, size=n)
    luck = rng.random(n)
    values[np.arange(n), y] += 60 * (luck * luck)
    total = np.zeros(n)
    for column in values.T:  # in this order on every machine
        total += column
    values /= total[:, None]
    return values, y


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values)).hexdigest()[:16]


def seconds_of(call, repeats: int, *, wait) -> list[float]:
    """Return the seconds of some calls, each from an idle device to an answer on the host."""
    found = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        call()
        wait()
        found.append(time.perf_counter() - start)
    return found


def surroundings() -> dict[str, object]:
    git = ["git", "-C", str(RESULTS), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return {
        "commit": done.stdout.strip() or os.environ.get("COMMIT", "unknown"),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    }


class Bench:
    """One case, timed in one or two places."""

    def __init__(self, n: int, n_classes: int, repeats: int) -> None:
        self.repeats = repeats
        self.probs, self.y = make_case(n, n_classes)
        self.grid = simplex_grid(3, 100)
        pairs = n * n_classes
        self.facts = {
            "n": n, "K": n_classes, "d": 3, "weights": len(self.grid), "alpha": ALPHA,
            "case_digest": digest(self.probs),
            "bytes_s": 3 * 8 * pairs / BYTES_PER_S,
            "all_comparisons_s": 6 * pairs * len(self.grid) / FLOAT64_PER_S,
        }  # fmt: skip
        self.rows: list[dict[str, object]] = []

    def time(self, place: str, scores, wait) -> tuple[np.ndarray, np.ndarray]:
        """Time landscape and argmin of scores in one place; return counts and winning weights."""
        n = self.facts["n"]

        def landscape():
            return cx.search.landscape(scores, self.y, alpha=ALPHA)[1]

        def argmin():
            return cx.search.search_weights(scores, self.y, alpha=ALPHA)

        sizes, found = landscape(), argmin()  # warm-up, and the results
        for name, call in (("landscape", landscape), ("argmin", argmin)):
            seconds = seconds_of(call, self.repeats, wait=wait)
            self.add(f"{name}, {place}", seconds, place)
        counts = np.rint(np.asarray(torch.as_tensor(sizes).cpu()) * n).astype(np.int64)
        return counts, found.weights

    def add(self, case: str, seconds: list[float], place: str) -> None:
        """Keep and print one row: the median of some calls."""
        row = {
            "case": case, "seconds": statistics.median(seconds), "fastest_s": min(seconds),
            "repeats": len(seconds), "place": place, **self.facts, **surroundings(),
        }  # fmt: skip
        self.rows.append(row)
        print(f"{case:48s} {row['seconds']:9.4f} s   fastest {row['fastest_s']:9.4f} s", flush=True)


def on_host(bench: Bench) -> tuple[np.ndarray, np.ndarray]:
    scores = cx.score_tensor(bench.probs)
    return bench.time(f"host, {len(os.sched_getaffinity(0))} cores", scores, lambda: None)


def on_gpu(bench: Bench) -> tuple[np.ndarray, np.ndarray]:
    name = torch.cuda.get_device_name()
    wait = torch.cuda.synchronize
    probs = torch.from_numpy(bench.probs).cuda()
    scores = cx.score_tensor(probs)
    few = slice(0, 500)
    np.testing.assert_array_equal(scores[few].cpu().numpy(), cx.score_tensor(bench.probs[few]))
    seconds = seconds_of(lambda: cx.score_tensor(probs), bench.repeats, wait=wait)
    bench.add(f"score tensor, {name}", seconds, name)
    cp = cx.ScoreAverage(alpha=ALPHA, random_state=0).fit(probs[:5000], bench.y[:5000])
    seconds = seconds_of(lambda: cp.predict_set(probs), 3, wait=wait)
    bench.add(f"predict_set, {name}", seconds, name)
    if find_spec("triton"):
        stages(bench, scores, wait)
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    found = bench.time(name, scores, wait)
    print(f"peak beyond the scores: {(torch.cuda.max_memory_allocated() - held) / 2**30:.2f} GiB")
    return found


def stages(bench: Bench, scores, wait) -> None:
    """Time thresholds and counting apart."""
    from conformix.conformal import conformal_rank
    from conformix.kernels import triton_counts
    from conformix.kernels.torch_thresholds import all_thresholds
    from conformix.kernels.weight_cells import fit_brackets, weight_cells
    from conformix.search.device import FUSED_CELLS

    weights = bench.grid / 100
    n = len(bench.y)
    true = scores[torch.arange(n).cuda(), torch.from_numpy(bench.y).cuda()]
    cells = weight_cells(weights, FUSED_CELLS).anchored(true[:: 1 + n // 512].cpu().numpy())
    k = conformal_rank(n, ALPHA)
    planes = scores.movedim(-1, 0).reshape(3, -1)
    cuts = all_thresholds(true, k, weights, cells)
    brackets = fit_brackets(cells, weights, cuts, 1.0)

    def count():
        return triton_counts.count_pairs(planes, weights, cuts, cells, brackets)

    count()
    for name, call in (
        ("thresholds alone", lambda: all_thresholds(true, k, weights, cells)),
        ("counting alone", count),
    ):
        bench.add(name, seconds_of(call, bench.repeats, wait=wait), torch.cuda.get_device_name())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.jsonl")
    args = parser.parse_args()
    bench = Bench(args.rows, args.classes, args.repeats)
    found = [on_host(bench)] if find_spec("numba") else []
    if torch.cuda.is_available():
        found.append(on_gpu(bench))
    full = args.rows * args.classes == 50_000_000
    if full and not torch.cuda.is_available():
        np.savez(REFERENCE, counts=found[0][0], weights=found[0][1], digest=digest(bench.probs))
    elif full and not find_spec("numba"):
        with np.load(REFERENCE) as kept:
            assert kept["digest"] == digest(bench.probs), "the case is not the same on this machine"
            found.append((kept["counts"], kept["weights"]))
    if len(found) == 2:
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])
        print(f"identical: {len(found[0][0]):,} counts, and the winner {found[0][1]}")
    sizes = found[0][0] / args.rows
    print(f"mean sizes from {sizes.min():.3f} to {sizes.max():.3f}")
    print(f"roofline: reading the scores once {bench.facts['bytes_s']:.5f} s;", end=" ")
    print(f"comparing every label with every weight {bench.facts['all_comparisons_s']:.3f} s")
    kept = args.out.read_text(encoding="utf-8").splitlines() if args.out.exists() else []
    places = {row["place"] for row in bench.rows}
    lines = [line for line in kept if json.loads(line)["place"] not in places]
    lines += [json.dumps(row) for row in bench.rows]
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
