from __future__ import annotations

import pytest

import conformix as cx
from conformix.registry import Registry

SIDES = Registry("side", {"right": 1, "left": -1})


def test_a_name_stands_for_its_object() -> None:
    assert SIDES["left"] == -1


def test_names_are_listed_sorted() -> None:
    assert SIDES.names() == list(SIDES) == ["left", "right"]
    assert len(SIDES) == 2
    assert "left" in SIDES
    assert "up" not in SIDES


def test_a_misspelt_name_gets_help() -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        SIDES["lfet"]
    assert str(caught.value) == "unknown side 'lfet'; did you mean 'left'? known: left, right."


@pytest.mark.parametrize("name", ["", "zzz", 3, None, [3], {}])
def test_a_name_like_no_other_gets_the_list(name: object) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        SIDES[name]
    assert str(caught.value) == f"unknown side {name!r}; known: left, right."


def test_a_registry_is_not_changed_through_the_mapping_it_was_made_from() -> None:
    entries = {"a": 1}
    registry = Registry("thing", entries)
    entries["b"] = 2
    assert registry.names() == ["a"]
