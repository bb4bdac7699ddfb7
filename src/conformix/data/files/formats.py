"""Which reader a file gets: its ending decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from conformix.atomic import as_path
from conformix.data.files.contents import Choice, Contents
from conformix.data.files.delimited import read_delimited
from conformix.data.files.limits import Limits
from conformix.data.files.npy import read_npy, read_npz
from conformix.data.files.opening import opened
from conformix.data.files.parquet import read_parquet
from conformix.data.files.pt import read_pt
from conformix.errors import InvalidInput

Reader = Callable[[BinaryIO, Path, Limits, Choice], Contents]

READERS: dict[str, Reader] = {
    ".csv": read_delimited,
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".pt": read_pt,
    ".pth": read_pt,
    ".tsv": read_delimited,
}


def read_contents(
    path: str | Path, *, limits: Limits | None = None, choice: Choice | None = None
) -> Contents:
    r"""Return what a file holds: models, labels, class names.

    Parameters
    ----------
    path : path
        A file that ends in .csv, .tsv, .npy, .npz, .parquet, .pt or .pth.
    limits : Limits, optional
        How much it may ask for.
    choice : Choice, optional
        What to take from it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "a.csv"
    ...     _ = file.write_text("cat,dog,label\n0.9,0.1,cat\n0.3,0.7,dog\n")
    ...     found = read_contents(file)
    >>> found.models[""].shape, found.classes, found.labels.tolist()
    ((2, 2), ('cat', 'dog'), ['cat', 'dog'])
    """
    source = as_path(path)
    reader = READERS.get(source.suffix.lower())
    if reader is None:
        raise InvalidInput(
            f"{source} has the ending {source.suffix!r}; files end in {', '.join(READERS)}."
        )
    with opened(source) as file:
        return reader(file, source, limits or Limits(), choice or Choice())
