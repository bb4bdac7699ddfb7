"""What is wrong with a file, one thing after the other, and the options that put it right.

A file is read as a command would read it. What is refused, or found in what was read
(`conformix.data.inspection`), is put right by options and the file is read again, until nothing new
is found: the options of all rounds are the corrected command.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from conformix.data.files.batch import Batch, Sources
from conformix.data.files.contents import common_prefix
from conformix.data.inspection import Finding, SuspectOutputsWarning, look_at, refusal
from conformix.errors import InvalidInput, warn

# A file has few things wrong with it, or is another file.
MOST_ROUNDS = 6
# Lines that are looked at to tell text from numbers.
LINES = 300
DECIMAL_COMMA = re.compile(r'^\s*"?-?\d+,\d+"?\s*$')


@dataclass(frozen=True)
class Diagnosis:
    """What was found in a file, and the options that put it right."""

    findings: tuple[Finding, ...]
    options: dict[str, str]
    readable: bool  # whether the file is read with these options


def diagnose(sources: Sources, *, alpha: float = 0.1, test: Sources | None = None) -> Diagnosis:
    """Return what is wrong with a file of outputs, and with which options it would be right."""
    findings: dict[str, Finding] = {}
    options: dict[str, str] = {}
    readable = False
    for _ in range(MOST_ROUNDS):
        fresh, readable = _round(sources, alpha, test)
        fresh = [one for one in fresh if one.sentence not in findings]
        findings |= {one.sentence: one for one in fresh}
        added = [one.options for one in fresh if one.options]
        if not added:
            break
        before = sources
        for some in added:
            options, sources = _with(options, sources, some)
        if sources == before:
            break
    return Diagnosis(tuple(findings.values()), options, readable)


def _round(sources: Sources, alpha: float, test: Sources | None) -> tuple[list[Finding], bool]:
    """Return what one reading finds, and whether it came to an end."""
    try:
        batch = sources.read(labelled=True)
    except InvalidInput as error:
        return _of_refusal(sources, str(error))
    other = None
    if test is not None:
        other = _outputs(replace(test, choice=replace(sources.choice, classes=batch.classes)))
    return list(of_batch(batch, alpha=alpha, other=other)), True


def of_batch(batch: Batch, *, alpha: float = 0.1, other: Any = None) -> tuple[Finding, ...]:
    """Return what is suspicious about rows that were read."""
    return look_at(
        batch.outputs, batch.labels, kind=batch.kind, classes=batch.classes, alpha=alpha,
        other=other,
    )  # fmt: skip


def refuse_nonsense(batch: Batch, where: str) -> None:
    """Refuse rows on which a fit would be worthless, and warn of what is worth a look."""
    for finding in of_batch(batch):
        told = " ".join(f"{name} {value}".strip() for name, value in finding.options.items())
        sentence = finding.sentence.rstrip(".")
        if finding.serious:
            # What Python's words say already the shell says in its own.
            said = any(word in sentence for word in ("kind=", "renormalize="))
            cure = f": {told}" if told and not said else ""
            raise InvalidInput(
                f"{where}: {sentence}{cure} (conformix doctor shows all that is found, --as-is "
                "takes the file as it is)."
            )
        if finding.code != "few rows":  # which has a warning of its own
            warn(f"{where}: {sentence}.", SuspectOutputsWarning)


def _outputs(sources: Sources) -> dict[str, Any] | None:
    try:
        return sources.read(labelled=False).outputs
    except InvalidInput:
        return None


def _with(options: dict[str, str], sources: Sources, added: Any) -> tuple[dict[str, str], Sources]:
    """Return options and sources with some more options."""
    for name, value in added.items():
        if name == "--drop":
            dropped = (*sources.choice.drop, value)
            sources = replace(sources, choice=replace(sources.choice, drop=dropped))
            options = options | {name: ",".join(filter(None, [options.get(name), value]))}
            continue
        if name == "--label-column":
            sources = replace(sources, choice=replace(sources.choice, label=value))
        elif name == "--labels-from":
            sources = replace(sources, labels_from=int(value))
        elif name == "--kind":
            sources = replace(sources, kind=value)
        elif name == "--renormalize":
            sources = replace(sources, renormalize=True)
        options = options | {name: value}
    return options, sources


def _of_refusal(sources: Sources, sentence: str) -> tuple[list[Finding], bool]:
    """Return what a refusal is about, as far as the text of the file shows."""
    path = Path(sources.file or "")
    columns = _table(path) if path.suffix.lower() in (".csv", ".tsv") else None
    if columns is not None:
        finding = _decimal_commas(columns, path) or _text_column(columns, sources)
        if finding is not None:
            return [finding], False
    if "rounded too much" in sentence:
        return [Finding("rounding", sentence, {"--renormalize": ""}, serious=True)], False
    if "has no labels" in sentence:
        unlabelled = _without_labels(sources)
        return (unlabelled, True) if unlabelled else ([], True)
    if "column without a name" in sentence:
        return [Finding("unnamed column", sentence, serious=True)], False
    if "labels for" in sentence:
        return [Finding("other length", sentence, serious=True)], False
    return [refusal(sentence)], False


def _table(path: Path) -> dict[str, list[str]] | None:
    """Return the first cells of every column of a csv file, as text; None where it is none."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(islice(file, LINES))
    except (OSError, UnicodeDecodeError):
        return None
    if len(lines) < 2:
        return None
    delimiter = max(",;\t", key=lines[0].count)
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    header = [name.strip() for name in rows[0]]
    body = [row for row in rows[1:] if len(row) == len(header)]
    if not body or len(set(header)) < len(header):
        return None
    return {name: [row[j] for row in body] for j, name in enumerate(header)}


def _decimal_commas(columns: dict[str, list[str]], path: Path) -> Finding | None:
    cells = [cell for column in columns.values() for cell in column]
    commas = sum(bool(DECIMAL_COMMA.match(cell)) for cell in cells)
    if commas <= len(cells) / 4:
        return None
    example = next(cell for cell in cells if DECIMAL_COMMA.match(cell)).strip()
    return Finding("decimal commas", (
        f"{path} writes numbers with a comma ({example}); write points, as in: "
        f"sed 's/,/./g' {path} > points{path.suffix}."
    ), serious=True)  # fmt: skip


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _text_column(columns: dict[str, list[str]], sources: Sources) -> Finding | None:
    """Return the first column of text: the labels where it names the others, else one to drop."""
    known = {sources.choice.label, *sources.choice.drop}
    names = [name for name in columns if name not in known]
    texts = [name for name in names if not all(map(_is_number, columns[name]))]
    usual = ("labels", "label", "y", "target", "class")
    if sources.choice.label is None:
        texts = [name for name in texts if name not in usual]
    numbers = [name for name in names if name not in texts]
    prefix = common_prefix(numbers)
    classes = {*numbers, *(name[len(prefix) :] for name in numbers)}
    for name in texts:
        values = {cell.strip() for cell in columns[name]}
        has_labels = any(one in columns for one in usual) or sources.choice.label is not None
        if values <= classes and not has_labels:
            return Finding("label column", (
                f"column {name!r} holds names of the other columns: it seems to be the label."
            ), {"--label-column": name}, serious=True)  # fmt: skip
    for name in texts:
        example = columns[name][0].strip()[:40]
        return Finding("text column", (
            f"column {name!r} holds text such as {example!r} and is no output; leave it out."
        ), {"--drop": name}, serious=True)  # fmt: skip
    return None


def _without_labels(sources: Sources) -> list[Finding]:
    """Return the column that may be the label of a file which seems to have none."""
    try:
        batch = sources.read(labelled=False)
    except InvalidInput as error:
        return [refusal(str(error))]
    classes: Sequence[Any] = batch.classes or ()
    for values in batch.outputs.values():
        array = np.asarray(values)
        if array.ndim != 2:
            continue
        for j, name in enumerate(classes):
            column, k = array[:, j], array.shape[1] - 1
            whole = (column == np.round(column)).all() and column.min() >= 0 and column.max() <= k
            others = np.delete(array, j, axis=1)
            if whole and len(np.unique(column)) > 1 and not (others == np.round(others)).all():
                return [Finding("label column", (
                    f"column {name!r} holds whole numbers from {column.min():.0f} to "
                    f"{column.max():.0f}: it seems to be the label."
                ), {"--label-column": str(name)}, serious=True)]  # fmt: skip
    return list(of_batch(batch))
