"""Fit every cell of the matrix and write the page: ``python -m doors`` in the folder of tests.

With names of doors (``python -m doors tensors``) their cells are fitted and counted alone, and the
page stays: for a machine with a CUDA device.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache

from doors.cells import cells, verdict
from doors.page import PAGE, render


def main(doors: list[str]) -> int:
    """Write the page, or print what the cells of some doors do; return 1 where one differs."""
    if not doors:
        PAGE.write_text(render(cache(verdict)), encoding="utf-8")
        return 0
    differ = 0
    for door in doors:
        told = Counter(verdict(cell) for cell in cells() if cell.source == door)
        works, wrong = told.pop("works", 0), told.pop("differs from memory", 0)
        print(f"{door}: {works} work, {sum(told.values())} refused, {wrong} differ from memory")
        differ += wrong
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
