"""A limit is a limit: small files that ask for much get what they may take, and a sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from data.files.greedy import BEYOND, FILES, Reading, readings, written_huge_label

pytest.importorskip("pyarrow")
pytest.importorskip("torch")
if not sys.platform.startswith("linux"):
    pytest.skip("memory is measured as Linux counts it", allow_module_level=True)

TOO_MUCH = "FILE asks for .* of memory for .* are allowed; if the file is to be trusted"
SENTENCES = {
    "model, bzip2 member that lies": r"\(bzip2.json.0.npz is compressed in a way that numpy never",
    "model, deflated zeros": r"\(deflated.json.0.npz asks for 256.0 MiB of memory for its arrays",
    "model, millions of lists": "FILE asks for 2.4 GiB of memory for what it lists",
    "model, a million brackets": "FILE asks for 205.0 MiB of memory for what it lists",
    "npy of text without characters": "FILE holds <U0, neither numbers nor text; write it with",
    "npz that lies about its size": "FILE is truncated or damaged .Bad CRC-32",
    "csv, one label of 500 characters": "FILE has no class for line 1000002, whose label is 'bbbbb",
    "csv of very short lines": "read",
    "parquet, one label of 500 characters": "FILE has no class for row 5, whose label is 'bbbbb",
    "parquet, one huge label, patched footer": "FILE takes more memory to decode than the 50.0 MiB "
    "that are allowed; if the file is to be trusted, say --max-memory.",
    "pt, many views of one storage": "FILE has no labels",
}


# Two files of millions of lines, and one of ten million names, take seconds to make.
LARGE = (
    "csv, one label of 500 characters",
    "csv of very short lines",
    "npz of ten million class names",
)
QUICK = {name: file for name, file in FILES.items() if name not in LARGE}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reading]:
    return readings(tmp_path_factory.mktemp("greedy"), QUICK)


@pytest.mark.long(short="test_a_file_takes_at_most_its_limit_and_200_mb")
def test_so_does_a_large_one(tmp_path: Path) -> None:
    read = readings(tmp_path, {name: FILES[name] for name in LARGE})
    for name in LARGE:
        assert_within_limit(name, read[name])


@pytest.mark.parametrize("name", QUICK)
def test_a_file_takes_at_most_its_limit_and_200_mb(name: str, read: dict[str, Reading]) -> None:
    assert_within_limit(name, read[name])


@pytest.mark.long(short="test_a_file_takes_at_most_its_limit_and_200_mb")
def test_a_huge_label_written_by_this_pyarrow_is_refused_as_the_stored_one(
    tmp_path: Path,
) -> None:
    name = "parquet, one huge label, patched footer"
    files = {name: (written_huge_label, FILES[name][1])}
    assert_within_limit(name, readings(tmp_path, files)[name])


def assert_within_limit(name: str, one: Reading) -> None:
    assert re.search(SENTENCES.get(name, TOO_MUCH), one.said), one.said
    assert len(one.said) < 400
    assert one.peak <= FILES[name][1] + BEYOND
    if "parquet" in name:  # decoded by a child, whose memory counts too
        assert one.peak + one.child <= FILES[name][1] + BEYOND


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system has no such limit")
def test_whoever_decodes_gets_no_more_memory_than_it_may_take() -> None:
    code = (
        "from conformix.data.files.decode import bounded, size_now\n"
        "bounded({limit}, size_now())\n"
        "print(len(bytearray(200 * 2**20)))"
    )
    for limit, done in ((300 * 2**20, True), (100 * 2**20, False)):
        run = [sys.executable, "-c", code.format(limit=limit)]
        found = subprocess.run(run, capture_output=True, text=True, check=False)
        assert (found.returncode == 0) is done
        assert done or "MemoryError" in found.stderr
