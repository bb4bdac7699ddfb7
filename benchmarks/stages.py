"""Where the time of a call goes, by the room of the house that is working.

A thread looks at what all others are doing, once a millisecond. The innermost frame that
belongs to a stage decides, so that work of NumPy or of a kernel counts for whoever asked for it,
and what happens inside of a room may change without a word here. No function is wrapped and nothing
is traced: the call runs as it does without. A look that comes late (some calls do not let go of the
interpreter) counts for as long as it took to come.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import conformix

PACKAGE = Path(conformix.__file__).resolve().parent
# Rooms, files, and functions of a file. Of those that hold a frame the longest decides; kernels
# that are not named here count for whoever calls them.
STAGES = {
    "checks": ("data",),
    "exp and log": (
        *(f"kernels/{place}elementary.py" for place in ("", "host/", "device/")),
        *(f"scores/ranked.py/{name}" for name in ("probs", "log_probs", "log_sum_exp", "_minus")),
    ),
    "sort and scores": ("scores",),
    "blend": ("scores/blend.py", "fit/blend.py"),
    "scale": ("scores/scale.py", "kernels/host/lookup.py"),
    "search": ("search", "kernels/host/engine", "kernels/device/engine.py"),
    "calibration": ("calibration", "conformal.py", "guarantees", "splits.py"),
    "sets": ("predictions", "fit/rule.py", "fit/predictor.py", "fit/exact", "kernels/combine.py"),
    "rows": ("fit", "estimators"),
}
REST = "rest"
SECONDS = 0.001
# Frames of a thread that waits for others.
WAITING = ("threading.py", "concurrent/futures", "queue.py")


def stage_of(file: str, function: str) -> str | None:
    """Return the stage of a function in a source file, None where it has none."""
    whole = f"{Path(file).as_posix()}/{function}"
    inside = whole.removeprefix(f"{PACKAGE.as_posix()}/")
    if inside == whole:
        return None
    places = {place: stage for stage, some in STAGES.items() for place in some}
    holding = [place for place in places if inside == place or inside.startswith(f"{place}/")]
    return places[max(holding, key=len)] if holding else None


class Watch:
    """Seconds by stage, added up while `watched`."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._stages: dict[tuple[str, str], str | None] = {}  # by file and function
        self._over = threading.Event()

    def stage(self, frame: FrameType | None) -> str | None:
        """Return the stage that a stack of frames is in, from the innermost outwards."""
        while frame is not None:
            function = frame.f_code.co_filename, frame.f_code.co_name
            if function not in self._stages:
                self._stages[function] = stage_of(*function)
            if self._stages[function] is not None:
                return self._stages[function]
            frame = frame.f_back
        return None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count what the threads of this process do inside of the block."""
        self._over.clear()
        watcher = threading.Thread(target=self._look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join()

    def shares(self) -> dict[str, float]:
        """Return the share of the time by stage, in the order of `STAGES`."""
        total = sum(self.seconds.values()) or 1.0
        return {stage: self.seconds[stage] / total for stage in (*STAGES, REST)}

    def _look(self) -> None:
        ours, last = threading.get_ident(), time.perf_counter()
        while not self._over.wait(SECONDS):
            frames = sys._current_frames()
            now = time.perf_counter()
            frames.pop(ours)
            stages = self._busy(list(frames.values()))
            for stage in stages:
                self.seconds[stage] += (now - last) / len(stages)
            last = now

    def _busy(self, frames: list[FrameType]) -> list[str]:
        """Return the stages of the threads that work; of those that wait if none does."""
        stages = [(self.stage(frame), waits(frame)) for frame in frames]
        working = [stage for stage, waiting in stages if stage is not None and not waiting]
        return working or [stage for stage, _ in stages if stage is not None] or [REST]


def waits(frame: FrameType) -> bool:
    return any(name in frame.f_code.co_filename for name in WAITING)
