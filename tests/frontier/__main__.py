"""``scores="auto"`` with 99 to 200 rows at alpha = .01 (``cd tests && python -m frontier``).

Prints rows that tune and calibrate, mean size and coverage, under vfcp and exact, and beside them
the sets of ``thr`` on all rows. The verdict: no fit returns all labels, and coverage is at least
.99 less three standard errors.
"""

from __future__ import annotations

import argparse
import sys
import warnings

from conformix.errors import ConformixWarning
from frontier.few_rows import MODELS, measure

ROWS = (99, 100, 110, 120, 148, 200)


def main() -> int:
    """Measure, print, and return 1 where a promise was not kept."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=100)
    options.add_argument("--rows", type=int, nargs="*", default=ROWS)
    options.add_argument("--data", nargs="*", default=list(MODELS))
    given = options.parse_args()
    warnings.simplefilter("ignore", ConformixWarning)
    broken = 0
    for name in given.data:
        for n in given.rows:
            for scores, split in (("auto", "vfcp"), ("auto", "exact"), ("thr", "vfcp")):
                if scores == "thr" and len(MODELS[name][1]) > 1:
                    continue
                found = measure(name, n, scores=scores, split=split, draws=given.draws)
                short = found.coverage < 0.99 - 3 * found.error
                broken += short or found.all_labels > 0
                sys.stdout.write(
                    f"{name}, n={n}, {scores}, {split}: {found.n_tune} tune, {found.n_cal} "
                    f"calibrate, size {found.size:.2f}, coverage {found.coverage:.4f} "
                    f"({found.error:.4f}), all labels in {found.all_labels} of {given.draws}"
                    f"{' SHORT' if short else ''}\n"
                )
                sys.stdout.flush()
    sys.stdout.write(f"{broken} promises broken\n")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
