"""The report of a comparison: all methods over random splits, and one split looked at closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from conformix.conformal import conformal_rank, simple_fraction
from conformix.data.bundled import Dataset
from conformix.errors import InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.experiments.compare import Comparison, compare
from conformix.experiments.pool import drawn, load_data
from conformix.experiments.runner import Progress
from conformix.experiments.spec import Draw
from conformix.report.report import Report, build_report
from conformix.scores import named_scores
from conformix.search import GridSearch

# Every level is a comparison of its own, so there are fewer than in the report of a model.
LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison at the level that was asked for, and the report of all levels.

    Examples
    --------
    >>> found = compare_report("mmlu_llama13b", models=["llama13b_prompt0"], alpha=0.2, runs=2,
    ...                        levels=[0.1], rows=400, resolution=10, workers=1)
    >>> found.comparison.alpha, found.report.rows.alphas
    (0.2, (0.1, 0.2))
    """

    comparison: Comparison
    report: Report


def compare_report(
    data: str,
    *,
    alpha: float = 0.1,
    levels: Sequence[float] | None = None,
    split: str = "vfcp",
    scores: str | Sequence[str] = "paper",
    models: Sequence[str] = (),
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    given: Mapping[str, str] | None = None,
    **settings: Any,
) -> Compared:
    """Return what `conformix.experiments.compare` says at several levels, as a report.

    Methods are compared over all splits. Weights, classes and example rows are those of the
    averaged score on the first split: fitted on its calibration rows, measured on its test rows.

    Parameters
    ----------
    data, alpha, split, scores, models, folder, workers, progress
        As in `conformix.experiments.compare`.
    levels : sequence of float, optional
        Further levels of the report.
    given : mapping of str to str, optional
        Settings that only the caller knows, such as the command.
    **settings
        As in `conformix.experiments.compare`.

    Examples
    --------
    >>> found = compare_report("mmlu_llama13b", models=["llama13b_prompt0"], alpha=0.2, runs=2,
    ...                        levels=[0.1], rows=400, resolution=10, workers=1)
    >>> found.report.methods.names[0]
    'average:vfcp'
    """
    source = drawn(
        load_data(data, settings.get("kind", "auto")),
        settings.get("rows"),
        settings.get("seed", 0),
    )
    n_half = round(settings.get("share", 0.8) * len(source.labels)) // 2
    asked = [a for a in LEVELS if conformal_rank(n_half, a) <= n_half] if levels is None else levels
    alpha = float(simple_fraction(alpha))
    alphas = sorted({alpha, *(float(simple_fraction(level)) for level in asked)})
    shared = {"split": split, "scores": scores, "models": models, "workers": workers, **settings}
    comparisons = [
        compare(
            data, alpha=level, folder=folder, progress=_part(progress, i, len(alphas)), **shared
        )
        for i, level in enumerate(alphas)
    ]
    comparison = comparisons[alphas.index(alpha)]
    report = _first_split(source, comparison, comparisons, settings=shared, facts=given or {})
    return Compared(comparison, report)


def _part(progress: Progress | None, i: int, n_levels: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(i * total + done, n_levels * total)


def _first_split(
    source: Dataset,
    comparison: Comparison,
    comparisons: Sequence[Comparison],
    *,
    settings: Mapping[str, Any],
    facts: Mapping[str, str],
) -> Report:
    """Return the report of the averaged score on the first split of a comparison."""
    row = min(comparison.results.rows, key=lambda one: one["run"])
    draw = Draw(**{one.name: row[one.name] for one in fields(Draw)})
    if draw.n != len(source.labels):
        raise InvalidInput(f"{source.name} has changed since the comparison began; start anew.")
    calibrate, test, seed = draw.roles()
    chosen = list(draw.models)
    named = {model if len(chosen) > 1 else "": source.outputs[model] for model in chosen}
    test_rows = {model: values[test] for model, values in named.items()}
    model = ScoreAverage(
        named_scores(settings["scores"]),
        alpha=comparison.alpha,
        split=settings["split"],
        search=GridSearch(settings.get("resolution")),
        normalize=settings.get("normalize", "auto"),
        kind=source.kind,
        random_state=seed,
    )
    model.fit(
        {name: values[calibrate] for name, values in named.items()},
        source.labels[calibrate],
        test=test_rows,
        classes=source.class_names,
    )
    runs = 1 + max(one["run"] for one in comparison.results.rows)
    split_facts = {
        "comparison": f"{runs} random splits, {draw.share:g} of {draw.n:,} rows calibrate, "
        f"seed {draw.seed}",
        "data, short digest": draw.digest,
    }
    return build_report(
        model,
        test_rows,
        source.labels[test],
        alphas=[one.alpha for one in comparisons],
        title=f"{source.name}: {', '.join(chosen)}",
        source=(
            f"Methods are compared over {runs} random splits. The measured coverage, the weights, "
            "the classes and the examples are those of the averaged score on the first split: "
            f"fitted on {len(calibrate):,} rows, measured on {len(test):,} others."
        ),
        given={**facts, **split_facts},
        comparisons=comparisons,
        average=f"average:{settings['split']}",
        seed=draw.seed,
    )
