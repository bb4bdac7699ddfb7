"""The paper's evaluation as one call: run what is missing, then write tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformix.experiments.paper import (
    Product,
    Setup,
    fig2,
    fig2_specs,
    fig3,
    fig3_specs,
    models,
    models_specs,
    ratios,
    ratios_specs,
    table1,
    table1_specs,
)
from conformix.experiments.runner import Progress, run
from conformix.experiments.spec import Spec
from conformix.experiments.statistics import Results, check_spread
from conformix.fit.saved.files import write
from conformix.plots import contact_sheet, save_figure
from conformix.registry import Registry, unknown_name


@dataclass(frozen=True)
class Experiment:
    """Which cases an experiment needs, and what it makes of their rows."""

    specs: Callable[[Setup], list[Spec]]
    product: Callable[[Setup, list[Results]], Product]


EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "table1": Experiment(table1_specs, table1),
        "fig2": Experiment(fig2_specs, fig2),
        "fig3": Experiment(fig3_specs, fig3),
        "ratios": Experiment(ratios_specs, ratios),
        "models": Experiment(models_specs, models),
    },
)
SCORE_EXPERIMENTS = ("table1", "fig2", "fig3", "ratios")
# Trained for the model experiment; other bundled sets hold a bad expert on purpose, or one model.
MODEL_DATA = ("cifar10_trio", "tinyimagenet_trio")


def resolve_experiments(name: str, data: str) -> list[str]:
    """Return the experiments that a name stands for.

    ``all`` is every experiment that the paper makes on such a data set: model weighting on the
    sets of three models trained for it, the score experiments on the others.

    Examples
    --------
    >>> resolve_experiments("all", "cifar100")
    ['table1', 'fig2', 'fig3', 'ratios']
    >>> resolve_experiments("all", "cifar10_trio")
    ['models']
    """
    if name in EXPERIMENTS:
        return [name]
    if name != "all":
        raise unknown_name("experiment", name, ["all", *EXPERIMENTS])
    return ["models"] if data in MODEL_DATA else list(SCORE_EXPERIMENTS)


def reproduce(
    names: Sequence[str],
    setup: Setup,
    folder: str | Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Product]:
    """Run experiments of the paper and write what they give into a folder.

    Parameters
    ----------
    names : sequence of str
        ``table1``, ``fig2``, ``fig3``, ``ratios``, ``models``.
    setup : Setup
        Data set, number of splits and the rest.
    folder : path
        Gets ``rows.jsonl`` (a killed run goes on from there), tables as txt, md and tex,
        findings as md, figures as png and pdf, and a contact sheet.
    workers, progress
        As in `conformix.experiments.run`.

    Examples
    --------
    >>> import tempfile
    >>> setup = Setup("mmlu_llama13b", runs=2, rows=300, resolution=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = reproduce(["fig3"], setup, folder, workers=1)
    ...     sorted(path.name for path in Path(folder).iterdir())[:4]
    ['contact.png', 'fig3.md', 'fig3.pdf', 'fig3.png']
    >>> made["fig3"].table.header[0]
    'method'
    """
    check_spread(setup.runs)
    target = Path(folder)
    path = target / "rows.jsonl"
    specs = {name: EXPERIMENTS[name].specs(setup) for name in names}
    # All at once: cases that experiments share run once, under one bar.
    run(
        [spec for some in specs.values() for spec in some], path, workers=workers, progress=progress
    )
    made = {}
    for name, some in specs.items():
        results = [Results(run(spec, path, workers=1)) for spec in some]
        made[name] = EXPERIMENTS[name].product(setup, results)
        _write(name, made[name], target)
    pictures = [target / f"{figure}.png" for product in made.values() for figure in product.figures]
    if pictures:
        save_figure(contact_sheet(pictures), target, "contact", formats=("png",))
    return made


def _write(name: str, product: Product, folder: Path) -> None:
    texts = {}
    if product.table is not None:
        texts["txt"] = product.table.text()
        texts["md"] = product.table.markdown()
        texts["tex"] = product.table.latex()
    if product.findings:
        texts["findings.md"] = "\n".join(f"- {line}" for line in product.findings)
    for suffix, text in texts.items():
        write(folder / f"{name}.{suffix}", (text + "\n").encode())
    for figure, drawn in product.figures.items():
        save_figure(drawn, folder, figure)
