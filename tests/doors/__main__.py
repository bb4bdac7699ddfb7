"""Fit every cell of the matrix and write the page: ``python -m doors`` in the folder of tests."""

from __future__ import annotations

from functools import cache

from doors.cells import verdict
from doors.page import PAGE, render

PAGE.write_text(render(cache(verdict)), encoding="utf-8")
