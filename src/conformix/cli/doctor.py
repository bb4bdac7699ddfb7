"""``conformix doctor``: what is wrong with a file of outputs, and the command that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conformix.cli.options import (
    Alpha,
    Drop,
    File,
    Json,
    Kind,
    LabelColumn,
    LabelFile,
    LabelsFrom,
    MaxMemory,
    NamedFiles,
    Renormalize,
    sources,
)
from conformix.cli.output import wants_json, working, write_json, write_line
from conformix.cli.report import command_line
from conformix.cli.wording import in_options

EXAMPLE = "conformix doctor calibration.csv --test test.csv"


def doctor(
    file: File = None,
    *,
    alpha: Alpha = 0.1,
    test: Annotated[
        str | None, typer.Option(metavar="FILE", help="Rows that must not be among those of FILE.")
    ] = None,
    model: NamedFiles = None,
    labels: LabelFile = None,
    label_column: LabelColumn = None,
    drop: Drop = "",
    kind: Kind = "auto",
    renormalize: Renormalize = False,
    labels_from: LabelsFrom = 0,
    max_memory: MaxMemory = "4G",
    as_json: Json = None,
) -> None:
    """Say what is wrong with a file, and the right command."""
    from conformix.data.files.diagnosis import diagnose  # noqa: PLC0415  late

    source = sources(
        file, model, labels=labels, label_column=label_column, drop=drop, kind=kind,
        renormalize=renormalize, labels_from=labels_from, max_memory=max_memory,
    )  # fmt: skip
    missing = next((path for path in source.paths if not _there(path)), None)
    if missing is not None:
        source.read(labelled=False)  # says so
    other = None if test is None else sources(test, None, kind=kind, max_memory=max_memory)
    with working("looking"):
        found = diagnose(source, alpha=alpha, test=other)
    typed: dict[str, Any] = {
        "--model": model, "--labels": labels, "--label-column": label_column, "--drop": drop,
        "--kind": None if kind == "auto" else kind, "--alpha": None if alpha == 0.1 else alpha,
        "--labels-from": labels_from or None,
    }  # fmt: skip
    options = {"--renormalize": ""} | found.options if renormalize else found.options
    command = corrected(file, typed, options)
    if any(one.code == "decimal commas" for one in found.findings):  # there is more to be found
        command = command_line("doctor", [f"points{Path(str(file)).suffix}"], typed)
    show(found, command, str(file or "these files"), json_lines=wants_json(as_json))
    if any(one.serious for one in found.findings):
        raise typer.Exit(1)


def _there(path: Path) -> bool:
    from conformix.data import bundled  # noqa: PLC0415  late

    return path.exists() or str(path) in bundled.names()


def corrected(file: str | None, typed: dict[str, Any], options: dict[str, str]) -> str:
    """Return the command that fits a file with what was typed and what was found."""
    both = dict(typed)
    for name, value in options.items():
        joined = ",".join(filter(None, [str(both.get(name) or ""), value]))
        both[name] = joined if name == "--drop" else value
    flags = " --renormalize" if "--renormalize" in both else ""
    both.pop("--renormalize", None)
    return command_line("fit", [file] if file else [], {**both, "-o": "model.json"}) + flags


def show(found: Any, command: str, what: str, *, json_lines: bool) -> None:
    """Write the findings, one sentence each, and the command."""
    if json_lines:
        for one in found.findings:
            sentence = in_options(one.sentence)
            write_json({"finding": one.code, "sentence": sentence, "serious": one.serious,
                        "options": dict(one.options)})  # fmt: skip
        write_json({"findings": len(found.findings), "command": command})
        return
    if not found.findings:
        write_line(f"{what}: nothing suspicious was found.")
    for one in found.findings:
        write_line(f"{'!' if one.serious else '-'} {in_options(str(one))}")
    if found.options or not found.findings:
        write_line(f"{'the right command' if found.findings else 'next'}: {command}")
