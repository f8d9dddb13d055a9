"""The statements of a deployment file as they are written: words and their places, before anything is known of them.

Built by one method per rule of the grammar, as `dfc.syntax.reader.node_builder` says.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.syntax.reader.literals import float_value, integer_value, string_value
from dfc.syntax.reader.node_builder import Children, NodeBuilder
from dfc.syntax.reader.tokens import Token

STATEMENTS = ("job", "shard", "place", "colocate", "replicate", "compress", "checkpoint", "step")


@dataclass(frozen=True, slots=True)
class Word:
    """A name, number or string: `value` is what it means, `span` where it stands."""

    value: int | float | bool | str
    span: Span

    @property
    def text(self) -> str:
        """The value of a name or a string."""
        return cast(str, self.value)

    @property
    def number(self) -> int:
        """The value of a whole number."""
        return cast(int, self.value)


@dataclass(frozen=True, slots=True)
class DeviceWords:
    """`gpu 3`, `gpu` or `any gpu`."""

    kind: Word
    number: Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class WhereWords:
    """`ps task 3 any gpu`, or a device name in parts as one string."""

    span: Span
    name: Word | None = None
    task: Word | None = None
    device: DeviceWords | None = None
    path: Word | None = None


@dataclass(frozen=True, slots=True)
class StringWords:
    """`"train/loss", "train/accuracy"`."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class SettingWords:
    """`name = value`."""

    name: Word
    value: Word
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: which, its words in the order of the grammar, its lists of strings, and its settings."""

    kind: str
    words: tuple[Word | None, ...]
    settings: tuple[SettingWords, ...]
    span: Span
    where: WhereWords | None = None
    strings: tuple[StringWords, ...] = ()

    def word(self, index: int) -> Word:
        candidate = self.words[index]
        assert candidate is not None, "the grammar demands it"
        return candidate

    @property
    def keyword_span(self) -> Span:
        return Span(self.span.file, self.span.start, self.span.start + len(self.kind))


@dataclass(frozen=True, slots=True)
class Edition:
    """`deploy 1 for "skipgram.dfg"`."""

    number: Word
    program: Word


Written: TypeAlias = list[Edition | Statement]


class StatementBuilder(NodeBuilder):
    """Builds the statements of one file; what is wrong with literals is collected in `problems`."""

    def word(self, token: Token) -> Word:
        span = self.span_of(token)
        if token.type == "INT":
            return Word(integer_value(token.value, span, self.problems), span)
        if token.type == "STRING":
            return Word(string_value(token.value, span, self.problems), span)
        if token.type == "FLOAT":
            return Word(float_value(token.value, span, self.problems), span)
        return Word(token.value, span)

    def _statement(self, children: Children) -> Statement:
        settings: tuple[SettingWords, ...] = ()
        where: WhereWords | None = None
        words: list[Word | None] = []
        strings: list[StringWords] = []
        keyword, *parts = children
        for child in parts:
            if isinstance(child, tuple):
                settings = cast("tuple[SettingWords, ...]", child)
            elif isinstance(child, StringWords):
                strings.append(child)
            elif isinstance(child, WhereWords):
                where = child
            elif isinstance(child, DeviceWords):
                where = WhereWords(child.span, device=child)
            else:
                words.append(None if child is None else self.word(child))
        return Statement(keyword.value, tuple(words), settings, self.span(children), where, tuple(strings))

    build_job = _statement
    build_shard = _statement
    build_place = _statement
    build_colocate = _statement
    build_replicate = _statement
    build_compress = _statement
    build_checkpoint = _statement
    build_step = _statement

    def build_start(self, children: Children) -> Written:
        return list(children)

    def build_edition(self, children: Children) -> Edition:
        _, number, program = children
        return Edition(self.word(number), self.word(program))

    def build_with_(self, children: Children) -> tuple[SettingWords, ...]:
        return tuple(children[1:])

    def build_strings(self, children: Children) -> StringWords:
        return StringWords(tuple(map(self.word, children)))

    def build_setting(self, children: Children) -> SettingWords:
        name, value = children
        return SettingWords(self.word(name), value, self.span(children))

    def build_int(self, children: Children) -> Word:
        return self.word(children[0])

    build_float = build_int
    build_string = build_int

    def build_true(self, children: Children) -> Word:
        return Word(True, self.span(children))

    def build_false(self, children: Children) -> Word:
        return Word(False, self.span(children))

    def build_where(self, children: Children) -> WhereWords:
        name, task, device = children
        return WhereWords(self.span(children), self.word(name), task, device)

    def build_task(self, children: Children) -> Word:
        return self.word(children[1])

    def build_any_device(self, children: Children) -> DeviceWords:
        return DeviceWords(self.word(children[1]), None, self.span(children))

    def build_device(self, children: Children) -> DeviceWords:
        kind, number = children
        return DeviceWords(self.word(kind), None if number is None else self.word(number), self.span(children))

    def build_device_name(self, children: Children) -> WhereWords:
        return WhereWords(self.span(children), path=self.word(children[0]))
