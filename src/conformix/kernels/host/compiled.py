"""Kernels compiled by numba at their first call, and kept on disk where there is room for that.

numba keeps what it compiled beside the source, or in the user's cache folder; where neither can be
written (a read-only installation without a home) it refuses to decorate at all. Such a process
compiles for itself: slower to start, the same numbers.

What costs time to compile: every function (a tenth of a second, however short), every door from
Python or from C, every second signature (another layout, a read-only array, a literal number),
assignments of whole slices (numba then compiles the formatting of text for a refusal of shapes).
The code of an inner function is made once for itself and once more for every function above it; an
inlined one is copied block by block, each with all names, so that long ones, and those that inline
others, cost more than their text in the caller would.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

# Seconds of compilation in one process after which somebody is waiting.
SILENCE = 1.0
# Modules whose code, or constants, are compiled into the kernels of those that import them.
COMPILED_IN = re.compile(
    r"^from (conformix\.kernels\.(?:host\.[\w.]+|elementary)) import ", re.MULTILINE
)


def compiled(function: F) -> F:
    """Return the function as machine code that releases the interpreter lock."""
    return _compiled(function, nogil=True, no_cfunc_wrapper=True)


def allocating(function: F) -> F:
    """Return a compiled function that makes arrays of its own, whose references it counts."""
    return _compiled(function, nogil=True, no_cfunc_wrapper=True, _nrt=True)


def inner(function: F) -> F:
    """Return a function that only compiled functions call: without a door from Python."""
    return _compiled(function, nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def regrouped(function: F) -> F:
    """Return an inner function with sums in whatever order is fastest, fused or not.

    For what is rounded later to far fewer digits. It must call no compiled function: numba would
    compile that one with the same freedom, and keep it.
    """
    grouping = {"reassoc", "contract", "nsz"}
    options: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    return _compiled(function, nogil=True, fastmath=grouping, **options)


def fused(function: F) -> F:
    """Return an inner function whose products and sums may be one step, rounded once."""
    options: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    return _compiled(function, nogil=True, fastmath={"contract"}, **options)


def without_nan(function: F) -> F:
    """Return an inner function that compares numbers in whatever order is fastest.

    What it returns of numbers that are NaN is anything. It must call no compiled function.
    """
    options: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    return _compiled(function, nogil=True, fastmath={"nnan", "nsz"}, **options)


def inlined(function: F) -> F:
    """Return a function that becomes part of those that call it: no code of its own.

    For functions with one caller or two; each further one compiles it once more.
    """
    return _compiled(function, nogil=True, inline="always")


def _compiled(function: F, **options: Any) -> F:
    jit: Any = numba.njit  # typed in some of its releases only
    # A look at every divisor, whether it is zero, would keep loops from dividing many at a time.
    options["error_model"] = "numpy"
    # numba would count how often an array is referred to, at every slice, in memory that threads
    # that share the array would all write to. Whoever calls holds the arrays until the call ends.
    options.setdefault("_nrt", False)
    try:
        kernel = jit(cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        return jit(**options)(function)  # type: ignore[no-any-return]
    _keep(kernel)
    return kernel  # type: ignore[no-any-return]


def _keep(kernel: Any) -> None:
    """Let what another release of this library has left behind count as nothing.

    numba asks whether the file of a kernel is as it was, not those of the kernels that are compiled
    into it: code of two releases would share a board. And it reads what it has kept before it asks,
    which fails where a tuple is named that is gone.
    """
    kept = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    read = getattr(kept, "_load_index", None)
    if kept is None or read is None:  # another numba
        return

    def index() -> Any:
        with suppress(OSError):  # a program in one file, whose stamp is that of all
            kept._source_stamp = stamp(kernel.py_func.__code__.co_filename)
        try:
            return read()
        except (AttributeError, ImportError):
            return {}

    kept._load_index = index


@cache
def stamp(file: str) -> bytes:
    """Return a digest of a module and of all that are compiled into its kernels."""
    left, texts = [file], dict[str, bytes]()
    while left:
        path = left.pop()
        if path not in texts:
            texts[path] = Path(path).read_bytes()
            names = COMPILED_IN.findall(texts[path].decode("utf-8"))
            left += [str(sys.modules[name].__file__) for name in names]
    # Wherever the library lies.
    digests = sorted(hashlib.sha256(text).digest() for text in texts.values())
    return hashlib.sha256(b"".join(digests)).digest()


class Notice(event.Listener):  # type: ignore[misc]
    """Says in one line, once in a process, that somebody is waiting for the compiler.

    Through the logger ``conformix``, as a warning: Python writes those to the standard error of
    terminals and notebooks unless an application says otherwise, and no filter that turns warnings
    into errors makes a first call fail.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.told = False
        self._depth = 0
        self._start = 0.0
        self._timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Set the clock at the outermost kernel of this library; others nest within."""
        if not _is_ours(event):
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._start = time.perf_counter()
        if not self.told:
            folder = event.data["dispatcher"].stats.cache_path
            left = max(0.0, SILENCE - self.seconds)
            self._timer = threading.Timer(left, self._tell, (folder,))
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the clock."""
        if not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._start
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def forget(self) -> None:
        """Stop the clock: a forked child has not the thread that was compiling."""
        self._depth, self._timer = 0, None

    def _tell(self, folder: str | None) -> None:
        self.told = True
        kept = (
            f"kept in {folder} for later processes"
            if folder
            else "by every process, because numba finds no folder to keep it in (NUMBA_CACHE_DIR)"
        )
        logging.getLogger("conformix").warning(
            "conformix: compiling for this machine, about fifteen seconds; %s.", kept
        )


class Calm(event.Listener):  # type: ignore[misc]
    """Lets the garbage collector rest while a kernel of this library is compiled.

    The compiler makes objects by the hundred thousand, keeps most of them until it is done, and
    the collector looks through all of them again and again: an eighth of the time. What it would
    have found it finds after the kernel. Whoever stops it in another thread meanwhile finds it at
    work again; a child that is forked meanwhile has nobody who would start it, and does so itself.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._resting = False

    def on_start(self, event: Any) -> None:
        """Stop collecting at the outermost kernel, unless somebody else has."""
        if not _is_ours(event):
            return
        self._depth += 1
        if self._depth == 1:
            self._resting = gc.isenabled()
            gc.disable()

    def on_end(self, event: Any) -> None:
        """Collect again as before; numba says so after errors too."""
        if not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0 and self._resting:
            gc.enable()

    def forget(self) -> None:
        """Compile nothing: a forked child has not the thread that was at it."""
        if self._depth and self._resting:
            gc.enable()
        self._depth = 0


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("conformix.")


NOTICE, CALM = Notice(), Calm()
event.register("numba:compile", NOTICE)  # type: ignore[no-untyped-call]
event.register("numba:compile", CALM)  # type: ignore[no-untyped-call]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=NOTICE.forget)
    os.register_at_fork(after_in_child=CALM.forget)
