"""Damaged copies of a file, from a seed: flips, splices, cuts, wrong lengths, swapped sections, edited JSON."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dfc_runtime.formats import strict_json
from tests.support.bundles import sealed, with_manifest

Mutator = Callable[[bytes, random.Random], bytes]
WRONG_NUMBERS = (-1, 0, 1, 2, 7, 64, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**30, 0.5, 1e300)
WRONG_VALUES = (None, True, False, "", "x", "$B", "\x00", "é" * 300, [], {}, [[]], *WRONG_NUMBERS)


def flip(data: bytes, random_: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 16))):
        damaged[random_.randrange(len(damaged))] ^= 1 << random_.randrange(8)
    return bytes(damaged)


def flip_header(data: bytes, random_: random.Random) -> bytes:
    damaged = bytearray(data)
    damaged[random_.randrange(min(len(damaged), 8 + header_length(data)))] ^= 1 << random_.randrange(8)
    return bytes(damaged)


def splice(data: bytes, random_: random.Random) -> bytes:
    start, length, target = (random_.randrange(len(data)) for _ in range(3))
    piece = data[start : start + length % 300]
    return data[:target] + piece + data[target + random_.choice((0, len(piece))) :]


def truncate(data: bytes, random_: random.Random) -> bytes:
    return data[: random_.randrange(len(data))]


def extend(data: bytes, random_: random.Random) -> bytes:
    return data + random_.randbytes(random_.choice((1, 8, 4096)))


def wrong_length(data: bytes, random_: random.Random) -> bytes:
    length = header_length(data)
    wrong = (length - 1, length + 1, length ^ 2**31, 2**31, 2**63, 2**64 - 1, len(data) - 8, len(data) - 7, 0, 1)
    return (random_.choice(wrong) % 2**64).to_bytes(8, "little") + data[8:]


def swap_sections(data: bytes, random_: random.Random) -> bytes:
    """Two pieces of the data change places."""
    start = 8 + header_length(data)
    a, b, c = sorted(random_.randrange(start, len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def swap_names(data: bytes, random_: random.Random) -> bytes:
    """Two tensors change names in the header."""
    header = strict_json.parse(data[8 : 8 + header_length(data)].decode())
    first, second = random_.sample([name for name in header if name != "__metadata__"], 2)
    header[first], header[second] = header[second], header[first]
    return _with_header(data, strict_json.dump(header))


def edit_header(data: bytes, random_: random.Random) -> bytes:
    header = strict_json.parse(data[8 : 8 + header_length(data)].decode())
    edit(header, random_)
    return _with_header(data, strict_json.dump(header))


def edit_manifest(data: bytes, random_: random.Random) -> bytes:
    """The manifest changed in one place, its hash made right."""
    return with_manifest(data, lambda manifest: edit(manifest, random_))


def edit_and_seal(data: bytes, random_: random.Random) -> bytes:
    """Likewise, and code in it made to fit: what is left are the checks of the tables themselves."""
    try:
        return sealed(edit_manifest(data, random_))
    except (LookupError, TypeError, ValueError):
        return edit_manifest(data, random_)  # without images or hashes there is nothing to seal


def damage_manifest_text(data: bytes, random_: random.Random) -> bytes:
    """The text of the manifest damaged, its hash made right: duplicate keys, deep nesting, cut JSON."""
    text = strict_json.parse(data[8 : 8 + header_length(data)].decode())["__metadata__"]["manifest"]
    offset = random_.randrange(len(text))
    deep = "[" * random_.choice((150, 5000, 200_000))
    damaged = random_.choice(
        (
            text[:offset] + text[offset + 1 :],
            text[:-1] + ',"name":"again"}',
            text[:-1] + f',"notes":{deep}{"]" * len(deep)}}}',
            text[:-1] + f',"more":{deep}',
            text.replace("0", "NaN", 1),
            text.replace(":0", ":-Infinity", 1),
            text[:offset] + random_.choice('{}[]",:0e-') + text[offset:],
        )
    )
    return with_manifest(data, damaged)


MUTATORS: tuple[Mutator, ...] = (
    flip, flip_header, splice, truncate, extend, wrong_length, swap_sections, swap_names, edit_header, edit_manifest,
    edit_and_seal, damage_manifest_text,
)  # fmt: skip


def mutant(data: bytes, seed: int) -> bytes:
    """The mutant of that number."""
    random_ = random.Random(seed)
    return MUTATORS[seed % len(MUTATORS)](data, random_)


def header_length(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _with_header(data: bytes, text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode() + data[8 + header_length(data) :]


def edit(root: Any, random_: random.Random) -> None:
    """One value somewhere inside is replaced, dropped, or given twice."""
    entries: list[tuple[Any, Any]] = []
    pending = [root]
    while pending:
        node = pending.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        entries += [(node, key) for key in keys]
        pending += [node[key] for key in keys]
    parent, key = random_.choice(entries)
    action = random_.randrange(4)
    if action == 0:
        del parent[key]
    elif action == 1 and isinstance(parent, list):
        parent.insert(key, parent[key])
    elif action == 2 and type(parent[key]) is int:
        parent[key] += random_.choice((-1, 1, 2**31, 2**63))
    else:
        parent[key] = random_.choice(WRONG_VALUES)
