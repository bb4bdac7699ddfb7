"""``conformix compare``: all methods on the user's outputs, and one sentence at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
    OutFolder,
    Part,
    Renormalize,
    Resolution,
    Rows,
    Scores,
    Seed,
    Split,
    Workers,
    check_target,
    listed,
    sources,
)
from conformix.cli.output import (
    reporting,
    wants_json,
    working,
    write_json,
    write_line,
    write_table,
    write_verdict,
)
from conformix.cli.report import ReportFile, check_report, command_line, write_comparison

EXAMPLE = "conformix compare outputs.npz --alpha 0.05 --runs 40"


def compare(
    file: File = None,
    *,
    alpha: Alpha = 0.1,
    split: Split = "vfcp",
    scores: Scores = "paper",
    models: Models = "",
    runs: Annotated[int, typer.Option(help="Number of random splits.")] = 40,
    share: Annotated[float, typer.Option(help="Share of the rows that calibrate.")] = 0.8,
    normalize: Normalize = "auto",
    resolution: Resolution = None,
    kind: Kind = "auto",
    renormalize: Renormalize = False,
    labels_from: LabelsFrom = 0,
    as_is: AsIs = False,
    rows: Rows = None,
    model: NamedFiles = None,
    labels: LabelFile = None,
    label_column: LabelColumn = None,
    drop: Drop = "",
    part: Part = None,
    max_memory: MaxMemory = "4G",
    seed: Seed = 0,
    out: OutFolder = None,
    workers: Workers = None,
    report: ReportFile = None,
    as_json: Json = None,
) -> None:
    """Every method on your rows, and which to use."""
    from conformix.experiments import compare as run_comparison  # noqa: PLC0415  loads scipy

    source = sources(
        file, model, labels=labels, label_column=label_column, drop=drop, part=part, kind=kind,
        max_memory=max_memory, renormalize=renormalize, labels_from=labels_from,
    )  # fmt: skip
    if renormalize:
        kind = "shares"
    check_report(report, source.paths)
    settings: dict[str, Any] = {
        "alpha": alpha, "split": split, "scores": listed(scores), "models": listed(models),
        "runs": runs, "share": share, "normalize": normalize, "resolution": resolution,
        "kind": kind, "rows": rows, "seed": seed,
    }  # fmt: skip
    with _one_file(source, out, as_is=as_is) as data, reporting("comparing") as progress:
        shared = {**settings, "folder": out, "workers": workers, "progress": progress}
        if report is None:
            comparison = run_comparison(data, **shared)
        else:
            typed = {f"--{name}": ",".join(v) if isinstance(v, tuple) else v
                     for name, v in settings.items()}  # fmt: skip
            file_options = {
                "--model": model, "--labels": labels, "--label-column": label_column,
                "--drop": drop, "--part": part, "--report": report,
            }  # fmt: skip
            command = command_line("compare", [file] if file else [], typed | file_options)
            comparison = write_comparison(data, report, shared, command, source.paths)
    verdict = comparison.verdict
    if wants_json(as_json):
        for record in comparison.summary():
            write_json(record)
        saved = {
            "low": verdict.saving.low,
            "mean": verdict.saving.mean,
            "high": verdict.saving.high,
        }
        write_json({"verdict": verdict.sentence, "method": verdict.method, "saved": saved})
        return
    write_table(comparison.table())
    write_verdict(verdict.sentence)
    if report is not None:
        write_line(f"report: {report}")


@contextmanager
def _one_file(source: Any, out: Path | None, *, as_is: bool) -> Iterator[str]:
    """Give the path of one npz that all workers read, or the name of a data set.

    Files of other formats are read once and gathered in an npz, in the folder of the rows where
    there is one. So are those of which only some rows or arrays count.
    """
    from conformix.data import bundled as datasets  # noqa: PLC0415  late
    from conformix.data.files.diagnosis import refuse_nonsense  # noqa: PLC0415

    plain = not (source.labels or source.part or source.choice.label or source.choice.drop)
    plain = plain and not source.labels_from
    ready = source.file is not None and (
        source.file in datasets.names() or Path(source.file).suffix.lower() == ".npz"
    )
    if plain and ready:
        batch = source.read(labelled=True)  # what is wrong is said before the work begins
        if not as_is and source.file not in datasets.names():
            refuse_nonsense(batch, batch.name)
        yield source.file
        return
    with working("reading"):
        batch = source.read(labelled=True)
        if not as_is:
            refuse_nonsense(batch, batch.name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else out
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{batch.name or 'outputs'}.npz"
        check_target(path, source.paths)
        write_batch(batch, path)
        yield str(path)


def write_batch(batch: Any, path: Path) -> None:
    """Write outputs and labels as an npz, whole or not at all."""
    import numpy as np  # noqa: PLC0415

    from conformix.atomic import write_whole  # noqa: PLC0415  late

    arrays = {model or "outputs": values for model, values in batch.outputs.items()}
    arrays["labels"] = batch.labels
    if batch.classes is not None:
        arrays["class_names"] = np.asarray([str(name) for name in batch.classes])
    write_whole(path, lambda file: np.savez(file, **arrays))
