"""What commands write: tables on a terminal, JSON lines in a pipe, progress beside both."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from conformix.tables import Table

# Called with how much is done, and how much there is.
Report = Callable[[int, int], None]

CONTROL = dict.fromkeys((*range(10), *range(11, 32), *range(127, 160)), "\ufffd")


def wants_json(asked: bool | None) -> bool:
    """Return whether to write JSON lines: as asked, else where nobody looks at a terminal.

    Examples
    --------
    >>> wants_json(True)
    True
    """
    return not sys.stdout.isatty() if asked is None else asked


def write_json(record: dict[str, Any]) -> None:
    """Write one record as a line of JSON."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def write_line(text: str = "") -> None:
    """Write a line of text."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def record_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> Table:
    """Return a table of texts; control characters in names from files steer no terminal."""

    def plain(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(text.translate(CONTROL) for text in texts)

    return Table(plain([title])[0], plain(header), tuple(map(plain, rows)), plain(notes))


def write_verdict(sentence: str) -> None:
    """Write the sentence that a command ends in, apart from what stands before."""
    if not sys.stdout.isatty():
        write_line(f"\n{sentence}")
        return
    console = Console()
    console.print()
    console.print(Text(sentence, style="bold"))


def write_table(table: Table) -> None:
    """Draw a table on a terminal; elsewhere write it as plain text."""
    if not sys.stdout.isatty():
        write_line(table.text())
        return
    console = Console()
    console.print(Text(table.title, style="bold"))
    console.print()
    drawn = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(table.header):
        words = " ".join([name, *(row[place] for row in table.rows if row)]).split()
        side: Any = table.sides[place]
        # Texts of their own: names such as [a] are no markup. No word is broken in two.
        drawn.add_column(Text(name), justify=side, min_width=max(map(len, words)))
    for row in table.rows:
        if row:
            drawn.add_row(*(Text(cell) for cell in row))
        else:
            drawn.add_section()
    console.print(drawn)
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(Text(note, style="dim"))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on whose end is not known; nothing without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} ..."):
        yield


@contextmanager
def reporting(what: str) -> Iterator[Report | None]:
    """Give a function that moves a progress bar with the time left; None without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def moved(done: int, total: int) -> None:
            first = bar.tasks[0].total is None
            bar.update(task, completed=done, total=total)
            if first:  # rows from an earlier run say nothing about the speed of this one
                bar.reset(task, completed=done, total=total)

        yield moved
