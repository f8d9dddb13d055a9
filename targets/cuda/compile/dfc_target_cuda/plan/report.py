"""What `dfc inspect` tells of the kernels of a bundle: where each comes from, how it is launched, what it takes.

Assumes the texts of a program's kernels in their order, and the PTX and machine code made of them. Guarantees plain
JSON for the notes of the bundle, as `dfc_runtime.observe.kernel_reports` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dfc.diagnostics.source import NOWHERE, Span
from dfc.kernels.program import Launch, Program, walk
from dfc_target_cuda.code.assemble import Assembled
from dfc_target_cuda.kernels.kernel_code import KernelCode
from dfc_target_cuda.libraries.splitting import Choice
from dfc_target_cuda.plan.convolution_report import convolution_makers

MOST_NAMES = 4
_ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)\(", re.M)
_WIDE = re.compile(r"\b(?:ld|st)\.[\w.]*?v([248])\.[a-z](\d+)\b")
WIDE_BITS = 128


def report(program: Program, code: KernelCode, ptx: str, assembled: Mapping[str, Assembled]) -> list[dict[str, object]]:
    """One record a kernel. `assembled` is the machine code by architecture, empty where there is no assembler."""
    launches = _first_launches(program)
    before, convolved = _before(code), convolution_makers(program, code)
    wide = dict(_wide_accesses(ptx))
    return [
        {
            "name": text.name,
            "values": list(launch.names[:MOST_NAMES]) if launch is not None else [],
            "line": str(span),
            "points": str(text.geometry.points),
            "per_block": text.geometry.per_block,
            "threads": text.geometry.threads,
            "most": text.geometry.most,
            "wide": wide.get(text.name, 0),
            "maker": "; ".join(filter(None, (convolved.get(number), _dependences_text(code, number, before)))),
            "taken": {
                architecture: _taken(text.name, assembled_image) for architecture, assembled_image in assembled.items()
            },
        }
        for number, text in enumerate(code.texts)
        for launch, span in [launches.get(before.get(number, [number])[0], (None, ""))]
    ]


def _dependences_text(code: KernelCode, number: int, before: Mapping[int, Sequence[int]]) -> str:
    return _after(code, before[number]) if number in before else _maker(code, number)


def _maker(code: KernelCode, number: int) -> str:
    """Who may make a product besides this kernel, and why no library makes all of it; nothing of other kernels."""
    choice = code.choices[number]
    if choice.product is not None and choice.product.whole is not None and choice.finish is None:
        return f"cuBLASLt may make it{_though(choice)}"
    if choice.finish is not None:
        last = code.texts[choice.finish.kernel].name
        return f"cuBLASLt may make the product, and {last} the rest, where sizes make it worth while: {choice.reason}"
    return f"no library makes it: {choice.reason}" if choice.reason else ""


def _though(choice: Choice) -> str:
    return f", but not where {choice.reason}" if choice.reason else ""


def _before(code: KernelCode) -> dict[int, list[int]]:
    """The kernels whose sums another one takes on, by that one."""
    before: dict[int, list[int]] = {}
    for number, choice in enumerate(code.choices):
        for last in dict.fromkeys(one.kernel for one in (choice.finish, choice.apart) if one is not None):
            before.setdefault(last, []).append(number)
    return before


def _after(code: KernelCode, numbers: Sequence[int]) -> str:
    names = ", ".join(code.texts[number].name for number in numbers)
    return f"takes on what libraries make of {names}"


def _first_launches(program: Program) -> dict[int, tuple[Launch, Span]]:
    """The first step of the program that runs each kernel, and where it is from: its own line, else its entry's."""
    launches: dict[int, tuple[Launch, Span]] = {}
    for entry, signature in zip(program.entries, program.signatures, strict=True):
        for step in walk(entry.steps):
            if isinstance(step, Launch):
                span = signature.span if step.span in (None, NOWHERE) else step.span
                launches.setdefault(step.kernel, (step, span or NOWHERE))
    return launches


def _wide_accesses(ptx: str) -> Iterator[tuple[str, int]]:
    """How many loads and stores of 16 bytes stand in each kernel."""
    starts = [*_ENTRY.finditer(ptx)]
    ends = [*(match.start() for match in starts[1:]), len(ptx)]
    for match, end in zip(starts, ends, strict=True):
        body = ptx[match.start() : end]
        yield match[1], sum(int(m[1]) * int(m[2]) == WIDE_BITS for m in _WIDE.finditer(body))


def _taken(name: str, assembled_image: Assembled) -> list[int]:
    """Registers of a thread, bytes spilled, bytes of shared memory, bytes of stack."""
    for each in assembled_image.reports:
        if each.name == name:
            return [each.registers, each.spill_bytes, each.shared_bytes, each.stack_bytes]
    return [0, 0, 0, 0]
