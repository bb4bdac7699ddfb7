"""Small files in the form that users bring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("cat", "dog", "emu", "fox")


def draw(seed: int, n: int) -> tuple[Any, Any]:
    """Probabilities of a fair classifier over four classes, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n)
    logits = rng.normal(size=(n, 4))
    logits[np.arange(n), labels] += 1.5
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True), labels


def write_csv(path: Path, probs: Any, labels: Any = None) -> None:
    lines = [",".join(NAMES) + ("" if labels is None else ",label")]
    for row, values in enumerate(probs.tolist()):
        own = "" if labels is None else f",{NAMES[labels[row]]}"
        lines.append(",".join(map(repr, values)) + own)
    path.write_text("\n".join(lines) + "\n")


def write_files(folder: Path) -> None:
    """Write the files that examples and pages speak of, small."""
    write_csv(folder / "calibration.csv", *draw(0, 300))
    write_csv(folder / "test.csv", *draw(1, 200))
    write_csv(folder / "new.csv", draw(2, 50)[0])
    probs, labels = draw(3, 240)
    np.savez(folder / "outputs.npz", labels=labels, forest=probs, network=draw(4, 240)[0])


def write_stream(folder: Path) -> None:
    """Write the log of a short stream, closed."""
    import conformix as cx

    online = cx.OnlineAverage("thr", alpha=0.4, window=10).record(folder / "stream")
    online.run([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]] * 8, [0, 1, 0] * 8)
    online.close()
