"""``conformix choose``: which split and scores suit so many labelled rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from conformix.cli.options import Alpha, Json
from conformix.cli.output import wants_json, write_json, write_line

EXAMPLE = "conformix choose --rows 500 --classes 10 --alpha 0.05"


def choose(
    *,
    rows: Annotated[
        int, typer.Option(prompt="how many labelled rows have you", help="Labelled rows.")
    ],
    classes: Annotated[int, typer.Option(prompt="of how many classes", help="Classes.")],
    models: Annotated[int, typer.Option(help="How many models give outputs.")] = 1,
    alpha: Alpha = 0.1,
    as_json: Json = None,
) -> None:
    """Which split and scores suit your rows; asks what is missing."""
    from conformix.fit.choice import choose as chosen  # noqa: PLC0415  late

    choice = chosen(rows, classes, models=models, alpha=alpha)
    if wants_json(as_json):
        write_json(asdict(choice))
        return
    for line in str(choice).splitlines():
        write_line(line)
