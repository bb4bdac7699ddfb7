"""Numbers on pages are those of the committed rows: a page that was left behind fails here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release import claims

ROOT = Path(__file__).parents[2]
# Numbers of the README that nothing measures: definitions, examples, versions, names.
UNMEASURED = {
    "1",  # 1 - alpha
    "95", "99", "100", "5,000",  # levels, CIFAR-100 and its rows
    "3.11",  # Python
    "2.4",  # labels of three models, which the block below prints as 2.43
    "500", "10",  # conformix choose --rows 500 --classes 10
    "5,151",  # weights on the grid of three scores
    "2408.07066", "3",  # a paper, a licence
}  # fmt: skip


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda c: f"{c.page}: {Path(c.source).name}")
def test_a_page_says_what_its_rows_say(claim: claims.Claim) -> None:
    assert claim.holds()
    assert claim.missing() == []


def test_every_number_of_the_front_page_is_measured_computed_or_no_measurement() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for block in re.findall(r"```.*?```", text, flags=re.DOTALL):
        text = text.replace(block, "")
    measured = " ".join(
        text for claim in claims.CLAIMS if claim.page == "README.md" for text in claim.holds()
    )
    known = UNMEASURED | set(numbers(measured))
    assert [number for number in numbers(text) if number not in known] == []


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:[.,]\d+)*", text)


def test_the_list_of_claims_is_that_of_today() -> None:
    assert claims.PAGE.read_text("utf-8") == claims.page()


def test_a_number_that_was_changed_on_a_page_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (claim,) = (c for c in claims.CLAIMS if c.page == "docs/serving.md")
    source = tmp_path / claim.source
    source.parent.mkdir(parents=True)
    source.write_bytes((ROOT / claim.source).read_bytes())
    page = tmp_path / claim.page
    page.parent.mkdir()
    text = (ROOT / claim.page).read_text("utf-8")
    shown = claim.holds()[0]
    page.write_text(text.replace(shown, shown.replace("us", "ms")), "utf-8")
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    assert claim.missing() == [shown]
