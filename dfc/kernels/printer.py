"""Programs, kernels and steps as readable text: for `dfc show --kernels`, messages and golden tests.

    kernel 0 reduce(x: f32[d0, 10] read, y: f32[d0, 10] write) over i0 < d0
      for i1 < 10:
        %0 = load x[i0, i1]
        fold max %0 -> f32

Guarantees that equal programs print equally; nothing reads this form back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dfc.ir.dims import ZERO, Dim
from dfc.ir.dtypes import DType
from dfc.kernels.body import (
    Accumulated,
    Affine,
    Apply,
    AxisIndex,
    Computed,
    Index,
    Instruction,
    Load,
    Number,
    Philox,
    Reduced,
    Size,
)
from dfc.kernels.form import (
    Axis,
    ContractKernel,
    Kernel,
    LoopKernel,
    MatrixOperand,
    Operand,
    RoutineKernel,
    RowBlockKernel,
    Stage,
    Store,
)
from dfc.kernels.program import (
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
    Parallel,
    Program,
    Step,
    While,
)


def print_program(program: Program) -> str:
    """All kernels, then the steps of every entry."""
    lines = [f"program {program.name}"]
    for number, kernel in enumerate(program.kernels):
        lines += ["", *kernel_lines(kernel, number)]
    for entry in program.entries:
        lines += ["", *entry_lines(entry)]
    return "\n".join([*lines, *table_lines(program)]) + "\n"


def table_lines(program: Program) -> list[str]:
    """The sites of host calls and the fault sites, which everything else mentions by number."""
    sites = list(_sites(program))
    lines = ["", *sites] if sites else []
    faults = [f"fault {number} {fault.kind}: {fault.message}" for number, fault in enumerate(program.faults)]
    return [*lines, "", *faults] if faults else lines


def _sites(program: Program) -> Iterator[str]:
    for number, site in enumerate(program.sites):
        listing = ", ".join(f"{name} = {value!r}" for name, value in site.attributes)
        yield f"host site {number} {site.kind}({listing}): {', '.join(site.names)}"


def kernel_lines(kernel: Kernel, number: int) -> list[str]:
    operands = ", ".join(f"{slot(n)}: {_operand(o)}" for n, o in enumerate(kernel.operands))
    if isinstance(kernel, RowBlockKernel):
        head = f"kernel {number} row blocks({operands}) over {_axes(kernel.axes)}"
        return [head, *(f"  {line}" for line in _row_blocks(kernel))]
    if isinstance(kernel, RoutineKernel):
        return [f"kernel {number} routine {kernel.name}({operands}) over {_axes(kernel.axes)}"]
    if isinstance(kernel, ContractKernel):
        return [f"kernel {number} contract({operands}) over {_axes(kernel.axes)}", *_contract(kernel)]
    outer = _axes(kernel.axes[: kernel.outer])
    head = f"kernel {number} {kernel.form}({operands})" + (f" over {outer}" if outer else "")
    return [head, *(line for stage in kernel.stages for line in _stage(kernel, stage))]


def _row_blocks(kernel: RowBlockKernel) -> Iterator[str]:
    first = len(kernel.operands)
    for number, panel in enumerate(kernel.panels):
        yield f"panel {slot(first + number)}: {typed(panel.dtype, panel.shape)}"
    for number, step in enumerate(kernel.steps):
        bound = ", ".join(f"{slot(own)} = {slot(operand)}" for own, operand in enumerate(step.operands))
        yield f"step {number} by rows {step.kernel.axes[step.rows].name} with {bound}"
        yield from (f"  {line}" for line in kernel_lines(step.kernel, number))


def slot(number: int) -> str:
    """The letter of an operand slot."""
    return chr(ord("a") + number) if number < 26 else f"p{number}"


def _operand(operand: Operand) -> str:
    return f"{typed(operand.dtype, operand.shape)} {operand.access}"


def typed(dtype: DType, shape: Sequence[Dim]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]" if shape else str(dtype)


def _axes(axes: Sequence[Axis]) -> str:
    return ", ".join(f"{axis.name} < {axis.extent}" for axis in axes)


def _contract(kernel: ContractKernel) -> Iterator[str]:
    names = [axis.name for axis in kernel.axes]
    factors = kernel.a, kernel.b
    a, b = (f"{slot(f.operand)}[{_indices(f.index, [*names, *sub_axis_names(f, names)])}]" for f in factors)
    yield f"  sum over {names[-1]} of {a} * {b} in {kernel.accumulator}"
    for factor in factors:
        yield from _map(factor, names)
    yield from (f"    {line}" for line in _body(kernel.epilogue, names))
    yield from (f"    {_store(store, names)}" for store in kernel.stores)


def sub_axis_names(factor: MatrixOperand, names: Sequence[str]) -> list[str]:
    """Those of axis `i0` are `i0.0`, `i0.1`, .."""
    return [f"{names[split.axis]}.{n}" for split in factor.splits for n in range(len(split.extents))]


def _map(factor: MatrixOperand, names: Sequence[str]) -> Iterator[str]:
    """What the index map of a factor has besides its indices."""
    for split in factor.splits:
        name = names[split.axis]
        parts = ", ".join(f"{name}.{n} < {extent}" for n, extent in enumerate(split.extents))
        yield f"    {slot(factor.operand)} splits {name} into {parts}"
    if factor.inside:
        yield f"    {slot(factor.operand)} is 0 unless axis {_stepped(factor.inside)} inside"


def _stage(kernel: LoopKernel, stage: Stage) -> Iterator[str]:
    names = [axis.name for axis in kernel.axes]
    inner = _axes([kernel.axes[axis] for axis in stage.axes])
    yield f"  for {inner}:" if inner else "  once:"
    yield from (f"    {line}" for line in _body(stage.body, names))
    for reduction in stage.reductions:
        yield f"    fold {reduction.combine} %{reduction.value} -> {reduction.dtype}"
    yield from (f"    {_store(store, names)}" for store in stage.stores)


def _body(body: Sequence[Instruction], names: Sequence[str]) -> Iterator[str]:
    for number, instruction in enumerate(body):
        yield f"%{number} = {_instruction(instruction, names)}"


def _instruction(instruction: Instruction, names: Sequence[str]) -> str:
    operation, dtype = instruction.operation, instruction.dtype
    arguments = ", ".join(f"%{a}" for a in instruction.arguments)
    match operation:
        case Load():
            return f"load {slot(operation.operand)}[{_indices(operation.index, names)}]{_mask(operation)}"
        case Number():
            return f"{np.frombuffer(operation.bits, dtype.numpy)[0]} as {dtype}"
        case AxisIndex():
            return names[operation.axis]
        case Size():
            return f"size {operation.size}"
        case Reduced():
            return f"fold {operation.reduction} of stage {operation.stage}"
        case Accumulated():
            return "total"
        case Philox():
            return f"{operation.distribution}({arguments}) as {dtype}"
        case Apply():
            suffix = f" as {dtype}" if operation.function == "cast" else ""
            fault = f" or fault {operation.fault}" if operation.fault >= 0 else ""
            return f"{operation.function}({arguments}){suffix}{fault}"


def _mask(load: Load) -> str:
    if load.mask is None:
        return ""
    return f" where axis {_stepped(load.mask.indices)} inside, else %{load.mask.otherwise}"


def _stepped(indices: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{axis}" if step == 1 else f"{axis} by {step}" for axis, step in indices)


def _indices(index: Sequence[Index], names: Sequence[str]) -> str:
    return ", ".join(_index(i, names) for i in index)


def _index(index: Index, names: Sequence[str]) -> str:
    if isinstance(index, Computed):
        return f"%{index.instruction}" + (f" or fault {index.fault}" if index.fault >= 0 else "")
    return affine(index, names)


def affine(index: Affine, names: Sequence[str]) -> str:
    parts = [names[axis] if c == 1 else f"{c} * {names[axis]}" for axis, c in index.terms]
    if index.offset != ZERO or not parts:
        parts.append(str(index.offset))
    return " + ".join(parts)


def _store(store: Store, names: Sequence[str]) -> str:
    sign = "+=" if store.combine == "add" else ":="
    return f"{slot(store.operand)}[{_indices(store.index, names)}] {sign} %{store.value}"


def entry_lines(entry: EntryProgram) -> list[str]:
    lines = [f"entry {entry.name}: arena {entry.arena} bytes, at least {entry.largest_live}"]
    lines += [f"  buffer {number}: {_buffer(b)}" for number, b in enumerate(entry.buffers)]
    pending: list[tuple[int, Step | str]] = [(1, step) for step in reversed(entry.steps)]
    while pending:
        depth, step = pending.pop()
        indent = "  " * depth
        if isinstance(step, str):
            lines.append(indent + step)
            continue
        text, parts = _step(step, entry)
        lines.append(indent + text)
        inner = [(depth + extra, part) for extra, part in parts]
        pending.extend(reversed(inner))
    return lines


def _buffer(buffer: Buffer) -> str:
    where = buffer.role.value
    if buffer.role is BufferRole.ARENA:
        where = f"arena at {buffer.offset}"
    elif buffer.role is BufferRole.RESOURCE:
        where = f"state {buffer.resource}"
    elif buffer.index >= 0:
        where = f"{where} {buffer.index}"
    return f"{typed(buffer.dtype, buffer.shape)} {buffer.name or '_'}, {where}"


def _step(step: Step, entry: EntryProgram) -> tuple[str, list[tuple[int, Step | str]]]:
    match step:
        case Launch():
            sizes = f" with {', '.join(f'd{n} = {d}' for n, d in enumerate(step.sizes))}" if step.sizes else ""
            return f"launch {step.kernel}({', '.join(map(str, step.buffers))}){sizes}", []
        case Copy():
            return f"copy {step.source} to {step.target}", []
        case If():
            then: list[tuple[int, Step | str]] = [(1, inner) for inner in step.then]
            return f"if {step.condition}:", [*then, (0, "else:"), *((1, inner) for inner in step.otherwise)]
        case While():
            before: list[tuple[int, Step | str]] = [(1, inner) for inner in step.condition]
            return "while:", [*before, (0, f"holds {step.test}:"), *((1, inner) for inner in step.body)]
        case For():
            return f"for {step.index} from {step.start} to {step.stop}:", [(1, inner) for inner in step.body]
        case Check():
            return f"check {step.condition} or fault {step.fault}", []
        case Measure():
            return f"measure {step.symbol} = {step.source} at most {step.most} or fault {step.fault}", []
        case Locked():
            how = "alone" if step.exclusive else "shared"
            return f"locked {', '.join(step.containers)} {how}:", [(1, inner) for inner in step.body]
        case Parallel():
            lines: list[tuple[int, Step | str]] = []
            for number, branch in enumerate(step.branches):
                lines += [(1, f"branch {number}:"), *((2, inner) for inner in branch)]
            return "parallel:", lines
        case HostCall():
            inputs, outputs = (", ".join(map(str, numbers)) for numbers in (step.inputs, step.outputs))
            return f"call host site {step.site}({inputs}){f' to {outputs}' if outputs else ''}", []
