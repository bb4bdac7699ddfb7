"""parquet: columns of plain numbers, one of labels; what the footer declares is checked first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from conformix.errors import InvalidInput
from conformix.readers.contents import LONGEST_LABEL, NO_OUTPUTS, Choice, Contents, choose_columns
from conformix.readers.limits import Limits

BATCH_ENTRIES = 2**20


def read_parquet(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return outputs and labels of a parquet file; the columns are the classes."""
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, loaded where it is used
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(
            f"{path}: parquet needs pyarrow; install it with: pip install 'conformix[frames]'."
        ) from None
    if file.read(4) != b"PAR1":
        raise InvalidInput(f"{path} is no parquet file (it does not begin as one).")
    file.seek(0)
    try:
        return _read(pq.ParquetFile(file), path, limits, choice, pa)
    except InvalidInput:
        raise
    # Damage shows in many ways, names that are no text among them.
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        first = str(error).strip().splitlines()[0][:160].rstrip(".") if str(error).strip() else "?"
        raise InvalidInput(f"{path} is truncated or damaged ({first}); write it again.") from None


def _read(source: Any, path: Path, limits: Limits, choice: Choice, pa: Any) -> Contents:
    schema, n = source.schema_arrow, source.metadata.num_rows
    names = [str(name) for name in schema.names if not str(name).startswith("__index_level_")]
    limits.check_columns(path, source.metadata.num_columns)
    columns = choose_columns(path, names, choice)
    outputs = [names[place] for place in columns.numbers]
    label = None if columns.label is None else names[columns.label]
    _check_types(schema, path, outputs, label, pa)
    if n < 1:
        raise InvalidInput(f"{path} has no rows.")
    limits.check_memory(path, 8 * n * (len(outputs) + 1), f"{n:,} rows of {len(names):,} columns")
    limits.check_memory(path, _declared(source.metadata), "its columns")
    values, labels = _filled(source, path, n, outputs=outputs, label=label, pa=pa)
    models = {"": values} if outputs else {}
    return Contents(path, models, labels, label, columns.classes or None, columns.others)


def _declared(metadata: Any) -> int:
    """Return the bytes that the columns take once they are decompressed, as the footer says.

    Row groups are asked, and not their columns: a damaged description of a column makes pyarrow
    end the whole process.
    """
    groups = range(metadata.num_row_groups)
    return sum(max(0, int(metadata.row_group(group).total_byte_size)) for group in groups)


def _check_types(schema: Any, path: Path, outputs: list[str], label: str | None, pa: Any) -> None:
    for name in outputs:
        kind = schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise InvalidInput(
                f"{path} column {name[:40]!r} holds {str(kind)[:60]}, no plain numbers; "
                f"{NO_OUTPUTS}."
            )
    if label is not None:
        kind = schema.field(label).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        text = pa.types.is_string(plain) or pa.types.is_large_string(plain)
        if not (text or pa.types.is_integer(plain)):
            raise InvalidInput(
                f"{path} column {label[:40]!r} must hold labels, integers or text; it holds "
                f"{str(kind)[:60]}."
            )


def _filled(
    source: Any, path: Path, n: int, *, outputs: list[str], label: str | None, pa: Any
) -> tuple[Any, Any]:
    """Return outputs (n, K) and labels, read batch by batch; no more rows than were declared."""
    values = np.empty((n, len(outputs)))
    parts: list[Any] = []
    done = 0
    wanted = [*outputs, *([] if label is None else [label])]
    size = max(1, BATCH_ENTRIES // max(1, len(wanted)))
    for batch in source.iter_batches(batch_size=size, columns=wanted, use_threads=False):
        if done + batch.num_rows > n:
            raise InvalidInput(f"{path} is damaged: it holds more rows than it declares.")
        for place, name in enumerate(outputs):
            column = batch.column(batch.schema.get_field_index(name))
            _no_gaps(column, path, name, done)
            values[done : done + batch.num_rows, place] = column.to_numpy(zero_copy_only=False)
        if label is not None:
            column = batch.column(batch.schema.get_field_index(label))
            _no_gaps(column, path, label, done)
            parts.append(_labels(column, path, label, pa))
        done += batch.num_rows
    if done < n:
        raise InvalidInput(f"{path} is damaged: it declares {n:,} rows and holds {done:,}.")
    return values, np.concatenate(parts) if parts else None


def _labels(column: Any, path: Path, name: str, pa: Any) -> Any:
    """Return labels as integers or text; every text is looked at once, however often it stands."""
    if pa.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False)
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    if any(isinstance(text, str) and len(text) > LONGEST_LABEL for text in texts):
        raise InvalidInput(f"{path} column {name[:40]!r} holds a label that is too long.")
    return np.array(texts)[coded.indices.to_numpy(zero_copy_only=False)]


def _no_gaps(column: Any, path: Path, name: str, first: int) -> None:
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidInput(f"{path} column {name[:40]!r} has no value in row {row}.")
