"""What holds of the errors of a stream so far: the ledger's line, true after every step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from conformix.guarantees import LABELS, Guarantee
from conformix.guarantees.statement import at_most
from conformix.online.controllers import bound_of, ceiling_of


def stream_guarantee(
    controls: Sequence[Any],
    alphas: Sequence[float],
    steps: int,
    errors: Sequence[int],
    *,
    late: int = 0,
    unlabelled: int = 0,
    noun: str = "set",
    assumes: str = LABELS,
) -> Guarantee:
    """Return what is promised of the sets whose labels have come, and of all sets.

    Parameters
    ----------
    controls : sequence of Controller
        One per level.
    alphas : sequence of float
        Their targets.
    steps : int
        Labels so far.
    errors : sequence of int
        How many sets missed, by level.
    late : int
        How many labels came, at most, between a set and its own label.
    unlabelled : int
        Sets whose labels have not come, or never will.
    noun : str
        What an answer is called: a set, or an interval.
    assumes : str
        What is assumed of truths, if anything.

    Examples
    --------
    >>> from conformix.online.controllers import ACI, Betting
    >>> told = stream_guarantee([ACI().start(0.1)], [0.1], 1000, [97], unlabelled=20)
    >>> print(told.statement)  # of all 1,020 sets nobody knows more
    |share of errors - 0.1| <= 0.0460 after 1,000 labels; it is 0.0970; 20 sets have no label, so
    of all sets a share between 0.0951 and 0.1147 missed
    >>> stream_guarantee([Betting().start(0.1)], [0.1], 1000, [97], late=3).kind
    'none'
    """
    if not steps:
        return Guarantee("none", "no step was made yet", "no assumption")
    count = f"after {steps:,} {'labels' if late or unlabelled else 'steps'}"
    if late:
        count += f", which came up to {late:,} labels late"
    parts, kind = [], "exact"
    several = len(controls)
    for place, (control, alpha, wrong) in enumerate(zip(controls, alphas, errors, strict=True)):
        bound = bound_of(control, steps, late, several, above=several - 1 - place)
        ceiling = ceiling_of(control, steps, late)
        if math.isfinite(bound) and ceiling < bound:
            sides = f"-{at_most(bound)} <= share of errors - {alpha:g} <= {at_most(ceiling)}"
            part = f"{sides} {count}"
        elif math.isfinite(bound):
            part = f"|share of errors - {alpha:g}| <= {at_most(bound)} {count}"
        else:
            kind = "none"
            part = f"no bound on the share of errors at alpha = {alpha:g} is known {count}"
        parts.append(f"{part}; it is {wrong / steps:.4f}")
        if unlabelled:
            ends = [wrong / (steps + unlabelled), (wrong + unlabelled) / (steps + unlabelled)]
            sets = f"{noun} has" if unlabelled == 1 else f"{noun}s have"
            parts[-1] += (
                f"; {unlabelled:,} {sets} no label, so of all {noun}s a share between "
                f"{ends[0]:.4f} and {ends[1]:.4f} missed"
            )
    needs = "any sequence of rows, drifting or adversarial" + (f"; {assumes}" if assumes else "")
    return Guarantee(kind, "; ".join(parts), needs)  # type: ignore[arg-type]
