"""pt: tensors that torch.save wrote, without the code that such a file can carry.

A pt file is a zip archive: `data.pkl` says how to build its objects, and every tensor's numbers lie
in a member of their own. The pickle is never loaded. The few opcodes that build plain tensors in
plain containers are followed here, one by one, everything else is refused; the numbers are read by
NumPy, as many as the member really holds. PyTorch is not needed.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from conformix.data.files.contents import Choice, Contents, from_arrays
from conformix.data.files.limits import Limits
from conformix.data.files.npy import read_numbers
from conformix.data.files.opening import opened_zip
from conformix.errors import InvalidInput

# A pickle of a thousand tensors has a quarter of this; an opcode of one byte may build a list.
MAX_PICKLE = 2**19
BFLOAT16 = "BFloat16"
# By the name of the storage; NumPy has no bfloat16, which is the upper half of a float32.
TYPES = {
    "Float": "<f4", "Double": "<f8", "Half": "<f2", BFLOAT16: "<u2", "Long": "<i8", "Int": "<i4",
    "Short": "<i2", "Char": "|i1", "Byte": "|u1", "Bool": "|b1",
}  # fmt: skip
REBUILD, ORDERED = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
ALLOWED = {ORDERED, REBUILD, *(f"torch {name}Storage" for name in TYPES)}
NOT_TENSORS = "must hold a tensor, or a dict of tensors by name"


@dataclass(frozen=True)
class Name:
    """Something that the pickle asks for by its name; it stays a name."""

    text: str


@dataclass(frozen=True)
class Storage:
    """The numbers behind tensors: the member of the archive, their type and count."""

    member: str
    kind: str
    count: int


@dataclass(frozen=True)
class Tensor:
    """A view of a storage, as the pickle describes it."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Refused(Exception):
    """The pickle builds something else than plain tensors."""


def read_pt(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return the tensors of a pt file: one, or a dict by name."""
    with opened_zip(file, path, limits, "pt file as torch.save writes it") as packed:
        records = [m for m in packed.infolist() if m.filename.endswith("/data.pkl")]
        if len(records) != 1 or records[0].file_size > MAX_PICKLE:
            raise InvalidInput(
                f"{path} is no pt file of tensors; write it with torch.save(dict(labels=y, "
                "model=outputs), path)."
            )
        folder = records[0].filename.removesuffix("data.pkl")
        tensors = _by_name(_described(packed.read(records[0]), path), path)
        if f"{folder}byteorder" in packed.namelist():
            with packed.open(f"{folder}byteorder") as order:
                if order.read(6) != b"little":
                    raise InvalidInput(f"{path} is of a machine with another byte order; write it "
                                       "with numpy.savez.")  # fmt: skip
        return from_arrays(path, _arrays(packed, folder, tensors, path, limits), choice, limits)


def _described(pickle: bytes, path: Path) -> Any:
    """Return what the pickle builds, with tensors as descriptions."""
    try:
        operations = list(pickletools.genops(pickle))
        _check_names(operations, path)
        return Machine().run(operations)
    except InvalidInput:
        raise
    except Refused:
        raise InvalidInput(f"{path} {NOT_TENSORS}.") from None
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError, KeyError, TypeError,
            AttributeError):  # fmt: skip
        raise InvalidInput(f"{path} is truncated or damaged; write it again.") from None


def _check_names(operations: list[Any], path: Path) -> None:
    """Refuse a pickle that asks for anything but tensors."""
    for opcode, argument, _ in operations:
        if opcode.name in ("GLOBAL", "INST") and argument not in ALLOWED:
            raise InvalidInput(
                f"{path} asks for {str(argument).replace(' ', '.')[:60]!r}, no tensor; it is "
                "not loaded, since it may run code."
            )
        if opcode.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4", "OBJ"):
            raise InvalidInput(
                f"{path} builds objects that are no tensors; it is not loaded, since it may "
                "run code."
            )


MARK = object()
LITERALS = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT")


class Machine:
    """Follows the opcodes that torch.save writes; nothing is imported and nothing is called."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, operations: list[Any]) -> Any:
        """Return what the opcodes build, with tensors as descriptions."""
        for opcode, argument, _ in operations:
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name not in STEPS:
                raise Refused
            STEPS[opcode.name](self, argument)
        raise ValueError("the pickle has no end")

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop_marked(self) -> list[Any]:
        """Take what lies above the last mark, and the mark."""
        values = []
        while (value := self.stack.pop()) is not MARK:
            values.append(value)
        return values[::-1]

    def pop_last(self, n: int) -> list[Any]:
        """Take the last n values."""
        values = self.stack[-n:]
        del self.stack[-n:]
        return values

    def remember(self, place: int) -> None:
        """Note the value on top."""
        self.memo[place] = self.stack[-1]

    def call(self) -> None:
        """Describe the tensor that a call would make; an empty dict is the only other result."""
        arguments, callee = self.stack.pop(), self.stack.pop()
        self.push(_made(callee, arguments))

    def set_items(self, pairs: list[Any]) -> None:
        """Put keys and values, in turn, into the dict on top."""
        if not all(isinstance(key, str | int) for key in pairs[::2]):
            raise Refused
        self.stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))

    def extend(self, values: list[Any]) -> None:
        """Put values at the end of the list on top."""
        self.stack[-1].extend(values)


# What every opcode does, by its name; an opcode that is not here is refused.
STEPS: dict[str, Callable[[Machine, Any], Any]] = {
    **dict.fromkeys(LITERALS, Machine.push),
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, _: None),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), Machine.remember),
    **dict.fromkeys(
        ("BINGET", "LONG_BINGET"), lambda machine, place: machine.push(machine.memo[place])
    ),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "MARK": lambda machine, _: machine.push(MARK),
    "GLOBAL": lambda machine, name: machine.push(Name(name)),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_marked())),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.pop_last(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.pop_last(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.pop_last(3))),
    "BINPERSID": lambda machine, _: machine.push(_storage(machine.stack.pop())),
    "REDUCE": lambda machine, _: machine.call(),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_marked()),
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_marked()),
    "BUILD": lambda machine, _: machine.stack.pop(),  # what a state_dict knows about its layers
}


def _storage(described: Any) -> Storage:
    what, kind, key, _, count = described
    known = isinstance(kind, Name) and kind.text.startswith("torch ")
    if what != "storage" or not known or not isinstance(key, str) or type(count) is not int:
        raise Refused
    if count < 0:
        raise ValueError("a storage of an impossible size")
    return Storage(key, kind.text.removeprefix("torch ").removesuffix("Storage"), count)


def _made(callee: Any, arguments: Any) -> Any:
    if callee == Name(ORDERED) and not arguments:
        return {}
    if callee != Name(REBUILD):
        raise Refused
    storage, offset, shape, strides = arguments[:4]
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, Storage) or len(shape) != len(strides):
        raise Refused
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ValueError("a tensor of an impossible shape")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def _by_name(described: Any, path: Path) -> dict[str, Tensor]:
    if isinstance(described, Tensor):
        described = {"labels" if len(described.shape) == 1 else "": described}
    plain = isinstance(described, dict) and all(isinstance(v, Tensor) for v in described.values())
    if not plain:
        raise InvalidInput(f"{path} {NOT_TENSORS}.")
    return {str(name): tensor for name, tensor in described.items()}


def _arrays(
    packed: zipfile.ZipFile, folder: str, tensors: dict[str, Tensor], path: Path, limits: Limits
) -> dict[str, Any]:
    """Return the tensors as arrays that share no memory with each other."""
    users: dict[Storage, list[str]] = {}
    for name, tensor in tensors.items():
        users.setdefault(tensor.storage, []).append(name)
    # A tensor may be larger than its storage: one number can be spread over any shape.
    spread = sum(_bytes(tensor) for tensor in tensors.values())
    limits.check_memory(path, spread + max((_bytes_of(storage) for storage in users), default=0))
    arrays: dict[str, Any] = {}
    for storage, names in users.items():
        member = packed.getinfo(f"{folder}data/{storage.member}")
        whose = f"{path} (tensor {names[0][:40]!r})"
        if member.file_size != _bytes_of(storage):
            raise InvalidInput(f"{whose} is damaged: its numbers are not as many as it says.")
        with packed.open(member) as stream:
            numbers = read_numbers(stream, storage.count, np.dtype(TYPES[storage.kind]), whose)
            stream.read(1)  # the end: here the checksum is compared
        for name in names:
            arrays[name] = _shaped(numbers, tensors[name], whose, alone=len(names) == 1)
    return {name: arrays[name] for name in tensors}


def _shaped(numbers: Any, tensor: Tensor, whose: str, *, alone: bool) -> Any:
    """Return the view that a tensor is: the numbers themselves where it has all of them."""
    shape, width = tensor.shape, numbers.itemsize
    last = sum((n - 1) * step for n, step in zip(shape, tensor.strides, strict=True))
    if math.prod(shape) and tensor.offset + last >= numbers.size:
        raise InvalidInput(f"{whose} is damaged: it reaches beyond its numbers.")
    steps = [step * width for step in tensor.strides] if math.prod(shape) else None
    view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], shape, steps, writeable=True)
    if tensor.storage.kind == BFLOAT16:
        wide = view.astype(np.uint32)
        wide <<= np.uint32(16)
        return wide.view(np.float32)
    compact = view.flags.c_contiguous or view.flags.f_contiguous
    return view if alone and compact and view.size == numbers.size else np.array(view)


def _bytes_of(storage: Storage) -> int:
    return storage.count * np.dtype(TYPES[storage.kind]).itemsize


def _bytes(tensor: Tensor) -> int:
    """Return the bytes that a tensor takes as an array; labels become indices."""
    size = max(np.dtype(TYPES[tensor.storage.kind]).itemsize, 4)
    width = max(size, 8) + 8 if len(tensor.shape) == 1 else size
    return math.prod(max(n, 1) for n in tensor.shape) * width
