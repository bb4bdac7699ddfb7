"""From settings and labelled outputs to a fitted predictor: every check, then the right fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.calibration import (
    LabelShift,
    Marginal,
    RankedPerClass,
    Weighted,
    resolve_calibration,
)
from conformix.conformal import simple_fraction
from conformix.data.checks import place
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import Kind, Outputs, check_groups, check_outputs
from conformix.data.row_data import NO_DATA, RowData, check_rows, group_names
from conformix.errors import InvalidInput, shown
from conformix.fit import fit as pipeline
from conformix.fit.auto import Plan, is_auto, plan_auto
from conformix.fit.exact.split import FullFitted, fit_exact
from conformix.fit.fit import Fitted, Rule
from conformix.fit.memory import are_too_many, refuse_beyond_memory, rows_held, score_bytes
from conformix.fit.predictor import Predictor, matching
from conformix.fit.scored import gather_rows, rows_in_place
from conformix.guarantees import RankRule
from conformix.guarantees.order import check_delta
from conformix.kernels import available_threads
from conformix.kernels.arrays import FloatArray, IntArray, as_generator
from conformix.registry import check_flag
from conformix.scores import Column, score_columns
from conformix.scores.scale import resolve_normalizer
from conformix.scores.tensor import draw_key, fill_tensor
from conformix.search import MeanSize, resolve_objective, resolve_search
from conformix.search.grid import check_simplex
from conformix.splits import Drawn, Exact, Split, ValidityFirst, resolve_split


@dataclass(frozen=True)
class Recipe:
    """All settings of a fit, as the user gave them; see `conformix.ScoreAverage`."""

    scores: Any
    alpha: float
    split: Any
    search: Any
    normalize: Any
    kind: Kind
    weights: Any
    tune_alpha: float | None
    allow_empty: bool
    guarantee: str
    delta: float
    random_state: Any
    threads: int | None
    calibration: Any = "marginal"
    objective: Any = "size"

    def fit(
        self,
        outputs: Any,
        y: Any,
        *,
        test: Any,
        groups: Any,
        classes: Any = None,
        strata: Any = None,
        sample_weight: Any = None,
    ) -> Predictor:
        """Return the predictor fitted on labelled outputs."""
        self.check()
        labelled = check_outputs(outputs, self.kind, later=not is_auto(self.scores))
        names = check_classes(classes, labelled.n_classes)
        labels = label_indices(y, names, labelled.n, labelled.n_classes)
        rng = as_generator(self.random_state)
        key = draw_key(rng)
        parts = check_groups(groups, labelled.n)
        scheme = resolve_calibration(self.calibration)
        data = check_rows(strata, sample_weight, labelled.n, scheme.needs, scheme.name)
        plan = self.plan(labelled, labels, rng, parts)
        columns, rows, own = plan.columns, plan.rows, replace(self, **plan.settings)
        labels, data = labels[rows], data.take(rows)
        parts = None if parts is None else parts[rows]
        split = own.bounded_split(labelled.n_classes, plan)
        searched = self.weights is None  # where weights are given, a test batch is not looked at
        test_scores = own.test_scores(split, test, labelled, columns, key) if searched else None
        scores, split = own.scored(
            plan.scored(labelled), labels, columns, split, key=key, rng=rng, groups=parts
        )
        fitted = own.fit_scores(
            scores, labels, columns, split, rng=rng, test=test_scores, groups=parts, data=data
        )
        return Predictor(
            columns,
            tuple(labelled.models),
            labelled.n_classes,
            self.kind,
            key,
            self.alpha,
            fitted,
            threads=self.threads,
            classes=names,
            blend=plan.blend,
        )

    def plan(
        self, labelled: Outputs, labels: IntArray, rng: np.random.Generator, groups: Any
    ) -> Plan:
        """Return what is scored: the user's scores, or a blend that is learnt here."""
        if not is_auto(self.scores):
            return Plan(score_columns(tuple(labelled.models), self.scores))
        scheme = resolve_calibration(self.calibration)
        apart = getattr(scheme, "learns", True)
        apart = apart or resolve_normalizer(self.normalize, separate=False).learns
        return plan_auto(
            labelled, labels, alpha=self.alpha, split=self.split, normalize=self.normalize,
            rng=rng, groups=groups, threads=self.threads, rank=RankRule(self.pac_delta),
            apart=apart,
        )  # fmt: skip

    def bounded_split(self, n_classes: int, plan: Plan) -> Split:
        """Return the split, with as many tuning rows as the memory for scores holds.

        A blend has learnt from the tuning rows before: all of them must stay out of calibration.
        """
        split = resolve_split(self.split)
        if isinstance(split, ValidityFirst) and plan.blend is None:
            return split.held_in(rows_held(n_classes, len(plan.columns)))
        return split

    def scored(
        self, outputs: Outputs, labels: IntArray, columns: tuple[Column, ...], split: Split, *,
        key: int, rng: np.random.Generator, groups: IntArray | None,
    ) -> tuple[Any, Split]:  # fmt: skip
        """Return the scores and the split: where all scores are too many, they are gathered.

        That works where only the tuning rows need the scores of all labels; their numbers are
        then drawn here, from the same generator and so to the same rows.
        """
        large = are_too_many(outputs, len(columns))
        options: dict[str, Any] = {"key": key, "threads": self.threads}
        if large and self.settled(len(columns)) is not None:
            return gather_rows(outputs, labels, np.arange(0), columns, **options), split
        whole = split.split if isinstance(split, Drawn) else split
        if large and isinstance(whole, ValidityFirst):
            roles = split.roles(outputs.n, 0, rng, groups)
            found = gather_rows(outputs, labels, roles.tune, columns, **options)
            return found, Drawn(whole, roles)
        if large:
            needed = score_bytes(outputs.n, outputs.n_classes, len(columns))
            refuse_beyond_memory(split.name, needed)
        return fill_tensor(outputs.settled(), columns, **options), split

    def fit_scores(
        self, scores: Any, labels: IntArray, columns: tuple[Column, ...], split: Split, *,
        rng: np.random.Generator, test: FloatArray | None, groups: IntArray | None, data: RowData,
    ) -> Fitted | FullFitted:  # fmt: skip
        """Return the fit on scores, whole or gathered: with settled weights, or searched ones."""
        weights = self.settled(len(columns))
        if weights is not None:
            return self.with_fixed_weights(
                weights, scores, labels, columns, data=data, rng=rng, grouped=groups is not None
            )
        own = replace(self, split=split)
        return own.with_search(
            scores, labels, columns, rng=rng, test=test, groups=groups, data=data
        )

    def settled(self, d: int) -> FloatArray | None:
        """Return the weights (d,) that no row has to choose, so that all rows calibrate; or None.

        They are given, or the only candidate where neither the scale nor the calibration learns
        anything. Settings decide, never labels. A split object keeps the share that it asks for:
        only ``split="vfcp"``, by name, leaves it to the library.
        """
        if self.weights is not None:
            return check_simplex(self.weights, d)
        by_name = isinstance(self.split, str) and isinstance(
            resolve_split(self.split), ValidityFirst
        )
        if not by_name or getattr(resolve_calibration(self.calibration), "learns", True):
            return None
        return pipeline.settled_weights(resolve_search(self.search), self.normalize, d)

    def check(self) -> None:
        """Refuse settings that cannot work, whether this fit uses them or not."""
        simple_fraction(self.alpha)
        if self.tune_alpha is not None:
            simple_fraction(self.tune_alpha, "tune_alpha")
        if not isinstance(self.guarantee, str) or self.guarantee not in ("marginal", "pac"):
            raise InvalidInput(
                f'guarantee must be "marginal" or "pac"; got {shown(self.guarantee)}.'
            )
        check_delta(self.delta)
        check_flag(self.allow_empty, "allow_empty")
        if is_auto(self.scores):
            self.check_auto()
        available_threads(self.threads)
        resolve_search(self.search)
        plain = isinstance(resolve_objective(self.objective), MeanSize)
        self.check_calibration()
        altered = {
            "allow_empty=False": not self.allow_empty,
            "tune_alpha": self.tune_alpha is not None,
            'guarantee="pac"': self.guarantee == "pac",
            "another objective": not plain,
        }
        option = next((name for name, asked in altered.items() if asked), None)
        if option and self.weights is None and isinstance(resolve_split(self.split), Exact):
            raise InvalidInput(
                f'split "exact" selects at alpha by one rule for all rows; {option} does not apply.'
            )

    def check_auto(self) -> None:
        """Refuse what has no effect beside a blend, which finds its weights by likelihood."""
        given = {
            "weights": self.weights is not None,
            "search": not (isinstance(self.search, str) and self.search == "auto"),
            "objective": not isinstance(resolve_objective(self.objective), MeanSize),
        }
        option = next((name for name, set_ in given.items() if set_), None)
        if option:
            raise InvalidInput(
                f'scores="auto" finds its own weights, by likelihood; leave {option} at its '
                "default, or name the scores."
            )

    def check_calibration(self) -> None:
        """Refuse a calibration that does not go with the other settings."""
        scheme = resolve_calibration(self.calibration)
        if isinstance(scheme, Marginal):
            return
        if self.weights is None and isinstance(resolve_split(self.split), Exact):
            raise InvalidInput(
                f'split "exact" selects by one marginal rule; calibration "{scheme.name}" goes '
                'with split "vfcp" and the others.'
            )
        if self.guarantee == "pac" and isinstance(scheme, Weighted | LabelShift):
            raise InvalidInput(f'guarantee="pac" is not known for calibration "{scheme.name}".')
        split = resolve_split(self.split)
        if self.guarantee == "pac" and self.weights is None and split.needs_test:
            raise InvalidInput(
                f'guarantee="pac" with split "{split.name}" speaks of the whole test batch, and '
                f'calibration "{scheme.name}" of parts of unknown size; say split="vfcp" or "efcp".'
            )
        if self.weights is not None and isinstance(scheme, RankedPerClass):
            raise InvalidInput(
                'calibration "rc3p" freezes its ranks on tuning rows, and fixed weights leave '
                "none; say search=[weights] instead."
            )
        if scheme.tune and not self.allow_empty:
            raise InvalidInput("tune=True of a calibration goes with allow_empty=True only.")

    @property
    def pac_delta(self) -> float | None:
        """Delta where a PAC statement is asked for."""
        return self.delta if self.guarantee == "pac" else None

    def with_search(
        self,
        scores: FloatArray,
        labels: IntArray,
        columns: tuple[Column, ...],
        *,
        rng: np.random.Generator,
        test: FloatArray | None,
        groups: IntArray | None,
        data: RowData = NO_DATA,
    ) -> Fitted | FullFitted:
        """Return the fit whose weights are searched."""
        split = resolve_split(self.split)
        shared: dict[str, Any] = {
            "alpha": self.alpha,
            "search": resolve_search(self.search),
            "normalize": self.normalize,
            "rng": rng,
            "groups": groups,
            "threads": self.threads,
        }
        if isinstance(split, Exact):
            d = len(columns)
            if pipeline.settled_weights(shared["search"], self.normalize, d) is not None:
                split = Exact()  # one candidate: a shortlist has nothing to choose
            return fit_exact(scores, labels, columns, split=split, **shared)
        shared |= {"tune_alpha": self.tune_alpha, "allow_empty": self.allow_empty}
        shared |= {"test": test, "delta": self.pac_delta, "data": data}
        shared |= {"calibration": resolve_calibration(self.calibration), "goal": self.objective}
        return pipeline.fit(scores, labels, columns, split=split, **shared)

    def with_fixed_weights(
        self,
        weights: FloatArray,
        scores: FloatArray,
        labels: IntArray,
        columns: tuple[Column, ...],
        *,
        data: RowData = NO_DATA,
        rng: np.random.Generator,
        grouped: bool = False,
    ) -> Fitted:
        """Return the calibration of settled weights on all rows: nothing is left to tune."""
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(
                f'normalize="{normalizer.name}" learns from tuning rows, and fixed weights leave '
                'none; say normalize="scale", or search the weights.'
            )
        rule = Rule(normalizer.fit(scores, columns), weights, self.allow_empty)
        ledger = pipeline.fixed_ledger(
            *scores.shape, alpha=self.alpha, delta=self.pac_delta, grouped=grouped
        )
        plan = pipeline.lay_down(
            resolve_calibration(self.calibration), rule, scores, labels, data, alpha=self.alpha,
            rng=rng, names=group_names(data), n_cal=len(labels), separate=False,
        )  # fmt: skip
        fitted = pipeline.calibrated(
            scores, labels, rule, alpha=self.alpha, ledger=ledger, normalizer=normalizer.name,
            plan=plan, data=data,
        )  # fmt: skip
        if self.weights is not None:
            return fitted
        every = rows_in_place(scores, labels, np.arange(len(labels)))
        return replace(fitted, held_out_size=pipeline.mean_size(every, fitted, self.alpha, data))

    def test_scores(
        self, split: Split, test: Any, labelled: Outputs, columns: tuple[Column, ...], key: int
    ) -> FloatArray | None:
        """Return the scores of the test rows where the split uses them."""
        if test is None:
            return None
        checked = check_outputs(test, self.kind, name="test")
        checked = matching(checked, tuple(labelled.models), labelled.n_classes, "test")
        if not split.needs_test:
            return None
        if checked.home != labelled.home and (checked.on_device or labelled.on_device):
            raise InvalidInput(
                "test must be where outputs are (move one with .to(device)); got outputs "
                f"{place(labelled.home)} and test {place(checked.home)}."
            )
        return fill_tensor(checked, columns, key=key, threads=self.threads)
