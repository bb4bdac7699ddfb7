"""What users bring, in every format, comes out as the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformix import InvalidInput
from conformix.data.files import READERS, Choice, Limits, Sources, read_contents

PROBS = np.array([[0.75, 0.25, 0.0], [0.125, 0.5, 0.375], [0.25, 0.25, 0.5]])
NAMES = ("cat", "dog", "emu")
LABELS = ("cat", "emu", "dog")


def as_csv(header: str = "cat,dog,emu,label", labels: Any = LABELS, comma: str = ",") -> str:
    lines = [
        header,
        *(f"{comma.join(map(str, p))}{comma}{y}" for p, y in zip(PROBS, labels, strict=True)),
    ]
    return "\n".join(lines).replace(",", comma) + "\n"


def write_all(folder: Path) -> dict[str, Path]:
    """The same three rows in every format, labels by index where a format has no names."""
    import pandas as pd

    files = {ending: folder / f"rows{ending}" for ending in (".csv", ".tsv", ".npz", ".parquet")}
    files[".csv"].write_text(as_csv())
    files[".tsv"].write_text(as_csv().replace(",", "\t"))
    np.savez(files[".npz"], labels=np.array(LABELS), class_names=np.array(NAMES), model=PROBS)
    frame = pd.DataFrame(PROBS, columns=list(NAMES))
    frame.assign(label=list(LABELS)).to_parquet(files[".parquet"], index=False)
    return files


def test_every_format_gives_the_same_outputs_labels_and_classes(tmp_path: Path) -> None:
    for file in write_all(tmp_path).values():
        batch = Sources(str(file)).read(labelled=True)
        (values,) = batch.outputs.values()
        np.testing.assert_array_equal(values, PROBS)
        assert batch.labels is not None
        assert batch.labels.tolist() == [0, 2, 1]
        assert batch.classes == NAMES
        assert batch.kind == "probs"


def test_an_npy_of_outputs_takes_its_labels_from_a_file_of_their_own(tmp_path: Path) -> None:
    np.save(tmp_path / "outputs.npy", np.asfortranarray(PROBS).astype(">f4"))
    np.save(tmp_path / "y.npy", np.array([0, 2, 1]))
    (tmp_path / "y.csv").write_text("truth\n0\n2\n1\n")
    for labels, choice in (("y.npy", Choice()), ("y.csv", Choice("truth"))):
        batch = Sources(
            str(tmp_path / "outputs.npy"), labels=str(tmp_path / labels), choice=choice
        ).read(labelled=True)
        np.testing.assert_array_equal(batch.outputs[""], PROBS)
        assert batch.labels is not None
        assert batch.labels.tolist() == [0, 2, 1]


def test_a_pt_of_tensors_is_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {
        "labels": torch.tensor([0, 2, 1]),
        "half": torch.tensor(PROBS, dtype=torch.bfloat16),
        "full": torch.tensor(PROBS),
    }
    torch.save(tensors, tmp_path / "rows.pt")
    batch = Sources(str(tmp_path / "rows.pt")).read(labelled=True)
    np.testing.assert_array_equal(batch.outputs["full"], PROBS)
    np.testing.assert_array_equal(batch.outputs["half"], PROBS)
    torch.save(torch.tensor(PROBS), tmp_path / "one.pt")
    np.testing.assert_array_equal(read_contents(tmp_path / "one.pt").models[""], PROBS)


def test_several_files_are_several_models_in_the_class_order_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(as_csv())
    turned = "emu,cat,dog,label\n" + "".join(
        f"{p[2]},{p[0]},{p[1]},{y}\n" for p, y in zip(PROBS, LABELS, strict=True)
    )
    (tmp_path / "b.csv").write_text(turned)
    files = {"a": str(tmp_path / "a.csv"), "b": str(tmp_path / "b.csv")}
    batch = Sources(models=files).read(labelled=True)
    np.testing.assert_array_equal(batch.outputs["b"], batch.outputs["a"])
    for right in set(LABELS):
        for wrong in {*NAMES, "fox"} - {right}:  # a label of other rows, or one of no row
            (tmp_path / "b.csv").write_text(turned.replace(f",{right}\n", f",{wrong}\n"))
            with pytest.raises(InvalidInput, match="have different labels; their rows must be the"):
                Sources(models=files).read(labelled=True)


def test_arrays_with_class_names_come_in_the_class_order_of_the_first(tmp_path: Path) -> None:
    named = {"a": (["cat", "dog", "emu"], PROBS), "b": (["emu", "cat", "dog"], PROBS[:, [2, 0, 1]])}
    files = {}
    for name, (classes, outputs) in named.items():
        files[name] = str(tmp_path / f"{name}.npz")
        np.savez(files[name], model=outputs, class_names=classes)
    batch = Sources(models=files).read(labelled=False)
    np.testing.assert_array_equal(batch.outputs["b"], batch.outputs["a"])
    assert batch.classes == ("cat", "dog", "emu")


def test_columns_are_taken_by_the_names_of_the_fitted_classes(tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("id,dog,cat\nx17,0.25,0.75\n")
    batch = Sources(str(file), choice=Choice(classes=("cat", "dog"))).read(labelled=False)
    np.testing.assert_array_equal(batch.outputs[""], [[0.75, 0.25]])
    with pytest.raises(InvalidInput) as caught:
        Sources(str(file), choice=Choice(classes=("cat", "emu"))).read(labelled=False)
    assert str(caught.value) == (
        f"{file} lacks columns of the fitted classes: 'emu'; it has 'id', 'dog', 'cat'."
    )


@pytest.mark.parametrize(
    ("header", "labels", "found"),
    [
        ("cat,dog,emu,label", (0, 2, 1), [0, 2, 1]),  # integers beside names of text are indices
        ("cat,dog,emu,label", ("0.0", "2.0", "1.0"), [0, 2, 1]),  # as pandas writes them
        ("7,5,3,label", (7, 3, 5), [0, 2, 1]),  # integer names are names
        ("2,0,1,label", (2, 1, 0), [0, 2, 1]),
    ],
)
def test_labels_are_names_or_indices_by_what_the_classes_are_called(
    header: str, labels: Any, found: list[int], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(as_csv(header, labels))
    batch = Sources(str(tmp_path / "a.csv")).read(labelled=True)
    assert batch.labels is not None
    assert batch.labels.tolist() == found


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + as_csv(),
        as_csv().replace("\n", "\r\n"),
        as_csv().replace("\n", "\n\n"),
        as_csv()[:-1],
        as_csv().replace("cat", '"cat"').replace("0.75", ' "0.75"'.strip()),
        as_csv().replace(",", ";"),
        as_csv().replace("0.125", " 1.25e-1 "),
    ],
    ids=["mark", "windows", "blank lines", "no last line end", "quotes", "semicolons", "spaces"],
)
def test_csv_comes_in_dialects(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    batch = Sources(str(tmp_path / "a.csv")).read(labelled=True)
    np.testing.assert_array_equal(batch.outputs[""], PROBS)
    assert batch.labels is not None
    assert batch.labels.tolist() == [0, 2, 1]
    assert batch.classes == NAMES


def test_numbers_of_a_csv_are_those_that_python_reads(tmp_path: Path) -> None:
    values = np.random.default_rng(0).dirichlet(np.ones(4), size=50)
    lines = ["a,b,c,d", *(",".join(map(repr, row)) for row in values.tolist())]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    np.testing.assert_array_equal(read_contents(tmp_path / "a.csv").models[""], values)


def test_long_csv_files_are_read_in_pieces_without_a_seam(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conformix.data.files import delimited

    monkeypatch.setattr(delimited, "CHUNK", 64)
    rows = [f"{i},{i + 0.5},c{i % 7}" for i in range(200)]
    (tmp_path / "a.csv").write_text("x,y0,label\n" + "\n".join(rows))
    found = read_contents(tmp_path / "a.csv")
    np.testing.assert_array_equal(found.models[""][:, 0], np.arange(200))
    assert found.labels.tolist() == [f"c{i % 7}" for i in range(200)]


def test_some_rows_can_be_taken(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(as_csv())
    batch = Sources(str(tmp_path / "a.csv"), part="1:").read(labelled=True)
    np.testing.assert_array_equal(batch.outputs[""], PROBS[1:])
    assert batch.labels is not None
    assert batch.labels.tolist() == [2, 1]
    for part in ("3:", "2:1", "a", "-1:"):
        with pytest.raises(InvalidInput, match="part"):
            Sources(str(tmp_path / "a.csv"), part=part).read(labelled=True)


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(as_csv())
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    assert read_contents(tmp_path / "link.csv").classes == NAMES


def test_all_files_together_stay_within_the_memory_that_is_allowed(tmp_path: Path) -> None:
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.zeros((1000, 10)))
    files = {name: str(tmp_path / f"{name}.npy") for name in "ab"}
    assert Sources(models=files, limits=Limits(160_000)).read(labelled=False).n == 1000
    with pytest.raises(InvalidInput, match=r"asks for 78\.1 KiB of memory .* say --max-memory\."):
        Sources(models=files, limits=Limits(159_000)).read(labelled=False)


def test_every_ending_has_a_reader_and_others_are_refused() -> None:
    assert set(READERS) == {".csv", ".tsv", ".npy", ".npz", ".parquet", ".pt", ".pth"}
    with pytest.raises(InvalidInput, match=r"a\.pkl has the ending '\.pkl'; files end in \.csv"):
        read_contents("a.pkl")


def test_rounded_probabilities_are_not_taken_for_logits(tmp_path: Path) -> None:
    from conformix.data.files import guess_kind

    assert guess_kind({"": np.array([[0.333, 0.333, 0.333]])}) == "probs"
    file = tmp_path / "a.csv"
    file.write_text("a,b,c\n0.33,0.33,0.33\n0.5,0.25,0.25\n")
    with pytest.raises(InvalidInput, match=r"rounded too much: line 2 sums to 0\.99; write them"):
        Sources(str(file)).read(labelled=False)
    file.write_text("a,b,c\n0.33,0.33,0.34\n0.5,0.25,0.25\n")
    assert Sources(str(file)).read(labelled=False).kind == "probs"
    assert guess_kind({"": np.array([[0.5, 0.5]]), "b": np.array([[0.5, 1.5]])}) == "logits"


def test_names_that_only_python_reads_as_numbers_are_names(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1_0,2_0,label\n0.9,0.1,1_0\n0.2,0.8,2_0\n", encoding="utf-8")
    batch = Sources(path).read(labelled=True)
    assert list(batch.classes) == ["1_0", "2_0"]
