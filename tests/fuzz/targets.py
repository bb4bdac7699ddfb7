"""What is fuzzed: every reader of files, and the loader of saved models with a prediction.

A file is read, or refused in one sentence of ours. Anything else that comes out is a crash.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import conformix as cx
from conformix.data.files import Limits, Sources
from conformix.estimators.cross import CrossAverage, Fold
from conformix.search import GridSearch

PROBS = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.0, 1.0], [0.25, 0.5, 0.25]])
LABELS = np.array([0, 1, 2, 1])
NAMES = ("cat", "dog", "emu")
# What one file may ask for, and how long a sentence may be.
MEMORY = 2**24
LONGEST_SENTENCE = 600
# Classes of a damaged model up to which a row is predicted with it.
MOST_CLASSES = 1000


class Crash(Exception):
    """Something other than a good answer or a good refusal."""


@dataclass(frozen=True)
class Target:
    """One kind of file.

    Parameters
    ----------
    name : str
        For the shell and for the folder of regressions.
    ending : str
        Of the file.
    seeds : function
        Returns small files that are fine.
    use : function of a path
        Reads the file as a user would.
    """

    name: str
    ending: str
    seeds: Callable[[], list[bytes]]
    use: Callable[[Path], object]

    def judge(self, content: bytes, folder: Path) -> str | None:
        """Return the sentence with which a file is refused, None where it is read."""
        path = folder / f"fuzzed{self.ending}"
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.use(path)
        except cx.InvalidInput as error:
            said = str(error)
            if "\n" in said or len(said) > LONGEST_SENTENCE + len(str(path)):
                raise Crash(f"not one short sentence: {said!r}") from error
            return said
        return None


def read_rows(path: Path) -> object:
    """Read outputs, and labels where there are any."""
    source = Sources(str(path), limits=Limits(MEMORY))
    return source.read(labelled=path.suffix != ".npy")


def predict_with(path: Path) -> object:
    """Load a model and predict the most even row with it."""
    model = cx.load(path)
    predictor = model.predictor_
    k = predictor.n_classes
    if k > MOST_CLASSES or len(predictor.models) > 3:
        return model
    row = np.full((1, k), 1 / k)
    rows = row if "" in predictor.models else dict.fromkeys(predictor.models, row)
    sets = model.predict_set(rows)
    return sets, model.predict_pvalues(rows), repr(model.guarantee_)


def _saved(write: Callable[[Any], object]) -> bytes:
    held = io.BytesIO()
    write(held)
    return held.getvalue()


def csv_seeds() -> list[bytes]:
    """Tables with names, with integers, quoted, and without labels."""
    rows = [",".join(map(str, row)) for row in PROBS.tolist()]
    named = [f"{row},{NAMES[label]}" for row, label in zip(rows, LABELS, strict=True)]
    return [
        "\n".join(["cat,dog,emu,label", *named]).encode(),
        "\r\n".join(['"0","1","2"', *rows]).encode() + b"\r\n",
        ("\ufeff" + "\n".join(["a,b,c", *rows])).encode(),
    ]


def npy_seeds() -> list[bytes]:
    """Two widths of numbers, and columns first."""
    arrays = (PROBS, PROBS.astype(np.float32), np.asfortranarray(PROBS), LABELS)
    return [_saved(lambda file, a=a: np.save(file, a)) for a in arrays]


def npz_seeds() -> list[bytes]:
    """One model; two with class names, compressed."""
    two = {"a": PROBS, "b": PROBS, "labels": LABELS, "class_names": np.array(NAMES)}
    return [
        _saved(lambda file: np.savez(file, labels=LABELS, model=PROBS)),
        _saved(lambda file: np.savez_compressed(file, **two)),
    ]


def parquet_seeds() -> list[bytes]:
    """Numbers and text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: PROBS[:, i] for i, name in enumerate(NAMES)}
    tables = [columns | {"label": LABELS}, columns | {"label": [NAMES[i] for i in LABELS]}]
    return [_saved(lambda file, t=t: pq.write_table(pa.table(t), file)) for t in tables]


def pt_seeds() -> list[bytes]:
    """One tensor, and tensors by name."""
    import torch

    held = {"labels": torch.tensor(LABELS), "m": torch.tensor(PROBS)}
    return [_saved(lambda file, h=h: torch.save(h, file)) for h in (held["m"], held)]


RECIPES: list[dict[str, Any]] = [
    {"split": "efcp"},
    {"normalize": "ecdf", "scores": ("logp", "raps(randomized=True)")},
    {"calibration": "class", "allow_empty": False},
    {"split": "exact"},
    {"weights": [0.5, 0.25, 0.25], "guarantee": "pac", "delta": 0.5},
]


@cache
def saved_models(inline: int) -> list[tuple[bytes, bytes]]:
    """Return small models as JSON and npz; arrays above `inline` numbers go to the npz."""
    rng = np.random.default_rng(0)
    probs, found = rng.dirichlet(np.ones(3), size=24), []
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("conformix.fit.saved.codec.INLINE", inline),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        path = Path(folder) / "m.json"
        for recipe in RECIPES:
            options = {"alpha": 0.3, "search": GridSearch(2), "random_state": 0} | recipe
            model = cx.ScoreAverage(**{"scores": "paper", **options}).fit(
                probs, rng.integers(3, size=24)
            )
            model.save(path)
            beside = next(iter(Path(folder).glob("*.npz")), None)
            found.append((path.read_bytes(), beside.read_bytes() if beside else b""))
    return found


def model_seeds() -> list[bytes]:
    """Models of one file."""
    return [document for document, _ in saved_models(10**6)]


def arrays_seeds() -> list[bytes]:
    """The npz of models whose arrays stand beside them."""
    return [arrays for _, arrays in saved_models(4) if arrays]


def predict_with_arrays(path: Path) -> object:
    """Load the models of two files with this npz, whose digest is made to fit; one may fit."""
    content, loaded = path.read_bytes(), []
    model, refusal = path.with_name("m.json"), cx.InvalidInput("no model has arrays")
    path.with_name("m.json.0.npz").write_bytes(content)
    for text, arrays in saved_models(4):
        if arrays:
            digest = hashlib.sha256(content).hexdigest()
            document = json.loads(text) | {"npz": "m.json.0.npz", "npz_sha256": digest}
            model.write_text(json.dumps(document))
            try:
                loaded.append(predict_with(model))
            except cx.InvalidInput as error:
                refusal = error
    if not loaded:
        raise refusal
    return loaded


def saved_alone(model: Any) -> bytes:
    """Return the one file of a model."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("conformix.fit.saved.codec.INLINE", 10**6),
    ):
        path = Path(folder) / "m.json"
        model.save(path)
        return path.read_bytes()


@cache
def cross_seeds() -> list[bytes]:
    """Rules of folds: fixed weights, and thresholds by class."""
    rng = np.random.default_rng(0)
    folds = [Fold(rng.dirichlet(np.ones(3), size=8), rng.integers(3, size=8)) for _ in range(3)]
    recipes: list[dict[str, Any]] = [{}, {"calibration": "class", "scores": "thr"}]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for recipe in recipes:
            settings: dict[str, Any] = {"scores": ("thr", "rank"), "alpha": 0.3, **recipe}
            weights = [1.0] if settings["scores"] == "thr" else [0.5, 0.5]
            cross = CrossAverage(**settings, weights=weights, normalize="none")
            found.append(saved_alone(cross.fit(folds)))
    return found


def predict_with_folds(path: Path) -> object:
    """Load rules of folds and predict the most even row with them."""
    cross = CrossAverage.load(path)
    predictor = cross.predictor_
    k = predictor.n_classes
    if k > MOST_CLASSES or set(predictor.models) != {""}:
        return cross
    rows = [np.full((1, k), 1 / k)] * len(predictor.folds)
    return cross.predict_set(rows), cross.predict_pvalues(rows), repr(cross.guarantee_)


@cache
def stream_seeds() -> list[bytes]:
    """Streams under two controllers."""
    found = []
    for control in ("aci", "dtaci"):
        online = cx.OnlineAverage(("thr", "rank"), alpha=0.4, control=control, random_state=0)
        online.run(PROBS, LABELS)
        found.append(saved_alone(online))
    return found


def go_on_with(path: Path) -> object:
    """Load a stream and go on with it."""
    online = cx.OnlineAverage.load(path)
    sets = online.predict_set(PROBS[0])
    online.update(0)
    return sets, repr(online.guarantee_)


@cache
def response_stream_seeds() -> list[bytes]:
    """Streams of responses under two controllers, with rows that wait."""
    rng = np.random.default_rng(0)
    told = cx.Regressed(mean=rng.normal(size=30), sigma=rng.uniform(0.5, 2, size=30))
    found = []
    for control in ("aci", "dtaci"):
        online = cx.OnlineRegression(alpha=0.4, control=control, window=12, y_range=(-20, 20))
        online.run(told, rng.normal(size=30))
        online.predict_interval(told[0], ticket=1)
        found.append(saved_alone(online))
    return found


def go_on_with_responses(path: Path) -> object:
    """Load a stream of responses and go on with it."""
    online = cx.OnlineRegression.load(path)
    interval = online.predict_interval(cx.Regressed(mean=np.zeros(1), sigma=np.ones(1)))
    online.update(0.5)
    return interval, repr(online.guarantee_)


@cache
def interval_seeds() -> list[bytes]:
    """Averages on the real line: a rule, bins of difficulty, and the exact split."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    told = cx.Regressed(mean=y + rng.normal(size=40), sigma=rng.uniform(0.5, 2, size=40))
    recipes: list[dict[str, Any]] = [{}, {"calibration": "bins", "alpha": 0.4}, {"split": "exact"}]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for recipe in recipes:
            settings: dict[str, Any] = {"alpha": 0.3, "random_state": 0, **recipe}
            found.append(saved_alone(cx.RegressionAverage(**settings).fit(told, y)))
    return found


def interval_with(path: Path) -> object:
    """Load an average on the real line and predict a row with it."""
    model: Any = cx.load(path)
    row = cx.Regressed(mean=np.zeros(1), sigma=np.ones(1))
    interval = model.predict_interval(row)
    assert not np.isnan(interval.lower).any()
    return interval, repr(model.guarantee_)


TARGETS = {
    target.name: target
    for target in (
        Target("csv", ".csv", csv_seeds, read_rows),
        Target("npy", ".npy", npy_seeds, read_rows),
        Target("npz", ".npz", npz_seeds, read_rows),
        Target("parquet", ".parquet", parquet_seeds, read_rows),
        Target("pt", ".pt", pt_seeds, read_rows),
        Target("model", ".json", model_seeds, predict_with),
        Target("arrays", ".npz", arrays_seeds, predict_with_arrays),
        Target("folds", ".json", cross_seeds, predict_with_folds),
        Target("stream", ".json", stream_seeds, go_on_with),
        Target("responses", ".json", response_stream_seeds, go_on_with_responses),
        Target("intervals", ".json", interval_seeds, interval_with),
    )
}
