"""Plant every bug in a copy of the tree, run the suite there, and list the test that catches it.

With ``--outcomes FILE`` a run that was stopped goes on: what a bug met in this very tree, source
and tests, is not asked again.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutants.planted import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]
SUITE = [
    "conformal", "scores", "search", "calibration", "fit", "estimators", "guarantees", "errors",
    "sets", "metrics", "crossings", "parity",
]  # fmt: skip
# Where a bug is looked for first, by the beginning of its file; the first test that fails catches.
ROLES, EXACT = "guarantees/test_roles.py", "fit/test_exact_split.py"
TEACHERS, LEARNT = "guarantees/test_rows_that_teach_scores.py", "guarantees/test_learnt_scores.py"
NEAR = [
    ("fit/exact/", TEACHERS),
    ("fit/exact/", EXACT),
    ("kernels/host/selection.py", EXACT),
    ("splits.py", ROLES),
    ("fit/exact/split.py", ROLES),
    ("fit/fit.py", TEACHERS),
    ("fit/fit.py", ROLES),
    ("fit/fit.py", "verdicts/test_laws.py"),
    ("fit/learning.py", TEACHERS),
    ("fit/learning.py", LEARNT),
    ("fit/learning.py", ROLES),
    ("scores/learnt.py", TEACHERS),
    ("fit/blend.py", TEACHERS),
    ("fit/blend.py", ROLES),
    ("fit/blend.py", "scores/test_auto.py"),
    ("fit/rule.py", "calibration/test_strata.py"),
    ("fit/verdict.py", "verdicts/test_laws.py"),
    ("fit/verdict.py", "verdicts"),
    ("fit/drift.py", "fit/test_drift.py"),
    ("fit/drift.py", "verdicts"),
    ("fit/scored.py", "data"),
    ("fit/scored.py", "scores/test_scale.py"),
    ("fit/batches.py", "data/test_batches.py"),
    ("fit/chunks.py", "data/test_workers.py"),
    ("fit/saved/", TEACHERS),
    ("fit/saved/", "fit/test_saved.py"),
    ("fit/saved/", "fit/test_contradictions.py"),
    ("fit/saved/", "fit/test_every_leaf.py"),
    ("fit/saved/", "fit/golden"),
    ("fit/saved/", "fuzz"),
    ("estimators/classifier.py", "estimators/test_conformal_classifier.py"),
    ("estimators/classifier.py", ROLES),
    ("estimators/classifier.py", "estimators/test_cross.py"),
    ("estimators/cross.py", "estimators/test_cross.py"),
    ("estimators/online.py", "estimators/test_online.py"),
    ("calibration/merge.py", "calibration/test_merge.py"),
    ("calibration/weighted.py", "calibration/test_weighted.py"),
    ("calibration/sums.py", "calibration/test_weighted.py"),
    ("calibration/shift.py", "calibration/test_weighted.py"),
    ("calibration/shift.py", ROLES),
    ("calibration/cuts.py", "verdicts/test_laws.py"),
    ("calibration/strata.py", "verdicts/test_laws.py"),
    ("calibration/", "calibration/test_fallbacks.py"),
    ("calibration/", "calibration/test_strata.py"),
    ("guarantees/verdict.py", "verdicts/test_laws.py"),
    ("guarantees/", TEACHERS),
    ("guarantees/", "guarantees/test_order_statistics_and_theory.py"),
    ("cli/", "cli/test_files.py"),
    ("cli/", "cli"),
    ("conformal.py", "conformal/test_rank.py"),
    ("metrics/", "metrics/test_metrics.py"),
    ("metrics/", "metrics/test_intervals.py"),
    ("scores/blend.py", "scores/test_auto.py"),
    ("scores/ranked.py", "conformal/test_decision_rule.py"),
    ("scores/scale.py", "scores/test_scale.py"),
    ("scores/", "scores/test_scores_by_hand.py"),
    ("search/line.py", "search/test_many_scores.py"),
    ("search/", "search"),
    ("sets.py", "sets/test_prediction_sets.py"),
    ("sets.py", "sets/test_exports.py"),
    ("data/batches.py", "data"),
    ("data/files/batch.py", "cli/test_files.py"),
    ("data/files/", "data/files"),
    ("data/topk.py", "data/test_truncated_outputs.py"),
    ("plots/", "plots"),
    ("report/", "report"),
    ("experiments/", "experiments"),
    ("kernels/elementary.py", "kernels"),
    ("kernels/host/elementary.py", "kernels"),
    ("kernels/host/lookup.py", "scores/test_lookup.py"),
    ("kernels/plain/", "kernels/test_twins.py"),
    ("kernels/twins.py", "kernels/test_twins.py"),
    ("atomic.py", "environments/test_atomic.py"),
    ("atomic.py", "estimators/test_life_of_a_model.py"),
]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
# A bug that makes a loop endless is noticed by whoever waits for it.
PATIENCE_S = 900


def rooms_for(file: str) -> list[list[str]]:
    """Return the rooms of the suite in the order in which they are asked: near ones first."""
    near = [room for prefix, room in NEAR if file.startswith(prefix)]
    return [rooms for rooms in (near, [room for room in SUITE if room not in near]) if rooms]


def first_failure(copy: Path, rooms: list[list[str]]) -> str | None:
    """Return the first failing test of a copy, or None: rooms of one list share a process."""
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "CONFORMIX_DATA": os.environ.get("CONFORMIX_DATA", str(ROOT / "data")),
    }
    for some in rooms:
        command = [sys.executable, "-m", "pytest", "-x", "-q", *(f"tests/{room}" for room in some)]
        try:
            done = subprocess.run(
                command, cwd=copy, capture_output=True, text=True, check=False, env=environment,
                timeout=PATIENCE_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{some[0]}, which does not end"
        if done.returncode == 1:
            found = FAILED.search(done.stdout)
            return found[1] if found else "a test without a name"
        if done.returncode != 0:
            # A bug may keep the tests from being collected at all; that is noticed too.
            return f"{some[0]}, which cannot start"
    return None


def caught_by(bug: Bug, copy: Path) -> str | None:
    """Return the first test that fails with the bug in place, or None."""
    path = copy / "src" / "conformix" / bug.file
    right = path.read_text(encoding="utf-8")
    times = path.stat()
    path.write_text(right.replace(bug.right, bug.wrong), encoding="utf-8")
    # Compiled code follows changes of its own file only, so callers' caches go with it.
    compiled = "kernels" in bug.file or "engine" in bug.file
    try:
        if compiled:
            forget_compiled(copy)
        test = first_failure(copy, rooms_for(bug.file))
    finally:
        path.write_text(right, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if compiled:
            forget_compiled(copy)
    if test is not None and "::" in test:
        # Only a test that passes without the bug has caught it. Ids may hold spaces: all its cases.
        whole = test.partition("[")[0].removeprefix("tests/")
        if first_failure(copy, [[whole]]) is not None:
            raise SystemExit(f"the suite fails without any bug: {test}")
    return test


def forget_compiled(copy: Path) -> None:
    """Delete numba's caches."""
    for index in copy.rglob("*.nbi"):
        index.unlink()


def main() -> int:
    """Print one line per bug; exit 1 where one survives."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="words of the bugs to plant; all by default")
    parser.add_argument("--csv", type=Path, help="also write bugs and tests to this file")
    parser.add_argument("--outcomes", type=Path, help="a file to go on from, line by line")
    options = parser.parse_args()
    words = options.only
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    began = time.perf_counter()
    tree = digest()
    known = outcomes(options.outcomes, tree) if options.outcomes else {}
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for i in range(os.cpu_count() or 1):
            copies.put(copy_tree(Path(folder) / str(i)))

        def plant(bug: Bug) -> str | None:
            if bug.name in known:
                return known[bug.name]
            start, copy = time.perf_counter(), copies.get()
            try:
                test = caught_by(bug, copy)
            finally:
                copies.put(copy)
            told = "SURVIVED" if test is None else test
            print(f"{bug.name:48} {time.perf_counter() - start:5.0f} s  {told}", flush=True)
            if options.outcomes:
                with options.outcomes.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"tree": tree, "bug": bug.name, "test": test}) + "\n")
            return test

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            tests = list(pool.map(plant, bugs))
    survivors = tests.count(None)
    if options.csv:
        write(options.csv, bugs, tests)
    print(
        f"{len(bugs) - survivors} of {len(bugs)} planted bugs caught, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return int(survivors > 0)


def digest() -> str:
    """Return what tells this source and these tests from others."""
    total = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        total.update(f"{path.relative_to(ROOT)}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def outcomes(path: Path, tree: str) -> dict[str, str | None]:
    """Return the tests that caught bugs in this tree, as far as a file knows them."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["bug"]: line["test"] for line in lines if line["tree"] == tree}


def write(path: Path, bugs: list[Bug], tests: list[str | None]) -> None:
    """Write what was planted, where, and the test that caught it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["planted bug", "in", "caught by", "which says"])
        for bug, test in zip(bugs, tests, strict=True):
            # The first random case that fails may be another next time; its test is the same.
            told = "survived" if test is None else test.removeprefix("tests/").partition("[")[0]
            where, _, name = told.partition("::")
            said = name.rpartition("::")[2].removeprefix("test_").replace("_", " ")
            table.writerow([bug.name, bug.file, where, said])


def copy_tree(copy: Path) -> Path:
    """Return a copy of everything that the suite needs."""
    for name in ("src", "tests", "examples"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy2(ROOT / "pyproject.toml", copy)
    return copy


if __name__ == "__main__":
    raise SystemExit(main())
