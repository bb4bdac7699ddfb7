"""Hostile and broken files: one sentence each, little memory, little time, nothing executed."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from conformix import InvalidInput
from conformix.data.files import Limits, Sources, read_contents
from data.files.hostile import (
    MIB,
    Bomb,
    good_npz,
    npy_bytes,
    npy_header,
    pickled,
    refused,
    write_zip,
)

# -- any file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "npy", "npz", "parquet", "pt"])
def test_an_empty_file_and_a_missing_one(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.{ending}"
    assert refused(file) == "FILE does not exist or is no file."
    file.touch()
    assert refused(file) == "FILE is empty."


def test_folders_pipes_devices_and_dead_links(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    assert refused(tmp_path / "a.csv") == "FILE is a folder; name a file."
    os.mkfifo(tmp_path / "pipe.csv")
    assert refused(tmp_path / "pipe.csv") == (
        "FILE is no regular file (a pipe or a device?); name a file."
    )
    (tmp_path / "endless.csv").symlink_to("/dev/zero")
    assert "is no regular file" in refused(tmp_path / "endless.csv")
    (tmp_path / "dead.csv").symlink_to(tmp_path / "nowhere")
    assert refused(tmp_path / "dead.csv") == "FILE does not exist or is no file."
    (tmp_path / "circle.csv").symlink_to(tmp_path / "circle.csv")
    assert "cannot be opened: " in refused(tmp_path / "circle.csv")


@pytest.mark.parametrize("ending", ["csv", "npy", "npz", "parquet", "pt"])
def test_noise_is_refused_by_every_reader(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.{ending}"
    for seed in range(8):
        file.write_bytes(np.random.default_rng(seed).bytes(3000))
        refused(file)


def mutations(whole: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Damaged copies of a file: bytes changed, cut off, put in, taken out."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        content, place = bytearray(whole), int(rng.integers(1, len(whole)))
        match int(rng.integers(4)):
            case 0:
                content[place] = int(rng.integers(256))
            case 1:
                del content[place:]
            case 2:
                content[place:place] = rng.bytes(int(rng.integers(1, 20)))
            case _:
                del content[place : place + int(rng.integers(1, 30))]
        yield bytes(content)


@pytest.mark.parametrize("ending", ["csv", "npy", "npz", "parquet", "pt"])
def test_damaged_files_are_read_or_refused_and_nothing_else(ending: str, tmp_path: Path) -> None:
    read_damaged(ending, tmp_path, 10 if ending == "parquet" else 150)  # a process each


@pytest.mark.long(short="test_damaged_files_are_read_or_refused_and_nothing_else")
def test_many_damaged_parquet_files_are_read_or_refused(tmp_path: Path) -> None:
    read_damaged("parquet", tmp_path, 40)


def read_damaged(ending: str, tmp_path: Path, count: int) -> None:
    from data.files.test_formats import PROBS, write_all

    write_all(tmp_path)
    np.save(tmp_path / "rows.npy", PROBS)
    if ending == "pt":
        torch = pytest.importorskip("torch")
        torch.save(
            {"labels": torch.tensor([0, 2, 1]), "m": torch.tensor(PROBS)}, tmp_path / "rows.pt"
        )
    file, said = tmp_path / f"damaged.{ending}", []
    for content in mutations((tmp_path / f"rows.{ending}").read_bytes(), seed=0, count=count):
        file.write_bytes(content)
        try:
            Sources(str(file), limits=Limits(2**26)).read(labelled=ending != "npy")
        except InvalidInput as error:
            said.append(str(error))
    assert len(said) > count / 2
    assert not any("\n" in sentence for sentence in said)


# -- npy and npz ----------------------------------------------------------------------------------


def test_a_truncated_npz_at_any_length(tmp_path: Path) -> None:
    good_npz(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    file = tmp_path / "a.npz"
    for length in range(1, len(whole), 7):
        file.write_bytes(whole[:length])
        said = refused(file)
        assert said.startswith(("FILE is truncated", "FILE is no npz file"))
    assert said == "FILE is truncated: the end of the archive is missing."


def test_a_damaged_npz_is_noticed_by_its_checksum(tmp_path: Path) -> None:
    good_npz(tmp_path / "a.npz")
    content = bytearray((tmp_path / "a.npz").read_bytes())
    place = content.index(np.float64(0.25).tobytes())
    content[place] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    assert refused(tmp_path / "a.npz").startswith("FILE is truncated or damaged (Bad CRC-32")


def test_a_zip_bomb_is_refused_by_what_it_declares(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    content = npy_header("(10, 1000000)") + bytes(80_000_000)
    write_zip(file, {"labels.npy": content})
    assert file.stat().st_size < 100_000
    del content
    said = refused(file, memory=4 * MIB, seconds=1)
    assert said.startswith("FILE would unpack to 76.3 MiB, 1,0")
    assert said.endswith("times its size, as a zip bomb does; if it is meant, write it without "
                         "compression.")  # fmt: skip
    assert "asks for 76.3 MiB of memory" in refused(file, limits=Limits(8 * MIB))


def test_a_bomb_that_lies_about_its_size_gives_no_more_than_it_declared(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    write_zip(file, {"labels.npy": npy_header("(100,)", "'|i1'") + bytes(50_000_000)})
    content = bytearray(file.read_bytes())
    real, told = struct.pack("<I", 50_000_128), struct.pack("<I", 228)
    assert content.count(real) == 2
    file.write_bytes(bytes(content).replace(real, told))
    assert refused(file, memory=4 * MIB, seconds=1).startswith("FILE is truncated or damaged (Bad")


def test_archives_of_very_many_files_are_refused_before_their_directory_is_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.npz"
    write_zip(file, {f"{i}.npy": b"" for i in range(1001)})
    assert refused(file) == "FILE holds 1,001 files, and at most 1,000 are read."
    write_zip(file, {f"{i}.npy": b"" for i in range(20_000)})
    said = refused(file, memory=2 * MIB, seconds=1)
    assert said == "FILE has a directory of 1.0 MiB, and at most 1,000 arrays are read."


def test_the_directory_of_a_large_archive_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)  # archives are large from two files on
    file = tmp_path / "a.npz"
    good_npz(file)
    content = bytearray(file.read_bytes())
    place = content.index(b"PK\x06\x06")
    assert Sources(str(file)).read(labelled=True).n == 2
    content[place + 40 : place + 48] = struct.pack("<Q", 2**40)
    file.write_bytes(content)
    assert refused(file).startswith("FILE has a directory of 1.0 TiB, and at most")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd.npy", "/etc/passwd.npy", "a/../../b.npy", "..\\b.npy", "C:b.npy"]
)
def test_names_that_point_elsewhere_are_refused_and_nothing_is_written(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "below" / "a.npz"
    file.parent.mkdir()
    write_zip(file, {name: npy_bytes(np.zeros(2))})
    said = refused(file)
    assert said == (
        f"FILE holds a file called {name!r}, a name that points elsewhere; it is not read."
    )
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "below", file]


def test_a_pickle_inside_npz_and_npy_is_never_loaded(tmp_path: Path) -> None:
    bomb = np.array([Bomb(str(tmp_path / "mark"))], dtype=object)
    np.savez(tmp_path / "a.npz", labels=np.array([0]), model=bomb)
    np.save(tmp_path / "a.npy", bomb, allow_pickle=True)
    sentence = (
        "holds Python objects, which are stored as a pickle and never loaded; write it with "
        "numpy.save or numpy.savez, from arrays of numbers or text."
    )
    assert refused(tmp_path / "a.npz") == f"FILE (array 'model') {sentence}"
    assert refused(tmp_path / "a.npy") == f"FILE {sentence}"
    write_zip(tmp_path / "a.npz", {"labels.npy": pickled(Bomb(str(tmp_path / "mark")))})
    assert "is no npy array, or its header is damaged" in refused(tmp_path / "a.npz")
    write_zip(tmp_path / "a.npz", {"data.pkl": pickled(Bomb(str(tmp_path / "mark")))})
    assert "holds 'data.pkl', which is no npy array" in refused(tmp_path / "a.npz")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (npy_header("(1000000000, 1000000000)"), "asks for 7,275,957.6 TiB of memory"),
        (npy_header("(1000, 1000)"), "its header speaks of 7.6 MiB, and 16 bytes follow."),
        (npy_header("(-1, 2)"), "has a header with the impossible shape (-1, 2)."),
        (npy_header("(2, 1)", "'|O'"), "holds Python objects"),
        (npy_header("(2,)", "[('a', '<f8')]"), "neither numbers nor text"),
        (npy_header("(2,)", "'<c16'"), "holds complex128, neither numbers nor text"),
        (npy_header("(" * 500 + ")" * 500), "its header is damaged"),
        (npy_header("__import__('os').getpid()"), "its header is damaged"),
        (npy_header("(2,)", "'<U0'"), "holds <U0, neither numbers nor text"),
        (npy_header("(9, 0, 1000000000)"), "asks for 67.1 GiB of memory"),
        (npy_header(f"({'1' * 4000}, 1)"), "its header is damaged"),
        (npy_header(f"({'1' * 5000}, 1)"), "its header is damaged"),
        (npy_header("(" + "1, " * 70 + ")"), "has 70 axes; outputs have two, (n, K), and labels"),
        (b"\x93NUMPY\x09\x00", "its header is damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "its header is damaged"),
    ],
    ids=["huge", "short", "negative", "objects", "fields", "complex", "deep", "code",
         "no characters", "no columns", "4,000 digits", "5,000 digits", "70 axes",
         "version", "long header"],
)  # fmt: skip
def test_headers_of_arrays_are_not_believed(header: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(header + bytes(16))
    assert sentence in refused(tmp_path / "a.npy", memory=2 * MIB, seconds=1)
    write_zip(tmp_path / "a.npz", {"labels.npy": header + bytes(16)})
    assert sentence in refused(tmp_path / "a.npz", memory=2 * MIB, seconds=1)


def test_other_archives_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    write_zip(file, {"labels.npy": npy_bytes(np.zeros(2))}, compression=zipfile.ZIP_LZMA)
    assert "compressed in a way that numpy never writes" in refused(file)
    write_zip(file, {"a.npy": b"1", "b.npy": b"2"})
    file.write_bytes(file.read_bytes().replace(b"b.npy", b"a.npy"))
    assert refused(file) == "FILE holds two files of one name."
    good_npz(file)
    content = bytearray(file.read_bytes())
    for place in range(len(content) - 4):
        if content[place : place + 4] == b"PK\x01\x02":
            content[place + 8] |= 1
    file.write_bytes(content)
    assert refused(file) == "FILE is encrypted; write it without a password."


# -- pt -------------------------------------------------------------------------------------------


def test_a_pt_with_code_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "a.pt"
    mark = tmp_path / "mark"
    write_zip(file, {"a/data.pkl": pickled(Bomb(str(mark))), "a/version": b"3"}, compression=0)
    said = refused(file)
    assert said.startswith("FILE asks for '")
    assert said.endswith("', no tensor; it is not loaded, since it may run code.")
    assert "open" in said
    file.write_bytes(pickled(Bomb(str(mark))))  # as torch.save wrote before 1.6
    assert refused(file) == (
        "FILE is no pt file as torch.save writes it (it does not begin as a zip archive)."
    )
    assert not mark.exists()


def test_a_pt_that_would_take_memory_by_its_pickle_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.pt"
    greedy = b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R."
    write_zip(file, {"a/data.pkl": greedy}, compression=0)
    assert refused(file, memory=2 * MIB) == (
        "FILE asks for 'builtins.bytearray', no tensor; it is not loaded, since it may run code."
    )
    write_zip(file, {"a/data.pkl": b"\x80\x04\x8c\x02os\x8c\x06system\x93."}, compression=0)
    assert refused(file).startswith("FILE builds objects that are no tensors; it is not loaded")
    write_zip(file, {"a/data.pkl": greedy[:-20]}, compression=0)
    assert refused(file) == "FILE is truncated or damaged; write it again."


def test_a_tensor_that_spreads_one_number_over_any_shape_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "a.pt"
    torch.save({"model": torch.ones(1).expand(10**7, 10**4)}, file)
    assert file.stat().st_size < 10_000
    assert "asks for 372.5 GiB of memory" in refused(file)
    torch.save({"model": [torch.ones(1)]}, file)
    assert refused(file) == "FILE must hold a tensor, or a dict of tensors by name."
    torch.save(torch.nn.Linear(2, 2), file)
    assert "no tensor; it is not loaded, since it may run code." in refused(file)


def test_a_tensor_that_reaches_beyond_its_numbers_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "a.pt"
    torch.save({"model": torch.ones(2, 3)}, file)
    whole = file.read_bytes()
    shape, wide = b"K\x02K\x03\x86", b"K\x09K\x03\x86"
    assert whole.count(shape) == 1
    file.write_bytes(_with_checksum(file, whole, shape, wide))
    assert refused(file) == "FILE (tensor 'model') is damaged: it reaches beyond its numbers."
    count = b"X\x03\x00\x00\x00cpuq\x06K\x06"
    assert whole.count(count) == 1
    file.write_bytes(_with_checksum(file, whole, count, count[:-1] + b"\x40"))
    assert refused(file) == (
        "FILE (tensor 'model') is damaged: its numbers are not as many as it says."
    )


def _with_checksum(file: Path, whole: bytes, old: bytes, new: bytes) -> bytes:
    """The archive with other bytes in its pickle, and checksums that fit."""
    file.write_bytes(whole)
    with zipfile.ZipFile(file) as packed:
        members = {m.filename: packed.read(m) for m in packed.infolist()}
    members = {name: content.replace(old, new) for name, content in members.items()}
    write_zip(file, members, compression=zipfile.ZIP_STORED)
    return file.read_bytes()


def test_tensors_are_read_as_pytorch_reads_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tensors = {
        "whole": base, "transposed": base.t(), "some": base[1:3, ::2], "again": base,
        "spread": torch.ones(1, 3).expand(4, 3), "half": base.bfloat16() / 7,
        "small": base.half(), "bytes": base.to(torch.uint8), "labels": torch.tensor([2, 0, 1, 1]),
    }  # fmt: skip
    torch.save(tensors, tmp_path / "a.pt")
    found = read_contents(tmp_path / "a.pt")
    assert found.labels.tolist() == [2, 0, 1, 1]
    for name, values in found.models.items():
        assert np.array_equal(values, tensors[name].float().numpy()), name
        assert values.flags.writeable
    assert len(found.models) == 8
    arrays = list(found.models.values())
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
