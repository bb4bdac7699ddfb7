"""``conformix demo``: averaged scores on real outputs, as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformix.cli.options import Json
from conformix.cli.output import wants_json, write_json, write_line

EXAMPLE = "conformix demo --out demo"


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
