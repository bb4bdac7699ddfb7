"""Fit and predict on outputs larger than the memory they may take: a memory-mapped .npy file.

    python -m benchmarks.out_of_core                    # K = 20,000, n = 50,000, float32: 4 GB
    python -m benchmarks.out_of_core --kind logits
    python -m benchmarks.out_of_core --rows 6000 --subset 2500
    python -m benchmarks.out_of_core --beside OLD/src   # the same job by two versions, with auto

The file is written in blocks to a temporary folder and removed at the end. Fit and predict run in a
process of their own with default settings, whose peak of resident memory (VmHWM) is read after
each. Another process takes the first rows into memory and fits them there; the mapped fit of the
same rows must agree to the last bit, and so must the sets.

``--beside`` names the ``src`` of another version, such as that of a worktree of 0.1.0. Both
versions fit ``--scores`` to the file and predict its first rows, each in a process of its own,
which is ended at ``--seconds`` or ``--memory`` GB of resident memory; a job that was ended says so
in its row.
"""

from __future__ import annotations

import argparse
import json
import os
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


def job(folder: Path, kind: str, scores: str, n_predicted: int) -> dict:
    """Fit the file and predict its first rows by what every version has; tell each stage at once.

    Pages of the file that a process has read count as its memory, as they do for whoever watches.
    """
    import conformix as cx

    outputs = np.load(folder / "outputs.npy", mmap_mode="r")
    y = np.load(folder / "labels.npy")
    told: dict = {"version": cx.__version__}
    names = scores if "," not in scores else tuple(scores.split(","))
    cp = cx.ScoreAverage(names, alpha=0.1, kind=kind, random_state=0)
    stages(lambda: cp.fit(outputs, y), told, "fit")
    print(json.dumps(told), flush=True)

    def predicted() -> tuple[int, int]:
        labels = hits = 0
        for start in range(0, n_predicted, BLOCK):
            rows = slice(start, min(n_predicted, start + BLOCK))
            sets = np.asarray(cp.predict_set(outputs[rows]))
            labels += int(sets.sum())
            hits += int(sets[np.arange(len(sets)), y[rows]].sum())
        return labels, hits

    labels, hits = stages(predicted, told, "predict")
    told |= {"predicted": n_predicted, "mean_size": labels / n_predicted}
    return told | {"coverage_of_these": hits / n_predicted}


def watched(source: Path, arguments: list[str], seconds: float, memory: float) -> dict:
    """Run a job by the conformix in `source`, ended at a time or memory limit; return its row."""
    names = os.environ | {"PYTHONPATH": f"{source}:{ROOT}"}
    command = [sys.executable, "-m", "benchmarks.out_of_core", "job", *arguments]
    start, peak, ended = time.perf_counter(), 0.0, ""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, cwd=ROOT, env=names, stdout=out, stderr=errors)
        while child.poll() is None and not ended:
            peak = max(peak, resident_of(child.pid))
            if time.perf_counter() - start > seconds:
                ended = f"not finished in {seconds:g} s"
            elif peak > memory:
                ended = f"ended at {memory:g} GB of memory"
            time.sleep(0.05)
        if ended:
            child.kill()
        child.wait()
        out.seek(0)
        errors.seek(0)
        lines = [json.loads(line) for line in out if line.startswith("{")]
        said = errors.read().strip().splitlines()
    row = {"source": str(source.parent.name), "ended": ended or "finished"}
    if not ended and child.returncode:
        row["ended"] = f"failed: {said[-1][:200] if said else child.returncode}"
    took = round(time.perf_counter() - start, 1)
    return row | (lines[-1] if lines else {}) | {"seconds": took, "peak_gb": round(peak, 3)}


def resident_of(process: int) -> float:
    """Return the resident memory of a process in GB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(s.split()[1]) * 1024 / 1e9 for s in lines if s.startswith("VmRSS")), 0.0)


def beside(chosen: argparse.Namespace, folder: Path) -> list[dict]:
    """Return the rows of the same job by this version and another."""
    arguments = [str(folder), chosen.kind, chosen.scores, str(min(chosen.predict, chosen.rows))]
    rows = []
    for source in (ROOT / "src", chosen.beside.resolve()):
        with tempfile.TemporaryDirectory() as small:  # what is compiled is kept for the job
            write_case(Path(small), 400, min(chosen.classes, 2000), chosen.kind)
            watched(source, [small, *arguments[1:3], "400"], chosen.seconds, chosen.memory)
        row = {"case": "out_of_core_beside", "n": chosen.rows, "K": chosen.classes}
        row |= {"kind": chosen.kind, "scores": chosen.scores}
        rows.append(row | watched(source, arguments, chosen.seconds, chosen.memory))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def in_a_process(step: str, folder: Path, kind: str, *numbers: int) -> dict:
    command = [sys.executable, "-m", "benchmarks.out_of_core", step, str(folder), kind]
    done = subprocess.run(
        [*command, *map(str, numbers)], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def main() -> None:
    steps = {"mapped": mapped, "subset": subset}
    if len(sys.argv) > 1 and sys.argv[1] == "job":
        folder, kind, scores, count = sys.argv[2:]
        print(json.dumps(job(Path(folder), kind, scores, int(count))))
        return
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
    parser.add_argument("--beside", type=Path, help="src of another version, for the same job")
    parser.add_argument(
        "--scores", default="auto", help="of --beside, such as auto or thr,aps,rank"
    )
    parser.add_argument("--predict", type=int, default=2_000, help="rows predicted by --beside")
    parser.add_argument("--seconds", type=float, default=1800, help="time limit of --beside")
    parser.add_argument("--memory", type=float, default=12, help="memory limit of --beside, in GB")
    chosen = parser.parse_args()
    if chosen.beside is not None:
        if not (chosen.beside / "conformix").is_dir():
            raise SystemExit(f"{chosen.beside} holds no conformix; name the src of a version.")
        with tempfile.TemporaryDirectory() as name:
            write_case(Path(name), chosen.rows, chosen.classes, chosen.kind)
            found = [row | surroundings() for row in beside(chosen, Path(name))]
        with RESULTS.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in found)
        return
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
