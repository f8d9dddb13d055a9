"""The statements of a deployment file as they are written: words and their places, before anything is known of them.

Made bottom-up by the automaton, one builder per rule of the grammar; children come in the order of the grammar, None
for optional parts that are absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.source import SourceFile, Span
from dfc.syntax.reader.automaton import Builder, Children
from dfc.syntax.reader.lexer import Token
from dfc.syntax.reader.literals import float_value, integer_value, string_value

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
        found = self.words[index]
        assert found is not None, "the grammar demands it"
        return found

    @property
    def keyword_span(self) -> Span:
        return Span(self.span.file, self.span.start, self.span.start + len(self.kind))


@dataclass(frozen=True, slots=True)
class Edition:
    """`deploy 1 for "skipgram.dfg"`."""

    number: Word
    program: Word


Written: TypeAlias = list[Edition | Statement]


class StatementBuilder:
    """Builds the statements of one file; what is wrong with literals is collected in `problems`."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.problems: list[Diagnostic] = []

    def builders(self) -> dict[str, Builder]:
        """Rule name to builder."""
        made: dict[str, Builder] = {kind: self._statement(kind) for kind in STATEMENTS}
        prefix = "build_"
        made |= {name[len(prefix) :]: getattr(self, name) for name in dir(self) if name.startswith(prefix)}
        return made

    def span_of(self, token: Token) -> Span:
        return Span(self.file, token.start, token.end)

    def word(self, token: Token) -> Word:
        span = self.span_of(token)
        if token.kind == "INT":
            return Word(integer_value(token.text, span, self.problems), span)
        if token.kind == "STRING":
            return Word(string_value(token.text, span, self.problems), span)
        if token.kind == "FLOAT":
            return Word(float_value(token.text, span, self.problems), span)
        return Word(token.text, span)

    def _statement(self, kind: str) -> Builder:
        def build(children: Children, start: int, end: int) -> Statement:
            settings: tuple[SettingWords, ...] = ()
            where: WhereWords | None = None
            words: list[Word | None] = []
            strings: list[StringWords] = []
            for child in children:
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
            place = Span(self.file, start, end)
            return Statement(kind, tuple(words), settings, place, where, tuple(strings))

        return build

    def build_start(self, children: Children, _start: int, _end: int) -> Written:
        return list(children)

    def build_edition(self, children: Children, _start: int, _end: int) -> Edition:
        return Edition(self.word(children[0]), self.word(children[1]))

    def build_with_(self, children: Children, _start: int, _end: int) -> tuple[SettingWords, ...]:
        return tuple(children)

    def build_strings(self, children: Children, _start: int, _end: int) -> StringWords:
        return StringWords(tuple(map(self.word, children)))

    def build_setting(self, children: Children, start: int, end: int) -> SettingWords:
        name, value = children
        return SettingWords(self.word(name), value, Span(self.file, start, end))

    def build_int(self, children: Children, _start: int, _end: int) -> Word:
        return self.word(children[0])

    build_float = build_int
    build_string = build_int

    def build_true(self, _children: Children, start: int, end: int) -> Word:
        return Word(True, Span(self.file, start, end))

    def build_false(self, _children: Children, start: int, end: int) -> Word:
        return Word(False, Span(self.file, start, end))

    def build_where(self, children: Children, start: int, end: int) -> WhereWords:
        name, task, device = children
        return WhereWords(Span(self.file, start, end), self.word(name), task, device)

    def build_task(self, children: Children, _start: int, _end: int) -> Word:
        return self.word(children[0])

    def build_any_device(self, children: Children, start: int, end: int) -> DeviceWords:
        return DeviceWords(self.word(children[0]), None, Span(self.file, start, end))

    def build_device(self, children: Children, start: int, end: int) -> DeviceWords:
        kind, number = children
        place = Span(self.file, start, end)
        return DeviceWords(self.word(kind), None if number is None else self.word(number), place)

    def build_device_name(self, children: Children, start: int, end: int) -> WhereWords:
        return WhereWords(Span(self.file, start, end), path=self.word(children[0]))
