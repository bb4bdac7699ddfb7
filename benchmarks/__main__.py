"""Everything that `make bench` measures: one table, and one JSON line per row.

``python -m benchmarks`` takes some minutes; ``--only one_model ties`` runs some of it;
``--out benchmarks/results/search.jsonl`` writes the file that is committed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import conditional, latency, levels, search, startup
from benchmarks.measure import ROOT, Report

GROUPS = {
    "one_model": search.one_model,
    "three_models": search.three_models,
    "many_weights": search.many_weights,
    "ties": search.ties,
    "growth": search.growth,
    "checks": search.checks,
    "large": search.large,
    "levels": levels.levels,
    "conditional": conditional.conditional,
    "latency": latency.latency,
    "startup": startup.startup,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/latest.jsonl")
    args = parser.parse_args()
    report = Report(args.out)
    for name in args.only:
        GROUPS[name](report)
    print(f"\n{len(report.rows)} rows in {args.out}")


if __name__ == "__main__":
    main()
