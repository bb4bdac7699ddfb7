"""Real classifier outputs with labels, for examples, tests and experiments.

Small sets are in the wheel, larger ones in the repository. Files are read with
``numpy.load(..., allow_pickle=False)``. Sources and licences: ``LICENSES.md`` beside the files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from conformix.data.outputs import Form
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.registry import unknown_name

__all__ = ["Dataset", "load", "names"]

PACKAGED = Path(__file__).parent / "files"
# A checkout keeps the larger sets in data/ beside src/; an installed wheel has no such folder.
REPOSITORY = Path(__file__).parents[4] / "data"


@dataclass(frozen=True)
class Source:
    """Where a data set comes from."""

    credit: str
    licence: str
    in_wheel: bool


SOURCES = {
    "banking77": Source(
        "PolyAI banking77 test questions; classifiers trained for conformix", "CC BY 4.0", False
    ),
    "cifar10": Source(
        "verified_calibration and netcal example records, CIFAR-10 test set",
        "MIT and Apache-2.0",
        True,
    ),
    "cifar10_trio": Source(
        "trained for conformix on CIFAR-10: the architectures of the paper", "BSD-3-Clause", False
    ),
    "cifar100": Source("netcal example records, CIFAR-100 test set", "Apache-2.0", True),
    "mmlu_llama13b": Source("ConformalLLM: one LLM under ten prompts on MMLU", "MIT", True),
    "tinyimagenet_trio": Source(
        "trained for conformix on Tiny-ImageNet-200: the paper's CIFAR-100 architectures",
        "BSD-3-Clause",
        False,
    ),
    "vlm_mmbench": Source(
        "VLM-Uncertainty-Bench: 26 vision-language models on MMBench", "MIT", False
    ),
}


@dataclass(frozen=True)
class Dataset:
    """Outputs of one or several models on labelled rows that trained none of them.

    Parameters
    ----------
    name : str
        Name of the data set.
    labels : integer array of shape (n,)
        True classes.
    outputs : dict of str to array of shape (n, K)
        Logits by model.
    kind : {"probs", "logits"}
        What the outputs are.
    class_names : tuple of str or None
        Names of the classes, where known.
    groups : integer array of shape (n,) or None
        A group per row, where there is one; `group_names` names them.
    credit, licence : str
        Whom to thank, and the terms.

    Examples
    --------
    >>> data = load("mmlu_llama13b")
    >>> data.labels.shape, len(data.group_names), data.licence
    ((2886,), 16, 'MIT')
    """

    name: str
    labels: IntArray
    outputs: dict[str, FloatArray] = field(repr=False)
    kind: Form = "logits"
    class_names: tuple[str, ...] | None = field(default=None, repr=False)
    groups: IntArray | None = field(default=None, repr=False)
    group_names: tuple[str, ...] | None = field(default=None, repr=False)
    credit: str = ""
    licence: str = ""

    def __repr__(self) -> str:
        n, n_classes = next(iter(self.outputs.values())).shape
        return (
            f"Dataset({self.name}: {n:,} rows, {n_classes} classes, models "
            f"{', '.join(self.outputs)})"
        )


def names() -> list[str]:
    """Return the names that `load` knows.

    Examples
    --------
    >>> names()[:3]
    ['banking77', 'cifar10', 'cifar100']
    """
    return sorted(SOURCES)


def load(name: str) -> Dataset:
    """Return a bundled data set.

    Parameters
    ----------
    name : str
        One of `names()`. The larger sets are not in the wheel: they are found in the ``data``
        folder of a checkout, or in the folder named by the variable ``CONFORMIX_DATA``.

    Examples
    --------
    >>> load("cifar100")
    Dataset(cifar100: 10,000 rows, 100 classes, models wideresnet_16_4, densenet_bc_100, lenet5)
    """
    if not isinstance(name, str) or name not in SOURCES:
        raise unknown_name("data set", name, names())
    source = SOURCES[name]
    arrays = _read(_find(name))
    return Dataset(
        name=name,
        labels=arrays.pop("labels").astype(np.intp),
        class_names=_texts(arrays.pop("class_names", None)),
        groups=arrays.pop("subject", None),
        group_names=_texts(arrays.pop("subject_names", None)),
        outputs=arrays,
        credit=source.credit,
        licence=source.licence,
    )


def _read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _texts(values: np.ndarray | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(value) for value in values)


def _find(name: str) -> Path:
    folders = [PACKAGED, REPOSITORY]
    if "CONFORMIX_DATA" in os.environ:
        folders.insert(0, Path(os.environ["CONFORMIX_DATA"]))
    for folder in folders:
        path = folder / f"{name}.npz"
        if path.is_file():
            return path
    raise InvalidInput(
        f"data set {name!r} is not in the installed package; take {name}.npz from the data folder "
        "of the repository and name its folder in the variable CONFORMIX_DATA."
    )
