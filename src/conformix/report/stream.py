"""The page of a stream: what a monitor has read of its log, as one HTML file.

The charts are drawn here, as SVG; the page has no script at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conformix import __version__
from conformix.errors import InvalidInput
from conformix.fit.saved.files import write
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray
from conformix.online.monitor import Curves, Monitor

WIDTH, HEIGHT = 560, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 34
COLOURS = 8


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    values: FloatArray
    style: str


class Chart(NamedTuple):
    """A chart, as SVG, with its caption."""

    title: str
    svg: str
    caption: str
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StreamReport:
    """Everything that the page of a stream shows.

    Parameters
    ----------
    title : str
        The name of the log.
    summary : dict
        `Monitor.summary`.
    guarantee : Guarantee
        What holds after the last label.
    alarm : tuple of str, or None
        What the alarm says, and what it promises.
    curves : Curves
        The stream in stretches.
    charts : tuple of Chart
        Drawings of the curves.
    settings : tuple of pairs of str
        How the stream was set up.

    Examples
    --------
    >>> import tempfile
    >>> import conformix as cx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     online = cx.OnlineAverage("thr", alpha=0.4).record(f"{folder}/log")
    ...     _ = online.run([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 0])
    ...     monitor = Monitor(f"{folder}/log")
    ...     _ = monitor.read()
    ...     online.close()
    >>> found = stream_report(monitor)
    >>> isinstance(found, StreamReport), found.summary["labels"]
    (True, 3)
    """

    title: str
    summary: dict[str, Any]
    guarantee: Guarantee
    alarm: tuple[str, str] | None
    curves: Curves
    charts: tuple[Chart, ...]
    settings: tuple[tuple[str, str], ...]

    def html(self) -> str:
        """Return the page: one text that needs nothing else (needs jinja2)."""
        from conformix.report.page import stream_page  # noqa: PLC0415  jinja2 is an extra

        return stream_page(self)

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all, and return its path."""
        target = Path(path)
        if target.is_dir():
            raise InvalidInput(f"{target} is a folder; name a file, such as stream.html in it.")
        write(target, self.html().encode())
        return target


def stream_report(monitor: Monitor, *, title: str = "") -> StreamReport:
    """Return the report of a stream, from what a monitor has read so far.

    Parameters
    ----------
    monitor : Monitor
        After `Monitor.read`.
    title : str
        Title of the page; by default the name of the log.

    Examples
    --------
    >>> import tempfile
    >>> import conformix as cx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     online = cx.OnlineAverage("thr", alpha=0.4).record(f"{folder}/log")
    ...     _ = online.run([[0.7, 0.3], [0.4, 0.6]], [0, 1])
    ...     online.close()
    ...     monitor = Monitor(f"{folder}/log")
    ...     _ = monitor.read()
    >>> [chart.title for chart in stream_report(monitor).charts]
    ['Coverage', 'Set size', 'Level asked for', 'Weights', 'Evidence of drift']
    """
    curves, stream, alarm = monitor.curves(), monitor.stream, monitor.alarm
    settings = {
        "log": monitor.folder.name,
        "scores": ", ".join(monitor.names),
        "alpha": ", ".join(f"{alpha:g}" for alpha in monitor.alphas),
        "control": repr(stream._controls()[0]),
        "window": f"{stream.window:,} labels",
        "weights": stream.adapt or "fixed",
        **stream._described(),
        "conformix": __version__,
    }
    return StreamReport(
        title=title or f"Stream {monitor.folder.name}",
        summary=monitor.summary(),
        guarantee=monitor.guarantee,
        alarm=None if alarm is None else (str(alarm), alarm.statement),
        curves=curves,
        charts=tuple(_charts(monitor, curves)) if len(curves.labels) else (),
        settings=tuple(settings.items()),
    )


def _charts(monitor: Monitor, curves: Curves) -> list[Chart]:
    several, alphas = len(monitor.alphas) > 1, monitor.alphas
    sets = monitor.stream._noun == "set"
    full = "the set is full" if sets else "the interval has no ends"
    named = [f" at alpha = {alpha:g}" if several else "" for alpha in alphas]
    colour = [f"k{j % COLOURS}" for j in range(max(len(alphas), len(monitor.names)))]
    running = [
        Line(f"up to here{named[j]}", curves.running[:, j], f"{colour[j]} ours")
        for j in range(len(alphas))
    ]
    near = [
        Line(f"in the stretch{named[j]}", curves.coverage[:, j], f"{colour[j]} back")
        for j in range(len(alphas))
    ]
    charts = [
        _chart("Coverage", curves.labels, near + running,
               f"Share of {'sets' if sets else 'intervals'} that held the truth: thick up to the "
               "label, thin in each stretch. "
               "Dashed: what was asked for. Shaded: where the thick line must lie, whatever the "
               "stream.", marks=[1 - alpha for alpha in alphas],
               bands=[(1 - a - curves.ceiling[:, j], 1 - a + curves.bound[:, j])
                      for j, a in enumerate(alphas)], ends=(0.0, 1.0)),
        _chart("Set size" if sets else "Width", curves.labels,
               [Line(f"mean {'size' if sets else 'width'}{named[j]}", curves.size[:, j],
                     f"{colour[j]} ours") for j in range(len(alphas))],
               f"{'Mean number of labels of the sets' if sets else MEAN_WIDTH} in each stretch; "
               "more than four times the median is cut off.",
               ends=(0.0, 4 * max(_median(curves.size), 0.25 if sets else 1e-300))),
        _chart("Level asked for", curves.labels,
               [Line(f"level{named[j]}", curves.level[:, j], f"{colour[j]} ours")
                for j in range(len(alphas))],
               f"At or below 0 {full}, at or above 1 empty.", marks=list(alphas)),
        _chart("Weights", curves.labels,
               [Line(name, curves.weights[:, j], f"{colour[j]} ours")
                for j, name in enumerate(monitor.names)],
               "Mean weights of the scores in each stretch.", ends=(0.0, 1.0)),
    ]  # fmt: skip
    if monitor.alarm is not None:
        evidence = np.log10(np.maximum(curves.evidence, 1e-12))
        charts.append(
            _chart("Evidence of drift", curves.labels,
                   [Line("evidence, powers of ten", evidence, "k0 ours")],
                   "What bets against a stream without drift are worth, in powers of ten. Dashed: "
                   "where the alarm is raised.", marks=[float(np.log10(monitor.alarm.threshold))],
                   ends=(-12.0, 12.0))
        )  # fmt: skip
    return charts


def _chart(
    title: str,
    labels: Any,
    lines: list[Line],
    caption: str,
    *,
    marks: list[float] | None = None,
    bands: list[tuple[FloatArray, FloatArray]] | None = None,
    ends: tuple[float, float] | None = None,
) -> Chart:
    """Return lines over the number of labels, with dashed marks and shaded bands, as SVG."""
    values = np.concatenate([line.values for line in lines] + [np.array(marks or [])])
    values = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low, high = float(values.min()), float(values.max())
    room = 0.08 * (high - low) or 0.05
    low, high = low - room, high + room
    if ends is not None:
        low, high = max(low, ends[0]), min(high, ends[1])
    span = max(int(labels[-1]), 1)

    def x(label: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * label / span

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def path(points: list[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)

    parts = []
    for below, above in bands or []:
        inside = np.isfinite(below)
        upper = [(x(t), y(v)) for t, v in zip(labels[inside], above[inside], strict=True)]
        lower = [(x(t), y(v)) for t, v in zip(labels[inside], below[inside], strict=True)]
        if upper:
            parts.append(f'<path d="{path(upper + lower[::-1])}Z" class="band"/>')
    for tick in _ticks(low, high):
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            f'class="grid"/><text x="{LEFT - 7}" y="{y(tick) + 4:.1f}" class="tick end">'
            f"{tick:g}</text>"
        )
    for share in (0, 0.5, 1):
        side = ("", "mid", "end")[int(2 * share)]
        parts.append(
            f'<text x="{x(share * span):.1f}" y="{HEIGHT - 12}" class="tick {side}">'
            f"{round(share * span):,}</text>"
        )
    for mark in marks or []:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" '
            f'class="promise"/>'
        )
    for line in lines:
        there = zip(labels, line.values, strict=True)
        points = [(x(t), y(v)) for t, v in there if np.isfinite(v)]
        if not points:
            continue
        parts.append(f'<path d="{path(points)}" class="line {line.style}"/>')
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title} over labels">'
        f"{''.join(parts)}</svg>"
    )
    shown = tuple(line.name for line in lines if "back" not in line.style)
    return Chart(title, svg, caption, shown)


MEAN_WIDTH = "Mean width of the intervals that have two ends"


def _median(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two ends, four to eight of them."""
    step = 10 ** np.floor(np.log10((high - low) / 4))
    step *= next(by for by in (1, 2, 5, 10) if (high - low) / (by * step) <= 6)
    first = int(np.ceil(low / step))
    return [round(float(k * step), 10) for k in range(first, int(np.floor(high / step)) + 1)]


__all__ = ["StreamReport", "stream_report"]
