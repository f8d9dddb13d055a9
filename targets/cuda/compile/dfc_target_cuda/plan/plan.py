"""From a program to its plan: the launches, copies and control flow of each entry as `dfc_runtime.plans` has them.

Assumes a scheduled program, and the text of each of its kernels. Guarantees that whatever `dfc_runtime.plans.plan`
checks holds. Locks are left out: calls of one device queue up, and state that programs share is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.bundle.formulas import formula, name_symbols
from dfc.diagnostics.diagnostic import CompileError, error
from dfc.ir.dims import Dim, Symbol, dim, product
from dfc.ir.measured import upper_elements
from dfc.kernels import program as scheduled
from dfc.kernels.matching.convolutions import launches_in_line
from dfc.kernels.program import DEFAULT_CONTAINER, Buffer, BufferRole, EntryProgram, Program
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.plans.convolutions import ConvolutionPlan
from dfc_runtime.plans.plan import VERSION, BufferPlan, EntryPlan, KernelPlan, Plan, write_plan
from dfc_runtime.plans.steps import Check, Copy, For, HostCall, If, Launch, Measure, Step, While
from dfc_target_cuda.libraries.convolutions import convolution_plan
from dfc_target_cuda.libraries.products import product_plan
from dfc_target_cuda.libraries.splitting import Choice

Accesses = Sequence[Sequence[str]]


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
    kernels = tuple(_kernel(*each) for each in zip(texts, access, choices, strict=True))
    entries = tuple(_Entry(program, entry, constant_offsets, choices, texts).plan() for entry in program.entries)
    return write_plan(Plan(VERSION, kernels, entries))


def _refuse_shared(program: Program) -> None:
    """State that several programs share lies in memory of the host, where their locks are."""
    for resource in program.resources.values():
        if resource.container != DEFAULT_CONTAINER:
            text = f"`{resource.name}` is in the shared container {resource.container!r}, and the program is for a GPU"
            helps = "programs share state on the processor only: compile with --target cpu, or leave out `container`"
            raise CompileError([error("E1003", f"{text}: {helps}", resource.span)])


def _kernel(text: KernelText, access: Sequence[str], choice: Choice) -> KernelPlan:
    names = {Symbol(f"d{number}"): f"d{number}" for number in range(text.sizes)}
    product = choice.product
    return KernelPlan(
        name=text.name,
        access=tuple(access),
        sizes=text.sizes,
        points=formula(text.geometry.points, names),
        per_block=text.geometry.per_block,
        threads=text.geometry.threads,
        most=text.geometry.most,
        workspace=formula(text.workspace, names),
        guarded=text.guarded,
        faults=text.faults,
        product=None if product is None else product_plan(product, choice, lambda size: formula(size, names)),
    )


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

    def plan(self) -> EntryPlan:
        entry = self._entry
        return EntryPlan(
            dims=tuple(self._names[symbol] for symbol in entry.dims),
            measured=tuple((self._names[symbol], self._size(most)) for symbol, most in entry.measured),
            arguments=len(entry.arguments),
            results=len(entry.results),
            arena=self._size(entry.arena),
            buffers=tuple(map(self._buffer, entry.buffers)),
            steps=self._steps(entry.steps),
        )

    def _size(self, size: Dim) -> Formula:
        return formula(size, self._names)

    def _sizes(self, sizes: Sequence[Dim]) -> tuple[Formula, ...]:
        return tuple(map(self._size, sizes))

    def _buffer(self, buffer: Buffer) -> BufferPlan:
        item, role = dim(buffer.dtype.size), buffer.role
        offset = dim(self._offsets[buffer.index]) if role is BufferRole.CONSTANT else buffer.offset
        return BufferPlan(
            role=role.value,
            type=buffer.dtype.name,
            scalar=not buffer.shape,
            bytes=self._size(product(buffer.shape) * item),
            room=self._size(upper_elements(buffer.shape, self._most) * item),
            offset=self._size(offset),
            index=buffer.index if role in (BufferRole.ARGUMENT, BufferRole.RESULT) else -1,
            resource=buffer.resource if role is BufferRole.RESOURCE else "",
        )

    def _steps(self, steps: Sequence[scheduled.Step]) -> tuple[Step, ...]:
        planned: list[Step] = []
        for step in steps:
            match step:
                case scheduled.Locked():
                    planned += self._steps(step.body)
                case scheduled.If():
                    planned.append(If(step.condition, self._steps(step.then), self._steps(step.otherwise)))
                case scheduled.While():
                    planned.append(While(self._steps(step.condition), step.test, self._steps(step.body)))
                case scheduled.For():
                    planned.append(For(step.index, step.start, step.stop, self._steps(step.body)))
                case scheduled.Parallel():  # one after the other does the same
                    planned += [each for branch in step.branches for each in self._steps(branch)]
                case _:
                    planned.append(self._plain(step))
        return tuple(planned)

    def _plain(
        self,
        step: scheduled.Launch | scheduled.Copy | scheduled.Check | scheduled.Measure | scheduled.HostCall,
    ) -> Step:
        match step:
            case scheduled.Launch():
                return Launch(step.kernel, step.buffers, self._sizes(step.sizes), self._convolution(step))
            case scheduled.Copy():
                return Copy(step.source, step.target)
            case scheduled.Check():
                return Check(step.condition, step.fault)
            case scheduled.Measure():
                return Measure(self._names[step.symbol], step.source, self._size(step.most), step.fault)
            case scheduled.HostCall():
                extents = self._sizes(self._sites[step.site].varying_extents)
                return HostCall(step.site, step.inputs, step.outputs, extents)

    def _convolution(self, step: scheduled.Launch) -> ConvolutionPlan | None:
        """What convolution a launch makes, if a library may make it."""
        choice, faults = self._choices[step.kernel], self._texts[step.kernel].faults
        if choice.convolution is None or id(step) not in self._in_line:
            return None
        return convolution_plan(self._entry, step, choice.convolution, choice, faults=faults, size=self._size)
