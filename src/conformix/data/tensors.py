"""From a PyTorch model and its data to outputs and labels: what `fit` wants to see.

Tensors themselves need no door of their own: `ScoreAverage`, `score_tensor` and the searches take
them where they take arrays, and answer with tensors on the same device. PyTorch is imported when
`collect_outputs` is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

from conformix.errors import InvalidInput
from conformix.kernels.arrays import is_tensor, torch_module

__all__ = ["collect_outputs"]

# What the labels are called in batches that are mappings, by custom of data sets and tokenizers.
LABEL_KEYS = ("labels", "label", "y", "target", "targets")


def collect_outputs(
    model: Any,
    loader: Iterable[Any],
    *,
    device: Any = None,
    to: Any = "cpu",
    labels: str | None = None,
    progress: bool | None = None,
) -> tuple[Any, Any]:
    """Return the outputs of a model, or of several, on all batches of a loader, and the labels.

    Models are put into evaluation mode and back, gradients are off, and batches are moved to the
    device of the model. Beyond the result, which is allocated once where the loader knows its
    length, one batch is held.

    Parameters
    ----------
    model : callable, or mapping of str to callable
        A `torch.nn.Module` or any function of a batch. It returns a tensor of shape (b, K), or an
        object or mapping with ``logits``, or a tuple that begins with such.
    loader : iterable of batches
        Usually a `DataLoader`. A batch is ``(x, y)``, or ``(x1, x2, ..., y)``, or a mapping that
        holds the labels and is otherwise passed to the model by name.
    device : torch.device or str, optional
        Where batches go; by default the device of the first parameter of the (first) model.
    to : torch.device, str or None
        Where outputs and labels are collected; the host by default. None leaves them where the
        model put them.
    labels : str, optional
        Key of the labels in batches that are mappings; by default the first of ``labels, label,
        y, target, targets`` that is there.
    progress : bool, optional
        Whether to draw a progress bar on the error stream; by default where that is a terminal.

    Returns
    -------
    outputs : tensor of shape (n, K), or dict of such by model
    y : int64 tensor of shape (n,)

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(torch.eye(4), torch.arange(4) % 3)
    >>> logits, y = collect_outputs(torch.nn.Linear(4, 3), DataLoader(data, batch_size=3))
    >>> logits.shape, y
    (torch.Size([4, 3]), tensor([0, 1, 2, 0]))
    """
    import torch  # noqa: PLC0415  an extra, loaded where it is used

    models = dict(model) if isinstance(model, Mapping) else {"": model}
    if not models:
        raise InvalidInput("model is an empty mapping; give at least one model.")
    where = _device_of(models) if device is None else torch.device(device)
    shelves: dict[str, Shelf] = {name: Shelf(to) for name in models}
    answers = Shelf(to)
    total = _length(loader)
    with torch.no_grad(), evaluating(models.values()):
        for batch in shown(loader, progress=progress):
            inputs, named, y = _unpack(batch, labels, where)
            for name, part in models.items():
                rows = _logits_of(part(*inputs, **named))
                if len(rows) != len(y):
                    raise InvalidInput(
                        f"the model must return one row per label; got {len(rows)} rows for "
                        f"{len(y)} labels."
                    )
                shelves[name].put(rows, total)
            answers.put(y, total)
    if not answers.n:
        raise InvalidInput("loader gave no batches; there is nothing to collect.")
    outputs = {name: shelf.whole() for name, shelf in shelves.items()}
    return (outputs if isinstance(model, Mapping) else outputs[""]), answers.whole()


class Shelf:
    """Rows collected batch by batch: into one tensor where their number is known beforehand."""

    def __init__(self, to: Any) -> None:
        self.to = to
        self.n = 0
        self.room: Any = None
        self.batches: list[Any] = []

    def put(self, rows: Any, total: int | None) -> None:
        """Add rows (b, ...)."""
        home = rows.device if self.to is None else self.to
        stop = self.n + len(rows)
        if total is not None and stop <= total:
            if self.room is None:
                self.room = rows.new_empty((total, *rows.shape[1:]), device=home)
            if rows.shape[1:] != self.room.shape[1:]:
                raise InvalidInput(
                    f"all batches must have the same number of classes; got {rows.shape[1]} after "
                    f"{self.room.shape[1]}."
                )
            self.room[self.n : stop] = rows
        else:
            # A copy: a view would keep the whole batch of the model alive.
            self.batches.append(rows.to(home, copy=True))
        self.n = stop

    def whole(self) -> Any:
        """Return all rows as one tensor."""
        filled = self.n - sum(len(batch) for batch in self.batches)
        front = [] if self.room is None else [self.room[:filled]]
        tensors = [*front, *self.batches]
        return tensors[0] if len(tensors) == 1 else torch_module().cat(tensors)


@contextmanager
def evaluating(models: Iterable[Any]) -> Iterator[None]:
    """Put modules into evaluation mode, every submodule back into its own mode afterwards."""
    modes = [
        (module, module.training)
        for model in models
        if hasattr(model, "modules")
        for module in model.modules()
    ]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def shown(batches: Iterable[Any], *, progress: bool | None) -> Iterable[Any]:
    """Return the batches, with a progress bar on the error stream where one is wanted."""
    wanted = sys.stderr.isatty() if progress is None else progress
    if not wanted:
        return batches
    try:
        from rich.console import Console  # noqa: PLC0415  an extra
        from rich.progress import track  # noqa: PLC0415
    except ImportError:
        return batches
    total = len(batches) if isinstance(batches, Sized) else None
    return track(batches, "collecting outputs", total=total, console=Console(stderr=True))


def _length(loader: Any) -> int | None:
    """Return how many rows a DataLoader will give at most, where it knows."""
    dataset = getattr(loader, "dataset", None)
    known = hasattr(dataset, "__len__") and getattr(loader, "batch_size", None)
    sampler = getattr(loader, "sampler", None)
    if not known or not hasattr(sampler, "__len__"):
        return None
    return len(sampler)  # type: ignore[arg-type]


def _device_of(models: Mapping[str, Any]) -> Any:
    for model in models.values():
        if hasattr(model, "parameters"):
            for parameter in model.parameters():
                return parameter.device
    return None


def _unpack(batch: Any, key: str | None, where: Any) -> tuple[list[Any], dict[str, Any], Any]:
    """Return what the model gets by position and by name, and the labels of the batch."""
    torch = torch_module()
    if isinstance(batch, Mapping):
        known = [key] if key is not None else [name for name in LABEL_KEYS if name in batch]
        if not known or known[0] not in batch:
            raise InvalidInput(
                f"a batch must hold the labels under one of {', '.join(LABEL_KEYS)}, or say "
                f"labels=...; got the keys {sorted(batch)}."
            )
        named = {str(k): _moved(v, where) for k, v in batch.items() if k != known[0]}
        inputs, y = [], batch[known[0]]
    elif isinstance(batch, tuple | list) and len(batch) > 1:
        inputs, named, y = [_moved(part, where) for part in batch[:-1]], {}, batch[-1]
    else:
        raise InvalidInput(
            "a batch must be (inputs, labels) or a mapping with labels; got "
            f"{type(batch).__name__}."
        )
    answers = torch.as_tensor(y)
    if answers.ndim != 1 or answers.is_floating_point() or answers.is_complex():
        raise InvalidInput(
            "labels of a batch must be integer class indices of shape (b,); got "
            f"{answers.dtype} of shape {tuple(answers.shape)}."
        )
    return inputs, named, answers.long()


def _moved(value: Any, where: Any) -> Any:
    return value.to(where) if where is not None and hasattr(value, "to") else value


def _logits_of(answer: Any) -> Any:
    """Return the (b, K) tensor in what a model returned."""
    if hasattr(answer, "logits"):
        answer = answer.logits
    elif isinstance(answer, Mapping) and "logits" in answer:
        answer = answer["logits"]
    elif isinstance(answer, tuple | list) and answer:
        answer = answer[0]
    if not is_tensor(answer) or answer.ndim != 2:
        got = tuple(answer.shape) if is_tensor(answer) else type(answer).__name__
        raise InvalidInput(
            f"the model must return a (b, K) tensor, or an object with .logits; got {got}."
        )
    return answer
