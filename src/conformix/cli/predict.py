"""``conformix predict``: from a model file and outputs to prediction sets."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Annotated, Any

import typer

from conformix.cli.options import (
    Drop,
    File,
    Json,
    LabelColumn,
    MaxMemory,
    ModelFile,
    Models,
    NamedFiles,
    OtherAlpha,
    Part,
    check_target,
    listed,
    sources,
    unnamed_if_single,
)
from conformix.cli.output import (
    record_table,
    reporting,
    wants_json,
    working,
    write_json,
    write_line,
    write_table,
)
from conformix.cli.responses import (
    is_of_responses,
    predict_responses,
    refuse_options_of_labels,
)
from conformix.errors import InvalidInput

EXAMPLE = "conformix predict model.json new.csv -o sets.csv"
ENDINGS = (".csv", ".parquet", ".npz")
# Rows of a table on a terminal.
SHOWN = 10
# Numbers that are predicted between two steps of the progress bar.
STEP = 2**22


def predict(
    model_file: ModelFile,
    file: File = None,
    *,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="csv, parquet or npz; - is JSON lines, for a pipe."),
    ] = None,
    layout: Annotated[
        str,
        typer.Option(help="sets: a row per set; long: a row per label; wide: a column per class."),
    ] = "sets",
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="csv: ' before text that a spreadsheet computes."),
    ] = False,
    alpha: OtherAlpha = None,
    model: NamedFiles = None,
    label_column: LabelColumn = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Column of the rows' names, for the sets."),
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Columns to write beside the sets, by commas: date,text.")
    ] = "",
    drop: Drop = "",
    models: Models = "",
    part: Part = None,
    max_memory: MaxMemory = "4G",
    as_json: Json = None,
) -> None:
    """Prediction sets of new rows, or intervals, from a model."""
    from conformix.fit.saved import load_predictor  # noqa: PLC0415  late

    if is_of_responses(model_file):
        refuse_options_of_labels(model=model, models=models)
        predict_responses(
            model_file, file, out, alpha=alpha, id_column=id_column, keep=keep,
            escape_formulas=escape_formulas, as_json=as_json, max_memory=max_memory,
            column=label_column, drop=drop, part=part,
        )  # fmt: skip
        return
    predictor = load_predictor(model_file, max_memory=max_memory)
    source = sources(
        file, model, classes=predictor.classes, label_column=label_column, drop=drop,
        models=models, part=part, kind=predictor.kind, max_memory=max_memory,
        keep=list(dict.fromkeys([*([id_column] if id_column else []), *listed(keep)])),
    )  # fmt: skip
    target = None if out in (None, "-") else Path(str(out))
    if target is not None:
        check_target(target, [Path(model_file), *source.paths], ENDINGS)
    if escape_formulas and (target is None or target.suffix.lower() != ".csv"):
        raise InvalidInput("--escape-formulas is for csv files: -o sets.csv.")
    with working("reading"):
        batch = source.read(labelled=False)
    with source.told_in_lines():
        sets = predicted(predictor, unnamed_if_single(batch.outputs), alpha)
    sets.ids = None if id_column is None else batch.kept[id_column]
    kept = {name: batch.kept[name] for name in listed(keep)}
    if target is not None:
        write_sets(sets, target, layout, keep=kept, escape_formulas=escape_formulas)
        _write_summary(sets, target, json_lines=wants_json(as_json))
    elif out == "-" or wants_json(as_json):
        for row, labels in enumerate(sets.members()):
            named = {} if sets.ids is None else {"id": sets.ids[row]}
            own = named | {name: values[row] for name, values in kept.items()}
            write_json({"row": row, **own, "size": len(labels), "labels": labels})
    else:
        write_table(_first_rows(sets))


def predicted(predictor: Any, outputs: dict[str, Any], alpha: float | None) -> Any:
    """Return the sets of all rows, with a progress bar on long work."""
    import numpy as np  # noqa: PLC0415

    from conformix.predictions.sets import PredictionSets  # noqa: PLC0415  late

    n = len(next(iter(outputs.values())))
    step = max(1, STEP // (predictor.n_classes * len(predictor.columns)))
    # The checks of the whole file come first, so that errors name its rows.
    predictor.check(outputs)
    batches = []
    with reporting("predicting") as progress:
        for start in range(0, n, step):
            some = {name: values[start : start + step] for name, values in outputs.items()}
            batches.append(predictor.predict_set(some, alpha))
            if progress is not None:
                progress(min(start + step, n), n)
    order = np.concatenate([batch.order for batch in batches])
    return PredictionSets(np.concatenate([p.mask for p in batches]), predictor.classes, order)


def write_sets(
    sets: Any,
    target: Path,
    layout: str,
    *,
    keep: dict[str, Any] | None = None,
    escape_formulas: bool = False,
) -> None:
    """Write sets to a file whose ending says how, whole or not at all."""
    ending = target.suffix.lower()
    if ending == ".csv":
        sets.to_csv(target, layout, keep=keep, escape_formulas=escape_formulas)
    elif ending == ".parquet":
        sets.to_parquet(target, layout, keep=keep)
    else:
        import numpy as np  # noqa: PLC0415

        from conformix.atomic import write_whole  # noqa: PLC0415  late

        if layout != "sets":
            raise InvalidInput("an npz holds the sets as a mask (n, K); --layout does not apply.")
        arrays = {"mask": sets.mask, "sizes": sets.sizes}
        if sets.classes is not None:
            arrays["class_names"] = np.asarray(sets.classes)
        named = {} if sets.ids is None else {"id": sets.ids}
        arrays |= {name: np.asarray(values) for name, values in (named | (keep or {})).items()}

        def fill(file: IO[bytes]) -> None:
            np.savez_compressed(file, **arrays)

        write_whole(target, fill)


def _write_summary(sets: Any, target: Path, *, json_lines: bool) -> None:
    n, n_classes = sets.shape
    mean = float(sets.sizes.mean())
    if json_lines:
        write_json({"sets": str(target), "rows": n, "classes": n_classes, "mean_size": mean})
    else:
        write_line(f"{target}: {n:,} sets over {n_classes} classes, mean size {mean:.2f}")


def _first_rows(sets: Any) -> Any:
    n, n_classes = sets.shape
    rows = []
    for row in range(min(n, SHOWN)):
        labels = [str(label) for label in sets.labels(row)]
        text = ", ".join(labels[:SHOWN]) + (", ..." if len(labels) > SHOWN else "")
        rows.append((str(row if sets.ids is None else sets.ids[row]), str(len(labels)), text))
    left = [f"{n - SHOWN:,} more rows; -o sets.csv writes them all."] if n > SHOWN else []
    title = f"{n:,} sets over {n_classes} classes, mean size {sets.sizes.mean():.2f}"
    first = "row" if sets.ids is None else "id"
    return record_table(title, (first, "size", "labels, best first"), rows, left)
