"""Which twin computes on the host: compiled kernels, or NumPy for small problems.

Compiled kernels are many times as fast, but their first use costs a process half a second where
they were compiled before, and seconds where they were not. NumPy gives the same bits at once. So a
process computes with NumPy until its work has added up to what the first use of compiled kernels
costs; a problem that is larger by itself is compiled at once, and whatever was compiled stays in
use. Nobody waits more than about twice as long as with the better choice known beforehand.

Loops over outputs are loaded with the first call that is large by itself. Each is used from then on
where numbers are many, and once it has been, where they are few.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Products of a weight and a score that NumPy may form in one process, for each family of kernels:
# one or two seconds. A call counts as at least so many, so that rows served one by one are soon
# served by compiled kernels.
PATIENCE = 2**30
CALL = 2**23

FAMILIES = ("bands", "counting", "engine", "selection", "widths")

_spent = dict.fromkeys(FAMILIES, 0)


def host_kernels(name: str, products: int) -> Any:
    """Return the kernels `name` for a call that forms so many products of weights and scores.

    `conformix.kernels.host.<name>`, or its twin of the same functions in `conformix.kernels.plain`.
    """
    _spent[name] += max(CALL, products)
    room = "plain" if _spent[name] <= PATIENCE else "host"
    return import_module(f"conformix.kernels.{room}.{name}")


def spend_patience() -> None:
    """Compute everything with compiled kernels from now on."""
    for name in FAMILIES:
        _spent[name] += max(PATIENCE, 0)
    compile_for(WORTHWHILE)


# Loops over outputs; numbers for which they are worth loading, and for which they are compiled.
LOOPS = (
    "blend", "board", "digests", "elementary", "kin", "likelihood", "likeness", "lookup", "order",
    "patterns", "products", "ranks", "rising", "terms", "upper",
)  # fmt: skip
WORTHWHILE, MANY = 2**17, 2**10

_loaded: dict[str, Any] = {}
_compiled: set[str] = set()


def compile_for(numbers: int) -> None:
    """Load the loops where so many numbers are to come that they pay."""
    if numbers >= WORTHWHILE and not _loaded and find_spec("numba") is not None:
        # All at once, and not before they are ready: other threads may be asking for them.
        _loaded.update({name: import_module(f"conformix.kernels.host.{name}") for name in LOOPS})


def loops(name: str, numbers: int, function: str = "") -> Any:
    """Return `conformix.kernels.host.<name>` where it is loaded, and pays for so many numbers.

    Many numbers are worth compiling it, or one function of it that is named. Then a call takes a
    microsecond, where NumPy's passes take tens of them, of a few numbers, too.
    """
    module, one = _loaded.get(name), f"{name}.{function}"
    if module is None:
        return None
    if numbers >= MANY:
        _compiled.add(one)
        return module
    return module if numbers and one in _compiled else None
