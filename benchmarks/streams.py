"""Streams: time per row and memory over a million rows, and controllers side by side.

    python -m benchmarks.streams                      # both, small
    python -m benchmarks.streams flat --rows 1000000  # time per row and memory, in ten parts
    python -m benchmarks.streams flat --log FOLDER    # the same, recorded
    python -m benchmarks.streams flat --responses     # the same of intervals
    python -m benchmarks.streams controllers          # coverage, size, regret; drift or none

CPU seconds are told: on a busy machine they are the steadier ones. Controllers are compared on the
p-values of one stream, which do not depend on the controller where weights are fixed: the set at a
level holds the labels whose p-value exceeds it. "DtACI, published" draws one expert per step, as
Algorithm 1 of Gibbs & Candes (2022) does, and has no budget.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.growth import high_water
from benchmarks.measure import ROOT

ALPHA = 0.1
RESULTS = ROOT / "benchmarks" / "results" / "streams.jsonl"


def drifting_rows(n: int, n_classes: int = 10, seed: int = 0) -> Iterator[tuple[np.ndarray, int]]:
    """Yield rows whose model gets worse and better again, slowly; nothing is kept."""
    rng = np.random.default_rng(seed)
    for first in range(0, n, 10_000):
        size = min(10_000, n - first)
        y = rng.integers(n_classes, size=size)
        good = 2.5 + 1.5 * np.cos(2 * np.pi * (first + np.arange(size)) / 200_000)
        logits = rng.standard_normal((size, n_classes))
        logits[np.arange(size), y] += good
        raw = np.exp(logits)
        yield from zip(raw / raw.sum(axis=1, keepdims=True), y.tolist(), strict=True)


def resident() -> float:
    """Return the memory of this process in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def drifting_responses(n: int, seed: int = 0) -> Iterator[tuple[object, float]]:
    """Yield what a model predicts and the response, whose spread grows and shrinks slowly."""
    import conformix as cx

    rng = np.random.default_rng(seed)
    for first in range(0, n, 10_000):
        size = min(10_000, n - first)
        mean, sigma = rng.normal(size=size), rng.uniform(0.5, 2, size=size)
        wide = 1.5 + np.cos(2 * np.pi * (first + np.arange(size)) / 200_000)
        y = mean + wide * sigma * rng.normal(size=size)
        model = cx.Regressed(mean=mean, sigma=sigma)
        for t in range(size):
            yield model[t], float(y[t])


def flat(
    rows: int, log: Path | None = None, parts: int = 10, responses: bool = False, **options
) -> list[dict]:
    """Return CPU microseconds per row and memory of every part of a stream."""
    import conformix as cx

    settings = {"window": 200, "candidates": 4, "control": "dtaci", "adapt": "fading"} | options
    kind = cx.OnlineRegression if responses else cx.OnlineAverage
    online = kind(("abs", "norm") if responses else "thr", alpha=ALPHA, **settings)
    if log is not None:
        online.record(log)
    issue = online.predict_interval if responses else online.predict_set
    told, errors = [], 0
    start = time.process_time()
    stream = drifting_responses(rows) if responses else drifting_rows(rows)
    for t, (row, label) in enumerate(stream, start=1):
        issue(row)
        errors += online.update(label)
        if t % (rows // parts) == 0:
            now = time.process_time()
            told.append(
                {"rows": t, "us_per_row": round(1e6 * (now - start) / (rows // parts), 1),
                 "memory_mb": round(resident(), 1), "share_of_errors": errors / t,
                 "bound": online.control_.bound(t)}
            )  # fmt: skip
            start = time.process_time()
    if log is not None:
        online.close()
    return told


class Published:
    """DtACI as published: one expert per step, drawn by its weight."""

    reads_pvalues = True

    def __init__(self, seed: int) -> None:
        from conformix.online import DtACI

        self.experts = DtACI(room=math.inf).start(ALPHA)
        self.rng = np.random.default_rng(seed)
        self.level = ALPHA

    def update(self, error: bool, pvalue: float) -> None:
        """Let the experts move, and draw the next."""
        self.experts.update(error, pvalue)
        weights = np.array(self.experts._weights)
        self.level = self.experts._levels[self.rng.choice(len(weights), p=weights / weights.sum())]


def pvalues_of(outputs: dict, y: np.ndarray, window: int = 500) -> np.ndarray:
    """Return the p-values (n, K) of a stream whose weights are fixed."""
    import conformix as cx

    online = cx.OnlineAverage(
        ("thr", "aps"), alpha=ALPHA, kind="logits", window=window, adapt=None, candidates=1
    )
    found = []
    for t in range(len(y)):
        row = {name: values[t] for name, values in outputs.items()}
        found.append(online.predict_pvalues(row)[0])
        online.predict_set(row)
        online.update(y[t])
    return np.array(found)


def stream(drift: bool, steps: int, seed: int) -> tuple[dict, np.ndarray]:
    """Return rows of CIFAR-100 by two networks; under drift the better one breaks and is mended."""
    import conformix as cx

    data = cx.datasets.load("cifar100")
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data.labels))[:steps]
    names = ("wideresnet_16_4", "densenet_bc_100")
    outputs = {name: data.outputs[name][rows].astype(np.float64) for name in names}
    if drift:
        broken = slice(steps // 3, 2 * steps // 3)
        for values in outputs.values():
            part = values[broken]
            values[broken] = part + 4 * rng.normal(size=part.shape)
    return outputs, data.labels[rows]


def controls(seed: int) -> dict:
    from conformix.online import ACI, Betting, DtACI

    steps = {f"ACI, step {gamma}": ACI(gamma).start(ALPHA) for gamma in (0.001, 0.008, 0.064)}
    return {
        **steps,
        "ACI (0.02)": ACI().start(ALPHA),
        "betting": Betting().start(ALPHA),
        "DtACI, published": Published(seed),
        "DtACI with a budget": DtACI().start(ALPHA),
    }


def played(control, pvalues: np.ndarray, truth: np.ndarray) -> dict:
    """Return what a controller does on a stream of p-values."""
    from conformix.online.controllers import tell

    levels = np.empty(len(truth))
    for t, p in enumerate(truth):
        levels[t] = control.level
        tell(control, bool(levels[t] >= p), float(p))
    errors = levels >= truth
    sizes = (pvalues > levels[:, None]).sum(axis=1)
    loss = ALPHA * (truth - levels) - np.minimum(0, truth - levels)
    near = np.convolve(errors, np.ones(500) / 500, mode="valid")
    return {
        "coverage": 1 - errors.mean(), "size": sizes.mean(), "loss": loss.sum(),
        "near": np.abs(near - ALPHA).max(),
    }  # fmt: skip


def controllers(steps: int, seeds: int) -> list[dict]:
    """Return coverage, size, the worst stretch and regret of every controller, over seeds."""
    told = []
    for drift in (False, True):
        runs: dict[str, list[dict]] = {}
        for seed in range(seeds):
            outputs, y = stream(drift, steps, seed)
            pvalues = pvalues_of(outputs, y)
            truth = pvalues[np.arange(steps), y]
            found = {name: played(one, pvalues, truth) for name, one in controls(seed).items()}
            best = min(one["loss"] for name, one in found.items() if "step" in name)
            for name, one in found.items():
                one["regret"] = one["loss"] - best
                runs.setdefault(name, []).append(one)
        for name, found in runs.items():
            means = {key: np.mean([one[key] for one in found]) for key in found[0]}
            spread = np.std([one["regret"] for one in found])
            told.append(
                {"drift": drift, "control": name, "seeds": seeds, "steps": steps,
                 "regret_sd": round(float(spread), 2),
                 **{key: round(float(value), 4) for key, value in means.items()}}
            )  # fmt: skip
    return told


def as_table(rows: list[dict]) -> str:
    """Return the controllers as a Markdown table."""
    lines = [
        "| stream | control | coverage | mean size | worst 500 rows | regret |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = "drift" if row["drift"] else "no drift"
        lines.append(
            f"| {name} | {row['control']} | {row['coverage']:.4f} | {row['size']:.2f} | "
            f"{row['near']:.3f} | {row['regret']:.1f} ± {row['regret_sd']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=["flat", "controllers"])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--responses", action="store_true", help="flat of intervals")
    parser.add_argument("--keep", action="store_true", help=f"append to {RESULTS.name}")
    asked = parser.parse_args()
    kept = []
    if asked.what != "controllers":
        for row in flat(asked.rows, asked.log, responses=asked.responses):
            kept.append(
                {
                    "what": "flat",
                    "responses": asked.responses,
                    "recorded": asked.log is not None,
                    **row,
                }
            )
            print(json.dumps(kept[-1]), flush=True)
        print(f"peak {high_water()} MB")
    if asked.what != "flat":
        found = controllers(asked.steps, asked.seeds)
        kept += [{"what": "controllers", **row} for row in found]
        print(as_table(found))
    if asked.keep:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in kept)
