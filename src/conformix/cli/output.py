"""What commands write: tables on a terminal, JSON lines in a pipe, progress beside both."""

from __future__ import annotations

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

from conformix.cli.door import write_json as write_json  # noqa: PLC0414  commands look here
from conformix.cli.door import write_line as write_line  # noqa: PLC0414
from conformix.errors import visible
from conformix.tables import Table

# Called with how much is done, and how much there is.
Report = Callable[[int, int], None]


def wants_json(asked: bool | None) -> bool:
    """Return whether to write JSON lines: as asked, else where nobody looks at a terminal.

    Examples
    --------
    >>> wants_json(True)
    True
    """
    return not sys.stdout.isatty() if asked is None else asked


def record_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> Table:
    """Return a table of texts."""
    return Table(title, tuple(header), tuple(map(tuple, rows)), tuple(notes))


def write_verdict(sentence: str) -> None:
    """Write the sentence that a command ends in, apart from what stands before."""
    write_line()
    if not sys.stdout.isatty():
        write_line(sentence)
        return
    Console().print(_text(sentence, "bold"))


def write_table(table: Table) -> None:
    """Draw a table on a terminal; elsewhere write it as plain text."""
    table = _visible_table(table)
    if not sys.stdout.isatty():
        for line in table.text().split("\n"):
            write_line(line)
        return
    console = Console()
    console.print(_text(table.title, "bold"))
    write_line()
    drawn = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(table.header):
        words = " ".join([name, *(row[place] for row in table.rows if row)]).split()
        side: Any = table.sides[place]
        # Texts of their own: names such as [a] are no markup. No word is broken in two.
        drawn.add_column(_text(name), justify=side, min_width=max(map(len, words), default=0))
    for row in table.rows:
        if row:
            drawn.add_row(*map(_text, row))
        else:
            drawn.add_section()
    console.print(drawn)
    if table.notes:
        write_line()
    for note in table.notes:
        console.print(_text(note, "dim"))


def _visible_table(table: Table) -> Table:
    """Return a table whose cells are one line each and steer no terminal."""
    rows = tuple(tuple(map(visible, row)) for row in table.rows)
    header, notes = tuple(map(visible, table.header)), tuple(map(visible, table.notes))
    return Table(visible(table.title), header, rows, notes)


def _text(text: str, style: str = "") -> Text:
    """Return a text for a terminal, which is neither markup nor an order to it."""
    return Text(visible(text), style=style)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on whose end is not known; nothing without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(_text(f"{what} ...")):
        yield


@contextmanager
def reporting(what: str) -> Iterator[Report | None]:
    """Give a function that moves a progress bar with the time left; None without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(visible(what), total=None)

        def moved(done: int, total: int) -> None:
            first = bar.tasks[0].total is None
            bar.update(task, completed=done, total=total)
            if first:  # rows from an earlier run say nothing about the speed of this one
                bar.reset(task, completed=done, total=total)

        yield moved
