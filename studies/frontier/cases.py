"""What is compared, on which rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from conformix.kernels.arrays import IntArray

ALPHAS = (0.01, 0.02, 0.05, 0.1)
SIZES: tuple[int | None, ...] = (300, 1000, None)
"""Calibration rows; None is the whole half."""


@dataclass(frozen=True)
class Setting:
    """Some models of a data set.

    Parameters
    ----------
    data : str
        Name of a bundled data set.
    models : tuple of str
        Which of its models; empty for all.
    label : str
        What tables call it.

    Examples
    --------
    >>> Setting("cifar100", ("lenet5",), "cifar100, lenet5").draw(n=10, run=0)[0]
    array([4, 1, 3, 0, 7])
    """

    data: str
    models: tuple[str, ...]
    label: str

    def draw(self, n: int, run: int) -> tuple[IntArray, IntArray]:
        """Return the calibration pool and the test rows of one random split in halves.

        The first m rows of the pool are a calibration set of m rows.
        """
        text = json.dumps(["frontier", self.data, run])
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        order = np.random.default_rng(seed).permutation(n)
        return order[: n // 2], order[n // 2 :]


def _one(data: str, model: str) -> Setting:
    return Setting(data, (model,), f"{data}, {model}")


STUDIED = (
    Setting("cifar100", (), "cifar100, two good models and a bad one"),
    _one("cifar100", "wideresnet_16_4"),
    _one("cifar100", "densenet_bc_100"),
    Setting("cifar10", (), "cifar10, two good models and a bad one"),
    _one("cifar10", "vgg16"),
    _one("cifar10", "wideresnet_16_4"),
    Setting("cifar10_trio", (), "cifar10_trio, three models"),
    _one("cifar10_trio", "resnet56"),
    Setting("tinyimagenet_trio", ("repvgg_a2", "mobilenetv2_x1_0"), "tinyimagenet, two models"),
    _one("tinyimagenet_trio", "mobilenetv2_x1_0"),
    Setting("vlm_mmbench", (), "vlm_mmbench, 26 models"),
    _one("vlm_mmbench", "llava_v1_6_34b"),
    Setting("mmlu_llama13b", (), "mmlu_llama13b, ten prompts"),
    _one("mmlu_llama13b", "llama13b_prompt0"),
)
"""What the design was chosen on."""

HELD_OUT = (
    Setting("banking77", (), "banking77, all models"),
    Setting("tinyimagenet_trio", ("vgg16_bn",), "tinyimagenet, vgg16_bn"),
    Setting("tinyimagenet_trio", (), "tinyimagenet, three models with vgg16_bn"),
)
"""A data set and a model that nobody looked at before the design was fixed."""
