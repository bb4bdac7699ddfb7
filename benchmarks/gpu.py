"""The search on a GPU beside the search on the host: one case, identical results, the roofline.

``make bench WHAT=gpu`` times the host, and beside it the CUDA device if there is one; counts of all
weights and winners must be identical. The case is made by exactly rounded operations alone, so that
it is the same numbers on every machine; a digest says so.
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
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import conformix as cx
from conformix.kernels.simplex import simplex_grid

RESULTS = Path(__file__).resolve().parent / "results"
ALPHA = 0.1
OTHER_ALPHAS = (0.05, 0.01)
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
        "commit": os.environ.get("COMMIT") or done.stdout.strip() or "unknown",
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
            "n": n, "K": n_classes, "d": 3, "weights": len(self.grid),
            "case_digest": digest(self.probs),
            "bytes_s": 3 * 8 * pairs / BYTES_PER_S,
            "all_comparisons_s": 6 * pairs * len(self.grid) / FLOAT64_PER_S,
        }  # fmt: skip
        self.rows: list[dict[str, object]] = []

    def time(self, place: str, scores, wait) -> list[tuple[np.ndarray, np.ndarray]]:
        """Time landscape and argmin in one place; return counts and winners at every level."""
        found = []
        for alpha in (ALPHA, *OTHER_ALPHAS):
            calls = {
                "landscape": partial(cx.search.landscape, scores, self.y, alpha=alpha),
                "argmin": partial(cx.search.search_weights, scores, self.y, alpha=alpha),
            }
            (_, sizes), winner = calls["landscape"](), calls["argmin"]()  # results, and warm-up
            for name, call in calls.items():
                seconds = seconds_of(call, self.repeats, wait=wait)
                self.add(f"{name}, alpha {alpha:g}, {place}", seconds, place, alpha=alpha)
            counts = np.asarray(torch.as_tensor(sizes).cpu()) * self.facts["n"]
            found.append((np.rint(counts).astype(np.int64), winner.weights))
        return found

    def add(self, case: str, seconds: list[float], place: str, **more: object) -> None:
        """Keep and print one row: the median of some calls."""
        row = {
            "case": case, "seconds": statistics.median(seconds), "fastest_s": min(seconds),
            "repeats": len(seconds), "place": place, **self.facts, **more, **surroundings(),
        }  # fmt: skip
        self.rows.append(row)
        print(f"{case:48s} {row['seconds']:9.4f} s   fastest {row['fastest_s']:9.4f} s", flush=True)


def exact_split(bench: Bench, place: str, put, wait) -> np.ndarray:
    """Time fit and prediction of the exact split on a smaller case; return the sets."""
    probs, y = make_case(2_500, 200)
    cal, new = put(probs[:2_000]), put(probs[2_000:])

    def fit_and_predict():
        cp = cx.ScoreAverage(alpha=ALPHA, split="exact", search=cx.search.GridSearch(20))
        return cp.fit(cal, y[:2_000]).predict_set(new)

    sets = fit_and_predict()
    seconds = seconds_of(fit_and_predict, 3, wait=wait)
    bench.add(f"exact split, n 2,000, K 200, 500 new rows, {place}", seconds, place)
    return np.asarray(sets)


def on_host(bench: Bench):
    place = f"host, {len(os.sched_getaffinity(0))} cores"
    found = bench.time(place, cx.score_tensor(bench.probs), lambda: None)
    return found, exact_split(bench, place, lambda values: values, lambda: None)


def on_gpu(bench: Bench):
    name = torch.cuda.get_device_name()
    wait = torch.cuda.synchronize
    probs = torch.from_numpy(bench.probs).cuda()
    scores = cx.score_tensor(probs)
    few = slice(0, 500)
    np.testing.assert_array_equal(scores[few].cpu().numpy(), cx.score_tensor(bench.probs[few]))
    seconds = seconds_of(lambda: cx.score_tensor(probs), bench.repeats, wait=wait)
    bench.add(f"score tensor, {name}", seconds, name)
    cp = cx.ScoreAverage(("thr", "aps", "rank"), alpha=ALPHA, random_state=0).fit(
        probs[:5000], bench.y[:5000]
    )
    seconds = seconds_of(lambda: cp.predict_set(probs), 3, wait=wait)
    bench.add(f"predict_set, {name}", seconds, name)
    if find_spec("triton"):
        stages(bench, scores, wait)
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    found = bench.time(name, scores, wait)
    print(f"peak beyond the scores: {(torch.cuda.max_memory_allocated() - held) / 2**30:.2f} GiB")
    return found, exact_split(bench, name, lambda v: torch.from_numpy(v.copy()).cuda(), wait)


def stages(bench: Bench, scores, wait) -> None:
    """Time thresholds and counting apart."""
    from conformix.conformal import conformal_rank
    from conformix.kernels.device import triton as triton_counts
    from conformix.kernels.device.cells import fit_brackets, weight_cells
    from conformix.kernels.device.engine import THRESHOLD_CELLS
    from conformix.kernels.device.thresholds import all_thresholds

    weights = bench.grid / 100
    n = len(bench.y)
    true = scores[torch.arange(n).cuda(), torch.from_numpy(bench.y).cuda()]
    few = true[:: 1 + n // 512].cpu().numpy()
    cells = weight_cells(weights, THRESHOLD_CELLS)[0].anchored(few)
    levels = [level.anchored(few) for level in weight_cells(weights, *triton_counts.CELLS)]
    k = conformal_rank(n, ALPHA)
    planes = scores.movedim(-1, 0).reshape(3, -1)
    cuts = all_thresholds(true, k, weights, cells)
    brackets = [fit_brackets(level, weights, cuts, 1.0) for level in levels]

    def count():
        return triton_counts.count_pairs(planes, weights, cuts, levels, brackets)

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
    found, sets = on_host(bench)
    if torch.cuda.is_available():
        on_device, device_sets = on_gpu(bench)
        for ours, theirs in zip(on_device, found, strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])
        np.testing.assert_array_equal(device_sets, sets)
        print(f"identical on both: {len(found[0][0]):,} counts and the winner, at every level")
    for alpha, (counts, weights) in zip((ALPHA, *OTHER_ALPHAS), found, strict=True):
        sizes = counts / args.rows
        told = f"mean sizes from {sizes.min():.3f} to {sizes.max():.3f}"
        print(f"alpha {alpha:g}: {told}, winner {weights}")
    print(f"roofline: reading the scores once {bench.facts['bytes_s']:.5f} s;", end=" ")
    print(f"comparing every label with every weight {bench.facts['all_comparisons_s']:.3f} s")
    kept = args.out.read_text(encoding="utf-8").splitlines() if args.out.exists() else []
    places = {row["place"] for row in bench.rows}
    lines = [line for line in kept if json.loads(line)["place"] not in places]
    lines += [json.dumps(row) for row in bench.rows]
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
