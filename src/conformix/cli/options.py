"""Options that several commands share, with one help text each, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from conformix import __version__
from conformix.atomic import check_writable
from conformix.cli.output import write_line
from conformix.errors import InvalidInput

SCALES = "Scale of averages: none, scale, ecdf or auto"

Json = Annotated[
    bool | None,
    typer.Option("--json/--table", help="JSON lines or tables; by default JSON in a pipe."),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Written by conformix fit.")]
Alpha = Annotated[float, typer.Option(help="Allowed miscoverage.")]
OtherAlpha = Annotated[
    float | None, typer.Option(help="Another level than the model's, chosen beforehand.")
]
SPLIT_WORDS = (
    "Who may see what: holdout (vfcp, the default), exact, all-rows (efcp), batch (dlcp) or "
    "batch+ (dlcp+)."
)
Split = Annotated[str, typer.Option(help=SPLIT_WORDS)]
SplitOrNone = Annotated[str | None, typer.Option(help=SPLIT_WORDS)]
Scores = Annotated[str, typer.Option(help="What is averaged, by commas; paper is thr,aps,rank.")]
ScoresOrNone = Annotated[
    str | None,
    typer.Option(
        help="What is averaged, by commas; auto, the default, leaves it to us, "
        "paper is thr,aps,rank."
    ),
]
Seed = Annotated[int, typer.Option(help="Root of all randomness.")]
Models = Annotated[str, typer.Option(help="Which models of a file, by commas; by default all.")]
Workers = Annotated[int | None, typer.Option(help="Processes; by default one per core.")]
Dask = Annotated[
    str | None, typer.Option(help="Run on a Dask cluster: its tcp:// address, or local.")
]
Rows = Annotated[int | None, typer.Option(help="Draw so many rows instead of taking all.")]
Resolution = Annotated[
    int | None, typer.Option(help="Of the weight grid; by default what suits the scores.")
]
Normalize = Annotated[str, typer.Option(help=f"{SCALES}.")]
Kind = Annotated[
    str, typer.Option(help="What a file holds: auto, probs, logits, logprobs, shares or binary.")
]
Renormalize = Annotated[
    bool,
    typer.Option("--renormalize", help="Divide probabilities that were rounded by their sums."),
]
AsIs = Annotated[
    bool, typer.Option("--as-is", help="Take a file as it is, however suspicious its numbers are.")
]
LabelsFrom = Annotated[
    int, typer.Option(min=0, max=1, help="Where labels that are numbers begin: 0 or 1.")
]
OutFolder = Annotated[
    Path | None, typer.Option(help="Folder that keeps the rows; a killed run goes on.")
]
File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="csv, tsv, parquet, npz, npy or pt with one column per class, or a bundled data set.",
        show_default=False,
    ),
]
NamedFiles = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="NAME=FILE", help="One file per model, instead of FILE."),
]
LabelFile = Annotated[
    str | None, typer.Option("--labels", metavar="FILE", help="Labels in a file of their own.")
]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column or array of the labels; by default labels, label, y, target, class."),
]
Drop = Annotated[
    str, typer.Option(help="Columns or arrays that are no outputs, by commas: id,text.")
]
Part = Annotated[
    str | None,
    typer.Option(metavar="FIRST:LAST", help="Only these rows, counted from 0: :5000 or 5000:."),
]
MaxMemory = Annotated[
    str, typer.Option(metavar="SIZE", help="What the files, a model among them, may take.")
]


def listed(text: str) -> tuple[str, ...]:
    """Return the items of a list by commas; commas in brackets and in quotes belong to an item."""
    items, depth, quoted = [""], 0, False
    for character in text:
        # An item that begins with a quote is quoted; quotes further on are those of an option.
        if character == '"' and (quoted or not items[-1].strip()):
            quoted = not quoted
            continue
        if not quoted:
            depth = max(depth + (character == "(") - (character == ")"), 0)
        if character == "," and not depth and not quoted:
            items.append("")
        else:
            items[-1] += character
    return tuple(item.strip() for item in items if item.strip())


def levels(text: str, option: str = "--alpha") -> tuple[float, ...]:
    """Return the numbers of a list by commas."""
    try:
        return tuple(float(one) for one in listed(text))
    except ValueError:
        raise InvalidInput(
            f"{option} takes numbers by commas, such as 0.05,0.1; got {text!r}."
        ) from None


def sources(
    file: str | None,
    named: Sequence[str] | None,
    *,
    classes: tuple[Any, ...] | None = None,
    labels: str | None = None,
    label_column: str | None = None,
    drop: str = "",
    models: str = "",
    part: str | None = None,
    kind: str = "auto",
    max_memory: str = "4G",
    renormalize: bool = False,
    labels_from: int = 0,
    keep: Sequence[str] = (),
) -> Any:
    """Return the `conformix.data.files.Sources` that the options of a command describe."""
    from conformix.data.files import Choice, Limits, Sources, parse_size  # noqa: PLC0415  late

    return Sources(
        file,
        by_name(named or ()),
        labels,
        Choice(label_column, listed(drop), classes, tuple(keep)),
        listed(models),
        part,
        kind,
        Limits(parse_size(max_memory)),
        renormalize,
        labels_from,
    )


def by_name(named: Sequence[str]) -> dict[str, str]:
    """Return files by the names of their models, from texts NAME=FILE."""
    files: dict[str, str] = {}
    for text in named:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise InvalidInput(f"--model takes NAME=FILE, such as vgg=vgg.csv; got {text!r}.")
        if name in files:
            raise InvalidInput(f"--model {name!r} is given twice.")
        files[name] = file
    return files


def unnamed_if_single(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return outputs by model; a single model needs no name, so any file of one fits it."""
    return {"": next(iter(outputs.values()))} if len(outputs) == 1 else outputs


def check_target(target: Path, inputs: Sequence[Path], endings: Sequence[str] = ()) -> None:
    """Refuse an output that would overwrite an input, or that cannot be written."""
    if endings and target.suffix.lower() not in endings:
        raise InvalidInput(
            f"{target} has the ending {target.suffix!r}; results end in {', '.join(endings)}."
        )
    check_writable(target)
    for source in inputs:
        same = source.resolve() == target.resolve()
        if same or (source.exists() and target.exists() and source.samefile(target)):
            raise InvalidInput(f"{target} is also an input; name another file for the result.")


def _version(asked: bool) -> None:
    if asked:
        write_line(f"conformix {__version__}")
        raise typer.Exit


def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Hold the options of all commands; `main` has read --debug already."""
