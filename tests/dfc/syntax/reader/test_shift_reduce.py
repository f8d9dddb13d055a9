"""Texts cut into tokens and read: as lark itself does it with the same tables."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from lark import Lark, UnexpectedToken

from dfc.syntax.reader import language
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.tokens import Token
from tests.support.corpus import CORPUS, load

PIECES = ["", "(", ")", ":=", '"', "if", "1e5", "0x1f", "let", ".", "# é\n", "'", "\n"]


@cache
def by_lark(name: str) -> tuple[Any, list[Any], list[int]]:
    """The parser, and where it leaves the comments and the places of strange characters of a text."""
    comments: list[Any] = []
    strange: list[int] = []

    def keep_comment(token: Any) -> Any:
        comments.append(token)
        return token

    def keep_strange(token: Any) -> Any:
        strange.append(token.start_pos)
        return token

    tables = language._tables(name)
    tables["data"]["options"] |= {"lexer_callbacks": {"COMMENT": keep_comment, "STRANGE": keep_strange}}
    loader: Any = Lark
    return loader.load(tables), comments, strange


def expected_by_lark(name: str, tokens: list[Token]) -> set[str]:
    session = by_lark(name)[0].parse_interactive()
    try:
        for token in tokens:
            session.feed_token(token)
    except UnexpectedToken:
        return set()
    return session.accepts()


def damaged(text: str, random: Random) -> str:
    letters = list(text)
    for _ in range(4):
        place = random.randrange(len(letters))
        letters[place : place + random.randrange(3)] = random.choice(PIECES)
    return "".join(letters)


def parts(token: Any) -> tuple[str, str, int, int]:
    return token.type, token.value, token.start_pos, token.end_pos


@pytest.mark.parametrize("name", ["dfg", "deploy"])
def test_texts_have_the_tokens_and_the_continuations_that_lark_finds(name: str) -> None:
    random = Random(3)
    whole = [load(path).text for path in CORPUS] if name == "dfg" else ['deploy 1 for "a.dfg"\njob ranks = 2 # two\n']
    texts = [text for text in whole if 0 < len(text) < 3000][:25]
    for text in [*texts, *(damaged(text, random) for text in texts)]:
        lark, comments, strange = by_lark(name)
        comments.clear()
        strange.clear()
        session = lark.parse_interactive(text)
        expected = [parts(token) for token in session.lexer_thread.lex(session.parser_state)]
        lexed = load_language(name).lex(text)
        assert [parts(token) for token in lexed.tokens] == expected
        assert [parts(token) for token in lexed.comments] == [parts(token) for token in comments]
        assert lexed.strange == strange
        for count in (random.randint(0, len(lexed.tokens)), len(lexed.tokens)):
            tokens = lexed.tokens[:count]
            assert load_language(name).expected_after(tokens) == expected_by_lark(name, tokens)


def test_keywords_are_the_words_of_the_grammar() -> None:
    patterns = [terminal.pattern for terminal in by_lark("dfg")[0].terminals]
    words = {pattern.value for pattern in patterns if pattern.type == "str" and pattern.value.isidentifier()}
    assert load_language("dfg").keywords == words >= {"let", "entry", "while"}
