"""The page of the matrix: written from what the cells do, and read again by the tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from doors.cells import CALIBRATIONS, EXTRAS, SCORES, SOURCES, SPLITS, Cell, cells

PAGE = Path(__file__).parents[2] / "docs" / "doors.md"
DOORS = {
    "memory": "NumPy arrays and what converts to them",
    "mapped": "memory-mapped files, as if they were too large for memory",
    "batches": "`fit_batches`, `predict_batches`",
    "dask": "Dask arrays, in and out",
    "tensors": "PyTorch tensors, on CUDA where there is a device",
}
# Cells that worked in 0.1.0, counted by the same code.
BEFORE = {"memory": 261, "mapped": 261, "batches": 54, "dask": 39, "tensors": 261}
WORKS = "yes"

HEAD = """# Every capability through every door

What you can do depends on the mathematics, not on where the rows live. A *door* is a way for rows
to come in; a *cell* is a door, a split, scores (named, or `auto`), a calibration, and one thing
more that is asked of the fit or of the model. Each of the {n:,} cells either works, with weights,
thresholds, sets, p-values, ledger and verdict equal to those in memory **bit for bit**, or is
refused in the sentence that memory says, whose reason is mathematics. Beyond what fits the
machine, one more refusal has the reason memory: sets that are never empty, objectives other than
the size, searches without a list of weights and split `exact` need all scores of all rows.

This page is written by `make assurance WHAT=doors`, which fits every cell. In every run of the
tests so many cells are fitted again that every two values of two axes meet (`tests/doors`);
others are drawn at random, with random cuts into batches and chunks, random numbers of workers,
and one worker that is killed (`tests/data/test_workers.py`). The cells of tensors were fitted on a
CUDA device as well (`python -m doors tensors`, an H200): none differs from memory.

| door | rows come as | cells | work | in 0.1.0 |
|---|---|---|---|---|
"""

MIDDLE = """
Four of the cells of 0.1.0 in memory were PAC statements under `dlcp` and `dlcp+` by class or group,
which nothing promises; they are refused now.

What a source must offer: `fit` by batches reads rows several times where something is learnt or
drawn before they are scored (`auto`, scores that learn, groups), or where all rows tune (every
split but `vfcp`). A list, a function that returns an iterator or a source of
`conformix.data.batches` can be read again; the outputs of a bare iterator are held for that, up
to 1 GiB, and beyond it the fit is refused. Where one pass is enough an iterator is read once: the
rows that tune are then another random sample than in memory, because their number is not known
beforehand, and the guarantee is the same. `test=` and `unlabelled=` may come by any door.

| split | scores | calibration | {extras} |
|---|---|---|{lines}|
"""

TAIL = """
Refused, for all doors alike:

"""


def plain(sentence: str) -> str:
    """A refusal without the names of the split and the calibration that it is about."""
    sentence = re.sub(r'(?<!say )\bsplit "[a-z0-9+]+"', 'split "..."', sentence)
    sentence = re.sub(r'calibration "[a-z0-9 ]+"', 'calibration "..."', sentence)
    return re.sub(r'; got "[a-z0-9+]+"', '; got "..."', sentence)


def render(verdict: Callable[[Cell], str]) -> str:
    """The page; a door that differs from memory in any cell is an error."""
    entries: dict[Cell, str] = {}
    sentences: dict[str, int] = {}
    for cell in cells():
        found = verdict(cell)
        if found != "works":
            found = str(sentences.setdefault(plain(found), len(sentences) + 1))
        entries[cell] = WORKS if found == "works" else found
        if entries[cell] != entries[cell.by("memory")]:
            raise AssertionError(f"{cell} is no cell of memory: {verdict(cell)}")
    n = len(entries) // len(SOURCES)
    text = HEAD.format(n=len(entries))
    for source in SOURCES:
        works = sum(entries[cell] == WORKS for cell in entries if cell.source == source)
        text += f"| {source} | {DOORS[source]} | {n} | {works} | {BEFORE[source]} |\n"
    text += MIDDLE.format(extras=" | ".join(EXTRAS), lines="---|" * (len(EXTRAS) - 1) + "---")
    for split in SPLITS:
        for scores in SCORES:
            for calibration in CALIBRATIONS:
                row = [Cell("memory", split, scores, calibration, extra) for extra in EXTRAS]
                listed = " | ".join(entries[cell] for cell in row)
                text += f"| {split} | {scores} | {calibration} | {listed} |\n"
    text += TAIL
    for sentence, number in sentences.items():
        text += f"{number}. {sentence}\n"
    return text


def read(text: str) -> dict[Cell, str]:
    """What a page says of every cell: ``"works"``, or the sentence of its refusal."""
    numbered = dict(re.findall(r"^(\d+)\. (.*)$", text, flags=re.MULTILINE))
    said = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.strip("| ").split("|")]
        if len(parts) != len(EXTRAS) + 3 or parts[0] not in SPLITS:
            continue
        for extra, entry in zip(EXTRAS, parts[3:], strict=True):
            for source in SOURCES:
                cell = Cell(source, *parts[:3], extra)
                said[cell] = "works" if entry == WORKS else numbered[entry]
    return said
