"""Trees compare by what they say, and walking needs no recursion."""

from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.parser import parse
from dfc.syntax.tree.tree import (
    Binary,
    Call,
    Expression,
    Identifier,
    IntegerLiteral,
    Name,
    NamedArgument,
    Tuple,
    children,
    spine,
    walk,
)
from tests.support.sweeping import WHOLE

LINKS = 100_000 if WHOLE else 20_000


def long_chain(first: str) -> Expression:
    chain: Expression = Name(first)
    for _ in range(LINKS):
        chain = Binary("+", chain, Name("b"))
    return chain


def test_spans_do_not_count() -> None:
    one = parse(SourceFile("a", "const A = f(x, y = 1)"))
    other = parse(SourceFile("b", "const  A =\n f( x, y= 1 )"))
    assert one == other and hash(one) == hash(other)


def test_everything_else_counts() -> None:
    texts = ["f(x)", "f(y)", "f(x, x)", "g(x)", "f[x]", "1", "1.0", "0x1", "(x)", "x", "true", "-x", "x + y", "x - y"]
    trees = [parse(SourceFile("a", f"const A = {text}")) for text in texts]
    for index, tree in enumerate(trees):
        assert [tree == other for other in trees] == [index == other for other in range(len(trees))]
    assert Name("x") != "x"


def test_documentation_counts() -> None:
    assert parse(SourceFile("a", "## One\nconst A = 1")) != parse(SourceFile("a", "const A = 1"))


def test_long_chains_compare_walk_and_hash() -> None:
    one, other, third = long_chain("a"), long_chain("a"), long_chain("c")
    assert one == other != third
    assert hash(one) == hash(other)
    assert sum(1 for _ in walk(one)) == 2 * LINKS + 1
    assert spine(one)[-1] == Name("a")


def test_walk_is_in_the_order_of_the_text() -> None:
    module = parse(SourceFile("a", "const A = f(a + b, (c, d)[e:], g = h)"))
    assert [node.text for node in walk(module) if isinstance(node, Name)] == list("fabcdeh")


def test_children_are_direct() -> None:
    call = Call(Name("f"), (Name("x"), NamedArgument(Identifier("y"), IntegerLiteral("1", 1))))
    assert list(children(call)) == [Name("f"), *call.arguments]
    assert list(children(Tuple((Name("a"),)))) == [Name("a")]
    assert list(children(Name("a"))) == []
