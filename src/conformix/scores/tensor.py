"""From outputs to the score tensor: one sort per row and model, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.data.checks import check_numbers
from conformix.data.outputs import Form, Outputs, check_outputs
from conformix.errors import InvalidInput
from conformix.kernels import run_blocks
from conformix.kernels.arrays import FloatArray, RandomState, as_generator
from conformix.kernels.blas import run_products
from conformix.kernels.blocks import entries_at_once, row_blocks, threads_for
from conformix.kernels.twins import compile_for
from conformix.scores.names import Column, ScoreLike, score_columns
from conformix.scores.ranked import Ranked
from conformix.scores.score import Custom
from conformix.scores.terms import Terms, terms_of
from conformix.scores.thr import Thr
from conformix.scores.uniforms import row_uniforms

# Outputs held by one thread at once: what follows from the sort stays in a core's cache, and the
# allocator keeps such arrays instead of giving their pages back after every block.
CACHE_ENTRIES = 2**15
# The same where rows are multiplied by a matrix: a product of few rows reads the matrix for little.
PRODUCT_ENTRIES = 2**18


def draw_key(rng: np.random.Generator) -> int:
    """Return the key of the row uniforms, from a stream beside `rng`, which does not move."""
    return int(rng.spawn(1)[0].integers(2**63))


def fill_tensor(
    outputs: Outputs,
    columns: Sequence[Column],
    *,
    key: int = 0,
    u: FloatArray | None = None,
    threads: int | None = None,
) -> FloatArray:
    """Return the tensor (n, K, d) of checked outputs and resolved columns.

    The memory is one (n, K) plane per score, seen through a transposed view: the kernels read
    neighbouring labels of one score. Beyond the tensor only one block of rows is held per thread.
    """
    if outputs.on_device:
        from conformix.scores.device import fill_on_device  # noqa: PLC0415  for tensors only

        return fill_on_device(outputs, columns, key=key, u=u)  # type: ignore[no-any-return]
    planes = np.empty((len(columns), outputs.n, outputs.n_classes))
    fill_planes(planes, outputs, columns, key=key, u=u, threads=threads)
    return planes.transpose(1, 2, 0)


def fill_planes(
    planes: Sequence[FloatArray] | FloatArray,
    outputs: Outputs,
    columns: Sequence[Column],
    *,
    key: int = 0,
    u: FloatArray | None = None,
    threads: int | None = None,
    in_loops: bool = False,
) -> None:
    """Write the scores of outputs on the host to one plane (n, K) each.

    A plane of probabilities may be where the outputs are. `in_loops` says that compiled loops write
    what they can, where whoever asks needs these loops anyway.
    """
    compile_for(outputs.n * outputs.n_classes)
    loops = [
        _loop_of(column, plane, outputs) if in_loops else None
        for column, plane in zip(columns, planes, strict=True)
    ]

    def fill(rows: slice) -> None:
        uniforms = u[rows] if u is not None else uniforms_of(outputs, rows, columns, key)
        ranked = {
            model: Ranked(values[rows], outputs.kind, uniforms, outputs.arithmetic)
            for model, values in outputs.models.items()
        }
        for plane, column, loop in zip(planes, columns, loops, strict=True):
            if loop is None:
                plane[rows] = column.score(ranked[column.model])
            else:  # without arrays on the way
                plane[rows] = 0.0
                loop.add(ranked, plane[rows])

    if not may_be_shared(columns):
        threads = 1
    # What multiplies by a matrix, itself or in a blend, wants many rows at once.
    learnt = any(column.score.learns for column in columns)
    blended = any(hasattr(values, "blend") for values in outputs.models.values())
    several = threads_for(outputs.n * outputs.n_classes, threads)
    if learnt or blended:
        run_products(fill, row_blocks(outputs.n, outputs.n_classes, PRODUCT_ENTRIES), several)
    else:
        entries = entries_at_once(CACHE_ENTRIES, outputs.n, outputs.n_classes, several)
        run_blocks(fill, row_blocks(outputs.n, outputs.n_classes, entries), several)


def _loop_of(column: Column, plane: FloatArray, outputs: Outputs) -> Terms | None:
    """Return the loop that writes a logarithm or a place in the order to a plane; None for others.

    What it writes is added to zeros: probabilities are copied sooner.
    """
    if (
        outputs.arithmetic != "exact"
        or not plane.flags.c_contiguous
        or isinstance(column.score, Thr)
    ):
        return None
    return terms_of([(column, 1.0)], outputs.n_classes, outputs.n * outputs.n_classes)


def may_be_shared(columns: Sequence[Column]) -> bool:
    """Whether several threads may ask for scores: a user's own function is called from one only."""
    return not any(isinstance(column.score, Custom) for column in columns)


def uniforms_of(
    outputs: Outputs, rows: slice, columns: Sequence[Column], key: int
) -> FloatArray | None:
    """Return the uniform numbers of a block of rows, None where no score is randomised."""
    if any(getattr(column.score, "randomized", False) for column in columns):
        return row_uniforms(outputs, rows, key)
    return None


def score_tensor(
    outputs: Any,
    scores: ScoreLike | Sequence[ScoreLike] = ("thr", "aps", "rank"),
    *,
    kind: Form = "probs",
    u: Any = None,
    random_state: RandomState = None,
) -> FloatArray:
    """Return the scores of every label: array of shape (n, K, d), higher fits better.

    Parameters
    ----------
    outputs : array or tensor of shape (n, K), `TopK`, or a mapping or sequence of such
        Probabilities or logits of one or several models.
    scores : sequence of names, `Score` objects or functions
        ``"paper"`` is thr, aps and rank. With several models every score is computed for every
        model, model by model;
        ``"vgg16.thr"`` asks for one model only.
    kind : {"probs", "logits", "logprobs", "shares", "binary"}
        What `outputs` holds.
    u : array of shape (n,), optional
        The numbers in [0, 1] used by randomised scores, one per row. By default they are a
        keyed hash of the rows, and `random_state` draws the key.
    random_state : int, Generator or None
        See `u`.

    Returns
    -------
    float64 array of shape (n, K, d)
        One plane per score; a tensor on the same device where `outputs` is a tensor.

    Examples
    --------
    >>> score_tensor([[0.2, 0.5, 0.3]], ("thr", "rank"))
    array([[[0.2, 0. ],
            [0.5, 1. ],
            [0.3, 0.5]]])
    """
    checked = check_outputs(outputs, kind)
    columns = score_columns(tuple(checked.models), scores)
    if u is not None:
        u = check_numbers(u, "u")
        if u.shape != (checked.n,) or not ((u >= 0) & (u <= 1)).all():
            raise InvalidInput(
                f"u must hold one number in [0, 1] per row, shape ({checked.n},); got shape "
                f"{u.shape}."
            )
    tensor = fill_tensor(checked, columns, key=draw_key(as_generator(random_state)), u=u)
    return checked.to_caller(tensor)  # type: ignore[no-any-return]
