"""What loops over the blocks keep for later ones, and what they compute again."""

from __future__ import annotations

from textwrap import dedent

from dfc.ir.graph import Node
from tests.support.replicating import replicated

PARTS = "f64[NB, 5]"
"""Parts of a small sum, which are added behind the loop."""


def loops(text: str) -> list[Node]:
    """The loops over the blocks of entry `f`, in their order."""
    graph, about = replicated("dfg 1\n" + dedent(text), "f", blocks=8)
    found = [node for node in graph.entries["f"].block.nodes if node.op == "for"]
    assert all(str(about.count) in str(node.attributes.trips) for node in found)
    return found


def ops(node: Node) -> list[str]:
    return [inner.op for inner in node.regions[0].nodes]


def kept(node: Node) -> list[str]:
    return [str(value.type) for value in node.results if not value.is_token]


def test_cheap_values_are_computed_again() -> None:
    first, second = loops("""
        entry f[B](x: f32[B, 5]) -> (m: f32) where B >= 1 {
          let y = tanh(x) + 1.0
          return mean(square(y - mean(y, axis = 0)))
        }
        """)
    assert kept(first) == [PARTS]
    assert "tanh" in ops(second)


def test_products_are_kept() -> None:
    first, second = loops("""
        param w: f32[5, 5] = glorot_uniform()
        entry f[B](x: f32[B, 5]) -> (m: f32) where B >= 1 {
          let y = x @ w
          return mean(square(y - mean(y, axis = 0)))
        }
        """)
    assert kept(first) == ["f64[NB, B, 5]", PARTS]
    assert "matmul" not in ops(second)


def test_of_a_larger_view_its_source_is_kept() -> None:
    first, second = loops("""
        param w: f32[5, 1] = glorot_uniform()
        entry f[B](x: f32[B, 5]) -> (m: f32) where B >= 1 {
          let y = broadcast(x @ w, [B, 50])
          return mean(square(y - mean(y, axis = 0)))
        }
        """)
    assert kept(first) == ["f64[NB, B, 1]", "f64[NB, 50]"]
    assert "broadcast" in ops(second)


def test_results_are_kept_as_they_are() -> None:
    (only,) = loops("entry f[B](x: f32[B]) -> (y: f32[B]) { return x + 1.0 }")
    assert kept(only) == ["f64[NB, B]"]


def test_what_needs_no_sum_shares_a_loop() -> None:
    first, second = loops("""
        entry f[B](x: f32[B, 5]) -> (a: f32, b: f32, c: f32[B]) where B >= 1 {
          let a = mean(x)
          let b = max(x)
          return a, b, sum(x, axis = 1) * a * b
        }
        """)
    assert ops(first).count("contribute") == 1
    assert kept(first) == ["f64[NB, B]", "f64[NB]"]
    assert ops(second).count("contribute") == 0
