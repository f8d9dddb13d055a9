"""`summary`, `debug.print` and `clock` as programs write them: what they become, and what is said of mistakes."""

from __future__ import annotations

import pytest

from dfc.ir.walk import nodes
from dfc.ops.effects.host_io import PrintAttributes, SummaryAttributes
from tests.support.building import codes, graph_of, messages


def ops_of(body: str, head: str = "entry f[N](x: f32[N], k: i64) {") -> list:
    graph = graph_of(f"{head}\n{body}\n}}")
    return [node for entry in graph.entries.values() for node in nodes(entry.block)]


def said(body: str, head: str = "entry f[N](x: f32[N], k: i64) {") -> str:
    return messages(f"{head}\n{body}\n}}", "m.dfg")


def test_a_summary_takes_a_tag_a_value_and_perhaps_a_step() -> None:
    made = [n for n in ops_of('summary.scalar("a", k)\nsummary.histogram("b", x, step = k)') if "summary" in n.op]
    assert [n.op for n in made] == ["summary_scalar", "summary_histogram"]
    assert [n.attributes for n in made] == [SummaryAttributes("a"), SummaryAttributes("b")]
    assert [[str(v.type) for v in n.operands] for n in made] == [
        ["i64", "token(@summary)"],
        ["f32[N]", "i64", "token(@summary)"],
    ]


def test_what_is_known_when_the_program_is_compiled_becomes_a_part_of_the_format() -> None:
    (made,) = (n for n in ops_of('debug.print("{} {{{}}} {} {} {}", 0.5, "{a}", x, true, N)') if "print" in n.op)
    assert made.attributes == PrintAttributes("0.5 {{{{a}}}} {} True {}")
    assert [str(v.type) for v in made.operands] == ["f32[N]", "i64", "token(@print)"]


def test_after_names_what_is_there_before_the_clock_is_read() -> None:
    body = "let y = x @ x\nlet p = (y, k)\nlet a = clock()\nlet b = clock() after y, p\nlet c = clock() after N"
    made = [n for n in ops_of(body) if n.op == "clock"]
    assert [[v.name for v in n.operands[:-1]] for n in made] == [[], ["f/y", "f/y", "k"], []]


def test_after_is_for_its_own_statement_alone() -> None:
    body = "let y = x @ x\nlet b = clock() after y\nlet c = clock()"
    assert [len(n.operands) for n in ops_of(body) if n.op == "clock"] == [2, 1]


WRONG = {
    "too few places": (
        'debug.print("x = {}", x, k)',
        "E0204",
        """error[E0204]: the format has 1 place `{}` for 2 values
 --> m.dfg:2:13
  |
2 | debug.print("x = {}", x, k)
  |             ^^^^^^^^     - there is no place for this
  = help: write one `{}` in the format for each value behind it; `{{` and `}}` are braces""",
    ),
    "too many places": ('debug.print("{} {}", x)', "E0204", "the format has 2 places `{}` for 1 value\n"),
    "no place": ('debug.print("{{}}", x)', "E0204", "the format has no places `{}` for 1 value\n"),
    "a brace alone": ('debug.print("{x}", x)', "E0315", "a brace in a format is `{}` for a value, or written twice"),
    "a format that is a tensor": ("debug.print(x)", "E0316", "the format of `debug.print` is a text, known when"),
    "a function is printed": ('debug.print("{}", exp)', "E0316", "`debug.print` takes tensors and numbers"),
    "a tensor as a scalar": ('summary.scalar("a", x)', "E0313", "`summary.scalar` wants a single number"),
    "a step that is no whole number": ('summary.histogram("a", x, step = 0.5)', "E0302", "a step is a single whole"),
    "a step for each element": ('summary.scalar("a", k, step = x)', "E0302", "a step is a single whole number"),
    "a tag that is a number": ('summary.scalar(k, "a")', "E0316", "the tag of `summary.scalar` is a text"),
    "no tag": ("summary.scalar(k)", "E0204", "`summary.scalar` needs the argument `x`"),
    "another name": ('summary.scalar("a", k, at = k)', "E0204", "`summary.scalar` has no argument `at`"),
    "arguments of the clock": ("let t = clock(x)", "E0204", "`clock` takes no arguments"),
    "the clock inside an expression": ("let t = clock() - k", "E0403", "must stand on a line of its own"),
    "after what is not there": ("let t = clock() after z", "E0201", "there is no `z` here"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told_where_they_are(name: str) -> None:
    body, code, text = WRONG[name]
    assert codes(f"entry f[N](x: f32[N], k: i64) {{\n{body}\n}}") == [code]
    assert text in said(body)


@pytest.mark.parametrize("call", ['debug.print("{}", x)', 'summary.scalar("a", x)', "let t = clock()"])
def test_a_fn_has_no_effects(call: str) -> None:
    text = said(f"{call}\nreturn x", "fn f(x: f32) -> f32 {")
    assert "error[E0401]: a `fn` cannot have an effect" in text


def test_a_readonly_entry_tells_nothing_but_may_look_at_the_clock() -> None:
    head = "readonly entry f(x: f32) -> i64 {"
    assert said("let t = clock()\nreturn t", head) == ""
    text = said('debug.print("{}", x)\nreturn 0', head)
    assert "error[E0402]: a readonly entry cannot have an effect" in text
    assert "calls debug.print" in text
    assert codes(f'{head}\nsummary.scalar("a", x)\nreturn 0\n}}') == ["E0402"]


def test_a_fed_string_cannot_be_printed_yet() -> None:
    assert codes('entry f(s: string) {\ndebug.print("{}", s)\n}') == ["E1001"]
