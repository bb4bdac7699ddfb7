"""From rows of the whole call to the goals they are held to, and to the tables of the page.

Everything here is a function of the rows in ``benchmarks/results/end_to_end.jsonl``: numbers on the
page are never typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, interval
from benchmarks.stages import REST, STAGES

TABLES = ROOT / "docs" / "results" / "end_to_end"
Row = dict[str, Any]

# At most this share of the time of the other, in the same round.
RATIOS = (
    ("conformix thr", "MAPIE LAC", 1.0),
    ("conformix thr, aps, rank", "MAPIE APS", 1 / 3),
    ("conformix thr, aps, rank, logits", "MAPIE APS", 0.4),
    ("conformix auto", "MAPIE APS", 0.5),
    ("conformix thr, aps, rank", "np.sort", 3.0),
)
# At most so many seconds on a device, for so many rows and classes.
DEVICE_SIZE = (50_000, 1_000)
DEVICE_SECONDS = (
    ("conformix thr", 0.01),
    ("conformix thr, logits", 0.01),
    ("conformix thr, aps, rank", 0.05),
    ("conformix thr, aps, rank, logits", 0.06),
    ("conformix auto", 0.15),
    ("conformix auto, logits", 0.15),
)
# With so many threads at most this share of the time of one.
MANY_THREADS, SHARE_OF_ONE = 16, 0.2


@dataclass(frozen=True)
class Goal:
    """An upper limit, and what was measured against it, one value per round."""

    what: str
    place: str
    size: str
    limit: float
    values: np.ndarray

    @property
    def median(self) -> float:
        """The middle of the values."""
        return float(np.median(self.values))

    @property
    def reached(self) -> str:
        """Whether the interval of the median lies below the limit, above it, or on both sides."""
        low, high = interval(self.values)
        if high <= self.limit:
            return "yes"
        return "no" if low > self.limit else "unclear"


def goals(rows: Iterable[Row]) -> list[Goal]:
    """Return all goals that these rows say something about."""
    rows = list(rows)
    return [*_ratio_goals(rows), *_thread_goals(rows), *_device_goals(rows)]


def _ratio_goals(rows: list[Row]) -> Iterator[Goal]:
    times = [row for row in rows if row["part"] == "times" and "threads" in row]
    for place in distinct(row["place"] for row in times):
        here = [row for row in times if row["place"] == place]
        most = max(row["threads"] for row in here)
        seconds = {
            (row["case"], size_of(row)): np.array(row["rounds_s"])
            for row in here
            if row["threads"] == most
        }
        for case, other, limit in RATIOS:
            for size in distinct(size for _, size in seconds):
                if (case, size) in seconds and (other, size) in seconds:
                    values = seconds[case, size] / seconds[other, size]
                    yield Goal(f"{case} / {other}", place, size, limit, values)


def _thread_goals(rows: list[Row]) -> Iterator[Goal]:
    points = [row for row in rows if row.get("axis") == "threads"]
    for place in distinct(row["place"] for row in points):
        seconds = {
            row["threads"]: np.array(row["rounds_s"]) for row in points if row["place"] == place
        }
        most = max(seconds)
        if most >= MANY_THREADS:
            size = size_of(next(row for row in points if row["place"] == place))
            what = f"conformix thr, aps, rank, {most} threads / 1 thread"
            yield Goal(what, place, size, SHARE_OF_ONE, seconds[most] / seconds[1])


def _device_goals(rows: list[Row]) -> Iterator[Goal]:
    limits = dict(DEVICE_SECONDS)
    times = [row for row in rows if row["part"] == "times" and "threads" not in row]
    for row in times:
        if row["case"] in limits and (row["n"], row["K"]) == DEVICE_SIZE:
            values = np.array(row["rounds_s"])
            what = f"{row['case']}, seconds"
            yield Goal(what, row["place"], size_of(row), limits[row["case"]], values)
    compared = [row for row in times if "sets_of_the_host" in row]
    for place, size in distinct((row["place"], size_of(row)) for row in compared):
        here = [row for row in compared if (row["place"], size_of(row)) == (place, size)]
        different = sum(not row["sets_of_the_host"] for row in here)
        what = f"of {len(here)} cases with other sets than on the host"
        yield Goal(what, place, size, 0, np.array([float(different)]))


def goals_table(rows: Iterable[Row]) -> str:
    head = ("goal", "where", "n x K", "at most", "measured", "reached")
    lines = []
    for goal in goals(rows):
        low, high = interval(goal.values)
        measured = f"{goal.median:.3g} [{low:.3g}, {high:.3g}]"
        cells = (goal.what, goal.place, goal.size, f"{goal.limit:.2g}", measured, goal.reached)
        lines.append(cells)
    return table(head, lines) if lines else "no row that a goal is about"


EXTRA = ("processor", "fresh pages", "labels in a set")


def times_table(rows: list[Row]) -> str:
    """Return the medians with intervals of one place, by case, size and threads.

    Processor seconds are those of the fewest threads: on a busy machine the steadier numbers.
    """
    columns = distinct((size_of(row), row.get("threads")) for row in rows)
    sizes = distinct(size for size, _ in columns)
    titles = [size + threads_in_words(threads) for size, threads in columns]
    cells = {(row["case"], size_of(row), row.get("threads")): row for row in rows}
    lines = []
    for case in distinct(row["case"] for row in rows):
        line = [case]
        for size, threads in columns:
            row = cells.get((case, size, threads))
            line.append(with_interval(row) if row else "")
        for size in sizes:
            row = next((r for r in rows if r["case"] == case and size_of(r) == size), {})
            line.append(f"{row['cpu_s']:.3g}" if row else "")
            line.append(f"{row['pages']:,.0f}" if "pages" in row else "")
            line.append(f"{row['mean_size']:.2f}" if "mean_size" in row else "")
        lines.append(line)
    extra = [f"{what}, {size}" for size in sizes for what in EXTRA]
    return table(("seconds", *titles, *extra), lines)


def stages_table(rows: list[Row]) -> str:
    """Return the shares of the whole call, fit + prediction, by stage and case."""
    lines = []
    for stage in (*STAGES, REST):
        cells = [[100 * row["shares"][step].get(stage, 0) for step in STEPS] for row in rows]
        lines.append([stage, *(f"{fit:.0f} + {predict:.0f}" for fit, predict in cells)])
    names = [row["case"].removeprefix("conformix ") for row in rows]
    return table(("% of the whole call", *names), lines)


STEPS = ("fit", "predict")


# The axis on which no library is: a loop of arithmetic by more and more threads.
LOOP = "threads, exponentials"


def growth_table(rows: list[Row]) -> str:
    """Return the times along every axis, and each as a multiple of the one before."""
    lines = []
    for axis in distinct(row["axis"] for row in rows):
        before: Row | None = None
        for row in (row for row in rows if row["axis"] == axis):
            sizes = [f"{name} = {row[name]:,}" for name in ("n", "K", "d") if name in row]
            point = ", ".join([*sizes, threads_in_words(row["threads"]).removeprefix(", ")])
            step = f"{row['seconds'] / before['seconds']:.2f}" if before else ""
            steps = (f"{row[f'{name}_s']:.3g}" for name in (*STEPS, "cpu"))
            lines.append([axis, point, with_interval(row), *steps, step])
            before = row
    head = ("what grows", "point", "seconds", *STEPS, "processor", "times the point before")
    return table(head, lines)


PARTS = {"times": times_table, "stages": stages_table, "growth": growth_table}


def write(rows: list[Row], folder: Path = TABLES) -> None:
    """Write the tables of the page, one file per part."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tables(rows).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def tables(rows: list[Row]) -> dict[str, str]:
    """Return the text of every file that the page includes, by name."""
    texts = {"goals": goals_table(rows) + "\n"} if goals(rows) else {}
    for part, render in PARTS.items():
        some = [row for row in rows if row["part"] == part]
        blocks = []
        for place in distinct(row["place"] for row in some):
            here = [row for row in some if row["place"] == place]
            blocks.append(f"{surroundings_in_words(place, here)}\n\n{render(here)}\n")
        if blocks:
            texts[part] = "\n".join(blocks)
    return texts


def surroundings_in_words(place: str, rows: list[Row]) -> str:
    """Return machine, commit and versions in one sentence."""
    row, loads = rows[0], [row["load"] for row in rows if row["load"] is not None]
    names = {"python": "Python", "numpy": "NumPy", "torch": "PyTorch", "mapie": "MAPIE"}
    names["torchcp"] = "TorchCP"
    versions = ", ".join(f"{names[key]} {row[key]}" for key in names if row.get(key))
    sizes = distinct(size_of(row) for row in rows if row["part"] == "stages")
    cases = f", {', '.join(sizes)}" if sizes else ""
    load = f"; load {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    memory = ", no large pages" if row.get("NUMPY_MADVISE_HUGEPAGE") == "0" else ""
    if "fresh_gib_s" in row:
        memory += f", {row['fresh_gib_s']:.2g} s per gigabyte of fresh memory"
    return f"**{place}** ({row['cpu']}){cases}, commit {row['commit']}, {versions}{load}{memory}."


def line(row: Row) -> str:
    """Return one row for the terminal."""
    facts = {"n": "n {:,}", "K": "K {:,}", "d": "d {}", "threads": "threads {}"}
    words = [text.format(row[key]) for key, text in facts.items() if key in row]
    head = f"{row.get('case') or 'growth in ' + row['axis']}: {', '.join(words)}"
    if "shares" in row:
        both = {stage: sum(row["shares"][step].get(stage, 0) for step in STEPS) for stage in STAGES}
        return f"{head:<70} " + ", ".join(f"{k} {100 * v:.0f} %" for k, v in both.items() if v)
    size = f"   mean size {row['mean_size']}" if "mean_size" in row else ""
    return f"{head:<70} {with_interval(row)} s, {row['cpu_s']:.3g} s cpu{size}"


def with_interval(row: Row) -> str:
    low, high = row["interval"]
    return f"{row['seconds']:.3g} [{low:.3g}, {high:.3g}]"


def size_of(row: Row) -> str:
    return f"{row['n']:,} x {row['K']:,}"


def threads_in_words(threads: int | None) -> str:
    return "" if threads is None else f", {threads} thread{'s' if threads > 1 else ''}"


def distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    rows = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return "\n".join([rows[0], "|---" * len(head) + "|", *rows[1:]])
