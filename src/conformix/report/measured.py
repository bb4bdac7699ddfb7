"""What was promised and what was measured, at every level, and per class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix import metrics
from conformix.arrays import FloatArray, IntArray
from conformix.pipeline import Fitted
from conformix.report.rows import Rows

# Fewer covered rows than in this share of all draws are no chance.
SUSPICIOUS = 0.01


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of the model's sets; every column has shape (A, 1), one line per level.

    Parameters
    ----------
    columns : dict of str to array
        ``promise``, the measures of `conformix.metrics.evaluate`, and the ends of what chance
        allows (``chance_low``, ``chance_high``).
    sentences : tuple of str
        What follows, one sentence per level.
    verdicts : tuple of {"kept", "chance", "broken", "trivial"}
        The same in a word.
    """

    columns: dict[str, FloatArray]
    sentences: tuple[str, ...]
    verdicts: tuple[str, ...]


def measure(rows: Rows) -> Measured:
    """Return the measures of the model's sets at every level."""
    found: dict[str, list[float]] = {}
    sentences, verdicts = [], []
    for alpha in rows.alphas:
        told = metrics.evaluate(rows.sets(alpha), rows.y, alpha=alpha)
        k = single_rank(rows, alpha)
        low, high = (np.nan, np.nan) if k is None else chance_range(
            rows.predictor.fitted.n, rows.n, k
        )  # fmt: skip
        told |= {"promise": 1 - alpha, "chance_low": low, "chance_high": high}
        for name, value in told.items():
            found.setdefault(name, []).append(float(value))
        verdict, sentence = judged(told, rows, k)
        verdicts.append(verdict)
        sentences.append(sentence)
    columns = {name: np.array(values)[:, None] for name, values in found.items()}
    return Measured(columns, tuple(sentences), tuple(verdicts))


def single_rank(rows: Rows, alpha: float) -> int | None:
    """Return the rank of the threshold where there is a single one; else None."""
    fitted = rows.predictor.fitted
    one = isinstance(fitted, Fitted) and fitted.ledger.facts.calibration == "marginal"
    return fitted.ledger.facts.rank(fitted.n, alpha) if one else None


def judged(told: dict[str, float], rows: Rows, k: int | None) -> tuple[str, str]:
    """Return the verdict at one level, in a word and in a sentence."""
    n = rows.predictor.fitted.n
    promise, coverage = percent(told["promise"]), percent(told["coverage"])
    if k is not None and k > n:
        return "trivial", (
            f"{n:,} calibration rows are too few for a promise of {promise}: every set holds all "
            "labels."
        )
    if told["coverage"] >= told["promise"]:
        return "kept", (
            f"The promise was kept: {coverage} of the sets hold the true label, and at least "
            f"{promise} were promised."
        )
    below = f"{coverage} of the sets hold the true label, and {promise} were promised"
    if k is None:
        if told["coverage_high"] >= told["promise"]:
            return "chance", f"{below}: a shortfall that the number of test rows can explain."
        return "broken", f"{below}: more than the number of test rows can explain."
    hits = round(told["coverage"] * rows.n)
    pvalue = metrics.shortfall_pvalue(hits, rows.n, n_calibration=n, rank=k)
    if pvalue >= SUSPICIOUS:
        return "chance", (
            f"{below}: a shortfall that chance allows. With {n:,} calibration rows, coverage of "
            f"{rows.n:,} new rows lies this low in {float(f'{100 * pvalue:.2g}'):g} % of all draws."
        )
    return "broken", (
        f"{below}: less than chance allows. With {n:,} calibration rows, coverage of {rows.n:,} "
        f"new rows should lie above {percent(told['chance_low'])} in 99 % of all draws. The rows "
        "are unlike the calibration rows, or the guarantee is not exact."
    )


def percent(share: float) -> str:
    """Return a share as text, with two digits at most."""
    return f"{round(100 * share, 2):g} %"


def chance_range(n: int, m: int, k: int, tail: float = SUSPICIOUS) -> tuple[float, float]:
    """Return where the coverage of m fresh rows lies, but for a share `tail` of draws either side.

    With n exchangeable calibration rows, scores without ties and the k-th largest as threshold,
    the number of covered rows is ``BetaBinomial(m, k, n + 1 - k)``; ties only raise it.

    Examples
    --------
    >>> chance_range(1000, 500, 901)
    (0.86, 0.936)
    """
    from scipy.special import betaln, gammaln  # noqa: PLC0415  scipy loads late

    if k > n:
        return 1.0, 1.0
    h = np.arange(m + 1)
    choose = gammaln(m + 1) - gammaln(h + 1) - gammaln(m - h + 1)
    law = np.cumsum(np.exp(choose + betaln(h + k, m - h + n + 1 - k) - betaln(k, n + 1 - k)))
    low = int(np.searchsorted(law, tail))
    high = int(np.searchsorted(law, 1 - tail))
    return low / m, min(high, m) / m


@dataclass(frozen=True, eq=False)
class ByClass:
    """Coverage and size per class.

    Parameters
    ----------
    names : tuple of str
        Names of the classes.
    places : integer array
        Their numbers.
    rows : integer array
        Rows per class.
    columns : dict of str to array of shape (A, number of classes)
        ``coverage``, ``low``, ``high`` (Clopper-Pearson) and ``size``; NaN without rows.
    """

    names: tuple[str, ...]
    places: IntArray
    rows: IntArray
    columns: dict[str, FloatArray]


def by_class(rows: Rows, most: int) -> ByClass:
    """Return coverage with interval and mean size per class, of the `most` largest classes."""
    n_classes = len(rows.classes)
    counts = np.bincount(rows.y, minlength=n_classes)
    kept = np.sort(np.argsort(-counts, kind="stable")[:most])
    columns = {name: np.full((len(rows.alphas), len(kept)), np.nan) for name in
               ("coverage", "low", "high", "size")}  # fmt: skip
    for a, alpha in enumerate(rows.alphas):
        mask = rows.sets(alpha)
        _, shares = metrics.class_coverages(mask, rows.y)
        hits = np.bincount(rows.y, weights=metrics.covered(mask, rows.y), minlength=n_classes)
        sizes = np.bincount(rows.y, weights=mask.sum(axis=1), minlength=n_classes)
        columns["coverage"][a] = shares[kept]
        for place, y in enumerate(kept):
            if counts[y]:
                ends = metrics.share_interval(int(hits[y]), int(counts[y]))
                columns["low"][a, place], columns["high"][a, place] = ends
                columns["size"][a, place] = sizes[y] / counts[y]
    return ByClass(tuple(rows.classes[y] for y in kept), kept, counts[kept], columns)
