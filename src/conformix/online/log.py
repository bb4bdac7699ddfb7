"""The log of a stream: every row, set and label, appended as it comes, and never rewritten.

A log is a folder. ``start.json`` says what the stream was before its first row, ``state.json`` how
it stood a while ago; both are online models (`OnlineAverage.load`), written whole or not at all.
``rows.log`` holds what happened, in records of bytes: a length, a checksum, what it is, and the
numbers. A record is written by one call before anybody sees its set, so a process may be killed at
any moment: a record that is not whole is cut off, those after ``state.json`` are played again, and
the stream goes on with the same bits. Nothing in these files is ever executed, and every length is
checked before memory is asked for.

A written record is the system's, which puts it on the disk when it likes. ``durable`` waits for the
disk: after every record, or after every so many. In any case the log is put on the disk before a
state, and a state before it bears its name, so that no state is ahead of its log.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conformix.atomic import as_path, sync_folder
from conformix.data.files.opening import opened
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray

START, STATE, ROWS = "start.json", "state.json", "rows.log"
MAGIC = b"conformix stream log 1\n"
# Records after which the state is written anew.
EVERY = 2000
LONGEST_TICKET = 2**16
_FRAME = struct.Struct("<IIBI")  # bytes of the rest, their checksum, what it is; that of these
_ISSUE, _LABEL, _FORGET, _END, _INTERVAL, _RESPONSE = 1, 2, 3, 4, 5, 6
_DTYPES = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")

Ticket = int | str | None


class LogShape(NamedTuple):
    """How long the records of a stream are."""

    levels: int
    weights: int
    models: tuple[str, ...]
    n_classes: int | None  # of sets; intervals have none
    columns: tuple[int, ...] = ()  # numbers by model, where these are not the classes

    @property
    def numbers(self) -> dict[str, int]:
        """How many numbers a row has of every model."""
        each = self.columns or (self.n_classes or 0,) * len(self.models)
        return dict(zip(self.models, each, strict=True))

    @property
    def longest(self) -> int:
        """Bytes of a record, at most."""
        numbers = 3 * self.levels + self.weights + sum(self.numbers.values())
        return 8 * numbers + LONGEST_TICKET + 64


@dataclass(frozen=True, eq=False)
class Issued:
    """An answer that was issued: to which row, at which levels, with which weights.

    `sizes` are those of sets (m,); of intervals the ends, m lower and m upper ones.
    """

    number: int
    ticket: Ticket
    levels: FloatArray
    weights: FloatArray
    sizes: Any
    outputs: dict[str, Any]

    @property
    def is_interval(self) -> bool:
        """Whether it is no set."""
        return np.asarray(self.sizes).dtype.kind == "f"

    @property
    def extent(self) -> Any:
        """How large the answer is at every level, (m,): labels, or a width."""
        if not self.is_interval:
            return self.sizes
        lower, upper = np.reshape(self.sizes, (2, -1))
        empty = lower > upper
        return np.where(empty, 0.0, np.where(empty, 0.0, upper) - np.where(empty, 0.0, lower))


@dataclass(frozen=True)
class Labelled:
    """A label that came: of which row, whether the sets missed, and the truth's score.

    `score` is that under weights that never change, by scores that never learn, NaN where all do;
    the alarm reads it.
    """

    number: int
    label: int | float  # a whole number of a class, a float of a response
    errors: tuple[bool, ...]
    late: int
    score: float


@dataclass(frozen=True)
class Forgotten:
    """A row whose label is no longer waited for."""

    number: int


@dataclass(frozen=True)
class Ended:
    """The stream was closed."""


RecordedStep = Issued | Labelled | Forgotten | Ended


_TRUTH = {_LABEL: "<QIId", _RESPONSE: "<QdId"}


def as_record(step: RecordedStep) -> bytes:
    """Return the bytes of a step, framed.

    Examples
    --------
    >>> shape = LogShape(1, 1, ("",), 2)
    >>> record = as_record(Labelled(7, 1, (True,), 0, 0.25))
    >>> step_of(record[13:], record[8], shape)
    Labelled(number=7, label=1, errors=(True,), late=0, score=0.25)
    """
    match step:
        case Issued():
            what, body = _INTERVAL if step.is_interval else _ISSUE, _issued_bytes(step)
        case Labelled():
            flags = bytes(step.errors)
            what = _RESPONSE if isinstance(step.label, float) else _LABEL
            form = _TRUTH[what]
            body = struct.pack(form, step.number, step.label, step.late, step.score) + flags
        case Forgotten():
            what, body = _FORGET, struct.pack("<Q", step.number)
        case _:
            what, body = _END, b""
    return _framed(len(body), zlib.crc32(body), what) + body


def _framed(length: int, checksum: int, what: int) -> bytes:
    """Return what stands before a record; a length that is wrong would cut off all that follows."""
    own = zlib.crc32(struct.pack("<IIB", length, checksum, what))
    return _FRAME.pack(length, checksum, what, own)


def _issued_bytes(step: Issued) -> bytes:
    arrays = [np.ascontiguousarray(values) for values in step.outputs.values()]
    dtype = arrays[0].dtype.newbyteorder("<").str
    if dtype not in _DTYPES or any(array.dtype != arrays[0].dtype for array in arrays):
        dtype = "<f8"
    arrays = [array.astype(dtype, copy=False) for array in arrays]
    ticket = step.ticket
    if ticket is None:
        named = b"\0"
    elif isinstance(ticket, int):
        named = b"\1" + struct.pack("<q", ticket)
    else:
        text = ticket.encode()
        named = b"\2" + struct.pack("<H", len(text)) + text
    return b"".join([
        struct.pack("<QB", step.number, _DTYPES.index(dtype)),
        np.asarray(step.levels, dtype="<f8").tobytes(),
        np.asarray(step.weights, dtype="<f8").tobytes(),
        np.asarray(step.sizes, dtype="<f8" if step.is_interval else "<u4").tobytes(),
        *(array.tobytes() for array in arrays),
        named,
    ])  # fmt: skip


def step_of(body: bytes, what: int, shape: LogShape) -> RecordedStep:
    """Return the step that a record holds; its checksum was right."""
    try:
        if what == (_INTERVAL if shape.n_classes is None else _ISSUE):
            return _issued(body, shape)
        if what == (_RESPONSE if shape.n_classes is None else _LABEL):
            number, label, late, score = struct.unpack_from(_TRUTH[what], body)
            flags = body[struct.calcsize(_TRUTH[what]) :]
            fits = math.isfinite(label) if shape.n_classes is None else label < shape.n_classes
            if len(flags) != shape.levels or not fits or max(flags) > 1:
                raise ValueError
            return Labelled(number, label, tuple(map(bool, flags)), late, score)
        if what == _FORGET:
            return Forgotten(*struct.unpack("<Q", body))
        if what == _END and not body:
            return Ended()
    except (ValueError, struct.error, IndexError, UnicodeDecodeError):
        pass
    raise InvalidInput("a record is whole, but not one of this stream")


def _issued(body: bytes, shape: LogShape) -> Issued:
    number, code = struct.unpack_from("<QB", body)
    place = struct.calcsize("<QB")

    def take(dtype: str, count: int) -> Any:
        nonlocal place
        values = np.frombuffer(body, dtype=dtype, count=count, offset=place)
        place += values.nbytes
        return values

    levels, weights = take("<f8", shape.levels), take("<f8", shape.weights)
    interval = shape.n_classes is None
    sizes = take("<f8", 2 * shape.levels) if interval else take("<u4", shape.levels)
    dtype = _DTYPES[code]
    outputs = {model: take(dtype, count)[None, :] for model, count in shape.numbers.items()}
    kind, rest = body[place], body[place + 1 :]
    ticket: Ticket = None
    if kind == 1:
        ticket = struct.unpack("<q", rest)[0]
    elif kind == 2:
        ticket = rest[2:].decode()
        if len(rest) != 2 + struct.unpack_from("<H", rest)[0]:
            raise ValueError
    elif kind or rest:
        raise ValueError
    return Issued(number, ticket, levels, weights, sizes, outputs)


def recorded_steps(
    folder: Path, shape: LogShape, offset: int = 0
) -> Iterator[tuple[RecordedStep, int]]:
    """Yield the steps of a log from a place on, each with the place after it.

    What is not whole at the end is left out: somebody is writing it, or was killed at it. Anything
    else that is not whole is damage, and refused.
    """
    path, longest = folder / ROWS, shape.longest
    with opened(path) as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidInput(f"{path} is no log of a stream.")
        size = os.fstat(file.fileno()).st_size
        offset = max(offset, len(MAGIC))
        if offset > size:
            raise InvalidInput(f"{path} is shorter than its {STATE} says; it was cut.")
        file.seek(offset)
        while True:
            frame = file.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                return
            length, checksum, what, _ = _FRAME.unpack(frame)
            left = size - offset - _FRAME.size
            if length > longest or frame != _framed(length, checksum, what):
                raise InvalidInput(f"{path} is damaged at byte {offset:,}.")
            body = file.read(min(length, left))
            if zlib.crc32(body) != checksum:
                if left > length:  # not the last one
                    raise InvalidInput(f"{path} is damaged at byte {offset:,}.")
                return
            try:
                step = step_of(body, what, shape)
            except InvalidInput as error:
                raise InvalidInput(f"{path} is damaged at byte {offset:,} ({error}).") from None
            offset += _FRAME.size + length
            yield step, offset


class Log:
    """An open log, to which one process appends.

    Parameters
    ----------
    folder : Path
        Its folder, which exists.
    every : int
        Records after which the state is due.
    durable : bool or int
        After how many records the disk is waited for: True for each, False for none.
    """

    def __init__(self, folder: Path, every: int = EVERY, durable: bool | int = False) -> None:
        self._file: Any = None
        self.folder, self.every, self.durable = folder, *check_record(every, durable)
        self._file = (folder / ROWS).open("ab", buffering=0)
        self._alone()
        self.place = os.fstat(self._file.fileno()).st_size
        self._since = self._unsafe = 0  # records since the last state, and since the disk had all
        self._within = False  # a step is recorded, and not yet made
        if not self.place:
            self._write(MAGIC)
            if self.durable:
                self.sync()
                sync_folder(folder)
                sync_folder(folder.parent)

    def _alone(self) -> None:
        """Refuse a second writer, where the system has locks; a process that ends lets go."""
        try:
            import fcntl  # noqa: PLC0415  POSIX
        except ImportError:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise InvalidInput(
                f"{self.folder} is being written by another process; end that one first."
            ) from None

    def append(self, step: RecordedStep) -> None:
        """Write a record, before anybody acts on it; `settle` follows when all is done."""
        if self._within:
            self.close()
            raise InvalidInput(
                f"{self.folder} was left in the middle of a step; resume it to go on."
            )
        self._write(as_record(step))
        self._within = True
        self._since += 1
        self._unsafe += 1
        if self.durable and self._unsafe >= self.durable:
            self.sync()

    def settle(self) -> bool:
        """Take the step for made, and return whether the state should be written."""
        self._within = False
        if self._since < self.every:
            return False
        self._since = 0
        return True

    def _write(self, content: bytes) -> None:
        if self._file is None:
            raise InvalidInput(f"{self.folder} is closed; resume it to go on.")
        try:
            written = self._file.write(content)
            while written < len(content):
                written += self._file.write(content[written:])
        except BaseException:
            self.close()  # what is there may be half a record, which resuming cuts off
            raise
        self.place += len(content)

    def sync(self) -> None:
        """Wait until the disk has every record."""
        try:
            os.fsync(self._file.fileno())
        except BaseException:
            self.close()  # nobody knows what the disk has
            raise
        self._unsafe = 0

    def cut(self, place: int) -> None:
        """Take away what follows a place: half a record, at most."""
        if place < self.place:
            self._file.truncate(place)
            self.place = place

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return self._file is not None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


def check_record(every: Any, durable: Any) -> tuple[int, int]:
    """Return after how many records the state is written, and the disk waited for; 0 for never."""
    whole = isinstance(every, int | np.integer) and not isinstance(every, bool)
    if not whole or every < 1:
        raise InvalidInput(f"every must be a positive number of records; got {every!r}.")
    if not isinstance(durable, bool | int | np.integer) or durable < 0:
        raise InvalidInput(f"durable must be True, False or a number of records; got {durable!r}.")
    return int(every), int(durable)


def fresh_folder(path: Path) -> Path:
    """Create the folder of a log, or take an empty one."""
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path} is a file; name a folder for the log.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is no folder; create it first.")
    path.mkdir(exist_ok=True)
    if any(not one.name.startswith(".") for one in path.iterdir()):
        raise InvalidInput(
            f"{path} is not empty; name a new folder, or go on with OnlineAverage.resume."
        )
    return path


def log_folder(folder: Any) -> Path:
    """Return the folder of a log, or say that it is none."""
    path = as_path(folder)
    if not (path / ROWS).is_file():
        raise InvalidInput(f"{path} is no log of a stream; OnlineAverage.record writes one.")
    return path


def begun(folder: Path) -> Path:
    """Return the file from which a log is resumed: its last state, or its first."""
    for name in (STATE, START):
        if (folder / name).is_file():
            return folder / name
    raise InvalidInput(
        f"{folder} holds no row: its process ended before the first; remove it and record anew."
    )


def check_ticket(ticket: Any) -> Ticket:
    """Return a ticket: a whole number of 64 bits, or a text that is not too long."""
    whole = isinstance(ticket, int | np.integer) and not isinstance(ticket, bool)
    if ticket is None or (whole and -(2**63) <= ticket < 2**63):
        return None if ticket is None else int(ticket)
    if isinstance(ticket, str) and len(ticket.encode(errors="replace")) < LONGEST_TICKET:
        try:
            ticket.encode()
        except UnicodeEncodeError:
            pass
        else:
            return ticket
    raise InvalidInput(
        f"ticket must be a whole number or a text, which names the row; got {ticket!r:.60}."
    )


def same_numbers(one: Sequence[float] | Any, other: Sequence[float] | Any) -> bool:
    """Return whether two lists of numbers are the same, bit for bit."""
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return first.tobytes() == second.tobytes()


def raw_arrays(outputs: Any) -> dict[str, Any]:
    """Return the outputs of one row by model, as they came."""
    named = outputs if isinstance(outputs, Mapping) else {"": outputs}
    return {name: np.atleast_2d(values) for name, values in named.items()}
