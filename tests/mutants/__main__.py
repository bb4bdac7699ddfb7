"""Plant every bug in a copy of the tree, run tests there, and list the test that catches it.

The test that caught a bug last time is asked first, then tests that run its line (noted once, by
one run of all tests), test files that are named after its file or with its words, those near its
file, and the rooms.
With ``--outcomes FILE`` a run that was stopped goes on: a bug is not planted again while the module
it is in, the test file that caught it and the helpers of all tests are as they were.
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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from mutants.planted import BUGS, Bug
from mutation.trees import Worker
from mutation.worker import APART

if TYPE_CHECKING:
    from mutation.__main__ import Choice

ROOT = Path(__file__).resolve().parents[2]
SUITE = [
    "conformal", "scores", "search", "calibration", "fit", "estimators", "guarantees", "errors",
    "sets", "metrics", "doors", "data", "cli", "kernels", "verdicts", "regression", "online",
    "crossings", "parity", "experiments", "report", "plots", "environments", "levels", "fuzz",
]  # fmt: skip
# Where a bug is looked for first, by the beginning of its file; the first test that fails catches.
ROLES, EXACT = "guarantees/test_roles.py", "fit/test_exact_split.py"
BY_CELL = "fit/test_exact_by_cell.py"
TEACHERS, LEARNT = "guarantees/test_rows_that_teach_scores.py", "guarantees/test_learnt_scores.py"
NEAR = [
    ("kernels/host/board.py", "kernels/test_board.py"),
    ("kernels/helpers.py", "kernels/test_helpers.py"),
    ("kernels/blocks.py", "kernels/test_shared_memory.py"),
    ("kernels/host/compiled.py", "kernels/test_shared_memory.py"),
    ("kernels/host/likeness.py", "kernels/test_likeness.py"),
    ("kernels/patterns.py", "kernels/test_likeness.py"),
    ("scores/sorted_rows.py", "fit/test_upper_ends.py"),
    ("kernels/helpers.py", "kernels/test_board.py"),
    ("kernels/host/digests.py", "fit/test_seen_rows.py"),
    ("kernels/host/rising.py", "kernels/test_rising.py"),
    ("kernels/host/bands.py", "regression/test_bands.py"),
    ("kernels/plain/bands.py", "regression/test_bands.py"),
    ("kernels/device/bands.py", "regression/test_tensors.py"),
    ("kernels/host/widths.py", "regression/test_width_search.py"),
    ("kernels/plain/widths.py", "regression/test_width_search.py"),
    ("kernels/device/widths.py", "regression/test_tensors.py"),
    ("regression/hull.py", "regression/test_hull.py"),
    ("regression/search.py", "regression/test_width_search.py"),
    ("regression/", "regression"),
    ("fit/exact/", TEACHERS),
    ("fit/exact/", EXACT),
    ("fit/exact/", BY_CELL),
    ("calibration/strata.py", BY_CELL),
    ("testing/audit.py", BY_CELL),
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
    ("fit/rule.py", "conformal/test_decision_rule.py"),
    ("fit/rule.py", "fit/test_labels_left_out.py"),
    ("fit/rule.py", "scores/test_blended_sets.py"),
    ("fit/rule.py", "calibration/test_strata.py"),
    ("fit/each_row.py", "guarantees/test_each_row.py"),
    ("fit/exact/", "fit/test_exact_by_cell.py"),
    ("fit/cross.py", "estimators/test_cross_by_cell.py"),
    ("fit/far.py", "doors"),
    ("fit/far.py", "data/test_batches.py"),
    ("data/inspection.py", "data/test_inspection.py"),
    ("experiments/", "experiments"),
    ("fit/verdict.py", "verdicts/test_laws.py"),
    ("fit/verdict.py", "verdicts"),
    ("fit/drift.py", "fit/test_drift.py"),
    ("fit/drift.py", "verdicts"),
    ("fit/scored.py", "doors"),
    ("fit/scored.py", "data"),
    ("fit/scored.py", "scores/test_scale.py"),
    ("fit/batches.py", "doors"),
    ("fit/batches.py", "data/test_batches.py"),
    ("fit/chunks.py", "doors"),
    ("fit/chunks.py", "data/test_workers.py"),
    ("fit/saved/", TEACHERS),
    ("fit/saved/", "fit/test_saved.py"),
    ("fit/saved/", "fit/test_contradictions.py"),
    ("fit/saved/", "fit/test_every_leaf.py"),
    ("fit/saved/", "fit/golden"),
    ("fit/saved/", "fuzz"),
    ("estimators/around.py", "estimators/test_conformal_classifier.py"),
    ("estimators/around.py", "regression/test_regressor.py"),
    ("regression/regressor.py", "regression/test_regressor.py"),
    ("regression/members.py", "regression/test_regressor.py"),
    ("regression/cross.py", "regression/test_cross_regressor.py"),
    ("estimators/classifier.py", "estimators/test_conformal_classifier.py"),
    ("estimators/classifier.py", ROLES),
    ("estimators/classifier.py", "estimators/test_cross.py"),
    ("estimators/cross.py", "estimators/test_cross.py"),
    ("online/", "online"),
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
    ("kernels/blas.py", "scores/test_learnt.py"),
    ("scores/evidence.py", "scores/test_evidence.py"),
    ("scores/likelihood.py", "scores/test_blend.py"),
    ("scores/likelihood.py", "data/tensors/test_learning_on_a_device.py"),
    ("scores/blend.py", "scores/test_evidence.py"),
    ("scores/blending.py", "scores/test_blended_sets.py"),
    ("scores/blending.py", "scores/test_blending.py"),
    ("scores/terms.py", "scores/test_blending.py"),
    ("kernels/host/blend.py", "scores/test_blended_sets.py"),
    ("kernels/host/blend.py", "scores/test_blending.py"),
    ("kernels/host/terms.py", "scores/test_blending.py"),
    ("kernels/host/terms.py", "scores/test_evidence.py"),
    ("kernels/host/tables.py", "kernels/test_tables.py"),
    ("scores/blend.py", "scores/test_learnt.py"),
    ("scores/blend.py", "scores/test_auto.py"),
    ("scores/blend.py", "data/tensors/test_learning_on_a_device.py"),
    ("kernels/arrays.py", "data/tensors/test_learning_on_a_device.py"),
    ("scores/ranked.py", "conformal/test_decision_rule.py"),
    ("scores/scale.py", "scores/test_scale.py"),
    ("scores/", "scores/test_scores_by_hand.py"),
    ("search/line.py", "search/test_many_scores.py"),
    ("search/", "search"),
    ("predictions/sets.py", "sets/test_prediction_sets.py"),
    ("predictions/sets.py", "sets/test_exports.py"),
    ("data/batches.py", "data"),
    ("data/files/batch.py", "cli/test_files.py"),
    ("data/files/batch.py", "data/test_outputs_as_people_have_them.py"),
    ("data/files/", "data/files"),
    ("data/topk.py", "data/test_truncated_outputs.py"),
    ("plots/", "plots"),
    ("report/", "report"),
    ("kernels/elementary.py", "kernels"),
    ("kernels/host/elementary.py", "kernels"),
    ("kernels/host/lookup.py", "scores/test_lookup.py"),
    ("kernels/plain/", "kernels/test_twins.py"),
    ("kernels/twins.py", "kernels/test_twins.py"),
    ("atomic.py", "environments/test_atomic.py"),
    ("atomic.py", "estimators/test_life_of_a_model.py"),
    ("data/outputs.py", "data/test_outputs_as_people_have_them.py"),
    ("data/checks.py", "data/test_outputs_as_people_have_them.py"),
    ("data/checks.py", "data/test_checks.py"),
    ("data/checks.py", "errors/test_bad_input.py"),
    ("data/passes.py", "doors"),
    ("data/passes.py", "data/test_batches.py"),
    ("data/chunks.py", "data/test_workers.py"),
    ("fit/predict_chunks.py", "data/test_workers.py"),
    ("fit/predict_chunks.py", "doors"),
    ("fit/predictor.py", "scores/test_blended_sets.py"),
    ("fit/predictor.py", "conformal"),
    ("fit/predictor.py", "sets"),
    ("fit/predictor.py", "estimators/test_score_average.py"),
    ("fit/seen.py", "fit/test_seen_rows.py"),
    ("fit/saved/checks.py", "fit/test_seen_rows.py"),
    ("fit/contributions.py", "estimators/test_one_surface.py"),
    ("fit/evaluation.py", "estimators/test_one_surface.py"),
    ("fit/choice.py", "fit/test_choice.py"),
    ("fit/settings.py", "fit/test_rows_that_tune.py"),
    ("fit/settings.py", "estimators/test_scores_left_out.py"),
    ("fit/tuning.py", "fit/test_labels_within_reach.py"),
    ("fit/tuning.py", "scores/test_scale.py"),
    ("fit/upper_ends.py", "fit/test_upper_ends.py"),
    ("estimators/notice.py", "estimators/test_scores_left_out.py"),
    ("estimators/average.py", "estimators/test_one_surface.py"),
    ("estimators/average.py", "estimators/test_score_average.py"),
    ("kernels/combine.py", "conformal/test_decision_rule.py"),
    ("kernels/combine.py", "search"),
    ("kernels/simplex.py", "search"),
    ("kernels/host/engine/", "search/test_exactness.py"),
    ("kernels/host/upper.py", "fit/test_upper_ends.py"),
    ("kernels/host/terms.py", "scores/test_walk.py"),
    ("kernels/host/ranks.py", "scores/test_sorting.py"),
    ("kernels/host/patterns.py", "scores/test_learnt.py"),
    ("kernels/arrays.py", "data/test_arrays.py"),
    ("errors.py", "errors/test_errors.py"),
    ("registry.py", "errors/test_flags.py"),
    ("registry.py", "errors/test_words_of_others.py"),
    ("calibration/vote.py", "calibration/test_vote.py"),
    ("scores/ensemble.py", "experiments/test_paper.py"),
    ("scores/learnt.py", "scores/test_learnt.py"),
    ("scores/uniforms.py", "fit/test_seen_rows.py"),
    ("scores/uniforms.py", "scores/test_scores.py"),
    ("scores/sorted_rows.py", "scores/test_sorted_rows.py"),
    ("scores/upper_rows.py", "scores/test_walk.py"),
    ("scores/upper_rows.py", "fit/test_compiled_ends.py"),
    ("scores/upper_rows.py", "fit/test_checks_of_sorted_rows.py"),
    ("scores/upper_rows.py", "fit/test_upper_ends.py"),
    ("kernels/host/lookup.py", "fit/test_compiled_ends.py"),
    ("kernels/host/upper.py", "scores/test_walk.py"),
    ("kernels/host/upper.py", "kernels/test_sorting.py"),
    ("kernels/host/sorting.py", "kernels/test_sorting.py"),
    ("scores/terms.py", "scores/test_walk.py"),
]
# A bug that makes a loop endless is noticed by whoever waits for it: seconds that tests compute.
PATIENCE_S = 300.0
# Files that are asked at first, and the seconds that each may compute.
NEAREST, HASTE_S = 4, 25.0


@dataclass(frozen=True)
class Planted:
    """A bug in its module."""

    bug: Bug

    @property
    def file(self) -> str:
        """The module, below ``src/conformix``."""
        return self.bug.file

    @property
    def text(self) -> str:
        """The module with the bug in it."""
        right = (ROOT / "src" / "conformix" / self.file).read_text(encoding="utf-8")
        return right.replace(self.bug.right, self.bug.wrong)

    @property
    def line(self) -> int:
        """The first line of the module that the bug changes."""
        right = (ROOT / "src" / "conformix" / self.file).read_text(encoding="utf-8")
        pairs = zip(right.splitlines(), self.text.splitlines(), strict=False)
        return next(i for i, (one, other) in enumerate(pairs, 1) if one != other)

    @property
    def place(self) -> str:
        """Nothing: tests that killed mutants of a function are not known here."""
        return ""


def compiled(bug: Bug) -> bool:
    """Whether callers hold compiled code of the bug's module, which follows its own file alone."""
    return bug.file.startswith("kernels/host/")


def note_lines(folder: Path) -> None:
    """Run all tests once, and note which of them run which line of a file with a bug."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.noted"]
    command += ["--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder", "tests"]
    environment = os.environ | {"PLANTED_LINES": str(folder)}
    subprocess.run(command, cwd=ROOT, check=False, env=environment)


def that_run_its_line(bug: Bug, choice: Choice | None) -> list[list[str]]:
    """Return tests that run the line of a bug, those first that run little else."""
    if choice is None or compiled(bug):
        return []
    rooms = tuple(f"tests/{room}/" for room in SUITE if room != "parity")
    found = choice.stages(Planted(bug))  # type: ignore[arg-type]
    kept = ([test for test in stage if test.startswith(rooms)] for stage in found)
    return [stage for stage in kept if stage]


def stages(bug: Bug, last: dict[str, str], choice: Choice | None = None) -> list[list[str]]:
    """Return the tests in the order in which they are asked."""
    fits = [(prefix, room) for prefix, room in NEAR if bug.file.startswith(prefix)]
    near = [room for _, room in sorted(fits, key=lambda fit: -len(fit[0]))]  # the nearest first
    named = [*files_named_after(bug.file), *files_that_speak_of(bug)]
    # Compiled code is compiled anew for every room that is asked: the surest comes first.
    rooms = dict.fromkeys([*near, *named, *SUITE] if compiled(bug) else [*named, *near, *SUITE])
    file, _, name = last.get(bug.name, "").partition("::")
    path = ROOT / "tests" / file
    there = path.is_file() and f"\ndef {name}(" in path.read_text(encoding="utf-8")
    first = [[f"tests/{file}::{name}"]] if there else []
    by_line = that_run_its_line(bug, choice)
    return [*first, *by_line, *([f"tests/{room}"] for room in rooms)]


def files_named_after(file: str) -> list[str]:
    """Return the test files that have the name of a module."""
    return [one for one in words_of_tests() if Path(one).stem == f"test_{Path(file).stem}"]


def files_that_speak_of(bug: Bug, most: int = 2) -> list[str]:
    """Return the files whose tests are named with most of the rarer words of a bug's name."""
    files = words_of_tests()
    seldom = Counter(word for words in files.values() for word in words)
    own = words_in(bug.name)
    worth = {file: sum(1 / seldom[word] for word in words & own) for file, words in files.items()}
    best = sorted(worth, key=lambda file: -worth[file])[:most]
    return [file for file in best if worth[file]]


@cache
def words_of_tests() -> dict[str, set[str]]:
    """Return the words in the names of tests, by the files of the rooms that are asked."""
    files = [path for path in everything() if path.is_relative_to(ROOT / "tests")]
    rooms = {
        path.relative_to(ROOT / "tests").as_posix(): words_in(
            " ".join(re.findall(r"^def test_(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
        )
        for path in files
        if path.name[:5] == "test_"
    }
    # Files of the parity room are collected only where other libraries are installed.
    asked = set(SUITE) - {"parity"}
    return {file: words for file, words in rooms.items() if file.partition("/")[0] in asked}


def words_in(text: str) -> set[str]:
    """Return the words of a text that say something."""
    return {word for word in re.split(r"[\W_]+", text.lower()) if len(word) > 3}


def caught_by(bug: Bug, worker: Worker, asked: list[list[str]], limit: float) -> str | None:
    """Return the first test that fails with the bug in place and not without it, or None."""
    with ExitStack() as stack:
        if compiled(bug):
            stack.enter_context(compiled_anew(bug, worker))
        answer = worker.outcome(Planted(bug), asked, limit)
    if answer["outcome"] == "not run":
        raise SystemExit(f"{bug.name}: {answer['test']}")
    hasty = limit < PATIENCE_S and answer["outcome"] == "timeout"
    if answer["outcome"] == "survived" or hasty:
        return None
    return str(answer["test"]) or f"a run that ends by {answer['outcome']}"


@contextmanager
def compiled_anew(bug: Bug, worker: Worker) -> Iterator[None]:
    """Let all that holds code of a bug's module be compiled with the bug, apart from the others.

    Numba asks whether the file of a function has changed, not those of the functions it calls.
    """
    sound, apart = worker.tree / "compiled", worker.tree / APART
    shutil.rmtree(apart, ignore_errors=True)
    if sound.exists():
        shutil.copytree(sound, apart)
    apart.mkdir(exist_ok=True)
    for index in apart.rglob("*.nbi"):
        if index.name.partition(".")[0] in callers(bug.file):
            index.unlink()
    try:
        yield
    finally:
        shutil.rmtree(apart)


@cache
def callers(file: str) -> set[str]:
    """Return the names of compiled modules that hold code of one of them, itself among them."""
    package = ROOT / "src" / "conformix"
    texts = {
        path.relative_to(package).with_suffix(""): path.read_text(encoding="utf-8")
        for path in (package / "kernels" / "host").rglob("*.py")
    }
    found = {Path(file).with_suffix("")}
    while True:
        names = [f"from conformix.{'.'.join(module.parts)} import" for module in found]
        more = {module for module, text in texts.items() if any(name in text for name in names)}
        if more <= found:
            return {module.name for module in found}
        found |= more


def main() -> int:
    """Print one line per bug; exit 1 where one survives."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="words of the bugs to plant; all by default")
    parser.add_argument("--csv", type=Path, help="also write bugs and tests to this file")
    parser.add_argument("--outcomes", type=Path, help="a file to go on from, line by line")
    parser.add_argument(
        "--lines", type=Path, default=ROOT / ".mutation" / "planted",
        help="where it is noted which tests run which line; noted anew where there is nothing",
    )  # fmt: skip
    options = parser.parse_args()
    from mutation.__main__ import Choice  # needs what `make test` does not install

    words = options.only
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    began = time.perf_counter()
    known = outcomes(options.outcomes, bugs) if options.outcomes else {}
    last = catchers(options.csv) if options.csv else {}
    last |= remembered(options.outcomes) if options.outcomes else {}
    if not options.lines.exists():
        note_lines(options.lines)
    choice = Choice(options.lines, options.lines / "none")
    rooms = sorted({room for bug in bugs for stage in stages(bug, {}) for room in stage})
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        workers: SimpleQueue[Worker] = SimpleQueue()
        for i in range(os.cpu_count() or 1):
            workers.put(stack.enter_context(Worker(Path(folder) / str(i), rooms)))

        def plant(bug: Bug, most: int | None = None, limit: float = PATIENCE_S) -> str | None:
            start, worker = time.perf_counter(), workers.get()
            try:
                test = caught_by(bug, worker, stages(bug, last, choice)[:most], limit)
            finally:
                workers.put(worker)
            if test is None and most is not None:
                return None
            told = "SURVIVED" if test is None else test
            print(f"{bug.name:48} {time.perf_counter() - start:5.0f} s  {told}", flush=True)
            if options.outcomes:
                with options.outcomes.open("a", encoding="utf-8") as file:
                    line = {"bug": bug.name, "test": test, "met": met(bug, test)}
                    file.write(json.dumps(line) + "\n")
            return test

        found = dict(known)
        # First those that are caught at once, then those that the whole suite is asked about, last
        # those of code that takes long to compile: a run that is stopped leaves few behind.
        for some in ({"most": NEAREST, "limit": HASTE_S}, {}):
            left = [bug for bug in bugs if bug.name not in found]
            # What compiles for longer than haste allows is asked about once.
            left = [bug for bug in left if not some or not compiled(bug)]
            left.sort(key=compiled)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                tests = list(pool.map(lambda bug, some=some: plant(bug, **some), left))
            found |= {
                bug.name: test
                for bug, test in zip(left, tests, strict=True)
                if test is not None or not some
            }
    tests = [found[bug.name] for bug in bugs]
    survivors = tests.count(None)
    if options.csv and not words:
        write(options.csv, bugs, tests)
    print(
        f"{len(bugs) - survivors} of {len(bugs)} planted bugs caught, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return int(survivors > 0)


def met(bug: Bug, test: str | None) -> str:
    """Return a digest of the bug, its module, the test file that caught it, and all tests' helpers.

    Without such a file (the bug survived, or ended a run) it is of all source and tests.
    """
    caught = ROOT / (test or "").partition("::")[0]
    some = [ROOT / "src" / "conformix" / bug.file, caught, *helpers()]
    total = hashlib.sha256(f"{bug.right}\0{bug.wrong}\0".encode())
    for path in some if caught.is_file() else everything():
        total.update(f"{path.relative_to(ROOT)}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


@cache
def helpers() -> list[Path]:
    """Return the Python files of the tests that hold no tests, but for those that plant bugs."""
    files = [path for path in everything() if path.is_relative_to(ROOT / "tests")]
    planting = "mutants", "mutation"
    return [path for path in files if path.name[:5] != "test_" and path.parent.name not in planting]


@cache
def everything() -> list[Path]:
    """Return all Python files of source and tests."""
    return sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])


def outcomes(path: Path, bugs: list[Bug]) -> dict[str, str | None]:
    """Return the tests that caught bugs, as far as a file knows them and they still stand."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    last = {line["bug"]: line for line in lines}
    there = [(bug, last[bug.name]) for bug in bugs if bug.name in last]
    return {bug.name: line["test"] for bug, line in there if line["met"] == met(bug, line["test"])}


def remembered(path: Path) -> dict[str, str]:
    """Return the test functions that caught bugs the last time that a file knows of."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    tests = {line["bug"]: line["test"] or "" for line in lines}
    return {
        bug: test.removeprefix("tests/").partition("[")[0]
        for bug, test in tests.items()
        if "::" in test
    }


def catchers(path: Path) -> dict[str, str]:
    """Return the test functions that caught bugs in the last run, by the names of the bugs."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["which says"]]
    named = ((row, "test_" + row["which says"].replace(" ", "_")) for row in rows)
    return {row["planted bug"]: f"{row['caught by']}::{name}" for row, name in named}


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


if __name__ == "__main__":
    raise SystemExit(main())
