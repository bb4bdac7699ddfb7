"""Importance weights: when the new rows follow another law than the calibration rows.

With the weight ``w_i`` of calibration row i and the own weight ``w`` of the new point, the
threshold is ``sup{t : sum_i w_i 1{s_i >= t} >= (1 - alpha) (sum_i w_i + w)}``, else ``-inf``
(Tibshirani et al., 2019). Under covariate shift ``w = w(x)`` belongs to the row; under label shift
``w = w(y)`` belongs to the candidate label, so there is one threshold per label (Podkopaev &
Ramdas, 2021).

Only the proportions of the weights matter. The two sums are compared without rounding (`sums`), so
equal weights give the unweighted sets whatever their common value, and weights times a power of
two give the same sets bit for bit. Any other factor rounds the weights themselves; sets may then
differ where the two sides of the comparison are equal but for that rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.cuts import Cuts, Plan, Rank, Seen
from conformix.calibration.sums import RunningSums
from conformix.conformal import conformal_rank, simple_fraction
from conformix.data.checks import check_numbers
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput, TrivialSetsWarning, warn
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, IntArray


def effective_rows(weight: Any) -> float:
    """Return ``(sum w)^2 / sum w^2``: how many equally weighted rows these are worth.

    Examples
    --------
    >>> effective_rows([1.0, 1.0, 0.0, 0.0])
    2.0
    """
    values = check_numbers(weight, "weight")
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any():
        raise InvalidInput("weight must be a vector of finite numbers that are not negative.")
    if not values.any():
        return 0.0
    values = np.ldexp(
        values, -int(np.frexp(values.max())[1])
    )  # squares neither vanish nor overflow
    return float(values.sum() ** 2 / (values**2).sum())


@dataclass(frozen=True)
class Weighted:
    """Thresholds under covariate shift: importance weights as ``sample_weight=``.

    `fit` and every prediction get ``sample_weight=``: the ratio of the density of the new rows to
    that of the calibration rows, known or estimated (`conformix.calibration.shift.density_ratio`).

    Parameters
    ----------
    known : bool
        Whether the weights are the true ratios, or these times one factor: the guarantee is then
        exact, up to the rounding of the weights to floats. Estimated ones make it approximate.

    Examples
    --------
    >>> import conformix as cx
    >>> cp = cx.ScoreAverage(weights=[1, 0, 0], alpha=0.5, calibration=Weighted(known=True))
    >>> probs, y = [[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], [1, 0, 1]
    >>> cp.fit(probs, y, sample_weight=[1, 1, 4]).predict_set(probs, sample_weight=[1, 1, 9]).sizes
    array([1, 1, 2])
    """

    name: ClassVar[str] = "weighted"
    needs: ClassVar[tuple[str, ...]] = ("sample_weight",)
    by_row: ClassVar[bool] = True
    has_pac: ClassVar[bool] = False
    tune: ClassVar[bool] = False
    learns: ClassVar[bool] = False  # the ratios come with the rows
    ratio: ClassVar[str] = "density"

    known: bool = False

    def learn(self, seen: Seen) -> Plan:
        """Return itself: there is nothing to lay down."""
        return self

    def own_weight(self, data: RowData) -> FloatArray:
        """Return the weights (r, 1) of the candidates of some rows."""
        assert data.weight is not None  # checked at the edge
        return data.weight[:, None]

    def by_label(self) -> FloatArray:
        """Refuse: every row has a weight, and so a threshold, of its own."""
        raise InvalidInput(
            'calibration "weighted" has no single threshold: it depends on the weight of the new '
            "row; use predict_set or predict_pvalues."
        )

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        """Return the weighted cuts."""
        assert data.weight is not None  # checked at the edge
        return Reweighted(self, values, data.weight)

    def afresh(self) -> Plan:
        """Return the same."""
        return self


@dataclass(frozen=True)
class LabelShift:
    """Thresholds under label shift: the classes have other frequencies than in calibration.

    Parameters
    ----------
    ratios : sequence of length K
        New class frequency over old class frequency, known or estimated
        (`conformix.calibration.shift.label_ratios`).
    known : bool
        Whether these are the true ratios, or these times one factor: the guarantee is then exact,
        up to the rounding of the ratios to floats.

    Examples
    --------
    >>> import conformix as cx
    >>> shift = LabelShift((0.5, 1.5), known=True)
    >>> cp = cx.ScoreAverage(weights=[1, 0, 0], alpha=0.5, calibration=shift)
    >>> cp.fit([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], [1, 0, 1]).threshold_
    array([0.7, 0.4])
    """

    name: ClassVar[str] = "label shift"
    needs: ClassVar[tuple[str, ...]] = ()
    by_row: ClassVar[bool] = True
    has_pac: ClassVar[bool] = False
    tune: ClassVar[bool] = False
    learns: ClassVar[bool] = False  # the ratios come with the rows
    ratio: ClassVar[str] = "class frequency"

    ratios: Any
    known: bool = False

    def learn(self, seen: Seen) -> Plan:
        """Return itself, if the ratios fit."""
        ratios = self.by_class
        if ratios.shape != (seen.n_classes,) or not (ratios >= 0).all() or not ratios.any():
            raise InvalidInput(
                f"ratios must hold one number per class, {seen.n_classes} of them, not negative "
                f"and not all 0; got shape {ratios.shape}."
            )
        if not np.isfinite(ratios).all():
            raise InvalidInput("ratios must be finite; got NaN or inf.")
        return self

    @property
    def by_class(self) -> FloatArray:
        """The ratios as an array (K,)."""
        return np.asarray(self.ratios, dtype=np.float64)

    def own_weight(self, data: RowData) -> FloatArray:
        """Return the weights (1, K) of the candidates of any row."""
        return self.by_class[None, :]

    def by_label(self) -> FloatArray:
        """Return the weights (K,) of the labels."""
        return self.by_class

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        """Return the weighted cuts, one threshold per label."""
        return Reweighted(self, values, self.by_class[y])

    def afresh(self) -> Plan:
        """Return the same."""
        return self


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Weighted thresholds and p-values: of calibration scores that rise, each with its weight.

    The plan says which weight a candidate carries.

    Examples
    --------
    >>> cuts = Reweighted(Weighted(), np.array([0.1, 0.5, 0.9]), np.array([4.0, 1.0, 1.0]))
    >>> cuts.thresholds(0.5, np.array([0.0, 2.0, 9.0]))
    array([ 0.1,  0.1, -inf])
    """

    plan: Weighted | LabelShift
    values: FloatArray
    weight: FloatArray
    sums: RunningSums = field(init=False, repr=False)

    no_law: ClassVar[str] = "the rows carry importance weights"
    threaded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weight.any():
            raise InvalidInput("the importance weights of the calibration rows must not all be 0.")
        object.__setattr__(self, "sums", RunningSums(self.weight))  # of the smallest scores

    @property
    def name(self) -> str:
        return self.plan.name

    def thresholds(self, alpha: float, weight: FloatArray) -> FloatArray:
        """Return the thresholds of points of weight `weight`, in its shape."""
        # The smallest scores are left out while they and the point weigh at most alpha of all.
        out = self.sums.last_within(simple_fraction(alpha), weight)
        return np.where(out >= 0, self.values[np.maximum(out, 0)], -np.inf)

    def table(self, alpha: float, rank: Rank) -> FloatArray:
        """Return the thresholds by label (K,); under covariate shift every row has its own."""
        return self.thresholds(alpha, self.plan.by_label())

    def at(self, alpha: float, rank: Rank, data: RowData = NO_DATA) -> FloatArray:
        """Return the thresholds of some rows, broadcasting against (r, K)."""
        return self.thresholds(alpha, self.plan.own_weight(data))

    def pvalues(
        self, values: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return ``(sum_i w_i 1{c_i <= s} + w) / (sum_i w_i + w)``, smoothed where asked."""
        weight, up_to = (
            self.plan.own_weight(data),
            np.searchsorted(self.values, values, side="right"),
        )
        if tau is None:
            return self.sums.shares(up_to, weight)
        below = np.searchsorted(self.values, values, side="left")
        return self.sums.smoothed(below, up_to, weight, tau)

    def promise(self, base: Guarantee) -> Guarantee:
        """Return the statement under the new law: exact for known ratios only."""
        if base.kind == "none":
            return base
        rows = f"{effective_rows(self.weight):,.0f} effective rows of {len(self.weight):,}"
        less = " minus a selection term" if base.kind == "approximate" else ""
        ratios, others = f"{self.plan.ratio} ratios", f"but for that shift {base.assumption}"
        if self.plan.known:
            sentence = f"P(y in set) >= 1 - alpha{less} under the new law"
            return Guarantee(base.kind, sentence, f"true {ratios}, {rows}; {others}")
        sentence = f"P(y in set) >= 1 - alpha{less} under the new law, less the error of the ratios"
        return Guarantee("approximate", sentence, f"estimated {ratios}, {rows}; {others}")

    def warn(self, alpha: float, rank: Rank) -> None:
        """Warn where a point of average weight lets every label in.

        Its weight is ``sum_i w_i / n``, so that alone the number of rows decides.
        """
        n = len(self.weight)
        if conformal_rank(n, alpha) > n:
            warn(
                f"{n:,} weighted calibration rows are too few for alpha={float(alpha):g}: sets of "
                "points of average weight hold all labels.",
                TrivialSetsWarning,
            )
