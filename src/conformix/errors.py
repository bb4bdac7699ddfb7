"""What can go wrong, by name.

Invalid input raises `InvalidInput` in one sentence: what, where, got, allowed, the way out.
Input that is valid but cannot give a useful answer warns with a category of its own.
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from typing import Any

# Categories of characters that are not seen but steer: controls, lone surrogates, line breaks of
# all sorts, and marks that turn the direction of writing.
UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
# Joiners belong to the spelling of several scripts, and move nothing.
JOINERS = "\u200c\u200d"


def visible(text: object) -> str:
    r"""Return a text on one line that steers no terminal: what cannot be seen is written out.

    Names of files, classes and models come from outside; a terminal takes some characters in them
    as orders, and others hide what is there. Printable text stays as it is.
    """
    return "".join(_written_out(character) for character in str(text))


def _written_out(character: str) -> str:
    if character.isprintable() or character in JOINERS:
        return character
    if unicodedata.category(character) in UNSEEN:
        return repr(character)[1:-1]
    return character


def pip_line(extra: str) -> str:
    """Return how to install an extra: from a clone, since no index has the package."""
    return f"pip install '.[{extra}]' in a clone of conformix"


class InvalidInput(ValueError):
    """An argument that cannot be worked with; the message says what, where and the way out.

    Examples
    --------
    >>> import conformix as cx
    >>> cx.conformal_rank(100, alpha=1.5)
    Traceback (most recent call last):
    conformix.errors.InvalidInput: alpha must be a number strictly between 0 and 1; got 1.5.
    """

    def __init__(self, message: object = "", *rest: Any) -> None:
        # Texts of arrays and of other libraries run over lines, and sentences quote names from
        # outside: a traceback goes to a terminal like anything else.
        text = str(message)
        if "\n" in text:
            text = " ".join(line.strip() for line in text.splitlines())
        super().__init__(visible(text), *rest)


def shown(value: object, most: int = 80) -> str:
    """Return what a user gave, for a sentence: one line, not too long, whatever it is."""
    if isinstance(value, int) and abs(value) > 10**100:
        return f"an integer of some {round(value.bit_length() * 0.30103, -3):,.0f} digits"
    try:
        line = " ".join(repr(value).split())
    except Exception:  # what cannot be shown has a type at least
        return f"a {type(value).__name__}"
    return line if len(line) <= most else f"{line[:most]}..."


class UnknownParameter(InvalidInput, TypeError):
    """An estimator was given a parameter that it does not have; the message says which it has.

    Examples
    --------
    >>> import conformix as cx
    >>> cx.ScoreAverage(confidence_level=0.95)
    Traceback (most recent call last):
    conformix.errors.UnknownParameter: ScoreAverage has no parameter 'confidence_level'; say ...
    """


class NotFitted(ValueError, AttributeError):
    """A fitted attribute or method was used before ``fit``.

    Examples
    --------
    >>> import conformix as cx
    >>> cx.ScoreAverage().predict_set([[0.5, 0.5]])
    Traceback (most recent call last):
    conformix.errors.NotFitted: this ScoreAverage is not fitted yet; call fit(outputs, y) first.
    """


class ConformixWarning(UserWarning):
    """The parent of every warning of this library, for one line in a warnings filter.

    Examples
    --------
    >>> import conformix as cx
    >>> issubclass(cx.TrivialSetsWarning, cx.ConformixWarning)
    True
    """


class TrivialSetsWarning(ConformixWarning):
    """Too few calibration rows for this alpha: every set holds all labels.

    Examples
    --------
    >>> import warnings, numpy as np, conformix as cx
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     cx.conformal.threshold(np.array([0.3, 0.6]), alpha=0.1)
    -inf
    >>> seen[0].category.__name__
    'TrivialSetsWarning'
    """


class LargeAlphaWarning(ConformixWarning):
    """A level of one half or more: alpha is the share of misses, not the coverage.

    Examples
    --------
    >>> import conformix as cx
    >>> issubclass(cx.LargeAlphaWarning, cx.ConformixWarning)
    True
    """


class SmallBatchWarning(ConformixWarning):
    """A transductive split with so few test rows that its coverage suffers.

    Examples
    --------
    >>> import conformix as cx
    >>> issubclass(cx.SmallBatchWarning, UserWarning)
    True
    """


def warn(message: str, category: type[ConformixWarning]) -> None:
    """Warn at the line of the caller outside this library, however deep the cause lies."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(visible(message), category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "conformix"
