"""Real processes that save and load one model path at the same time.

Two writers save two models in turn, each both of them, so that one is always about to name arrays
that the other would remove; a reader loads all the while. A load is whole when the loaded model
predicts what one of the two models predicts.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import conformix as cx
from conformix.fit.saved import codec, load_predictor, write_model
from conformix.search import GridSearch

ROWS = np.random.default_rng(0).dirichlet(np.ones(4), size=60)
PROCESSES = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Outcome:
    """What some rounds came to.

    Parameters
    ----------
    saves, loads : int
        How many there were.
    broken : list of str
        What loads said that gave no whole model.
    left : int
        Files beside the model in the end: its arrays are one.
    seconds : float
        How long it took.
    """

    saves: int
    loads: int
    broken: list[str]
    left: int
    seconds: float


def two_models() -> list[cx.ScoreAverage]:
    """Return two fitted models that predict differently."""
    rng = np.random.default_rng(1)
    return [
        cx.ScoreAverage(alpha=0.2, search=GridSearch(2), random_state=seed, threads=1).fit(
            ROWS, rng.integers(4, size=len(ROWS))
        )
        for seed in range(2)
    ]


def answers(predictor: Any) -> bytes:
    """Return the p-values of a few rows, to the bit."""
    return predictor.predict_pvalues(ROWS[:5]).tobytes()


def save_in_turn(path: Path, models: list[cx.ScoreAverage], n: int, seed: int) -> None:
    """Save the models n times, in an order of its own."""
    order = random.Random(seed)
    with mock.patch.object(codec, "INLINE", 0):  # every array goes to the npz
        for _ in range(n):
            model = order.choice(models)
            write_model(model.get_params(), model.predictor_, path)


def load_once(path: Path, whole: set[bytes]) -> str | None:
    """Return what is wrong with the model that is there now, None where nothing is."""
    try:
        return None if answers(load_predictor(path)) in whole else "another model"
    except Exception as error:
        return repr(error)


def run_rounds(folder: Path, n: int) -> Outcome:
    """Let two writers save n times each while this process loads."""
    begun, models, path = time.perf_counter(), two_models(), folder / "model.json"
    whole = {answers(model.predictor_) for model in models}
    save_in_turn(path, models, 1, 0)
    writers = [
        PROCESSES.Process(target=save_in_turn, args=(path, models, n, seed)) for seed in (1, 2)
    ]
    for writer in writers:
        writer.start()
    loads, broken = 0, []
    while any(writer.is_alive() for writer in writers):
        said = load_once(path, whole)
        loads += 1
        broken += [] if said is None else [said]
    for writer in writers:
        writer.join()
        if writer.exitcode:
            broken.append(f"a writer ended with {writer.exitcode}")
    said = load_once(path, whole)
    broken += [] if said is None else [f"for good: {said}"]
    save_in_turn(path, models, 1, 3)
    left = len([p for p in folder.iterdir() if p != path and not p.name.startswith(".")])
    return Outcome(2 * n, loads, broken, left, time.perf_counter() - begun)


def run_kills(folder: Path, n: int) -> Outcome:
    """Kill a writer n times at a moment of chance while another one saves; load after each."""
    begun, models, path = time.perf_counter(), two_models(), folder / "model.json"
    whole = {answers(model.predictor_) for model in models}
    save_in_turn(path, models, 1, 0)
    chance, broken = random.Random(0), []
    for number in range(n):
        both = [
            PROCESSES.Process(target=save_in_turn, args=(path, models, 10**9, number + 7 * i))
            for i in range(2)
        ]
        for writer in both:
            writer.start()
        time.sleep(chance.uniform(0.005, 0.04))
        os.kill(both[0].pid, signal.SIGKILL)
        both[0].join()
        said = load_once(path, whole)
        broken += [] if said is None else [said]
        os.kill(both[1].pid, signal.SIGKILL)
        both[1].join()
        said = load_once(path, whole)
        broken += [] if said is None else [f"for good: {said}"]
    save_in_turn(path, models, 1, 3)
    left = len([p for p in folder.iterdir() if p != path and not p.name.startswith(".")])
    return Outcome(2 * n, 2 * n, broken, left, time.perf_counter() - begun)
