"""`with recompute`: the same bits, less memory; and the loops of unknown length that have effects."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.driver import pipeline
from dfc.ir import walk
from dfc.ir.equality import equal
from dfc.ir.graph import Graph
from dfc.transforms.autodiff.autodiff import autodiff
from dfc_runtime import loads
from tests.support.building import graph_of, run
from tests.support.sweeping import few

STEP = 1e-6

CELLS = {
    "rows": "tanh(x @ w + h @ u + b)",
    "columns": "tanh(w @ x + u @ h + b)",
    "matrices": "tanh(x[new] @ w + h[new] @ u)[0] * b",
    "no products": "tanh(x * w[0] + h * u[1] * b)",
    "a product in a branch": "if sum(h) > 0 then tanh(h @ u + x) else sin(h * b) @ w",
}


def recurrent(cell: str, with_: str, rounds: str) -> str:
    generics = "[N]" if rounds == "N" else ""
    return f"""dfg 1
param w: f32[4, 4] = normal()
param u: f32[4, 4] = normal()
param b: f32[4] = normal()
entry f{generics}(xs: f32[{rounds}, 4], start: f32[4])
  -> (l: f32, gw: f32[4, 4], gu: f32[4, 4], gb: f32[4], gx: f32[{rounds}, 4], gh: f32[4]) {{
  let h, hs = loop h = start for x in xs {with_} {{
    h = {cell}
    emit h
  }}
  let l = mean(hs * hs) + sum(h)
  let gw, gu, gb, gx, gh = grad(l, [w, u, b, xs, start])
  return l, gw, gu, gb, gx, gh
}}
"""


def bits(text: str, feeds: list[tuple[np.ndarray, np.ndarray]], threads: int) -> list[list[bytes]]:
    module = loads(dfc.compile(text=text).to_bytes(), threads=threads)
    return [[np.asarray(v).tobytes() for v in module.entries["f"](*each)] for each in feeds]


@pytest.mark.parametrize("cell", few(CELLS, 2))
def test_what_is_computed_again_has_the_same_bits(cell: str) -> None:
    rng = np.random.default_rng(5)

    def numbers(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    lengths = {"N": (0, 1, 16, 17, 37, 70), "37": (37,)}
    settings = {"N": [(5, 2), (1, 1), (20, 1)], "37": [(1000, 2), (5, 1)]}
    for rounds, counts in lengths.items():
        feeds = [(numbers(n, 4), numbers(4)) for n in counts]
        wanted = bits(recurrent(CELLS[cell], "", rounds), feeds, 1)
        for k, threads in few(settings[rounds], 1):
            assert bits(recurrent(CELLS[cell], f"with recompute = {k}", rounds), feeds, threads) == wanted, (rounds, k)


def test_the_gradients_of_rows_are_those_of_numpy() -> None:
    """Back through time by hand, in double precision; blocks of rows begin at every sixteenth iteration."""
    for with_ in ("", "with recompute = 20"):
        rng = np.random.default_rng(6)
        state = {name: rng.normal(size=shape) / 2 for name, shape in (("w", (4, 4)), ("u", (4, 4)), ("b", (4,)))}
        module = loads(dfc.compile(text=recurrent(CELLS["rows"], with_, "N").replace("f32", "f64")).to_bytes())
        for name, value in state.items():
            module.state[name] = value
        for n in (1, 15, 16, 33):
            xs, start = rng.normal(size=(n, 4)), rng.normal(size=4)
            found = module.entries["f"](xs, start)
            for got, wanted in zip(found, through_time(state, xs, start), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)


def through_time(state: dict[str, np.ndarray], xs: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
    w, u, b = state["w"], state["u"], state["b"]
    hs = [start]
    for x in xs:
        hs.append(np.tanh(x @ w + hs[-1] @ u + b))
    loss = np.mean(np.square(hs[1:])) + hs[-1].sum()
    dw, du, db, dx, dh = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b), np.zeros_like(xs), np.ones(4)
    for t in reversed(range(len(xs))):
        dz = (dh + 2 * hs[t + 1] / (4 * len(xs))) * (1 - hs[t + 1] ** 2)
        dw, du, db = dw + np.outer(xs[t], dz), du + np.outer(hs[t], dz), db + dz
        dx[t], dh = w @ dz, u @ dz
    return [loss, dw, du, db, dx, dh]


def peak(text: str, name: str = "f", **sizes: int) -> int:
    """The bytes of the arena."""
    program = pipeline.scheduled(pipeline.optimise(graph_of(text)))
    (entry,) = (each for each in program.entries if each.name == name)
    return entry.arena.evaluate({symbol: sizes[str(symbol)] for symbol in entry.arena.symbols()})


def test_less_is_kept() -> None:
    plain = peak(recurrent(CELLS["rows"], "", "4096"))
    again = peak(recurrent(CELLS["rows"], "with recompute = 64", "4096"))
    assert again < 0.6 * plain


def test_the_lstm_of_the_samples_shrinks_as_the_manual_says() -> None:
    source = Path("samples/lstm.dfg").read_text()
    again = source.replace("in letters(transpose(text)) {", "in letters(transpose(text)) with recompute = 32 {")
    assert again != source
    assert [round(peak(text, "train", B=100, N=1000) / 2**20) for text in (source, again)] == [338, 50]


NETWORK = """
    block Layer[D](const rate: float) {
      param w: f64[D, D] = normal(0, 0.5)
      var dice: rng = philox(seed = 3)
      var calls: i32 = 0
      proc apply[B](x: f64[B, D]) -> (y: f64[B, D], kept: f64) {
        calls += 1
        let noise = dice.uniform(f64[B, D])
        let y = tanh(exp(sin(x @ w) @ w)) * select(noise < rate, x, -x)
        return y, mean(noise)
      }
    }
    var a = Layer[5](0.5)SETTING
    var b = Layer[5](0.5)SETTING
    entry f[B](x: f64[B, 5]) -> (l: f64, ga: f64[5, 5], gb: f64[5, 5], gx: f64[B, 5], calls: i32, kept: f64) {
      let h, kept = a(x)
      let y, _ = b(h)
      let l = mean(y * y)
      let ga, gb, gx = grad(l, [a.w, b.w, x])
      return l, ga, gb, gx, a.calls + b.calls, kept
    }
"""


def test_a_block_computed_again_draws_once_and_has_the_same_bits() -> None:
    x = np.random.default_rng(2).normal(size=(7, 5))
    found: list[list[bytes]] = []
    plain, kept = (graph_of(NETWORK.replace("SETTING", setting)) for setting in ("", " with recompute = false"))
    assert equal(plain, kept)
    for setting in ("", " with recompute = true"):
        module = loads(dfc.compile(text="dfg 1\n" + NETWORK.replace("SETTING", setting)).to_bytes())
        results = [module.entries["f"](x) for _ in range(2)]
        assert [int(r.calls) for r in results] == [2, 4]
        state = [module.state[name].tobytes() for name in ("a.dice", "b.dice")]
        found.append([*(np.asarray(v).tobytes() for r in results for v in r), *state])
    assert found[0] == found[1]


def test_the_backward_pass_of_a_block_is_a_region_of_its_own() -> None:
    graph = autodiff(graph_of(NETWORK.replace("SETTING", " with recompute = true")))
    outside = [node.op for node in graph.entries["f"].block.nodes]
    inside = [node.op for node in walk.nodes(graph.entries["f"].block)]
    assert "exp" not in outside
    assert inside.count("exp") >= 4  # each block once forward, once again


@pytest.mark.parametrize("rounds", [32_767, 32_768, 32_769, 70_000])
def test_counts_around_the_sizes_of_large_blocks(rounds: int) -> None:
    program = """dfg 1
        entry f(x: f64, n: i32) -> f64 {
          let y = loop y = x for i in 0..n { y = y + 0.0001 * sin(y + 0.001 * (i as f64)) }
          return grad(y, x)
        }
    """
    y, slope = 0.7, 1.0
    for i in range(rounds):
        z = y + 0.001 * i
        y, slope = y + 0.0001 * math.sin(z), slope * (1 + 0.0001 * math.cos(z))
    assert loads(dfc.compile(text=program).to_bytes()).entries["f"](0.7, np.int32(rounds)) == pytest.approx(slope)


# ---------------------------------------------------------------- effects --

STATE = """
    var dice: rng = philox(seed = 3)
    var steps: i32 = 0
    var level: f64 = 0.7
"""
LOOPS = {
    "draws": "loop y = x for i in 0..n { let d = dice.uniform(f64)\n y = y * (d + 0.5) + 0.1 * sin(y) }",
    "while": (
        "loop y = x, k: i32 = 0 while k < n { let d = dice.uniform(f64)\n y = y * (d + 0.5) + 0.1 * sin(y)\n"
        " k = k + 1\n steps += 1 }"
    ),
    "state": (
        "loop y = x for i in 0..n { let s = level\n level := s * 0.9 + 0.1\n level += 0.01\n"
        " y = y * s + 0.1 * sin(y)\n steps += 1 }"
    ),
    "branches": (
        "loop y = x for i in 0..n { if i % 2 == 0 { let d = dice.uniform(f64)\n y = y * (d + 0.5)\n steps += 1 }"
        " else { y = sin(y) + level } }"
    ),
    "inside": (
        "loop y = x for i in 0..n { y = loop z = y for j in 0..3 { let d = dice.normal(f64)\n z = sin(z) + 0.1 * d }\n"
        " assert y < 100\n steps += 1 }"
    ),
    "while inside": (
        "loop y = x for i in 0..3 { let z, _ = loop z = y, k: i32 = 0 while k < n { let d = dice.normal(f64)\n"
        " z = sin(z) + 0.1 * d\n k = k + 1 }\n y = z }"
    ),
    "both unknown": (
        "loop y = x for i in 0..n { let z, _ = loop z = y, k: i32 = 0 while k < i { let d = dice.normal(f64)\n"
        " z = sin(z) + 0.1 * d\n k = k + 1\n steps += 1 }\n y = z }"
    ),
    "segments": (
        "loop y = x for i in 0..7 with recompute = 3 { let d = dice.uniform(f64)\n y = y * (d + 0.5) + 0.1 * sin(y)\n"
        " steps += 1 }"
    ),
}


def with_effects(loop: str) -> str:
    first = "let y, _ =" if ", k: i32 = 0 while k < n {" in loop.split("for")[0] else "let y ="
    return f"""
        {STATE}
        entry f(x: f64, n: i32) -> (y: f64, next: f64, level: f64, steps: i32, slope: f64) {{
          {first} {loop}
          let slope = grad(y, x)
          let next = dice.uniform(f64)
          return y, next, level, steps, slope
        }}
        entry value(x: f64, n: i32) -> (y: f64, next: f64, level: f64, steps: i32) {{
          {first} {loop}
          let next = dice.uniform(f64)
          return y, next, level, steps
        }}
    """


def plain(graph: Graph, x: float, n: int) -> list[float]:
    return [float(v) for v in run(graph, "value", x=x, n=np.int32(n)).results]


@pytest.mark.parametrize("name", few(LOOPS, 2))
def test_effects_happen_once_and_the_backward_pass_sees_the_same(name: str) -> None:
    text = with_effects(LOOPS[name])
    graph = graph_of(text)
    data = dfc.compile(text="dfg 1\n" + text.partition("entry value")[0]).to_bytes()
    for n in (0, 1, 7, 40):
        *found, slope = [float(v) for v in run(graph, "f", x=0.6, n=np.int32(n)).results]
        assert found == plain(graph, 0.6, n)
        ends = [plain(graph, 0.6 + s * STEP, n)[0] for s in (1, -1)]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=1e-6, abs=1e-9), n
        for threads in (1, 2):
            compiled = loads(data, threads=threads).entries["f"](0.6, np.int32(n))
            np.testing.assert_allclose([float(v) for v in compiled], [*found, slope], rtol=1e-11)


def test_what_the_backward_pass_cannot_repeat_is_refused_with_the_reason() -> None:
    loop = "loop y = x for i in 0..n { let t = table\n table[i % 3] := y\n y = y * sum(t) }"
    body = f"{{\n let y = {loop}\n return grad(y, x)\n}}"
    text = f"dfg 1\n{STATE}\nvar table: f64[3] = 1\nentry f(x: f64, n: i32) -> f64 {body}"
    with pytest.raises(dfc.CompileError) as caught:
        dfc.compile(text=text)
    (message,) = caught.value.diagnostics
    assert message.code == "E1001"
    shown = dfc.diagnostics.diagnostic.render(message)
    assert "an iteration reads `table`, of which the loop writes a part" in shown
    assert "table[i % 3] := y" in shown
    assert "0..N" in shown


def test_draws_between_those_of_other_calls_cannot_be_repeated() -> None:
    body = f"{{\n let y = {LOOPS['draws']}\n return grad(y, x)\n}}"
    text = f"dfg 1\n{STATE}\nentry f(x: f64, n: i32) -> f64 with concurrent = true {body}"
    with pytest.raises(dfc.CompileError) as caught:
        dfc.compile(text=text)
    assert "other calls of this entry may change the state" in dfc.diagnostics.diagnostic.render(
        caught.value.diagnostics[0]
    )
