from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest

import conformix as cx
from conformix.experiments import Setup, read_rows, reproduce, resolve_experiments
from conformix.experiments.paper import TABLE1
from conformix.plots import contact_sheet, new_figure, plot_boxes, plot_size_coverage, save_figure

SMALL = {"runs": 2, "rows": 500, "resolution": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("paper")
    names = resolve_experiments("all", "cifar100")
    reproduce(names, Setup("cifar100", **SMALL), target, workers=1)
    return target


def test_all_writes_rows_tables_findings_figures_and_a_contact_sheet(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "contact.png", "fig2.pdf", "fig2.png", "fig3.md", "fig3.pdf", "fig3.png",
        "fig3.tex", "fig3.txt", "ratios.findings.md", "ratios.md", "ratios.pdf", "ratios.png",
        "ratios.tex", "ratios.txt", "rows.jsonl", "table1.findings.md", "table1.md", "table1.tex",
        "table1.txt",
    ]  # fmt: skip


def test_cases_that_experiments_share_are_run_once(folder: Path) -> None:
    keys = [row["key"] for row in read_rows(folder / "rows.jsonl")]
    assert len(keys) == len(set(keys))


def test_table_1_holds_the_nine_methods_of_the_paper_beside_its_numbers(folder: Path) -> None:
    lines = (folder / "table1.md").read_text().splitlines()
    named = [line.split("|")[1].strip() for line in lines[2:11]]
    assert named == ["VFCP", "EFCP", "DLCP", "DLCP+", "APS", "THR", "RANK", "RAPS", "SAPS"]
    assert "13.78 (1.11)" in lines[2]
    assert "25.10 (2.30)" in lines[10]
    assert {len(methods) for methods in TABLE1.values()} == {9}


def test_findings_are_sentences(folder: Path) -> None:
    for line in (folder / "table1.findings.md").read_text().splitlines():
        assert line.startswith("- alpha = 0.0")
        assert line.endswith(".")


def test_a_second_call_changes_no_byte(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    reproduce(resolve_experiments("all", "cifar100"), Setup("cifar100", **SMALL), folder, workers=1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_another_data_set_has_no_numbers_of_the_paper(tmp_path: Path) -> None:
    made = reproduce(["table1"], Setup("cifar10", **SMALL), tmp_path, workers=1)
    assert not any(name.startswith("paper") for name in made["table1"].table.header)


def test_model_weighting_sets_the_weighted_models_beside_each_and_the_ensembles(
    tmp_path: Path,
) -> None:
    setup = Setup("cifar10_trio", runs=2, rows=300, resolution=3)
    made = reproduce(resolve_experiments("all", "cifar10_trio"), setup, tmp_path, workers=1)
    table = made["models"].table
    assert table.header[:6] == (
        "score", "alpha", "weighted", "resnet56", "shufflenetv2_x1_0", "vgg16_bn",
    )  # fmt: skip
    assert [row[0] for row in table.rows if row] == [
        score for score in ("THR", "APS", "RAPS", "SAPS") for _ in range(5)
    ]
    assert made["models"].findings[0].startswith("Sets of the weighted models are larger than")


def test_weighting_models_needs_several(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "one.npz", labels=[0, 1], one=np.full((2, 2), 0.5))
    with pytest.raises(cx.InvalidInput, match="weighting models needs at least two"):
        reproduce(["models"], Setup(str(tmp_path / "one.npz")), tmp_path)


def test_an_unknown_experiment_gets_help() -> None:
    with pytest.raises(cx.InvalidInput, match=r"unknown experiment 'fig1'; .* known: all, fig2"):
        resolve_experiments("fig1", "cifar100")


def test_figures_touch_no_global_setting(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    figure = new_figure()
    plot_boxes({"a": [1.0, 2.0], "b": [2.0, 4.0]}, target=1.5, ax=figure.add_subplot(1, 2, 1))
    curves = {"ours": ([0.9, 0.95], [1.0, 9.0]), "other": ([0.9, 0.95], [2.0, 12.0])}
    ax = plot_size_coverage(curves, dashed=["other"], ax=figure.add_subplot(1, 2, 2))
    assert ax.get_yscale() == "log"
    png, pdf = save_figure(figure, tmp_path / "new", "both")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert len(contact_sheet([png, png, png]).axes) == 3
    assert dict(mpl.rcParams) == before


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    def draw(name: str) -> list[bytes]:
        ax = plot_boxes({"a": [1.0, 2.0], "b": [2.0, 4.0]})
        return [path.read_bytes() for path in save_figure(ax.figure, tmp_path / name, "boxes")]

    assert draw("one") == draw("two")
