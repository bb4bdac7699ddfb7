"""What the two matrices of ``scores="auto"`` cost: fit and predict, with and without them.

``python -m benchmarks.learnt`` takes the host, and the CUDA device too where there is one. Both
ways are timed in turn in one process, and the fastest of each counts. The sets of the device must
be those of the host. Beyond 2,048 classes no matrix is learnt, and both ways are the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import conformix as cx
from benchmarks.gpu import make_case
from conformix.scores import blend

# Classes, and rows that are fitted and predicted each.
CASES = (
    (10, 10_000),
    (100, 10_000),
    (1_000, 10_000),
    (2_000, 4_000),
    (4_000, 2_000),
    (20_000, 500),
)
REPEATS = 3
# What is learnt with likeness and kin, and without the two.
WITH, WITHOUT = blend.LEARNT, ("rarity",)


def measure(
    outputs: Any, y: np.ndarray, wait: Callable[[], object]
) -> tuple[Any, dict[str, float]]:
    """Return the sets, and seconds of fit and predict, with and without what is learnt."""
    half = len(y) // 2
    seconds: dict[str, float] = {}
    sets: Any = None
    for _ in range(REPEATS):
        for what, learnt in (("without", WITHOUT), ("with", WITH)):
            blend.LEARNT = learnt
            wait()
            start = time.perf_counter()
            cp = cx.ScoreAverage("auto", alpha=0.1, random_state=0).fit(outputs[:half], y[:half])
            wait()
            fitted = time.perf_counter()
            sets = cp.predict_set(outputs[half:])
            wait()
            done = time.perf_counter()
            for stage, passed in (("fit", fitted - start), ("predict", done - fitted)):
                key = f"{stage} {what}"
                seconds[key] = min(seconds.get(key, np.inf), passed)
    return sets, seconds


def places() -> dict[str, tuple[Callable[[np.ndarray], Any], Callable[[], object]]]:
    """Return where rows can be: how they get there, and how to wait until work there is done."""
    found: dict[str, Any] = {"host": (np.asarray, lambda: None)}
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        found["device"] = (lambda rows: torch.from_numpy(rows).cuda(), torch.cuda.synchronize)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--most", type=int, default=10**6, help="leave out more classes than this")
    most = parser.parse_args().most
    print("| K | rows fitted, predicted | where | fit, s | without | predict, s | without |")
    print("|---|---|---|---|---|---|---|")
    for n_classes, n in CASES:
        if n_classes > most:
            continue
        probs, y = make_case(2 * n, n_classes)
        masks = []
        for place, (put, wait) in places().items():
            sets, seconds = measure(put(probs), y, wait)
            mask = np.asarray(sets.mask.cpu() if hasattr(sets.mask, "cpu") else sets.mask)
            masks.append(mask)
            cells = [
                f"{seconds[f'{s} {w}']:.3f}"
                for s in ("fit", "predict")
                for w in ("with", "without")
            ]
            print(f"| {n_classes:,} | {n:,} | {place} | {' | '.join(cells)} |", flush=True)
        assert all(np.array_equal(masks[0], mask) for mask in masks)


if __name__ == "__main__":
    main()
