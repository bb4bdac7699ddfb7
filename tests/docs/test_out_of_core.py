"""The same job by two versions: what did not finish says why, and what did has its numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.measure import ROOT
from benchmarks.out_of_core import watched, write_case

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, absent here")


@linux
@pytest.mark.parametrize(
    ("seconds", "memory", "ended"),
    [
        (120.0, 8.0, "finished"),
        (0.0, 8.0, "not finished in 0 s"),
        (120.0, 0.001, "ended at 0.001 GB of memory"),
    ],
    ids=["done", "time", "memory"],
)
def test_a_job_that_is_ended_says_at_which_limit(
    seconds: float, memory: float, ended: str, tmp_path: Path
) -> None:
    write_case(tmp_path, 120, 30)
    row = watched(ROOT / "src", [str(tmp_path), "probs", "thr,aps", "40"], seconds, memory)
    assert row["ended"] == ended
    assert row["peak_gb"] >= 0
    if ended == "finished":
        assert row["predicted"] == 40
        assert row["mean_size"] > 0
        assert {"version", "fit_seconds", "fit_peak_gb", "predict_seconds"} <= set(row)


@linux
def test_a_job_that_fails_says_so(tmp_path: Path) -> None:
    write_case(tmp_path, 20, 5)
    row = watched(ROOT / "src", [str(tmp_path), "probs", "nonsense", "10"], 120, 8)
    assert row["ended"].startswith("failed: conformix.errors.InvalidInput")
