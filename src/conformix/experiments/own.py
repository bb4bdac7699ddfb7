"""Methods of the user's own, to be compared: scores, splits, searches and fitted objects."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.estimators.average import ScoreAverage
from conformix.experiments.methods import Choices, Method, Outcome, Task, named, resolve_method
from conformix.fit.predictor import Predictor
from conformix.kernels.arrays import IntArray, to_host
from conformix.registry import takes
from conformix.scores.names import SCORES
from conformix.scores.score import Score
from conformix.search import GridSearch
from conformix.splits import resolve_split

ALLOWED = (
    "a name of conformix.experiments.method_names() or of a score, a Score or a function of "
    "probabilities, a split, a search, an estimator, or a fitted model"
)


@dataclass(frozen=True, eq=False)
class Estimated:
    """An estimator of the user's, fitted anew on the calibration rows of every split."""

    estimator: ScoreAverage

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        seed = task.seed % 2**31
        cp = self.at(task.alpha, task.pool.outputs.kind).set_params(random_state=seed)
        test = rows_of(task, task.test)
        cp.fit(rows_of(task, task.calibrate), task.y, test=test if needs_test(cp) else None)
        return outcome_of(cp.predictor_, test, task.alpha)

    def at(self, alpha: float, kind: str) -> ScoreAverage:
        """Return the estimator, not fitted, at a level and for outputs of a kind."""
        params = self.estimator.get_params() | {"alpha": alpha, "kind": kind}
        return ScoreAverage(**{name: copy.copy(value) for name, value in params.items()})

    def settings(self) -> dict[str, Any]:
        """Return the settings of the estimator."""
        return self.estimator.get_params()


@dataclass(frozen=True, eq=False)
class Served:
    """A model that was fitted before, asked as it is."""

    model: Any
    predictor: Predictor = field(repr=False)

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows; the calibration rows have no part in them."""
        return outcome_of(self.predictor, rows_of(task, task.test), task.alpha)

    def settings(self) -> dict[str, Any]:
        """Refuse: it has been fitted."""
        raise InvalidInput("a model that was fitted before has no settings to fit it by.")


def rows_of(task: Task, rows: IntArray) -> dict[str, Any]:
    """Return the outputs of some rows of a task, by model."""
    return {model: values[rows] for model, values in task.pool.outputs.models.items()}


def needs_test(cp: ScoreAverage) -> bool:
    """Whether an estimator is transductive, as far as its settings say."""
    return bool(resolve_split(cp.split).needs_test)


def outcome_of(predictor: Predictor, outputs: dict[str, Any], alpha: float) -> Outcome:
    """Return the sets of a fitted predictor, and how they came about."""
    mask = np.asarray(to_host(predictor.predict_at(outputs, alpha).mask))
    fitted = predictor.fitted
    combined = None
    if fitted.nested and fitted.additive:
        combined = to_host(fitted.rule.combined(predictor.scores(predictor.check(outputs))))
    guarantee = fitted.ledger.kind if fitted.additive or not fitted.nested else "1 - 2 alpha"
    weights = named(predictor.columns, fitted.rule.weights)
    return Outcome(mask, guarantee, combined, weights, fitted.normalizer)


def own_methods(methods: Any, choices: Choices) -> dict[str, Method | str]:
    """Return what is to be compared by name: names of the library's, and methods of the user's."""
    if isinstance(methods, str):
        methods = [methods]
    if not isinstance(methods, Mapping | Iterable):
        raise InvalidInput(f"methods must be a list or a mapping of methods; got {shown(methods)}.")
    pairs = methods.items() if isinstance(methods, Mapping) else ((None, one) for one in methods)
    listed: dict[str, Method | str] = {}
    for given, one in pairs:
        if isinstance(one, str) and given in (None, one):
            name: str = one
            listed[name] = one
            continue
        method = own_method(one, choices)
        name = str(given) if given is not None else _free(name_of(one), listed)
        if name in listed:
            raise InvalidInput(f"two methods are called {name!r}; give them in a mapping by name.")
        listed[name] = method
    return listed


def own_method(one: Any, choices: Choices) -> Method:
    """Return one method of the user's."""
    if isinstance(one, str):
        return resolve_method(one, choices)
    predictor = predictor_of(one)
    if predictor is not None:
        return Served(one, predictor)
    return Estimated(one if isinstance(one, ScoreAverage) else _estimator(one, choices))


def predictor_of(one: Any) -> Predictor | None:
    """Return what a fitted model predicts by; None where something is not fitted."""
    if hasattr(one, "predict_at"):
        return one  # type: ignore[no-any-return]
    return one.__dict__.get("predictor_") if isinstance(one, ScoreAverage) else None


def _estimator(one: Any, choices: Choices) -> ScoreAverage:
    """Return the estimator with one part that is the user's."""
    shared: dict[str, Any] = {"scores": choices.scores, "normalize": choices.normalize}
    if isinstance(one, Score):
        return ScoreAverage(one)
    if hasattr(one, "roles") and not isinstance(one, type):
        return ScoreAverage(split=one, search=GridSearch(choices.resolution), **shared)
    if not callable(one) or hasattr(one, "fit") or isinstance(one, type):
        raise InvalidInput(f"a method is {ALLOWED}; got {shown(one)}.")
    return ScoreAverage(search=one, **shared) if is_search(one) else ScoreAverage(one)


def is_search(one: Any) -> bool:
    """Whether something searches weights: it takes an objective and a generator.

    A function that may be called with one argument is a score, of probabilities.
    """
    if isinstance(one, np.ufunc) or not takes(one, 2):
        return False
    return not (isinstance(one, FunctionType | BuiltinFunctionType) and takes(one, 1))


def is_single(method: Method | str) -> bool:
    """Whether a method is one score alone, by which others are measured."""
    if isinstance(method, Estimated):
        scores = method.estimator.scores
        one = isinstance(scores, Score) or (callable(scores) and not isinstance(scores, str))
        return one or (isinstance(scores, str) and scores in SCORES)
    return False


def name_of(one: Any) -> str:
    """Return what a method is called: its own name, else that of its class."""
    if isinstance(one, Score):
        return str(one)
    if isinstance(one, ScoreAverage) or predictor_of(one) is not None:
        return "estimator" if predictor_of(one) is None else "fitted model"
    own = getattr(one, "name", None) or getattr(one, "__name__", None)
    return str(own or (repr(one) if is_dataclass(one) else type(one).__name__))


def _free(name: str, taken: Mapping[str, Any]) -> str:
    numbered = (f"{name} {i}" for i in range(2, len(taken) + 3))
    return name if name not in taken else next(one for one in numbered if one not in taken)
