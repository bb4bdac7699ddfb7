"""What a fresh process waits for: nothing is compiled for small problems, and waiting is told."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformix.kernels.host import compiled as kernels

SMALL = """
import json, sys
import numpy as np
import conformix as cx

rng = np.random.default_rng(0)
probs = rng.dirichlet(np.full(10, 0.3), 2000)
y = (probs.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1).clip(max=9)
for options in {cases!r}:
    model = cx.ScoreAverage(**options).fit(probs[:1000], y[:1000])
    model.predict_set(probs[1000:])
    model.predict_pvalues(probs[1000:1100])
    model.predict_set(probs[:1])
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def loaded_by(code: str, cache: Path) -> set[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("scores", [("thr", "aps", "rank"), "auto"])
@pytest.mark.parametrize("split", ["vfcp", "exact"])
def test_a_thousand_rows_of_ten_classes_compile_nothing(
    split: str, scores: Any, tmp_path: Path
) -> None:
    loaded = loaded_by(SMALL.format(cases=[{"scores": scores, "split": split}]), tmp_path)
    assert loaded.isdisjoint({"numba", "llvmlite", "sklearn", "pandas", "torch"})
    assert list(tmp_path.iterdir()) == []


def test_other_choices_on_small_problems_compile_nothing(tmp_path: Path) -> None:
    cases = [
        {"scores": ("thr", "rank"), "allow_empty": False},
        {"scores": ("thr", "rank"), "calibration": "class"},
        {"scores": ("thr", "rank"), "split": "efcp", "objective": "singletons"},
    ]
    assert "numba" not in loaded_by(SMALL.format(cases=cases), tmp_path)
