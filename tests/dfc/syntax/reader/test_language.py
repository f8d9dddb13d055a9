"""lark on the program grammar: what it is given, and what it hands back."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from lark import UnexpectedToken

from dfc.diagnostics.diagnostic import Diagnostics, render
from dfc.diagnostics.source import SourceFile
from dfc.syntax.printer.printer import to_text
from dfc.syntax.reader.build_items import TreeBuilder
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.parser import parse, parse_recovering
from dfc.syntax.tree.documentation import Documentation
from tests.support.corpus import CORPUS, load

LETTERS = [*map(chr, range(1, 128)), *" \n\"'#é𝔘\u2028" * 5, *"abc 0.x=()[]{}" * 10]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_found_in_a_text_is_the_whole_text(seed: int) -> None:
    random = Random(seed)
    text = "".join(random.choices(LETTERS, k=5000))
    lexed = load_language("dfg").lex(text)
    words = {token.start_pos: token.end_pos for token in [*lexed.tokens, *lexed.comments]}
    assert all(text[token.start_pos : token.end_pos] == token.value for token in [*lexed.tokens, *lexed.comments])
    place = 0
    for start in sorted([*words, *lexed.strange, len(text)]):
        assert not text[place:start].strip(" \t\f\r\n")
        if start in words:
            place = words[start]
        elif start < len(text):  # an unclosed string spoils its line, letters that are not ASCII come together
            found = re.compile(r"""["'][^\n]*|[^\x00-\x7f]+|[\s\S]""").match(text, start)
            assert found is not None
            place = found.end()
    assert lexed.strange and lexed.comments


def test_what_does_not_fit_is_the_first_word_that_no_program_goes_on_with() -> None:
    language = load_language("dfg")
    source = SourceFile("test.dfg", "dfg 1\nconst A = (1 + * 2\n")
    tokens = language.lex(source.text).tokens
    with pytest.raises(UnexpectedToken) as caught:
        language.read(tokens, TreeBuilder(source, Documentation()))
    index = next(number for number, token in enumerate(tokens) if token is caught.value.token)
    assert tokens[index].value == "*"
    expected = language.expected_after(tokens[:index])
    assert {"NAME", "INT", "LPAR", "MINUS"} <= expected
    assert not {"MUL", "RPAR", "NOT", "$END"} & expected


def test_a_text_may_end_where_an_item_ends_and_only_there() -> None:
    language = load_language("dfg")
    tokens = language.lex("const A = 1 + 2").tokens
    assert ["$END" in language.expected_after(tokens[:count]) for count in range(len(tokens) + 1)] == [
        True, False, False, False, True, False, True,
    ]  # fmt: skip


def test_nothing_is_expected_after_what_is_no_beginning() -> None:
    language = load_language("dfg")
    assert language.expected_after(language.lex("const const").tokens) == frozenset()


def test_a_text_with_a_mistake_leaves_nothing_behind_for_the_next_one() -> None:
    for text in ("const A = = # one\n", "const A = ' # two\n"):
        parse_recovering(SourceFile("bad.dfg", text), Diagnostics())
    lexed = load_language("dfg").lex("const B = 1\n")
    assert (lexed.comments, lexed.strange) == ([], [])
    assert to_text(parse(SourceFile("good.dfg", "const B = 1\n"))) == "const B = 1\n"


def test_threads_read_texts_at_the_same_time() -> None:
    def outcome(number: int) -> tuple[str, list[str]]:
        path = CORPUS[number % len(CORPUS)]
        broken = SourceFile(f"{number}.dfg", f"## doc {number}\nconst A = = {number} # no\nconst B = '{number}\n")
        found = Diagnostics()
        parse_recovering(broken, found)
        return to_text(parse(load(path))), [render(each) for each in found]

    expected = [outcome(number) for number in range(16)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(outcome, range(16))) == expected


def test_a_long_text_is_read_in_steps_that_its_length_alone_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts what is done, because time depends on the machine: rules put together, and the children they are given."""
    counts: list[int] = []

    def counted(size: int) -> int:
        counts.clear()
        lines = "".join(f"  let v{i + 1} = relu(v{i}) + [v{i}, {i}][0]\n" for i in range(size))
        parse(SourceFile("long.dfg", f"fn f(v0: f32) -> f32 {{\n{lines}  return v{size}\n}}\n"))
        return sum(counts)

    for name in [name for name in dir(TreeBuilder) if name.startswith("build_")]:
        method = getattr(TreeBuilder, name)

        def count(self: TreeBuilder, children: list[object], method=method) -> object:
            counts.append(1 + len(children))
            return method(self, children)

        monkeypatch.setattr(TreeBuilder, name, count)
    first, second = counted(200), counted(400)
    assert counted(800) - second == 2 * (second - first) > 0
