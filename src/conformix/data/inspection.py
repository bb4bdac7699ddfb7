"""What outputs and labels look like, before anything is fitted on them: findings in plain words.

A set covers whatever it is made of, features and row numbers too, so that nonsense comes out with
an exact guarantee above it. What no model gives away is found here: counters, per cents, columns
on another scale, labels that count from 1, rows that come twice, outputs that know nothing of the
labels. A finding that is `serious` makes a fit worthless; others are worth a look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformix.data.checks import ROUNDED, by_model, called, matrix
from conformix.data.first_rows import first_rows
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import HALF_SUM_TOLERANCE, SUM_TOLERANCE, two_columns
from conformix.errors import ConformixWarning, InvalidInput, warn
from conformix.kernels.arrays import FloatArray, IntArray, to_host

# Rows that are looked at, evenly spread; more of them would say the same.
LOOKED_AT = 4000
# Fewer rows say nothing about chance.
ENOUGH = 50
# Numbers beyond it are taken for it, so that sums and ranges stay finite.
LARGEST = 1e30
# Copies of one row that are somebody's mistake, and not those of a model with few answers.
MOST_COPIES = 8


class SuspectOutputsWarning(ConformixWarning):
    """Outputs that no model gives: the guarantee would hold of nonsense.

    Examples
    --------
    >>> issubclass(SuspectOutputsWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or may be.

    Parameters
    ----------
    code : str
        What it is, in one or two words.
    sentence : str
        What was found, where, and what to do about it in Python.
    options : mapping of str to str
        What the shell should be told: options and their values.
    serious : bool
        Whether a fit would be worthless.

    Examples
    --------
    >>> print(Finding("per cent", "rows sum to 100.", {"--kind": "shares"}, serious=True))
    per cent: rows sum to 100.
    """

    code: str
    sentence: str
    options: Mapping[str, str] = field(default_factory=dict)
    serious: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"


@dataclass(frozen=True)
class Inspection:
    """What was found in outputs and labels; prints one sentence per finding.

    Examples
    --------
    >>> Inspection(())
    nothing suspicious was found.
    """

    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        return "\n".join(map(str, self.findings)) or "nothing suspicious was found."

    @property
    def codes(self) -> tuple[str, ...]:
        """What was found, by code."""
        return tuple(finding.code for finding in self.findings)

    @property
    def serious(self) -> tuple[Finding, ...]:
        """The findings that make a fit worthless."""
        return tuple(finding for finding in self.findings if finding.serious)

    @property
    def options(self) -> dict[str, str]:
        """What the shell should be told, all findings together."""
        merged: dict[str, str] = {}
        for finding in self.findings:
            for name, value in finding.options.items():
                both = name == "--drop" and merged.get(name)
                merged[name] = f"{merged[name]},{value}" if both else value
        return merged


@dataclass(frozen=True, eq=False)
class Look:
    """Some rows of one model, with their labels where there are any."""

    values: FloatArray  # (n, K), float64
    y: IntArray | None
    names: tuple[str, ...]  # of the columns
    kind: str  # as given, or as it is guessed
    model: str = ""

    @property
    def sums(self) -> FloatArray:
        """The sums of the rows."""
        return self.values.sum(axis=1)

    @property
    def top(self) -> IntArray:
        """The largest column of every row."""
        return self.values.argmax(axis=1)

    @property
    def continuous(self) -> Any:
        """Rows whose numbers are no multiples of 1/1000: shares of trees or neighbours are."""
        steps = self.values * 1000
        return (np.abs(steps - np.round(steps)) > 1e-6).any(axis=1)

    def whole(self) -> Any:
        """Return which columns hold whole numbers alone, several of them."""
        plain = (self.values == np.round(self.values)).all(axis=0)
        return plain & (self.values.max(axis=0) > self.values.min(axis=0))

    def named(self, j: int) -> str:
        """Return what to call a column."""
        return f"column {self.names[j]!r}"


def look_at(
    models: Mapping[str, Any],
    y: Any = None,
    *,
    kind: str,
    classes: Sequence[Any] | None = None,
    alpha: float = 0.1,
    other: Mapping[str, Any] | None = None,
) -> tuple[Finding, ...]:
    """Return what is suspicious about outputs (n, K) of models and label indices (n,).

    `kind` is what they are taken for, and `other` outputs of the same models on rows that must not
    be among these.
    """
    findings: list[Finding] = []
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in models.items()}
    n = len(next(iter(arrays.values())))
    rows = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(int))
    labels = None if y is None else np.asarray(y)[rows]
    mixed = list(_of_all(arrays, rows, kind))  # of which kind all are cannot be said then
    findings += mixed
    for model, values in arrays.items():
        # Of three million rows a few thousand are enough, but twins may be far apart.
        part = values[rows]
        if part.ndim != 2 or part.shape[1] < 2:
            continue
        gaps = (np.isnan(part) | (part == np.inf)).any(axis=1)
        if gaps.any():
            findings.append(Finding("missing numbers", (
                f"{int(gaps.sum()):,} of {len(part):,} rows hold NaN or infinity, the first is row "
                f"{int(rows[gaps.argmax()])}; leave these rows out, or write their outputs."
            ), serious=True))  # fmt: skip
            continue
        part = np.clip(part, -LARGEST, LARGEST)  # a class may be ruled out by -inf
        names = tuple(map(str, classes if classes is not None else range(part.shape[1])))
        look = Look(part, labels, names, kind, model)
        findings += _columns(look) if mixed else _of_one(look)
    if n >= 2 and (n // 2 + 1) * alpha < 1:
        needed = int(np.ceil(2 * (1 / alpha - 1)))
        findings.append(Finding("few rows", (
            f"{n} rows are too few for alpha={alpha:g}: with half of them for the weights every "
            f'set holds all labels; bring {needed} or more, or say split="exact".'
        ), {"--split": "exact"}))  # fmt: skip
    if other is not None:
        findings += _shared(arrays, other)
    return tuple({finding.sentence: finding for finding in findings}.values())


def _of_one(look: Look) -> Iterator[Finding]:
    """Yield what is found in one model: the columns first, since they spoil all the rest."""
    aliens = list(_columns(look))
    if aliens:
        yield from aliens
        return
    sums = list(_sums(look))
    yield from sums
    scale = [] if sums else list(_scale(look))
    yield from scale
    yield from _rows(look)
    if look.y is not None and len(look.y) >= ENOUGH and not sums and not scale:
        yield from _labels(look)


def _columns(look: Look) -> Iterator[Finding]:
    """Yield columns that are no outputs: counters, whole numbers, constants, copies of the label.

    Probabilities between 0 and 1 that sum to 1 have none of these.
    """
    n, n_classes = look.values.shape
    if n < 10 or _is_distribution(look):
        return
    whole = look.whole()
    met = np.zeros(n_classes, dtype=bool)
    if look.y is not None:
        met[np.unique(look.y)] = True
    ranges = np.ptp(look.values, axis=0)
    others = np.median(ranges)
    for j in range(n_classes):
        column = look.values[:, j]
        options = {"--drop": look.names[j]}
        rest = "leave it out"
        if whole[j] and ranges[j] >= n - 1 and (np.diff(np.sort(column)) >= 1).all():
            first = ", ".join(f"{value:.0f}" for value in column[:3])
            yield Finding("counter", (
                f"{look.named(j)} numbers the rows ({first}, ...) and is no output; {rest}."
            ), options, serious=True)  # fmt: skip
        elif whole[j] and look.y is not None and np.array_equal(column, look.y):
            yield Finding("label", (
                f"{look.named(j)} is the label itself, as a number; {rest}."
            ), options, serious=True)  # fmt: skip
        elif whole[j] and not whole.all() and not met[j]:
            low, high = column.min(), column.max()
            yield Finding("foreign column", (
                f"{look.named(j)} holds whole numbers from {low:.0f} to {high:.0f}, unlike the "
                f"others, and no row has it as its label; {rest}."
            ), options, serious=True)  # fmt: skip
        elif ranges[j] == 0 and others > 0 and not met[j] and look.y is not None:
            yield Finding("constant column", (
                f"{look.named(j)} is {column[0]:g} in every row, and no row has it as its label; "
                f"{rest}."
            ), options, serious=True)  # fmt: skip
        elif n_classes > 2 and others > 0 and ranges[j] > 100 * others and not met[j]:
            yield Finding("foreign column", (
                f"{look.named(j)} ranges over {ranges[j]:.3g}, the others over {others:.3g}, and "
                f"no row has it as its label; {rest}."
            ), options, serious=True)  # fmt: skip


def _is_distribution(look: Look) -> bool:
    inside = (look.values >= 0).all() and (look.values <= 1 + HALF_SUM_TOLERANCE).all()
    return bool(inside and (np.abs(look.sums - 1) <= HALF_SUM_TOLERANCE).all())


def _sums(look: Look) -> Iterator[Finding]:
    """Yield what sums of rows give away: per cents, votes, rounding, sigmoids, mistaken kinds."""
    values, sums = look.values, look.sums
    positive = bool((values >= 0).all())
    inside = positive and bool((values <= 1 + SUM_TOLERANCE).all())
    off = np.abs(sums - 1)
    if look.kind in ("shares", "binary"):
        return
    if positive and not inside and (np.abs(sums - 100) <= 100 * ROUNDED).all():
        yield Finding("per cent", (
            'rows sum to 100: these are per cents and no logits; say kind="shares".'
        ), {"--kind": "shares"}, serious=True)  # fmt: skip
    elif positive and not inside and len(sums) > 1 and np.ptp(sums) <= 1e-6 * sums[0]:
        yield Finding("votes", (
            f'every row sums to {sums[0]:g}: these are votes or counts and no logits; say '
            'kind="shares".'
        ), {"--kind": "shares"}, serious=True)  # fmt: skip
    elif inside and (off <= HALF_SUM_TOLERANCE).all() and look.kind in ("logits", "logprobs"):
        yield Finding("probabilities", (
            f'numbers lie between 0 and 1 and rows sum to 1, and they are taken for {look.kind}; '
            'say kind="probs".'
        ), {"--kind": "probs"}, serious=True)  # fmt: skip
    elif inside and (off <= ROUNDED).all() and (off > SUM_TOLERANCE).any():
        worst = float(sums[off.argmax()])
        yield Finding("rounding", (
            f"rows sum to 1 up to rounding only, one of them to {worst:.4g}; write more digits, or "
            "say renormalize=True."
        ), {"--renormalize": ""}, serious=look.kind == "probs")  # fmt: skip
    elif inside and (off > ROUNDED).mean() > 0.5:
        yield Finding("no distribution", (
            f"numbers lie between 0 and 1, and rows sum to {sums.min():.3g} to {sums.max():.3g}: "
            'one-vs-rest probabilities are divided by their sums with kind="shares", features are '
            "no outputs."
        ), {"--kind": "shares"}, serious=True)  # fmt: skip
    elif look.kind == "probs" and not inside:
        yield Finding("logits", (
            'numbers are no probabilities, and are taken for such; say kind="logits".'
        ), {"--kind": "logits"}, serious=True)  # fmt: skip


def _scale(look: Look) -> Iterator[Finding]:
    """Yield numbers that no model puts side by side: features, hard predictions, constants."""
    values, n_classes = look.values, look.values.shape[1]
    n = len(values)
    if n > 1 and (values == values[0]).all():
        yield Finding("constant", (
            "every row has the same outputs, so that every set holds the same labels; look at how "
            "they were written."
        ))  # fmt: skip
        return
    distinct = np.unique(values)
    if len(distinct) == 2 and n >= 10 and (np.sort(values, axis=1)[:, -2] == distinct[0]).all():
        yield Finding("hard predictions", (
            "every row has one label and nothing else: these are predictions, not probabilities "
            "(predict_proba has them)."
        ))  # fmt: skip
        return
    if look.kind != "logits" or n < ENOUGH:
        return
    share = np.bincount(look.top, minlength=n_classes) / n
    most = int(share.argmax())
    true = 1.0 if look.y is None else float((look.y == most).mean())
    if n_classes > 2 and share[most] > 0.95 and true < 0.7:
        yield Finding("features", (
            f"{look.named(most)} is the largest in {share[most]:.0%} of the rows and the label of "
            f"{true:.0%}: no model answers so, features do; give the outputs of a model."
        ), serious=True)  # fmt: skip
    spread = np.std(values, axis=0)
    if n_classes > 2 and spread.min() > 0 and spread.max() > 50 * np.median(spread):
        yield Finding("features", (
            f"{look.named(int(spread.argmax()))} varies {spread.max() / np.median(spread):.0f} "
            "times as much as the others: outputs of a model are on one scale, features are not."
        ), serious=True)  # fmt: skip
    elif (values == np.round(values)).all() and n_classes > 2 and np.abs(values).max() > 1:
        yield Finding("features", (
            "all numbers are whole, and rows sum to different numbers: logits are not, features "
            "and counts are; give the outputs of a model."
        ), serious=True)  # fmt: skip
    gap = np.sort(values, axis=1)[:, -1] - np.sort(values, axis=1)[:, -2]
    if np.median(gap) > 1000 and (values > -LARGEST).all():
        yield Finding("huge", (
            f"the largest number of a row exceeds the next one by {np.median(gap):.3g} in the "
            "median, where a softmax knows 0 and 1 alone; divide the logits, or look whether these "
            "are outputs of a model."
        ))  # fmt: skip


def _rows(look: Look) -> Iterator[Finding]:
    """Yield rows that come more than once, where their numbers are too fine for chance."""
    fine = look.continuous
    if fine.sum() < 20:
        return
    labelled = look.values[fine]
    if look.y is not None:
        labelled = np.column_stack([labelled, look.y[fine]])
    n = len(labelled)
    counts = np.unique(labelled, axis=0, return_counts=True)[1]
    twice = n - len(counts)
    # A model of few leaves answers many rows alike; copies come two or three at a time.
    if twice > max(3, 0.02 * n) and counts.max() <= MOST_COPIES:
        yield Finding("duplicates", (
            f"{twice:,} of {n:,} rows come more than once: rows that are copies are not "
            "exchangeable with new ones; keep one of each, or name their groups."
        ))  # fmt: skip


def _labels(look: Look) -> Iterator[Finding]:
    """Yield what outputs and labels say of each other."""
    y, top, n = look.y, look.top, len(look.values)
    assert y is not None
    n_classes = look.values.shape[1]
    hits = float((top == y).mean())
    shifted = float((top == y - 1).mean())
    chance = float((np.bincount(top, minlength=n_classes) / n)[y].mean())
    if y.min() >= 1 and shifted > 2 * hits and shifted > hits + 0.2:
        yield Finding("labels from 1", (
            f"no row has label 0, and labels less one are predicted in {shifted:.0%} of the rows "
            f"(as they are, {hits:.0%}): they seem to count from 1; give y - 1."
        ), {"--labels-from": "1"}, serious=True)  # fmt: skip
        return
    if hits == 1 and n >= 100:
        yield Finding("leak", (
            f"all {n:,} labels are predicted without an error: were these rows trained on, or is "
            "the label among the inputs of the model? Calibrate on rows that it has never seen."
        ))  # fmt: skip
        return
    worse = (look.values > look.values[np.arange(n), y][:, None]).sum(axis=1)
    alike = (look.values == look.values[np.arange(n), y][:, None]).sum(axis=1) - 1
    place = (worse + alike / 2) / (n_classes - 1)  # 0 is best, 1/2 is chance
    spread = max(float(place.std()), 1e-12) / np.sqrt(n)
    if place.mean() > 0.5 - 2 * spread and hits <= chance + 2 * np.sqrt(chance / n):
        yield Finding("unrelated", (
            f"the true label is no likelier than any other (mean place {place.mean():.2f}, chance "
            "0.50): labels belong to other rows, or columns to other classes."
        ))  # fmt: skip


def _of_all(arrays: Mapping[str, FloatArray], rows: IntArray, kind: str) -> Iterator[Finding]:
    """Yield what several models say of each other."""
    if len(arrays) < 2:
        return
    looks = {
        model: Look(values[rows], None, (), kind, model)
        for model, values in arrays.items()
        if values.ndim == 2
    }
    are = {model: _is_distribution(look) for model, look in looks.items()}
    if len(set(are.values())) > 1:
        probs = ", ".join(repr(model) for model, one in are.items() if one)
        others = ", ".join(repr(model) for model, one in are.items() if not one)
        yield Finding("mixed", (
            f"{probs} holds probabilities and {others} does not: all models must be of one kind; "
            "give the logarithm of the probabilities, or the softmax of the logits."
        ), serious=True)  # fmt: skip


def _shared(arrays: Mapping[str, FloatArray], other: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield rows that stand in two files, where their numbers are too fine for chance."""
    for model, values in arrays.items():
        there = np.asarray(other.get(model, np.zeros((0, 0))), dtype=np.float64)
        if there.ndim != 2 or values.ndim != 2 or there.shape[1] != values.shape[1]:
            continue
        finite = [np.clip(np.nan_to_num(part), -LARGEST, LARGEST) for part in (values, there)]
        fine = [part[Look(part, None, (), "").continuous] for part in finite]
        known = {row.tobytes() for row in fine[0]}
        both = sum(row.tobytes() in known for row in fine[1])
        if both > max(1, 0.001 * len(there)):
            yield Finding("leak between files", (
                f"{both:,} of {len(there):,} rows stand in both files: rows of the fit are not "
                "fresh, and their coverage says nothing; keep them apart."
            ), serious=True)  # fmt: skip
            return


def inspect(
    outputs: Any,
    y: Any = None,
    *,
    kind: str = "auto",
    classes: Any = None,
    alpha: float = 0.1,
    test: Any = None,
) -> Inspection:
    """Look at outputs and labels as they are, and say what no model gives away.

    Parameters
    ----------
    outputs : array of shape (n, K), a mapping or sequence of such, Dask arrays or batches
        What `fit` would be given, or `fit_batches`; of Dask arrays and batches the first few
        thousand rows are looked at.
    y : array of shape (n,), optional
        Labels; without them less is found. Batches bring theirs along.
    kind : {"auto", "probs", "logits", "logprobs", "shares", "binary"}
        What `fit` would be told that they are; ``auto`` as the shell takes them.
    classes : sequence of length K, optional
        Names of the columns.
    alpha : float
        The level that is planned.
    test : like `outputs`, optional
        Rows that must not be among them.

    Returns
    -------
    Inspection
        One finding per thing, or none; a finding is never raised.

    Examples
    --------
    >>> import conformix as cx
    >>> P = [[60.0, 40.0], [25.0, 75.0], [90.0, 10.0]] * 10
    >>> cx.inspect(P, [0, 1, 0] * 10)
    per cent: rows sum to 100: these are per cents and no logits; say kind="shares".
    """
    try:
        outputs, y = first_rows(outputs, y, LOOKED_AT)
        test, _ = first_rows(test, None, LOOKED_AT)
        models = _matrices(outputs, "outputs", kind)
        known = kind_of(models) if kind == "auto" else kind
        others = None if test is None else _matrices(test, "test", kind)
        n, n_classes = next(iter(models.values())).shape
        labels = None
        if y is not None:
            names = check_classes(classes, n_classes)
            labels = label_indices(y, names, n, n_classes)
    except InvalidInput as error:
        return Inspection((refusal(str(error)),))
    return Inspection(
        look_at(models, labels, kind=known, classes=classes, alpha=alpha, other=others)
    )


def _matrices(outputs: Any, name: str, kind: str) -> dict[str, FloatArray]:
    """Return outputs as (n, K) matrices of one shape, their numbers unchecked."""
    read = two_columns if kind == "binary" else matrix
    named = {key: read(v, called(name, key)) for key, v in by_model(outputs, name).items()}
    arrays = {key: np.asarray(to_host(values[:])) for key, values in named.items()}
    if len({values.shape for values in arrays.values()}) > 1:
        raise InvalidInput(f"{name} of several models must share one shape (n, K).")
    return arrays


def kind_of(models: Mapping[str, Any]) -> str:
    """Return what the shell takes outputs for."""
    inside = all(
        bool(((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all()) for values in models.values()
    )
    return "probs" if inside else "logits"


def refusal(sentence: str) -> Finding:
    """Return the finding that a refusal is, with what the shell should be told."""
    if "count from 1" in sentence:
        return Finding("labels from 1", sentence, {"--labels-from": "1"}, serious=True)
    return Finding("unreadable", sentence, serious=True)


# Rows of a prediction that are looked at: a service asks for one, and waits for it.
FIRST_ROWS = 8


def warn_if_probabilities(models: Mapping[str, Any], name: str) -> None:
    """Warn where rows to predict are probabilities and the model was fitted on logits."""
    for model, values in models.items():
        if not isinstance(values, np.ndarray) or not len(values):
            continue
        first = values[:FIRST_ROWS]
        if first.min() < 0 or np.abs(first.sum(axis=1) - 1).max() > HALF_SUM_TOLERANCE:
            continue
        if (first == np.round(first)).any(axis=1).all():
            continue  # a softmax is never quite 0 or 1; small cases are
        warn(
            f"{called(name, model)}: numbers lie between 0 and 1 and rows sum to 1, and the model "
            "was fitted on logits; give logits.",
            SuspectOutputsWarning,
        )


def warn_if_suspect(models: Mapping[str, Any], kind: str) -> None:
    """Warn where numbers that are taken for logits are per cents, or hold a counter."""
    if kind != "logits":
        return
    for model, values in models.items():
        if not isinstance(values, np.ndarray) or values.ndim != 2 or len(values) < 20:
            continue
        first = values[:FIRST_ROWS]
        if first.min() < 0 and not (first == np.round(first)).all(axis=0).any():
            continue  # what is warned of is never negative, or has a column of whole numbers
        part = np.asarray(values[:LOOKED_AT], dtype=np.float64)
        if np.isnan(part).any():
            continue  # refused by those who read it
        part = np.clip(part, -LARGEST, LARGEST)
        look = Look(part, None, tuple(map(str, range(part.shape[1]))), kind, model)
        for finding in (*_columns(look), *_sums(look)):
            if finding.code in ("counter", "per cent", "probabilities"):
                whose = f"outputs[{model!r}]" if model else "outputs"
                warn(f"{whose}: {finding.sentence}", SuspectOutputsWarning)
