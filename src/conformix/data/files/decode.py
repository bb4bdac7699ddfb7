"""Parquet decoded: numbers and label codes, a few columns and rows at a time.

Arrow believes what pages declare, takes as much memory as they ask for, and ends the whole process
on some damage. So this file is run as a program of its own (`conformix.data.files.parquet` starts
it), whose memory the system bounds. It depends on pyarrow and NumPy alone. What it says is a line
of JSON per message, followed by as many bytes as the message announces.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

# Bytes that decoding may take besides what the limit leaves: pages, one batch, Arrow's own.
ROOM = 96 * 2**20
# Entries of a batch, and bytes of the pages of all columns that are decoded at once.
BATCH_ENTRIES = 2**18
PAGE_BYTES = 32 * 2**20
# Arrow reads so much of every column at a time.
BUFFER = 2**16

Message = tuple[dict[str, Any], bytes]


def described(source: Any) -> dict[str, Any]:
    """Return the names and types of the columns and the number of rows."""
    import pyarrow as pa  # noqa: PLC0415

    kinds = []
    for field in source.schema_arrow:
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_integer(field.type) or pa.types.is_integer(plain):
            kind = "integer" if plain is field.type else "coded integer"
        elif pa.types.is_floating(field.type):
            kind = "number"
        else:
            kind = "text" if pa.types.is_string(plain) or pa.types.is_large_string(plain) else ""
        kinds.append([str(field.name), kind, str(field.type)[:60]])
    groups = range(source.metadata.num_row_groups)
    return {
        "columns": kinds,
        "leaves": source.metadata.num_columns,
        "rows": source.metadata.num_rows,
        # Row groups are asked, and not their columns: a damaged description of a column makes
        # pyarrow end the whole process.
        "declared": sum(max(0, source.metadata.row_group(g).total_byte_size) for g in groups),
        "tallest": max((source.metadata.row_group(g).num_rows for g in groups), default=0),
    }


def decoded(source: Any, outputs: list[str], label: str | None, tallest: int) -> Iterator[Message]:
    """Yield the outputs as blocks of float64, then the labels as integers or codes."""
    step = max(16, PAGE_BYTES // (24 * max(tallest, 1)))
    for start in range(0, len(outputs), step):
        yield from _blocks(source, outputs[start : start + step], start)
    if label is not None:
        yield from _labels(source, label)


def _batches(source: Any, names: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield batches with the number of their first row."""
    done = 0
    size = max(1, BATCH_ENTRIES // len(names))
    for batch in source.iter_batches(batch_size=size, columns=names, use_threads=False):
        yield done, batch
        done += batch.num_rows


def _blocks(source: Any, names: list[str], first_column: int) -> Iterator[Message]:
    import numpy as np  # noqa: PLC0415

    for first, batch in _batches(source, names):
        block = np.empty((batch.num_rows, len(names)))
        for place, name in enumerate(names):
            column = batch.column(batch.schema.get_field_index(name))
            if column.null_count:
                yield _gap(column, name, first)
                return
            block[:, place] = column.to_numpy(zero_copy_only=False)
        place_of = {"first": first, "rows": len(block), "column": first_column, "width": len(names)}
        yield {"block": place_of}, block.tobytes()


def _labels(source: Any, name: str) -> Iterator[Message]:
    """Yield labels batch by batch; every different text of a batch is said once."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    for first, batch in _batches(source, [name]):
        column = batch.column(0)
        if column.null_count:
            yield _gap(column, name, first)
            return
        if pa.types.is_integer(column.type):
            texts, codes = None, column.to_numpy(zero_copy_only=False)
        else:
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            codes = coded.indices.to_numpy(zero_copy_only=False)
            # Of a dictionary that serves many batches, only the names that are used here.
            used, codes = np.unique(codes, return_inverse=True)
            texts = coded.dictionary.take(pa.array(used)).to_pylist()
        wide = codes.astype(np.int64)
        yield {"labels": {"first": first, "rows": len(wide), "names": texts}}, wide.tobytes()


def _gap(column: Any, name: str, first: int) -> Message:
    import numpy as np  # noqa: PLC0415

    row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
    return {"gap": {"column": name, "row": row}}, b""


def opened(file: BinaryIO, text: str | None = None) -> Any:
    """Return the file as Arrow reads it; a column of text stays a dictionary with codes."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    coded = [] if text is None else [text]
    return pq.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, read_dictionary=coded)


def bounded(memory: int, base: int) -> None:
    """Take no more memory than so many bytes above `base` from now on, where the system can."""
    import resource  # noqa: PLC0415  POSIX only

    if base:
        resource.setrlimit(resource.RLIMIT_AS, (base + memory, resource.RLIM_INFINITY))


def size_now() -> int:
    """Return the bytes of address space that this process has, 0 where nobody says."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def said(error: Exception) -> Message:
    """Return the message for a file that Arrow does not read: the first line of what it says."""
    lines = str(error).strip().splitlines() or ["?"]
    what = "memory" if isinstance(error, MemoryError) else "damaged"
    return {what: lines[0][:160].rstrip(".")}, b""


def main() -> None:
    """Answer one request: the file is a handle, the limit a number, what to read comes later."""
    handle, memory = int(sys.argv[1]), int(sys.argv[2])
    out, asked = sys.stdout.buffer, sys.stdin.buffer

    def say(message: Message) -> None:
        out.write(json.dumps(message[0]).encode() + b"\n")
        out.write(message[1])

    import numpy  # noqa: F401, PLC0415  before memory is bounded
    import pyarrow.parquet  # noqa: F401, PLC0415

    base = size_now()
    try:
        bounded(memory + ROOM, base)
        with os.fdopen(handle, "rb") as file:
            source = opened(file)
            shape = described(source)
            say((shape, b""))
            out.flush()
            wanted = json.loads(asked.readline() or b"null")
            if wanted is None:
                return
            if wanted["text"] is not None:
                source = opened(file, wanted["text"])
            bounded(max(0, memory - wanted["taken"]) + ROOM, base)
            for message in decoded(source, wanted["outputs"], wanted["label"], shape["tallest"]):
                say(message)
        say(({"done": True}, b""))
    except BrokenPipeError:  # the reader has seen enough
        os._exit(0)
    except Exception as error:
        say(said(error))
    out.flush()


if __name__ == "__main__":
    main()
