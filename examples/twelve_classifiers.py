"""Twelve scikit-learn classifiers on three data sets: the promise is kept, whatever the model.

A run permutes the rows of a data set; half train and calibrate, half test. Given the rows, runs are
independent, and the law of the coverage is known: with ``n`` calibration rows, ``m`` test rows and
rank ``k = ceil((n+1)(1-alpha))`` the number of covered test rows is beta-binomial,

    covered ~ BetaBinomial(m, k, n + 1 - k),    mean m k / (n+1),    k / (n+1) >= 1 - alpha,

where scores do not tie; ties can only add. So ``z`` is the mean coverage less ``k / (n+1)``, over
its exact standard error: about standard normal without ties, and larger with them (trees tie a
lot). Below -4 the promise would be broken, which chance brings about once in 30,000 cells.

    python examples/twelve_classifiers.py --runs 50 --markdown
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import conformix as cx

ALPHA = 0.1
Z_LIMIT = 4.0
DATA = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def classifiers() -> dict[str, Any]:
    """Return the twelve, kept small: the promise does not depend on how good they are."""
    scaled = [StandardScaler()]
    return {
        "decision tree": DecisionTreeClassifier(max_depth=8, random_state=0),
        "random forest": RandomForestClassifier(30, random_state=0),
        "extra trees": ExtraTreesClassifier(30, random_state=0),
        "gradient boosting": GradientBoostingClassifier(
            n_estimators=8, max_depth=2, max_features=0.3, random_state=0
        ),
        "histogram boosting": HistGradientBoostingClassifier(
            max_iter=8, max_leaf_nodes=8, random_state=0
        ),
        "SVM, calibrated": make_pipeline(
            *scaled, CalibratedClassifierCV(SVC(), ensemble=False, cv=3)
        ),
        "naive Bayes": GaussianNB(var_smoothing=1e-3),
        "nearest neighbours": make_pipeline(*scaled, KNeighborsClassifier(10)),
        "neural network": make_pipeline(*scaled, MLPClassifier((30,), max_iter=40, random_state=0)),
        "linear discriminant": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
        "quadratic discriminant": make_pipeline(
            *scaled, PCA(3, random_state=0), QuadraticDiscriminantAnalysis(reg_param=0.3)
        ),
        "logistic regression": make_pipeline(*scaled, LogisticRegression(max_iter=300)),
    }


class Cell(NamedTuple):
    """What was measured for one classifier on one data set."""

    coverage: float
    promise: float
    z: float
    size: float


def one_run(model: Any, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[int, int, int, float]:
    """Return covered test rows, all test rows, calibration rows, and the mean size."""
    rows = np.random.default_rng(seed).permutation(len(y))
    fit, test = np.array_split(rows, 2)
    clf = cx.ConformalClassifier(
        clone(model),
        alpha=ALPHA,
        calibration_share=0.6,
        random_state=seed,
        threads=1,
        scores="paper",
    ).fit(X[fit], y[fit])
    sets = clf.predict_set(X[test])
    covered = cx.metrics.covered(sets, y[test])
    return int(covered.sum()), len(test), clf.conformal_.predictor_.fitted.n, sets.sizes.mean()


def measure(model: Any, X: np.ndarray, y: np.ndarray, runs: int) -> Cell:
    """Return coverage, promise, z and size over some runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        done = [one_run(model, X, y, seed) for seed in range(runs)]
    covered, m = (sum(run[i] for run in done) for i in (0, 1))
    laws = [beta_binomial(run[2], run[1]) for run in done]
    mean = sum(law[0] for law in laws)
    error = math.sqrt(sum(law[1] for law in laws))
    return Cell(covered / m, mean / m, (covered - mean) / error, sum(run[3] for run in done) / runs)


def beta_binomial(n: int, m: int) -> tuple[float, float]:
    """Return mean and variance of the number of covered rows among m, with n calibration rows."""
    k = cx.conformal_rank(n, ALPHA)
    a, b = k, n + 1 - k
    return m * a / (a + b), m * a * b * (a + b + m) / ((a + b) ** 2 * (a + b + 1))


def table(runs: int, data: Iterable[str] = DATA) -> dict[tuple[str, str], Cell]:
    """Return the cells by classifier and data set."""
    loaded = {name: DATA[name](return_X_y=True) for name in data}
    return {
        (model, name): measure(classifier, X, y, runs)
        for model, classifier in classifiers().items()
        for name, (X, y) in loaded.items()
    }


def show(cells: dict[tuple[str, str], Cell], runs: int, *, markdown: bool = False) -> str:
    """Return the table as text: coverage, z and mean size by data set."""
    models, names = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    head = ["classifier", *(f"{name}: coverage, z, size" for name in names)]
    lines = [
        [
            model,
            *(
                f"{c.coverage:.3f} {c.z:+.1f} {c.size:.2f}"
                for c in (cells[model, n] for n in names)
            ),
        ]
        for model in models
    ]
    if markdown:
        rows = [head, ["---", *["--:"] * len(names)], *lines]
        text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    else:
        text = "\n".join(
            f"{row[0]:<24}" + "".join(f"{c:>34}" for c in row[1:]) for row in [head, *lines]
        )
    promise = ", ".join(f"{n} {cells[models[0], n].promise:.4f}" for n in names)
    z = [cell.z for cell in cells.values()]
    return (
        f"{text}\n\nPromised at alpha = {ALPHA}: at least {1 - ALPHA}; k / (n+1): {promise}.\n"
        f"{runs} runs a cell; smallest z {min(z):+.2f} (limit -{Z_LIMIT:g}), largest {max(z):+.2f}."
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    cells = table(args.runs)
    print(show(cells, args.runs, markdown=args.markdown))
    if min(cell.z for cell in cells.values()) < -Z_LIMIT:
        raise SystemExit("a promise is broken")


if __name__ == "__main__":
    main()
