"""``conformix compare``: all methods on the user's outputs, and one sentence at the end."""

from __future__ import annotations

from typing import Annotated

import typer

from conformix.cli.options import (
    Alpha,
    Json,
    Kind,
    Models,
    Normalize,
    OutFolder,
    Resolution,
    Rows,
    Scores,
    Seed,
    Split,
    Workers,
    listed,
)
from conformix.cli.output import reporting, wants_json, write_json, write_line, write_table

EXAMPLE = "conformix compare outputs.npz --alpha 0.05 --runs 40"


def compare(
    file: Annotated[
        str,
        typer.Argument(help="npz with 'labels' and one (n, K) array per model, or a data set."),
    ],
    *,
    alpha: Alpha = 0.1,
    split: Split = "vfcp",
    scores: Scores = "thr,aps,rank",
    models: Models = "",
    runs: Annotated[int, typer.Option(help="Number of random splits.")] = 40,
    share: Annotated[float, typer.Option(help="Share of the rows that calibrate.")] = 0.8,
    normalize: Normalize = "auto",
    resolution: Resolution = None,
    kind: Kind = "auto",
    rows: Rows = None,
    seed: Seed = 0,
    out: OutFolder = None,
    workers: Workers = None,
    as_json: Json = None,
) -> None:
    """Compare all methods on your outputs and labels, and say which to use."""
    from conformix.experiments import compare as run_comparison  # noqa: PLC0415  loads scipy

    with reporting("comparing") as progress:
        found = run_comparison(
            file, alpha=alpha, split=split, scores=listed(scores), models=listed(models),
            runs=runs, share=share, normalize=normalize, resolution=resolution, kind=kind,
            rows=rows, seed=seed, folder=out, workers=workers, progress=progress,
        )  # fmt: skip
    verdict = found.verdict
    if wants_json(as_json):
        for record in found.summary():
            write_json(record)
        saved = {
            "low": verdict.saving.low,
            "mean": verdict.saving.mean,
            "high": verdict.saving.high,
        }
        write_json({"verdict": verdict.sentence, "method": verdict.method, "saved": saved})
        return
    write_table(found.table())
    write_line(f"\n{verdict.sentence}")
