"""Names stay unique and legal."""

from pathlib import Path

from dfc.ir.dtypes import F32
from dfc.ir.graph import Block, Node, Value
from dfc.ir.names import KEYWORDS, NameSet, escape, identifier, is_identifier, name_nodes
from dfc.ir.types import tensor

GRAMMAR = Path(__file__).parents[3] / "grammar" / "dfg.lark"


def test_every_keyword_stands_in_the_grammar() -> None:
    text = GRAMMAR.read_text(encoding="utf-8")
    assert all(f'"{word}"' in text for word in KEYWORDS)


def test_taken_names_get_numbers() -> None:
    names = NameSet(["a", "a_1"])
    assert [names.fresh("a"), names.fresh("a"), names.fresh("b")] == ["a_2", "a_3", "b"]


def test_full_names_become_identifiers() -> None:
    assert identifier("train/net.dense:1") == "train_net_dense_1"
    assert identifier("1x") == "_1x"
    assert identifier("let") == "let_"
    assert identifier("slots[a.b].m") == "slots_a_b_m"
    assert identifier("//") == "x"
    assert all(map(is_identifier, map(identifier, ["a b", "0", "yield", "/"])))


def test_keywords_are_escaped() -> None:
    assert (escape("type"), escape("axis")) == ("type_", "axis")


def test_only_added_nodes_are_renamed() -> None:
    x = Value(tensor(F32), "x")
    old = Node("neg", (x,), (x.type,), name="a")
    added = Node("abs", (x,), (x.type, x.type), name="a")
    before = Block((x,), (old,), old.results)
    block = name_nodes(Block((x,), (added, old), old.results), before)
    assert [node.name for node in block.nodes] == ["a_1", "a"]
    assert [value.name for value in added.results] == ["a_1:0", "a_1:1"]
