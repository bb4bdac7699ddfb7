"""Where the rows of a command come from: the options that name files, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from conformix.atomic import check_writable
from conformix.cli.options import listed
from conformix.errors import InvalidInput

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
) -> Any:
    """Return the `conformix.data.files.Sources` that the options of a command describe.

    Examples
    --------
    >>> sources(None, ["vgg=vgg.csv"]).models
    {'vgg': 'vgg.csv'}
    """
    from conformix.data.files import Choice, Limits, Sources, parse_size  # noqa: PLC0415  late

    return Sources(
        file,
        by_name(named or ()),
        labels,
        Choice(label_column, listed(drop), classes),
        listed(models),
        part,
        kind,
        Limits(parse_size(max_memory)),
    )


def by_name(named: Sequence[str]) -> dict[str, str]:
    """Return files by the names of their models, from texts NAME=FILE.

    Examples
    --------
    >>> by_name(["vgg=a.csv", "resnet=b.csv"])
    {'vgg': 'a.csv', 'resnet': 'b.csv'}
    """
    found: dict[str, str] = {}
    for text in named:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise InvalidInput(f"--model takes NAME=FILE, such as vgg=vgg.csv; got {text!r}.")
        if name in found:
            raise InvalidInput(f"--model {name!r} is given twice.")
        found[name] = file
    return found


def unnamed_if_single(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return outputs by model; a single model needs no name, so any file of one fits it.

    Examples
    --------
    >>> unnamed_if_single({"vgg": 1}), list(unnamed_if_single({"vgg": 1, "resnet": 2}))
    ({'': 1}, ['vgg', 'resnet'])
    """
    return {"": next(iter(outputs.values()))} if len(outputs) == 1 else outputs


def check_target(target: Path, inputs: Sequence[Path], endings: Sequence[str] = ()) -> None:
    """Refuse an output that would overwrite an input, or that cannot be written.

    Parameters
    ----------
    target : Path
        Where the result goes.
    inputs : sequence of Path
        What the command reads.
    endings : sequence of str
        What the name may end in; empty for anything.
    """
    if endings and target.suffix.lower() not in endings:
        raise InvalidInput(
            f"{target} has the ending {target.suffix!r}; results end in {', '.join(endings)}."
        )
    check_writable(target)
    for given in inputs:
        same = given.resolve() == target.resolve()
        if same or (given.exists() and target.exists() and given.samefile(target)):
            raise InvalidInput(f"{target} is also an input; name another file for the result.")
