"""What is known of a routine without a machine: its sizes, its scratch memory, how it is printed and renamed."""

from __future__ import annotations

from dfc.driver.pipeline import optimise
from dfc.ir.dims import Symbol, dim
from dfc.kernels.canonical import canonical
from dfc.kernels.contractions import kernel_faults
from dfc.kernels.form import ROUTINE, ContractKernel, LoopKernel, RoutineKernel
from dfc.kernels.printer import kernel_lines
from dfc.kernels.program import Launch, walk
from dfc.kernels.routines import routine_kernel, routine_work
from dfc.kernels.traffic import launch_bytes
from dfc.lower.program import lower_graph
from tests.support.building import graph_of

S, N = dim(Symbol("S")), dim(Symbol("N"))
TEXT = """
entry f[S, N](a: f32[S, N, N], b: f32[S, N]) -> (x: f32[S, N]) { return solve(a, b) }
"""


def test_sizes_follow_from_the_operands() -> None:
    kernel = routine_kernel("solve", [(S, N, N), (S, N), (S, N)])
    assert [(axis.name, axis.extent) for axis in kernel.axes] == [("stack", S), ("n", N), ("columns", dim(1))]
    assert [operand.access for operand in kernel.operands] == ["read", "read", "write", "write"]
    assert not kernel_faults(kernel)
    sizes = {Symbol("S"): 3, Symbol("N"): 10}
    assert kernel.operands[-1].shape[0].evaluate(sizes) == 3 * (100 + 10 * 33) + 1
    assert routine_work(kernel).evaluate(sizes) == 3 * 100 * 11


def test_equal_routines_are_one_kernel_that_prints() -> None:
    first, second = (canonical(routine_kernel("qr", [(d, N), (d, N), (N, N)]))[0] for d in (S, dim(Symbol("M"))))
    assert first == second
    (line,) = kernel_lines(first, 0)
    assert line.startswith("kernel 0 routine qr(a: f64[d0, d1] read, b: f64[d0, d1] write, c: f64[d1, d1] write, d: ")
    assert line.endswith("over stack < 1, m < d0, n < d1")


def test_a_target_gets_a_routine_in_f64_or_loops() -> None:
    graph = optimise(graph_of(TEXT))
    whole, apart = lower_graph(graph, forms=[ROUTINE]), lower_graph(graph)
    routines = [kernel for kernel in whole.kernels if isinstance(kernel, RoutineKernel)]
    assert [kernel.name for kernel in routines] == ["solve"]
    assert all(isinstance(kernel, LoopKernel | ContractKernel) for kernel in apart.kernels)


def test_scratch_memory_is_no_traffic() -> None:
    program = lower_graph(optimise(graph_of(TEXT)), forms=[ROUTINE])
    (entry,) = program.entries
    launches = [step for step in walk(entry.steps) if isinstance(step, Launch)]
    (launch,) = (one for one in launches if isinstance(program.kernels[one.kernel], RoutineKernel))
    moved = launch_bytes(program.kernels[launch.kernel], launch, entry.buffers)
    assert moved.evaluate({Symbol("S"): 2, Symbol("N"): 5}) == 8 * 2 * (25 + 5 + 5)
