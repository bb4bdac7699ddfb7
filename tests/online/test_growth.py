"""Nothing grows with a stream, and DtACI does what was published of it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from benchmarks.streams import ALPHA, Published, drifting_rows, flat, played
from conformix.online import ACI, Betting, DtACI, Monitor


@pytest.mark.parametrize(
    "options",
    [
        {"control": "aci", "adapt": "leader"},
        {"control": "dtaci", "adapt": "fading", "scores": ("thr", "likeness")},
        {"control": "betting", "adapt": None, "alpha": (0.1, 0.2)},
    ],
    ids=str,
)
def test_nothing_that_a_stream_holds_grows(options) -> None:
    """The long form is ``python -m benchmarks.streams flat --rows 1000000``."""
    settings = {"scores": "thr", "alpha": 0.1, "window": 5, "candidates": 2, "max_pending": 9}
    online = cx.OnlineAverage(**settings | options)
    bytes_held = []
    for t, (row, label) in enumerate(drifting_rows(420, n_classes=4)):
        online.predict_set(row, ticket=t)  # the labels of every third row never come
        if t % 3:
            online.update(label, ticket=t)
        if t in (130, 260, 390):
            bytes_held.append(len(pickle.dumps(online)))
    assert max(bytes_held) - min(bytes_held) < 300  # numbers of more digits


def test_a_monitor_holds_no_more_of_a_longer_stream(tmp_path: Path, monkeypatch) -> None:
    from conformix.online import monitor

    monkeypatch.setattr(monitor, "STRETCHES", 10)
    bytes_held = []
    for n in (60, 240):
        online = cx.OnlineAverage("thr", window=5).record(tmp_path / str(n))
        for row, label in drifting_rows(n, n_classes=4):
            online.predict_set(row)
            online.update(label)
        online.close()
        watched = Monitor(tmp_path / str(n))
        watched.read()
        bytes_held.append(len(pickle.dumps([watched._stretches, watched.alarm, watched._waiting])))
    assert bytes_held[1] - bytes_held[0] < 300


@pytest.mark.parametrize("responses", [False, True])
def test_the_benchmark_tells_time_and_memory_of_every_part(tmp_path: Path, responses) -> None:
    told = flat(60, tmp_path / "log", parts=3, responses=responses)
    assert [row["rows"] for row in told] == [20, 40, 60]
    assert all(abs(row["share_of_errors"] - ALPHA) <= row["bound"] for row in told)
    assert told[-1]["memory_mb"] > 0


@pytest.mark.parametrize("drift", [False, True])
def test_dtaci_is_near_the_best_step_whichever_that_is(drift: bool) -> None:
    """Pinball loss over 3,000 p-values beside that of single steps, and of the published rule."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    if drift:
        p[1000:2000] **= 4  # rows that fit worse: many small p-values
    pvalues = p[:, None]
    steps = {gamma: played(ACI(gamma).start(ALPHA), pvalues, p) for gamma in (0.001, 0.008, 0.064)}
    losses = {gamma: one["loss"] for gamma, one in steps.items()}
    best, worst = min(losses.values()), max(losses.values())
    assert min(losses, key=losses.get) == (0.008 if drift else 0.001)
    own = played(DtACI().start(ALPHA), pvalues, p)
    published = played(Published(0), pvalues, p)
    assert own["loss"] - best < 0.1 * (worst - best)
    assert own["loss"] <= published["loss"]  # the loss is convex: a mean costs less than a draw
    assert abs(own["coverage"] - 0.9) < 0.015
    if drift:
        assert own["loss"] < played(Betting().start(ALPHA), pvalues, p)["loss"]


def test_dtaci_has_less_regret_than_as_published_over_several_seeds() -> None:
    """With drift and without; regret is the loss beyond that of the best of three steps."""
    for drift in (False, True):
        regrets = []
        for seed in range(1, 5):
            p = np.random.default_rng(seed).uniform(size=1200)
            if drift:
                p[400:800] **= 4
            found = {
                name: played(one, p[:, None], p)["loss"]
                for name, one in {
                    **{f"step {gamma}": ACI(gamma).start(ALPHA) for gamma in (0.001, 0.008, 0.064)},
                    "ours": DtACI().start(ALPHA), "published": Published(seed),
                }.items()
            }  # fmt: skip
            best = min(loss for name, loss in found.items() if "step" in name)
            worst = max(loss for name, loss in found.items() if "step" in name)
            regrets.append([found["ours"] - best, found["published"] - best, worst - best])
        ours, published, largest = np.mean(regrets, axis=0)
        assert ours < published
        assert ours < 0.25 * largest
