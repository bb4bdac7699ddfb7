"""Any sequence of fit, recalibrate, predict, save, load, clone and pickle, with failures between.

The machine remembers only which rows a model saw, in which order; what it should predict is worked
out afresh from that. Whatever fails (bad rows, a full disk, an interrupt in the middle of a write)
must leave the model and all files as they were.
"""

from __future__ import annotations

import copy
import errno
import os
import pickle
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.calibration import PerClass
from conformix.search import GridSearch

K = 4
NAMES = ("ant", "bee", "cow", "doe")
SETTINGS: list[dict[str, Any]] = [
    {"split": "vfcp"},
    {"split": "efcp", "allow_empty": False},
    {"split": "dlcp"},
    {"split": "exact"},
    {"normalize": "ecdf", "scores": ("logp", "aps(randomized=True)", "-entropy")},
    {"weights": [0.5, 0.25, 0.25], "guarantee": "pac", "delta": 0.2},
    {"calibration": PerClass(fallback="pooled")},
    {"search": [[1.0, 0.0, 0.0], [1.0, -0.5, 0.5]], "split": "efcp"},
]


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Eighths that sum to one, with ties everywhere, and their labels."""
    rng = np.random.default_rng(seed)
    probs = rng.multinomial(8, rng.dirichlet(np.ones(K)), size=n) / 8
    return probs, rng.integers(K, size=n)


BATCHES = [rows(0, 40), rows(1, 25), rows(2, 60)]
TEST = rows(3, 12)[0]
FILES = ("a.json", "b.json")


class State(NamedTuple):
    """All that should matter: settings, the batch of the fit, that of the last recalibration."""

    settings: int
    batch: int
    named: bool
    fresh: int | None = None


def unfitted(number: int) -> cx.ScoreAverage:
    options = {"alpha": 0.25, "search": GridSearch(3), "random_state": 5, "threads": 1}
    return cx.ScoreAverage(**{"scores": "paper"} | options | SETTINGS[number])


def labels(batch: int, named: bool) -> np.ndarray:
    y = BATCHES[batch][1]
    return np.array(NAMES)[y] if named else y


def fit(model: cx.ScoreAverage, state: State) -> cx.ScoreAverage:
    transductive = SETTINGS[state.settings].get("split") == "dlcp"
    return model.fit(
        BATCHES[state.batch][0],
        labels(state.batch, state.named),
        test=TEST if transductive else None,
        classes=NAMES if state.named else None,
    )


def answers(model: cx.ScoreAverage) -> tuple[Any, ...]:
    sets = model.predict_set(TEST)
    return (
        np.asarray(sets), sets.classes, np.asarray(model.predict_set(TEST, alpha=0.4)),
        model.predict_pvalues(TEST), model.predict_pvalues(TEST, smoothed=True),
        model.weights_, model.score_names_, str(model.guarantee_),
    )  # fmt: skip


@cache
def expected(state: State) -> tuple[Any, ...]:
    """Return the answers of a model made afresh."""
    model = fit(unfitted(state.settings), state._replace(fresh=None))
    if state.fresh is not None:
        model.recalibrate(BATCHES[state.fresh][0], labels(state.fresh, state.named))
    return answers(model)


def assert_same(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    for one, other in zip(found, wanted, strict=True):
        if isinstance(one, np.ndarray):
            assert_array_equal(one, other)
        else:
            assert one == other


class FullDisk:
    """A file that takes some bytes and then fails, as a disk without room or an interrupt does."""

    def __init__(self, file: IO[bytes], room: int, failure: BaseException) -> None:
        self.file, self.room, self.failure = file, room, failure

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *told: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> int:
        self.file.write(content[: self.room])
        raise self.failure


FAILURES = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
BAD_ROWS = [
    BATCHES[0][0][:, :2],
    BATCHES[0][0] * 2,
    np.full((40, K), np.nan),
    BATCHES[0][0][:0],
    None,
]


class Life(RuleBasedStateMachine):
    """Models and files, and what each should say."""

    models = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="life-"))
        self.known: list[tuple[cx.ScoreAverage, State]] = []
        self.saved: dict[str, State] = {}
        # Small enough for some arrays to go to an npz beside the JSON.
        self.inline = mock.patch("conformix.fit.saved.codec.INLINE", 20)
        self.inline.start()

    def teardown(self) -> None:
        self.inline.stop()
        shutil.rmtree(self.folder)

    def keep(self, model: cx.ScoreAverage, state: State) -> int:
        self.known.append((model, state))
        return len(self.known) - 1

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}

    @rule(
        target=models,
        number=st.integers(0, len(SETTINGS) - 1),
        batch=st.integers(0, len(BATCHES) - 1),
        named=st.booleans(),
    )
    def fit_a_new_one(self, number: int, batch: int, named: bool) -> int:
        state = State(number, batch, named)
        return self.keep(fit(unfitted(number), state), state)

    @rule(which=models, batch=st.integers(0, len(BATCHES) - 1))
    def fit_again(self, which: int, batch: int) -> None:
        model, state = self.known[which]
        fresh = state._replace(batch=batch, fresh=None)
        assert fit(model, fresh) is model
        self.known[which] = (model, fresh)

    @rule(which=models, batch=st.integers(0, len(BATCHES) - 1))
    def recalibrate(self, which: int, batch: int) -> None:
        model, state = self.known[which]
        if SETTINGS[state.settings].get("split") == "exact":
            with pytest.raises(cx.InvalidInput, match="no single weights"):
                model.recalibrate(*BATCHES[batch])
            return
        model.recalibrate(BATCHES[batch][0], labels(batch, state.named))
        self.known[which] = (model, state._replace(fresh=batch))

    @rule(which=models, bad=st.integers(0, len(BAD_ROWS) - 1), act=st.sampled_from(
        ["fit", "recalibrate", "predict_set", "predict_pvalues"]))  # fmt: skip
    def refuse_bad_rows(self, which: int, bad: int, act: str) -> None:
        model, state = self.known[which]
        y = (labels(0, state.named),) if act in ("fit", "recalibrate") else ()
        if act == "fit" and bad == 0:
            return  # another number of classes is fine in a new fit
        with pytest.raises(cx.InvalidInput):
            getattr(model, act)(BAD_ROWS[bad], *y)

    @rule(which=models, name=st.sampled_from(FILES))
    def save(self, which: int, name: str) -> None:
        model, state = self.known[which]
        model.save(self.folder / name)
        self.saved[name] = state

    @rule(
        which=models,
        name=st.sampled_from(FILES),
        room=st.integers(0, 3000),
        failure=st.sampled_from(FAILURES),
    )
    def fail_to_save(self, which: int, name: str, room: int, failure: BaseException) -> None:
        model, before = self.known[which][0], self.contents()
        opened = os.fdopen

        def full(handle: int, mode: str) -> FullDisk:
            return FullDisk(opened(handle, mode), room, failure)

        with (
            mock.patch("conformix.atomic.os.fdopen", full),
            pytest.raises(type(failure)),
        ):
            model.save(self.folder / name)
        assert self.contents() == before

    @rule(target=models, name=st.sampled_from(FILES))
    def load(self, name: str) -> int:
        if name not in self.saved:
            with pytest.raises(cx.InvalidInput, match="does not exist"):
                cx.load(self.folder / name)
            state = State(0, 0, False)
            return self.keep(fit(unfitted(0), state), state)
        return self.keep(cx.load(self.folder / name), self.saved[name])

    @rule(
        target=models,
        which=models,
        copied=st.sampled_from([copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]),
    )
    def copy_it(self, which: int, copied: Any) -> int:
        model, state = self.known[which]
        return self.keep(copied(model), state)

    @rule(target=models, which=models, batch=st.integers(0, len(BATCHES) - 1))
    def clone_and_fit(self, which: int, batch: int) -> int:
        sklearn = pytest.importorskip("sklearn.base")
        model, state = self.known[which]
        fresh = state._replace(batch=batch, fresh=None)
        clone = sklearn.clone(model)
        with pytest.raises(cx.NotFitted):
            clone.predict_set(TEST)
        return self.keep(fit(clone, fresh), fresh)

    @invariant()
    def every_model_says_what_a_fresh_one_would(self) -> None:
        for model, state in self.known:
            assert_same(answers(model), expected(state))

    @invariant()
    def every_file_loads_to_what_was_saved(self) -> None:
        for name, state in self.saved.items():
            assert_same(answers(cx.load(self.folder / name)), expected(state))
            served = cx.load_predictor(self.folder / name)
            assert_array_equal(served.predict_set(TEST), expected(state)[0])
        # One JSON per saved model, at most one npz beside each, and nothing else.
        found = {path.name for path in self.folder.iterdir()}
        beside = {name for name in found if name.endswith(".npz")}
        assert found - beside == set(self.saved)
        assert all(sum(b.startswith(f"{name}.") for b in beside) <= 1 for name in self.saved)
        assert len(beside) <= len(self.saved)


TestLifeOfAModel = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")(
    Life.TestCase
)
# Few lives in `make test`, many in `make assurance WHAT=fuzz`.
TestLifeOfAModel.settings = settings(
    max_examples=15 if settings().derandomize else 200, stateful_step_count=12
)
