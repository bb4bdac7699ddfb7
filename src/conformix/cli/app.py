"""The commands, each with its options and an example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conformix import __version__
from conformix.cli.output import reporting, wants_json, write_json, write_line, write_table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Smaller prediction sets, same guarantee: averaged conformity scores.",
    epilog="Example: conformix compare outputs.npz --alpha 0.05",
)

Json = Annotated[
    bool | None,
    typer.Option("--json/--table", help="JSON lines or tables; by default JSON in a pipe."),
]
Seed = Annotated[int, typer.Option(help="Root of all randomness.")]
Workers = Annotated[int | None, typer.Option(help="Processes; by default one per core.")]
Rows = Annotated[int | None, typer.Option(help="Draw so many rows instead of taking all.")]
Resolution = Annotated[
    int | None, typer.Option(help="Of the weight grid; by default what suits the scores.")
]
SCALES = "Scale of averages: none, scale, ecdf or auto"
Kind = Annotated[str, typer.Option(help="What a file holds: auto, probs or logits.")]


def command() -> Any:
    """Return the command line as one callable."""
    return typer.main.get_command(app)


def _version(asked: bool) -> None:
    if asked:
        write_line(f"conformix {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Hold the options that all commands share; `main` has read them already."""


@app.command(epilog="Example: conformix demo --out demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the picture.")] = Path("demo"),
    as_json: Json = None,
) -> None:
    """Averaged scores on CIFAR-100: a table, and a picture of all weights."""
    from conformix.experiments.demo import SCORES, Demo, table  # noqa: PLC0415  loads scipy

    case = Demo.load()
    if wants_json(as_json):
        from dataclasses import asdict  # noqa: PLC0415

        for row in case.rows():
            write_json(asdict(row))
        write_json({"picture": str(case.draw(out))})
        return
    write_line(case.title)
    for line in table(case.rows()):
        write_line(line)
    write_line(f"\nset size over the weights of {', '.join(SCORES)}: {case.draw(out)}")


@app.command(epilog="Example: conformix compare outputs.npz --alpha 0.05 --runs 40")
def compare(
    file: Annotated[
        str,
        typer.Argument(help="npz with 'labels' and one (n, K) array per model, or a data set."),
    ],
    *,
    alpha: Annotated[float, typer.Option(help="Allowed miscoverage.")] = 0.1,
    split: Annotated[str, typer.Option(help="Under which split weights are tuned.")] = "vfcp",
    scores: Annotated[str, typer.Option(help="What is averaged, by commas.")] = "thr,aps,rank",
    models: Annotated[str, typer.Option(help="Which models, by commas; by default all.")] = "",
    runs: Annotated[int, typer.Option(help="Number of random splits.")] = 40,
    share: Annotated[float, typer.Option(help="Share of the rows that calibrate.")] = 0.8,
    normalize: Annotated[str, typer.Option(help=f"{SCALES}.")] = "auto",
    resolution: Resolution = None,
    kind: Kind = "auto",
    rows: Rows = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder that keeps the rows; a killed run goes on.")
    ] = None,
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


@app.command(epilog="Example: conformix reproduce table1 --data cifar100 --runs 100 --out results")
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
    normalize: Annotated[
        str | None, typer.Option(help=f"{SCALES}; by default ecdf for models, else scale.")
    ] = None,
    resolution: Resolution = None,
    kind: Kind = "auto",
    rows: Rows = None,
    seed: Seed = 0,
    workers: Workers = None,
    as_json: Json = None,
) -> None:
    """Run the experiments of the paper, or your own, and write tables and figures."""
    from conformix.cli.reproduce import run_paper, run_specs  # noqa: PLC0415  loads scipy
    from conformix.experiments import Setup  # noqa: PLC0415

    json_lines = wants_json(as_json)
    if what.endswith(".toml"):
        run_specs(what, out, workers, json_lines=json_lines)
        return
    setup = Setup(
        data, model=model, runs=runs, normalize=normalize, resolution=resolution, rows=rows,
        kind=kind, seed=seed,
    )  # fmt: skip
    run_paper(what, setup, out, workers, json_lines=json_lines)


def listed(text: str) -> tuple[str, ...]:
    """Return the parts of a list by commas; commas inside brackets belong to a part.

    Examples
    --------
    >>> listed("thr, raps(penalty=0.1, k_reg=2)")
    ('thr', 'raps(penalty=0.1, k_reg=2)')
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts if part.strip())
