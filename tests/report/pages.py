"""What tests read off an opened page."""

from __future__ import annotations

from typing import Any

import pytest


def shown(page: Any) -> dict[tuple[str, int], tuple[float, str, int, float]]:
    """All numbers of the page that move, by column and place: value, text, digits, scale."""
    found = page.eval_on_selector_all(
        "data[data-k]",
        "all => all.map(e => [e.dataset.k, +e.dataset.i, e.value, e.textContent, +e.dataset.d, "
        "+e.dataset.s])",
    )
    return {(k, i): (float(value or "nan"), *rest) for k, i, value, *rest in found}


def unfold(page: Any) -> None:
    """Open the part on weights, as a reader would: by its heading."""
    page.locator("#weights-h").click()
    page.wait_for_selector("#map svg")


def reading(page: Any, who: str) -> tuple[list[str], list[float]]:
    weights = page.locator(f'[data-w="{who}"]').all_inner_texts()
    values = page.eval_on_selector_all(f'[data-r="{who}"] data', "all => all.map(e => +e.value)")
    return weights, values


def assert_accessible(open_page, page_file, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(page_file, color_scheme=scheme, width=width)
    page.evaluate("for (const one of $$('details:not([data-long])')) one.open = true")
    # The cells of the triangle are one picture to a reader of screens; a thousand take seconds.
    found = axe.Axe().run(page, context={"exclude": [["#map svg g"]]})
    assert found.violations_count == 0, found.generate_report()
