"""From names to scores: the registry, the notation with options, and which model gets which.

A score is written as its name, ``"thr"``, with options, ``"raps(penalty=0.2, k_reg=2)"``, with a
sign where it has one, ``"-entropy"``, and for one of several models, ``"vgg16.thr"``. The text of a
score object is in the same notation. ``"paper"`` stands for the three scores of the paper.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray, is_tensor
from conformix.registry import Registry
from conformix.scores.aps import Aps
from conformix.scores.learnt import Kin, Likeness, Rarity
from conformix.scores.logs import Logit, Logp
from conformix.scores.margin import Margin
from conformix.scores.rank import Invrank, Logrank, Rank
from conformix.scores.raps import Raps
from conformix.scores.rowwise import Energy, Entropy, Maxprob
from conformix.scores.saps import Saps
from conformix.scores.score import Custom, Score
from conformix.scores.thr import Thr

ScoreLike: TypeAlias = str | Score | Callable[[FloatArray], Any]

_LISTED: tuple[type[Score], ...] = (
    Aps, Energy, Entropy, Invrank, Kin, Likeness, Logit, Logp, Logrank, Margin, Maxprob, Rank, Raps,
    Rarity, Saps, Thr,
)  # fmt: skip
# What other libraries call them.
_ELSEWHERE = {
    "lac": "thr", "hps": "thr", "hinge": "thr", "top_k": "rank", "topk": "rank", "naive": "aps",
}  # fmt: skip
SCORES: Registry[type[Score]] = Registry(
    "score", {score.name: score for score in _LISTED}, elsewhere=_ELSEWHERE
)

# What the paper averages, by one name wherever scores are named.
PAPER = ("thr", "aps", "rank")

_NOTATION = re.compile(r"(?P<sign>-?)(?P<name>\w+)(?:\((?P<options>.*)\))?", re.DOTALL)


class Column(NamedTuple):
    """One score of one model: a plane of the tensor.

    Examples
    --------
    >>> str(Column("vgg16", Thr()))
    'vgg16.thr'
    """

    model: str
    score: Score

    def __str__(self) -> str:
        return f"{self.model}.{self.score}" if self.model else str(self.score)


class Notation:
    """How the scores of one registry are written, and read back.

    Parameters
    ----------
    registry : Registry
        The scores by name: frozen dataclasses whose fields are their options.

    Examples
    --------
    >>> Notation(SCORES).parse("raps(penalty=0.2, k_reg=3)").penalty
    0.2
    """

    def __init__(self, registry: Registry[Any]) -> None:
        self.registry = registry

    def parse(self, text: str) -> Any:
        """Return the score that a text stands for."""
        return _parsed(self, text)

    def _parse(self, text: str) -> Any:
        match = _NOTATION.fullmatch(text.strip())
        if match is None:
            return self.registry[text]()  # raises with help
        kind = self.registry[match["name"]]
        options = _parse_options(text, match["options"] or "")
        if match["sign"]:
            options["negative"] = True
        try:
            return kind(**options)
        except TypeError:
            known = [field.name for field in fields(kind) if field.compare]
            hint = f"its options are {', '.join(known)}" if known else "it has no options"
            raise InvalidInput(f"cannot read score {text!r}; {hint}.") from None

    def is_score(self, text: str) -> bool:
        """Return whether a text stands for a known score, right or wrong in its options."""
        match = _NOTATION.fullmatch(text.strip())
        return match is not None and match["name"] in self.registry

    def of_model(self, models: Sequence[str], text: str) -> tuple[str | None, Any]:
        """Return the model that a text such as ``"vgg16.thr"`` names, if any, and its score."""
        # The longest name first: a model may be called "a" and another one "a.b".
        for model in sorted(models, key=len, reverse=True):
            rest = text.removeprefix(f"{model}.") if model else text
            # What follows must be a score: a model may be called "raps(penalty=0".
            if rest != text and (self.is_score(rest) or not self.is_score(text)):
                return model, self.parse(rest)
        return None, self.parse(text)


@lru_cache(maxsize=256)  # scores do not change, and every fit asks for the same few
def _parsed(notation: Notation, text: str) -> Any:
    return notation._parse(text)


NOTATION = Notation(SCORES)


def parse_score(text: str) -> Score:
    """Return the score that a text in the notation above stands for.

    Examples
    --------
    >>> parse_score("raps(penalty=0.2, k_reg=3)")
    Raps(penalty=0.2, k_reg=3, randomized=False, temperature=1.0, u=0.0)
    >>> str(parse_score("-entropy"))
    '-entropy'
    """
    return NOTATION.parse(text)  # type: ignore[no-any-return]


def _parse_options(text: str, options: str) -> dict[str, Any]:
    if not options.strip():
        return {}
    try:
        call = ast.parse(f"f({options})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        return {str(pair.arg): ast.literal_eval(pair.value) for pair in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise InvalidInput(
            f"cannot read score {text[:80]!r}; options are written name(option=value, ...)."
        ) from None


def resolve_score(score: ScoreLike) -> Score:
    """Return the score object for a name, a score object or a plain function."""
    if isinstance(score, Score):
        return score
    if isinstance(score, str):
        return parse_score(score)
    if callable(score):
        return Custom(score)
    raise InvalidInput(
        f"a score is a name, a Score object or a function; got {type(score).__name__}."
    )


def named_scores(scores: Any) -> tuple[Any, ...]:
    """Return scores one by one, ``"paper"`` as the three that it stands for.

    Examples
    --------
    >>> named_scores("paper"), named_scores(("paper", "margin"))
    (('thr', 'aps', 'rank'), ('thr', 'aps', 'rank', 'margin'))
    """
    listed = [scores] if isinstance(scores, str) else scores
    each = (PAPER if isinstance(one, str) and one == "paper" else (one,) for one in listed)
    return tuple(score for some in each for score in some)


def score_columns(
    models: Sequence[str], scores: ScoreLike | Sequence[ScoreLike]
) -> tuple[Column, ...]:
    """Return which score of which model every plane of the tensor holds.

    Parameters
    ----------
    models : sequence of str
        Names of the models; a single unnamed one is called ``""``.
    scores : sequence of names, score objects or functions
        A score without a model is taken for every model; ``"paper"`` is thr, aps and rank.

    Examples
    --------
    >>> [str(column) for column in score_columns(("a", "b"), ("thr", "b.rank"))]
    ['a.thr', 'b.thr', 'b.rank']
    """
    listed = listed_scores(scores)
    if "auto" in [one for one in listed if isinstance(one, str)]:
        raise InvalidInput(
            'scores="auto" stands alone, and goes with ScoreAverage and ConformalClassifier; here '
            'name the scores, or say scores="paper".'
        )
    asked = [_of_model(models, score) for score in named_scores(listed)]
    return distinct(
        Column(model, score) for model in models for only, score in asked if only in (None, model)
    )


def listed_scores(scores: Any) -> tuple[Any, ...]:
    """Return scores one by one: one alone, or what a sequence holds, which is not nothing.

    Examples
    --------
    >>> listed_scores("thr"), listed_scores(["thr", "rank"])
    (('thr',), ('thr', 'rank'))
    """
    single = isinstance(scores, str | Score) or callable(scores)
    numbers = is_tensor(scores) or isinstance(scores, memoryview)
    iterable = single or (hasattr(scores, "__iter__") and not numbers)
    listed: Any = (scores,) if single else tuple(scores) if iterable else scores
    if not iterable or not listed:
        raise InvalidInput(f"scores must name at least one score; got {shown(listed)}.")
    return listed  # type: ignore[no-any-return]


def distinct(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns, if none is given twice."""
    every = tuple(columns)
    doubled = {str(column) for column in every if every.count(column) > 1}
    if doubled:
        raise InvalidInput(f"scores must differ; {', '.join(sorted(doubled))} is given twice.")
    return every


def _of_model(models: Sequence[str], score: ScoreLike) -> tuple[str | None, Score]:
    """Return the model that a score names, if any, and the score."""
    if isinstance(score, str):
        return NOTATION.of_model(models, score)
    return None, resolve_score(score)


def is_score(text: str) -> bool:
    """Return whether a text is in the notation of a known score, right or wrong in its options."""
    return NOTATION.is_score(text)


def is_score_of_a_model(text: str) -> bool:
    """Return whether a text is a score after the name of a model, whatever that is called."""
    dots = [place for place, character in enumerate(text) if character == "."]
    return any(is_score(text[place + 1 :]) for place in dots)
