"""Sets on a stream with drift: the level follows the errors, the weights follow the sizes.

    python examples/online.py --steps 6000

CIFAR-100 rows in random order, two networks. At half time the better network goes bad: noise is
added to its logits, as a broken sensor would. A model fitted before the drift (on 2,000 other
rows) stays as it is; the online predictors learn from every label after its set was issued. Prints
one Markdown table: coverage before and after the drift, mean size, the distance of the share of
errors from alpha, and the bound that holds for every stream.
"""

from __future__ import annotations

import argparse

import numpy as np

import conformix as cx
from conformix.online import ACI

ALPHA = 0.1
RUNS = {
    "ACI, uniform weights": {"control": "aci", "adapt": None},
    "ACI, weights follow the leader": {"control": "aci", "adapt": "leader"},
    "ACI, weights by hedge": {"control": "aci", "adapt": "hedge"},
    "ACI, falling step, leader": {"control": ACI(0.2, decay=0.3), "adapt": "leader"},
    "betting (no step to choose), leader": {"control": "betting", "adapt": "leader"},
}


def stream(steps: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return 2,000 rows to fit on and then `steps` rows, the second half of them broken."""
    data = cx.datasets.load("cifar100")
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data.labels))[: 2000 + steps]
    outputs = {
        name: data.outputs[name][rows].astype(np.float64)
        for name in ("wideresnet_16_4", "densenet_bc_100")
    }
    broken = slice(2000 + steps // 2, None)
    best = outputs["wideresnet_16_4"]
    best[broken] += 6 * rng.normal(size=best[broken].shape)
    return outputs, data.labels[rows]


def main(steps: int) -> None:
    """Print the table."""
    outputs, y = stream(steps)
    part = lambda rows: {name: values[rows] for name, values in outputs.items()}  # noqa: E731
    before, after = slice(0, steps // 2), slice(steps // 2, None)
    new, labels = part(slice(2000, None)), y[2000:]
    print(f"alpha = {ALPHA}, {steps:,} steps, drift after {steps // 2:,}\n")
    print("| predictor | coverage before | after | size before | after | distance | bound |")
    print("|---|---|---|---|---|---|---|")

    def tell(name: str, sets: cx.PredictionSets, bound: str) -> None:
        hit, sizes = cx.metrics.covered(sets, labels), sets.sizes
        cells = [f"{hit[p].mean():.3f}" for p in (before, after)]
        cells += [f"{sizes[p].mean():.2f}" for p in (before, after)]
        cells += [f"{abs(1 - hit.mean() - ALPHA):.4f}", bound]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)

    fixed = cx.ScoreAverage(("thr", "aps"), alpha=ALPHA, kind="logits", random_state=0)
    fixed.fit(part(slice(0, 2000)), y[:2000])
    tell("holdout, fitted before the drift", fixed.predict_set(new), "none under drift")
    for name, options in RUNS.items():
        online = cx.OnlineAverage(
            ("thr", "aps"), alpha=ALPHA, kind="logits", window=500, candidates=4, **options
        )
        trace = online.run(new, labels)
        bound = online.control_.bound(steps)
        assert abs(trace.errors.mean() - ALPHA) <= bound
        tell(name, trace.sets, f"{bound:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=6000)
    main(parser.parse_args().steps)
