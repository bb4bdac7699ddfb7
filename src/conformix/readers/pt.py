"""pt: tensors that torch.save wrote, without the code that such a file can carry.

A pt file is a zip archive whose `data.pkl` says how to build its objects. The names that it asks
for are read as text first, and anything but plain tensors in plain containers is refused; then
PyTorch loads it with ``weights_only=True``, which has a list of its own.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any, BinaryIO

from conformix.errors import InvalidInput
from conformix.readers.contents import Choice, Contents, from_arrays
from conformix.readers.limits import Limits
from conformix.readers.zips import opened_zip

MAX_PICKLE = 4 * 2**20
ALLOWED = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    *(f"torch {kind}Storage" for kind in (
        "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool",
    )),
}  # fmt: skip


def read_pt(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return the tensors of a pt file: one, or a dict by name."""
    with opened_zip(file, path, limits, "pt file as torch.save writes it") as packed:
        records = [m for m in packed.infolist() if m.filename.endswith("/data.pkl")]
        if len(records) != 1 or records[0].file_size > MAX_PICKLE:
            raise InvalidInput(
                f"{path} is no pt file of tensors; write it with torch.save(dict(labels=y, "
                "model=outputs), path)."
            )
        check_names(packed.read(records[0]), path)
    try:
        import torch  # noqa: PLC0415  an extra, loaded where it is used
    except ImportError:
        raise InvalidInput(
            f"{path}: pt files need PyTorch (pip install torch); or write an npz with numpy.savez."
        ) from None
    file.seek(0)
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # PyTorch raises many kinds; what it says runs over many lines.
        said = (str(error).strip().splitlines() or ["?"])[0][:120].rstrip(".")
        raise InvalidInput(f"{path} holds no plain tensors ({said}).") from None
    return from_arrays(path, _arrays(held, path, limits, torch), choice)


def check_names(pickle: bytes, path: Path) -> None:
    """Refuse a pickle that asks for anything but tensors; it is read as text, and not run."""
    try:
        for opcode, argument, _ in pickletools.genops(pickle):
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
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError, KeyError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} is truncated or damaged; write it again.") from None


def _arrays(held: Any, path: Path, limits: Limits, torch: Any) -> dict[str, Any]:
    if isinstance(held, torch.Tensor):
        held = {"labels" if held.ndim == 1 else "": held}
    if not isinstance(held, dict) or not all(isinstance(v, torch.Tensor) for v in held.values()):
        raise InvalidInput(f"{path} must hold a tensor, or a dict of tensors by name.")
    # A tensor may be larger than its storage: one number can be spread over any shape.
    needed = sum(tensor.numel() * max(tensor.element_size(), 4) for tensor in held.values())
    limits.check_memory(path, needed)
    arrays = {}
    for name, tensor in held.items():
        if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
            raise InvalidInput(f"{path} must hold plain tensors; {str(name)[:40]!r} is none.")
        plain = tensor.detach()
        arrays[str(name)] = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return arrays
