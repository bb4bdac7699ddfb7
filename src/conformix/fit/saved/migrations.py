"""Files of earlier schemas, brought up to the present one step by step.

The policy: a file that one version has written loads in every later one. Whoever changes what a
file holds raises ``SCHEMA``, adds the step from the schema before, and writes golden files
(``tests/fit/golden/write.py``). A newer file, or a field that is not known, is refused: to pass
over what one does not know would be to predict by another rule than the one that was fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCHEMA = 3
"""What `save` writes: 1 was without class names, 2 without what only verdicts need; both with
NumPy's exponential and logarithm."""

Document = dict[str, Any]


def _with_class_names(document: Document) -> Document:
    return document | {"predictor": document["predictor"] | {"classes": None}}


def _with_references_and_arithmetic(document: Document) -> Document:
    """Take rows for exchangeable, as every statement of such a file did; no reference scores.

    Such a model goes on with NumPy's exponential, so that it predicts what it did.
    """
    predictor = document["predictor"]
    fitted = predictor["fitted"]
    if fitted["type"] == "exact":
        fitted = fitted | {"grouped": False}
    else:
        facts = fitted["facts"] | {"grouped": False}
        fitted = fitted | {"facts": facts, "reference": None}
    return document | {"predictor": predictor | {"fitted": fitted, "arithmetic": "numpy"}}


# From each earlier schema to the next.
STEPS: dict[int, Callable[[Document], Document]] = {
    1: _with_class_names,
    2: _with_references_and_arithmetic,
}


def migrated(document: Document) -> Document:
    """Return a document of any known schema as one of the present schema.

    Examples
    --------
    >>> migrated({"schema": 1, "predictor": {"fitted": {"type": "exact"}}})["predictor"]
    {'fitted': {'type': 'exact', 'grouped': False}, 'classes': None, 'arithmetic': 'numpy'}
    """
    for schema in range(document["schema"], SCHEMA):
        document = STEPS[schema](document) | {"schema": schema + 1}
    return document
