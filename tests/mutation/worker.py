"""Runs tests on changed modules: a process that holds what is slow to load, and forks.

``worker.py TREE collected`` holds every test of the tree as well: a child of it gives the functions
that it finds the code of the changed module. ``worker.py TREE fresh`` holds other people's modules
alone, and a child imports the changed module as any program would: for what runs on import. Jobs
come in on standard input and outcomes go out, a line of JSON each.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import json
import math
import os
import resource
import signal
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

SLOW = [
    "numpy", "numpy.testing", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.signal",
    "numba", "pytest", "hypothesis", "hypothesis.extra.numpy", "sklearn.linear_model",
    "sklearn.datasets", "sklearn.model_selection", "sklearn.utils.estimator_checks", "pandas",
    "polars", "torch", "dask.array",
]  # fmt: skip
# What is loaded already cannot have its assertions rewritten; the suite makes warnings errors.
OPTIONS = [
    "-q", "-n0", "-p", "no:cacheprovider", "--no-header",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
]  # fmt: skip
# Below these a function keeps its code as it is written.
PLAIN = {"property", "cached_property", "classmethod", "staticmethod", "lru_cache", "overload"}
# Where a change of compiled code is compiled: who holds the code of a function asks after his own
# file only, and would take it for sound.
APART = "compiled_apart"
STUCK = ", which cannot start"


class Said:
    """The first test that failed."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the first failure, of a fixture too."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """Keep a file that cannot be collected."""
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid}{STUCK}"


def only_bodies_differ(before: str, after: str) -> bool:
    """Return whether two texts of a module differ in bodies of functions alone."""
    return _skeleton(before) == _skeleton(after)


@functools.cache
def _skeleton(text: str) -> str:
    tree = ast.parse(text)

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                names = (ast.unparse(d).partition("(")[0] for d in child.decorator_list)
                if {name.rpartition(".")[2] for name in names} <= PLAIN:
                    child.body = [ast.Pass()]
            else:
                visit(child)

    visit(tree)
    return ast.dump(tree)


def give_code(path: Path, before: str, after: str, functions: Iterable[types.FunctionType]) -> None:
    """Give the functions of a module that is loaded the code of a changed text of it."""
    with warnings.catch_warnings(action="ignore"):  # `is` beside a number is a change like others
        changed = dict(_changed(compile(before, path, "exec"), compile(after, path, "exec")))
    done = set()
    for function in functions:
        name = _name(function.__code__)
        if name in changed:
            function.__code__ = changed[name]
            done.add(name)
    if done != changed.keys():
        raise RuntimeError(f"functions of {path} are not found: {changed.keys() - done}")


def functions_of(folder: Path) -> dict[str, list[types.FunctionType]]:
    """Return the functions of every file below a folder; what they remember is forgotten."""
    functions: dict[str, list[types.FunctionType]] = {}
    gc.unfreeze()  # what a test session has set aside is among them
    for thing in gc.get_objects():  # by type: to ask some of them for their class is to warn
        if type(thing) is types.FunctionType:
            file = thing.__code__.co_filename
            if file.startswith(str(folder)):
                functions.setdefault(file, []).append(thing)
        elif type(thing) is functools._lru_cache_wrapper:
            code = getattr(thing.__wrapped__, "__code__", None)  # what is written in C has none
            if code is not None and code.co_filename.startswith(str(folder)):
                thing.cache_clear()
    return functions


def is_loaded(path: Path) -> bool:
    """Return whether a module of this file is loaded."""
    return any(getattr(module, "__file__", None) == str(path) for module in [*sys.modules.values()])


def _changed(
    before: types.CodeType, after: types.CodeType
) -> Iterator[tuple[tuple[str, int], types.CodeType]]:
    """Yield the name of every function whose code differs, with its new code."""
    for one, other in zip(_inner(before), _inner(after), strict=True):
        if not one.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
            yield from _changed(one, other)
        elif one != other:
            yield _name(one), other


def _name(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [thing for thing in code.co_consts if isinstance(thing, types.CodeType)]


def in_child(action: Callable[[], str], limit: float) -> dict[str, Any]:
    """Return the outcome of an action in a child process, which says the test that has failed.

    The limit is of seconds that it computes, which others on the machine do not use up; one that
    waits for something else is given ten times as long.
    """
    began = time.perf_counter()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
        try:
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            said = action()
            code = 1 if said else 0
        except BaseException:
            said, code = traceback.format_exc(), 2
        os.write(writer, said.encode())
        os._exit(code)
    os.close(writer)
    outcome, said = "timeout", ""
    while time.perf_counter() - began < 10 * limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            said = os.read(reader, 10**5).decode()
            outcomes = {0: "survived", 1: "killed", 2: "not run", -signal.SIGXCPU: "timeout"}
            outcome = outcomes.get(os.waitstatus_to_exitcode(status), "crashed")
            break
        time.sleep(0.005)
    else:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(reader)
    return {"outcome": outcome, "test": said, "seconds": time.perf_counter() - began}


def compile_in(folder: Path) -> None:
    """Keep what numba compiles from now on in another folder."""
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)


class Fresh:
    """Tests that are collected in the child, with the changed module on disk."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    def run(self, tests: list[str], path: Path, before: str, after: str) -> str:
        """Return the first test that fails."""
        import pytest

        os.chdir(self.tree)
        if after != before and (self.tree / APART).exists():
            compile_in(self.tree / APART)
        said = Said()
        code = pytest.main([*OPTIONS, "-x", *tests], plugins=[said])
        if code == pytest.ExitCode.USAGE_ERROR:  # a change may rename cases: all cases of the tests
            tests = list(dict.fromkeys(test.partition("[")[0] for test in tests))
            code = pytest.main([*OPTIONS, "-x", *tests], plugins=[said])
            if code == pytest.ExitCode.USAGE_ERROR:
                said.failed = f"{tests[0]}{STUCK}"
        if code != pytest.ExitCode.OK and not said.failed:
            raise RuntimeError(f"pytest ended with {code}")
        return said.failed


class Collected:
    """Tests that are collected already, with the changed code put into functions."""

    def __init__(self, tree: Path, session: Any, said: Said) -> None:
        self.tests = {item.nodeid: item for item in session.items}
        self.said = said
        self.functions = functions_of(tree / "src")
        gc.collect()
        gc.freeze()  # children do not go through, and so copy, what is theirs and ours

    def run(self, tests: list[str], path: Path, before: str, after: str) -> str:
        """Return the first test that fails."""
        if after != before and str(path) in self.functions:
            give_code(path, before, after, self.functions[str(path)])
        elif after != before and is_loaded(path):  # a change of what is loaded would go unnoticed
            raise RuntimeError(f"functions of {path} are not found")
        items = [item for name in tests for item in self.named(name)]
        if not items:
            raise RuntimeError(f"none of {tests} is collected")
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.said.failed:
                break
        return self.said.failed

    def named(self, name: str) -> list[Any]:
        """Return a test, or all tests of a file, of a folder or of one function."""
        if name in self.tests:
            return [self.tests[name]]
        within = (f"{name}/", f"{name}::", f"{name}[")
        return [item for test, item in self.tests.items() if test.startswith(within)]


class Answers:
    """Answers jobs; a test that fails on the package as it is kills nothing and is left out."""

    def __init__(self, tree: Path, jobs: TextIO, answers: TextIO) -> None:
        self.tree, self.jobs, self.answers = tree, jobs, answers
        self.sound: set[str] = set()
        self.broken: set[str] = set()

    def serve(self, tests: Fresh | Collected) -> None:
        """Answer jobs until there are no more."""
        for line in self.jobs:
            print(json.dumps(self.answer(tests, json.loads(line))), file=self.answers, flush=True)

    def answer(self, tests: Fresh | Collected, job: dict[str, Any]) -> dict[str, Any]:
        """Return the outcome of the first stage of tests that notices."""
        path = self.tree / "src" / "conformix" / job["file"]
        before, after, limit = path.read_text(encoding="utf-8"), job["text"], job["limit"]
        stages, spent = list(job["stages"]), 0.0
        answer: dict[str, Any] = {"outcome": "not run", "test": "", "seconds": 0.0}
        while stages:
            stage = [test for test in stages[0] if test not in self.broken]
            if not stage:
                del stages[0]
                continue
            with changed(path, after):
                answer = in_child(functools.partial(tests.run, stage, path, before, after), limit)
            spent += answer["seconds"]
            test = answer["test"]
            if answer["outcome"] == "killed" and not self.is_sound(tests, test, path, before):
                continue
            if answer["outcome"] != "survived":
                break
            del stages[0]
        return answer | {"seconds": spent, "broken": sorted(self.broken)}

    def is_sound(self, tests: Fresh | Collected, test: str, path: Path, text: str) -> bool:
        """Return whether a test passes, or a file can be collected, on the package as it is."""
        name = test.removesuffix(STUCK)
        if name in self.sound:
            return True
        alone = in_child(functools.partial(tests.run, [name], path, text, text), 100.0)
        works = alone["outcome"] == "survived"
        if test != name and not works:  # its tests may fail, as long as it can be collected
            works = alone["outcome"] == "killed" and not alone["test"].endswith(STUCK)
        (self.sound if works else self.broken).add(name)
        return works


@contextmanager
def changed(path: Path, text: str) -> Iterator[None]:
    """Write another text into a module for a while."""
    right, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(text, encoding="utf-8")
    forget_bytecode(path)
    try:
        yield
    finally:
        path.write_text(right, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        forget_bytecode(path)


def forget_bytecode(path: Path) -> None:
    """Delete what Python keeps of a module: within a second it takes old bytecode for new."""
    for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        kept.unlink()


def main() -> None:
    """Answer jobs until standard input ends."""
    tree, kind = Path(sys.argv[1]), sys.argv[2]
    sys.path[:0] = [str(tree / "src"), str(tree / "tests")]
    os.chdir(tree)
    answers = Answers(tree, os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(quiet, 1)
    for name in SLOW:
        with suppress(ImportError):
            importlib.import_module(name)
    if kind == "fresh":
        answers.serve(Fresh(tree))
        return
    import pytest

    class Held(Said):
        def pytest_runtestloop(self, session: Any) -> bool:
            answers.serve(Collected(tree, session, self))
            return True

    pytest.main([*OPTIONS, *sys.argv[3:]], plugins=[Held()])


if __name__ == "__main__":
    main()
