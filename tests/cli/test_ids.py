"""Ids and other columns of a file go with their rows to the sets."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cli.drawn import NAMES, draw, write_csv
from conformix.cli import main

PROBS, LABELS = draw(2, 30)
IDS = [f"0{i:03d}" for i in range(30)]
NOTES = [f'note "{i}", with a comma' for i in range(30)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, and new rows in three formats."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "calibration.csv", *draw(0, 300))
    assert main(["fit", "calibration.csv", "-o", "model.json", "--json"]) == 0
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *NAMES, "note", "weight"])
        for row, values in enumerate(PROBS.tolist()):
            writer.writerow([IDS[row], *map(repr, values), NOTES[row], row / 4])
    np.savez(tmp_path / "new.npz", forest=PROBS, id=np.array(IDS), note=np.array(NOTES))
    return tmp_path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("file", ["new.csv", "new.npz", "new.parquet"])
def test_ids_and_kept_columns_stand_beside_the_sets(folder: Path, file: str) -> None:
    if file.endswith("parquet"):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        held = {"id": IDS, "note": NOTES, "weight": [i / 4 for i in range(30)]}
        columns = {name: PROBS[:, k] for k, name in enumerate(NAMES)}
        pq.write_table(pa.table(held | columns), folder / file)
    assert main(["predict", "model.json", "new.csv", "--drop", "id,note,weight",
                 "-o", "plain.csv"]) == 0  # fmt: skip
    assert main(["predict", "model.json", file, "--id", "id", "--keep", "note",
                 "-o", "sets.csv"]) == 0  # fmt: skip
    rows, plain = table(folder / "sets.csv"), table(folder / "plain.csv")
    assert list(rows[0]) == ["id", "note", "size", "labels"]
    assert [row["id"] for row in rows] == IDS
    assert [row["note"] for row in rows] == NOTES
    assert [row["labels"] for row in rows] == [row["labels"] for row in plain]


def test_a_part_of_the_rows_keeps_its_ids_in_json_and_parquet(folder: Path, capsys) -> None:
    capsys.readouterr()
    chosen = ["predict", "model.json", "new.csv", "--id", "id", "--keep", "weight"]
    assert main([*chosen, "--drop", "note", "--part", "10:12", "-o", "-"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["id"], line["weight"]) for line in lines] == [("0010", "2.5"), ("0011", "2.75")]
    pq = pytest.importorskip("pyarrow.parquet")
    assert main([*chosen, "--layout", "long", "-o", "sets.parquet"]) == 0
    long = pq.read_table(folder / "sets.parquet").to_pydict()
    assert list(long) == ["id", "weight", "rank", "label"]
    assert set(long["id"]) <= set(IDS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--id", "ids"], "has no column to keep 'ids'; did you mean 'id'? it has"),
        (["--id", "id", "--keep", "id"], "keep must hold one value per set under names other"),
    ],
)
def test_a_column_that_cannot_be_kept_is_refused(folder: Path, capsys, options, sentence) -> None:
    capsys.readouterr()
    assert main(["predict", "model.json", "new.csv", *options, "-o", "sets.csv"]) == 2
    assert sentence in capsys.readouterr().err.replace("\n", " ")
    assert not (folder / "sets.csv").exists()
