"""``conformix fit``: from labelled outputs to a model file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from conformix.cli.options import (
    Alpha,
    AsIs,
    Drop,
    File,
    Json,
    Kind,
    LabelColumn,
    LabelFile,
    LabelsFrom,
    MaxMemory,
    Models,
    NamedFiles,
    Normalize,
    Part,
    Renormalize,
    Resolution,
    ScoresOrNone,
    Seed,
    SplitOrNone,
    check_target,
    levels,
    listed,
    sources,
    unnamed_if_single,
)
from conformix.cli.output import record_table, wants_json, working, write_json, write_table
from conformix.cli.responses import fit_responses, fitted_table, refuse_options_of_labels
from conformix.errors import InvalidInput
from conformix.registry import unknown_name
from conformix.splits import in_plain_words

# What was done to the outputs before they were scored.
SAID = {
    "shares": "Every row was divided by its sum (renormalised).",
    "binary": "One column: the probability of the second of two classes; the first has the rest.",
    "logprobs": "Log-probabilities, checked: their exponentials sum to 1.",
}
EXAMPLE = "conformix fit calibration.csv -o model.json --alpha 0.05"


def fit(
    file: File = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model, a JSON file.")],
    alpha: Alpha = 0.1,
    split: SplitOrNone = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A method by the name that compare prints."),
    ] = None,
    scores: ScoresOrNone = None,
    seed: Seed = 0,
    normalize: Normalize = "auto",
    resolution: Resolution = None,
    guarantee: Annotated[
        str, typer.Option(help="marginal, or pac: for all but a share delta of the fits.")
    ] = "marginal",
    delta: Annotated[float, typer.Option(help="See --guarantee.")] = 0.1,
    calibration: Annotated[
        str, typer.Option(help="One threshold (marginal), or more: class, cluster, rc3p, vote.")
    ] = "marginal",
    fallback: Annotated[
        str | None,
        typer.Option(
            help="Classes with few rows under --calibration class or cluster: all (always in), "
            "pooled (one threshold together) or marginal (that of all rows)."
        ),
    ] = None,
    min_rows: Annotated[
        int | None, typer.Option(help="How many rows are not few; by default what alpha needs.")
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            help="classification, or regression: columns mean, sigma, q05, and the response."
        ),
    ] = "classification",
    y_range: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="What every response lies within: an assumption."),
    ] = None,
    model: NamedFiles = None,
    labels: LabelFile = None,
    label_column: LabelColumn = None,
    drop: Drop = "",
    models: Models = "",
    part: Part = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Unlabelled test rows, for the splits batch and batch+ and for scores that learn.",
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="Further rows without labels, for scores that learn."
        ),
    ] = None,
    kind: Kind = "auto",
    renormalize: Renormalize = False,
    labels_from: LabelsFrom = 0,
    as_is: AsIs = False,
    max_memory: MaxMemory = "4G",
    as_json: Json = None,
) -> None:
    """Weights and threshold from labelled outputs."""
    from conformix.data.files.diagnosis import refuse_nonsense  # noqa: PLC0415  late

    if check_task(task) == "regression":
        refuse_options_of_labels(
            model=model, labels=labels, models=models, labels_from=labels_from, method=method,
            unlabelled=unlabelled, fallback=fallback, min_rows=min_rows,
        )  # fmt: skip
        settings: dict[str, Any] = {
            "scores": "auto" if scores is None else listed(scores), "alpha": alpha,
            "split": split or "vfcp", "normalize": normalize, "guarantee": guarantee,
            "delta": delta, "calibration": calibration, "random_state": seed,
            "y_range": None if y_range is None else levels(y_range, "--y-range"),
        }  # fmt: skip
        if settings["scores"] == ("auto",):
            settings["scores"] = "auto"
        if resolution is not None:
            from conformix.search import GridSearch  # noqa: PLC0415  late

            settings["search"] = GridSearch(resolution)
        record = fit_responses(
            file, out, settings, test=test, column=label_column, drop=drop, part=part,
            max_memory=max_memory,
        )  # fmt: skip
        if wants_json(as_json):
            write_json(record)
        else:
            write_table(fitted_table(record))
        return
    if method is not None and split is not None:
        raise InvalidInput(
            "--method names its own split, as in average:efcp; leave --split out, or --method."
        )
    shared: dict[str, Any] = {"drop": drop, "models": models, "max_memory": max_memory}
    shared["label_column"] = label_column
    source = sources(
        file, model, labels=labels, part=part, kind=kind, renormalize=renormalize,
        labels_from=labels_from, **shared,
    )  # fmt: skip
    if test == ["each"]:
        raise InvalidInput(
            'test="each" predicts with the calibration rows themselves, which no model file holds: '
            "fit and predict in one Python process, or give a file of test rows (./each for one of "
            "that name)."
        )
    others = [*(test or ()), *(unlabelled or ())]
    check_target(out, [*source.paths, *(Path(one.rpartition("=")[2]) for one in others)])
    with working("reading"):
        batch = source.read(labelled=True)
        if not as_is:
            refuse_nonsense(batch, batch.name)
        tests = _rows_without_labels(test, batch, shared)
        further = _rows_without_labels(unlabelled, batch, shared)
    estimator = _estimator(
        None if scores is None else listed(scores), method, split or "vfcp", normalize, resolution,
        alpha=alpha, kind=batch.kind, guarantee=guarantee, delta=delta,
        calibration=_scheme(calibration, fallback=fallback, min_rows=min_rows), random_state=seed,
    )  # fmt: skip
    with working("searching weights"), source.told_in_lines():
        y = batch.labels_for(batch.classes)
        estimator.fit(
            unnamed_if_single(batch.outputs), y, test=tests, classes=batch.classes,
            unlabelled=further,
        )  # fmt: skip
    estimator.save(out)
    record = _record(estimator, batch, out)
    if method is not None:
        record["method"] = method
    if wants_json(as_json):
        write_json(record)
    else:
        write_table(_table(record))


def check_task(task: str) -> str:
    """Return the task, if it is one that there is."""
    if task not in ("classification", "regression"):
        raise unknown_name("task", task, ["classification", "regression"])
    return task


def _estimator(
    scores: tuple[str, ...] | None,
    method: str | None,
    split: str,
    normalize: str,
    resolution: int | None,
    **settings: Any,
) -> Any:
    """Return the estimator of a method, or of scores and a split."""
    from conformix.estimators.average import ScoreAverage  # noqa: PLC0415  late
    from conformix.search import GridSearch  # noqa: PLC0415

    if method is not None:
        from conformix.experiments.methods import Choices, estimator_of  # noqa: PLC0415
        from conformix.scores import PAPER  # noqa: PLC0415

        return estimator_of(method, Choices(scores or PAPER, normalize, resolution), **settings)
    return ScoreAverage(
        scores[0] if scores is not None and len(scores) == 1 else scores,
        split=split,
        search="auto" if resolution is None else GridSearch(resolution),
        normalize=normalize,
        **settings,
    )


def _scheme(calibration: str, **options: Any) -> Any:
    """Return the calibration of a name; options that were given are its fields."""
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return calibration
    from dataclasses import fields, replace  # noqa: PLC0415  late

    from conformix.calibration import resolve_calibration  # noqa: PLC0415

    scheme: Any = resolve_calibration(calibration)
    for name in given:
        if name not in {one.name for one in fields(scheme)}:
            raise InvalidInput(
                f"--{name.replace('_', '-')} is about classes with few rows, which --calibration "
                f"{calibration} does not single out; say --calibration class or cluster, or leave "
                "it out."
            )
    return replace(scheme, **given)


def _rows_without_labels(files: list[str] | None, batch: Any, shared: dict[str, Any]) -> Any:
    """Return the outputs on rows whose labels, where they have any, are not looked at."""
    if not files:
        return None
    named = [one for one in files if "=" in one]
    file = None if named else files[0]
    shared = shared | {"label_column": None}
    source = sources(file, named, classes=batch.classes, kind=batch.kind, **shared)
    return unnamed_if_single(source.read(labelled=False).outputs)


def _record(estimator: Any, batch: Any, out: Path) -> dict[str, Any]:
    facts = estimator.guarantee_.facts
    return {
        "model": str(out),
        "rows": batch.n,
        "classes": estimator.n_classes_,
        "kind": batch.kind,
        "alpha": estimator.predictor_.alpha,
        "split": facts.split,
        "n_tune": facts.n_tune,
        "n_calibrate": facts.n_cal,
        "normalize": estimator.normalizer_,
        "scores": list(estimator.score_names_),
        "weights": [float(weight) for weight in estimator.weights_],
        **blended(estimator.blend_),
        "held_out_size": estimator.held_out_size_,
        "guarantee": estimator.guarantee_.kind,
        "statement": str(estimator.guarantee_),
    }


def blended(blend: Any) -> dict[str, Any]:
    """Return what a blend is made of, where the scores were left to the library."""
    if blend is None:
        return {}
    pairs = zip(blend.columns, blend.coefficients, strict=True)
    found: dict[str, Any] = {"blend": {str(column): float(c) for column, c in pairs if c}}
    return found if blend.evidence is None else found | {"evidence": asdict(blend.evidence)}


def named_weights(record: dict[str, Any]) -> list[tuple[str, float]]:
    """Return what is averaged and its weights: of a blend what it is made of."""
    plain = zip(record["scores"], record["weights"], strict=True)
    coefficients = {name: record.get("evidence", {}).get(name) for name in ("spread", "top")}
    evidence = [(f"evidence.{name}", c) for name, c in coefficients.items() if c is not None]
    return [*(record["blend"].items() if record.get("blend") else plain), *evidence]


def _table(record: dict[str, Any]) -> Any:
    rows = [(name, f"{weight:.3f}") for name, weight in named_weights(record)]
    title = (
        f"{record['model']}: {record['rows']:,} rows of {record['classes']} classes "
        f"({record['kind']}), alpha = {record['alpha']:g}, split {in_plain_words(record['split'])}"
    )
    if "method" in record:
        title += f", method {record['method']}"
    notes = [SAID[record["kind"]]] if record["kind"] in SAID else []
    used = f"{record['n_tune']:,} rows chose the weights, {record['n_calibrate']:,} the threshold"
    size = record["held_out_size"]
    notes += [
        f"{used}; scale {record['normalize']}.",
        *([] if size is None else [f"Mean set size on rows apart from the search: {size:.2f}."]),
        f"Guarantee {record['statement']}.",
    ]
    return record_table(title, ("score", "weight"), rows, notes)
