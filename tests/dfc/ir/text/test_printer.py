"""The printed form of small graphs, as text."""

from textwrap import dedent

import numpy as np

from dfc.diagnostics.source import NOWHERE
from dfc.ir.attributes import Literal
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BOOL, F32, I32, I64, U64
from dfc.ir.graph import Block, DimCheck, Entry, Graph, Node, Resource, ResourceKind, Value
from dfc.ir.text.printer import print_graph
from dfc.ir.types import TextType, tensor
from dfc.ops import attributes as a
from tests.support.graphs import assign, constant, entry, graph, read, token, variable

N = Symbol("N")
X = tensor(F32)
XS = tensor(F32, N)


def body(printed: str) -> str:
    """The text behind the first line."""
    return printed.removeprefix("dfg 1\n").strip("\n") + "\n"


def text(expected: str) -> str:
    return dedent(expected).strip("\n") + "\n"


def test_an_entry() -> None:
    x, y = Value(XS, "e/x"), Value(XS, "e/y")
    total = Node("add", (x, y), (XS,), name="e/total")
    whole = Node("sum", (total.result,), (X,), attributes=a.ReduceAttributes((0,)), name="e/sum")
    made = Entry(
        "e",
        Block((x, y), (total, whole), (whole.result, total.result)),
        ("x", "y"),
        ("loss", "all"),
        (N,),
        (),
        (DimCheck(dim(N), ">=", dim(1), "", NOWHERE),),
        NOWHERE,
        readonly=True,
        concurrent=True,
        doc="Adds.\nTwice.",
    )
    assert body(print_graph(graph(made))) == text("""
        ## Adds.
        ## Twice.
        readonly entry e[N](x: f32[N], y: f32[N]) -> (loss: f32, all: f32[N]) where N >= 1 with concurrent = true {
          let total: f32[N] = graph.add(x, y)
          let sum_1: f32 = graph.sum(total, axes = [0])
          return sum_1, total
        }
    """)


def test_state_and_effects() -> None:
    w = variable("net.w", X, 0.5)
    t = token("net.w")
    first = read(w, t, "e/w")
    second = assign(w, first.result, first.results[1], "e/assign", "+=")
    assert body(print_graph(graph(entry("e", (t,), (first, second), second.results), resources=[w]))) == text("""
        param net_w: f32 = graph.constant(type_ = f32, value = 0.5) with name = "net.w"

        entry e() {
          let w: f32 = graph.read(resource = "net.w")
          graph.assign(w, resource = "net.w", mode = "+=")
        }
    """)


def test_settings_of_state() -> None:
    key = constant(np.array([1, 2, 0, 0], np.uint64), "k")
    dice = Resource(
        "dice",
        ResourceKind.RNG,
        tensor(U64, 4),
        False,
        Block((), (key,), key.results),
        NOWHERE,
        container="data",
        saved=False,
        doc="Rolls.",
    )
    assert body(print_graph(graph(resources=[dice]))) == text("""
        ## Rolls.
        var dice: u64[4] = graph.constant(type_ = u64[4], value = [1, 2, 0, 0]) with kind = "rng", \
container = "data", saved = false
    """)


def test_an_initial_value_that_is_no_single_expression() -> None:
    half = constant(np.float32(0.5), "half")
    both = Node("mul", (half.result, half.result), (X,), name="both")
    w = variable("w", X)
    shared = Resource("w", w.kind, X, True, Block((), (half, both), both.results), NOWHERE)
    assert body(print_graph(graph(resources=[shared]))) == text("""
        fn initial_w() -> f32 {
          let half: f32 = graph.constant(type_ = f32, value = 0.5)
          let both: f32 = graph.mul(half, half)
          return both
        }

        param w: f32 = initial_w()
    """)


def test_if_with_effects_and_values() -> None:
    w, c, t = variable("w", X), Value(tensor(BOOL), "c"), token("w")
    first, second = token("w"), token("w")
    inner = read(w, first, "e/inner")
    other = constant(np.float32(2), "e/two")
    node = Node(
        "if",
        (c, t),
        (X, t.type),
        regions=(Block((first,), (inner,), inner.results), Block((second,), (other,), (other.result, second))),
        name="e/picked",
    )
    printed = print_graph(graph(entry("e", (c, t), (node,), node.results), resources=[w]))
    assert body(printed.split("\n\n")[-1]) == text("""
        entry e(c: bool) -> (r0: f32) {
          let picked: f32 = if c {
            let inner: f32 = graph.read(resource = "w")
            yield inner
          } else {
            let two: f32 = graph.constant(type_ = f32, value = 2.0)
            yield two
          }
          return picked
        }
    """)


def counting_loop(condition: Block, start: Value, limit: Value) -> Graph:
    k = Value(tensor(I32), "e/k")
    step = Node("add", (k, k), (k.type,), name="e/step")
    loop = Node(
        "while", (start,), (start.type,), regions=(condition, Block((k,), (step,), step.results)), name="e/last"
    )
    return graph(entry("e", (start, limit), (loop,), loop.results))


def test_while_with_a_condition_that_is_an_expression() -> None:
    start, limit, k = (Value(tensor(I32), name) for name in ("start", "limit", "k"))
    test = Node("less", (k, limit), (tensor(BOOL),), name="e/less")
    assert body(print_graph(counting_loop(Block((k,), (test,), test.results), start, limit))) == text("""
        entry e(start: i32, limit: i32) -> (r0: i32) {
          let last: i32 = loop k: i32 = start while graph.less(k, limit) {
            let step: i32 = graph.add(k, k)
            k = step
          }
          return last
        }
    """)


def test_while_with_a_condition_that_is_none() -> None:
    start, limit, k = (Value(tensor(I32), name) for name in ("start", "limit", "k"))
    twice = Node("add", (limit, limit), (limit.type,), name="e/twice")
    test = Node("less", (twice.result, twice.result), (tensor(BOOL),), name="e/less")
    assert body(print_graph(counting_loop(Block((k,), (twice, test), test.results), start, limit))) == text("""
        fn e_last_condition(k: i32, limit: i32) -> bool {
          let e_twice: i32 = graph.add(limit, limit)
          let e_less: bool = graph.less(e_twice, e_twice)
          return e_less
        }

        entry e(start: i32, limit: i32) -> (r0: i32) {
          let last: i32 = loop k: i32 = start while e_last_condition(k, limit) {
            let step: i32 = graph.add(k, k)
            k = step
          }
          return last
        }
    """)


def test_for_with_carries_and_emits() -> None:
    start, stop, x = Value(tensor(I64), "a"), Value(tensor(I64), "b"), Value(X, "x")
    i, h, g = Value(tensor(I64), "e/i"), Value(X, "e/h"), Value(X, "e/g")
    both = Node("add", (h, g), (X,), name="e/both")
    loop = Node(
        "for",
        (start, stop, x, x),
        (X, X, XS),
        attributes=a.ForAttributes(2, dim(N)),
        regions=(Block((i, h, g), (both,), (g, h, both.result)),),
        name="e/loop",
    )
    assert body(print_graph(graph(entry("e", (start, stop, x), (loop,), loop.results, dims=[N])))) == text("""
        entry e[N](a: i64, b: i64, x: f32) -> (r0: f32, r1: f32, r2: f32[N]) {
          let loop_: f32, loop__1: f32, loop__2: f32[N] = loop h: f32 = x, g: f32 = x for index in a..b {
            let both: f32 = graph.add(h, g)
            emit both
            h, g = (g, h)
          }
          return loop_, loop__1, loop__2
        }
    """)


def test_settings_of_a_loop() -> None:
    bound, inner, last = Value(tensor(I64), "a"), token("@assert"), token("@assert")
    for recompute, head in ((0, "for index in a..a {"), (4, "for index in a..a with recompute = 4 {")):
        body_ = Block((Value(tensor(I64), "i"), inner), (), (inner,))
        attributes = a.ForAttributes(0, recompute=recompute)
        loop = Node("for", (bound, bound, last), (last.type,), attributes=attributes, regions=(body_,), name="e/for")
        printed = print_graph(graph(entry("e", (bound, last), (loop,), loop.results)))
        assert head in [line.strip() for line in printed.splitlines()]


def test_a_statement_if_and_a_bare_for() -> None:
    c, start = Value(tensor(BOOL), "c"), Value(tensor(I64), "a")
    i, t = Value(tensor(I64), "i"), token("@assert")
    inner = token("@assert")
    check = Node("assert", (c, inner), (t.type,), attributes=a.AssertAttributes('no "c"', "c"), name="e/check")
    empty = token("@assert")
    node = Node(
        "if", (c, t), (t.type,), regions=(Block((inner,), (check,), check.results), Block((empty,), (), (empty,)))
    )
    node.name = "e/if"
    loop = Node(
        "for",
        (start, start, node.result),
        (t.type,),
        attributes=a.ForAttributes(0),
        regions=(Block((i, last := token("@assert")), (), (last,)),),
    )
    loop.name = "e/for"
    assert body(print_graph(graph(entry("e", (c, start, t), (node, loop), loop.results)))) == text("""
        entry e(c: bool, a: i64) {
          if c {
            graph.assert_(c, message = "no \\"c\\"", condition_text = "c")
          }
          for index in a..a {
          }
        }
    """)


def test_names_never_hide_what_the_text_needs() -> None:
    x = Value(X, "relu")
    nodes = [Node("relu", (x,), (X,), name="f32"), Node("type", (x,), (X,), name="let")]
    printed = print_graph(graph(entry("e", (x,), nodes, nodes[0].results)))
    assert "entry e(relu_1: f32)" in printed
    assert "let f32_1: f32 = graph.relu(relu_1)" in printed
    assert "let let_: f32 = graph.type_(relu_1)" in printed


def test_special_numbers_are_written_as_bytes() -> None:
    node = Node(
        "constant",
        (),
        (tensor(F32, 2),),
        attributes=a.ConstantAttributes(Literal(np.array([-0.0, np.inf], np.float32))),
        name="c",
    )
    assert 'hex = "000000800000807f"' in print_graph(graph(entry("e", (), (node,), node.results)))


def test_a_path_is_a_string() -> None:
    path = Value(TextType(), "path")
    assert "entry e(path: string) {" in print_graph(graph(entry("e", (path,), (), ())))


def test_notes_stand_behind_their_node_and_broken_graphs_print() -> None:
    x, ghost = Value(X, "x"), Value(X, "ghost")
    node = Node("neg", (ghost,), (X,), name="n")
    printed = print_graph(graph(entry("e", (x,), (node,), node.results)), notes={node: ["[1] what is `ghost`?"]})
    assert "let n: f32 = graph.neg(ghost)\n  # !! [1] what is `ghost`?" in printed


def test_deep_nesting_does_not_overflow() -> None:
    x, c = Value(X, "x"), Value(tensor(BOOL), "c")
    node = Node("neg", (x,), (X,), name="n")
    for level in range(3000):
        region = Block((), (node,), node.results)
        node = Node("if", (c,), (X,), regions=(region, Block((), (), (x,))), name=f"i{level}")
    printed = print_graph(graph(entry("e", (x, c), (node,), node.results)))
    assert printed.count("if c {") == 3000
