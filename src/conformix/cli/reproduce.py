"""``conformix reproduce``: experiments of the paper, or specs of the user's."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conformix.cli.options import (
    SCALES,
    Dask,
    Json,
    Kind,
    Resolution,
    Rows,
    Seed,
    Workers,
    levels,
    listed,
)
from conformix.cli.output import reporting, wants_json, write_json, write_line, write_table
from conformix.errors import InvalidInput
from conformix.tables import Table

if TYPE_CHECKING:
    from conformix.experiments import Results, Setup, Spec

EXAMPLE = "conformix reproduce table1 --data cifar100 --runs 100 --out results"


def reproduce(
    what: Annotated[
        str,
        typer.Argument(help="table1, fig2, fig3, models, ratios, all, or a TOML file of specs."),
    ],
    *,
    data: Annotated[str, typer.Option(help="A bundled data set, or an npz file.")] = "cifar100",
    runs: Annotated[int, typer.Option(help="Number of random splits.")] = 100,
    out: Annotated[Path, typer.Option(help="Folder of rows, tables and figures.")] = Path(
        "results"
    ),
    model: Annotated[
        str | None, typer.Option(help="Whose scores are averaged, of several models.")
    ] = None,
    alpha: Annotated[str, typer.Option(help="Levels, by commas; by default the paper's.")] = "",
    split: Annotated[
        str, typer.Option(help="Splits of the averages, by commas; by default the paper's.")
    ] = "",
    scores: Annotated[
        str, typer.Option(help="What is averaged, by commas; by default the paper's.")
    ] = "",
    normalize: Annotated[
        str | None, typer.Option(help=f"{SCALES}; by default ecdf for models, else scale.")
    ] = None,
    resolution: Resolution = None,
    kind: Kind = "auto",
    rows: Rows = None,
    seed: Seed = 0,
    workers: Workers = None,
    dask: Dask = None,
    as_json: Json = None,
) -> None:
    """Tables and figures of the paper, or your own."""
    from conformix.data.workers import connected  # noqa: PLC0415
    from conformix.experiments import Setup  # noqa: PLC0415  loads scipy

    json_lines = wants_json(as_json)
    with nullcontext() if dask is None else connected(dask, workers=workers):
        # All workers of a cluster take part.
        workers = workers if dask is None else None
        if what.endswith(".toml"):
            typed = {
                "--alpha": alpha,
                "--split": split,
                "--scores": scores,
                "--normalize": normalize,
            }
            option = next((name for name, value in typed.items() if value), None)
            if option:
                raise InvalidInput(
                    f"{what} says of every experiment what it is; set {option[2:]} there, not with "
                    f"{option}."
                )
            run_specs(what, out, workers, json_lines=json_lines)
            return
        setup = Setup(
            data, model=model, runs=runs, normalize=normalize, resolution=resolution, rows=rows,
            kind=kind, seed=seed, alphas=levels(alpha), splits=listed(split), scores=listed(scores),
        )  # fmt: skip
        run_paper(what, setup, out, workers, json_lines=json_lines)


def run_paper(what: str, setup: Setup, out: Path, workers: int | None, *, json_lines: bool) -> None:
    """Run experiments of the paper; write files, show tables and what follows from them."""
    from conformix.experiments import reproduce as reproduce_paper  # noqa: PLC0415
    from conformix.experiments import resolve_experiments  # noqa: PLC0415

    names = resolve_experiments(what, setup.data)
    with reporting(f"{what}, {setup.data}") as progress:
        made = reproduce_paper(names, setup, out, workers=workers, progress=progress)
    for name, product in made.items():
        if json_lines:
            files = sorted(str(path) for path in out.glob(f"{name}.*"))
            write_json({"experiment": name, "files": files, "findings": product.findings})
            continue
        if product.table is not None:
            write_table(product.table)
        for line in product.findings:
            write_line(line)
        write_line()
    if not json_lines:
        write_line(f"rows, tables and figures: {out}")


def run_specs(file: str, out: Path, workers: int | None, *, json_lines: bool) -> None:
    """Run the experiments of a TOML file; write rows, show a table of each."""
    from conformix.experiments import Results, read_specs, run  # noqa: PLC0415

    specs = read_specs(file)
    path = out / "rows.jsonl"
    with reporting(Path(file).stem) as progress:
        run(specs, path, workers=workers, progress=progress)
    for spec in specs:
        rows = run(spec, path, workers=1)
        if json_lines:
            for row in rows:
                write_json(row)
        else:
            write_table(summary(spec, Results(rows)))
    if not json_lines:
        write_line(f"rows: {path}")


def summary(spec: Spec, results: Results) -> Table:
    """Return coverage and size of every method at every level."""
    rows: list[tuple[str, ...]] = []
    for alpha in spec.alphas:
        rows += [()] if rows else []
        for method in spec.methods:
            coverage = results.estimate(method, alpha=alpha, field="coverage")
            size = results.estimate(method, alpha=alpha)
            rows.append(
                (
                    method,
                    f"{alpha:g}",
                    f"{coverage.mean:.4f} [{coverage.low:.4f}, {coverage.high:.4f}]",
                    f"{size.mean:.3f} [{size.low:.3f}, {size.high:.3f}]",
                    results.guarantee(method, alpha),
                )
            )
    header = ("method", "alpha", "coverage", "size", "guarantee")
    notes = (f"Means over {spec.runs} random splits of these rows, with 95 % t-intervals.",)
    return Table(f"{spec.data}, {spec.share:.0%} calibrate", header, tuple(rows), notes)
