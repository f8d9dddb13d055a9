"""The parser gives the trees that the grammar means."""

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.parser import parse
from dfc.syntax.tree.tree import (
    Binary,
    Call,
    CallStatement,
    Cast,
    Comparison,
    Conditional,
    ConstItem,
    Expression,
    FloatLiteral,
    FunctionItem,
    Group,
    Identifier,
    If,
    Index,
    IntegerLiteral,
    Let,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Loop,
    Member,
    Name,
    NamedArgument,
    Negate,
    Path,
    Pipe,
    Return,
    ShortBody,
    Slice,
    StringLiteral,
    Suite,
    TensorType,
    UnknownDimension,
    Yield,
    spine,
    walk,
)


def expression(text: str) -> Expression:
    item = parse(SourceFile("test.dfg", f"const X = {text}")).items[0]
    assert isinstance(item, ConstItem)
    return item.value


def body(text: str) -> Suite:
    item = parse(SourceFile("test.dfg", f"fn f() {{\n{text}\n}}")).items[0]
    assert isinstance(item, FunctionItem)
    assert isinstance(item.body, Suite)
    return item.body


A, B, C = Name("a"), Name("b"), Name("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b - c", Binary("-", Binary("+", A, B), C)),
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("(a + b) * c", Binary("*", Group(Binary("+", A, B)), C)),
        ("a @ b % c", Binary("%", Binary("@", A, B), C)),
        ("-a ** b", Negate(Binary("**", A, B))),
        ("a ** -b ** c", Binary("**", A, Negate(Binary("**", B, C)))),
        ("-a as f32 * b", Binary("*", Cast(Negate(A), Path((Identifier("f32"),))), B)),
        ("not a < b", LogicalNot(Comparison("<", A, B))),
        ("a or b and not c", LogicalOr(A, LogicalAnd(B, LogicalNot(C)))),
        ("a or b |> c(a)", Pipe(LogicalOr(A, B), Call(C, (A,)))),
        ("if a then b else c |> a", Conditional(A, B, Pipe(C, A))),
        ("a.b(c)[a]", Index(Call(Member(A, Identifier("b")), (C,)), (A,))),
        ("a(b, c = a)", Call(A, (B, NamedArgument(Identifier("c"), A)))),
        ("a[::b]", Index(A, (Slice(None, None, B),))),
        ("a[b:]", Index(A, (Slice(B, None, None),))),
        ("0x1F", IntegerLiteral("0x1F", 31)),
        ("10_000", IntegerLiteral("10_000", 10000)),
        ("1e-3", FloatLiteral("1e-3", 1e-3)),
        (r'"\"\u{e9}\n\t\\"', StringLiteral(r'"\"\u{e9}\n\t\\"', '"é\n\t\\')),
    ],
)
def test_expressions_follow_the_precedence_table(text: str, tree: Expression) -> None:
    assert expression(text) == tree


def test_chained_comparisons_are_refused() -> None:
    with pytest.raises(CompileError, match="E0122"):
        expression("a < b < c")


def test_let_knows_fresh_sizes_types_and_after() -> None:
    (let,) = body("let [N] a: u8[N], b = c after x, y.z").statements
    assert isinstance(let, Let)
    assert [name.text for name in let.fresh] == ["N"]
    assert [binder.name.text for binder in let.binders] == ["a", "b"]
    assert let.binders[0].type == TensorType(Path((Identifier("u8"),)), (), (Name("N"),))
    assert [path.text for path in let.after] == ["x", "y.z"]


def test_newlines_end_no_statement_but_the_next_one_does() -> None:
    first, second = body("let y = a\n  + b\n  |> c()\nf(y)").statements
    assert isinstance(first, Let) and isinstance(first.value, Pipe)
    assert isinstance(second, CallStatement)


def test_if_collects_its_branches_and_yields() -> None:
    (let,) = body("let y = if a { yield b } else if c { yield a, b } else { yield c }").statements
    assert isinstance(let, Let) and isinstance(let.value, If)
    branches = let.value.branches
    assert [branch.condition for branch in branches] == [A, C]
    assert branches[1].body.final == Yield((A, B))
    assert let.value.otherwise == Suite((), Yield((C,)))


def test_loop_without_carries_has_none() -> None:
    (loop,) = body("loop while a { }").statements
    assert isinstance(loop, Loop)
    assert loop.carries == ()


def test_bare_return_has_no_values() -> None:
    assert body("return").final == Return(())


def test_unknown_dimensions_stand_in_types_and_expressions() -> None:
    item = parse(SourceFile("test.dfg", "fn f(x: f32[?]) = g[?](x)")).items[0]
    assert isinstance(item, FunctionItem) and isinstance(item.body, ShortBody)
    assert item.parameters[0].type == TensorType(Path((Identifier("f32"),)), (), (UnknownDimension(),))


def test_spans_cover_the_text_of_their_nodes() -> None:
    text = "fn f[N](x: f32[N]) -> f32[N] {\n  let y = (x + 1) * x[0:N, ..]\n  return g(y, axis = 0)\n}\n"
    module = parse(SourceFile("test.dfg", text))
    spans = {type(node).__name__: node.span for node in walk(module)}
    assert spans["Module"].text == text.rstrip()
    assert spans["Let"].text == "let y = (x + 1) * x[0:N, ..]"
    assert spans["Group"].text == "(x + 1)"
    assert spans["Slice"].text == "0:N"
    assert spans["NamedArgument"].text == "axis = 0"
    assert (spans["Return"].line, spans["Return"].column) == (3, 3)


def test_operators_know_where_they_stand() -> None:
    tree = expression("a # or |>\n or b")
    assert isinstance(tree, LogicalOr)
    assert tree.operator_span.text == "or" and tree.operator_span.line == 2


def test_documentation_belongs_to_what_follows_or_is_trailed() -> None:
    text = (
        "dfg 1\n\n## The file.\n\n## Doubles.\n##\n##  Twice.\nfn f(\n  x: f32,  ## what to double\n"
        "  # no documentation\n  y: f32\n) = x\n\n## Nobody's.\n\n# plain\nconst A = 1  ## not mine\nconst B = 2\n"
    )
    module = parse(SourceFile("test.dfg", text))
    function, first, second = module.items
    assert module.documentation == "The file."
    assert isinstance(function, FunctionItem)
    assert function.documentation == "Doubles.\n\n Twice."
    assert [parameter.documentation for parameter in function.parameters] == ["what to double", ""]
    assert first.documentation == second.documentation == ""


def test_long_chains_need_no_recursion() -> None:
    tree = expression(" + ".join(["a"] * 3000))
    assert len(spine(tree)) == 3000
    assert tree == expression("+".join(["a"] * 3000))
    assert tree != expression(" + ".join(["b", *["a"] * 2999]))
