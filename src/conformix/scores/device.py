"""The score tensor on a device, equal to the host's bit for bit.

Sums, products, quotients and comparisons round the same everywhere when they are done one by one
and in the same order, and exponentials and logarithms are made of these
(`conformix.kernels.elementary`). So every score of ours is computed where the outputs are. What is
not, is computed by NumPy, block by block, and sent over: functions of the user's, the uniform
numbers of randomised scores, and all scores of models that were saved with NumPy's exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from conformix.data.outputs import Arithmetic, Kind, Outputs
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, to_device, to_host, torch_module
from conformix.kernels.blocks import DEVICE_ENTRIES
from conformix.kernels.cached import cached_property
from conformix.kernels.device import elementary
from conformix.kernels.device.sums import running_sums
from conformix.kernels.elementary import sums_of
from conformix.kernels.patterns import patterns
from conformix.scores.names import Column
from conformix.scores.ranked import LOG_TINY, TINY, Ranked
from conformix.scores.uniforms import row_uniforms


class DeviceRanked:
    """A block of rows of one model on a device, sorted on first use; see `Ranked`."""

    def __init__(self, block: Any, kind: Kind = "probs", u: Any = None) -> None:
        self.xp = torch_module()
        self.kind: Kind = kind
        self._raw = block.double()
        self.n_classes = int(block.shape[1])
        self.u = self._raw.new_zeros((len(block), 1)) if u is None else u
        self._tempered: dict[float, DeviceRanked] = {}

    @cached_property
    def probs(self) -> Any:
        """The probabilities, shape (n, K)."""
        return self._raw if self.kind == "probs" else elementary.softmax(self._raw)

    @property
    def logits(self) -> Any:
        """The raw logits, shape (n, K); only where the outputs are logits."""
        if self.kind != "logits":
            raise InvalidInput('scores "logit" and "energy" need kind="logits"; got probabilities.')
        return self._raw

    @cached_property
    def log_sum_exp(self) -> Any:
        """``log sum exp z`` of the logits, shape (n, 1)."""
        return elementary.log_sum_exp(self.logits)

    @cached_property
    def log_probs(self) -> Any:
        """``log p_y``, floored at the log of the smallest normal number, shape (n, K)."""
        if self.kind == "logits":
            return (self.logits - self.log_sum_exp).clamp(min=LOG_TINY)
        return self.log(self.probs.clamp(min=TINY))

    @cached_property
    def patterns(self) -> Any:
        """The log-probabilities, floored, centred and scaled to norm one, shape (n, K)."""
        return patterns(self.log_probs)

    @cached_property
    def entropy(self) -> Any:
        """``-sum p log p``, shape (n, 1)."""
        return sums_of(0.0 - self.probs * self.log_probs)

    def log(self, values: Any) -> Any:
        """Return the logarithm of some numbers."""
        return elementary.log(values)

    def at(self, temperature: float) -> DeviceRanked:
        """Return the same rows with ``p_y^(1/T)``, renormalised; the sort is shared."""
        if temperature == 1:
            return self
        if temperature not in self._tempered:
            divisor = self._raw.new_full((), temperature)  # a quotient, not a product
            if self.kind == "logits":
                tempered = DeviceRanked(self._raw / divisor, "logits", self.u)
            else:
                powers = elementary.exp(self.log(self.probs / self.top) / divisor)
                tempered = DeviceRanked(powers / sums_of(powers), "probs", self.u)
            tempered.__dict__.update(_order=self._order, _ties=self._ties)
            self._tempered[temperature] = tempered
        return self._tempered[temperature]

    @cached_property
    def top(self) -> Any:
        """The largest probability of every row, shape (n, 1)."""
        return self.probs.max(dim=1, keepdim=True).values

    @cached_property
    def runner_up(self) -> Any:
        """The second largest probability, which equals the largest in a tie, shape (n, 1)."""
        return self.probs.topk(2, dim=1).values[:, 1:]

    @cached_property
    def log_ranks(self) -> Any:
        """The logarithm of the rank from the top, shape (n, K)."""
        places = self.xp.arange(1, self.n_classes + 1, device=self._raw.device)
        return self.log(places.double())[self.rank.long() - 1]

    @cached_property
    def _order(self) -> Any:
        """The labels of the rising entries of every row, (n, K)."""
        return self._raw.sort(dim=1).indices

    @cached_property
    def _rising(self) -> Any:
        """The probabilities of every row, sorted."""
        return self.probs.gather(1, self._order)

    @cached_property
    def _ties(self) -> tuple[Any, Any]:
        """First and last sorted position of the tie group of every sorted place, (n, K) each."""
        rising = self._rising
        step = rising[:, 1:] != rising[:, :-1]
        places = self.xp.arange(self.n_classes, device=rising.device).expand_as(rising)
        first, last = places.clone(), places.clone()
        first[:, 1:] = self.xp.where(step, places[:, 1:], 0)
        last[:, :-1] = self.xp.where(step, places[:, :-1], self.n_classes - 1)
        first[:, 0], last[:, -1] = 0, self.n_classes - 1
        first = first.cummax(dim=1).values
        last = last.flip(1).cummin(dim=1).values.flip(1)
        return first, last

    def _in_label_order(self, rising: Any) -> Any:
        return self.xp.empty_like(rising).scatter_(1, self._order, rising)

    @cached_property
    def below(self) -> Any:
        """``#{y' : p_y' < p_y}``, shape (n, K); as float64, which integers turn into anyway."""
        return self._in_label_order(self._ties[0]).double()

    @cached_property
    def rank(self) -> Any:
        """Rank from the top, ``1 + #{y' : p_y' > p_y}``, shape (n, K), as float64."""
        return self.n_classes - self._in_label_order(self._ties[1]).double()

    @cached_property
    def mass_up_to(self) -> Any:
        """Mass of the labels no likelier than y, shape (n, K); added from the smallest up."""
        return self._in_label_order(self.running_mass.gather(1, self._ties[1]))

    @cached_property
    def running_mass(self) -> Any:
        """Sums of the sorted probabilities, from the smallest up, shape (n, K)."""
        return running_sums(self._rising)


class DeviceRising(DeviceRanked):
    """A block of rows on a device whose numbers rise: label order is sorted order."""

    @cached_property
    def _order(self) -> Any:
        places = self.xp.arange(self.n_classes, device=self._raw.device)
        return places.expand(self._raw.shape)

    @cached_property
    def _rising(self) -> Any:
        return self.probs

    def _in_label_order(self, rising: Any) -> Any:
        return rising

    @cached_property
    def top(self) -> Any:
        """The last of every row."""
        return self.probs[:, -1:]

    @cached_property
    def runner_up(self) -> Any:
        """The last but one."""
        return self.probs[:, -2:-1]


class DeviceRows:
    """A block of rows on a device, sorted on first use; see `sorted_rows.SortedRows`."""

    def __init__(
        self,
        block: Any,
        kind: Kind = "probs",
        u: FloatArray | None = None,
        arithmetic: Arithmetic = "exact",
    ) -> None:
        wide = str(block.dtype) in ("torch.float32", "torch.float64")
        self.block = block if wide else block.double()
        self._how: Any = (kind, None if u is None else to_device(u.reshape(-1, 1), block))

    @cached_property
    def _sorted(self) -> Any:
        return self.block.sort(dim=1, stable=True)

    @property
    def outputs(self) -> Any:
        """The outputs of every row, rising, (n, K), in the precision that they came in."""
        return self._sorted.values

    @property
    def labels(self) -> Any:
        """The labels of the sorted places, (n, K)."""
        return self._sorted.indices

    @cached_property
    def ranked(self) -> DeviceRanked:
        """What scores are functions of, in sorted order."""
        return DeviceRising(self.outputs, *self._how)

    def scores(self, columns: Sequence[Column], rows: Any, places: slice) -> Any:
        """Return the scores (m, w, d) of neighbouring places of some rows, as a view of planes.

        All rows where `rows` is None.
        """
        numbers = self.numbers(len(self.block)) if rows is None else to_device(rows, self.block)
        here = torch_module().arange(places.start, places.stop, device=self.block.device)
        labels: Any = DeviceWindow(self.ranked, numbers[:, None], here[None, :])
        planes = self.block.new_empty(
            (len(columns), len(numbers), len(here)), dtype=torch_module().float64
        )
        for plane, column in zip(planes, columns, strict=True):
            plane[:] = column.score(labels)
        return planes.movedim(0, -1)

    def upper(self, columns: Sequence[Column], y: IntArray | None) -> DeviceRows:
        """Return the rows, all sorted, and the scores of the labels y."""
        if y is not None:
            self.true = to_host(self.true_scores(columns, y, np.arange(len(y))))
        return self

    def true_scores(self, columns: Sequence[Column], y: IntArray, rows: IntArray) -> Any:
        """Return the scores (m, d) of one label each of some rows (m,)."""
        numbers, labels = to_device(rows, self.block), to_device(y, self.block)
        values = self.block[numbers, labels][:, None]
        places = torch_module().searchsorted(self.outputs[numbers], values.contiguous())
        return self.scores_at(numbers, places[:, 0], columns)

    def scores_at(self, rows: Any, places: Any, columns: Sequence[Column]) -> Any:
        """Return the scores (m, d) of labels at places (m,) of some rows (m,)."""
        window: Any = DeviceWindow(self.ranked, rows[:, None], places[:, None])
        return torch_module().cat([column.score(window) for column in columns], dim=1)

    def outputs_at(self, places: Any) -> Any:
        """Return the outputs (n,) at a place of every row; infinity beyond the last."""
        n, n_classes = self.block.shape
        found = self.outputs[self.numbers(n), places.clip(max=n_classes - 1)]
        found[places == n_classes] = np.inf
        return found

    at_once: ClassVar[int] = DEVICE_ENTRIES  # labels of a window whose scores are held

    def numbers(self, rows: int) -> Any:
        """Return 0, 1, ... on the device."""
        return torch_module().arange(rows, device=self.block.device)


class DeviceBlend(DeviceRows):
    """A block of rows of a blend of one model, sorted by the model's outputs."""

    def __init__(self, added_up: Any, model: str, block: Any, kind: Kind) -> None:
        super().__init__(block, kind)
        self._added_up, self._model = added_up, model

    @cached_property
    def ranked(self) -> DeviceRanked:
        """What scores are functions of, in the order of the model."""
        kind = self._how[0]
        z = self._added_up({self._model: DeviceRising(self.outputs, kind)})
        return DeviceRising(z if kind == "logits" else elementary.softmax(z), kind)


def sorted_blend(blend: Any, outputs: Outputs) -> DeviceBlend:
    """Return a block of rows of a blend of one model, to be sorted."""
    ((model, values),) = outputs.models.items()
    return DeviceBlend(blend.added_up, model, values, outputs.kind)


class DeviceWindow:
    """What a score asks of `DeviceRanked`, for places of sorted rows; arrays are (m, w).

    `rows` are (m, 1) and `places` (m, w) or (1, w).
    """

    def __init__(
        self, ranked: DeviceRanked, rows: Any, places: Any, base: DeviceWindow | None = None
    ) -> None:
        self.xp, self.n_classes = ranked.xp, ranked.n_classes
        self._ranked, self._rows, self._places = ranked, rows, places
        self._untempered = base

    def at(self, temperature: float) -> DeviceWindow:
        """Return the same labels with ``p_y^(1/T)``, renormalised; order and ties are shared."""
        if temperature == 1:
            return self
        return DeviceWindow(self._ranked.at(temperature), self._rows, self._places, self)

    def __getattr__(self, name: str) -> Any:
        values = getattr(self._ranked, name)
        if name == "log":
            return values
        if name in ("probs", "log_probs", "logits"):
            return values[self._rows, self._places]
        if name in ("u", "log_sum_exp", "entropy", "top", "runner_up"):
            return values[self._rows[:, 0]]
        raise AttributeError(name)

    @cached_property
    def _ends(self) -> tuple[Any, Any]:
        """First and last sorted place of the labels' tie groups, (m, w) each."""
        if self._untempered is not None:
            return self._untempered._ends
        rising = self._ranked.probs[self._rows[:, 0]]
        values = self.probs.contiguous()
        search = self.xp.searchsorted
        return search(rising, values), search(rising, values, right=True) - 1

    @property
    def below(self) -> Any:
        """``#{y' : p_y' < p_y}``, as float64, which integers turn into anyway."""
        return self._ends[0].double()

    @property
    def rank(self) -> Any:
        """Rank from the top, ``1 + #{y' : p_y' > p_y}``, as float64."""
        return self.n_classes - self._ends[1].double()

    @property
    def log_ranks(self) -> Any:
        """The logarithm of the rank from the top."""
        return self.log(self.rank)

    @property
    def mass_up_to(self) -> Any:
        """Mass of the labels no likelier than y, added from the smallest up."""
        return self._ranked.running_mass[self._rows, self._ends[1]]


def fill_on_device(
    outputs: Outputs, columns: Sequence[Column], *, key: int, u: FloatArray | None
) -> Any:
    """Return the tensor (n, K, d) of outputs on a device, as a view of d planes on that device."""
    torch = torch_module()
    shape = (len(columns), outputs.n, outputs.n_classes)
    planes = torch.empty(shape, dtype=torch.float64, device=outputs.home)
    here = [_stays(column, outputs) for column in columns]
    randomized = any(getattr(column.score, "randomized", False) for column in columns)
    for rows in outputs.blocks():
        part = outputs.rows(rows)
        uniforms = None if u is None else u[rows]
        if not all(here) or (randomized and u is None):
            host = part.to_host()
            if randomized and u is None:
                uniforms = row_uniforms(host, slice(0, host.n), key)
            on_host = {
                m: Ranked(v, part.kind, uniforms, part.arithmetic) for m, v in host.models.items()
            }
        tau = None if uniforms is None else to_device(uniforms.reshape(-1, 1), planes)
        ranked = {m: DeviceRanked(v[:], part.kind, tau) for m, v in part.models.items()}
        for plane, column, stays in zip(planes, columns, here, strict=True):
            if stays:
                plane[rows] = column.score(ranked[column.model])  # type: ignore[arg-type]
            else:
                plane[rows] = to_device(column.score(on_host[column.model]), planes)
    return planes.movedim(0, -1)


def _stays(column: Column, outputs: Outputs) -> bool:
    """Whether a score of these outputs is made of exactly rounded operations alone."""
    return outputs.arithmetic == "exact" and column.score.on_device
