"""What the library advises, as it is typed in a shell."""

from __future__ import annotations

import re

# Arguments that are options of the same name, and take a word.
OPTIONS = ("split", "scores", "calibration", "normalize", "kind", "guarantee", "method")
_WORD = re.compile(rf'\b({"|".join(OPTIONS)})="([^"\s]+)"')
_RENORMALIZE = re.compile(r"\brenormalize=True\b")
_SCHEME = re.compile(r"\bcalibration=Per(Class|Group)\(([^()]*)\)")
_FIELD = re.compile(r'(\w+)=(?:"(\w+)"|(\d+))')


def in_options(sentence: str) -> str:
    """Return a sentence whose advice can be typed as options.

    Examples
    --------
    >>> in_options('say split="exact", or calibration=PerClass(fallback="pooled", min_rows=18).')
    'say --split exact, or --calibration class --fallback pooled --min-rows 18.'
    >>> in_options('the search does not say how many (search="grid" does)')  # no option of a shell
    'the search does not say how many (search="grid" does)'
    """
    sentence = _SCHEME.sub(_scheme, sentence)
    sentence = _RENORMALIZE.sub("--renormalize", sentence)
    return _WORD.sub(r"--\1 \2", sentence)


def _scheme(match: re.Match[str]) -> str:
    fields = _FIELD.findall(match[2])
    if match[1] != "Class" or len(fields) != match[2].count("="):  # what no option says
        return match[0]
    options = [f"--{name.replace('_', '-')} {word or number}" for name, word, number in fields]
    return " ".join(["--calibration class", *options])
