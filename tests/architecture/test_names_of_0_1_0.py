"""What code written for 0.1.0 relies on: the names at the top, and how they are called."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import conformix as cx

NAMES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "names_of_0_1_0.json").read_text(encoding="utf-8")
)
CALLED = {name: told for name, told in NAMES.items() if told.get("signature") is not None}
METHODS = {
    f"{name}.{method}": parameters
    for name, told in NAMES.items()
    for method, parameters in told.get("methods", {}).items()
    if parameters is not None
}
# Defaults that changed since, announced by a notice that says how to keep the old one.
CHANGED = {("ScoreAverage", "scores"): "None", ("ConformalClassifier", "scores"): "None"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_at_the_top_is_still_there(name: str) -> None:
    value = getattr(cx, name)
    assert name in cx.__all__
    assert inspect.ismodule(value) == (NAMES[name]["kind"] == "module")
    assert inspect.isclass(value) == (NAMES[name]["kind"] == "class")


def still_there(value: Any, parameters: list[list[Any]], owner: str = "") -> None:
    """Every parameter of old has its kind and default; others may follow, if they have one."""
    now = inspect.signature(value).parameters
    for name, kind, default in parameters:
        assert name in now
        assert now[name].kind.name == kind
        expected = CHANGED.get((owner, name), default)
        assert expected is None or repr(now[name].default) == expected
    old = [name for name, *_ in parameters]
    assert [name for name in now if name in old] == old
    for name in now.keys() - set(old):
        assert now[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert now[name].default is not inspect.Parameter.empty


@pytest.mark.parametrize("name", CALLED)
def test_it_is_called_as_before(name: str) -> None:
    still_there(getattr(cx, name), CALLED[name]["signature"], name)


@pytest.mark.parametrize("name", METHODS)
def test_its_methods_are_called_as_before(name: str) -> None:
    owner, method = name.split(".")
    still_there(getattr(getattr(cx, owner), method), METHODS[name])
