"""Searches for many scores: against the exact grid at d = 3, against random weights at d = 20.

``python benchmarks/many_scores.py`` writes every row to ``benchmarks/results/many_scores.jsonl``
and prints the tables; ``--only three`` or ``--only twenty`` runs a half, ``--seeds 2`` runs fewer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conformix as cx
from benchmarks.measure import ROOT, surroundings
from conformix.conformal import conformal_rank
from conformix.search import GradientSearch, GridSearch, LineSearch, SizeObjective

ALPHAS = (0.01, 0.05, 0.1)
THREE = ("thr", "aps", "rank")
TEN = (
    "thr", "aps", "rank", "logp", "logrank", "invrank", "margin", "raps", "saps", "-entropy",
)  # fmt: skip
STRATEGIES = {"line": LineSearch(), "gradient": GradientSearch()}
RANDOM = 50_000
TWENTY_ROWS = 2_000
# Dirichlet parameters of the random weights: even over the simplex, and near its corners.
CONCENTRATIONS = {"even": 1.0, "sparse": 0.1}
PIECE = 5_000


def objective(name: str, scores, n_models: int, *, scale: str, alpha: float, seed: int, n=None):
    """Return the sizes on a random half of a data set, as VFCP tunes on it, or on n rows."""
    data = cx.datasets.load(name)
    n = len(data.labels) // 2 if n is None else n
    rows = np.sort(np.random.default_rng(seed).permutation(len(data.labels))[:n])
    models = list(data.outputs)[:n_models]
    outputs = {model: data.outputs[model][rows] for model in models}
    tensor = cx.score_tensor(outputs, scores, kind=data.kind)
    if scale == "ecdf":
        tensor = cx.normalize.Ecdf().fit(tensor, ())(tensor)
    true = tensor[np.arange(n), data.labels[rows]]
    return SizeObjective(true, [tensor], conformal_rank(n, alpha))


def timed(call):
    """Return what `call` returns, and its seconds."""
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def three(seeds: int, write) -> None:
    """Compare with the exact grid of resolution 100, on every data set."""
    rows = []
    cases = itertools.product(range(seeds), ("ecdf", "none"), cx.datasets.names(), ALPHAS)
    for seed, scale, name, alpha in cases:
        sizes = objective(name, THREE, 1, scale=scale, alpha=alpha, seed=seed)
        best, seconds = timed(lambda o=sizes: GridSearch(100)(o))
        told = {
            "case": "d=3", "data": name, "scale": scale, "alpha": alpha, "seed": seed,
            "n": sizes.n_size, "grid": best.size, "grid_s": round(seconds, 4),
        }  # fmt: skip
        for strategy, search in STRATEGIES.items():
            found, seconds = timed(lambda s=search, o=sizes, i=seed: s(o, np.random.default_rng(i)))
            told |= {
                strategy: found.size,
                f"{strategy}_s": round(seconds, 4),
                f"{strategy}_ratio": round(found.count / max(best.count, 1), 6),
            }
        rows.append(told)
        write(told)
    for name, scale in itertools.product(cx.datasets.names(), ("ecdf", "none")):
        mine = [r for r in rows if (r["data"], r["scale"]) == (name, scale)]
        worst = {s: max(r[f"{s}_ratio"] for r in mine) for s in STRATEGIES}
        cells = "  ".join(f"{s} {ratio:.4f}" for s, ratio in worst.items())
        print(f"{name:<18} {scale:<5} {len(mine):>3} cases, worst ratio: {cells}", flush=True)
    for s in STRATEGIES:
        ratios = np.array([r[f"{s}_ratio"] for r in rows])
        print(
            f"= {s}: worst ratio {ratios.max():.4f}, mean {ratios.mean():.4f}, "
            f"below the grid in {(ratios < 1).mean():.0%} of {len(ratios)} cases"
        )


def twenty(seeds: int, write) -> None:
    """Compare with the best of many random weights: two models, ten scores each."""
    for name, scale in (("cifar100", "ecdf"), ("cifar100", "none")):
        for alpha in ALPHAS:
            sizes = objective(name, TEN, 2, scale=scale, alpha=alpha, seed=0, n=TWENTY_ROWS)
            told = {"case": "d=20", "data": name, "scale": scale, "alpha": alpha, "n": sizes.n_size}
            for kind, concentration in CONCENTRATIONS.items():
                best, seconds = timed(lambda c=concentration, o=sizes: best_random(o, c))
                told |= {f"random_{kind}": best, f"random_{kind}_s": round(seconds, 2)}
            for strategy, search in STRATEGIES.items():
                found = [
                    timed(lambda s=search, o=sizes, i=seed: s(o, np.random.default_rng(i)))
                    for seed in range(seeds)
                ]
                told |= {
                    strategy: max(f.size for f, _ in found),
                    f"{strategy}_s": round(max(seconds for _, seconds in found), 2),
                    f"{strategy}_evaluated": max(f.n_evaluated for f, _ in found),
                }
            write(told)
            cells = "  ".join(
                f"{key} {told[key]:.4f} in {told[key + '_s']:.1f} s"
                for key in ("random_even", "random_sparse", *STRATEGIES)
            )
            print(f"{name} {scale} alpha {alpha}, worst of {seeds} seeds: {cells}", flush=True)


def best_random(sizes: SizeObjective, concentration: float) -> float:
    """Return the smallest size among the random weights."""
    rng = np.random.default_rng(0)
    best = np.inf
    for _ in range(RANDOM // PIECE):
        weights = rng.dirichlet(np.full(sizes.d, concentration), size=PIECE)
        best = min(best, sizes.smallest(weights, weights)[1] / sizes.n_size)
    return float(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("three", "twenty"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/many_scores.jsonl")
    args = parser.parse_args()
    fixed = surroundings()
    kept = []
    if args.only and args.out.exists():  # the other half stays as it was
        other = {"three": "d=20", "twenty": "d=3"}[args.only]
        lines = args.out.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["case"] == other]
    args.out.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def write(row: dict) -> None:
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | fixed) + "\n")

    for name, run in {"three": three, "twenty": twenty}.items():
        if args.only in (None, name):
            run(args.seeds, write)


if __name__ == "__main__":
    main()
