"""From names to methods: the registry, and the notation with a split.

``average`` is the paper's method under VFCP; ``average:efcp`` under another split. ``thr``,
``raps(penalty=0.2)`` or ``vgg16.aps``, any score in the notation of `conformix.scores`, is that
score alone. To add a method, write a frozen dataclass that turns a `Task` into an `Outcome`, and
one line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformix.errors import InvalidInput
from conformix.experiments.methods.auto import Auto
from conformix.experiments.methods.fixed import Fixed, MajorityVote
from conformix.experiments.methods.searched import Average, Oracle
from conformix.experiments.methods.selected import Selected
from conformix.experiments.methods.task import Method
from conformix.registry import unknown_name
from conformix.scores.names import SCORES, is_score, is_score_of_a_model
from conformix.splits import SPLITS

TEMPERATURES = (0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
RAPS_PENALTIES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
RAPS_FREE_RANKS = (1, 5)
SAPS_PENALTIES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

TUNED_THR = tuple(f"thr(temperature={t})" for t in TEMPERATURES)
TUNED_RAPS = tuple(
    f"raps(penalty={penalty}, k_reg={free})"
    for free in RAPS_FREE_RANKS
    for penalty in RAPS_PENALTIES
)
TUNED_SAPS = tuple(f"saps(penalty={penalty})" for penalty in SAPS_PENALTIES)


@dataclass(frozen=True)
class Choices:
    """What an experiment fixes for all its averages.

    Parameters
    ----------
    scores : tuple of str
        What is averaged. An ensemble is scored by the first of them.
    normalize : str
        On which scale.
    resolution : int or None
        Of the weight grid.

    Examples
    --------
    >>> resolve_method("best-single", Choices(scores=("thr", "margin")))
    Selected(scores=('thr', 'margin'), split='vfcp')
    """

    scores: tuple[str, ...] = ("thr", "aps", "rank")
    normalize: str = "scale"
    resolution: int | None = None

    @property
    def unlearnt(self) -> str:
        """The scale of averages without tuning rows."""
        return "none" if self.normalize == "none" else "scale"


Builder = Callable[[Choices, str], Method]

# These tune, and take a split: name or name:split.
TUNED: dict[str, Builder] = {
    "average": lambda c, split: Average(c.scores, split, c.normalize, c.resolution),
    "auto": lambda c, split: Auto(split),
    "best-single": lambda c, split: Selected(c.scores, split),
    "tuned-thr": lambda c, split: Selected(TUNED_THR, split),
    "tuned-raps": lambda c, split: Selected(TUNED_RAPS, split),
    "tuned-saps": lambda c, split: Selected(TUNED_SAPS, split),
}
# These calibrate on all rows; so does every single score.
UNTUNED: dict[str, Callable[[Choices], Method]] = {
    "uniform": lambda c: Fixed(c.scores, c.unlearnt),
    "probability-ensemble": lambda c: Fixed(c.scores[:1], "none", "probs"),
    "logit-ensemble": lambda c: Fixed(c.scores[:1], "none", "logits"),
    "majority-vote": lambda c: MajorityVote(c.scores),
    "oracle": lambda c: Oracle(c.scores, c.normalize, c.resolution),
}


def method_names() -> list[str]:
    """Return the names of the methods, without those of single scores.

    Examples
    --------
    >>> method_names()[:4]
    ['auto', 'average', 'best-single', 'logit-ensemble']
    """
    return sorted([*TUNED, *UNTUNED])


def resolve_method(name: str, choices: Choices | None = None) -> Method:
    """Return the method that a name stands for.

    Parameters
    ----------
    name : str
        One of `method_names()`, with ``:split`` where it tunes, or a single score.
    choices : Choices, optional
        What is averaged, and how.

    Examples
    --------
    >>> resolve_method("average:efcp")
    Average(scores=('thr', 'aps', 'rank'), split='efcp', normalize='scale', resolution=None)
    >>> resolve_method("raps(penalty=0.2)")
    Fixed(scores=('raps(penalty=0.2)',), normalize='none', ensemble=None)
    >>> resolve_method("avrage")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: unknown method 'avrage'; did you mean 'average'? known: ...
    """
    choices = Choices() if choices is None else choices
    base, _, split = name.partition(":")
    if is_score(name) or (split not in SPLITS and is_score_of_a_model(name)):
        return Fixed((name,), "none")
    if base in TUNED:
        if split and split not in SPLITS:
            raise unknown_name("split", split, SPLITS.names())
        return TUNED[base](choices, split or "vfcp")
    if split:
        tuned = ", ".join(sorted(TUNED))
        raise InvalidInput(f"{base} has nothing to tune and takes no split; those are {tuned}.")
    if base in UNTUNED:
        return UNTUNED[base](choices)
    raise unknown_name("method", name, [*method_names(), *SCORES.names()])
