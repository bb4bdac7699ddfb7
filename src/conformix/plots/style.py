"""The look of the figures: set on every artist, never on matplotlib itself."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformix.fit.saved.files import write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that colour-blind readers tell apart (Okabe & Ito, 2008); the first is ours.
PALETTE = (
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000",
    "#8c6d31", "#5b3a8c",
)  # fmt: skip
# A second difference beside colour, for print in black and white.
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "++++", "oooo", "||||", "----", "**")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
INK, PALE = "#1a1a1a", "#6f6f6f"
SMALL, NORMAL = 7.5, 8.5


def new_figure(width: float = 6.8, height: float = 2.8) -> Figure:
    """Return an empty figure of a paper's width, in inches; no window and no global state.

    Examples
    --------
    >>> new_figure().get_size_inches().tolist()
    [6.8, 2.8]
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it is used
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    padded = ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.05)
    return Figure(figsize=(width, height), layout=padded)


def tidy(ax: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "") -> Axes:
    """Give axes the look of the house: thin lines, small text, a pale grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set(linewidth=0.7, color=INK)
    ax.tick_params(labelsize=SMALL, width=0.7, length=3, colors=INK)
    ax.grid(visible=True, color="#d9d9d9", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.set_title(title, fontsize=NORMAL, color=INK, pad=4)
    ax.set_xlabel(xlabel, fontsize=NORMAL, color=INK)
    ax.set_ylabel(ylabel, fontsize=NORMAL, color=INK)
    return ax


def axes_for(ax: Axes | None, width: float = 3.6, height: float = 2.8) -> Axes:
    """Return the given axes, or those of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def plain(text: object, limit: int = 32) -> str:
    """Return a name as matplotlib must be given it to show it letter by letter, on one line.

    Dollar signs would start a formula; long names end in an ellipsis.
    """
    line = " ".join(str(text).split())
    line = line if len(line) <= limit else line[: limit - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    return line.replace("$", r"\$")


def explain_with(ax: Axes, handles: Sequence[Any], names: Sequence[str], **options: Any) -> Any:
    """Add a legend that shows every name, also one that begins with an underscore."""
    look = {"fontsize": SMALL, "frameon": False, "handlelength": 1.8, "labelspacing": 0.35}
    # Matplotlib leaves out labels that begin with an underscore: the names are put in afterwards.
    made = ax.legend(handles, [str(place) for place in range(len(names))], **(look | options))
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set(text=plain(name, 48), color=INK)
    return made


def explain_above(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], *, columns: int = 1
) -> Any:
    """Add a legend between the axes and their title, where it hides no data."""
    rows = -(-len(names) // columns)
    ax.set_title(ax.get_title(), fontsize=NORMAL, color=INK, pad=8 + 1.5 * SMALL * rows)
    return explain_with(
        ax, handles, names, loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=columns,
        columnspacing=1.2,
    )  # fmt: skip


def few_ticks(axis: Any, count: int = 6) -> None:
    """Put about six round numbers on an axis, so that they do not touch in small figures."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  an extra, loaded where it is used

    axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]))


def plain_log_axis(ax: Axes) -> None:
    """Make the vertical axis logarithmic with plain numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0), numticks=20))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def save_figure(
    figure: Figure, folder: str | Path, name: str, *, formats: Sequence[str] = ("png", "pdf")
) -> list[Path]:
    """Write a figure, as PNG and PDF by default, and return the paths.

    The files hold no date, so that the same numbers give the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figure(new_figure(), folder, "empty")]
    ['empty.png', 'empty.pdf']
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    options: dict[str, dict[str, Any]] = {
        "png": {"dpi": 200, "metadata": {"Software": None}},
        "pdf": {"metadata": {"CreationDate": None, "Producer": None}},
    }
    paths = []
    for suffix in formats:
        content = BytesIO()
        figure.savefig(content, format=suffix, **options.get(suffix, {}))
        paths.append(target / f"{name}.{suffix}")
        write(paths[-1], content.getvalue())
    return paths
