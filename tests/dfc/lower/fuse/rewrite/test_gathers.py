"""Rows are picked before a slice, a transposition or a cheap function is applied to what they are picked from."""

from __future__ import annotations

import numpy as np

import dfc
import dfc_runtime
from dfc.driver import pipeline
from dfc.kernels.program import BufferRole, EntryProgram
from tests.support.building import graph_of

PICKS = {
    "t[ids, 0]": lambda t, ids, pair, some: t[ids, 0],
    "t[pair, 1:3]": lambda t, ids, pair, some: t[pair, 1:3],
    "transpose(t)[1:3][:, ids]": lambda t, ids, pair, some: t.T[1:3][:, ids],
    "transpose(t[:, ::-1])[-1][ids]": lambda t, ids, pair, some: t[:, ::-1].T[-1][ids],
    "transpose(t[:, 1:5:2])[:, pair]": lambda t, ids, pair, some: t[:, 1:5:2].T[:, pair],
    "(-t)[ids]": lambda t, ids, pair, some: -t[ids],
    "transpose(t[2:8])[some]": lambda t, ids, pair, some: t[2:8].T[some],
    "t[:, some][pair][:, :, 0:2]": lambda t, ids, pair, some: t[:, some][pair][:, :, 0:2],
    "t[-3:][pair % 3]": lambda t, ids, pair, some: t[-3:][pair % 3],
    "t[:, new][pair][.., 2:4]": lambda t, ids, pair, some: t[:, None][pair][..., 2:4],
    "reshape(t, [30, 1, 6, 1])[ids][0, 0]": lambda t, ids, pair, some: t.reshape(30, 1, 6, 1)[ids][0, 0],
    "reshape(t[:, new, 1:2], [30])[some]": lambda t, ids, pair, some: t[:, 1][some],
}


def planned(text: str) -> EntryProgram:
    (entry,) = (e for e in pipeline.scheduled(pipeline.optimise(graph_of(text))).entries if e.name == "e")
    return entry


def test_what_is_picked_is_what_numpy_picks() -> None:
    results = ", ".join(f"sum({text} * 1), max({text})" for text in PICKS)
    types = ", ".join(f"r{number}: f64" for number in range(2 * len(PICKS)))
    text = f"""dfg 1
var t: f64[30, 6] = uniform(-1, 1)
entry e[B](ids: i32[B], pair: i32[2, 3], some: i32[3]) -> ({types}) where B >= 1 {{ return {results} }}
"""
    module = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)
    table = module.state["t"]
    given = [np.array(each, np.int32) for each in ([4, -1, 0, 9], [[1, 2, -3], [4, 4, 0]], [5, 0, -2])]
    found = module.e(*given)
    for number, pick in enumerate(PICKS.values()):
        picked = pick(table, *given)
        np.testing.assert_allclose(found[2 * number], picked.sum(), rtol=1e-12, atol=1e-14)
        assert found[2 * number + 1] == picked.max()


def test_no_column_of_a_whole_variable_is_made() -> None:
    text = """dfg 1
var t: f32[100_000, 6] = 0
entry e[B](ids: i32[B], k: i32) -> (a: f32[B], b: f32, c: f64[2, B], d: f32) {
  return t[ids, 0], t[k, 3], (transpose(t)[2:4] as f64)[:, ids], sum(exp(t[ids, 1:3]))
}
"""
    arena = [buffer for buffer in planned(text).buffers if buffer.role is BufferRole.ARENA]
    assert all(size.constant is None or size.constant < 100 for buffer in arena for size in buffer.shape)


def test_an_iteration_copies_no_sequence_whose_rows_it_reads() -> None:
    text = """dfg 1
entry e[N](xs: f32[N, 64]) -> f32[1, 64] {
  let h = loop h = zeros(f32[1, 64]) for x in xs[:, new] { h = tanh(h + x) }
  return h
}
"""
    arena = [buffer for buffer in planned(text).buffers if buffer.role is BufferRole.ARENA]
    assert all(size.constant is not None for buffer in arena for size in buffer.shape)


def test_a_costly_function_of_a_tensor_is_computed_once_for_each_element() -> None:
    text = "dfg 1\nentry e[B](x: f64[20], ids: i32[B]) -> f64[B] { return exp(x)[ids] }\n"
    names = [buffer.shape[0].constant for buffer in planned(text).buffers if buffer.role is BufferRole.ARENA]
    assert names == [20]
