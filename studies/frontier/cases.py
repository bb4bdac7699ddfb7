"""What is compared, on which rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from conformix.data.bundled import Dataset, load
from conformix.kernels.arrays import IntArray
from studies.frontier.made import made

ALPHAS = (0.01, 0.05, 0.1)
SIZES: tuple[int | None, ...] = (100, 300, 1000, None)
"""Labelled rows; None is the whole half."""
RUNS, RUNS_IF_SMALL = 30, 60
MANY_CLASSES, FEW_CLASSES = "one network, 77 to 200 classes", "one network, 4 to 10 classes"
# Outputs of all models of a setting up to which it is small.
SMALL = 1_000_000


@dataclass(frozen=True)
class Setting:
    """Some models of a data set.

    Parameters
    ----------
    data : str
        Name of a bundled data set.
    models : tuple of str
        Which of its models; empty for all.
    group : str
        Which kind of setting it is.
    label : str
        What tables call it; by default the data set with its model.
    maker : str
        What is made of the models' outputs, if anything (`studies.frontier.made`).

    Examples
    --------
    >>> Setting("cifar100", ("lenet5",)).draw(n=10, run=0)[0]
    array([4, 1, 3, 0, 7])
    """

    data: str
    models: tuple[str, ...] = ()
    group: str = FEW_CLASSES
    label: str = ""
    maker: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            parts = [self.data, *self.models, *([self.maker] if self.maker else [])]
            object.__setattr__(self, "label", ", ".join(parts))

    def load(self) -> Dataset:
        """Return labels and outputs of the models of the setting."""
        if self.maker:
            return made(self.maker, self.data, self.models)
        data = load(self.data)
        models = self.models or tuple(data.outputs)
        return Dataset(data.name, data.labels, {m: data.outputs[m] for m in models}, data.kind)

    def draw(self, n: int, run: int) -> tuple[IntArray, IntArray]:
        """Return the pool of labelled rows and the test rows of one random split in halves.

        The first m rows of the pool are m labelled rows.
        """
        name = f"{self.data} {self.maker}" if self.maker else self.data
        text = json.dumps(["frontier", name, run])
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        order = np.random.default_rng(seed).permutation(n)
        return order[: n // 2], order[n // 2 :]


def _several(data: str, models: tuple[str, ...], label: str) -> Setting:
    return Setting(data, models, "several models", f"{data}, {label}")


MANY = ("cifar100", "tinyimagenet_trio", "banking77")
NETWORKS = tuple(
    Setting(data, (model,), MANY_CLASSES if data in MANY else FEW_CLASSES)
    for data, models in {
        "cifar100": ("wideresnet_16_4", "densenet_bc_100", "lenet5"),
        "tinyimagenet_trio": ("vgg16_bn", "repvgg_a2", "mobilenetv2_x1_0"),
        "banking77": ("nb_word", "logreg_word", "mlp_lsa", "logreg_char_lsa"),
        "cifar10": ("vgg16", "wideresnet_16_4"),
        "cifar10_trio": ("resnet56", "vgg16_bn"),
        "vlm_mmbench": ("llava_v1_6_34b",),
        "mmlu_llama13b": ("llama13b_prompt0",),
    }.items()
    for model in models
)
SEVERAL = (
    _several("cifar100", (), "two good models and a bad one"),
    _several("cifar10", (), "two good models and a bad one"),
    _several("cifar10_trio", (), "three models"),
    _several("tinyimagenet_trio", ("repvgg_a2", "mobilenetv2_x1_0"), "two models"),
    _several("tinyimagenet_trio", (), "three models"),
    _several("banking77", (), "five models"),
    _several("vlm_mmbench", (), "26 models"),
    _several("mmlu_llama13b", (), "ten prompts"),
)
# Of two or three models; with more, a search by size takes minutes.
FEW_MODELS = SEVERAL[:5]
VLMS = (
    "MoE_LLaVA_Phi2_2_7B_4e", "MoE_LLaVA_Qwen_1_8B_4e", "MoE_LLaVA_StableLM_1_6B_4e",
    "MobileVLM_1_7B", "MobileVLM_3B", "MobileVLM_V2_1_7B",
)  # fmt: skip
TREES = (
    *(
        Setting(data, models, "forests and neighbours", maker=maker,
                label=f"{data}, {maker} on {models[0] if len(models) == 1 else 'six models'}")
        for data, models in (
            ("cifar100", ("lenet5",)),
            ("cifar100", ("densenet_bc_100",)),
            ("tinyimagenet_trio", ("mobilenetv2_x1_0",)),
            ("banking77", ("mlp_lsa",)),
            ("cifar10", ("lenet5",)),
            ("vlm_mmbench", VLMS),
        )
        for maker in ("forest", "neighbours")
    ),
    Setting("banking77", ("extratrees_word",), "forests and neighbours"),
)  # fmt: skip
LONG_TAILS = tuple(
    Setting(data, (model,), "long tails", maker="long tail")
    for data, model in (
        ("cifar100", "wideresnet_16_4"),
        ("tinyimagenet_trio", "mobilenetv2_x1_0"),
        ("banking77", "mlp_lsa"),
    )
)
SETTINGS = (*NETWORKS, *SEVERAL, *TREES, *LONG_TAILS)
