"""What you get against what you use now: size, coverage and time on real outputs, in one table.

``make bench WHAT=at-a-glance``. CIFAR-100, outputs of a WideResNet (and, in the last line, of a
DenseNet and a LeNet beside it), cut into halves at random: 5,000 labelled rows, sets of the 5,000
others. All take turns in one process, in an order that shifts, on the same halves; sizes and
coverage are means over the halves, seconds medians of fit and prediction together. MAPIE and
TorchCP run with their defaults. The rows stay in ``benchmarks/results/at_a_glance.jsonl``; the
table and the picture of the README are made from them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import conformix as cx
from benchmarks.end_to_end import (
    Case,
    Contender,
    cores,
    mapie,
    ours,
    peer_version,
    seconds_of,
    short,
    torchcp,
)
from benchmarks.measure import ROOT, surroundings
from conformix.experiments.methods import estimator_of

RESULTS = ROOT / "benchmarks" / "results" / "at_a_glance.jsonl"
README = ROOT / "README.md"
BEGIN, END = "<!-- at a glance -->", "<!-- end -->"
DATA, MODEL = "cifar100", "wideresnet_16_4"
ALPHAS = (0.05, 0.01)
HALVES = 20
# As the table calls them, in its order; the last two are what the library is for.
AVERAGE, DEFAULT, SEVERAL = (
    'conformix, the paper\'s average (`scores="paper"`)',
    "**conformix, the default**",
    "**conformix, the default, three models**",
)


def halves(seed: int) -> tuple[Case, Case]:
    """Return shuffled rows: the outputs of one model, and those of all of them by name."""
    data = cx.datasets.load(DATA)
    order = np.random.default_rng(seed).permutation(len(data.labels))
    logits = {name: np.asarray(values, np.float64)[order] for name, values in data.outputs.items()}
    y = data.labels[order]
    one = logits[MODEL]
    powers = np.exp(one - one.max(axis=1, keepdims=True))
    probs = powers / powers.sum(axis=1, keepdims=True)
    return Case(probs, one, y), Case(None, logits, y)


def several(case: Case, threads: int, alpha: float) -> Contender:
    half = case.half
    labelled = {name: values[:half] for name, values in case.logits.items()}
    fresh = {name: values[half:] for name, values in case.logits.items()}
    settings = {"alpha": alpha, "kind": "logits", "threads": threads, "random_state": 0}
    return Contender(
        SEVERAL,
        lambda: cx.ScoreAverage(**settings).fit(labelled, case.y[:half]),
        lambda model: model.predict_set(fresh),
        lambda sets: sets.mask,
    )


def tuned(case: Case, threads: int, alpha: float) -> Contender:
    half = case.half
    settings = {"alpha": alpha, "kind": "probs", "threads": threads, "random_state": 0}
    return Contender(
        "`thr` with a tuned temperature",
        lambda: estimator_of("tuned-thr:vfcp", **settings).fit(case.probs[:half], case.y[:half]),
        lambda model: model.predict_set(case.probs[half:]),
        lambda sets: sets.mask,
    )


def contenders(case: Case, all_models: Case, threads: int, alpha: float) -> list[Contender]:
    """Return the peers that are installed, then conformix."""
    some: list[Contender] = []
    if find_spec("mapie"):
        some += [mapie(score, case, alpha) for score in ("LAC", "APS", "RAPS")]
    if find_spec("torchcp"):
        some += [torchcp(score, case, alpha=alpha) for score in ("LAC", "SAPS")]
    call = partial(ours, case=case, threads=threads, alpha=alpha)
    return [
        *some,
        tuned(case, threads, alpha),
        call(AVERAGE, "paper")._replace(name=AVERAGE),
        call(DEFAULT, "auto")._replace(name=DEFAULT),
        several(all_models, threads, alpha),
    ]


def measured(n_halves: int, tell: Callable[[str], None] = print) -> Iterable[dict[str, Any]]:
    """Yield one row per half, level and method."""
    for seed in range(-1, n_halves):  # the first round compiles and warms up
        case, all_models = halves(max(seed, 0))
        for alpha in ALPHAS:
            some = contenders(case, all_models, cores(), alpha)
            shift = seed % len(some)
            for each in some[shift:] + some[:shift]:
                taken = seconds_of(each)
                if seed < 0:
                    continue
                mask = np.asarray(each.mask(each.predict(each.fit())))
                covered = mask[np.arange(len(mask)), case.y[case.half :]].mean()
                yield {
                    "method": each.name,
                    "alpha": alpha,
                    "half": seed,
                    "mean_size": short(mask.sum(axis=1).mean()),
                    "coverage": short(covered),
                    "seconds": short(taken.fit + taken.predict),
                }
        tell(f"half {seed + 1} of {n_halves}")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of the README, in Markdown.

    Examples
    --------
    >>> row = {"method": "MAPIE LAC", "mean_size": 4.0, "coverage": 0.95, "seconds": 0.01}
    >>> print(table([row | {"alpha": 0.05}, row | {"alpha": 0.01, "mean_size": 20.0}]))
    | CIFAR-100, WideResNet, 5,000 labelled rows | labels per set, 95 % | 99 % | covered | seconds |
    |---|---|---|---|---|
    | MAPIE LAC | 4.00 | 20.0 | 95.0, 95.0 % | 0.01 |
    """
    head = "| CIFAR-100, WideResNet, 5,000 labelled rows | labels per set, 95 % | 99 % | covered |"
    lines = [head + " seconds |", "|---|---|---|---|---|"]
    for method in dict.fromkeys(row["method"] for row in order(rows)):
        of = {
            alpha: [row for row in rows if (row["method"], row["alpha"]) == (method, alpha)]
            for alpha in ALPHAS
        }
        sizes = [f"{mean(of[alpha], 'mean_size'):#.3g}" for alpha in ALPHAS]
        covered = ", ".join(f"{100 * mean(of[alpha], 'coverage'):.1f}" for alpha in ALPHAS)
        seconds = np.median([row["seconds"] for alpha in ALPHAS for row in of[alpha]])
        bold = "**{}**" if method == DEFAULT else "{}"
        sizes = [bold.format(size) for size in sizes]
        lines.append(f"| {method} | {sizes[0]} | {sizes[1]} | {covered} % | {seconds:.2g} |")
    return "\n".join(lines)


def order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the peers first, then ours in the order of the last lines."""
    last = (AVERAGE, DEFAULT, SEVERAL)
    place = {name: 1 + k for k, name in enumerate(last)}
    return sorted(
        rows, key=lambda row: (place.get(row["method"], 0), row["method"].startswith("`"))
    )


def mean(rows: list[dict[str, Any]], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))


def read_rows(path: Path = RESULTS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--halves", type=int, default=HALVES)
    parser.add_argument("--keep", action="store_true", help="write rows and table of the README")
    arguments = parser.parse_args()
    around = surroundings() | {name: peer_version(name) for name in ("torch", "mapie", "torchcp")}
    rows = sorted(
        (row | around for row in measured(arguments.halves)),
        key=lambda row: (row["half"], -row["alpha"]),
    )
    print(table(rows))
    if arguments.keep:
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END, 1)[1]
        text = f"{before}{BEGIN}\n{table(rows)}\n{END}{after}"
        README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
