"""Numbers and texts in a page: as small as they are exact, and never markup."""

from __future__ import annotations

import base64
import json
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite, isnan
from typing import Any

import numpy as np

# Shorter lists are readable JSON; longer ones are packed.
LISTED = 24
MINUS, NONE = "\u2212", "\u2013"
_TYPES = {"f": "<f8", "u": "<u4", "i": "<u4", "b": "|u1"}
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'\u2028\u2029"}


def packed(values: Any) -> Any:
    """Return an array as a record of type, shape and base64 bytes; short ones as lists.

    Examples
    --------
    >>> packed(np.array([[0.5, np.nan]]))
    {'n': [1, 2], 'v': [0.5, None]}
    >>> packed(np.arange(32)).keys()
    dict_keys(['n', 't', 'b'])
    """
    array = np.asarray(values)
    shape = list(array.shape)
    if array.size <= LISTED and not (array.dtype.kind == "f" and np.isinf(array).any()):
        plain = array.astype(float) if array.dtype.kind == "f" else array.astype(int)
        return {"n": shape, "v": [None if isnan(v) else v for v in plain.ravel().tolist()]}
    kind = _TYPES[array.dtype.kind]
    raw = np.ascontiguousarray(array, dtype=kind).tobytes()
    return {"n": shape, "t": kind[1:], "b": base64.b64encode(raw).decode()}


def as_json(document: Any) -> str:
    r"""Return JSON that is safe inside a script element: no ``<``, ``>``, ``&`` or line separator.

    Examples
    --------
    >>> as_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def fixed(value: float, digits: int, scale: float = 1.0) -> str:
    """Return a number with so many digits after the point, halves away from zero.

    The same text as ``(scale * value).toFixed(digits)`` in a browser, so that a page and the
    script that moves it agree.

    Examples
    --------
    >>> fixed(0.8125, 3), fixed(-0.5, 0), fixed(float("nan"), 2)
    ('0.813', '−1', '–')
    """
    number = scale * value
    if not isfinite(number):
        return NONE if isnan(number) else ("∞" if number > 0 else f"{MINUS}∞")
    text = str(Decimal(number).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))
    return text.removeprefix("-") if not text.strip("-0.") else text.replace("-", MINUS)
