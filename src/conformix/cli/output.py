"""What commands write: tables on a terminal, JSON lines in a pipe, progress beside both.

The one door to the terminal: everything that a command writes goes through here. Texts from files
and arguments (names of files, classes and models, versions, rows of results) have what steers a
terminal written out (`conformix.errors.visible`). The only line breaks are those between the lines
that are written. A test keeps other writers out.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from conformix.errors import visible
from conformix.tables import Table

if TYPE_CHECKING:
    from rich.text import Text

# Called with how much is done, and how much there is.
Report = Callable[[int, int], None]


def write_line(text: str = "") -> None:
    """Write one line of text to the output."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def write_aside(text: str) -> None:
    """Write one line of text beside the output: errors and warnings."""
    sys.stderr.write(visible(text) + "\n")


def write_json(record: dict[str, Any]) -> None:
    """Write one record as a line of JSON; numbers that JSON lacks are null."""
    # JSON writes all but ASCII as escapes, and lets one control character of ASCII through.
    line = json.dumps(_plain(record), allow_nan=False).replace("\x7f", "\\u007f")
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def wants_json(asked: bool | None) -> bool:
    """Return whether to write JSON lines: as asked, else where nobody looks at a terminal."""
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
    from rich.console import Console  # noqa: PLC0415  an extra

    Console().print(_text(sentence, "bold"))


def write_table(table: Table) -> None:
    """Draw a table on a terminal; elsewhere write it as plain text."""
    table = _visible_table(table)
    if not sys.stdout.isatty():
        for line in table.text().split("\n"):
            write_line(line)
        return
    from rich.console import Console  # noqa: PLC0415

    console = Console()
    console.print(_text(table.title, "bold"))
    write_line()
    drawn = _drawn(table)
    console.print(drawn)
    if table.notes:
        write_line()
    for note in table.notes:
        console.print(_text(note, "dim"))


def _drawn(table: Table) -> Any:
    """Return the lines of a table as rich draws them."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415

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
    return drawn


def terminal_width() -> int:
    """Return how many characters a line of the terminal has."""
    from rich.console import Console  # noqa: PLC0415

    return Console().width


@contextmanager
def redrawing() -> Iterator[Callable[[Table, str], None]]:
    """Give a function that draws a table and a sentence in the place of those before."""
    from rich.console import Console, Group  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(), auto_refresh=False, vertical_overflow="visible") as live:

        def draw(table: Table, sentence: str) -> None:
            table = _visible_table(table)
            notes = [_text(note, "dim") for note in table.notes]
            parts = [_text(table.title, "bold"), _text(""), _drawn(table), _text(""), *notes]
            live.update(Group(*parts, _text(""), _text(sentence, "bold")), refresh=True)

        yield draw


def _visible_table(table: Table) -> Table:
    """Return a table whose cells are one line each and steer no terminal."""
    rows = tuple(tuple(map(visible, row)) for row in table.rows)
    header, notes = tuple(map(visible, table.header)), tuple(map(visible, table.notes))
    return Table(visible(table.title), header, rows, notes)


def _text(text: str, style: str = "") -> Text:
    """Return a text for a terminal, which is neither markup nor an order to it."""
    from rich.text import Text  # noqa: PLC0415

    return Text(visible(text), style=style)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on whose end is not known; nothing without a terminal."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(_text(f"{what} ...")):
        yield


@contextmanager
def reporting(what: str) -> Iterator[Report | None]:
    """Give a function that moves a progress bar with the time left; None without a terminal."""
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(visible(what), total=None)

        def moved(done: int, total: int) -> None:
            first = bar.tasks[0].total is None
            bar.update(task, completed=done, total=total)
            if first:  # rows from an earlier run say nothing about the speed of this one
                bar.reset(task, completed=done, total=total)

        yield moved
