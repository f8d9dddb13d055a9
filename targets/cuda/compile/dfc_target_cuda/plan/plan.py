"""From a program to its plan: the launches, copies and control flow of each entry as plain JSON.

Assumes a scheduled program, and the text of each of its kernels. Guarantees that whatever `dfc_runtime.plans.plan`
checks holds. Locks are left out: calls of one device queue up, and state that programs share is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.bundle.formulas import Names, formula, name_symbols
from dfc.diagnostics.diagnostic import CompileError, error
from dfc.ir.dims import Dim, Symbol, dim, product
from dfc.ir.measured import upper_elements
from dfc.kernels.matching.convolutions import launches_in_line
from dfc.kernels.program import (
    DEFAULT_CONTAINER,
    Buffer,
    BufferRole,
    Check,
    Copy,
    EntryProgram,
    For,
    HostCall,
    If,
    Launch,
    Locked,
    Measure,
    Program,
    Step,
    While,
)
from dfc_runtime.plans.plan import VERSION
from dfc_target_cuda.kernels.kernel_text import KernelText
from dfc_target_cuda.libraries.convolutions import convolution_data
from dfc_target_cuda.libraries.products import product_data
from dfc_target_cuda.libraries.splitting import Choice

Accesses = Sequence[Sequence[str]]
Pending = Step | list[object]
END: list[object] = ["end"]


def plan_program(
    program: Program,
    texts: Sequence[KernelText],
    access: Accesses,
    constant_offsets: Sequence[int],
    choices: Sequence[Choice],
) -> dict[str, object]:
    """The plan. Kernels that no step mentions may stand behind those of the program. `access` says for each operand of
    each kernel: read, write or update; `choices` what a library may make."""
    _refuse_shared(program)
    return {
        "version": VERSION,
        "kernels": [_kernel(*each) for each in zip(texts, access, choices, strict=True)],
        "entries": [_Entry(program, entry, constant_offsets, choices, texts).json() for entry in program.entries],
    }


def _refuse_shared(program: Program) -> None:
    """State that several programs share lies in memory of the host, where their locks are."""
    for resource in program.resources.values():
        if resource.container != DEFAULT_CONTAINER:
            text = f"`{resource.name}` is in the shared container {resource.container!r}, and the program is for a GPU"
            helps = "programs share state on the processor only: compile with --target cpu, or leave out `container`"
            raise CompileError([error("E1003", f"{text}: {helps}", resource.span)])


def _kernel(text: KernelText, access: Sequence[str], choice: Choice) -> dict[str, object]:
    names = {Symbol(f"d{number}"): f"d{number}" for number in range(text.sizes)}
    data: dict[str, object] = {
        "name": text.name,
        "access": list(access),
        "sizes": text.sizes,
        "points": _json(text.geometry.points, names),
        "per_block": text.geometry.per_block,
        "threads": text.geometry.threads,
        "most": text.geometry.most,
        "workspace": _json(text.workspace, names),
        "guarded": text.guarded,
        "faults": text.faults,
    }
    if choice.product is not None:
        data["product"] = product_data(choice.product, choice, lambda size: _json(size, names))
    return data


def _json(size: Dim, names: Names) -> object:
    return formula(size, names).to_json()


class _Entry:
    """One entry on its way."""

    def __init__(
        self,
        program: Program,
        entry: EntryProgram,
        constant_offsets: Sequence[int],
        choices: Sequence[Choice],
        texts: Sequence[KernelText],
    ) -> None:
        self._sites = program.sites
        self._choices, self._texts = choices, texts
        self._entry = entry
        self._in_line = {id(step) for step in launches_in_line(entry.steps)}
        self._most: Mapping[Symbol, Dim] = dict(entry.measured)
        self._offsets = constant_offsets
        self._names = name_symbols([*entry.dims, *self._most])

    def json(self) -> dict[str, object]:
        entry = self._entry
        return {
            "dims": [self._names[symbol] for symbol in entry.dims],
            "measured": [[self._names[symbol], self._size(most)] for symbol, most in entry.measured],
            "arguments": len(entry.arguments),
            "results": len(entry.results),
            "arena": self._size(entry.arena),
            "buffers": [self._buffer(buffer) for buffer in entry.buffers],
            "steps": self._steps(entry.steps),
        }

    def _size(self, size: Dim) -> object:
        return _json(size, self._names)

    def _buffer(self, buffer: Buffer) -> dict[str, object]:
        item = dim(buffer.dtype.size)
        data: dict[str, object] = {
            "role": buffer.role.value,
            "type": buffer.dtype.name,
            "scalar": not buffer.shape,
            "bytes": self._size(product(buffer.shape) * item),
            "room": self._size(upper_elements(buffer.shape, self._most) * item),
        }
        match buffer.role:
            case BufferRole.ARGUMENT | BufferRole.RESULT:
                data["index"] = buffer.index
            case BufferRole.RESOURCE:
                data["resource"] = buffer.resource
            case BufferRole.CONSTANT:
                data["place"] = self._offsets[buffer.index]
            case BufferRole.ARENA:
                data["place"] = self._size(buffer.offset)
            case BufferRole.REGISTER:
                pass
        return data

    def _steps(self, steps: Sequence[Step]) -> list[list[object]]:
        """Iterative: what is pending are steps, and marks that are finished."""
        flat: list[list[object]] = []
        pending: list[Pending] = list(reversed(steps))
        while pending:
            step = pending.pop()
            match step:
                case list():
                    flat.append(step)
                case If():
                    flat.append(["if", step.condition])
                    pending += _block(step.then, ["else"], step.otherwise)
                case While():
                    flat.append(["while"])
                    pending += _block(step.condition, ["do", step.test], step.body)
                case For():
                    flat.append(["for", step.index, step.start, step.stop])
                    pending += (END, *reversed(step.body))
                case Locked():
                    pending += reversed(step.body)
                case _:
                    flat.append(self._plain(step))
        return flat

    def _plain(self, step: Launch | Copy | Check | Measure | HostCall) -> list[object]:
        match step:
            case Launch():
                data: list[object] = [
                    "launch",
                    step.kernel,
                    list(step.buffers),
                    [self._size(size) for size in step.sizes],
                ]
                return [*data, *self._convolution(step)]
            case Copy():
                return ["copy", step.source, step.target]
            case Check():
                return ["check", step.condition, step.fault]
            case Measure():
                return ["measure", self._names[step.symbol], step.source, self._size(step.most), step.fault]
            case HostCall():
                extents = [self._size(size) for size in self._sites[step.site].varying_extents]
                return ["call", step.site, list(step.inputs), list(step.outputs), extents]

    def _convolution(self, step: Launch) -> list[object]:
        """What convolution a launch makes, if a library may make it."""
        choice, faults = self._choices[step.kernel], self._texts[step.kernel].faults
        if choice.convolution is None or id(step) not in self._in_line:
            return []
        convolution_plan = convolution_data(
            self._entry, step, choice.convolution, choice, faults=faults, size=self._size
        )
        return [] if convolution_plan is None else [convolution_plan]


def _block(first: Sequence[Step], middle: list[object], second: Sequence[Step]) -> list[Pending]:
    """The two halves of a block, last step first."""
    return [END, *reversed(second), middle, *reversed(first)]
