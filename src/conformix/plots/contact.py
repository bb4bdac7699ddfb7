"""A contact sheet: every figure of a folder on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conformix.errors import InvalidInput
from conformix.plots.style import SMALL, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches between pictures, and for the name above each.
GAP, NAME = 0.15, 0.25


def contact_sheet(
    pictures: Sequence[str | Path],
    *,
    columns: int = 2,
    named_by_folder: bool = False,
    width: float = 5.0,
) -> Figure:
    """Return one figure with all pictures on one scale, each under its file name.

    Parameters
    ----------
    pictures : sequence of paths
        PNG files.
    columns : int
        Pictures per row.
    named_by_folder : bool
        Put the name of the folder before that of the file.
    width : float
        Width of the widest picture on the sheet, in inches.

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
    pixels = [imread(picture) for picture in pictures]
    scale = width / max(image.shape[1] for image in pixels)  # inches per pixel
    wide = [max(image.shape[1] for image in pixels[j::columns]) * scale for j in range(columns)]
    starts = range(0, len(pixels), columns)
    high = [max(image.shape[0] for image in pixels[i : i + columns]) * scale for i in starts]
    full = sum(wide) + GAP * (columns + 1), sum(high) + (GAP + NAME) * len(high) + GAP
    figure = new_figure(*full)
    figure.set_layout_engine("none")  # every picture has its place
    for place, (picture, image) in enumerate(zip(pictures, pixels, strict=True)):
        i, j = divmod(place, columns)
        left = GAP * (j + 1) + sum(wide[:j])
        top = full[1] - (GAP + NAME) * (i + 1) - sum(high[:i])
        size = image.shape[1] * scale, image.shape[0] * scale
        ax = figure.add_axes(
            (left / full[0], (top - size[1]) / full[1], size[0] / full[0], size[1] / full[1])
        )
        ax.imshow(image, aspect="auto")
        ax.axis("off")
        path = Path(picture)
        name = f"{path.parent.name}, {path.stem}" if named_by_folder else path.stem
        ax.set_title(plain(name, 60), fontsize=SMALL, loc="left", pad=3, weight="bold")
    return figure
