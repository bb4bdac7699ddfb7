"""The page: one template, its style and scripts, and the numbers, in one file that asks for none.

Tables are written for the fitted level with every number in a ``<data>`` element that names its
column and its place; the script only puts other numbers of the same columns in. Style and scripts
are allowed by their digests (a content security policy), so nothing else in the page can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib.resources import files
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from conformix import __version__
from conformix.errors import InvalidInput
from conformix.fit.saved.files import write
from conformix.report.examples import KINDS
from conformix.report.report import MOST_CLASSES, AnyReport, Report

if TYPE_CHECKING:
    from conformix.report.stream import StreamReport

VERDICTS = {
    "kept": "Promise kept",
    "chance": "Within chance",
    "broken": "Less than chance allows",
    "reached": "Level reached",
    "unknown": "No law is known",
    "trivial": "Too few rows",
    "used": "Rows of the fit",
}
# At levels that were not fitted.
LATER = {
    "kept": "Promise would have held",
    "chance": "Would have been within chance",
    "broken": "Would have been less than chance allows",
    "reached": "Level would have been reached",
}

# Words that the scripts write.
WORDS = ("size", "short", "unit", "walk")
# Shorter lists are readable JSON; longer ones are packed.
LISTED = 24
MINUS, NONE = "\u2212", "\u2013"
_TYPES = {"f": "<f8", "u": "<u4", "i": "<u4", "b": "|u1"}
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'\u2028\u2029"}


def packed(values: Any) -> Any:
    """Return an array as a record of type, shape and base64 bytes; short ones as lists."""
    array = np.asarray(values)
    shape = list(array.shape)
    if array.size <= LISTED and not (array.dtype.kind == "f" and np.isinf(array).any()):
        plain = array.astype(float) if array.dtype.kind == "f" else array.astype(int)
        return {"n": shape, "v": [None if isnan(v) else v for v in plain.ravel().tolist()]}
    kind = _TYPES[array.dtype.kind]
    raw = np.ascontiguousarray(array, dtype=kind).tobytes()
    return {"n": shape, "t": kind[1:], "b": base64.b64encode(raw).decode()}


def as_json(document: Any) -> str:
    """Return JSON that is safe inside a script element: no ``<``, ``>``, ``&``, line separator."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def fixed(value: float, digits: int, scale: float = 1.0) -> str:
    """Return a number with so many digits after the point, halves away from zero.

    The same text as ``(scale * value).toFixed(digits)`` in a browser, so that a page and the
    script that moves it agree.
    """
    number = scale * value
    if not isfinite(number):
        return NONE if isnan(number) else ("∞" if number > 0 else f"{MINUS}∞")
    text = str(Decimal(number).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))
    return text.removeprefix("-") if not text.strip("-0.") else text.replace("-", MINUS)


@cache
def asset(name: str) -> str:
    """Return the text of a packaged file."""
    return files("conformix.report").joinpath("assets", name).read_text(encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Numbers:
    """All columns that move with the level, and how they are written into the page."""

    columns: dict[str, Any]
    start: int

    def num(self, key: str, place: int, digits: int, scale: float = 1) -> Markup:
        """Return a number as an element that the script can move to another level."""
        value = float(self.columns[key][self.start, place])
        exact = "" if isnan(value) else repr(value)
        return Markup(
            '<data value="{}" data-k="{}" data-i="{}" data-d="{}" data-s="{}">{}</data>'
        ).format(exact, key, place, digits, f"{scale:g}", fixed(value, digits, scale))


def columns(report: AnyReport) -> dict[str, Any]:
    """Return every column by name, shape (A, number of lines) each."""
    named_columns = {}
    sections = {
        "measured": report.measured.columns,
        "methods": report.methods.columns,
    } | report.own_columns
    for section, named in sections.items():
        named_columns.update({f"{section}.{name}": values for name, values in named.items()})
    return named_columns


def numbers(report: AnyReport) -> dict[str, Any]:
    """Return the document that the script reads: levels, columns, texts, weights, examples."""
    rows = report.rows
    weights = report.weights
    document: dict[str, Any] = {
        "alphas": list(rows.alphas),
        "start": rows.fitted_place,
        "promised": report.measured.promised,
        "scores": list(rows.names),
        "fitted": rows.weights.tolist(),
        "methods": list(report.methods.names),
        "columns": {name: packed(values) for name, values in columns(report).items()},
        "texts": texts(report),
        "words": {name: getattr(rows.words, name) for name in WORDS},
        "digits": rows.digits,
        "least": 10.0**-rows.digits,
        "weights": None,
        **own_numbers(report),
    }
    if weights is not None:
        document["weights"] = {
            "m": weights.resolution,
            "n": weights.n,
            "grid": packed(weights.grid),
            "totals": packed(weights.totals),
            "hits": packed(weights.hits),
        }
    return document


def own_numbers(report: Any) -> dict[str, Any]:
    """Return what only the scripts of such a page read."""
    if not isinstance(report, Report):
        shown = report.picture
        return {
            "picture": {"rows": packed(shown.rows), "y": packed(shown.y)},
            "edges": packed(report.widths.edges),
        }
    return {
        "examples": {
            "best": packed(report.examples.best),
            "parts": list(report.examples.parts),
            "rows": [
                {
                    "parts": packed(one.parts),
                    "thresholds": packed(one.thresholds),
                    "member": packed(one.member),
                    "sizes": packed(one.sizes),
                }
                for one in report.examples.rows
            ],
        },
    }


def texts(report: AnyReport) -> dict[str, list[str]]:
    """Return the texts that move with the level."""
    measured, alphas = report.measured, report.rows.alphas
    wanted = ("Promised", "Would be promised")
    if not measured.promised:
        wanted = ("Asked for", "Would be asked for")
    return {
        "alpha": [f"{alpha:g}" for alpha in alphas],
        "asked": [f"{round(100 * (1 - alpha), 6):g}\u202f%" for alpha in alphas],
        "sentence": [spaced(one) for one in measured.sentences],
        "verdict": [
            (VERDICTS | LATER if one.asked_later else VERDICTS)[one.word] for one in measured.judged
        ],
        "wanted": [wanted[one.asked_later] for one in measured.judged],
        "example": list(report.opening.sentences),
        "tone": list(measured.verdicts),
        "compared": [spaced(one) for one in report.methods.sentences],
        "baseline": list(report.methods.baselines),
    } | {name: [spaced(one) for one in told] for name, told in report.own_texts.items()}


def breakable(name: str) -> Markup:
    """Return a name that may be broken at underscores and brackets, and is text otherwise."""
    parts = (Markup("<wbr>(").join(part.split("(")) for part in name.split("_"))
    return Markup("_<wbr>").join(parts)


def spaced(text: str) -> str:
    """Return a text whose numbers keep their percent sign on the same line."""
    return text.replace(" %", "\u202f%")


def render(report: AnyReport) -> str:
    """Return the page of a report as one text."""
    style = asset("style.css")
    script = '"use strict";\n' + "\n".join(asset(f"{name}.js") for name in report.scripts)
    moving = Numbers(columns(report), report.rows.fitted_place)
    return _template("page.html").render(
        report=report,
        rows=report.rows,
        alphas=report.rows.alphas,
        start=report.rows.fitted_place,
        texts=texts(report),
        sections=report.sections,
        words=report.rows.words,
        digits=report.rows.digits,
        num=moving.num,
        kinds=KINDS,
        promised=report.measured.promised,
        one_rule=report.rows.predictor.fitted.additive,
        pac=report.rows.predictor.fitted.ledger.kind == "pac",
        most_classes=MOST_CLASSES,
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        numbers=Markup(as_json(numbers(report))),
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def stream_page(report: StreamReport) -> str:
    """Return the page of a stream as one text; it has no script."""
    style = asset("style.css")
    return _template("stream.html").render(
        report=report, version=__version__, style=Markup(style), style_digest=_digest(style),
        nan=float("nan"),
    )  # fmt: skip


@cache
def _template(name: str) -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, keep_trailing_newline=True,
                              loader=FunctionLoader(asset))  # fmt: skip
    environment.filters["fixed"] = fixed
    environment.filters["spaced"] = spaced
    environment.filters["breakable"] = breakable
    environment.filters["count"] = "{:,}".format
    # Drawn here, from numbers and words of this library alone.
    environment.filters["drawing"] = Markup
    return environment.get_template(name)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def write_page(report: AnyReport, path: str | Path) -> Path:
    """Write the page of a report, whole or not at all, and return its path."""
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder; name a file, such as {target / 'report.html'}.")
    content = render(report).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target, content)
    return target
