"""Damage that knows the format: files that are wrong inside and right outside.

Bytes changed at random rarely pass a checksum or a parser. Here JSON is changed value by value, and
archives member by member, with their checksums made anew.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

# Values that have broken something somewhere.
NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, -1e308,
    5e-324, "", "inf", "-inf", "nan", "thr", "\ud800", "a" * 2000, "../x", [], {}, [[]], [None],
    [1e999],
    {"dtype": "float64", "shape": [2**40], "data": []},
    {"dtype": "int64", "shape": [0], "data": []},
    {"dtype": "object", "shape": [1], "data": [1]}, {"npz": "array0"}, "vfcp", "probs", "array0",
]  # fmt: skip
TOKENS = [
    b"nan", b"inf", b"-inf", b"1e999", b"1_0", b'"', b'""', b"\0", b",", b",,", b"\r", b"\n", b"\t",
    b"\xff\xfe", b"\xef\xbb\xbf", b"'", b"(", b"-1", b"0x1p-1074", b"99999999999999999999", b"True",
    b"|O", b">f8", b"<U9999", b"<f2", b"c16", b"label", b"labels", b"cat", b"()", b"{", b"\x80\x02",
]  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy, in the way of its format where it has a known one."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        ways: list[Callable[[bytes, random.Random], bytes]] = [_bytes]
        if content[:1] == b"{":
            ways = [_json] * 4 + [_bytes]
        elif content[:2] == b"PK":
            ways = [_archive] * 3 + [_bytes]
        content = rng.choice(ways)(content, rng)
    return content


def _bytes(content: bytes, rng: random.Random) -> bytes:
    """Change, cut, repeat or put in some bytes."""
    place = rng.randrange(len(content) + 1)
    length = rng.choice((1, 1, 2, 4, 8, 64))
    middle = content[place : place + length]
    fresh = {
        0: rng.randbytes(len(middle)),
        1: b"",
        2: middle * rng.choice((2, 3, 50)),
        3: rng.choice(TOKENS),
        4: rng.choice(TOKENS) + middle,
        5: bytes((byte + rng.choice((-1, 1))) % 256 for byte in middle),
    }[rng.randrange(6)]
    rest = b"" if rng.random() < 0.05 else content[place + length :]
    return content[:place] + fresh + rest


def _json(content: bytes, rng: random.Random) -> bytes:
    """Change one value, anywhere in the document."""
    try:
        document = json.loads(content)
    except ValueError:
        return _bytes(content, rng)
    places = list(_places(document))
    if not places:
        return content
    holder, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1:
            other, name = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[name]))
        case 2 if isinstance(holder[key], int | float):
            holder[key] = holder[key] * rng.choice((-1, 2, 0, 1e9)) + rng.choice((0, 1, -1, 0.5))
        case 3 if isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), holder[key])
        case _:
            holder[key] = rng.choice(NASTY)
    try:
        return json.dumps(document).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return content


def _places(value: Any) -> Any:
    """Yield every (container, key) of a document."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _archive(content: bytes, rng: random.Random) -> bytes:
    """Damage, drop, rename or double one member of an archive, and pack it properly again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            members = [(name, packed.read(name)) for name in packed.namelist()]
    except Exception:
        return _bytes(content, rng)
    if not members:
        return _bytes(content, rng)
    chosen = rng.randrange(len(members))
    name, inside = members[chosen]
    match rng.randrange(8):
        case 0:
            del members[chosen]
        case 1:
            members[chosen] = (rng.choice(("../x", "labels.npy", "", "a/b", "x.npy")), inside)
        case 2:
            members[chosen] = (name, rng.choice(members)[1])
        case _:
            members[chosen] = (name, _bytes(inside, rng))
    held = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(held, "w", kind) as packed:
        for name, inside in dict(members).items():
            packed.writestr(zipfile.ZipInfo(name or "_"), inside, kind)
    return held.getvalue()
