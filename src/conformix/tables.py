"""A table of texts, and its three forms: plain text, Markdown and LaTeX."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells that are already text.

    Parameters
    ----------
    title : str
        What the table shows.
    header : tuple of str
        Names of the columns.
    rows : tuple of tuples of str
        The cells; an empty row is a rule between two blocks.
    notes : tuple of str
        Sentences below the table.

    Examples
    --------
    >>> table = Table("Sizes", ("method", "size"), (("thr", "4.58"), (), ("average", "4.01")))
    >>> print(table.text())
    Sizes
    <BLANKLINE>
    method   size
    -------------
    thr      4.58
    -------------
    average  4.01
    >>> print(table.markdown())
    | method | size |
    |:--|--:|
    | thr | 4.58 |
    | average | 4.01 |
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[str, ...]:
        """On which side cells stand: names and words left, numbers right."""
        columns = zip(*(row for row in self.rows if row), strict=True)
        sides = ["right" if all(map(_is_number, column)) else "left" for column in columns]
        return tuple(sides) or ("left",) * len(self.header)

    def text(self) -> str:
        """Return the table for a terminal or a text file."""
        lines = [self.header, *(row for row in self.rows if row)]
        widths = [max(len(line[j]) for line in lines) for j in range(len(self.header))]

        sides = self.sides

        def line(cells: tuple[str, ...]) -> str:
            columns = zip(cells, widths, sides, strict=True)
            return "  ".join(
                cell.ljust(width) if side == "left" else cell.rjust(width)
                for cell, width, side in columns
            ).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        body = [line(row) if row else rule for row in self.rows]
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([self.title, "", line(self.header), rule, *body, *notes])

    def markdown(self) -> str:
        """Return the table for a page; the title is left to the page."""
        rules = "|:--|" + "--:|" * (len(self.header) - 1)
        cells = [self.header, *(row for row in self.rows if row)]
        lines = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells
        ]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([lines[0], rules, *lines[1:], *notes])

    def latex(self) -> str:
        """Return the table for a paper that uses booktabs."""
        width = len(self.header)
        body = [_latex_line(row) if row else r"\midrule" for row in self.rows]
        lines = [
            r"\begin{table}[t]",
            r"\centering",
            rf"\begin{{tabular}}{{l{'c' * (width - 1)}}}",
            r"\toprule",
            _latex_line(self.header),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex(' '.join([self.title + '.', *self.notes]))}}}",
            r"\end{table}",
        ]
        return "\n".join(lines)


def _is_number(cell: str) -> bool:
    """Whether a cell begins as a number does; a cell without one (-) may stand among them."""
    return not cell or cell[0] in "-+.0123456789"


_LATEX = {"%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "$": r"\$"}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex_line(cells: tuple[str, ...]) -> str:
    return " & ".join(_latex(cell) for cell in cells) + r" \\"
