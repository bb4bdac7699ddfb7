"""``conformix evaluate``: how good the sets of a model are on labelled rows."""

from __future__ import annotations

import math
from typing import Any

from conformix.cli.data import (
    Drop,
    File,
    LabelColumn,
    LabelFile,
    MaxMemory,
    NamedFiles,
    Part,
    sources,
    unnamed_if_single,
)
from conformix.cli.options import Json, ModelFile, Models, OtherAlpha
from conformix.cli.output import (
    record_table,
    wants_json,
    working,
    write_json,
    write_table,
    write_verdict,
)
from conformix.cli.predict import predicted

EXAMPLE = "conformix evaluate model.json test.csv"
# Below this, fewer covered rows are no chance.
SUSPICIOUS = 0.01
WORDS = {
    "coverage": "coverage",
    "mean_size": "mean size",
    "median_size": "median size",
    "size_quantile": "size, 90th percentile",
    "singleton_rate": "one-label sets",
    "singleton_accuracy": "accuracy of one-label sets",
    "empty_rate": "empty sets",
    "class_coverage_gap": "class coverage gap, mean",
    "size_stratified_violation": "coverage gap by size, largest",
}


def evaluate(
    model_file: ModelFile,
    file: File = None,
    *,
    alpha: OtherAlpha = None,
    model: NamedFiles = None,
    labels: LabelFile = None,
    label_column: LabelColumn = None,
    drop: Drop = "",
    models: Models = "",
    part: Part = None,
    max_memory: MaxMemory = "4G",
    as_json: Json = None,
) -> None:
    """Measure sets on labelled rows, with intervals."""
    from conformix.metrics import measures  # noqa: PLC0415  late
    from conformix.storage import load_predictor  # noqa: PLC0415

    predictor = load_predictor(model_file, max_memory=max_memory)
    given = sources(
        file, model, classes=predictor.classes, labels=labels, label_column=label_column,
        drop=drop, models=models, part=part, kind=predictor.kind, max_memory=max_memory,
    )  # fmt: skip
    with working("reading"):
        batch = given.read(labelled=True)
    outputs = unnamed_if_single(batch.outputs)
    sets = predicted(predictor, outputs, alpha)
    level = predictor.alpha if alpha is None else alpha
    found = measures(sets, batch.labels_for(predictor.classes), alpha=level)
    pvalue = _shortfall(predictor, found[0].value, batch.n, level)
    verdict = _verdict(found[0].value, level, pvalue)
    drift = _drift(predictor, outputs, batch.labels)
    if wants_json(as_json):
        for one in found:
            value = None if math.isnan(one.value) else one.value
            write_json({"metric": one.name, "value": value, "low": one.low, "high": one.high})
        write_json(
            {"rows": batch.n, "alpha": level, "guarantee": predictor.fitted.ledger.kind,
             "verdict": verdict, "shortfall_pvalue": pvalue, "drift": drift}
        )  # fmt: skip
        return
    rows = [(WORDS[one.name], *_cells(one)) for one in found]
    notes = [
        *([] if drift is None else [f"{drift[0].upper()}{drift[1:]}."]),
        f"Guarantee {predictor.fitted.ledger}.",
    ]
    title = f"{model_file} on {batch.name}: {batch.n:,} rows, alpha = {level:g}"
    write_table(record_table(title, ("measure", "value", "95 % interval"), rows, notes))
    write_verdict(verdict)


def _cells(one: Any) -> tuple[str, str]:
    digits = 2 if "size" in one.name and "violation" not in one.name else 4
    value = "-" if math.isnan(one.value) else f"{one.value:.{digits}f}"
    if one.low is None:
        return value, ""
    return value, f"{one.low:.{digits}f} to {one.high:.{digits}f}"


def _shortfall(predictor: Any, coverage: float, n: int, alpha: float) -> float | None:
    """Return how likely so little coverage is; None where thresholds are not one for all rows."""
    from conformix.metrics.intervals import shortfall_pvalue  # noqa: PLC0415  late

    fitted = predictor.fitted
    if fitted.ledger.facts.calibration != "marginal":
        return None
    rank = fitted.ledger.facts.rank(fitted.n, alpha)
    return shortfall_pvalue(round(coverage * n), n, n_calibration=fitted.n, rank=rank)


def _verdict(coverage: float, alpha: float, pvalue: float | None) -> str:
    """Return in one sentence whether the promise was kept on these rows."""
    promised = 1 - alpha
    if coverage >= promised:
        return f"The promise is kept: coverage {coverage:.4f}, promised {promised:g}."
    below = f"Coverage {coverage:.4f} is below the promised {promised:g}"
    if pvalue is None:
        return f"{below}."
    if pvalue >= SUSPICIOUS:
        return f"{below}, by no more than chance allows (p = {pvalue:.2g})."
    doubt = "are these rows like those of the fit?"
    return f"{below}, by more than chance allows (p = {pvalue:.2g}): {doubt}"


def _drift(predictor: Any, outputs: dict[str, Any], labels: Any) -> str | None:
    """Return in one phrase whether the rows look like the calibration rows; None under exact."""
    import numpy as np  # noqa: PLC0415

    from conformix.drift import drift_report  # noqa: PLC0415  late
    from conformix.pipeline import Fitted  # noqa: PLC0415

    fitted = predictor.fitted
    if not isinstance(fitted, Fitted):
        return None
    checked = predictor.check(outputs)
    own = [
        fitted.rule.of_true_labels(scores, labels[rows])
        for rows, scores in predictor.blocks(checked)
    ]
    return drift_report(fitted.calibration, np.concatenate(own)).verdict
