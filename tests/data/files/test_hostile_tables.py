"""Hostile and broken csv and parquet files: what is wrong, where, in little memory and time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformix.data.files import Limits
from data.files.hostile import MIB, refused

# -- csv ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b,label\n0.5,0.5,a\n".encode("utf-16"), "FILE is UTF-16 text; save it as UTF-8."),
        (
            "a,é,label\n0.5,0.5,a\n".encode("latin-1"),
            "FILE line 1 is not UTF-8 (byte 0xe9); save the file as UTF-8.",
        ),
        (
            b"a,b,label\n0.5,0.5,a\n0.5,0.5,\xff\n",
            "FILE line 3 is not UTF-8 (byte 0xff); save the file as UTF-8.",
        ),
        (b"a,b,label\n0.5,0\0.5,a\n", "FILE line 2 holds NUL bytes: it is no text, or not UTF-8."),
        (
            b"a,b,label\n0.5,0.5,a\n\n0.5,a\n",
            "FILE line 4 has 2 cells, and the header names 3 columns.",
        ),
        (
            b"a,b,label\n0.5,0.5,0,a\n",
            "FILE line 2 has 4 cells, and the header names 3 columns.",
        ),
        (
            b"a,b,label\n0.5,half,a\n",
            "FILE line 2, column 'b' holds 'half', which is no number; labels are named with "
            "--label-column, other columns are left out with --drop; conformix doctor "
            "FILE prints the right command.",
        ),
        (
            b"a,b,label\n0.5,,a\n",
            "FILE line 2, column 'b' holds no number; labels are named with --label-column, "
            "other columns are left out with --drop; conformix doctor "
            "FILE prints the right command.",
        ),
        (b"a,b,label\n0.5,0.5, \n", "FILE line 2, column 'label' holds no label."),
        (b"a,b,label\n", "FILE has a header and no rows."),
        (b"a,b,a\n1,2,3\n", "FILE has two columns 'a'; columns need names of their own."),
        (
            b"a,,label\n1,2,3\n",
            "FILE has a column without a name (column 2 of 3); name every column (pandas: "
            "to_csv(path, index=False)).",
        ),
        (
            b"0.5,0.5,0\n0.25,0.75,1\n",
            "FILE has no header: its first line holds numbers only, and must name the columns, "
            "one per class.",
        ),
        (
            b"a,b,label\r0.5,0.5,a\r",
            "FILE line 1 holds a carriage return inside; save the file with line ends of Unix or "
            "Windows.",
        ),
        (
            b"a,b,lable\n0.5,0.5,1\n",
            "FILE has no labels: none of 'labels', 'label', 'y', 'target', 'class'; name them with "
            "--label-column, or give their file with --labels; it has 'a', 'b', 'lable'.",
        ),
        (
            b"cat,dog,label\n0.5,0.5,cta\n",
            "FILE has no class for line 2, whose label is 'cta'; did you mean 'cat'? it has 'cat', "
            "'dog'.",
        ),
        (
            b"cat,dog,label\n0.5,0.5,2\n",
            "FILE: y must hold class indices 0..1; line 2 holds 2.",
        ),
        (b'a,b,label\n0.5,0.5,"a\n0.5,0.5,a\n', "FILE cannot be read near line 2; quotes must"),
        (b"a,b,label\n0.5,0.5," + b"x" * 600 + b"\n", "FILE line 2, column 'label' holds a label"),
    ],
    ids=lambda part: part[5:40] if isinstance(part, str) else "",
)  # fmt: skip
def test_what_is_wrong_with_a_csv_is_said_and_where(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert refused(tmp_path / "a.csv").startswith(sentence)


def test_a_csv_of_a_million_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n" + "0," * 999_999 + "0\n")
    assert refused(file, memory=48 * MIB, seconds=2) == (
        "FILE has 1,000,000 columns, and at most 100,000 are read; a file has one row per sample "
        "and one column per class."
    )


def test_a_csv_without_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    with file.open("wb") as stream:
        stream.truncate(2**31)  # two gibibytes that take no room on disk
    assert refused(file, memory=48 * MIB, seconds=2) == (
        "FILE line 1 is longer than 8.0 MiB; a csv file has one row per line."
    )


def test_a_csv_of_more_rows_than_memory_is_refused_before_they_are_parsed(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b",".join(b"c%d" % i for i in range(1000)) + b",label\n" + b"\n" * 1_000_000)
    assert refused(file, memory=16 * MIB, seconds=2).startswith(
        "FILE asks for 7.5 GiB of memory for 1,000,001 rows of 1,001 columns, and 4.0 GiB are"
    )


def test_a_column_of_texts_as_labels_does_not_grow_without_end(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a,label\n" + "".join(f"1,text {i}\n" for i in range(2000)))
    assert refused(file, limits=Limits(columns=1000)) == (
        "FILE holds more than 1,000 different labels; is 'label' the label column?"
    )


# -- parquet --------------------------------------------------------------------------------------


def test_what_is_wrong_with_a_parquet_is_said(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    file = tmp_path / "a.parquet"

    def said(**columns: object) -> str:
        pq.write_table(pa.table(columns), file)
        return refused(file)

    assert said(a=[[0.5], [0.5]], label=[0, 0]) == (
        "FILE column 'a' holds list<element: double>, no plain numbers; labels are named "
        "with --label-column, other columns are left out with --drop; conformix doctor "
        "FILE prints the right command."
    )
    assert said(a=[{"b": 1}], label=[0]).startswith("FILE column 'a' holds struct<b: int64>")
    assert said(a=[0.5, None], label=[0, 0]) == "FILE column 'a' has no value in row 1."
    assert said(a=[0.5], label=[1.5]) == (
        "FILE column 'label' must hold labels, integers or text; it holds double."
    )
    assert said(a=pa.array([], pa.float64()), label=pa.array([], pa.int64())) == "FILE has no rows."
    assert said(a=[0.5], label=["x" * 501]) == "FILE column 'label' holds a label that is too long."
    pq.write_table(pa.table({"a": [0.5] * 100, "label": [0] * 100}), file)
    whole = file.read_bytes()
    for length in (4, 20, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        assert refused(file).startswith("FILE is truncated or damaged (")


def test_a_parquet_of_very_many_rows_is_refused_by_its_footer(tmp_path: Path) -> None:
    """A constant column packs twenty million rows into some kilobytes."""
    code = """
import resource, sys, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from conformix import InvalidInput
from conformix.data.files import read_contents, Limits
file = sys.argv[1]
with pq.ParquetWriter(file, pa.schema([("a", pa.float32()), ("label", pa.int8())])) as out:
    part = pa.table({"a": pa.array(np.ones(10**6, np.float32)),
                     "label": pa.array(np.zeros(10**6, np.int8))})
    for _ in range(20):
        out.write_table(part)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.perf_counter()
try:
    read_contents(file, limits=Limits(memory=2**28))
except InvalidInput as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024)
print(time.perf_counter() - begun < 2)
"""
    pytest.importorskip("pyarrow")
    file = str(tmp_path / "a.parquet")
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.replace(file, "FILE").splitlines() == [
        "FILE asks for 457.8 MiB of memory for 20,000,000 rows of 2 columns, and 256.0 MiB are "
        "allowed; if the file is to be trusted, say --max-memory.",
        "True",
        "True",
    ]
