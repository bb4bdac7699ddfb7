"""Write the golden files of the current schema: ``python tests/fit/golden/write.py``.

A golden file is a model saved by one version of the schema, with the sets and p-values that it gave
then. Files of earlier schemas are never written again: that today's code still reads them, and
answers the same, is what the test is about. Run this once when ``storage.migrations.SCHEMA`` rises.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import conformix as cx
from conformix.estimators.cross import Fold
from conformix.fit.saved.migrations import SCHEMA
from conformix.search import GridSearch, LabelCosts
from conformix.splits import ValidityFirst

HERE = Path(__file__).parent
SMALL = GridSearch(4)
RECIPES = {
    "vfcp": {"normalize": "none"},
    "vfcp_ecdf": {"normalize": "ecdf", "split": ValidityFirst(share=0.4)},
    "efcp_scale": {"split": "efcp", "normalize": "scale", "scores": ("logp", "margin", "-entropy")},
    "exact": {"split": "exact"},
    "exact_by_class": {"split": "exact", "calibration": "class", "alpha": 0.3},
    "two_models": {"models": ("first", "second"), "scores": ("thr", "rank")},
    "some_scores_of_two": {
        "models": ("first", "second"),
        "scores": ("first.thr", "second.rank", "second.thr"),
        "split": "efcp",
    },
    "temperatures": {"scores": ("thr(temperature=0.5)", "thr(temperature=2)", "rank")},
    "randomised": {"scores": ("raps(randomized=True, penalty=0.01)", "aps(randomized=True)")},
    "fixed_weights": {"weights": [0.5, 0.25, 0.25]},
    "non_empty": {"allow_empty": False},
    "exact_non_empty": {"allow_empty": False, "split": "exact", "alpha": 0.4},
    "pac": {"guarantee": "pac", "delta": 0.2, "alpha": 0.3},
    "by_class": {"calibration": "class", "alpha": 0.3, "split": "efcp"},
    "by_cluster": {"calibration": "cluster", "alpha": 0.3},
    "class_names": {"classes": ["cat", "dog", "elk", "fox", "gnu", "hen"]},
    "auto": {"scores": "auto", "models": ("first", "second"), "search": "auto"},
    "label_costs": {"objective": LabelCosts((1, 2, 1, 1, 3, 1)), "split": "efcp"},
    "rc3p": {"calibration": "rc3p", "alpha": 0.3},
    "logits": {"kind": "logits", "scores": ("logit", "thr", "energy")},
}


def inputs() -> dict[str, np.ndarray]:
    """Return the outputs and labels that the golden models were fitted and asked on."""
    with np.load(HERE / "inputs.npz") as file:
        return {name: file[name] for name in file.files}


def outputs_of(recipe: dict, given: dict[str, np.ndarray], part: str):
    """Return what a recipe's model takes: an array of its kind, or several by name."""
    if "models" in recipe:
        return {name: given[f"{name}_{part}"] for name in recipe["models"]}
    return given[f"logits_{part}" if recipe.get("kind") == "logits" else f"first_{part}"]


def sets_out(sets) -> list[str]:
    """Return sets as text that a person can compare: one 0 or 1 per class."""
    return ["".join("01"[int(value)] for value in row) for row in np.asarray(sets)]


def ranks_out(pvalues: np.ndarray, n: int) -> list[str]:
    """Return p-values as their integer numerators over n + 1, one line per row."""
    return [" ".join(str(round(value * (n + 1))) for value in row) for row in pvalues]


FOLDS: dict[str, dict] = {
    "folds": {"weights": [0.5, 0.25, 0.25]},
    "folds_by_class": {"calibration": "class", "weights": [0.5, 0.25, 0.25]},
}


def folds_of(given: dict[str, np.ndarray]) -> list[Fold]:
    """Return the calibration rows in three folds."""
    places = np.arange(len(given["y_cal"])) % 3
    return [Fold(given["first_cal"][places == i], given["y_cal"][places == i]) for i in range(3)]


def write_folds() -> None:
    """Write the files of folds, which came with schema 3."""
    folder, given, expected = HERE / f"folds{SCHEMA}", inputs(), {}
    folder.mkdir()
    for name, recipe in FOLDS.items():
        cross = cx.CrossAverage("paper", alpha=0.3, normalize="none", **recipe)
        cross.fit(folds_of(given)).save(folder / f"{name}.json")
        new = [given["first_test"]] * 3
        expected[name] = {
            "sets": sets_out(cross.predict_set(new)),
            "pvalues": cross.predict_pvalues(new).tolist(),
            "guarantee": cross.guarantee_.kind,
        }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1), encoding="utf-8")


def main() -> None:
    folder = HERE / f"schema{SCHEMA}"
    if (folder / "expected.json").exists():
        sys.exit(f"{folder.name} exists; golden files are written once per schema.")
    folder.mkdir(exist_ok=True)
    given, expected = inputs(), {}
    for name, recipe in RECIPES.items():
        options = {"alpha": 0.2, "search": SMALL, "random_state": 5, "threads": 1} | recipe
        options.pop("models", None)
        names = options.pop("classes", None)
        model = cx.ScoreAverage(**{"scores": "paper", **options}).fit(
            outputs_of(recipe, given, "cal"), given["y_cal"], classes=names
        )
        model.save(folder / f"{name}.json")
        new = outputs_of(recipe, given, "test")
        expected[name] = {
            "sets": sets_out(model.predict_set(new)),
            "ranks": ranks_out(model.predict_pvalues(new), model.predictor_.fitted.n),
            "guarantee": model.guarantee_.kind,
        }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1), encoding="utf-8")
    write_folds()


if __name__ == "__main__":
    main()
