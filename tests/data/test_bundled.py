from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data import bundled

SHAPES = {
    "banking77": (3080, 77, 5),
    "cifar10": (10_000, 10, 3),
    "cifar100": (10_000, 100, 3),
    "cifar10_trio": (10_000, 10, 3),
    "mmlu_llama13b": (2886, 4, 10),
    "tinyimagenet_trio": (10_000, 200, 3),
    "vlm_mmbench": (4377, 6, 26),
}


def test_every_name_is_known_here() -> None:
    assert cx.datasets.names() == sorted(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_a_data_set_loads_with_its_outputs_labels_and_credit(name: str) -> None:
    data = cx.datasets.load(name)
    n, n_classes, n_models = SHAPES[name]
    assert data.name == name
    assert len(data.outputs) == n_models
    for outputs in data.outputs.values():
        assert outputs.shape == (n, n_classes)
        assert np.isfinite(outputs).all()
    assert data.labels.shape == (n,)
    assert data.labels.min() >= 0
    assert data.labels.max() < n_classes
    assert data.credit
    assert data.licence
    assert data.class_names is None or len(data.class_names) == n_classes
    if data.groups is not None:
        assert data.groups.shape == (n,)
        assert data.groups.max() < len(data.group_names)


@pytest.mark.parametrize("name", SHAPES)
def test_a_data_set_is_better_than_chance_so_labels_belong_to_outputs(name: str) -> None:
    data = cx.datasets.load(name)
    chance = np.bincount(data.labels).max() / len(data.labels)
    accuracies = [(z.argmax(axis=1) == data.labels).mean() for z in data.outputs.values()]
    assert max(accuracies) > 1.2 * chance


def test_the_repr_says_what_there_is() -> None:
    assert repr(cx.datasets.load("mmlu_llama13b")).startswith(
        "Dataset(mmlu_llama13b: 2,886 rows, 4 classes, models llama13b_prompt0, "
    )


@pytest.fixture(autouse=True)
def read_from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what `conftest.py` does to all other tests."""
    monkeypatch.setattr(bundled, "_read", bundled._read.__wrapped__)


def test_loading_twice_gives_independent_arrays() -> None:
    first, second = cx.datasets.load("mmlu_llama13b"), cx.datasets.load("mmlu_llama13b")
    first.labels[:] = 0
    assert second.labels.any()
    assert_array_equal(second.labels, cx.datasets.load("mmlu_llama13b").labels)


def test_a_folder_of_the_users_own_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "banking77.npz", labels=np.array([0, 1]), own=np.zeros((2, 2)))
    monkeypatch.setenv("CONFORMIX_DATA", str(tmp_path))
    assert list(cx.datasets.load("banking77").outputs) == ["own"]


def test_a_set_that_is_not_in_the_wheel_says_where_to_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled, "REPOSITORY", tmp_path)
    monkeypatch.delenv("CONFORMIX_DATA", raising=False)
    with pytest.raises(cx.InvalidInput) as caught:
        cx.datasets.load("banking77")
    assert str(caught.value) == (
        "data set 'banking77' is not in the installed package; take banking77.npz from the data "
        "folder of the repository and name its folder in the variable CONFORMIX_DATA."
    )


@pytest.mark.parametrize("name", [n for n, s in bundled.SOURCES.items() if s.in_wheel])
def test_what_the_demo_needs_is_in_the_wheel(name: str) -> None:
    assert (bundled.PACKAGED / f"{name}.npz").is_file()


def test_the_wheel_stays_below_ten_megabytes_and_carries_the_licences() -> None:
    assert sum(path.stat().st_size for path in bundled.PACKAGED.iterdir()) < 10_000_000
    assert (bundled.PACKAGED / "LICENSES.md").read_text().strip()
