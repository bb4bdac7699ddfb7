"""Which normalisation wins where: one table over the bundled data sets and levels.

    python examples/normalisation.py --repetitions 10

For every data set, level and list of scores: the mean set size under VFCP with each normalisation,
relative to ``none``, over random halves for calibration and test. Below 1 is better; +- is the
standard error of the mean ratio over the repetitions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import conformix as cx

CASES = (
    ("cifar10", "vgg16"),
    ("cifar10", "wideresnet_16_4"),
    ("cifar10_trio", "resnet56"),
    ("cifar100", "wideresnet_16_4"),
    ("cifar100", "densenet_bc_100"),
    ("tinyimagenet_trio", "vgg16_bn"),
    ("tinyimagenet_trio", "repvgg_a2"),
    ("banking77", "mlp_lsa"),
    ("vlm_mmbench", "llava_v1_6_34b"),
    ("mmlu_llama13b", "llama13b_prompt0"),
)
LISTS = (("thr", "aps", "rank"), ("thr", "logp", "margin", "-entropy"))
ALPHAS = (0.01, 0.02, 0.05, 0.1)
KINDS = ("none", "scale", "ecdf")


def sizes(data: cx.datasets.Dataset, model: str, scores: tuple[str, ...], alpha: float, seed: int):
    """Return the mean test size of every normalisation on one random half."""
    outputs, y = data.outputs[model], data.labels
    rows = np.random.default_rng(seed).permutation(len(y))
    calibration, test = np.array_split(rows, 2)
    for kind in KINDS:
        cp = cx.ScoreAverage(scores, alpha=alpha, kind="logits", normalize=kind, random_state=seed)
        cp.fit(outputs[calibration], y[calibration])
        yield cp.predict_set(outputs[test]).sizes.mean()


def table(repetitions: int) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| data | model | scores | alpha | size, none | {' | '.join(KINDS[1:])} |"
    yield "|---|---|---|---|---|" + "---|" * len(KINDS[1:])
    ratios = []
    for name, model in CASES:
        data = cx.datasets.load(name)
        for scores in LISTS:
            for alpha in ALPHAS:
                seen = np.array(
                    [list(sizes(data, model, scores, alpha, s)) for s in range(repetitions)]
                )
                ratio = seen[:, 1:] / seen[:, :1]
                ratios.append(ratio.mean(axis=0))
                error = ratio.std(axis=0, ddof=1) / np.sqrt(repetitions)
                told = [f"{m:.3f} +- {e:.3f}" for m, e in zip(ratios[-1], error, strict=True)]
                start = (name, model, ", ".join(scores), f"{alpha:g}", f"{seen[:, 0].mean():.3f}")
                yield f"| {' | '.join([*start, *told])} |"
    means = np.exp(np.log(ratios).mean(axis=0))
    yield f"| **geometric mean** | | | | | {' | '.join(f'**{m:.3f}**' for m in means)} |"
    worst = np.max(ratios, axis=0)
    yield f"| **largest ratio** | | | | | {' | '.join(f'{m:.3f}' for m in worst)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repetitions", type=int, default=10)
    for line in table(parser.parse_args().repetitions):
        print(line, flush=True)
