"""Many kernels that differ by offsets alone are one, whose launches say where they read and write."""

from __future__ import annotations

import numpy as np

import dfc
import dfc_runtime
from dfc.driver.pipeline import optimise
from dfc.kernels.program import Launch, Program
from dfc.lower.buffers.offsets import MANY
from tests.support.building import graph_of
from tests.support.lowering import agree


def concat_of(parts: int) -> str:
    """Each part is made of the same rows, one number, and a part of its own."""
    lines = [f"  let part_{n} = tanh(x * w[{n}] + v[:, {n}:{n + 3}])" for n in range(parts)]
    names = ", ".join(f"part_{n}" for n in range(parts))
    head = f"readonly entry e[B](x: f32[B, 3], w: f32[{parts}], v: f32[B, {parts + 3}]) -> (y: f32[B, {3 * parts}]) {{"
    return "\n".join(["dfg 1", "", head, *lines, f"  return concat([{names}], axis = 1)", "}", ""])


def feeds_of(parts: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(parts)
    shapes = {"x": (2, 3), "w": (parts,), "v": (2, parts + 3)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def launches(program: Program, entry: str = "e") -> list[Launch]:
    steps = next(each.steps for each in program.entries if each.name == entry)
    return [step for step in steps if isinstance(step, Launch)]


def test_one_kernel_writes_all_parts_of_a_wide_concat() -> None:
    program, _ = agree(optimise(graph_of(concat_of(MANY))), feeds_of(MANY), sizes={"B": 2})
    assert len(program.kernels) == 1
    offsets = [[size.constant for size in launch.sizes[1:]] for launch in launches(program)]
    assert sorted(offsets) == [[n, 3 * n] for n in range(MANY)], "what reads w and v at one number shares a size"


def test_a_few_kernels_keep_their_offsets() -> None:
    program, _ = agree(optimise(graph_of(concat_of(MANY - 1))), feeds_of(MANY - 1), sizes={"B": 2})
    assert len(program.kernels) == MANY - 1
    assert all(len(launch.sizes) == 1 for launch in launches(program))


def test_many_updates_of_parts_of_a_variable_read_where_they_write() -> None:
    lines = [f"  table[{2 * n}:{2 * n + 2}] := table[{2 * n}:{2 * n + 2}] * x + {n % 2}.0" for n in range(2 * MANY)]
    text = "\n".join(["dfg 1", "", f"var table: f32[{4 * MANY}] = 1.0", "", "entry e(x: f32) {", *lines, "}", ""])
    table = np.arange(4 * MANY, dtype=np.float32)
    program, _ = agree(optimise(graph_of(text)), {"x": np.float32(3)}, {"table": table})
    assert len({launch.kernel for launch in launches(program)}) <= 4


def test_padding_keeps_its_offsets() -> None:
    """It reads before an operand begins, under a mask, which has to know by how much: sizes are never negative."""
    names = [f"part_{n}" for n in range(MANY)]
    head = [f"var {name}: f32[5] = 1.0\nvar padded_{name}: f32[45] = 0.0" for name in names]
    lines = [f"  padded_{name} := pad({name}, [[{n}, {40 - n}]], 0.5)" for n, name in enumerate(names)]
    text = "\n".join(["dfg 1", "", *head, "", "entry e() {", *lines, "}", ""])
    rng = np.random.default_rng(3)
    state = {name: rng.standard_normal(5).astype(np.float32) for name in names}
    state |= {f"padded_{name}": np.zeros(45, np.float32) for name in names}
    program, _ = agree(optimise(graph_of(text)), None, state)
    assert len({launch.kernel for launch in launches(program)}) == MANY


def test_native_code_takes_offsets_from_the_launch() -> None:
    feeds = feeds_of(MANY)
    model = dfc_runtime.loads(dfc.compile(text=concat_of(MANY)).to_bytes(), threads=1)
    x, w, v = feeds["x"], feeds["w"], feeds["v"]
    expected = np.concatenate([np.tanh(x * w[n] + v[:, n : n + 3]) for n in range(MANY)], axis=1)
    np.testing.assert_allclose(model.e(x, w, v).y, expected, rtol=1e-6, atol=1e-7)
