"""The page is one small file that asks for nothing and takes no text for markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import conformix as cx
from conformix.errors import InvalidInput
from conformix.report import build_report
from conformix.report.page import MINUS, NONE, as_json, fixed, packed
from report.names import NASTY


class Elements(HTMLParser):
    """All tags with their attributes, and the text inside every tag by name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)


@pytest.fixture(scope="session")
def page(page_file: Path) -> Elements:
    return Elements(page_file.read_text(encoding="utf-8"))


def test_cifar100_stays_well_below_three_megabytes(cifar100, tmp_path) -> None:
    logits, y = cifar100
    model = cx.ScoreAverage("paper", alpha=0.1, kind="logits", random_state=0).fit(
        logits[:2000], y[:2000]
    )
    path = build_report(model, logits, y).save(tmp_path / "report.html")
    assert path.stat().st_size < 1_000_000  # the limit of the project is 3 MB


def test_names_that_look_like_markup_are_text(page: Elements) -> None:
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert not any(tag == "img" for tag, _ in page.tags)
    told = "".join(text for texts in page.texts.values() for text in texts)
    for name in NASTY:
        assert name in told
    assert "49" not in {text.strip() for text in page.texts["th"]}  # no template in a name


def test_no_element_asks_for_anything(page: Elements) -> None:
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "srcset", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), (tag, target)
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    assert "url(" not in "".join(page.texts["style"])
    assert "@import" not in "".join(page.texts["style"])


def test_only_our_script_and_style_may_run(page_file: Path, page: Elements) -> None:
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    text = page_file.read_text(encoding="utf-8")
    for tag in ("script", "style"):
        inner = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_every_control_is_native_and_named(page: Elements) -> None:
    labelled = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
    for tag, attributes in page.tags:
        if tag == "input":
            assert attributes["id"] in labelled
        assert attributes.get("role") not in ("button", "slider", "checkbox", "tab")


def test_packed_numbers_come_back_to_the_last_bit() -> None:
    values = np.random.default_rng(0).normal(size=(3, 20))
    told = json.loads(as_json(packed(values)))
    again = np.frombuffer(base64.b64decode(told["b"]), "<f8").reshape(told["n"])
    np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize("text", NASTY)
def test_json_in_the_page_cannot_end_its_element(text: str) -> None:
    told = as_json({text: [text]})
    assert not set(told) & set("<>&\u2028\u2029")
    assert json.loads(told) == {text: [text]}


@pytest.mark.parametrize(
    ("value", "digits", "told"),
    [(0.8125, 3, "0.813"), (0.5, 0, "1"), (-1.005, 2, f"{MINUS}1.00"), (-0.001, 2, "0.00"),
     (float("nan"), 1, NONE), (float("-inf"), 1, f"{MINUS}∞"), (12345.678, 1, "12345.7")],
)  # fmt: skip
def test_numbers_are_written_as_a_browser_writes_them(value, digits, told) -> None:
    assert fixed(value, digits) == told


def test_the_same_numbers_give_the_same_bytes(case, page_file: Path) -> None:
    assert case.report.html().encode() == page_file.read_bytes()


def test_a_report_is_written_whole_or_not_at_all(case, tmp_path, monkeypatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("the old one")

    def broken(*args: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(OSError, match="the disk is full"):
            case.report.save(target)
    assert target.read_text() == "the old one"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    case.report.save(target)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_folder_is_no_report(case, tmp_path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; name a file, such as"):
        case.report.save(tmp_path)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows_has_a_page_too(case, n: int) -> None:
    assert "<!doctype html>" in build_report(case.model, case.outputs[:n], case.y[:n]).html()


def test_truncated_outputs_have_the_page_of_their_sets(cifar10) -> None:
    logits, y = cifar10
    probs = np.exp(logits[:800].astype(float))
    probs /= probs.sum(axis=1, keepdims=True)
    labels = np.argsort(-probs, axis=1)[:, :4]
    values = np.take_along_axis(probs, labels, axis=1)

    def rows(part: slice) -> cx.TopK:
        return cx.TopK(labels[part], values[part], n_classes=10)

    model = cx.ScoreAverage(("thr", "rank"), random_state=0).fit(rows(slice(500)), y[:500])
    found = build_report(model, rows(slice(500, 800)), y[500:800], alphas=[])
    sets = model.predict_set(rows(slice(500, 800)))
    assert found.measured.columns["mean_size"][0, 0] == cx.metrics.mean_size(sets)
    assert "<!doctype html>" in found.html()
