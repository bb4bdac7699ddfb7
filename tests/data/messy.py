"""Files as people bring them, each with one thing wrong: written by small functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cli.drawn import NAMES, draw

P, Y = draw(0, 240)
LOGITS = np.log(P) + 2.0
TEXT = np.array(NAMES)[Y]
RNG = np.random.default_rng(7)
FEATURES = np.column_stack(
    [RNG.normal(50, 9, 240), RNG.normal(3, 1, 240), RNG.normal(1, 0.3, 240), RNG.normal(0, 1, 240)]
)


class Messy(NamedTuple):
    """A file that is wrong: how to write it, what is found, and with which options it is right."""

    write: Callable[[Path], str]
    code: str
    options: dict[str, str]


def table(
    name: str, *columns: tuple[str, Any], sep: str = ",", comma: bool = False, end: str = "\n"
) -> Callable[[Path], str]:
    """Return what writes a csv file of named columns (n,) or (n, m); texts stay as they are."""

    def write(folder: Path) -> str:
        lines = [sep.join(header for header, _ in columns)]
        for i in range(len(columns[0][1])):
            cells: list[str] = []
            for _, values in columns:
                row = np.atleast_1d(np.asarray(values)[i])
                cells += [f"{v:.10g}" if isinstance(v, np.floating) else str(v) for v in row]
            lines.append(sep.join(c.replace(".", ",") if comma else c for c in cells))
        (folder / name).write_text(end.join(lines) + end, encoding="utf-8")
        return name

    return write


def outputs(
    values: Any = P, label: str = "label", y: Any = TEXT, *first: tuple[str, Any], **how: Any
) -> Callable[[Path], str]:
    """Return what writes outputs with class names, other columns before them."""
    return table("rows.csv", *first, (how.pop("sep", ",").join(NAMES), values), (label, y), **how)


def arrays(**named: Any) -> Callable[[Path], str]:
    """Return what writes an npz file."""

    def write(folder: Path) -> str:
        np.savez(folder / "rows.npz", **named)
        return "rows.npz"

    return write


def semicolons(values: Any, **how: Any) -> Callable[[Path], str]:
    columns = [(name, values[:, j]) for j, name in enumerate(NAMES)]
    return table("rows.csv", *columns, ("label", TEXT), sep=";", **how)


COUNT = np.arange(240)
HOT = np.eye(4)[P.argmax(axis=1)]
VOTES = np.stack([RNG.multinomial(7, p) for p in P]).astype(float)
SIGMOIDS = 1 / (1 + np.exp(-(LOGITS + RNG.normal(0, 1, LOGITS.shape))))
PERFECT = np.eye(4)[Y] * 0.7 + P * 0.3
TWICE = np.r_[np.arange(120), np.arange(120)]

MESSY: dict[str, Messy] = {
    # columns that are no outputs
    "id from 1": Messy(
        outputs(LOGITS, "label", TEXT, ("id", COUNT + 1)), "counter", {"--drop": "id"}
    ),
    "id from 0": Messy(
        outputs(LOGITS, "label", TEXT, ("row", COUNT)), "counter", {"--drop": "row"}
    ),
    "id of a database": Messy(
        outputs(LOGITS, "label", TEXT, ("pk", 70_000 + 3 * COUNT)), "counter", {"--drop": "pk"}
    ),
    "id beside probabilities": Messy(
        outputs(P, "label", TEXT, ("id", COUNT + 1)), "counter", {"--drop": "id"}
    ),
    "shuffled id": Messy(
        outputs(LOGITS, "label", TEXT, ("id", RNG.permutation(240))), "counter", {"--drop": "id"}
    ),
    "age": Messy(
        outputs(LOGITS, "label", TEXT, ("age", RNG.integers(18, 90, 240))),
        "foreign column",
        {"--drop": "age"},
    ),
    "fold beside probabilities": Messy(
        outputs(P, "label", TEXT, ("fold", COUNT % 5)), "foreign column", {"--drop": "fold"}
    ),
    "year": Messy(
        outputs(LOGITS, "label", TEXT, ("year", 2000 + COUNT % 20)),
        "foreign column",
        {"--drop": "year"},
    ),
    "income": Messy(
        outputs(LOGITS, "label", TEXT, ("income", RNG.normal(4e4, 9e3, 240))),
        "foreign column",
        {"--drop": "income"},
    ),
    "bias": Messy(
        outputs(LOGITS, "label", TEXT, ("bias", np.ones(240))),
        "constant column",
        {"--drop": "bias"},
    ),
    "label as a number": Messy(
        outputs(LOGITS, "label", TEXT, ("label_id", Y)), "foreign column", {"--drop": "label_id"}
    ),
    "text": Messy(
        outputs(P, "label", TEXT, ("text", np.array(["good dog", "bad"])[Y % 2])),
        "text column",
        {"--drop": "text"},
    ),
    "name of a file": Messy(
        outputs(LOGITS, "label", TEXT, ("file", [f"img{i}.png" for i in COUNT])),
        "text column",
        {"--drop": "file"},
    ),
    "id and text": Messy(
        outputs(LOGITS, "label", TEXT, ("id", COUNT), ("note", np.full(240, "ok"))),
        "counter",
        {"--drop": "note,id"},
    ),
    "index of pandas": Messy(outputs(P, "label", TEXT, ("", COUNT)), "unnamed column", {}),
    # labels
    "label called answer": Messy(
        outputs(P, "answer"), "label column", {"--label-column": "answer"}
    ),
    "label called truth, a number": Messy(
        outputs(P, "truth", Y), "label column", {"--label-column": "truth"}
    ),
    "labels from 1 in an npz": Messy(
        arrays(probs=P, labels=Y + 1), "labels from 1", {"--labels-from": "1"}
    ),
    "labels from 1 in a csv": Messy(
        outputs(P, "label", Y + 1), "labels from 1", {"--labels-from": "1"}
    ),
    "labels from 1, the last class never met": Messy(
        arrays(probs=np.column_stack([P, np.zeros(240)]), labels=Y + 1),
        "labels from 1",
        {"--labels-from": "1"},
    ),
    "labels of other rows": Messy(outputs(P, "label", TEXT[RNG.permutation(240)]), "unrelated", {}),
    "columns of other classes": Messy(outputs(P[:, [1, 2, 3, 0]]), "unrelated", {}),
    "too many labels": Messy(arrays(probs=P[:200], labels=Y), "other length", {}),
    "a label that no class has": Messy(outputs(P, "label", [*TEXT[:-1], "gnu"]), "unreadable", {}),
    # what the numbers are
    "per cents": Messy(outputs(100 * P), "per cent", {"--kind": "shares"}),
    "per cents in an npz": Messy(arrays(probs=100 * P, labels=Y), "per cent", {"--kind": "shares"}),
    "rounded per cents": Messy(outputs((100 * P).round()), "per cent", {"--kind": "shares"}),
    "votes of seven trees": Messy(outputs(VOTES), "votes", {"--kind": "shares"}),
    "two digits": Messy(outputs(P.round(2)), "rounding", {"--renormalize": ""}),
    "three digits": Messy(arrays(probs=P.round(3), labels=Y), "rounding", {"--renormalize": ""}),
    "sums of .99": Messy(outputs(0.99 * P), "rounding", {"--renormalize": ""}),
    "sigmoids": Messy(outputs(SIGMOIDS), "no distribution", {"--kind": "shares"}),
    "hard predictions": Messy(outputs(HOT), "hard predictions", {}),
    "logits of one model, probabilities of the other": Messy(
        arrays(a=P, b=LOGITS, labels=Y), "mixed", {}
    ),
    "the same outputs everywhere": Messy(
        arrays(probs=np.tile(P[:1], (240, 1)), labels=Y), "constant", {}
    ),
    "logits times a million": Messy(arrays(logits=1e6 * LOGITS, labels=Y), "huge", {}),
    # no outputs at all
    "features": Messy(outputs(FEATURES, "label", Y), "features", {}),
    "features in an npz": Messy(arrays(X=FEATURES, labels=Y), "features", {}),
    "features on wild scales": Messy(
        arrays(X=FEATURES * [1, 1e3, 1, 1] - [0, 3e3, 0, 0], labels=Y), "features", {}
    ),
    "features that are counts": Messy(
        arrays(X=RNG.poisson(9, (240, 4)).astype(float), labels=Y), "features", {}
    ),
    # rows
    "every row twice": Messy(arrays(probs=P[TWICE], labels=Y[TWICE]), "duplicates", {}),
    "some rows three times": Messy(
        arrays(probs=P[np.r_[COUNT, :9, :9]], labels=Y[np.r_[COUNT, :9, :9]]), "duplicates", {}
    ),
    "rows that were trained on": Messy(outputs(PERFECT), "leak", {}),
    "eight rows": Messy(outputs(P[:8], "label", TEXT[:8]), "few rows", {"--split": "exact"}),
    # text
    "decimal commas": Messy(semicolons(P, comma=True), "decimal commas", {}),
    "decimal commas in logits": Messy(semicolons(LOGITS, comma=True), "decimal commas", {}),
    "no header": Messy(table("rows.csv", ("0.5,0.25,0.2,0.05", P), ("1", Y)), "unreadable", {}),
    "a missing number": Messy(
        outputs(np.where(COUNT[:, None] == 5, np.nan, P)), "missing numbers", {}
    ),
}


def forest(kind: str) -> tuple[Any, Any]:
    """Probabilities that trees or neighbours give: multiples of a hundredth, many of them 0."""
    n = {"forest": 100, "neighbours": 5}[kind]
    return np.stack([RNG.multinomial(n, p) for p in P]) / n, Y


def from_data(name: str, model: str, probabilities: bool) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        import conformix as cx

        data = cx.datasets.load(name)
        rows = np.linspace(0, len(data.labels) - 1, 600).astype(int)
        values = data.outputs[model][rows].astype(float)
        if probabilities:
            powers = np.exp(values - values.max(axis=1, keepdims=True))
            values = powers / powers.sum(axis=1, keepdims=True)
        return arrays(outputs=values, labels=data.labels[rows])(folder)

    return write


# A model of few leaves: many rows, few answers.
LEAVES = P[RNG.integers(12, size=240)]
LEAVES_Y = np.array([RNG.choice(4, p=p) for p in LEAVES])

CLEAN: dict[str, Callable[[Path], str]] = {
    "a tree of twelve leaves": arrays(probs=LEAVES, labels=LEAVES_Y),
    "probabilities": outputs(P),
    "logits": outputs(LOGITS),
    "probabilities with ids dropped by hand": arrays(
        probs=P, labels=Y, class_names=np.array(NAMES)
    ),
    "two models": arrays(forest=forest("forest")[0], network=P, labels=Y),
    "a forest": arrays(probs=forest("forest")[0], labels=Y),
    "five neighbours": arrays(probs=forest("neighbours")[0], labels=Y),
    "an npz of single precision": arrays(
        probs=(P / P.sum(1, keepdims=True)).astype(np.float32), labels=Y
    ),
    "semicolons": semicolons(P),
    "log-probabilities": arrays(logp=np.log(P), labels=Y),
    "cifar10, logits": from_data("cifar10", "vgg16", probabilities=False),
    "cifar10, probabilities": from_data("cifar10", "lenet5", probabilities=True),
    "cifar100": from_data("cifar100", "wideresnet_16_4", probabilities=False),
    "mmlu": from_data("mmlu_llama13b", "llama13b_prompt0", probabilities=True),
}
