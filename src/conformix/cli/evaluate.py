"""``conformix evaluate``: how good the sets of a model are on labelled rows."""

from __future__ import annotations

import math
from typing import Any

from conformix.cli.options import (
    Drop,
    File,
    Json,
    LabelColumn,
    LabelFile,
    LabelsFrom,
    MaxMemory,
    ModelFile,
    Models,
    NamedFiles,
    OtherAlpha,
    Part,
    sources,
    unnamed_if_single,
)
from conformix.cli.output import (
    record_table,
    wants_json,
    working,
    write_json,
    write_table,
    write_verdict,
)
from conformix.cli.predict import predicted
from conformix.cli.responses import (
    evaluated_responses,
    is_of_responses,
    refuse_options_of_labels,
)

EXAMPLE = "conformix evaluate model.json test.csv"


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
    labels_from: LabelsFrom = 0,
    max_memory: MaxMemory = "4G",
    as_json: Json = None,
) -> None:
    """Measure sets, or intervals, on labelled rows."""
    from conformix.fit.evaluation import evaluated  # noqa: PLC0415
    from conformix.fit.saved import load_predictor  # noqa: PLC0415
    from conformix.fit.verdict import LabelledRows  # noqa: PLC0415  late

    if is_of_responses(model_file):
        refuse_options_of_labels(model=model, labels=labels, models=models, labels_from=labels_from)
        result, ledger, name, n = evaluated_responses(
            model_file, file, alpha, column=label_column, drop=drop, part=part,
            max_memory=max_memory,
        )  # fmt: skip
        _write(result, ledger, f"{model_file} on {name}", n, as_json=as_json)
        return
    predictor = load_predictor(model_file, max_memory=max_memory)
    source = sources(
        file, model, classes=predictor.classes, labels=labels, label_column=label_column,
        drop=drop, models=models, part=part, kind=predictor.kind, max_memory=max_memory,
        labels_from=labels_from,
    )  # fmt: skip
    with working("reading"):
        batch = source.read(labelled=True)
    outputs = unnamed_if_single(batch.outputs)
    with source.told_in_lines():
        sets = predicted(predictor, outputs, alpha)
    level = predictor.alpha if alpha is None else alpha
    y = batch.labels_for(predictor.classes)
    result = evaluated(LabelledRows.of(predictor, outputs, y), level, sets)
    title = f"{model_file} on {batch.name}"
    _write(result, predictor.fitted.ledger, title, batch.n, as_json=as_json)


def _finite(number: float | None) -> float | None:
    """Return a number of JSON, which has neither NaN nor infinities."""
    return number if number is not None and math.isfinite(number) else None


def _write(result: Any, ledger: Any, title: str, n: int, *, as_json: bool | None) -> None:
    """Write what labelled rows say of a model."""
    from conformix.fit.evaluation import WORDS, cells  # noqa: PLC0415  late

    verdict, drift = result.verdict, None if result.drift is None else result.drift.verdict
    if wants_json(as_json):
        for one in result.measures:
            numbers = {"value": one.value, "low": one.low, "high": one.high}
            write_json({"metric": one.name} | {name: _finite(x) for name, x in numbers.items()})
        write_json(
            {"rows": n, "alpha": result.alpha, "guarantee": ledger.kind,
             "promised": verdict.promised, "verdict": verdict.sentence, "law": verdict.law.name,
             "shortfall_pvalue": verdict.pvalue, "drift": drift}
        )  # fmt: skip
        return
    lines = [(WORDS[one.name], *cells(one)) for one in result.measures]
    notes = [
        *([] if drift is None else [f"{drift[0].upper()}{drift[1:]}."]),
        f"Guarantee {ledger}.",
    ]
    title = f"{title}: {n:,} rows, alpha = {result.alpha:g}"
    write_table(record_table(title, ("measure", "value", "95 % interval"), lines, notes))
    write_verdict(verdict.sentence)
