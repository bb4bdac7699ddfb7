"""Which split and which scores suit how many rows: the answer in one record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.conformal import in_words, rows_needed, simple_fraction
from conformix.errors import InvalidInput, shown
from conformix.scores.blend import DICTIONARY, FEWEST_ROWS, LEARNT, plan_rows
from conformix.splits import SPLITS, in_plain_words


@dataclass(frozen=True)
class Choice:
    """What to say to `conformix.ScoreAverage`, and why; `choose` makes one.

    Parameters
    ----------
    split, scores : str
        The settings.
    n_tune, n_calibrate : int
        How many rows learn or choose, and how many set the threshold.
    guarantee : str
        The kind of the guarantee.
    why : str
        One sentence.
    python, shell : str
        The same as a line of Python and as a command.

    Examples
    --------
    >>> choose(1000, 10).guarantee
    'exact'
    """

    split: str
    scores: str
    n_tune: int
    n_calibrate: int
    guarantee: str
    why: str
    python: str
    shell: str

    def __str__(self) -> str:
        return (
            f"split {in_plain_words(self.split)}, scores {self.scores}: {self.why}\n"
            f"  {self.python}\n  {self.shell}"
        )


def choose(rows: int, classes: int, *, models: int = 1, alpha: float = 0.1) -> Choice:
    """Return the split and the scores that suit a number of labelled rows.

    Numbers decide, and no label is looked at, so that the choice costs no part of a guarantee.

    Parameters
    ----------
    rows : int
        Labelled rows that trained none of the models.
    classes : int
        K.
    models : int
        How many models give outputs.
    alpha : float
        Allowed miscoverage.

    Examples
    --------
    >>> print(choose(5000, 100, alpha=0.05))
    split holdout (vfcp), scores auto: 1,681 of 5,000 rows say what is averaged, the other 3,319 ...
      cx.ScoreAverage(alpha=0.05)
      conformix fit FILE -o model.json --alpha 0.05
    >>> choose(30, 10, alpha=0.05).split
    'exact'
    >>> choose(20, 10, alpha=0.01).why
    'alpha=0.01 needs at least 99 labelled rows, 79 more than 20: until then every set holds ...'
    """
    for value, name, least in ((rows, "rows", 1), (classes, "classes", 2), (models, "models", 1)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise InvalidInput(
                f"{name} must be an integer of at least {least}; got {shown(value)}."
            )
    level = float(simple_fraction(alpha))
    needed = rows_needed(alpha)
    learn = plan_rows(rows, alpha, models * (len(DICTIONARY) + len(LEARNT) + 1), classes)
    if rows < needed:
        return _choice(
            "holdout", "auto", (0, rows), level,
            f"alpha={level:g} needs at least {in_words(needed)} labelled rows, "
            f"{in_words(needed - rows)} more than {rows:,}: until then every set holds all labels, "
            f"whatever the split; {rows:,} rows allow alpha=1/{rows + 1} and more.",
        )  # fmt: skip
    if learn < FEWEST_ROWS:
        return _choice(
            "exact", "paper", (rows, rows), level,
            f"{rows:,} rows are too few to set some aside; all of them choose the weights and all "
            "set the threshold, with every candidate label among them.",
        )  # fmt: skip
    return _choice(
        "holdout", "auto", (learn, rows - learn), level,
        f"{learn:,} of {rows:,} rows say what is averaged, the other {rows - learn:,} set the "
        "threshold.",
    )  # fmt: skip


def _choice(split: str, scores: str, n: tuple[int, int], alpha: float, why: str) -> Choice:
    options, words = [f"alpha={alpha:g}"], [f"--alpha {alpha:g}"]
    if scores != "auto":
        options.insert(0, f'"{scores}"')
        words.append(f"--scores {scores}")
    if split != "holdout":
        options.append(f'split="{split}"')
        words.append(f"--split {split}")
    python = f"cx.ScoreAverage({', '.join(options)})"
    shell = f"conformix fit FILE -o model.json {' '.join(words)}"
    return Choice(SPLITS.name(split), scores, *n, SPLITS[split].guarantee.kind, why, python, shell)
