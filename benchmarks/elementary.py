"""What the same bits everywhere cost: nanoseconds per number of `exp`, `log` and softmax.

``python -m benchmarks.elementary`` runs each form beside NumPy's own function, in turns, on one
thread, and prints the fastest of the turns. Tensors are measured where there is a CUDA device.
"""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np

from conformix.kernels import elementary
from conformix.kernels.host.elementary import exp_into, log_into, softmax_into

TURNS = 15
# Rows and columns: in the cache of a core, and beyond it.
SHAPES = ((16, 1000), (2000, 1000))


def numpy_softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def nanoseconds(calls: dict, size: int) -> dict[str, float]:
    """Return the fastest of several turns of every call, per number."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    repeats = max(1, 100_000 // size)
    for _ in range(TURNS):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.perf_counter_ns() - start) / repeats / size)
    return best


def forms(shape: tuple[int, int]) -> dict[str, dict]:
    """Return the calls of every function, by the name of the form."""
    logits = np.random.default_rng(0).normal(0, 5, shape)
    falling, out = logits - logits.max(axis=1, keepdims=True), np.empty(shape)
    probs = numpy_softmax(logits)
    return {
        "exp": {
            "np.exp": lambda: np.exp(falling, out=out),
            "compiled": lambda: exp_into(falling.reshape(-1), out.reshape(-1)),
            "in NumPy": lambda: elementary.exp(falling),
        },
        "log": {
            "np.log": lambda: np.log(probs, out=out),
            "compiled": lambda: log_into(probs.reshape(-1), out.reshape(-1)),
            "in NumPy": lambda: elementary.log(probs),
        },
        "softmax": {
            "with np.exp": lambda: numpy_softmax(logits),
            "compiled": lambda: softmax_into(logits, out),
            "in NumPy": lambda: elementary.softmax(logits),
        },
    }


def on_cuda() -> dict[str, dict]:
    """Return the same calls for 25 million numbers on a CUDA device; none where there is none."""
    if find_spec("torch") is None:
        return {}
    import torch

    from conformix.kernels.device import elementary as on_device

    if not torch.cuda.is_available():
        return {}
    logits = torch.randn((25_000, 1000), dtype=torch.float64, device="cuda")

    def waited(function, values):
        def call() -> None:
            function(values)
            torch.cuda.synchronize()

        return call

    tables = on_device.tables_on(logits.device)
    probs = torch.softmax(logits, 1)
    return {
        "exp": {
            "torch.exp": waited(torch.exp, logits),
            "one kernel": waited(on_device.exp, logits),
            "operations": waited(lambda x: elementary.exponential(x, tables), logits),
        },
        "log": {
            "torch.log": waited(torch.log, probs),
            "one kernel": waited(on_device.log, probs),
            "operations": waited(lambda x: elementary.logarithm(x, tables), probs),
        },
        "softmax": {
            "torch.softmax": waited(lambda x: torch.softmax(x, 1), logits),
            "ours": waited(on_device.softmax, logits),
        },
    }


def show(title: str, functions: dict[str, dict], size: int) -> None:
    print(f"\n{title}, nanoseconds per number")
    for function, calls in functions.items():
        taken = nanoseconds(calls, size)
        reference = next(iter(taken.values()))
        print(
            f"{function:>8}: "
            + ", ".join(f"{name} {t:.3g} (x{t / reference:.2f})" for name, t in taken.items())
        )


def main() -> None:
    for n, n_classes in SHAPES:
        show(f"{n:,} x {n_classes:,}", forms((n, n_classes)), n * n_classes)
    device = on_cuda()
    if device:
        show("CUDA, 25,000 x 1,000", device, 25_000_000)


if __name__ == "__main__":
    main()
