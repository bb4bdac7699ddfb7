"""Mutation testing: cosmic-ray's changes, one by one, against the tests that run the changed line.

A killed run goes on where it was: outcomes stand in the file of ``--results``, by the names of the
mutants. The first run (and ``--lines``) notes which tests run which line.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from scipy.stats import beta

from mutation import lines
from mutation.equivalent import PROOFS
from mutation.generated import (
    FURTHER,
    SAMPLE,
    WHOLE,
    Mutant,
    all_of_the_whole,
    sample,
)
from mutation.trees import ROOT, Worker, code_of, runs_on_import

# Seconds of tests in the stages, were the whole suite to take SUITE.
SUITE, NARROW, BROAD, OTHERS = 1000.0, 4.0, 10.0, 4.0
LABELS = {
    "whole": "these together",
    "sample": "a random sample of the other rooms that carry a promise",
    "second sample": "a second one",
    "third sample": "a third one, after tests for the survivors of the second",
    "fourth sample": "a fourth one, after tests for those of the third",
}


def main() -> int:
    """Run what has no outcome yet, print survivors and the table; exit 1 while some survive."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("only", nargs="*", help="beginnings of files to run; all by default")
    parser.add_argument("--results", type=Path, default=ROOT / ".mutation" / "outcomes.jsonl")
    parser.add_argument(
        "--lines", nargs="*", metavar="TESTS",
        help="note anew which tests run which line, of all tests or of these files besides",
    )  # fmt: skip
    parser.add_argument(
        "--further", type=int, choices=range(4), default=0, help="take so many further samples"
    )
    parser.add_argument("--again", action="store_true", help="run survivors again, with more tests")
    parser.add_argument("--table", type=Path, help="write the table of docs/assurance.md here")
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    noted = options.results.parent / "lines"
    if options.lines:
        note_lines(noted, options.lines)
    elif options.lines is not None or not noted.exists():
        shutil.rmtree(noted, ignore_errors=True)
        note_lines(noted, ["tests", "src"])
    mutants = {"whole": all_of_the_whole(), "sample": sample()}
    skipped = SAMPLE
    for name, size in list(FURTHER.items())[: options.further]:
        mutants[name], skipped = sample(skipped, size), skipped + size
    print(f"{sum(map(len, mutants.values()))} mutants", flush=True)
    outcomes, _ = read(options.results)
    todo = [
        mutant
        for group in mutants.values()
        for mutant in group
        if (not options.only or mutant.file.startswith(tuple(options.only)))
        and mutant.key not in PROOFS
        and (
            mutant.key not in outcomes
            or (options.again and outcomes[mutant.key]["outcome"] == "survived")
        )
    ]
    patience = 1.5 if options.again else 1.0
    run_all(sorted(todo, key=runs_on_import), Choice(noted, options.results, patience))
    outcomes, first = read(options.results)
    table = summary(mutants, outcomes, first)
    print(table)
    if options.table:
        options.table.write_text(table + "\n", encoding="utf-8")
    return int(any(outcomes[mutant.key]["outcome"] == "survived" for mutant in todo))


def note_lines(folder: Path, tests: list[str]) -> None:
    """Run tests once and note which of them run which line."""
    environment = os.environ | {"MUTATION_LINES": str(folder)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "mutation.lines", "--numprocesses", "auto",
         "--dist", "loadfile", *tests],
        cwd=ROOT, check=False, env=environment,
    )  # fmt: skip


def read(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the last outcome of every mutant, and the first."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    return {row["key"]: row for row in rows}, {row["key"]: row for row in reversed(rows)}


def run_all(mutants: list[Mutant], choice: Choice) -> None:
    """Run mutants on all cores and append their outcomes."""
    results = choice.results
    began, done = time.perf_counter(), 0
    with ExitStack() as stack:
        workers: SimpleQueue[Worker] = SimpleQueue()
        for i in range(os.cpu_count() or 1):
            worker = Worker(results.parent / "trees" / str(i), sorted(choice.seconds))
            workers.put(stack.enter_context(worker))

        def one(mutant: Mutant) -> dict[str, Any]:
            stages = choice.stages(mutant)
            if not stages:
                return {"outcome": "survived", "test": "no test runs the line", "seconds": 0.0}
            worker = workers.get()
            try:
                return worker.outcome(mutant, stages)
            finally:
                workers.put(worker)

        broken: set[str] = set()
        pool = ThreadPoolExecutor(os.cpu_count())
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        with results.open("a", encoding="utf-8") as file:
            rows = {pool.submit(one, mutant): mutant for mutant in mutants}
            for row in as_completed(rows):
                mutant, outcome = rows[row], row.result()
                done += 1
                for test in set(outcome.pop("broken", ())) - broken:
                    print(f"fails without any change, left out: {test}")
                    broken.add(test)
                if outcome["outcome"] == "not run":
                    print(f"{mutant.key} {mutant.file}:{mutant.line} not run: {outcome['test']}")
                    continue
                choice.learn(mutant.row | outcome)
                file.write(json.dumps(mutant.row | outcome) + "\n")
                file.flush()
                if outcome["outcome"] == "survived":
                    print(f"{mutant.key} {mutant.file}:{mutant.line} {mutant.place}")
                    print(f"    - {mutant.before}\n    + {mutant.after}  ({outcome['test']})")
                if done % 50 == 0:
                    print(f"{done} of {len(mutants)}, {time.perf_counter() - began:.0f} s")
                sys.stdout.flush()


class Choice:
    """Which tests a mutant is shown to, in stages.

    Those that killed others of the same function; then of those that run the changed statement the
    ones that run little else, which are about it; then one case of each, quick ones first; then
    others that run the same file: what is remembered from call to call runs in one test and serves
    many. A statement that runs on import is tried on all of its file.
    """

    def __init__(self, noted: Path, results: Path, patience: float = 1.0) -> None:
        self.results, self.patience = results, patience
        self.tests, seconds = lines.read(noted)
        scale = SUITE / max(sum(seconds.values()), 1e-9)
        self.seconds = {test: scale * spent for test, spent in seconds.items()}
        # The first test of a file prepares what its others use, and any may be the first here.
        heaviest: dict[str, float] = {}
        for test, spent in self.seconds.items():
            file = test.partition("::")[0]
            heaviest[file] = max(heaviest.get(file, 0.0), spent)
        self.costs = {
            test: spent + heaviest[test.partition("::")[0]] / 10
            for test, spent in self.seconds.items()
        }
        self.breadth = Counter(test for names in self.tests.values() for test in names)
        self.statements = cache(statement_lines)
        self.killers: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for row in read(results)[0].values():
            self.learn(row)

    def learn(self, row: dict[str, Any]) -> None:
        """Remember which test has killed a mutant of a function, and in what time."""
        if row["outcome"] == "killed" and row["test"] in self.seconds:
            self.killers[row["file"], row["place"]][row["test"]] = row["seconds"]

    def stages(self, mutant: Mutant) -> list[list[str]]:
        """Return lists of tests, each to be run where the one before has noticed nothing."""
        statement = self.statements(mutant.file).get(mutant.line, ())
        run_it = set().union(*(self.tests.get((mutant.file, line), set()) for line in statement))
        same_file = set().union(
            *(names for (file, _), names in self.tests.items() if file == mutant.file)
        )
        known = self.killers[mutant.file, mutant.place]
        first = [test for test in sorted(known, key=known.__getitem__) if known[test] < 5][:4]
        left = (run_it or same_file) - set(first)
        share = 0.4 if runs_on_import(mutant) else 1.0  # these tests are collected every time
        narrow = self.taken(ranked(left, self.breadth, cases=20), share * NARROW)
        broad = self.taken(ranked(left - set(narrow), self.costs), share * BROAD)
        others = self.taken(ranked(same_file - run_it - set(first), self.costs), share * OTHERS)
        return [stage for stage in (first, narrow, broad, others) if stage]

    def taken(self, tests: list[str], budget: float) -> list[str]:
        """Return as many of the first tests as a budget allows, file by file."""
        stage: list[str] = []
        budget *= self.patience
        for test in tests:
            if self.seconds[test] <= budget / 4 and len(stage) < 300:
                budget -= self.seconds[test]
                stage.append(test)
        files = list(dict.fromkeys(test.partition("::")[0] for test in stage))
        return sorted(stage, key=lambda test: files.index(test.partition("::")[0]))


def ranked(tests: set[str], order: Mapping[str, float], cases: int = 1) -> list[str]:
    """Return tests in rising order, so many cases of every test function first."""
    seen: Counter[str] = Counter()
    ranks = []
    for test in sorted(tests, key=lambda test: (order[test], test)):
        function = test.partition("[")[0]
        ranks.append((seen[function] // cases, order[test], test))
        seen[function] += 1
    return [test for _, _, test in sorted(ranks)]


def statement_lines(file: str) -> dict[int, range]:
    """Return the lines of the innermost statement around every line of a module."""
    around: dict[int, range] = {}
    tree = ast.parse(code_of(file))

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                body = getattr(child, "body", None)
                last = body[0].lineno - 1 if isinstance(body, list) and body else child.end_lineno
                if isinstance(child, ast.FunctionDef):  # a signature is for those who call it
                    told = ast.get_docstring(child) is not None and len(child.body) > 1
                    last = child.body[told].lineno
                covered = range(child.lineno, max(child.lineno, last or 0) + 1)
                around.update(dict.fromkeys(covered, covered))
            visit(child)

    visit(tree)
    return around


def summary(
    mutants: dict[str, list[Mutant]],
    outcomes: dict[str, dict[str, Any]],
    first: dict[str, dict[str, Any]],
) -> str:
    """Return the table: equivalent, killed, survived, and what the samples say of all others.

    What runs out of time or crashes is noticed too, and counts as killed. The interval of a sample
    is that of its first outcomes: tests that were written for its survivors say nothing of others.
    """
    rows = [
        "| mutants of | all | equivalent, proved | killed by a test | by the clock or a crash "
        "| survived | killed, % | killed in the first run, % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    files = {f"`{file}`": [m for m in mutants["whole"] if m.file == file] for file in WHOLE}
    for name, group in (files | mutants).items():
        left = [mutant.key for mutant in group if mutant.key not in PROOFS]
        found = Counter(outcomes[key]["outcome"] for key in left if key in outcomes)
        ran, survived = found.total(), found["survived"]
        missing = f" ({len(left) - ran} not run)" if ran < len(left) else ""
        rows.append(
            f"| {LABELS.get(name, name)} | {len(group)}{missing} | {len(group) - len(left)} "
            f"| {found['killed']} | {ran - survived - found['killed']} | {survived} "
            f"| {100 * (ran - survived) / max(ran, 1):.1f} "
            f"| {first_share(group, first) if name in LABELS and name != 'whole' else ''} |"
        )
    return "\n".join(rows)


def first_share(group: list[Mutant], first: dict[str, dict[str, Any]]) -> str:
    """Return the share of a sample that its first run noticed, with its interval.

    What was proved to be equivalent after it had survived counts as survived here.
    """
    found = [first[m.key]["outcome"] for m in group if m.key in first]
    noticed = sum(outcome != "survived" for outcome in found)
    low, high = clopper_pearson(noticed, len(found))
    return f"{100 * noticed / max(len(found), 1):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def clopper_pearson(killed: int, ran: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a proportion."""
    tail = (1 - level) / 2
    low = beta.ppf(tail, killed, ran - killed + 1) if killed else 0.0
    high = beta.ppf(1 - tail, killed + 1, ran - killed) if killed < ran else 1.0
    return float(low), float(high)


if __name__ == "__main__":
    raise SystemExit(main())
