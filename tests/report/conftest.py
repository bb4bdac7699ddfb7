"""One small model on real outputs, its report, and a browser where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.report import Report, build_report
from report.names import NASTY

ALPHAS = (0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Case:
    model: cx.ScoreAverage
    outputs: Any
    y: np.ndarray
    report: Report


@pytest.fixture(scope="session")
def case(cifar10: tuple[np.ndarray, np.ndarray]) -> Case:
    logits, y = cifar10
    model = cx.ScoreAverage(("thr", "aps", "rank"), alpha=0.1, kind="logits", random_state=0)
    model.fit(logits[:1000], y[:1000])
    names = [*NASTY, *(f"class {i}" for i in range(6, 10))]
    outputs, labels = logits[1000:2500], y[1000:2500]
    report = build_report(
        model, outputs, labels, class_names=names, alphas=ALPHAS, title="A <b>bold</b> title",
        given={"command": "conformix report 'a <model>.json' rows.csv"},
    )  # fmt: skip
    return Case(model, outputs, labels, report)


@pytest.fixture(scope="session")
def page_file(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return case.report.save(tmp_path_factory.mktemp("report") / "report.html")


def chromium() -> str | None:
    found = os.environ.get("CONFORMIX_CHROMIUM") or shutil.which("chromium")
    return found or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Give a headless Chromium; where there is none the tests are skipped, visibly."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = chromium()
    if path is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        # Containers without user namespaces run as root, where the sandbox cannot start.
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; afterwards nothing may have been asked for and nothing may have gone wrong."""
    wrong: list[str] = []
    contexts = []

    def opened(path: Path, *, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda request: _check(request.url, wrong))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def _check(url: str, wrong: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:")):
        wrong.append(f"request: {url}")
