"""``conformix monitor``: a stream as it runs, from its log."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from conformix.cli.options import Json, check_target
from conformix.cli.output import (
    record_table,
    redrawing,
    terminal_width,
    wants_json,
    write_json,
    write_line,
    write_table,
    write_verdict,
)
from conformix.cli.report import ENDINGS
from conformix.errors import InvalidInput
from conformix.online.alarm import at_most_a_million
from conformix.tables import Table

EXAMPLE = "conformix monitor stream --once"
BARS = "▁▂▃▄▅▆▇█"
# Characters of a curve: as many as the terminal leaves, between these.
NARROW, WIDE, OTHERS = 12, 72, 46
# Records taken in before the view is drawn again.
AT_ONCE = 20_000


def monitor(
    log: Annotated[Path, typer.Argument(help="The folder that record(...) of a stream writes.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Show what is there, and end.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 1.0,
    delta: Annotated[float, typer.Option(help="False-alarm rate of the alarm for drift.")] = 0.01,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the stream as an HTML page, and end.")
    ] = None,
    as_json: Json = None,
) -> None:
    """Watch a stream: coverage, sizes or widths, weights, drift."""
    from conformix.online.monitor import Monitor  # noqa: PLC0415  late

    if not every > 0:
        raise InvalidInput(f"--every must be a positive number of seconds; got {every:g}.")
    if out is not None:
        check_target(out, [log], ENDINGS)
    watched = Monitor(log, delta=delta)
    if out is not None:
        from conformix.report.stream import stream_report  # noqa: PLC0415  jinja2 is an extra

        watched.read()
        stream_report(watched).save(out)
        write_line(f"page: {out} ({out.stat().st_size / 1e3:.0f} kB)")
        return
    if wants_json(as_json):
        watched.read()
        write_json(watched.summary())
        return
    if once or not sys.stdout.isatty():  # what is no terminal cannot be drawn again
        watched.read()
        write_table(view(watched, terminal_width()))
        write_verdict(alarm_sentence(watched))
        return
    _follow(watched, every)


def _follow(watched: Any, every: float) -> None:
    """Draw the stream again and again, until it is closed or somebody has seen enough."""
    try:
        with redrawing() as draw:
            while True:
                there = watched.read(AT_ONCE)
                draw(view(watched, terminal_width()), alarm_sentence(watched))
                if watched.ended:
                    return
                if there < AT_ONCE:
                    time.sleep(every)
    except KeyboardInterrupt:  # the way to leave
        return


def view(watched: Any, width: int) -> Table:
    """Return a stream as a table: numbers over all labels, of late, and over time."""
    curves, told = watched.curves(), watched.summary()
    cells = min(max(width - OTHERS, NARROW), WIDE)
    several = len(watched.alphas) > 1
    lines = []

    def line(name: str, whole: str, recent: str, values: Any) -> None:
        lines.append((name, whole, recent, bars(values, cells)))

    for j, alpha in enumerate(watched.alphas):
        at = f" at {alpha:g}" if several else ""
        whole, late = told["coverage"][j], told["recent_coverage"]
        line(f"coverage{at}", _number(whole, 4), _number(late and late[j], 4),
             curves.coverage[:, j])  # fmt: skip
        whole, late = told["mean_size"], told["recent_size"]
        sizes = curves.size[:, j]  # the first sets are full, and would make all others look alike
        known = sizes[np.isfinite(sizes)]
        size = "set size" if told["answer"] == "set" else "width"
        line(f"{size}{at}", _number(whole and whole[j], 2), _number(late and late[j], 2),
             np.minimum(sizes, 4 * np.median(known)) if len(known) else sizes)  # fmt: skip
        if told["unbounded"][j]:
            line(f"unbounded{at}", f"{told['unbounded'][j]:,}", "", [])
        line(f"level{at}", f"{alpha:g}", _number(_last(curves.level[:, j]), 4), curves.level[:, j])
    for j, name in enumerate(watched.names):
        values = curves.weights[:, j]
        line(f"weight {name}", _number(_mean(values), 3), _number(_last(values), 3), values)
    if watched.alarm is not None:
        evidence = np.log10(np.maximum(curves.evidence, 1e-12))
        worth = at_most_a_million(watched.alarm.evidence_)
        line("evidence of drift", f"of {watched.alarm.threshold:g}", worth, evidence)
    state = "closed" if watched.ended else "open"
    waiting = f", {watched.unlabelled:,} sets without one" if watched.unlabelled else ""
    title = (
        f"{watched.folder.name}: {watched.rows:,} rows, {watched.labels:,} labels{waiting}; {state}"
    )
    header = ("", "all", f"last {len(watched.recent):,}", "over time")
    return record_table(title, header, lines, [f"Guarantee {watched.guarantee}."])


def alarm_sentence(watched: Any) -> str:
    """Return what the alarm says, and how often it says so for nothing."""
    if watched.alarm is None:
        return "No alarm: every score of this stream learns, so none of them stays the same."
    said = str(watched.alarm)
    return f"{said[0].upper()}{said[1:]}; {watched.alarm.statement}."


def bars(values: Any, cells: int) -> str:
    """Return numbers as bars from the least to the most, in so many characters at most.

    Examples
    --------
    >>> bars([0.0, 1.0, 2.0, 7.0], 4)
    '▁▂▃█'
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).any():
        return ""
    parts = [part[np.isfinite(part)] for part in np.array_split(numbers, min(cells, len(numbers)))]
    means = np.array([part.mean() if len(part) else np.nan for part in parts])
    low, high = np.nanmin(means), np.nanmax(means)
    places = np.rint((means - low) / (high - low) * (len(BARS) - 1)) if high > low else 0 * means
    return "".join(" " if np.isnan(place) else BARS[int(place)] for place in places)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _last(values: Any) -> float | None:
    return float(values[-1]) if len(values) else None


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
