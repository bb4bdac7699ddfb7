"""``conformix info``: what a model file or a data file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conformix.cli.options import Json, LabelColumn, MaxMemory
from conformix.cli.output import record_table, wants_json, write_json, write_line, write_table
from conformix.cli.responses import finite, is_of_responses
from conformix.splits import in_plain_words

EXAMPLE = "conformix info model.json"


def info(
    file: Annotated[
        str, typer.Argument(help="A model file, a file of outputs, or a bundled data set.")
    ],
    *,
    label_column: LabelColumn = None,
    max_memory: MaxMemory = "4G",
    as_json: Json = None,
) -> None:
    """Say what a model file or a data file holds."""
    model = Path(file).suffix.lower() == ".json"
    record = _model(file, max_memory) if model else _data(file, label_column, max_memory)
    if wants_json(as_json):
        write_json(record)
        return
    for number, table in enumerate((_model_tables if model else _data_tables)(record)):
        if number:
            write_line()
        write_table(table)


def _model(file: str, max_memory: str) -> dict[str, Any]:
    from conformix.fit.saved import load_predictor  # noqa: PLC0415  late

    if is_of_responses(file):
        return _of_responses(file, max_memory)
    predictor = load_predictor(file, max_memory=max_memory)
    fitted = predictor.fitted
    ledger = fitted.ledger
    facts = ledger.facts
    single = facts.split != "exact"
    return {
        "file": file,
        "type": "model",
        "alpha": predictor.alpha,
        "split": facts.split,
        "calibration": facts.calibration,
        "kind": predictor.kind,
        "models": [name for name in predictor.models if name],
        "n_classes": predictor.n_classes,
        "classes": None if predictor.classes is None else list(predictor.classes),
        "normalize": fitted.normalizer,
        "n_tune": facts.n_tune,
        "n_calibrate": fitted.n,
        "scores": [str(column) for column in predictor.columns],
        "weights": [float(weight) for weight in fitted.rule.weights],
        "threshold": _finite(fitted.threshold(predictor.alpha)) if single else None,
        "guarantee": ledger.kind,
        "ledger": _entries(ledger),
    }


def _of_responses(file: str, max_memory: str) -> dict[str, Any]:
    """Return what there is to say of a model of responses."""
    from conformix.regression import RegressionAverage  # noqa: PLC0415  late

    predictor = RegressionAverage.load(file, max_memory=max_memory).predictor_
    fitted, ledger = predictor.fitted, predictor.fitted.ledger
    single = ledger.facts.calibration == "marginal" and fitted.nested
    return {
        "file": file,
        "type": "model",
        "alpha": float(predictor.alpha),
        "split": ledger.facts.split,
        "calibration": ledger.facts.calibration,
        "kind": "responses",
        "models": [name for name in predictor.shapes if name],
        "n_classes": None,
        "classes": None,
        "normalize": fitted.normalizer,
        "n_tune": ledger.facts.n_tune,
        "n_calibrate": ledger.facts.n_cal,
        "scores": [str(column) for column in predictor.columns],
        "weights": [float(weight) for weight in fitted.rule.weights],
        "threshold": finite(-fitted.threshold(predictor.alpha)) if single else None,
        "y_range": None if predictor.y_range is None else [*map(finite, predictor.y_range)],
        "guarantee": ledger.kind,
        "ledger": _entries(ledger),
    }


def _entries(ledger: Any) -> list[dict[str, Any]]:
    return [
        {"source": e.source, "says": e.says, "needs": e.needs, "vacuous": e.vacuous}
        for e in ledger.entries()
    ]


def _finite(value: Any) -> Any:
    """Return a threshold for JSON, or several; one of minus infinity lets every label in."""
    import numpy as np  # noqa: PLC0415

    if np.ndim(value):
        return [_finite(one) for one in value]
    return float(value) if value > float("-inf") else None


def _model_tables(record: dict[str, Any]) -> list[Any]:
    weights = zip(record["scores"], record["weights"], strict=True)
    threshold = record["threshold"]
    exact = record["split"] == "exact"
    facts = [
        ("level", f"alpha = {record['alpha']:g}"),
        ("split", in_plain_words(record["split"])),
        ("calibration", record["calibration"]),
        ("outputs", f"{record['kind']} of {', '.join(record['models']) or 'one model'}"),
        ("classes", _few(record["classes"], record["n_classes"] or 0)),
        ("scale", record["normalize"]),
        ("rows", f"{record['n_tune']:,} for the weights, {record['n_calibrate']:,} to calibrate"),
        ("weights", ", ".join(f"{name} {weight:.3f}" for name, weight in weights)),
    ]
    if record["kind"] == "responses":
        facts = [fact for fact in facts if fact[0] != "classes"]
    if exact:
        facts.append(("threshold", "one per row and label"))
    elif record["kind"] == "responses" and record["calibration"] != "marginal":
        facts.append(("threshold", f"one per {record['calibration']}"))
    elif isinstance(threshold, list):
        facts.append(("threshold", f"{len(threshold):,}, by {record['calibration']}"))
    else:
        none = "none: the whole line" if record["kind"] == "responses" else "none: all labels"
        facts.append(("threshold", none if threshold is None else f"{threshold:.6g}"))
    ledger = [
        (one["source"], f"{one['says']}{' (says nothing)' if one['vacuous'] else ''}", one["needs"])
        for one in record["ledger"]
    ]
    return [
        record_table(f"{record['file']}: a fitted model", ("setting", "value"), facts, []),
        record_table("What is promised", ("by", "statement", "needs"), ledger, []),
    ]


def _few(names: list[Any] | None, n: int) -> str:
    if names is None:
        return f"{n:,}"
    first = ", ".join(str(name) for name in names[:6])
    return f"{n:,}: {first}{', ...' if n > 6 else ''}"


def _data(file: str, label_column: str | None, max_memory: str) -> dict[str, Any]:
    from conformix.data import bundled as datasets  # noqa: PLC0415  late
    from conformix.data.files import Choice, Contents, Limits, parse_size, read_contents  # noqa: PLC0415

    if file in datasets.names():
        data = datasets.load(file)
        contents = Contents(Path(file), data.outputs, data.labels, "labels", data.class_names)
    else:
        limits, choice = Limits(parse_size(max_memory)), Choice(label_column)
        contents = read_contents(file, limits=limits, choice=choice)
    return {
        "file": file,
        "type": "data",
        "arrays": [_array(name, values) for name, values in contents.models.items()],
        "others": contents.others,
        "classes": None if contents.classes is None else list(contents.classes),
        "labels": None
        if contents.labels is None
        else _labels(contents.label_name, contents.labels),
    }


def _array(name: str, values: Any) -> dict[str, Any]:
    from conformix.data.files import guess_kind  # noqa: PLC0415  late

    return {
        "name": name,
        "shape": list(values.shape),
        "dtype": values.dtype.name,
        "kind": guess_kind({name: values}),
        "low": float(values.min()) if values.size else None,
        "high": float(values.max()) if values.size else None,
    }


def _labels(name: str | None, labels: Any) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    from conformix.data.files import Labels  # noqa: PLC0415  late

    if isinstance(labels, Labels):
        counts = labels.counts()
        first = [labels.names[code] for code in labels.codes[:3].tolist()]
    else:
        counts = np.unique(labels, return_counts=True)[1]
        first = labels[:3].tolist()
    return {
        "name": name,
        "rows": len(labels),
        "different": len(counts),
        "fewest": int(counts.min()),
        "most": int(counts.max()),
        "first": first,
    }


def _data_tables(record: dict[str, Any]) -> list[Any]:
    rows = []
    for one in record["arrays"]:
        ends = "" if one["low"] is None else f"{one['low']:.4g} to {one['high']:.4g}"
        shape = " x ".join(f"{length:,}" for length in one["shape"])
        rows.append((one["name"] or "outputs", shape, one["dtype"], one["kind"], ends))
    rows += [(name, *what.split(" ", 1)[::-1], "", "") for name, what in record["others"].items()]
    labels = record["labels"]
    notes = []
    if record["classes"] is not None:
        notes.append(f"Classes, {_few(record['classes'], len(record['classes']))}.")
    if labels is None:
        notes.append("No labels: fit and evaluate need them (--label-column or --labels).")
    else:
        notes.append(
            f"Labels in {labels['name']!r}: {labels['rows']:,} rows, {labels['different']:,} "
            f"different, {labels['fewest']:,} to {labels['most']:,} rows of each."
        )
    title = f"{record['file']}: outputs of {len(record['arrays'])} model" + (
        "s" if len(record["arrays"]) != 1 else ""
    )
    return [record_table(title, ("array", "shape", "type", "looks like", "values"), rows, notes)]
