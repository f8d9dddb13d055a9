"""The process that compiles: numba is loaded and prepared once, then functions are compiled in forks, one a core.

The architecture is an argument. A request is one JSON document on standard input: the texts, and how many to compile at
once. The answer is one on standard output. Guarantees that code
depends on its text alone: numba numbers functions, so that its names depend on what the process compiled before, but
`link` gives names of its own to all that is left in PTX. `python -m dfc_target_cuda.code.worker compute_80` runs it;
others call `compiler_process`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import IO, Any

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code.forks import run_forked
from dfc_target_cuda.code.fragments import TextKey

_WARM_UP = TextKey(
    """def kernel(a, d0, error):
    memory = shared_f32(32)
    point = block_index() * 32 + thread()
    while both(point < d0, point >= 0):
        x, y, z, w = load4_f32(a, quotient(point, 4) * 4)
        memory[remainder(point, 32)] = f32_fma(x, y, f32_sub(z, w))
        barrier()
        if min(point, d0 - 1) >= 0:
            store4_f32(a, i64_floordiv(point, 4), x, f32_add(x, y), f32_mul(z, f32(0.5)), memory[0])
        f32_store_if(a, point, f32_load_if(a, point, not point > 3, x), point > (point & 7))
        point = point + block_count()
""",
    ("f32",),
    1,
    False,
    32,
)
"""What is compiled before all else, and thrown away: numba reads its own rules at its first function, and those of a
function at its first call."""


def serve(requests: IO[bytes], replies: IO[bytes], architecture: str) -> None:
    """Gets ready for an architecture such as compute_80, then reads a request and writes the answer."""
    try:
        device = _ready(architecture)
        request = json.loads(requests.read())
        texts: list[dict[str, Any]] = request["texts"]
        answer = {"ptx": _compiled(device, [_key(text) for text in texts], architecture, request["at_once"])}
    except ImportError as error:
        answer = {"missing": str(error)}
    except CodeGenerationError as error:
        answer = {"refused": str(error)}
    replies.write(json.dumps(answer).encode())


def _ready(architecture: str) -> Any:
    """`device_functions`, with all of numba's rules read."""
    device: Any = import_module("dfc_target_cuda.code.device_functions")
    import_module("dfc_target_cuda.code.link")
    _check_libraries()
    gc.disable()  # a fork is short-lived, and what it makes is kept until its end anyway
    device.kernel_code(_WARM_UP, architecture)
    gc.freeze()
    return device


def _key(text: dict[str, Any]) -> TextKey:
    """What `asdict` made of a key, and JSON of that."""
    fields: dict[str, Any] = {**text, "pointers": tuple(text["pointers"])}
    return TextKey(**fields)


def _compiled(device: Any, keys: Sequence[TextKey], architecture: str, at_once: int) -> list[str]:
    """The PTX of the kernels; the longest texts first, so that none is left alone at the end."""
    linker: Any = import_module("dfc_target_cuda.code.link")

    def compiled(key: TextKey) -> bytes:
        ptx: str = linker.link(device.kernel_code(key, architecture), architecture)
        return ptx.encode()

    order = sorted(range(len(keys)), key=lambda number: -len(keys[number].source))
    return [ptx.decode() for ptx in run_forked([partial(compiled, key) for key in keys], at_once, order)]


def _check_libraries() -> None:
    """`ImportError` where a library of NVIDIA is missing, of which the bindings speak at the first call."""
    for name in ("nvvm", "nvjitlink"):
        library: Any = import_module(f"cuda.bindings.{name}")
        try:
            library.version()
        except (RuntimeError, OSError) as error:
            raise ImportError(str(error).strip().splitlines()[0]) from error


def _main() -> None:
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what else prints does not belong to the answer
    with output:
        serve(sys.stdin.buffer, output, sys.argv[1])


if __name__ == "__main__":
    _main()
