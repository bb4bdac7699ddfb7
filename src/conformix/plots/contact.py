"""A contact sheet: every figure of a folder on one page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conformix.errors import InvalidInput
from conformix.plots.style import SMALL, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def contact_sheet(
    pictures: Sequence[str | Path],
    *,
    columns: int = 2,
    named_by_folder: bool = False,
    cell: tuple[float, float] = (5.0, 2.6),
) -> Figure:
    """Return one figure with all pictures, each under its file name.

    Parameters
    ----------
    pictures : sequence of paths
        PNG files.
    columns : int
        Pictures per row.
    named_by_folder : bool
        Put the name of the folder before that of the file.
    cell : tuple of two float
        Width and height of the space for one picture, in inches.

    Examples
    --------
    >>> contact_sheet([])
    Traceback (most recent call last):
    conformix.errors.InvalidInput: a contact sheet needs at least one picture.
    """
    from matplotlib.image import imread  # noqa: PLC0415  an extra, loaded where it is used

    if not pictures:
        raise InvalidInput("a contact sheet needs at least one picture.")
    columns = min(columns, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    figure = new_figure(cell[0] * columns, cell[1] * rows)
    for place, picture in enumerate(pictures, start=1):
        ax = figure.add_subplot(rows, columns, place)
        ax.imshow(imread(picture))
        path = Path(picture)
        name = f"{path.parent.name}, {path.stem}" if named_by_folder else path.stem
        ax.set_title(plain(name, 60), fontsize=SMALL)
        ax.axis("off")
    return figure
