"""The loop of a stream: rows come, answers go out, truths come back, late or never.

What an answer is, a set of labels or an interval, is all that streams differ in; `Stream` leaves it
to `conformix.online.average` and `conformix.online.regression`. A controller says which level to
ask for next (`conformix.online.controllers`), the weights follow the sizes of the last answers
(`conformix.online.weights`), thresholds come from the last true labels
(`conformix.online.window`), and all of it can be recorded, stopped and resumed
(`conformix.online.lasting`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, simple_fraction
from conformix.errors import InvalidInput, NotFitted
from conformix.fit.evaluation import Evaluation
from conformix.guarantees import Guarantee
from conformix.guarantees.verdict import Law, Verdict
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, host_array
from conformix.metrics import measures, share_interval
from conformix.online.controllers import Ladder, resolve_control, tell
from conformix.online.lasting import LastingStream, Pending
from conformix.online.log import Forgotten, Issued, Labelled, Ticket, check_ticket
from conformix.online.statement import stream_guarantee
from conformix.online.weights import AdaptiveWeights, candidate_grid
from conformix.online.window import Window

# Sums of what learns without labels hold this many windows of rows.
LEARNT_WINDOWS = 20


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened on a stream of T rows.

    Parameters
    ----------
    sets : PredictionSets or Intervals; NestedSets or NestedIntervals of several levels
        The issued answers.
    errors : boolean array of shape (T,), or (T, m) of m levels
        Whether each missed the truth.
    levels : float64 array of the same shape
        The level asked for at each step.
    weights : float64 array of shape (T, d)
        The weights in use at each step.

    Examples
    --------
    >>> from conformix import PredictionSets
    >>> sets = PredictionSets(np.array([[True, False]]))
    >>> Trace(sets, np.array([False]), np.array([0.1]), np.array([[1.0]])).coverage
    1.0
    """

    sets: Any
    errors: BoolArray
    levels: FloatArray
    weights: FloatArray

    @property
    def coverage(self) -> Any:
        """Share of the rows whose answer held the truth, one number per level."""
        if self.errors.ndim == 2:
            return 1 - self.errors.mean(axis=0)
        return float(1 - self.errors.mean())


class Judged(NamedTuple):
    """What became of an answer."""

    errors: list[bool]  # one per level
    scores: FloatArray  # (d,), how well the truth fits: larger is better
    pvalue: float  # NaN where no controller asks


class Stream(LastingStream):
    """Answers to one row at a time, whose share of errors is steered."""

    def __init__(
        self, *, alpha: Any, control: Any, window: int, candidates: Any, adapt: str | None,
        normalize: Any, max_pending: int,
    ) -> None:  # fmt: skip
        self._alphas, self._several = _targets(alpha)
        for name, count in (("window", window), ("max_pending", max_pending)):
            whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
            if not whole or count < 1:
                raise InvalidInput(f"{name} must be a positive number of rows; got {count!r}.")
        self.alpha, self.window, self.max_pending = alpha, int(window), int(max_pending)
        self.candidates, self.adapt, self.normalize = candidates, adapt, normalize
        fresh = resolve_control(control)
        self.control_: Any = Ladder(fresh, self._alphas) if self._several else fresh.start(alpha)
        self._shape = None
        self._pending = {}
        self._issued = self._steps = self._late = self._forgotten = 0
        self._errors = [0] * len(self._alphas)
        self._log = None
        self._recording = None

    def run(self, outputs: Any, y: Any) -> Trace:
        """Answer rows and take their truths, one after the other."""
        raise NotImplementedError

    # What an answer is.

    def _checked_row(self, outputs: Any) -> Any:
        """Return one row, checked; the first row says what there is."""
        raise NotImplementedError

    def _learn(self, row: Any) -> None:
        """Learn from a checked row what needs no label."""

    def _answered(self, row: Any, cuts: Sequence[float], past: FloatArray) -> Any:
        """Return the answer to a row at thresholds (m,), with what judging it will need.

        `past` are the combined scores of the window.
        """
        raise NotImplementedError

    def _shown(self, answers: Sequence[Any]) -> Any:
        """Return answers to rows as users get them."""
        raise NotImplementedError

    def _truth(self, y: Any, answer: Any) -> Any:
        """Return the truth of one row, checked."""
        raise NotImplementedError

    def _judged(self, answer: Any, truth: Any) -> Judged:
        """Return what became of an answer."""
        raise NotImplementedError

    def _sizes(self, answer: Any, thresholds: FloatArray) -> IntArray:
        """Return how large the answer would have been under every candidate, (M,)."""
        raise NotImplementedError

    # The loop.

    def _issue(self, outputs: Any, ticket: Ticket, row: Any = None) -> Any:
        """Return the answer to the next row, which waits for its truth from now on."""
        ticket = check_ticket(ticket)
        if ticket in self._pending:
            raise InvalidInput(
                f"the last {self._noun} has no label yet; call update(y) first."
                if ticket is None
                else f"the {self._noun} of ticket {ticket!r} has no label yet; name every row anew."
            )
        if row is None:
            row = self._checked_row(outputs)
        self._begin_log()
        self._learn(row)
        levels, past = self._levels(), self._past()
        answer = self._answered(row, [self._threshold_among(past, one) for one in levels], past)
        if self._log is not None:
            told, raw = self._told(answer), self._raw(outputs, row)
            self._record(Issued(self._issued, ticket, np.array(levels), self.weights_, told, raw))
        self._pending[ticket] = Pending(self._issued, self._steps, answer)
        self._issued += 1
        if len(self._pending) > self.max_pending:
            del self._pending[next(iter(self._pending))]  # not recorded: it follows
            self._forgotten += 1
        self._keep_state()
        return answer

    def update(self, y: Any, *, ticket: Ticket = None) -> Any:
        """Take the truth of a row, and return whether its answer missed it.

        Parameters
        ----------
        y : int, or float of a response
            The truth.
        ticket : int or str, optional
            Of which row; without one, of the last.

        Returns
        -------
        bool, or a boolean array of shape (m,) of several levels
        """
        waiting = self._waiting(ticket)
        truth = self._truth(y, waiting.answer)
        errors, scores, pvalue = self._judged(waiting.answer, truth)
        late = max(self._late, self._steps - waiting.labels)
        if self._log is not None:
            score = math.nan if self._plain is None else float(combine(scores, self._plain))
            self._record(Labelled(waiting.number, truth, tuple(errors), late, score))
        del self._pending[ticket]
        self._late = late
        if self._weights is not None:
            self._charge(self._weights, waiting.answer)
        if self._several:
            self.control_.update(errors, pvalue)
        else:
            tell(self.control_, errors[0], pvalue)
        self._window.add(scores)
        self._steps += 1
        self._errors = [one + error for one, error in zip(self._errors, errors, strict=True)]
        self._keep_state()
        return np.array(errors) if self._several else errors[0]

    def forget(self, ticket: Ticket = None) -> None:
        """Wait no longer for the label of a row: it will never come.

        Nothing moves, and nothing is known of that answer: ``guarantee_`` says what this leaves
        open.

        Parameters
        ----------
        ticket : int or str, optional
            Of which row; without one, of the last.
        """
        waiting = self._waiting(ticket)
        self._record(Forgotten(waiting.number))
        del self._pending[ticket]
        self._forgotten += 1
        self._keep_state()

    def evaluate(self, X: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Evaluation:
        """Measure the answers that the next labelled rows would get, one after the other.

        They are run through a copy: this estimator stays where it is in its stream.

        Parameters
        ----------
        X, y
            Outputs and labels of the rows that come next, in their order.
        alpha : float, optional
            Which level, of a stream that has several.
        """
        if rows or (alpha is not None) != self._several:
            raise InvalidInput(
                f"a stream of several levels is measured at one: give alpha, of {self._alphas}."
                if self._several and not rows
                else "a stream has steered its errors to one alpha and asks nothing else of rows; "
                "give outputs and labels alone."
            )
        trace = copy.deepcopy(self).run(X, y)
        target = self._alphas[0] if alpha is None else float(simple_fraction(alpha))
        answers = trace.sets.at(target) if self._several else trace.sets
        missed = trace.errors[:, self._alphas.index(target)] if self._several else trace.errors
        n, hits = len(missed), int((~missed).sum())
        law = Law(
            "rows of a stream may follow any law; what holds is the bound in guarantee_", None
        )
        asked = float(1 - simple_fraction(target))
        verdict = Verdict(hits / n, n, asked, None, law, share_interval(hits, n))
        results = measures(self._bare(answers), host_array(y, "y"), alpha=target)
        return Evaluation(tuple(results), verdict, None, float(target))

    def _bare(self, answers: Any) -> Any:
        """Return answers as measures take them."""
        return answers

    def _waiting(self, ticket: Ticket) -> Pending:
        if ticket not in self._pending:
            raise NotFitted(
                f"there is no {self._noun} to judge; call predict_{self._noun}(outputs) first."
                if ticket is None
                else f"no {self._noun} of ticket {ticket!r:.60} waits for a label; see pending_."
            )
        return self._pending[ticket]

    def _ran(self, rows: Sequence[Any], truths: Sequence[Any]) -> Trace:
        """Answer rows, which are checked, and judge the answers, one after the other."""
        answers, weights, m = [], [], len(self._alphas)
        errors, levels = np.empty((len(rows), m), dtype=bool), np.empty((len(rows), m))
        for t, (outputs, row) in enumerate(rows):
            levels[t] = self._levels()
            answers.append(self._issue(outputs, None, row))
            weights.append(self.weights_)
            errors[t] = self.update(truths[t])
        shown = self._shown(answers)
        if self._several:
            return Trace(shown, errors, levels, np.array(weights))
        return Trace(shown, errors[:, 0], levels[:, 0], np.array(weights))

    @property
    def level_(self) -> Any:
        """The level of the next answer, one per alpha; outside (0, 1) it is full or empty."""
        return np.array(self._levels()) if self._several else self.control_.level

    @property
    def rows_(self) -> int:
        """How many rows were answered."""
        return self._issued

    @property
    def pending_(self) -> list[Ticket]:
        """Tickets of the rows that wait for their labels, oldest first."""
        return list(self._pending)

    @property
    def weights_(self) -> FloatArray:
        """The weights of the next answer."""
        if self._shape is None:
            raise NotFitted(f"no row was seen yet; call predict_{self._noun}(outputs) first.")
        return self._fixed if self._weights is None else self._weights.current

    @property
    def guarantee_(self) -> Guarantee:
        """What holds for the errors so far, whatever the stream."""
        return stream_guarantee(
            self._controls(), self._alphas, self._steps, self._errors, late=self._late,
            unlabelled=self._issued - self._steps, noun=self._noun, assumes=self._assumes,
        )  # fmt: skip

    def _controls(self) -> list[Any]:
        return self.control_.controls if self._several else [self.control_]

    @property
    def _reads_pvalues(self) -> bool:
        return getattr(self._controls()[0], "reads_pvalues", False)

    def _levels(self) -> list[float]:
        """Return the levels of the next answers, none above a later one."""
        return self.control_.levels if self._several else [self.control_.level]

    def _begin_window(self, d: int) -> None:
        """Make room for the true labels of d scores, and for the sizes of all candidates."""
        adaptive = AdaptiveWeights(
            candidate_grid(self.candidates, d), self.window, self.adapt or "leader"
        )
        self._fixed = adaptive.current
        self._weights = None if self.adapt is None else adaptive
        self._window = Window(self.window, d)

    def _past(self) -> FloatArray:
        """Return the combined scores of the window's true labels."""
        return self._window.combined(self._played(self.weights_))

    def _played(self, weights: FloatArray) -> FloatArray:
        """Return weights (..., d) as they meet the scores of the window."""
        return weights

    def _threshold_among(self, past: FloatArray, level: float) -> float:
        """Return the threshold at a level: full answers below 0, empty ones from 1 on."""
        if level >= 1:
            return np.inf
        if level <= 0 or not len(past):
            return -np.inf
        return kth_largest(past, conformal_rank(len(past), level))

    def _charge(self, weights: AdaptiveWeights, answer: Any) -> None:
        """Charge every candidate the size that it would have had at the nominal level."""
        target = self.alpha[0] if self._several else self.alpha
        n = len(self._window)
        place = n - conformal_rank(n, target)
        if place >= 0:
            cuts = self._window.thresholds(self._played(weights.planes), place)
            weights.charge(self._sizes(answer, cuts), self._largest)


def _targets(alpha: Any) -> tuple[list[float], bool]:
    """Return the levels that are aimed at, rising, and whether several were named."""
    if not isinstance(alpha, list | tuple | np.ndarray):
        return [float(simple_fraction(alpha))], False
    if not len(alpha):
        raise InvalidInput("alpha must be a number strictly between 0 and 1, or several; got none.")
    return sorted({float(simple_fraction(one)) for one in alpha}), True


__all__ = ["Trace"]
