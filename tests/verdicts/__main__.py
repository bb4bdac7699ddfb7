"""How often a verdict is wrong, and how often it sees a shortfall: ``python -m verdicts``.

Every split and calibration on synthetic rows. Exchangeable rows may be called broken in 1 % of the
draws, and drifted in as many as the level says, both plus three standard errors. Rows whose
coverage falls short by five points must be called broken in four of five draws with 1,000
calibration and 1,000 test rows. Run it in ``tests``; exits with 1 where one of these fails.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from joblib import Parallel, delayed

from conformix.guarantees.verdict import SUSPICIOUS, Verdict
from verdicts.cases import CASES, Case

ALPHA, LEVEL, SEEN = 0.1, 0.1, 0.8
SHORTFALL = 0.05  # what must be seen


def wrong(case: Case, n: int, m: int, draws: int, seed: int) -> tuple[int, int, int]:
    """Return how often exchangeable rows were called broken and drifted, and how often judged."""
    broken = drifted = judged = 0
    for i in range(draws):
        rows = case.judged(np.random.default_rng([seed, i]), n, m, alpha=ALPHA)
        found = rows.verdict(case.alpha)
        broken += found.word == "broken"
        judged += found.pvalue is not None
        drifted += rows.no_law is None and rows.drift(LEVEL).drifted
    return broken, drifted, judged


def seen(case: Case, n: int, m: int, draws: int, seed: int) -> tuple[int, float]:
    """Return how often a planted shortfall was called broken, and the mean coverage.

    So many rows are made misses that coverage lies five points below its level on average, or
    below what it is on exchangeable rows, where the choice of the weights keeps it under its level.
    """

    def verdicts(many: int, planted: float) -> list[Verdict]:
        rngs = [np.random.default_rng([seed, 1, i]) for i in range(many)]
        rows = [case.judged(rng, n, m, alpha=ALPHA, planted=planted) for rng in rngs]
        return [one.verdict(case.alpha) for one in rows]

    plain = verdicts(draws, 0.0)
    usual = float(np.mean([one.coverage for one in plain]))
    found = verdicts(draws, 1 - (min(plain[0].asked, usual) - SHORTFALL) / usual)
    broken = sum(one.word == "broken" for one in found)
    return broken, float(np.mean([one.coverage for one in found]))


def allowed(share: float, draws: int) -> float:
    """Return a share plus three standard errors of so many draws."""
    return share + 3 * math.sqrt(share * (1 - share) / draws)


def line(case: Case, asked: argparse.Namespace) -> tuple[str, bool]:
    """Return the line of a case, and whether it fails."""
    draws, many = asked.draws, asked.power_draws
    errors = wrong(case, asked.rows, asked.test_rows, draws, 0) if draws else (0, 0, 0)
    broken, drifted, judged = (count / max(draws, 1) for count in errors)
    found, coverage = seen(case, 1000, 1000, many, 0) if many else (0, math.nan)
    fails = bool(draws) and broken > allowed(SUSPICIOUS, draws)
    fails |= bool(draws) and drifted > allowed(LEVEL, draws)
    fails |= bool(many) and case.law and found < SEEN * many
    fails |= not case.law and (broken > 0 or found > 0)
    share = found / many if many else math.nan
    told = f"{case.name:26} {judged:7.3f} {broken:7.3f} {drifted:8.3f} {coverage:9.4f} {share:6.3f}"
    return told + "  FAILS" * fails, fails


def main() -> None:
    """Print one line per case; exit with 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=1000, help="of exchangeable rows")
    parser.add_argument("--power-draws", type=int, default=200, help="of a planted shortfall")
    parser.add_argument("--rows", type=int, default=60, help="calibration rows")
    parser.add_argument("--test-rows", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    asked = parser.parse_args()
    cases = [case for case in CASES if asked.only in case.name]
    print(
        f"alpha = {ALPHA}. Exchangeable: {asked.rows} calibration and {asked.test_rows} test rows, "
        f"{asked.draws} draws: broken at most {allowed(SUSPICIOUS, max(asked.draws, 1)):.4f}, "
        f"drifted at most {allowed(LEVEL, max(asked.draws, 1)):.4f}.\n"
        f"Planted: coverage {SHORTFALL} lower, 1,000 and 1,000 rows, "
        f"{asked.power_draws} draws: seen in at least {SEEN}.\n"
        f"{'case':26} {'judged':>7} {'broken':>7} {'drifted':>8} {'coverage':>9} {'seen':>6}"
    )
    parallel = Parallel(n_jobs=asked.jobs, return_as="generator")
    failed = 0
    for told, fails in parallel(delayed(line)(case, asked) for case in cases):
        print(told, flush=True)
        failed += fails
    print(f"{len(cases)} cases, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
