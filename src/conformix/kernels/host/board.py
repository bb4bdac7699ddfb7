"""A board from which threads take the parts of a call, without the interpreter.

Whoever calls writes on it what there is to do: a compiled function with its task, which is called
with the number of a part. Then all who look at the board take part after part until none is left,
the caller among them, who waits for the others' last parts. Between two parts a thread does one
addition that no other can divide, so that parts may be short, and threads many: those that come
back to Python after each of their parts wait for each other there.

The parts are cut into strips, as many as there are threads or 32, and each thread begins with one
of its own: whoever calls with the first, in call after call, so that the rows that it has written
last are in the memory nearest to its core, from which another one gets them late; the others in
the order in which they come, which for a single helper is always the same. Whoever is done with a
strip helps with those of the others.

One call at a time is on the board. Who finds it taken does all parts alone: the answers are the
same, because a part writes nothing that another one reads or writes.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np import arrayobj

from conformix.kernels.arrays import IntArray
from conformix.kernels.host.compiled import allocating, compiled, inner

# Typed in some releases of numba only.
intrinsic: Any = numba.extending.intrinsic
make_array: Any = arrayobj.make_array
declared: Any = cgutils.get_or_insert_function
room_on_stack: Any = cgutils.alloca_once
copied_to_stack: Any = cgutils.alloca_once_value
pair_of: Any = types.UniTuple

# Places on the board, those that are written at different times in lines of a cache of their own.
GATE, OWNER, DONE, BELL, NAPPING = 0, 16, 48, 80, 88
FUNCTION, TASK, PARTS, HELPERS, CORE, ROUSED, FAILED, ENDING = 64, 65, 66, 67, 68, 69, 70, 71
# Strips of the parts, each with a line from there on: the next part of it that nobody has taken.
STRIPS, FIRST_STRIP, STRIP_LINE = 32, 96, 16
# The gate: the number of the call, whether it is open, and how many helpers have come in.
OPEN, CALL = 2**20, 2**21
# Cores of a machine, at most, between which threads can be told apart.
CORES = 1024
# The number under which Linux has threads sleep until a number in memory changes, and wakes them;
# other systems have others.
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if sys.platform == "linux" else None
SLEEP, WAKE = 128, 129  # among the threads of one process
# Looks between two that let others go first. After a look a thread pauses, at first so often, for
# less than a microsecond, and ever longer, up to so often, for some: it may share a core with
# whoever works, and should take little of it.
PATIENCE, PAUSES, LONGEST = 64, 16, 256


def _place(context: Any, builder: Any, kind: Any, board: Any, place: Any) -> Any:
    return builder.gep(make_array(kind)(context, builder, board).data, [place])


@intrinsic  # type: ignore[untyped-decorator]
def _read(typing_context: Any, board: Any, place: Any) -> Any:
    """Return a number as it is now: a plain read may be made once, before a loop."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there = _place(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(there, "seq_cst", 8)

    return types.int64(board, types.int64), code


@intrinsic  # type: ignore[untyped-decorator]
def _write(typing_context: Any, board: Any, place: Any, value: Any) -> Any:
    """Write a number after all that was written before."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there = _place(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], there, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(board, types.int64, types.int64), code


@intrinsic  # type: ignore[untyped-decorator]
def _add(typing_context: Any, board: Any, place: Any, value: Any) -> Any:
    """Add to a number, and return what it was: nobody comes between."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there = _place(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("add", there, arguments[2], "seq_cst")

    return types.int64(board, types.int64, types.int64), code


@intrinsic  # type: ignore[untyped-decorator]
def _turn(typing_context: Any, board: Any, place: Any, old: Any, new: Any) -> Any:
    """Write a number where another one is, and return whether it was: nobody comes between."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there = _place(context, builder, signature.args[0], *arguments[:2])
        found = builder.cmpxchg(there, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(board, types.int64, types.int64, types.int64), code


@intrinsic  # type: ignore[untyped-decorator]
def _pause(typing_context: Any) -> Any:
    """Tell an x86 that this is a loop that waits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine().lower() in {"x86_64", "amd64"}:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(declared(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), code


@intrinsic  # type: ignore[untyped-decorator]
def _give_way(typing_context: Any) -> Any:
    """Let a thread run that waits for this core, where the system is a POSIX one."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(declared(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), code


@intrinsic  # type: ignore[untyped-decorator]
def _own_core(typing_context: Any) -> Any:
    """Return on which core this thread runs, where the system is Linux; -1 elsewhere."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if sys.platform != "linux":
            return ir.IntType(64)(-1)
        kind = ir.FunctionType(ir.IntType(32), [])
        found = builder.call(declared(builder.module, kind, "sched_getcpu"), [])
        return builder.sext(found, ir.IntType(64))

    return types.int64(), code


def _of_cores(name: str) -> Any:
    """Return a function of the system that reads or writes on which cores this thread may run."""

    def typed(typing_context: Any, cores: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if sys.platform != "linux":
                return ir.IntType(32)(-1)
            anything, number, size = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
            kind = ir.FunctionType(number, [number, size, anything])
            array = make_array(signature.args[0])(context, builder, arguments[0])
            there = builder.bitcast(array.data, anything)
            function = declared(builder.module, kind, name)
            return builder.call(function, [number(0), size(CORES // 8), there])

        return types.int32(cores), code

    return intrinsic(typed)


_read_cores, _write_cores = _of_cores("sched_getaffinity"), _of_cores("sched_setaffinity")


@intrinsic  # type: ignore[untyped-decorator]
def _futex(typing_context: Any, board: Any, place: Any, what: Any, value: Any, seconds: Any) -> Any:
    """Sleep until a number on the board is no longer `value`, or wake so many who do."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(64)
        if FUTEX is None:
            return whole(-1)
        there = _place(context, builder, signature.args[0], *arguments[:2])
        time = room_on_stack(builder, whole, 2)
        builder.store(arguments[4], time)
        builder.store(whole(0), builder.gep(time, [whole(1)]))
        kind = ir.FunctionType(whole, [whole], var_arg=True)
        function = declared(builder.module, kind, "syscall")
        return builder.call(function, [whole(FUTEX), there, *arguments[2:4], time])

    return types.int64(board, *(types.int64,) * 4), code


@inner
def _leave(core: int, cores: Any) -> None:
    """Go on on another core, where this thread may run on one; `cores` (words,) is room."""
    for k in range(len(cores)):
        cores[k] = 0
    if not 0 <= core < CORES or _read_cores(cores) < 0:
        return
    own = np.uint64(1) << np.uint64(core & 63)
    cores[core >> 6] &= ~own
    if _write_cores(cores) == 0:  # refused where no other is left
        cores[core >> 6] |= own
        _write_cores(cores)


@intrinsic  # type: ignore[untyped-decorator]
def itself(typing_context: Any, board: Any, helpers: Any, n: Any, task: Any) -> Any:
    """Return where the function that asks is, and its arguments, for as long as it runs.

    It takes ``(board, helpers, n, task, part, worker)`` and returns an integer. One function with
    two ways through it is compiled once; parts that were functions of their own would be compiled
    twice, once more as a part of whoever shares them.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        anything, whole, status_code = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)
        function = ir.Function(
            builder.module, ir.FunctionType(status_code, [anything, whole, whole]),
            name=builder.module.get_unique_name("part"),
        )  # fmt: skip
        function.linkage = "internal"
        places = [copied_to_stack(builder, one) for one in arguments]
        table = room_on_stack(builder, anything, len(places))
        for k, place in enumerate(places):
            there = builder.gep(table, [whole(k)])
            builder.store(builder.bitcast(place, anything), there)
        inside = ir.IRBuilder(function.append_basic_block())
        given = inside.bitcast(function.args[0], anything.as_pointer())
        own = [
            inside.load(inside.bitcast(inside.load(inside.gep(given, [whole(k)])), place.type))
            for k, place in enumerate(places)
        ]
        kinds = (*signature.args, types.int64, types.int64)
        status, _ = context.call_conv.call_function(
            inside, builder.function, types.int64, kinds, (*own, *function.args[1:])
        )
        inside.ret(inside.zext(status.is_error, status_code))
        both = [builder.ptrtoint(there, whole) for there in (function, table)]
        return context.make_tuple(builder, signature.return_type, both)

    return pair_of(types.int64, 2)(board, types.int64, types.int64, task), code


@intrinsic  # type: ignore[untyped-decorator]
def _fails(typing_context: Any, function: Any, task: Any, part: Any, worker: Any) -> Any:
    """Do a part, and return 1 where it has failed."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        anything, whole, status_code = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(status_code, [anything, whole, whole]).as_pointer()
        there = builder.inttoptr(arguments[0], kind)
        found = builder.call(there, [builder.inttoptr(arguments[1], anything), *arguments[2:]])
        return builder.zext(found, whole)

    return types.int64(types.int64, types.int64, types.int64, types.int64), code


@inner
def _rest(look: int) -> None:
    """Do nothing for a while, between two looks."""
    if look % PATIENCE == 0:
        _give_way()
    for _ in range(min(PAUSES + look, LONGEST)):
        _pause()


@inner
def _lay_out(board: IntArray, n: int, strips: int) -> None:
    """Write on the board where every strip of the parts begins."""
    for strip in range(strips):
        board[FIRST_STRIP + strip * STRIP_LINE] = strip * n // strips


@inner
def _take_parts(
    board: IntArray, function: int, task: int, n: int, strips: int, worker: int
) -> None:
    """Do parts as long as some are left: those of a strip of one's own, then those of others."""
    for turn in range(strips):
        strip = (worker + turn) % strips
        place, end = FIRST_STRIP + strip * STRIP_LINE, (strip + 1) * n // strips
        while _read(board, place) < end:
            k = _add(board, place, 1)
            if k < end and _fails(function, task, k, worker) != 0:
                _add(board, FAILED, 1)


@inner
def run(board: IntArray, helpers: int, n: int, there: tuple[int, int]) -> int:
    """Do `n` parts of what `itself` says, by so many helpers at most; returns how many have failed.

    Helpers look at the board in `serve`. Without any it is left alone. Whoever calls is worker 0,
    helpers are 1, 2, ...: each has room of its own.
    """
    function, task = there
    if helpers < 1 or n < 2 or not _turn(board, OWNER, 0, 1):
        failed = 0
        for k in range(n):
            failed += _fails(function, task, k, 0)
        return failed
    strips = min(helpers + 1, STRIPS)
    _lay_out(board, n, strips)
    board[FUNCTION], board[TASK], board[PARTS], board[HELPERS] = function, task, n, helpers
    board[FAILED], board[DONE], board[CORE] = 0, 0, _own_core()
    _write(board, GATE, (_read(board, GATE) & -CALL) + CALL + OPEN)
    _take_parts(board, function, task, n, strips, 0)
    joined = _add(board, GATE, -OPEN) & (OPEN - 1)
    look = 0
    while _read(board, DONE) < joined:
        look += 1
        if look % PATIENCE == 0:
            _give_way()
        _pause()
    failed = board[FAILED]
    _write(board, OWNER, 0)
    return failed


@compiled
def begin_to_wake(board: IntArray) -> None:
    """Write on the board on which core whoever wakes helpers is."""
    board[CORE] = _own_core()


@compiled
def ring(board: IntArray, n: int) -> None:
    """Wake so many of those who nap."""
    board[CORE] = _own_core()
    _add(board, BELL, 1)
    _futex(board, BELL, WAKE, n, 0)


@compiled
def let_others_run(times: int) -> None:
    """Let threads run that wait for this core, such as one that was woken on it."""
    for _ in range(times):
        _give_way()


@allocating
def step_aside(board: IntArray) -> None:
    """Leave the core of whoever calls: some systems wake a thread there, and let it stay."""
    if _own_core() == board[CORE]:
        _leave(board[CORE], np.empty(CORES // 64, np.uint64))


@allocating
def serve(board: IntArray, flag: IntArray, looks: int, seconds: int) -> int:
    """Take parts of calls on the board until ``flag[0]`` is raised, or no call was there for long.

    Returns -1 where it is raised. So many looks in vain end in a nap, for so many seconds at most,
    from which the bell wakes; without one, where the system has none, or when nobody has rung, it
    is returned how often helpers were roused until then: whoever was roused meanwhile looks again.
    """
    joined, look, roused = np.int64(0), 0, np.int64(0)
    cores = np.empty(CORES // 64, np.uint64)
    while True:
        if _read(flag, 0) != 0:
            return -1
        bell, roused = _read(board, BELL), _read(board, ROUSED)
        gate = _read(board, GATE)
        if gate & OPEN != 0 and gate & -CALL != joined:
            worker = (gate & (OPEN - 1)) + 1
            if worker > board[HELPERS]:
                joined = gate & -CALL  # there are enough
            elif _turn(board, GATE, gate, gate + 1):
                joined, look = gate & -CALL, 0
                if _own_core() == board[CORE]:  # they have met since
                    _leave(board[CORE], cores)
                strips = min(board[HELPERS] + 1, STRIPS)
                _take_parts(board, board[FUNCTION], board[TASK], board[PARTS], strips, worker)
                _add(board, DONE, 1)
            continue
        if look < looks:
            _rest(look)
            look += 1
            continue
        if seconds < 1 or _read(board, ENDING) != 0:
            return roused
        _add(board, NAPPING, 1)
        # Whoever raises the flag rings after it: what was read of the bell is older, or it is seen.
        if _read(flag, 0) == 0:
            _futex(board, BELL, SLEEP, bell & 0xFFFFFFFF, seconds)
        _add(board, NAPPING, -1)
        if _read(board, BELL) == bell:
            return roused
        look = 0
        if _own_core() == board[CORE]:
            _leave(board[CORE], cores)
