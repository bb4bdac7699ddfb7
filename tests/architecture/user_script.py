"""A user's script on the public surface; ``mypy --strict`` must know the type of everything in it.

It also runs: types that are right about code that is wrong would help nobody.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import conformix as cx
from conformix.fit.predictor import Predictor
from conformix.guarantees import Ledger
from conformix.search import SearchResult

data = cx.datasets.load("cifar10")
logits, y = data.outputs["vgg16"][:1200], data.labels[:1200]
names = [f"class {k}" for k in range(10)]

# probabilities or logits in, sets out
cp = cx.ScoreAverage(("thr", "aps", "rank"), alpha=0.1, kind="logits", random_state=0)
assert_type(cp.fit(logits[:800], y[:800], classes=names), cx.ScoreAverage)
sets = cp.predict_set(logits[800:])
assert_type(sets, cx.PredictionSets)
nested = cp.predict_set(logits[800:], alpha=[0.05, 0.1])
assert_type(nested, cx.NestedSets)
assert_type(nested.at(0.05), cx.PredictionSets)
pvalues = cp.predict_pvalues(logits[800:], smoothed=True)
assert_type(pvalues, NDArray[np.floating[Any]])
assert_type(cp.weights_, NDArray[np.floating[Any]])
assert_type(cp.threshold_, float)
assert_type(cp.score_names_, tuple[str, ...])
assert_type(cp.guarantee_, Ledger)
assert_type(cp.search_, SearchResult | None)
assert_type(cp.held_out_size_, float | None)
assert_type(cp.check_drift(logits[800:], y[800:]).drifted, bool)
assert_type(cp.recalibrate(logits[800:], y[800:]), cx.ScoreAverage)

# the answer
assert_type(sets.labels(0), list[Any])
assert_type(sets.sizes, NDArray[np.integer[Any]])
assert_type(sets.shape, tuple[int, int])
assert_type(cx.metrics.coverage(sets, y[800:]), float)
assert_type(cx.metrics.evaluate(sets, y[800:]), dict[str, float])

# files
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder)
    cp.save(path / "model.json")
    assert_type(cx.load(path / "model.json"), cx.ScoreAverage)
    served = cx.load_predictor(path / "model.json")
    assert_type(served, Predictor)
    assert_type(served.predict_set(logits[800:]), cx.PredictionSets)
    sets.to_csv(path / "sets.csv", "long")

# around classifiers
X, labels = logits[:, :5], np.array(names)[y]
clf = cx.ConformalClassifier(
    [("nb", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=4))],
    scores=("thr",),
    alpha=0.2,
    random_state=0,
)
assert_type(clf.fit(X[:800], labels[:800]), cx.ConformalClassifier)
assert_type(clf.predict_set(X[800:]), cx.PredictionSets)
assert_type(clf.predict_set(X[800:], alpha=[0.1, 0.2]), cx.NestedSets)
assert_type(clf.guarantee_, Ledger)
assert_type(cx.small_sets_scorer(clf, X[800:]), float)

# the bare parts
scores = cx.score_tensor(logits, ("thr", "rank"), kind="logits")
assert_type(scores, NDArray[np.floating[Any]])
weights, sizes = cx.search.landscape(scores, y, alpha=0.1, resolution=10)
found = cx.search.search_weights(scores, y, alpha=0.1, search="grid", resolution=10)
assert_type(found, SearchResult)
assert_type(cx.conformal_rank(100, 0.1), int)
try:
    cx.ScoreAverage(alpha=2.0).fit(logits, y)
except cx.InvalidInput as error:
    assert_type(str(error), str)
