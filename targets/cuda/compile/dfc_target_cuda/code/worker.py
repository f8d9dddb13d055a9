"""The process that compiles: numba is loaded and prepared once, then functions are compiled in forks, one a core.

The architecture is an argument. A request is one JSON document on standard input: the texts, code of prelude functions
that is known already, and how many to compile at once. The answer is one on standard output. Guarantees that code
depends on its text alone: numba numbers functions, so that its names depend on what the process compiled before, but
`link` gives names of its own to all that is left in PTX. `python -m dfc_target_cuda.code.worker compute_80` runs it;
others call `compiler_process`.
"""

from __future__ import annotations

import base64
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
from dfc_target_cuda.kernels.prelude import prelude
from dfc_target_cuda.kernels.prelude.text_functions import called, parse

_WARM_UP = TextKey(
    """def kernel(a, d0, error):
    memory = shared_f32(32)
    point = block_index() * 32 + thread()
    while point < d0:
        x, y, z, w = load4_f32(a, quotient(point, 4) * 4)
        memory[remainder(point, 32)] = f32_fma(x, y, f32(z - w))
        barrier()
        if min(point, d0 - 1) >= 0:
            store4_f32(a, point // 4, x, f32(x + y), f32(z * w), memory[0])
        for turn in range(4):
            point = point + block_count() * (turn & 7)
""",
    ("f32",),
    1,
    False,
    32,
)
"""What is compiled before all else, and thrown away: numba reads its own rules at its first function, and those of a
function at its first call."""

Library = dict[str, bytes]
"""LTO-IR of prelude functions by name."""


def needed(source: str) -> list[str]:
    """The prelude functions that a text calls, and those that they call."""
    definitions = prelude.definitions()
    needed_names: set[str] = set()
    left = parse(source)
    while left:
        names: set[str] = {
            name for definition in left for name in called(definition)
        } & definitions.keys() - needed_names
        needed_names |= names
        left = [definitions[name] for name in names]
    return sorted(needed_names)


def serve(requests: IO[bytes], replies: IO[bytes], architecture: str) -> None:
    """Gets ready for an architecture such as compute_80, then reads a request and writes the answer."""
    try:
        device = _ready(architecture)
        request = json.loads(requests.read())
        texts: list[dict[str, Any]] = request["texts"]
        known = {name: base64.b64decode(code) for name, code in request["known"].items()}
        answer = _answer(device, [_key(text) for text in texts], architecture, known, request["at_once"])
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


def _answer(device: Any, keys: Sequence[TextKey], architecture: str, known: Library, at_once: int) -> dict[str, Any]:
    linker: Any = import_module("dfc_target_cuda.code.link")
    parts = [needed(key.source) for key in keys]
    new = sorted({name for names in parts for name in names} - known.keys())
    codes = _compiled(device, keys, new, architecture, at_once)
    library = known | dict(zip(new, codes[len(keys) :], strict=True))

    def linked(number: int) -> bytes:
        used = [library[name] for name in parts[number]]
        ptx: str = linker.link([codes[number], *used], architecture)
        return ptx.encode()

    return {
        "ptx": [ptx.decode() for ptx in run_forked([partial(linked, number) for number in range(len(keys))], at_once)],
        "made": {name: base64.b64encode(library[name]).decode() for name in new},
    }


def _compiled(
    device: Any, keys: Sequence[TextKey], functions: Sequence[str], architecture: str, at_once: int
) -> list[bytes]:
    """LTO-IR of the kernels, and behind them of prelude functions; the longest texts first, so that none is left alone
    at the end."""
    jobs = [partial(device.kernel_code, key, architecture) for key in keys]
    jobs += [partial(device.prelude_code, name, architecture) for name in functions]
    texts = [len(key.source) for key in keys] + [0] * len(functions)
    return run_forked(jobs, at_once, sorted(range(len(jobs)), key=lambda number: -texts[number]))


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
