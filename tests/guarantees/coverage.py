"""The statistical acceptance suite: does coverage keep its promise, everywhere?

Every split x family of scores x data set, with enough repetitions to see half a percent. Within a
repetition calibration and test rows are a random part of one pool, so they are exchangeable and the
promise of an exact split holds for the pool itself: a shortfall is a bug, not a property of the
data. The verdict is Holm's over all cases (``make assurance WHAT=guarantees``).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

import conformix as cx

ALPHA, N_CAL, N_TEST, RESOLUTION = 0.05, 300, 1000, 10
LEVEL = 0.01  # probability that any case of a correct library is called wrong
ERROR = 0.005  # what must not go unnoticed

DATA: dict[str, list[str]] = {
    "cifar10": ["vgg16"],
    "cifar100": ["wideresnet_16_4"],
    "cifar100 (three models)": ["wideresnet_16_4", "densenet_bc_100", "lenet5"],
    "mmlu_llama13b": [],
    "banking77": ["logreg_word"],
    "cifar10_trio": ["resnet56"],
    "tinyimagenet_trio": ["repvgg_a2"],
    "vlm_mmbench": [],
}
FAMILIES: dict[str, tuple[str, ...]] = {
    "paper": ("thr", "aps", "rank"),
    "randomised": ("aps(randomized=True)", "saps(randomized=True)"),
    "penalised": ("raps", "saps", "margin"),
    "logarithms": ("logp", "logrank", "-entropy"),
    "temperatures": ("thr(temperature=0.5)", "thr(temperature=2)"),
    "auto": (),  # a blend that is learnt
}
SPLITS: dict[str, dict[str, Any]] = {
    "fixed": {},
    "vfcp": {"split": "vfcp"},
    "vfcp, never empty": {"split": "vfcp", "allow_empty": False, "normalize": "scale"},
    "exact": {"split": "exact"},
    "efcp": {"split": "efcp"},
    "dlcp": {"split": "dlcp"},
    "dlcp+": {"split": "dlcp+"},
}
EXACT = {"fixed", "vfcp", "vfcp, never empty", "exact"}
BLENDED = {"vfcp", "exact"}  # the splits of a blend


@dataclass(frozen=True)
class Case:
    """One cell of the suite."""

    data: str
    family: str
    split: str


def cases() -> Iterator[Case]:
    """Yield all cells; three models get few families, to keep the weights few."""
    for data, family, split in itertools.product(DATA, FAMILIES, SPLITS):
        few = "models" not in data or family in {"paper", "auto"}
        if few and (family != "auto" or split in BLENDED):
            yield Case(data, family, split)


def pool(data: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the outputs of the models of a case, and the labels."""
    loaded = cx.datasets.load(data.split(" ", maxsplit=1)[0])
    names = DATA[data] or list(loaded.outputs)[:1]
    return {name: np.asarray(loaded.outputs[name]) for name in names}, loaded.labels


def settings(case: Case, n_models: int) -> dict[str, Any]:
    """Return the settings of a case."""
    found: dict[str, Any] = dict(SPLITS[case.split])
    if case.family == "auto":
        return {"scores": "auto", **found}
    scores = FAMILIES[case.family]
    d = len(scores) * n_models
    if case.split == "fixed":
        found["weights"] = np.full(d, 1 / d)
    search = cx.search.GridSearch(RESOLUTION if d < 4 else 2)
    return {"scores": scores, "search": search, **found}


def coverages(case: Case, runs: int) -> np.ndarray:
    """Return the coverage on the test rows of every repetition."""
    outputs, y = pool(case.data)
    options = settings(case, len(outputs))
    found = np.empty(runs)
    for run in range(runs):
        rows = np.random.default_rng([run, 7]).permutation(len(y))[: N_CAL + N_TEST]
        cal, test = rows[:N_CAL], rows[N_CAL:]
        fresh = {name: values[test] for name, values in outputs.items()}
        cp = cx.ScoreAverage(
            alpha=ALPHA,
            kind="logits",
            random_state=run,
            threads=1,
            **{"scores": "paper", **options},
        )
        cp.fit(
            {name: values[cal] for name, values in outputs.items()}, y[cal],
            test=fresh if case.split.startswith("dlcp") else None,
        )  # fmt: skip
        sets = np.asarray(cp.predict_set(fresh))
        found[run] = sets[np.arange(N_TEST), y[test]].mean()
    return found


def judge(case: Case, runs: int) -> dict[str, Any]:
    """Return the row of one case: mean coverage, its standard error, the promise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = coverages(case, runs)
    error = found.std(ddof=1) / np.sqrt(runs)
    return {
        "data": case.data, "family": case.family, "split": case.split, "runs": runs,
        "coverage": found.mean(), "error": error, "z": (found.mean() - (1 - ALPHA)) / error,
        "promised": case.split in EXACT,
    }  # fmt: skip


def verdict(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the promised cases whose shortfall is significant, by Holm's procedure."""
    promised = sorted((row for row in rows if row["promised"]), key=lambda row: row["z"])
    guilty = []
    for i, row in enumerate(promised):
        if norm.cdf(row["z"]) > LEVEL / (len(promised) - i):
            break
        guilty.append(row)
    return guilty


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the cases as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        for row in rows:
            rounded = {name: round(float(row[name]), 5) for name in ("coverage", "error", "z")}
            table.writerow(row | rounded)


def main() -> int:
    """Print all cases and the verdict; exit 1 where a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m guarantees.coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--csv", type=Path, help="also write the cases to this file")
    options = parser.parse_args()
    start = time.perf_counter()
    listed = list(cases())
    rows = Parallel(n_jobs=-1)(delayed(judge)(case, options.runs) for case in listed)
    print(f"{'data':26}{'scores':14}{'split':19}{'coverage':>9}{'s.e.':>8}{'z':>7}")
    for row in rows:
        told = "" if row["promised"] else "  (approximate)"
        print(
            f"{row['data']:26}{row['family']:14}{row['split']:19}"
            f"{row['coverage']:9.4f}{row['error']:8.4f}{row['z']:7.2f}{told}"
        )
    if options.csv:
        write(options.csv, rows)
    promised = [row for row in rows if row["promised"]]
    cut = norm.isf(LEVEL / len(promised))
    power = min(norm.cdf(ERROR / row["error"] - cut) for row in promised)
    guilty = verdict(rows)
    print(
        f"\n{len(promised)} cases with an exact promise, {len(rows) - len(promised)} approximate; "
        f"{time.perf_counter() - start:.0f} s\n"
        f"smallest z {min(row['z'] for row in promised):.2f}; Holm at {LEVEL:g}: "
        f"{len(guilty)} broken promises\n"
        f"a shortfall of {ERROR:g} in one case would be seen with probability {power:.3f} or more"
    )
    return int(bool(guilty))


if __name__ == "__main__":
    raise SystemExit(main())
