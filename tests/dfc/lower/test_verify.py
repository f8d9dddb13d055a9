"""The verifiers behind fuse, schedule and buffers: what the compiler makes passes, what is broken in it is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc.driver.pipeline import optimise
from dfc.ir.dims import dim
from dfc.kernels.body import Affine, Load
from dfc.kernels.form import LoopKernel
from dfc.kernels.program import BufferRole, Launch, Program
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.buffers.verify import verify_program
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import Fused, FusedBlock, FusedKernel
from dfc.lower.schedule.schedule import Scheduled, schedule
from dfc.lower.schedule.unallocated import UnallocatedLocked
from dfc.lower.verify import LoweringError, verify_fused, verify_scheduled
from tests.support.building import graph_of

TEXT = """dfg 1

param w: f32[8, 8] = uniform(0, 1)
var seen: i64 = 0

entry count[B](x: f32[B, 8]) -> f32[B, 8] with concurrent = true {
  seen += 1
  return x @ w
}

entry chain[B](x: f32[B, 8], other: i32[B]) -> (y: f32[B, 8], z: f32, n: i32) {
  let a = exp(x @ w)
  let b = a @ w
  let c = sin(b @ w)
  let d = loop d = c for i in 0..5 { d = tanh(d @ w) + a }
  return d @ w, sum(b), sum(other)
}
"""


def fused() -> Fused:
    return fuse(optimise(graph_of(TEXT)))


def with_block(before: Fused, name: str, block: FusedBlock) -> Fused:
    entries = (replace(each, block=block) if each.entry.name == name else each for each in before.entries)
    return replace(before, entries=tuple(entries))


def block_of(program: Fused, name: str = "chain") -> FusedBlock:
    return next(each.block for each in program.entries if each.entry.name == name)


def test_what_the_compiler_makes_passes() -> None:
    program = fused()
    verify_fused(program)
    steps = schedule(program)
    verify_scheduled(steps)
    verify_program(assign_buffers(steps))


def test_a_kernel_that_runs_before_what_it_reads_is_found() -> None:
    program = fused()
    kernels = block_of(program)
    with pytest.raises(LoweringError, match="is read before it is written"):
        verify_fused(with_block(program, "chain", kernels[::-1]))


def test_a_kernel_bound_to_memory_of_another_type_is_found() -> None:
    program = fused()
    first = next(part for part in block_of(program) if isinstance(part, FusedKernel))
    other = next(each.arguments[1] for each in program.entries if each.entry.name == "chain")
    assert other is not None
    broken = replace(first, views=(other, *first.views[1:]))
    with pytest.raises(LoweringError, match="is bound to"):
        verify_fused(with_block(program, "chain", (broken,)))


def test_a_load_with_too_few_indices_and_an_instruction_of_a_later_one_are_found() -> None:
    program = fused()
    first = next(
        part
        for each in program.entries
        for part in each.block
        if isinstance(part, FusedKernel) and isinstance(part.kernel, LoopKernel) and part.kernel.stages[0].body
    )
    kernel = first.kernel
    assert isinstance(kernel, LoopKernel)
    stage = kernel.stages[0]
    later = replace(stage.body[0], arguments=(len(stage.body),))
    short = replace(stage.body[0], operation=Load(0, (Affine(),) * (1 + len(kernel.operands[0].shape))))
    for body in ((later, *stage.body[1:]), (short, *stage.body[1:])):
        broken = replace(kernel, stages=(replace(stage, body=body), *kernel.stages[1:]))
        with pytest.raises(LoweringError, match=r"later instruction|indices"):
            verify_fused(with_block(program, program.entries[0].entry.name, (replace(first, kernel=broken),)))


def test_state_of_a_concurrent_entry_that_is_used_without_its_lock_is_found() -> None:
    made = schedule(fused())
    entry = next(each for each in made.entries if each.entry.name == "count")
    assert any(isinstance(step, UnallocatedLocked) for step in entry.steps)
    unlocked = [
        inner for step in entry.steps for inner in (step.body if isinstance(step, UnallocatedLocked) else [step])
    ]
    broken = Scheduled(made.tables, tuple(replace(e, steps=unlocked) if e is entry else e for e in made.entries))
    with pytest.raises(LoweringError, match="without the lock of its container"):
        verify_scheduled(broken)


def planned() -> Program:
    return assign_buffers(schedule(fused()))


def test_memory_that_two_living_values_share_is_found() -> None:
    program = planned()
    entry = next(each for each in program.entries if each.name == "chain")
    entry.buffers = [replace(b, offset=dim(0)) if b.role is BufferRole.ARENA else b for b in entry.buffers]
    with pytest.raises(LoweringError, match="something else lies by then"):
        verify_program(program)


def test_memory_outside_of_the_arena_is_found() -> None:
    program = planned()
    entry = next(each for each in program.entries if each.name == "chain")
    entry.arena = dim(0)
    with pytest.raises(LoweringError, match="outside of the arena"):
        verify_program(program)


def test_numbers_of_no_kernel_and_no_buffer_are_found() -> None:
    for change in ({"kernel": 99}, {"buffers": (99,)}):
        program = planned()
        entry = program.entries[-1]
        position = next(n for n, step in enumerate(entry.steps) if isinstance(step, Launch))
        steps = list(entry.steps)
        steps[position] = replace(steps[position], **change)  # type: ignore[type-var]
        entry.steps = tuple(steps)
        with pytest.raises(LoweringError, match=r"there is no kernel 99|buffers for|there is no buffer 99"):
            verify_program(program)
