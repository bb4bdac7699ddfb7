"""The drawings of README and concepts, from real outputs: ``make pages WHAT=drawings``.

    python docs/drawings.py --out docs/images

The front picture is made of the rows that ``make bench WHAT=at-a-glance`` keeps.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import conformix as cx
from conformix.plots import save_figure
from conformix.plots.style import INK, NORMAL, PALE, PALETTE, SMALL, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
GLANCE = ROOT / "benchmarks" / "results" / "at_a_glance.jsonl"
OURS, OTHER, GREY = PALETTE[0], PALETTE[1], "#c9c9c9"
# The classes of CIFAR-100 in the order of their numbers.
CLASSES = (  # noqa: SIM905
    "apple,aquarium fish,baby,bear,beaver,bed,bee,beetle,bicycle,bottle,bowl,boy,bridge,bus,"
    "butterfly,camel,can,castle,caterpillar,cattle,chair,chimpanzee,clock,cloud,cockroach,couch,"
    "crab,crocodile,cup,dinosaur,dolphin,elephant,flatfish,forest,fox,girl,hamster,house,kangaroo,"
    "keyboard,lamp,lawn mower,leopard,lion,lizard,lobster,man,maple,motorcycle,mountain,mouse,"
    "mushroom,oak,orange,orchid,otter,palm,pear,pickup truck,pine,plain,plate,poppy,porcupine,"
    "possum,rabbit,raccoon,ray,road,rocket,rose,sea,seal,shark,shrew,skunk,skyscraper,snail,snake,"
    "spider,squirrel,streetcar,sunflower,sweet pepper,table,tank,telephone,television,tiger,"
    "tractor,train,trout,tulip,turtle,wardrobe,whale,willow,wolf,woman,worm"
).split(",")


@cache
def halves() -> tuple[Any, Any, Any, Any]:
    """Return logits and labels of the labelled rows and of the others."""
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["wideresnet_16_4"], data.labels
    return logits[:5000], y[:5000], logits[5000:], y[5000:]


@cache
def sets_of(scores: str, alpha: float = 0.01) -> cx.PredictionSets:
    """Return the sets of the other half."""
    logits, y, fresh, _ = halves()
    options = {"weights": [1.0]} if scores == "thr" else {}
    cp = cx.ScoreAverage(scores, alpha=alpha, kind="logits", random_state=0, **options)
    return cp.fit(logits, y).predict_set(fresh)


def typical_row() -> int:
    """Return the row whose sets, both right, have sizes closest to the mean sizes of both."""
    plain, best, truth = sets_of("thr"), sets_of("auto"), halves()[3]
    rows = np.arange(len(truth))
    off = np.abs(np.log(plain.sizes.clip(1) / plain.sizes.mean()))
    off = off + np.abs(np.log(best.sizes.clip(1) / best.sizes.mean()))
    right = plain.mask[rows, truth] & best.mask[rows, truth]
    return int(np.where(right, off, np.inf).argmin())


def front() -> Figure:
    """Draw one row's two sets, and the mean sizes of what people use."""
    figure = new_figure(7.4, 4.0)
    figure.set_layout_engine("none")
    above = figure.add_axes((0.015, 0.665, 0.97, 0.25))
    below = figure.add_axes((0.29, 0.11, 0.7, 0.5))
    row = typical_row()
    truth = int(halves()[3][row])
    told = "One photo of a {}, two sets of labels; 99 % of the sets of either kind hold the truth"
    above.text(0, 5.1, told.format(CLASSES[truth]), fontsize=NORMAL + 1, color=INK, va="bottom")
    above.set(xlim=(0, 100), ylim=(0, 5))
    above.axis("off")
    _chips(above, "usual (LAC)", sets_of("thr").labels(row), truth, colour=GREY, top=4.6)
    _chips(above, "conformix", sets_of("auto").labels(row), truth, colour=OURS, top=1.6)
    _bars(below)
    return figure


def _chips(
    ax: Axes, title: str, labels: Sequence[int], truth: int, *, colour: str, top: float
) -> None:
    """Write labels as words in boxes, the truth in bold; a new line where one is full."""
    ax.text(0, top, title, fontsize=NORMAL, color=INK, va="top", weight="bold")
    x, y = 14.0, top
    for label in labels:
        name = CLASSES[label]
        wide = 0.8 + 0.87 * len(name)
        if x + wide > 100:
            x, y = 14.0, y - 1.15
        true = label == truth
        ax.text(
            x, y, name, fontsize=SMALL - 0.5, ha="left", va="top",
            weight="bold" if true else "normal", color="white" if true else INK,
            bbox={"boxstyle": "round,pad=0.22", "linewidth": 0.0,
                  "facecolor": PALETTE[2] if true else colour, "alpha": 1.0 if true else 0.35},
        )  # fmt: skip
        x += wide + 0.9


def _bars(ax: Axes) -> None:
    rows = [json.loads(line) for line in GLANCE.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["alpha"] == 0.01]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    sizes = {m: np.mean([r["mean_size"] for r in rows if r["method"] == m]) for m in methods}
    covered = {m: np.mean([r["coverage"] for r in rows if r["method"] == m]) for m in methods}
    ordered = sorted(methods, key=lambda method: sizes[method])
    heights = [sizes[method] for method in ordered]
    colours = [OURS if method.startswith("**") else GREY for method in ordered]
    ax.barh(range(len(ordered)), heights, color=colours, height=0.72)
    for place, method in enumerate(ordered):
        told = f" {sizes[method]:.1f} labels ({100 * covered[method]:.1f} % hold the truth)"
        ax.text(sizes[method], place, told, va="center", fontsize=SMALL, color=INK)
    names = [method.replace("*", "").replace("`", "") for method in ordered]
    tidy(
        ax,
        xlabel="mean number of labels in a set (CIFAR-100, 5,000 labelled rows; fewer is better)",
    )
    ax.set_yticks(range(len(ordered)), [name.replace(' (scores="paper")', "") for name in names])
    ax.set_xlim(0, 1.56 * max(heights))
    ax.grid(visible=False, axis="y")


def sets() -> Figure:
    """Draw an easy and a hard row: probabilities, threshold, and who is in the set."""
    logits, y, fresh, truth = halves()
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.05, kind="logits").fit(logits, y)
    found = cp.predict_set(fresh)
    inside = found.mask[np.arange(len(truth)), truth]
    probs = np.exp(fresh - fresh.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    easy = int(np.flatnonzero(inside & (found.sizes == 1))[0])
    hard = int(np.flatnonzero(inside & (found.sizes == 7))[0])
    figure = new_figure(7.0, 2.7)
    for ax, row, title in zip(figure.subplots(1, 2), (easy, hard), ("easy", "hard"), strict=True):
        order = np.argsort(-probs[row], kind="stable")[:10]
        colours = [OURS if found.mask[row, label] else GREY for label in order]
        ax.bar(range(10), probs[row, order], color=colours, width=0.75)
        size = int(found.sizes[row])
        few = "1 label" if size == 1 else f"{size} labels"
        tidy(ax, title=f"a row that is {title}: {few} in the set", ylabel="probability")
        ax.axhline(float(cp.threshold_), color=INK, linewidth=0.8, linestyle="--")
        ax.text(
            9.5, float(cp.threshold_) + 0.01, "threshold", ha="right", fontsize=SMALL, color=INK
        )
        ax.set_xticks(range(10), [CLASSES[label] for label in order], rotation=45, ha="right")
        for text, label in zip(ax.get_xticklabels(), order, strict=True):
            text.set_weight("bold" if label == truth[row] else "normal")
    return figure


def splits() -> Figure:
    """Draw which rows choose the weights and which set the threshold."""
    figure = new_figure(7.0, 2.6)
    ax = figure.add_subplot()
    chooses, calibrates, both = PALETTE[5], PALETTE[4], PALETTE[2]
    lines = (
        ("holdout", ((0, 34, chooses), (34, 100, calibrates)), "exact"),
        ("exact", ((0, 100, both), (104, 107, both)), "exact"),
        ("all-rows", ((0, 100, both),), "approximate"),
        ("batch, batch+", ((0, 100, both), (104, 134, chooses)), "approximate, this batch"),
    )
    for place, (name, parts, promise) in enumerate(reversed(lines)):
        for start, end, colour in parts:
            ax.barh(place, end - start, left=start, height=0.6, color=colour)
        ax.text(-2, place, name, ha="right", va="center", fontsize=NORMAL, color=INK)
        ax.text(138, place, promise, va="center", fontsize=NORMAL, color=INK)
    for x, text in ((50, "labelled rows"), (119, "rows to predict"), (150, "promise")):
        ax.text(x, 3.62, text, ha="center", fontsize=NORMAL, color=PALE)
    names = ("choose the weights", "set the threshold", "both")
    for x, colour, name in zip((5, 50, 93), (chooses, calibrates, both), names, strict=True):
        ax.barh(-0.85, 4, left=x, height=0.35, color=colour)
        ax.text(x + 5.5, -0.85, name, va="center", fontsize=SMALL, color=INK)
    ax.set(xlim=(-24, 178), ylim=(-1.2, 4))
    ax.axis("off")
    return figure


def promise() -> Figure:
    """Draw the coverage of many draws of calibration rows, and the law that it follows."""
    from scipy.stats import betabinom  # noqa: PLC0415

    _, _, fresh, truth = halves()
    all_logits = np.concatenate([halves()[0], fresh])
    labels = np.concatenate([halves()[1], truth])
    probs = np.exp(all_logits - all_logits.max(axis=1, keepdims=True))
    own = probs[np.arange(len(labels)), labels] / probs.sum(axis=1)
    own = own + np.random.default_rng(1).uniform(0, 1e-9, len(own))  # the law is that of no ties
    n, m, alpha, draws = 500, 2_000, 0.05, 4_000
    k = cx.conformal.conformal_rank(n, alpha)
    rng, covered = np.random.default_rng(0), np.empty(draws)
    for draw in range(draws):
        rows = rng.permutation(len(own))[: n + m]
        cut = np.sort(own[rows[:n]])[n - k]
        covered[draw] = np.count_nonzero(own[rows[n:]] >= cut)
    figure = new_figure(7.0, 2.6)
    ax = figure.add_subplot()
    counts = np.arange(1_780, 2_001)
    ax.hist(covered / m, bins=(counts[::4] - 0.5) / m, weights=np.full(draws, 0.25 / draws),
            color=GREY, label=f"{draws:,} draws of {n} calibration rows")  # fmt: skip
    ax.plot(counts / m, betabinom(m, k, n + 1 - k).pmf(counts), color=OURS, label="the law")
    ax.axvline(1 - alpha, color=INK, linewidth=0.8, linestyle="--")
    ax.text(1 - alpha, ax.get_ylim()[1], " promised: the mean", fontsize=SMALL, va="top")
    tidy(ax, xlabel=f"share of {m:,} new rows whose set holds the truth", ylabel="how often")
    ax.set_yticks([])
    ax.legend(frameon=False, fontsize=SMALL, loc="upper left")
    return figure


def kin() -> Figure:
    """Draw what labels say about each other, and what that does to one row."""
    logits, y, fresh, truth = halves()
    cp = cx.ScoreAverage(alpha=0.05, scores="auto", kind="logits", random_state=0).fit(logits, y)
    some = [CLASSES.index(name) for name in (
        "maple", "oak", "willow", "pine", "palm", "forest",
        "bus", "streetcar", "train", "pickup truck", "lion", "tiger", "leopard",
    )]  # fmt: skip
    (matrix,) = (c.score.factors for c in cp.blend_.columns if c.score.name == "kin")
    near = matrix / np.diagonal(matrix)[:, None]
    figure = new_figure(7.0, 3.1)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1.0))
    left.imshow(near[np.ix_(some, some)], cmap="Oranges", vmin=0, vmax=1)
    names = [CLASSES[label] for label in some]
    left.set_xticks(range(len(some)), names, rotation=60, ha="right", fontsize=SMALL)
    left.set_yticks(range(len(some)), names, fontsize=SMALL)
    left.set_title("labels that go together, learnt without labels", fontsize=NORMAL, color=INK)
    blended = cp.predict_pvalues(fresh)
    plain = (
        cx.ScoreAverage("thr", weights=[1.0], kind="logits").fit(logits, y).predict_pvalues(fresh)
    )
    rows = np.arange(len(truth))
    places = [1 + (p > p[rows, truth][:, None]).sum(axis=1) for p in (plain, blended)]
    groups = ((1, 1), (2, 3), (4, 10), (11, 30), (31, 100))
    means = [
        [np.exp(np.log(place[(places[0] >= low) & (places[0] <= high)]).mean()) for place in places]
        for low, high in groups
    ]
    x = np.arange(len(groups))
    right.bar(
        x - 0.2, [mean[0] for mean in means], 0.38, color=GREY, label="by its own probability"
    )
    right.bar(x + 0.2, [mean[1] for mean in means], 0.38, color=OURS, label="by the default")
    told = [f"{low}" if low == high else f"{low} to {high}" for low, high in groups]
    tidy(right, title="place of the true label, geometric mean", xlabel="its place by probability")
    right.set_xticks(x, told)
    right.set_yscale("log")
    right.set_yticks([1, 3, 10, 30], ["1", "3", "10", "30"])
    right.minorticks_off()
    right.legend(frameon=False, fontsize=SMALL, loc="upper left")
    return figure


DRAWINGS: dict[str, Callable[[], Figure]] = {
    "front": front,
    "sets": sets,
    "splits": splits,
    "promise": promise,
    "kin": kin,
}


def main() -> None:
    """Draw all of them, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="docs/images")
    parser.add_argument("--only", nargs="*", choices=DRAWINGS, default=list(DRAWINGS))
    arguments = parser.parse_args()
    for name in arguments.only:
        save_figure(DRAWINGS[name](), arguments.out, name, formats=("png",))


if __name__ == "__main__":
    main()
