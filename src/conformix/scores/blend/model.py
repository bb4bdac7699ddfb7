"""The blend as an expert beside the others: a row of outputs in, a row of probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, to_host
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked


@dataclass(frozen=True, eq=False)
class Blend:
    """Scores added up with coefficients, then made probabilities by a softmax over the labels.

    Parameters
    ----------
    columns : tuple of Column
        Which scores of which models.
    coefficients : float64 array of shape (p,)
        One number per column, none negative.
    name : str
        What the blend is called beside the models.

    Examples
    --------
    >>> import conformix as cx
    >>> from conformix.data.outputs import check_outputs
    >>> columns = cx.scores.score_columns(("",), ("logp",))
    >>> half = Blend(columns, np.array([0.5]))  # a temperature of 2
    >>> half.over(check_outputs([[0.9, 0.1]])).models["blend"][0:1]
    array([[0.75, 0.25]])
    """

    columns: tuple[Column, ...]
    coefficients: FloatArray
    name: str = "blend"

    def __post_init__(self) -> None:
        numbers = np.asarray(self.coefficients)
        proper = numbers.shape == (len(self.columns),) and bool(np.isfinite(numbers).all())
        if not proper or (numbers < 0).any():
            raise InvalidInput(
                f"a blend of {len(self.columns)} scores needs as many coefficients, finite and "
                "not negative."
            )

    def over(self, outputs: Outputs) -> Outputs:
        """Return the blend of some outputs in their place, computed when rows are asked for."""
        return replace(outputs, models={self.name: Blended(self, outputs)})  # type: ignore[dict-item]

    def logits(self, outputs: Outputs) -> FloatArray:
        """Return ``z`` of all labels of some rows, shape (n, K)."""
        ranked = {model: Ranked(values, outputs.kind) for model, values in outputs.models.items()}
        total = np.zeros((outputs.n, outputs.n_classes))
        for column, coefficient in zip(self.columns, self.coefficients, strict=True):
            if coefficient:
                total += coefficient * column.score(ranked[column.model])
        return total

    def without(self, dropped: Sequence[Column]) -> Blend:
        """Return the blend with the coefficients of some columns at zero."""
        kept = [c not in dropped for c in self.columns]
        return replace(self, coefficients=np.where(kept, self.coefficients, 0.0))


@dataclass(frozen=True, eq=False)
class Blended:
    """Stands in for the (n, K) outputs of the blend; rows are computed when asked for.

    Parameters
    ----------
    blend : Blend
        What to compute.
    outputs : Outputs
        From what.
    """

    blend: Blend
    outputs: Outputs

    ndim = 2
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and labels."""
        return self.outputs.n, self.outputs.n_classes

    def __len__(self) -> int:
        return self.outputs.n

    def __getitem__(self, rows: slice) -> FloatArray:
        """Return rows of the blend: logits or probabilities, whichever the outputs are."""
        some = self.outputs.rows(rows)
        here = replace(some, models={name: to_host(v) for name, v in some.models.items()})
        logits = self.blend.logits(here)
        if self.outputs.kind == "logits":
            return logits
        return Ranked(logits, "logits").probs


def host_outputs(outputs: Outputs) -> Outputs:
    """Return outputs that are computed with NumPy; the answers still go where they came from."""
    if not outputs.on_device:
        return outputs
    models: dict[str, Any] = {name: to_host(values) for name, values in outputs.models.items()}
    home = outputs.home if outputs.home is not None else next(iter(outputs.models.values())).device
    return replace(outputs, models=models, home=home)
