"""Two splitting ratios: 80:20 and 99:1, the supplement of the paper."""

from __future__ import annotations

from conformix.experiments.paper.setup import SPLITS, Product, Setup, label
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import Results, told
from conformix.plots import new_figure, plot_boxes
from conformix.tables import Table

RATIOS = ((0.8, "80:20"), (0.99, "99:1"))
ALPHA = 0.05


def ratios_specs(setup: Setup) -> list[Spec]:
    """Return the four splits at two ratios of calibration to test rows."""
    return [setup.spec(SPLITS, (ALPHA,), share=share) for share, _ in RATIOS]


def ratios(setup: Setup, results: list[Results]) -> Product:
    """Return box plots and a table of the four splits at both ratios."""
    figure = new_figure(6.8, 4.8)
    rows: list[tuple[str, ...]] = []
    findings = []
    for place, ((_, ratio), found) in enumerate(zip(RATIOS, results, strict=True)):
        for side, (field, target) in enumerate((("coverage", 1 - ALPHA), ("size", None))):
            values = {label(m): found.values(m, alpha=ALPHA, field=field) for m in SPLITS}
            ax = figure.add_subplot(2, 2, 2 * place + side + 1)
            name = field if field == "coverage" else "mean set size"
            plot_boxes(values, ylabel=name, title=ratio, target=target, ours=4, ax=ax)
        rows += [()] if rows else []
        rows += [_row(found, method, ratio) for method in SPLITS]
        least = found.smallest(SPLITS, alpha=ALPHA)
        saving = found.saving(least, SPLITS[0], alpha=ALPHA, comparisons=2)
        findings.append(
            f"{ratio}: the smallest sets are those of {label(least)}, {told(saving)} "
            "than those of VFCP."
        )
    figure.suptitle(f"{setup.title}, alpha = {ALPHA:g}, {setup.runs} splits", fontsize=9)
    table = Table(
        f"Splits at two ratios of calibration to test rows, {setup.title}, alpha = {ALPHA:g}",
        ("split", "ratio", "coverage", "size", "guarantee"),
        tuple(rows),
        (f"Mean (standard deviation) over {setup.runs} random splits of the same rows.",),
    )
    return Product(table, {"ratios": figure}, tuple(findings))


def _row(found: Results, method: str, ratio: str) -> tuple[str, ...]:
    coverage = found.estimate(method, alpha=ALPHA, field="coverage")
    size = found.estimate(method, alpha=ALPHA)
    return (
        label(method),
        ratio,
        f"{coverage.mean:.3f} ({coverage.sd:.3f})",
        f"{size.mean:.2f} ({size.sd:.2f})",
        found.guarantee(method, ALPHA),
    )
