"""How things are timed: interleaved with references, in one process, the smaller taken.

A shared machine is never quiet. A ratio survives that better than seconds do: the references run
right before and right after a case, and the faster of the two counts.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
REFERENCES = {"released": 10, "tensordot": 10, "matmul": 9}  # with the widths of their columns


def fastest(call, repeats: int = 5) -> float:
    """Return the seconds of the fastest of some calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def seconds_of(references: dict) -> dict[str, float]:
    return {name: reference() for name, reference in references.items()}


def interleaved(call, references: dict, repeats: int = 5) -> tuple[float, dict[str, float]]:
    """Return the seconds of `call`, and of every reference timed before and after it."""
    before = seconds_of(references)
    own = fastest(call, repeats)
    after = seconds_of(references)
    return own, {name: min(before[name], after[name]) for name in references}


def peak_mib(call) -> dict[str, float] | None:
    """Return what `call` added to the resident memory, and the peak of the whole process.

    Linux resets the high-water mark on request; elsewhere nothing is reported.
    """
    status = Path("/proc/self/status")
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return None
    before = _mib(status, "VmRSS")
    call()
    peak = _mib(status, "VmHWM")
    return {"added": round(peak - before, 1), "process": round(peak, 1)}


def _mib(status: Path, field: str) -> float:
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median."""
    rng = np.random.default_rng(0)
    drawn = np.median(rng.choice(values, (2000, len(values))), axis=1)
    low, high = np.sort(drawn)[[50, 1949]]
    return float(low), float(high)


def surroundings() -> dict[str, object]:
    """Return commit, machine and versions: what a number is worth nothing without."""
    import numba

    git = ["git", "-C", str(ROOT)]
    commit = _output([*git, "rev-parse", "--short", "HEAD"])
    code = ["src", "benchmarks", ":!benchmarks/results"]  # rows of before change no number
    edited = _output([*git, "status", "--porcelain", "--", *code])
    return {
        "commit": commit + ("+" if edited else "") if commit else "unknown",
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # a machine without git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


class Report:
    """Rows as they come: a line of the table on the terminal, a JSON line in a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._fixed = surroundings()
        self._path.write_text("", encoding="utf-8")
        self.rows: list[dict] = []
        print(f"commit {self._fixed['commit']}, {self._fixed['cores']} cores, {self._fixed['cpu']}")
        print("columns 3 to 5: how many times longer the reference takes\n")
        names = "".join(f"{name:>{width}}" for name, width in REFERENCES.items())
        print(f"{'case':<56}{'seconds':>10}{names}{'peak MiB':>10}", flush=True)

    def add(
        self,
        case: str,
        seconds: float,
        references: dict[str, float] | None = None,
        peak: dict[str, float] | None = None,
        **more: object,
    ) -> dict:
        """Note one measurement; `references` hold seconds, and become ratios."""
        ratios = {name: other / seconds for name, other in (references or {}).items()}
        row = {
            "case": case,
            "seconds": _short(seconds),
            "references_s": {k: _short(v) for k, v in (references or {}).items()},
            "times_faster": {k: _short(v) for k, v in ratios.items()},
            "peak_mib": peak,
            **more,
            "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
            **self._fixed,
        }
        self.rows.append(row)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        cells = "".join(
            f"{ratios[name]:>{width}.0f}" if name in ratios else " " * width
            for name, width in REFERENCES.items()
        )
        added = f"{peak['added']:>10.0f}" if peak else ""
        print(f"{case:<56}{seconds:>10.4f}{cells}{added}", flush=True)
        return row

    def summary(self, name: str, rows: list[dict]) -> None:
        """Print the worst ratio to the released procedure, and the geometric mean."""
        ratios = np.array([row["times_faster"]["released"] for row in rows])
        mean = float(np.exp(np.log(ratios).mean()))
        told = f"worst {ratios.min():.0f}, geometric mean {mean:.0f} times the released procedure"
        print(f"  = {name}: {told}\n")


def _short(value: float) -> float:
    return float(f"{value:.4g}")
