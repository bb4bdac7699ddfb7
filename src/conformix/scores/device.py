"""The score tensor on a device, equal to the host's bit for bit.

Sums, products, quotients and comparisons round the same everywhere when they are done one by one
and in the same order; exponentials, logarithms and powers do not. Scores made of the former alone
(``on_device``) are computed where the probabilities are. All others, logits and the uniform numbers
of randomised scores included, are computed by NumPy, block by block, and sent over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from conformix.data.outputs import Outputs
from conformix.kernels.arrays import FloatArray, to_device, torch_module
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked
from conformix.scores.uniforms import row_uniforms


class DeviceRanked:
    """A block of rows of probabilities on a device, sorted on first use; see `Ranked`."""

    def __init__(self, block: Any, u: Any = None) -> None:
        self.xp = torch_module()
        self.probs = block.double()
        self.n_classes = int(block.shape[1])
        self.u = self.probs.new_zeros((len(block), 1)) if u is None else u

    def at(self, temperature: float) -> DeviceRanked:
        """Return the same rows: other temperatures than 1 need powers, hence the host."""
        if temperature != 1:
            raise AssertionError("powers are computed on the host")
        return self

    @cached_property
    def top(self) -> Any:
        """The largest probability of every row, shape (n, 1)."""
        return self.probs.max(dim=1, keepdim=True).values

    @cached_property
    def runner_up(self) -> Any:
        """The second largest probability, which equals the largest in a tie, shape (n, 1)."""
        return self.probs.topk(2, dim=1).values[:, 1:]

    @cached_property
    def _rising(self) -> tuple[Any, Any]:
        """The sorted probabilities and their labels, (n, K) each."""
        result = self.probs.sort(dim=1)
        return result.values, result.indices

    @cached_property
    def _ties(self) -> tuple[Any, Any]:
        """First and last sorted position of the tie group of every sorted place, (n, K) each."""
        rising, _ = self._rising
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
        return self.xp.empty_like(rising).scatter_(1, self._rising[1], rising)

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
        """Mass of the labels no likelier than y, shape (n, K); added from the smallest up.

        One addition after the other, for all rows at once: a parallel scan would add in another
        order and round differently.
        """
        rows = self._rising[0].T.contiguous()
        for k in range(1, self.n_classes):
            self.xp.add(rows[k - 1], rows[k], out=rows[k])
        mass = rows.T.contiguous()
        return self._in_label_order(mass.gather(1, self._ties[1]))


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
            on_host = {m: Ranked(v, part.kind, uniforms) for m, v in host.models.items()}
        tau = None if uniforms is None else to_device(uniforms.reshape(-1, 1), planes)
        ranked = {m: DeviceRanked(v, tau) for m, v in part.models.items()}
        for plane, column, stays in zip(planes, columns, here, strict=True):
            if stays:
                plane[rows] = column.score(ranked[column.model])  # type: ignore[arg-type]
            else:
                plane[rows] = to_device(column.score(on_host[column.model]), planes)
    return planes.movedim(0, -1)


def _stays(column: Column, outputs: Outputs) -> bool:
    """Whether a score of these outputs is made of exactly rounded operations alone."""
    plain = outputs.kind == "probs" and getattr(column.score, "temperature", 1) == 1
    return plain and column.score.on_device
