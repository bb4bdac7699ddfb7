"""Threads of a call write to memory of their own, which no other one waits for.

What lies in one line of a cache belongs to the core that has written to it last. Threads that write
beside each other are right, and as slow as if each had to ask the others: a fit of 10,000 rows took
longer with two threads than with one. No answer tells, so it is looked at where memory comes from.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest

import conformix
from conformix.kernels.blocks import rooms

host = pytest.importorskip("conformix.kernels.host")
compiled = import_module("conformix.kernels.host.compiled")

LINE = 64  # bytes that go from core to core together; some take two such lines at once
PACKAGE = Path(conformix.__file__).parent
# A loop that holds on to a slice: one more reference to the array, again and again.
SLICES = """
def largest(rows):
    best = rows[0]
    for i in range(len(rows)):
        if rows[i, 0] > best[0]:
            best = rows[i]
    return best[0]
"""


def functions_of_kernels() -> dict[str, Any]:
    """Return what is compiled in the rooms of the host, by name."""
    names = [found.name for found in walk_packages(host.__path__, f"{host.__name__}.")]
    return {
        f"{name.removeprefix(host.__name__)}.{word}": function
        for name in names
        for word, function in vars(import_module(name)).items()
        if getattr(getattr(function, "py_func", None), "__module__", None) == name
    }


def shared_by_threads(function: Any) -> bool:
    """Whether threads take parts of a function from a board."""
    return "itself(board" in inspect.getsource(function.py_func)


def test_loops_that_threads_share_count_no_references() -> None:
    shared = {name: one for name, one in functions_of_kernels().items() if shared_by_threads(one)}
    assert {".upper.hold", ".blend.blend", ".likelihood.likelihood"} <= set(shared)
    counting = {name for name, one in shared.items() if one.targetoptions["_nrt"] is not False}
    assert counting == set()


def test_only_what_makes_arrays_counts_references() -> None:
    """Those that a shared loop calls would count there, too."""
    makes = re.compile(r"np\.(empty|zeros|sort)\(|\.ravel\(")
    for name, function in functions_of_kernels().items():
        source = inspect.getsource(function.py_func).split('"""')[-1]
        assert function.targetoptions["_nrt"] is bool(makes.search(source)), name


def test_nothing_that_is_compiled_returns_an_array() -> None:
    """Of one that is not counted, whoever counts would give up a reference that nobody took."""
    returned = {
        name: str(inspect.signature(function.py_func).return_annotation)
        for name, function in functions_of_kernels().items()
    }
    assert returned[".upper._walk"] == "bool"
    assert {name: what for name, what in returned.items() if "Array" in what} == {}


@pytest.mark.parametrize(("decorator", "counts"), [("compiled", False), ("allocating", True)])
def test_what_counts_is_in_the_code_and_what_does_not_is_not(decorator: str, counts: bool) -> None:
    made: dict[str, Any] = {}
    exec(compile(SLICES, "<made here>", "exec"), made)  # kept nowhere, so that it can be looked at
    function = getattr(compiled, decorator)(made["largest"])
    assert function(np.array([[1.0, 5.0], [3.0, 0.0], [2.0, 4.0]])) == 3.0
    (code,) = function.inspect_llvm().values()
    assert ("NRT_" in code) is counts  # what numba calls to count, wherever it may


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int16, np.uint32, np.bool_])
@pytest.mark.parametrize("shape", [(1,), (3,), (16,), (200,), (4, 1), (4, 100), (2, 3, 5), (0, 7)])
def test_rooms_lie_two_lines_apart(shape: tuple[int, ...], dtype: Any) -> None:
    whole = rooms(3, *shape, dtype=dtype)
    assert whole.dtype == dtype
    assert whole.flags.c_contiguous  # loops are compiled for rows side by side
    used = [room[: shape[0]] for room in whole]
    assert {room.shape for room in used} == {shape}
    begins = [room.__array_interface__["data"][0] for room in whole]
    ends = [begin + room.nbytes for begin, room in zip(begins, used, strict=True)]
    # The last one has a distance, too, from whatever lies behind.
    for end, begin in zip(ends, [*begins[1:], begins[0] + whole.nbytes], strict=True):
        assert begin - end >= 2 * LINE


def test_whoever_makes_room_for_threads_makes_it_with_a_distance() -> None:
    """Room has as many first places as there are workers, under one of these names."""
    several = r"(workers|threads|several|parts\.threads|parts\.n|len\(room\.given\))"
    makes = re.compile(rf"np\.(empty|zeros|full|ones)\(\(\(?{several}, ")
    found = {
        f"{file.relative_to(PACKAGE)}: {line.strip()}"
        for file in PACKAGE.rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if makes.search(line)
    }
    assert found == set()
