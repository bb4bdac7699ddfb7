"""Random levels against p-values, at every door (``cd tests && python -m levels``).

Prints per door and number of rows how many levels were tried, and how many labels were on the
wrong side. Nothing may be.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np

from conformix.errors import ConformixWarning
from levels.doors import DOORS, SPECIAL, drawn_levels, drawn_rows, n_broken

ROWS = (5, 50, 500, 5000)


def main() -> int:
    """Try all doors and return 1 where a set disagreed with its p-values."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--levels", type=int, default=1000)
    options.add_argument("--rows", type=int, nargs="*", default=ROWS)
    options.add_argument("--doors", nargs="*", default=list(DOORS))
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    warnings.simplefilter("ignore", ConformixWarning)
    total = 0
    for name in given.doors:
        start, found, tried = time.perf_counter(), {}, 0
        for n in given.rows:
            levels = drawn_levels(np.random.default_rng([given.seed, n]), given.levels)
            answer = DOORS[name](drawn_rows(given.seed, n))
            every = [*SPECIAL, *levels]
            broken = [n_broken(answer(alpha), alpha, n) for alpha in every]
            found[n] = (sum(map(bool, broken)), sum(broken))
            tried += len(every)
        told = ", ".join(
            f"n={n}: {bad} levels, {labels} labels" for n, (bad, labels) in found.items()
        )
        total += sum(labels for _, labels in found.values())
        seconds = time.perf_counter() - start
        sys.stdout.write(f"{name}: {tried} levels tried; broken {told} ({seconds:.0f} s)\n")
        sys.stdout.flush()
    sys.stdout.write(f"{total} labels on the wrong side\n")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
