"""Small files that ask for much memory, and what reading each one takes in a process of its own.

``python -m data.files.greedy`` from the folder of the tests prints the table: file, limit, peak,
sentence. The peak is the resident memory of the process and of its children above what it had with
all libraries loaded.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conformix.fit.saved.migrations import SCHEMA

MIB = 2**20
# What a reader may take beyond its limit.
BEYOND = 200 * MIB


def npy_header(shape: str, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zeros(count: int, pack: object, before: bytes = b"") -> bytes:
    """So many compressed zeros behind some bytes, never held unpacked."""
    packed = [pack.compress(before)]  # type: ignore[attr-defined]
    piece = bytes(MIB)
    packed += [pack.compress(piece) for _ in range(count // MIB)]  # type: ignore[attr-defined]
    return b"".join([*packed, pack.flush()])  # type: ignore[attr-defined]


def lying_zip(path: Path, name: str, method: int, content: bytes, size: int) -> None:
    """An archive of one member that declares another size than it unpacks to."""
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(zipfile.ZipInfo(name), content)
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02")
    for place, told in ((8, 22), (at + 10, at + 24)):
        raw[place : place + 2] = struct.pack("<H", method)
        raw[told : told + 4] = struct.pack("<I", size)
    path.write_bytes(raw)


def model_npz(folder: Path, name: str, write: Callable[[Path], None]) -> Path:
    """A model of one array beside it, whose digest fits."""
    model = folder / f"{name}.json"
    arrays = folder / f"{model.name}.0.npz"
    write(arrays)
    digest = hashlib.sha256(arrays.read_bytes()).hexdigest()
    document = {"format": "conformix model", "schema": SCHEMA, "version": "0", "params": {},
                "predictor": {}, "npz": arrays.name, "npz_sha256": digest}  # fmt: skip
    model.write_text(json.dumps(document))
    return model


def bzip2_model(folder: Path) -> Path:
    content = zeros(256 * MIB, bz2.BZ2Compressor(1), npy_header("(33554432,)"))
    return model_npz(folder, "bzip2", lambda path: lying_zip(path, "array0.npy", 12, content, 1000))


def deflated_model(folder: Path) -> Path:
    header = npy_header("(33554432,)")
    content = zeros(256 * MIB, zlib.compressobj(1, zlib.DEFLATED, -15), header)
    size = len(header) + 256 * MIB
    return model_npz(folder, "deflated", lambda path: lying_zip(path, "a.npy", 8, content, size))


def nested_model(folder: Path) -> Path:
    path = folder / "lists.json"
    path.write_bytes(b"[" + b"[]," * (6 * MIB) + b"[]]")
    return path


def deep_model(folder: Path) -> Path:
    path = folder / "deep.json"
    path.write_bytes(b"[" * MIB)
    return path


def no_characters(folder: Path) -> Path:
    path = folder / "u0.npy"
    path.write_bytes(npy_header("(30000000,)", "<U0"))
    return path


def no_columns(folder: Path) -> Path:
    path = folder / "empty.npy"
    path.write_bytes(npy_header("(100000000, 0)"))
    return path


def narrow_labels(folder: Path) -> Path:
    path = folder / "narrow.npy"
    with path.open("wb") as file:
        file.write(npy_header("(40000000,)", "|i1"))
        file.truncate(file.tell() + 40_000_000)
    return path


def many_class_names(folder: Path) -> Path:
    path = folder / "names.npz"
    header = npy_header("(10000000,)", "<U1")
    content = header + np.full(10_000_000, "a").tobytes()
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("class_names.npy", content)
        packed.writestr("m.npy", npy_header("(1, 1)") + bytes(8))
    return path


def lying_npz(folder: Path) -> Path:
    content = zeros(256 * MIB, zlib.compressobj(1, zlib.DEFLATED, -15), npy_header("(100,)", "|i1"))
    path = folder / "lying.npz"
    lying_zip(path, "labels.npy", 8, content, 228)
    return path


ROWS = 1_000_000


def long_label_csv(folder: Path) -> Path:
    path = folder / "long.csv"
    path.write_bytes(b"a,label\n" + b"1,a\n" * ROWS + b"1," + b"b" * 500 + b"\n")
    return path


def short_lines_csv(folder: Path) -> Path:
    path = folder / "short.csv"
    path.write_bytes(b"0,label\n" + b"1,0\n" * ROWS)
    return path


def long_label_parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "long.parquet"
    labels = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(ROWS, dtype=np.int32) == 5).cast(pa.int32()), ["a", "b" * 500]
    )
    pq.write_table(pa.table({"a": np.ones(ROWS), "label": labels}), path)
    return path


def huge_label_parquet(folder: Path) -> Path:
    """The file of `written_huge_label`, which takes a gigabyte of memory to write, as stored."""
    return Path(shutil.copy(Path(__file__).with_name("huge_label.parquet"), folder))


def written_huge_label(folder: Path) -> Path:
    """A label of 320 MiB in some kilobytes, and a footer that declares next to nothing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "huge_label.parquet"
    text = pa.array(["x" * (320 * MIB)])
    table = pa.table({"a": [1.0], "label": text})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    group = pq.read_metadata(path).row_group(0)
    raw = path.read_bytes()
    start = len(raw) - 8 - struct.unpack("<I", raw[-8:-4])[0]
    footer = raw[start:]
    for size in (group.total_byte_size, group.column(1).total_uncompressed_size):
        footer = footer.replace(_varint(size), _varint(100, len(_varint(size))))
    path.write_bytes(raw[:start] + footer)
    return path


def _varint(number: int, length: int = 1) -> bytes:
    """A number as the footer writes it, seven bits a byte, low ones first, in so many or more."""
    left, out = number << 1, []
    while left or len(out) < length:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out[:-1], out[-1] & 127])


def spread_tensor(folder: Path) -> Path:
    import torch

    path = folder / "spread.pt"
    torch.save({"m": torch.ones(1).expand(10**7, 10**3)}, path)
    return path


def many_views(folder: Path) -> Path:
    """A thousand views of one storage, which are small alone."""
    import torch

    path = folder / "views.pt"
    whole = torch.zeros(8 * MIB // 4)
    torch.save({f"m{i}": whole[i : i + 2].reshape(1, 2) for i in range(500)}, path)
    return path


def pickled_lists(folder: Path) -> Path:
    path = folder / "lists.pt"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a/data.pkl", b"\x80\x02" + b"]" * (4 * MIB - 10) + b".")
    return path


# By name: how to make the file, and the limit under which it is read.
Files = dict[str, tuple[Callable[[Path], Path], int]]
FILES: Files = {
    "model, bzip2 member that lies": (bzip2_model, 20 * MIB),
    "model, deflated zeros": (deflated_model, 20 * MIB),
    "model, millions of lists": (nested_model, 100 * MIB),
    "model, a million brackets": (deep_model, 100 * MIB),
    "npy of text without characters": (no_characters, MIB),
    "npy without columns": (no_columns, MIB),
    "npy of labels of one byte": (narrow_labels, 60 * MIB),
    "npz of ten million class names": (many_class_names, 100 * MIB),
    "npz that lies about its size": (lying_npz, MIB),
    "csv, one label of 500 characters": (long_label_csv, 50 * MIB),
    "csv of very short lines": (short_lines_csv, 50 * MIB),
    "parquet, one label of 500 characters": (long_label_parquet, 50 * MIB),
    "parquet, one huge label, patched footer": (huge_label_parquet, 50 * MIB),
    "pt, one number over any shape": (spread_tensor, 100 * MIB),
    "pt, many views of one storage": (many_views, 20 * MIB),
    "pt, a pickle of lists": (pickled_lists, MIB),
}

# Reads every file of a list and says what that took: resident memory is counted from new for each,
# and the system gives no address space beyond the limit and 200 MiB.
MEASURE = """
import json, resource, sys
import conformix as cx
from conformix.fit.saved import load_predictor
from conformix.cli.info import _data
from conformix.data.files import Limits, Sources
beyond = int(sys.argv[1])
def held(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) * 1024
def read(path, memory):
    if path.endswith(".json"):
        load_predictor(path, max_memory=memory)
    elif path.endswith(".npy"):
        _data(path, None, str(memory))  # as `conformix info` does
    else:
        Sources(path, limits=Limits(memory)).read(labelled=True)
    return "read"
for line in sys.stdin:
    path, memory = json.loads(line)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = held("VmRSS")
    allowed = held("VmSize") + memory + beyond if beyond else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (allowed, resource.RLIM_INFINITY))
    try:
        said = read(path, memory)
    except cx.InvalidInput as error:
        said = str(error)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    told = {"peak": held("VmHWM") - before, "child": child, "said": said.replace(path, "FILE")}
    print(json.dumps(told), flush=True)
"""


@dataclass(frozen=True)
class Reading:
    """What reading a file took: bytes here, bytes of the largest child so far, and the sentence."""

    size: int
    peak: int
    child: int
    said: str


def readings(folder: Path, files: Files = FILES, *, bounded: bool = True) -> dict[str, Reading]:
    """Make files and read them, one after the other, in a process of their own."""
    paths = {name: make(folder) for name, (make, _) in files.items()}
    asked = [json.dumps([str(paths[name]), memory]) for name, (_, memory) in files.items()]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(BEYOND if bounded else 0)], input="\n".join(asked),
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    told = map(json.loads, done.stdout.splitlines())
    return {
        name: Reading(paths[name].stat().st_size, **one)
        for name, one in zip(files, told, strict=True)
    }


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = readings(Path(folder), bounded=False)
    lines = ["| file | bytes | limit | peak | of a child | said |", "|---|---|---|---|---|---|"]
    for name, one in found.items():
        limit = FILES[name][1] // MIB
        peaks = f"{one.peak / MIB:,.0f} MiB | {one.child / MIB:,.0f} MiB"
        lines.append(f"| {name} | {one.size:,} | {limit} MiB | {peaks} | {one.said} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
