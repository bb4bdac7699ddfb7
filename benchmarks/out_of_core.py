"""Fit and predict on outputs larger than the memory they may take: a memory-mapped .npy file.

    python -m benchmarks.out_of_core                    # K = 20,000, n = 50,000, float32: 4 GB
    python -m benchmarks.out_of_core --kind logits
    python -m benchmarks.out_of_core --rows 6000 --subset 2500

The file is written in blocks to a temporary folder and removed at the end. Fit and predict run in a
process of their own with default settings, whose peak of resident memory (VmHWM) is read after
each. Another process takes the first rows into memory and fits them there; the mapped fit of the
same rows must agree to the last bit, and so must the sets.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import ROOT, surroundings

RESULTS = ROOT / "benchmarks" / "results" / "out_of_core.jsonl"
BLOCK = 500


def write_case(folder: Path, n: int, n_classes: int, kind: str = "probs", seed: int = 0) -> None:
    """Write probabilities or logits (n, K) float32 of a middling classifier, and true labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    np.save(folder / "labels.npy", y)
    out = np.lib.format.open_memmap(
        folder / "outputs.npy", mode="w+", dtype=np.float32, shape=(n, n_classes)
    )
    for start in range(0, n, BLOCK):
        rows = slice(start, min(n, start + BLOCK))
        logits = rng.standard_normal((rows.stop - start, n_classes), dtype=np.float32)
        # How sure the classifier is differs from row to row.
        logits[np.arange(len(logits)), y[rows]] += rng.normal(5.5, 1.5, len(logits))
        if kind == "probs":
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            logits = weights / weights.sum(axis=1, keepdims=True)
        out[rows] = logits
    out.flush()


def settings(kind: str, max_rows: int) -> dict:
    """Return the settings of a fit; 0 tuning rows stand for the default number."""
    from conformix.splits import ValidityFirst

    return {
        "scores": ("thr", "aps", "rank"),
        "alpha": 0.1,
        "split": ValidityFirst(max_rows=max_rows) if max_rows else "vfcp",
        "kind": kind,
        "random_state": 0,
    }


def high_water() -> float:
    """Return the largest resident memory of this process since it was last forgotten, in GB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM"))


def forget_high_water() -> None:
    """Let the peak be what the process holds now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def stages(call, told: dict, name: str):
    """Run one stage and note its seconds and its own peak of memory."""
    forget_high_water()
    start = time.perf_counter()
    made = call()
    told[f"{name}_seconds"] = round(time.perf_counter() - start, 1)
    told[f"{name}_peak_gb"] = round(high_water(), 3)
    return made


def mapped(folder: Path, kind: str, max_rows: int) -> dict:
    """Fit and predict from the file; return times, peaks and what came out."""
    import conformix as cx

    told: dict = {"start_peak_gb": round(high_water(), 3)}
    outputs = np.load(folder / "outputs.npy", mmap_mode="r")
    y = np.load(folder / "labels.npy")
    cp = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), **settings(kind, max_rows)})
    stages(lambda: cp.fit(outputs, y), told, "fit")
    told |= {"weights": cp.weights_.tolist(), "threshold": cp.threshold_}
    told |= {"held_out_size": cp.held_out_size_}
    told |= {"n_tune": cp.guarantee_.facts.n_tune, "n_cal": cp.guarantee_.facts.n_cal}
    sets = cp.predict_batches(cx.stream.from_npy(folder / "outputs.npy"))
    target = folder / "sets.parquet"
    told["sets"] = stages(lambda: cx.sets.write_sets(sets, target), told, "predict")
    return told


def subset(folder: Path, kind: str, max_rows: int, n: int) -> dict:
    """Fit and predict the first rows in memory and from the file, and compare all of it."""
    import conformix as cx
    from conformix.fit import rows as limits

    gathered: list[bool] = []
    are_too_many = limits.are_too_many

    def noted(*given: object) -> bool:
        gathered.append(are_too_many(*given))
        return gathered[-1]

    limits.are_too_many = noted
    y = np.load(folder / "labels.npy")[:n]
    on_disk = np.load(folder / "outputs.npy", mmap_mode="r")[:n]
    limits.TENSOR_BYTES = 2**62  # keep the scores of all rows in memory
    whole = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), **settings(kind, max_rows)}).fit(
        np.array(on_disk), y
    )
    kept_all = not any(gathered)
    gathered.clear()
    limits.TENSOR_BYTES = limits.MAPPED_BYTES = 0  # gather those of the file
    parts = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), **settings(kind, max_rows)}).fit(
        on_disk, y
    )
    one, other = whole.predictor_.fitted, parts.predictor_.fitted
    batches = cx.stream.from_arrays(on_disk)
    sets = zip(parts.predict_batches(batches), batches, strict=True)
    same_sets = all(np.array_equal(got, whole.predict_set(np.array(b[0]))) for got, b in sets)
    return {
        "subset_rows": n,
        "subset_tune": one.ledger.facts.n_tune,
        "two_ways": kept_all and any(gathered),
        "same_facts": one.ledger.facts == other.ledger.facts,
        "same_weights": bool(np.array_equal(one.rule.weights, other.rule.weights)),
        "same_calibration": bool(np.array_equal(one.calibration, other.calibration)),
        "same_held_out_size": one.held_out_size is not None
        and one.held_out_size == other.held_out_size,
        "same_sets": same_sets,
    }


def in_a_process(step: str, folder: Path, kind: str, *numbers: int) -> dict:
    command = [sys.executable, "-m", "benchmarks.out_of_core", step, str(folder), kind]
    done = subprocess.run(
        [*command, *map(str, numbers)], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def main() -> None:
    steps = {"mapped": mapped, "subset": subset}
    if len(sys.argv) > 1 and sys.argv[1] in steps:
        numbers = map(int, sys.argv[4:])
        print(json.dumps(steps[sys.argv[1]](Path(sys.argv[2]), sys.argv[3], *numbers)))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=20_000)
    parser.add_argument("--kind", choices=["probs", "logits"], default="probs")
    parser.add_argument(
        "--max-rows", type=int, default=0, help="rows that tune, if not the default"
    )
    parser.add_argument("--subset", type=int, default=2_500, help="rows compared with memory")
    chosen = parser.parse_args()
    row: dict = {"case": "out_of_core", "n": chosen.rows, "K": chosen.classes, "d": 3}
    row |= {"kind": chosen.kind, "max_rows": chosen.max_rows or "default"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_case(folder, chosen.rows, chosen.classes, chosen.kind)
        row["file_gb"] = round((folder / "outputs.npy").stat().st_size / 1e9, 2)
        row |= in_a_process("mapped", folder, chosen.kind, chosen.max_rows)
        row |= in_a_process("subset", folder, chosen.kind, chosen.max_rows, chosen.subset)
    row |= surroundings()
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
