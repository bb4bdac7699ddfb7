"""Two versions of the library, case by case: ``python release/identity.py OLD [NEW]``.

Every case fits and predicts on bundled data through public names, in one process per version, and
is summed up as a digest of the bytes of its answers (sets, p-values, weights, thresholds), or as
the refusal. OLD and NEW are checkouts of this repository or revisions of it; NEW is this tree by
default. The new version answers twice: as it is, and with NumPy's exponential and logarithm, which
0.1.0 took and models saved by it keep. Cases that differ as it is are counted; those that still
differ with the old functions are listed with the reason for which they were changed, and one
without a reason fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

CASES = r"""
import hashlib, itertools, json, sys, tempfile, warnings
import numpy as np
warnings.simplefilter("ignore")
import conformix as cx

DATA = {}
for name in ("cifar10", "cifar100", "mmlu_llama13b"):
    data = cx.datasets.load(name)
    models = {m: np.asarray(v, dtype=np.float64)[:1200] for m, v in data.outputs.items()}
    DATA[name] = models, np.asarray(data.labels)[:1200]
SUBJECTS = np.asarray(cx.datasets.load("mmlu_llama13b").groups)[:1200]
WEIGHT = np.random.default_rng(5).uniform(0.2, 3.0, 1200)


def digest(*arrays):
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(str(array.dtype.kind).encode() + str(array.shape).encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def probabilities(logits):
    z = np.exp(logits - logits.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def rows(name, one=True, kind="logits"):
    models, y = DATA[name]
    chosen = dict([next(iter(models.items()))]) if one else models
    if kind == "probs":
        chosen = {m: probabilities(v) for m, v in chosen.items()}
    if one:
        chosen = next(iter(chosen.values()))
    return chosen, y


def part(outputs, a, b):
    if isinstance(outputs, dict):
        return {m: v[a:b] for m, v in outputs.items()}
    return outputs[a:b]


def answers(cp, new, **more):
    sets = cp.predict_set(new, **more)
    others = cp.predict_set(new, alpha=0.2, **more)
    pvalues = cp.predict_pvalues(new, **more)
    smooth = cp.predict_pvalues(new, smoothed=True, **more)
    return digest(np.asarray(sets), np.asarray(others), pvalues, smooth, cp.weights_)


def memory(name, one=True, kind="logits", n=700, **settings):
    outputs, y = rows(name, one, kind)
    more, new = {}, {}
    if settings.get("calibration") == "group" or type(settings.get("calibration")).__name__ == "PerGroup":
        more, new = {"strata": SUBJECTS[:n]}, {"strata": SUBJECTS[n:]}
    if settings.get("calibration") == "weighted":
        more, new = {"sample_weight": WEIGHT[:n]}, {"sample_weight": WEIGHT[n:]}
    if str(settings.get("split", "")).startswith("dlcp"):
        more["test"] = part(outputs, n, 1200)
    cp = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), "kind": kind, "random_state": 3, **settings})
    cp.fit(part(outputs, 0, n), y[:n], **more)
    return answers(cp, part(outputs, n, 1200), **new)


def saved(loader, **settings):
    outputs, y = rows("cifar10")
    cp = cx.ScoreAverage(**{"scores": ("thr", "aps", "rank"), "kind": "logits", "random_state": 3, **settings})
    cp.fit(outputs[:700], y[:700])
    with tempfile.TemporaryDirectory() as folder:
        cp.save(folder + "/model.json")
        again = loader(folder + "/model.json")
    return digest(np.asarray(again.predict_set(outputs[700:])), again.predict_pvalues(outputs[700:]))


def door(which):
    outputs, y = rows("cifar100", kind="probs")
    cp = cx.ScoreAverage(("thr", "aps", "rank"), random_state=3)
    if which == "mapped":
        with tempfile.TemporaryDirectory() as folder:
            np.save(folder + "/a.npy", outputs)
            mapped = np.load(folder + "/a.npy", mmap_mode="r")
            return answers(cp.fit(mapped[:700], y[:700]), mapped[700:])
    if which == "batches":
        cp.fit_batches(cx.stream.from_arrays(outputs[:700], y[:700], rows=90))
        return answers(cp, outputs[700:])
    if which == "iterator":
        cp.fit_batches((outputs[a:a + 90], y[a:a + 90]) for a in range(0, 700, 90))
        return answers(cp, outputs[700:])
    if which == "dask":
        import dask.array as da
        cp.fit(da.from_array(outputs[:700], chunks=(90, -1)), y[:700])
        made = np.asarray(cp.predict_set(da.from_array(outputs[700:], chunks=(77, -1))))
        return digest(made) + answers(cp, outputs[700:])
    if which == "torch":
        import torch
        own = torch.from_numpy(outputs)
        cp.fit(own[:700], torch.from_numpy(y[:700]))
        return digest(np.asarray(cp.predict_set(own[700:])), cp.predict_pvalues(own[700:]).numpy())
    if which in ("float32", "float16"):
        own = outputs.astype(which)
        return answers(cp.fit(own[:700], y[:700]), own[700:])
    if which == "top-k":
        order = np.argsort(-outputs, axis=1, kind="stable")[:, :10]
        some = cx.TopK(order, np.take_along_axis(outputs, order, axis=1), n_classes=100)
        return answers(cp.fit(some[:700], y[:700]), some[700:])


def estimator(which):
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    X, y = load_digits(return_X_y=True)
    X = X / 16
    if which == "online":
        outputs, labels = rows("cifar10", kind="probs")
        cp = cx.OnlineAverage(alpha=0.1, random_state=0)
        trace = cp.run(outputs[:300], labels[:300])
        found = [np.asarray(getattr(trace, name)) for name in ("sets", "errors", "levels", "weights")]
        return digest(*found)
    made = {
        "classifier": lambda: cx.ConformalClassifier(GaussianNB(), random_state=0),
        "two classifiers": lambda: cx.ConformalClassifier(
            [("nb", GaussianNB()), ("lr", LogisticRegression(max_iter=50))], random_state=0),
        "cross": lambda: cx.CrossConformalClassifier(GaussianNB(), cv=4, random_state=0),
    }[which]().fit(X[:900], y[:900])
    return digest(np.asarray(made.predict_set(X[900:])), made.predict_pvalues(X[900:]))


THREE = ("thr", "aps", "rank")
cases = {}
for name, split, scale in itertools.product(
        DATA, ("vfcp", "efcp", "dlcp", "dlcp+", "exact"), ("auto", "none", "scale", "ecdf")):
    cases[f"{name}, {split}, {scale}"] = lambda n=name, s=split, z=scale: memory(
        n, n != "cifar10", scores=THREE if n != "cifar10" else ("thr", "rank"), split=s, normalize=z,
        search="grid" if n != "cifar10" else "auto")
for calibration in ("class", "cluster", "group", "weighted", "rc3p"):
    for split in ("vfcp", "efcp", "dlcp"):
        cases[f"calibration {calibration}, {split}"] = lambda c=calibration, s=split: memory(
            "mmlu_llama13b", scores=THREE, calibration=c, split=s)
cases["calibration by hand"] = lambda: memory(
    "mmlu_llama13b", scores=THREE, calibration=cx.calibration.PerGroup("pooled", by_class=True))
cases["label shift"] = lambda: memory("mmlu_llama13b", scores=THREE,
    calibration=cx.calibration.LabelShift((0.5, 1.0, 1.5, 1.0)))
for which in ("mapped", "batches", "iterator", "dask", "torch", "float32", "float16", "top-k"):
    cases[f"door {which}"] = lambda w=which: door(w)
for name, one in itertools.product(DATA, (True, False)):
    for split in ("vfcp", "exact"):
        cases[f"auto, {name}, {'one model' if one else 'all models'}, {split}"] = (
            lambda n=name, o=one, s=split: memory(n, o, scores="auto", split=s))
for scores in (("raps", "saps", "margin"), ("logp", "logit", "logrank", "invrank"),
               ("thr", "maxprob", "entropy"), ("aps(randomized=True)", "thr"), ("thr", "thr(temperature=2)")):
    cases[f"scores {', '.join(scores)}"] = lambda s=scores: memory("cifar10", scores=s)
cases["one score"] = lambda: memory("cifar100", scores="thr")
for option in ({"allow_empty": False}, {"guarantee": "pac"}, {"weights": [0.2, 0.3, 0.5]},
               {"objective": "singletons"}, {"objective": "class_gap"}, {"search": "line"},
               {"search": "gradient"}, {"tune_alpha": 0.08}, {"alpha": 0.01}, {"alpha": 0.37}):
    for split in ("vfcp", "efcp"):
        cases[f"{option}, {split}"] = lambda o=option, s=split: memory("cifar10", scores=THREE, split=s, **o)
cases["shortlist"] = lambda: memory("cifar10", scores=THREE,
    split=cx.splits.Exact(shortlist=20), normalize="ecdf", search="line")
cases["probabilities"] = lambda: memory("cifar100", kind="probs", scores=THREE)
for split in ("vfcp", "efcp", "exact"):
    cases[f"saved and loaded, {split}"] = lambda s=split: saved(cx.load, split=s)
    cases[f"saved and served, {split}"] = lambda s=split: saved(cx.load_predictor, split=s)
for which in ("classifier", "two classifiers", "cross", "online"):
    cases[f"estimator {which}"] = lambda w=which: estimator(w)

results = {}
for name, case in cases.items():
    try:
        results[name] = case()
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
"""


def checkout(version: str, folder: str) -> Path:
    """Return a tree: a folder as it is, or a revision of this repository laid out in `folder`."""
    if Path(version).is_dir():
        return Path(version).resolve()
    place = Path(folder) / "tree"
    place.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", version], capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    return place


def answers(tree: Path, code: str = CASES) -> dict[str, str]:
    """Return what a version answers to every case."""
    environment = os.environ | {
        "PYTHONPATH": str(tree / "src"),
        "CONFORMIX_DATA": str(ROOT / "data"),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


OLD_FUNCTIONS = r"""
from conformix.data.outputs import Outputs
from conformix.fit.cross import CrossPredictor
from conformix.fit.predictor import Predictor
for made in (Outputs, Predictor, CrossPredictor):
    made.__init__.__defaults__ = tuple(
        "numpy" if isinstance(value, str) and value == "exact" else value
        for value in made.__init__.__defaults__)
"""
# Why answers differ from those of 0.1.0, by the beginning of a case; refusals differ in words only.
REASONS = {
    "cifar100, efcp, ecdf": "the ecdf has knots from at most 65,536 values per score",
    "cifar100, dlcp, ecdf": "the ecdf has knots from at most 65,536 values per score",
    "cifar100, dlcp+, ecdf": "the ecdf has knots from at most 65,536 values per score",
    "calibration weighted": "sums of weights are compared without rounding",
    "auto, ": "automatic scores learn what labels say about each other, from more rows",
    "one score": "nothing is chosen, so all rows calibrate",
    "estimator classifier": "automatic scores are the default",
    "estimator two classifiers": "automatic scores are the default",
}


def reason_for(case: str, was: str, now: str) -> str | None:
    """Return why a case was changed on purpose, or None."""
    if ":" in was and ":" in now and was.partition(":")[0] == now.partition(":")[0]:
        return "refused in other words"
    return next((why for start, why in REASONS.items() if case.startswith(start)), None)


def main() -> int:
    """Print the cases that differ, and how many do not; return 1 where one has no reason."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        old = answers(checkout(sys.argv[1], folder))
    with tempfile.TemporaryDirectory() as folder:
        tree = checkout(sys.argv[2] if len(sys.argv) > 2 else str(ROOT), folder)
        new, like_old = answers(tree), answers(tree, OLD_FUNCTIONS + CASES)
    unexplained = 0
    for name in (name for name in old if old[name] != like_old[name]):
        why = reason_for(name, old[name], like_old[name])
        unexplained += why is None
        print(f"{name}: {why or f'CHANGED, was {old[name]}, is {like_old[name]}'}")
    same, same_functions = (sum(old[n] == one[n] for n in old) for one in (new, like_old))
    print(
        f"{same} of {len(old)} cases identical; {same_functions} with the exponential and "
        f"logarithm of the old version; {unexplained} without a reason."
    )
    return int(unexplained > 0)


if __name__ == "__main__":
    raise SystemExit(main())
