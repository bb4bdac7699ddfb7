"""``conformix report``: a model on labelled rows, as one HTML file that needs no network."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

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
    Part,
    Seed,
    check_target,
    sources,
    unnamed_if_single,
)
from conformix.cli.options import levels as parsed_levels
from conformix.cli.output import wants_json, working, write_json, write_line
from conformix.cli.responses import (
    is_of_responses,
    read_responses,
    refuse_options_of_labels,
)

EXAMPLE = "conformix report model.json test.csv -o report.html"
ENDINGS = (".html", ".htm")

ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Also write an HTML report; runs several levels of alpha."
    ),
]


def report(
    model_file: ModelFile,
    file: File = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The report, an HTML file.")],
    levels: Annotated[
        str, typer.Option(help="Levels that the page can show, by commas; by default nine.")
    ] = "",
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    model: NamedFiles = None,
    labels: LabelFile = None,
    label_column: LabelColumn = None,
    drop: Drop = "",
    models: Models = "",
    part: Part = None,
    labels_from: LabelsFrom = 0,
    max_memory: MaxMemory = "4G",
    seed: Seed = 0,
    as_json: Json = None,
) -> None:
    """Promised and measured, as one HTML page."""
    from conformix.estimators.average import load  # noqa: PLC0415  late
    from conformix.report import build_report  # noqa: PLC0415

    options = {
        "--levels": levels, "--title": title, "--model": model, "--labels": labels,
        "--label-column": label_column, "--drop": drop, "--models": models, "--part": part,
        "--seed": seed or None, "-o": out,
    }  # fmt: skip
    named = [model_file] if file is None else [model_file, file]
    command = command_line("report", named, options)
    if is_of_responses(model_file):
        refuse_options_of_labels(model=model, labels=labels, models=models, labels_from=labels_from)
        made = report_on_responses(
            model_file, file, out, command, levels=parsed_levels(levels, "--levels") or None,
            title=title, seed=seed, column=label_column, drop=drop, part=part,
            max_memory=max_memory,
        )  # fmt: skip
        write_summary(made, out, wants_json(as_json))
        return
    estimator = load(model_file, max_memory=max_memory)
    predictor = estimator.predictor_
    source = sources(
        file, model, classes=predictor.classes, labels=labels, label_column=label_column,
        drop=drop, models=models, part=part, kind=predictor.kind, max_memory=max_memory,
        labels_from=labels_from,
    )  # fmt: skip
    check_target(out, [Path(model_file), *source.paths], ENDINGS)
    with working("reading"):
        batch = source.read(labelled=True)
    with working("measuring"), source.told_in_lines():
        made = build_report(
            estimator,
            unnamed_if_single(batch.outputs),
            batch.labels_for(predictor.classes),
            class_names=batch.classes,
            alphas=parsed_levels(levels, "--levels") or None,
            title=title or f"{Path(model_file).stem} on {batch.name}",
            given={
                "command": command,
                **file_digests([Path(model_file), *source.paths]),
            },
            seed=seed,
        )
        made.save(out)
    write_summary(made, out, wants_json(as_json))


def report_on_responses(
    model_file: str,
    file: str | None,
    out: Path,
    command: str,
    *,
    levels: Any,
    title: str,
    seed: int,
    max_memory: str,
    **reading: Any,
) -> Any:
    """Write the report of a model of responses, and return it."""
    from conformix.regression import RegressionAverage  # noqa: PLC0415  late
    from conformix.report import build_report  # noqa: PLC0415

    estimator = RegressionAverage.load(model_file, max_memory=max_memory)
    check_target(out, [Path(model_file), Path(str(file))], ENDINGS)
    rows = read_responses(file, labelled=True, max_memory=max_memory, **reading)
    with working("measuring"):
        made = build_report(
            estimator,
            rows.outputs,
            rows.y,
            alphas=levels,
            title=title or f"{Path(model_file).stem} on {rows.path.stem}",
            given={"command": command, **file_digests([Path(model_file), rows.path])},
            seed=seed,
        )
        made.save(out)
    return made


def write_summary(made: Any, out: Path, json_lines: bool) -> None:
    """Say where the report is and what it says at the level of the fit."""
    start = made.rows.fitted_place
    sentence = made.measured.sentences[start]
    if json_lines:
        write_json(
            {"report": str(out), "bytes": out.stat().st_size, "alpha": made.rows.alphas[start],
             "coverage": float(made.measured.columns["coverage"][start, 0]), "verdict": sentence}
        )  # fmt: skip
        return
    write_line(sentence)
    write_line(f"report: {out} ({out.stat().st_size / 1e6:.1f} MB)")


def check_report(out: Path | None, inputs: list[Path]) -> None:
    """Refuse a report that cannot be written, before the work begins."""
    if out is not None:
        check_target(out, inputs, ENDINGS)


def write_comparison(
    data: str, out: Path, settings: dict[str, Any], command: str, inputs: list[Path]
) -> Any:
    """Compare at several levels, write the report, and return the comparison that was asked for."""
    from conformix.report import compare_report  # noqa: PLC0415  late

    facts = {"command": command, **file_digests(inputs)}
    made = compare_report(data, given=facts, **settings)
    made.report.save(out)
    return made.comparison


def command_line(name: str, arguments: list[str], options: dict[str, Any]) -> str:
    """Return a command as it would be typed; options that are None or empty are left out.

    Examples
    --------
    >>> command_line("report", ["m.json", "my rows.csv"], {"--drop": "", "-o": "r.html"})
    "conformix report m.json 'my rows.csv' -o r.html"
    """
    words = ["conformix", name, *arguments]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one != "":
                words += [option, str(one)]
    return shlex.join(words)


def file_digests(paths: list[Path]) -> dict[str, str]:
    """Return the sha256 of every file among `paths`, by its name."""
    digests = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                digests[f"{path.name}, sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
