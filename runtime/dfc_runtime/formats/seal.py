"""What machine code says of the tables that it was compiled with: the last bytes of its tensor.

Machine code works on addresses. What lies there, how large it is and in which order it is passed stands in the manifest
alone: types of feeds, results, state and host calls, sizes as formulas, offsets of functions and constants, plans for
devices. A manifest that was changed and hashed again would make the code read and write where it must not. So each
image ends with a mark and the SHA-256 of the manifest it belongs to, without hashes of tensors but that of the
constants. A bundle for many ranks has no code of its own: each of its roles notes the hash of the manifest around it,
and the code of the role seals that note.

Assumes manifests as JSON data. Guarantees that code and tables that were not compiled together are told apart. Who
writes a seal anew has changed the code, and code is trusted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from dfc_runtime.formats import strict_json

MARK = b"dfc seal"
PROGRAM = "program"
"""The note of a role: the hash of the manifest of all ranks."""
SIZE = len(MARK) + hashlib.sha256().digest_size


def seal(manifest: Mapping[str, object], isa: str, constants: str) -> bytes:
    """The last bytes of the image `isa` of this manifest; `constants` is the hash of its constants."""
    return MARK + hashlib.sha256(f"{isa}\n{constants}\n{_tables(manifest)}".encode()).digest()


def program(manifest: Mapping[str, object]) -> str:
    """What the roles of a program on many ranks note of its manifest."""
    return hashlib.sha256(_tables(manifest).encode()).hexdigest()


def _tables(manifest: Mapping[str, object]) -> str:
    """All but the hashes of tensors: those of code are known only when it is sealed, and weights may be others."""
    return strict_json.dump({**manifest, "tensors": {}})
