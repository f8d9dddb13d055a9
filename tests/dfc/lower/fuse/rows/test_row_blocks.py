"""Which kernels become one over blocks of rows, and what has no memory then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from dfc.driver.pipeline import optimise
from dfc.ir.dims import Symbol
from dfc.kernels.form import ROW_BLOCKS, RowBlockKernel
from dfc.kernels.printer import print_program
from dfc.kernels.program import BufferRole, Program
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.buffers.verify import verify_program
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import kernels
from dfc.lower.schedule.schedule import schedule
from dfc.lower.verify import verify_fused, verify_scheduled
from tests.support.attention import attention, gradients
from tests.support.building import graph_of
from tests.support.kernel_interpreter import run
from tests.support.lowering import close

HEAD = """dfg 1
fn weights[H, N, M, D](q: f32[H, N, D], k: f32[H, M, D]) -> f32[H, N, M] {
  return softmax(einsum("hnd,hmd->hnm", q, k) * rsqrt(D as f32))
}
"""
FORWARD = """
readonly entry e[H, N, M, D](q: f32[H, N, D], k: f32[H, M, D], v: f32[H, M, D]) -> f32[H, N, D] {
  return einsum("hnm,hmd->hnd", weights(q, k), v)
}
"""
BACKWARD = """
readonly entry e[H, N, M, D](q: f32[H, N, D], k: f32[H, M, D], v: f32[H, M, D], g: f32[H, N, D])
    -> (a: f32[H, N, D], b: f32[H, M, D], c: f32[H, M, D]) {
  let loss = sum(einsum("hnm,hmd->hnd", weights(q, k), v) * g)
  let a, b, c = grad(loss, [q, k, v])
  return a, b, c
}
"""
SIZES = {"H": 2, "N": 5, "M": 6, "D": 4}


def lowered(text: str, forms: Sequence[str] = (ROW_BLOCKS,)) -> Program:
    """The program of an entry, checked behind each stage."""
    fused = fuse(optimise(graph_of(HEAD + text)), forms=forms)
    verify_fused(fused)
    steps = schedule(fused)
    verify_scheduled(steps)
    program = assign_buffers(steps)
    verify_program(program)
    return program


def blocks(program: Program) -> list[RowBlockKernel]:
    return [kernel for kernel in program.kernels if isinstance(kernel, RowBlockKernel)]


def large(program: Program, sizes: Mapping[str, int] | None = None) -> list[str]:
    """What lies in the arena and has as many elements as all scores."""
    sizes = sizes if sizes is not None else SIZES
    known = {Symbol(name): size for name, size in sizes.items()}
    least = sizes["H"] * sizes["N"] * sizes["M"]
    return [
        buffer.name
        for buffer in program.entries[0].buffers
        if buffer.role is BufferRole.ARENA and np.prod([d.evaluate(known) for d in buffer.shape]) >= least
    ]


def feeds(count: int) -> list[Any]:
    generator = np.random.default_rng(7)
    shapes = [(2, 5, 4), (2, 6, 4), (2, 6, 4), (2, 5, 4)]
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes[:count]]


def test_attention_is_one_kernel_without_scores_in_memory() -> None:
    program = lowered(FORWARD)
    (kernel,) = blocks(program)
    assert len(kernel.steps) == 3 and large(program) == []
    assert len(kernel.panels) == 1, "exponentials and weights lie over the scores"


def test_attention_means_what_it_means_apart() -> None:
    q, k, v = feeds(3)
    for forms in ((), (ROW_BLOCKS,)):
        ran = run(lowered(FORWARD, forms), "e", [q, k, v], {}, SIZES)
        np.testing.assert_allclose(ran.results[0], attention(q, k, v), rtol=1e-5, atol=1e-6)


def test_gradients_of_attention_need_no_memory_of_the_size_of_the_scores() -> None:
    program = lowered(BACKWARD)
    (kernel,) = blocks(program)
    assert sum(step.sums_over_rows for step in kernel.steps) == 2 and large(program) == []
    arrays = feeds(4)
    ran = run(program, "e", arrays, {}, SIZES)
    close(ran.results, [each.astype(np.float32) for each in gradients(*arrays)])


TWO_PHASES = """
readonly entry e[H, N, M, D](q: f32[H, N, D], k: f32[H, M, D], v: f32[H, M, D]) -> (a: f32[H, N, D], b: f32[H, M, D]) {
  let y = einsum("hnm,hmd->hnd", weights(q, k), v)
  let loss = square(sum(y * y))
  let a, b = grad(loss, [q, k])
  return a, b
}
"""


def test_a_gradient_that_waits_for_all_rows_computes_the_weights_again() -> None:
    program = lowered(TWO_PHASES)
    first, second = blocks(program)
    assert len(first.steps) == 3 and len(second.steps) > 4 and large(program) == []
    arrays = feeds(3)
    apart, joined = (run(lowered(TWO_PHASES, forms), "e", arrays, {}, SIZES) for forms in ((), (ROW_BLOCKS,)))
    close(joined.results, apart.results)


def test_weights_that_are_a_result_lie_in_memory_and_the_scores_do_not() -> None:
    program = lowered("""
readonly entry e[H, N, M, D](q: f32[H, N, D], k: f32[H, M, D], v: f32[H, M, D])
    -> (y: f32[H, N, D], p: f32[H, N, M]) {
  let p = weights(q, k)
  return einsum("hnm,hmd->hnd", p, v), p
}
""")
    (kernel,) = blocks(program)
    assert len(kernel.steps) == 2 and large(program) == []


def test_a_softmax_down_the_columns_stays_apart() -> None:
    program = lowered("""
readonly entry e[H, N, M, D](q: f32[H, N, D], k: f32[H, M, D], v: f32[H, M, D]) -> f32[H, N, D] {
  return einsum("hnm,hmd->hnd", softmax(einsum("hnd,hmd->hnm", q, k), axis = 1), v)
}
""")
    assert not blocks(program)


def test_layers_with_large_weights_stay_apart() -> None:
    """Each block of rows would read the weights again."""
    program = lowered("""
readonly entry e[N](x: f32[N, 512], a: f32[512, 2048], b: f32[2048, 512]) -> f32[N, 512] {
  return relu(x @ a) @ b
}
""")
    assert not blocks(program)


def test_a_target_that_lacks_the_form_gets_none() -> None:
    assert not blocks(lowered(FORWARD, ()))


def test_rows_that_are_too_long_for_a_thread_stay_apart() -> None:
    program = lowered("""
readonly entry e[N](q: f32[N, 4], k: f32[1000000, 4], v: f32[1000000, 4]) -> f32[N, 4] {
  return softmax(q @ transpose(k)) @ v
}
""")
    assert not blocks(program)


def test_the_decision_has_its_figures() -> None:
    fused = fuse(optimise(graph_of(HEAD + FORWARD)), forms=[ROW_BLOCKS])
    reasons = [reason for part in kernels(fused.entries[0].block) for reason in part.reasons]
    assert any("stays in cache, some rows at a time: saves" in reason for reason in reasons), reasons


def test_the_form_prints_its_steps_and_panels() -> None:
    text = print_program(lowered(FORWARD))
    assert "row blocks(" in text and "  panel g: f32[d0, d1, " in text and "  step 2 by rows i1 with" in text


@pytest.mark.parametrize("sizes", [{"H": 1, "N": 1, "M": 1, "D": 1}, {"H": 2, "N": 0, "M": 3, "D": 2}])
def test_one_row_and_none(sizes: Mapping[str, int]) -> None:
    h, n, m, d = sizes.values()
    generator = np.random.default_rng(3)
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in ((h, n, d), (h, m, d), (h, m, d))]
    ran = run(lowered(FORWARD), "e", arrays, {}, sizes)
    np.testing.assert_allclose(ran.results[0], attention(*arrays), rtol=1e-5, atol=1e-6)


def test_a_phase_whose_rows_are_too_long_keeps_the_memory_of_what_it_reads() -> None:
    """Forward, one row fits a cache; backward it does not, and reads what forward makes."""
    text = """
readonly entry e(q: f32[64, 2], k: f32[100000, 2], v: f32[100000, 2]) -> f32[64, 2] {
  let p = softmax(q @ transpose(k))
  let loss = sqrt(sum(square(p @ v)))
  return grad(loss, q)
}
"""
    lowered(text)  # verified: nothing is read before it is written


def test_a_mask_of_indices_is_computed_where_it_is_used() -> None:
    text = BACKWARD.replace(
        "weights(q, k)", "select((iota(i32[N])[:, new] >= iota(i32[M])[new, :])[new, :, :], weights(q, k), 0)"
    )
    program = lowered(text)
    assert not any(buffer.dtype.is_bool for buffer in program.entries[0].buffers)
