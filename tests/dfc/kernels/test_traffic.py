"""The memory that calls move: what is counted by hand for small programs."""

from __future__ import annotations

from dfc.driver.pipeline import optimise
from dfc.kernels.form import ROW_BLOCKS
from dfc.kernels.traffic import CallTraffic, call_traffic
from dfc.lower.program import lower_graph
from tests.support.building import graph_of
from tests.support.simulated_programs import program_of


def traffic(text: str, name: str) -> CallTraffic:
    program = program_of(text)
    return call_traffic(program, next(entry for entry in program.entries if entry.name == name))


def test_a_kernel_reads_its_operands_and_writes_its_result_once() -> None:
    found = traffic("readonly entry scale[N](x: f32[N], y: f64[N]) -> f64[N] {\n  return (x as f64) * y\n}\n", "scale")
    assert (str(found.once.size), found.once.steps, found.in_iterations.steps) == ("20 * N", 1, 0)
    assert (str(found.feeds), str(found.results)) == ("12 * N", "8 * N")


def test_a_row_that_is_worked_on_in_place_is_written_once() -> None:
    found = traffic("readonly entry p[B](x: f32[B, 64]) -> f32[B, 64] {\n  return softmax(x)\n}\n", "p")
    assert (str(found.once.size), found.once.steps) == ("512 * B", 1)


def test_what_is_updated_is_read_and_written() -> None:
    found = traffic("var w: f32[100] = 0\nentry add(x: f32[100]) {\n  w += x\n}\n", "add")
    assert found.once.size.constant == 3 * 400


def test_rows_that_are_looked_up_count_as_often_as_they_are_read() -> None:
    text = "param table: f32[1000, 8] = 0\nreadonly entry rows[B](ids: i64[B]) -> f32[B, 8] {\n  return table[ids]\n}\n"
    found = traffic(text, "rows").once.size
    size = found.symbols()
    (batch,) = size
    assert found.evaluate({batch: 10}) == 10 * 8 + 2 * 10 * 32
    assert found.evaluate({batch: 5000}) == 5000 * 8 + 32_000 + 5000 * 32, "no more than there is"


def test_iterations_of_loops_are_counted_apart() -> None:
    text = """
readonly entry powers(x: f32[64], n: i64) -> f32[64] {
  let last = loop y = x for i in 0..n {
    y = y * x
  }
  return last
}
"""
    found = traffic(text, "powers")
    assert found.in_iterations.size.constant is not None and found.in_iterations.size.constant >= 3 * 256
    assert found.in_iterations.steps >= 1


def test_row_blocks_move_nothing_between_their_steps() -> None:
    text = """dfg 1

readonly entry mixed[N](q: f32[8, N, 64], k: f32[8, N, 64], v: f32[8, N, 64]) -> (y: f32[8, N, 64]) {
  return softmax(q @ transpose(k, [0, 2, 1])) @ v
}
"""
    program = lower_graph(optimise(graph_of(text)), forms=[ROW_BLOCKS])
    assert [kernel.form for kernel in program.kernels] == [ROW_BLOCKS]
    assert str(call_traffic(program, program.entries[0]).once.size) == f"{4 * 4 * 8 * 64} * N"
