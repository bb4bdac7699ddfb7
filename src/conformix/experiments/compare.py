"""All methods on one file of outputs and labels, and one sentence at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformix.experiments.pool import load_data
from conformix.experiments.runner import Progress, run
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import (
    Estimate,
    Results,
    check_spread,
    in_words,
    interval,
    percent,
)
from conformix.tables import Table

TUNED = ("best-single", "tuned-thr", "tuned-raps", "tuned-saps")
ENSEMBLES = ("probability-ensemble", "logit-ensemble")
# Splits that go with scores="auto".
BLENDING = ("vfcp", "exact")
# Beside the averaged scores, where there is one model only.
FURTHER_SINGLES = ("raps", "saps")


@dataclass(frozen=True)
class Verdict:
    """What to use, by how much it is better, and the sentence that says so.

    Parameters
    ----------
    method : str
        What to use.
    baseline : str
        The single score with the smallest mean size.
    saving : Estimate
        Share by which the sets of the method (where nothing helps: of the average) are smaller.
    sentence : str
        For people.
    """

    method: str
    baseline: str
    saving: Estimate
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """The results of `compare`."""

    results: Results
    alpha: float
    verdict: Verdict

    def summary(self) -> list[dict[str, Any]]:
        """Return one record per method, smallest sets first."""
        records = [self._record(method) for method in self.results.methods]
        return sorted(records, key=lambda record: record["size"])

    def _record(self, method: str) -> dict[str, Any]:
        results, alpha = self.results, self.alpha
        overlap = results.overlap
        covered = results.values(method, alpha=alpha, field="coverage")
        coverage = interval(covered, overlap=overlap)
        matched = results.values(method, alpha=alpha, field="size_at_matched_coverage")
        saving = results.saving(method, self.verdict.baseline, alpha=alpha, overlap=overlap)
        return {
            "method": method,
            "alpha": alpha,
            "coverage": coverage.mean,
            "coverage_low": max(coverage.low, 0.0),
            "coverage_high": min(coverage.high, 1.0),
            "size": results.estimate(method, alpha=alpha).mean,
            "size_at_matched_coverage": None if np.isnan(matched).any() else float(matched.mean()),
            "saved": saving.mean,
            "saved_low": saving.low,
            "saved_high": saving.high,
            "guarantee": results.guarantee(method, alpha),
            "splits": coverage.n,
        }

    def table(self) -> Table:
        """Return the summary as a table."""
        header = ("method", "coverage", "size", "matched", "saved", "guarantee")
        rows = []
        for one in self.summary():
            ends = f"[{one['coverage_low']:.3f}, {one['coverage_high']:.3f}]"
            matched = one["size_at_matched_coverage"]
            saving = Estimate(one["saved"], one["saved_low"], one["saved_high"], 0.0, 0)
            rows.append(
                (
                    one["method"],
                    f"{one['coverage']:.3f} {ends}",
                    f"{one['size']:.2f}",
                    "-" if matched is None else f"{matched:.2f}",
                    "-" if one["method"] == self.verdict.baseline else percent(saving),
                    one["guarantee"],
                )
            )
        n_splits = self.summary()[0]["splits"]
        notes = (
            f"Means over {n_splits} random splits; 95 % intervals for new rows like these.",
            f'"saved": sets smaller than those of {self.verdict.baseline}, the best single score.',
            '"matched": size when the coverage on the test rows is just 1 - alpha.',
        )
        return Table(f"alpha = {self.alpha:g}", header, tuple(rows), notes)


def compare(
    data: str,
    *,
    alpha: float = 0.1,
    split: str = "vfcp",
    scores: Sequence[str] = ("thr", "aps", "rank"),
    models: Sequence[str] = (),
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Comparison:
    """Compare all methods on labelled outputs, over random splits.

    Parameters
    ----------
    data : str
        An npz file with ``labels`` and one array (n, K) per model, or a bundled data set.
    alpha : float
        Allowed miscoverage.
    split : str
        Under which split the methods that tune do so.
    scores : sequence of str
        What is averaged, of every model.
    models : sequence of str
        Which models; by default all.
    folder : path, optional
        Keeps ``rows.jsonl``, from which a killed comparison goes on.
    workers, progress
        As in `conformix.experiments.run`.
    **settings
        ``runs``, ``share``, ``kind``, ``normalize`` (here ``auto`` by default, as in
        `conformix.ScoreAverage`), ``resolution``, ``rows``, ``seed`` of `Spec`.

    Examples
    --------
    >>> found = compare("cifar10", models=["vgg16"], alpha=0.01, runs=3, rows=1000, resolution=10,
    ...                 workers=1)
    >>> found.verdict.sentence
    '...
    """
    chosen = tuple(models) or tuple(load_data(data, settings.get("kind", "auto")).outputs)
    several = len(chosen) > 1
    singles = (
        [f"{model}.{score}" for model in chosen for score in scores]
        if several
        else [*scores, *(score for score in FURTHER_SINGLES if score not in scores)]
    )
    average = f"average:{split}"
    tuned = [f"{name}:{split}" for name in TUNED]
    # The blend learns its scores on rows that do not calibrate, whatever split averages use.
    blend = f"auto:{split if split in BLENDING else BLENDING[0]}"
    candidates = [average, blend, *tuned, "uniform", *(ENSEMBLES if several else ())]
    settings = {"normalize": "auto", **settings}
    spec = Spec(
        data,
        methods=(*singles, *candidates, "majority-vote"),
        alphas=(alpha,),
        models=chosen,
        scores=tuple(scores),
        **settings,
    )
    check_spread(spec.runs)
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            rows = run(spec, Path(temporary) / "rows.jsonl", workers=workers, progress=progress)
    else:
        rows = run(spec, Path(folder) / "rows.jsonl", workers=workers, progress=progress)
    results = Results(rows)
    verdict = judge(results, alpha, singles=singles, average=average, others=candidates[1:])
    return Comparison(results, alpha, verdict)


def judge(
    results: Results, alpha: float, *, singles: Sequence[str], average: str, others: Sequence[str]
) -> Verdict:
    """Return what to use, in one sentence.

    The candidate with the smallest mean size is set against the single score with the smallest
    mean size. Its interval is widened for the number of candidates, since it was chosen among
    them, and for the overlap of the splits, since it shall hold for new rows.

    Parameters
    ----------
    results : Results
        Rows of all methods.
    alpha : float
        The level.
    singles : sequence of str
        Single scores.
    average : str
        The averaged score.
    others : sequence of str
        Further candidates: tuned scores, the uniform average, ensembles.

    Examples
    --------
    >>> rows = [{"method": m, "alpha": 0.1, "run": r, "size": s + r, "n_test": 1, "n_calibrate": 4,
    ...          "guarantee": "exact"}
    ...         for m, s in (("thr", 50.0), ("average", 40.0)) for r in range(9)]
    >>> found = judge(Results(rows), 0.1, singles=["thr"], average="average", others=[])
    >>> found.sentence.partition(" than ")[0]
    'use average: sets are 19 % [17, 20] smaller'
    """
    candidates = [average, *others]
    options: dict[str, Any] = {"comparisons": len(candidates), "overlap": results.overlap}
    baseline = results.smallest(singles, alpha=alpha)
    best = results.smallest(candidates, alpha=alpha)
    saving = results.saving(best, baseline, alpha=alpha, **options)
    if saving.low > 0:
        sentence = (
            f"use {best}: sets are {in_words(saving)} than those of the best single score "
            f"({baseline}), guarantee {results.guarantee(best, alpha)}."
        )
        return Verdict(best, baseline, saving, sentence)
    saving = results.saving(average, baseline, alpha=alpha, **options)
    doubt = " beyond what chance allows" if saving.mean > 0 else ""
    sentence = (
        f"averaging does not help here{doubt}: its sets are {in_words(saving)} than those of "
        f"{baseline} alone; use {baseline}, guarantee {results.guarantee(baseline, alpha)}."
    )
    return Verdict(baseline, baseline, saving, sentence)
