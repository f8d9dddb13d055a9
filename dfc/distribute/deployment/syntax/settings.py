"""The settings behind `with`: which there are, what their values may be, and the messages for all others.

memory = "16 GB"      bytes; KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB powers of 1024
every "10 min"        seconds, minutes or hours, or steps: "100 steps"
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeVar

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Edit, Help, editing, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.distribute.deployment.model import Option, Replicate, Setting
from dfc.distribute.deployment.syntax.statements import Statement, Word
from dfc.syntax.reader.literals import DIGIT_LIMIT
from dfc_runtime.errors import counted

Value = TypeVar("Value", int, str)

LARGEST = 2**53
QUANTITY = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]+)\s*\Z")
BYTES = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)},
}
SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
}
DIGITS = re.compile(r"[0-9]{1,15}")
STEPS = ("step", "steps")


@dataclass
class Settings:
    """The settings of one statement, read one by one. What nobody asked for is reported by `finish`."""

    statement: Statement
    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    _asked: list[str] = field(default_factory=list[str])

    def whole(self, name: str, default: int, least: int) -> int:
        """A whole number of at least `least`."""
        word = self.find(name)
        if word is None:
            return default
        if isinstance(word.value, bool) or not isinstance(word.value, int) or not least <= word.value <= LARGEST:
            bound = f"a whole number of at least {least}"
            likely = _likely_whole(word.value, least, default)
            return self._bad(word, name, bound, "" if likely is None else f"{name} = {likely}", default)
        return word.value

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        word = self.find(name)
        if word is None:
            return default
        if word.value not in choices:
            expected = listed(f'"{each}"' for each in choices).replace(" and ", " or ")
            near = choices[0] if len(choices) == 1 else _abbreviated(str(word.value), choices)
            return self._bad(word, name, expected, f'{name} = "{near}"' if near else "", default)
        return str(word.value)

    def text(self, name: str) -> str:
        """A string, or the empty one where the setting is absent."""
        word = self.find(name)
        if word is None:
            return ""
        if not isinstance(word.value, str) or not word.value:
            return self._bad(word, name, "a string", "", "")
        return word.value

    def bytes(self, name: str) -> int:
        """An amount of memory; 0 where the setting is absent."""
        word = self.find(name)
        if word is None:
            return 0
        amount = _quantity(word.value, BYTES) if isinstance(word.value, str) else word.value
        if isinstance(word.value, bool | float) or amount is None or not 1 <= amount <= LARGEST:
            expected = 'an amount such as "16 GB" or "512 MiB"'
            likely = _likely_amount(word)
            return self._bad(word, name, expected, f'{name} = "{likely}"' if likely else "", 0)
        return int(amount)

    def find(self, name: str) -> Word | None:
        """The value of a setting, the first if it is given twice."""
        self._asked.append(name)
        return next((each.value for each in self.statement.settings if each.name.value == name), None)

    def span(self, name: str) -> Span:
        """Where a setting stands, or the whole statement."""
        spans = (each.span for each in self.statement.settings if each.name.value == name)
        return next(spans, self.statement.span)

    def finish(self) -> tuple[Option, ...]:
        """All settings, after a message for each one that is unknown or given twice."""
        seen: dict[str, Span] = {}
        for each in self.statement.settings:
            name = each.name.text
            if name not in self._asked:
                self.problems.append(self._unknown(each.name))
            elif name in seen:
                earlier = [(seen[name], "the first one")]
                title = f"`{name}` is set twice"
                same = each.span.text.split() == seen[name].text.split()
                helps = [self.without(name, "delete one of them", last=True) if same else "delete one of them"]
                self.problems.append(error("E0181", title, each.span, secondary=earlier, helps=helps))
            seen.setdefault(name, each.span)
        return tuple(Option(each.name.text, each.value.value, each.span) for each in self.statement.settings)

    def added(self, setting: str) -> Help:
        """A help that adds a setting, before those that the statement has."""
        spans = [each.span for each in self.statement.settings]
        if spans:
            span = Span(spans[0].file, spans[0].start, spans[0].start)
            return editing(f"add `{setting}`", [Edit(span, f"{setting}, ")])
        return editing(f"add `with {setting}`", [Edit(self.statement.span.after(), f" with {setting}")])

    def without(self, name: str, words: str, *, last: bool = False) -> Help:
        """A help that deletes a setting, the last of this name if it is given more than once."""
        settings = self.statement.settings
        numbers = [number for number, each in enumerate(settings) if each.name.value == name]
        spans = [each.span for each in settings]
        return replacing(words, setting_alone(self.statement.span, spans, numbers[-1 if last else 0]), "")

    def _unknown(self, name: Word) -> Diagnostic:
        kind = self.statement.kind
        title = f"`{kind}` has no setting `{name.text}`"
        known = f"its settings are {listed(self._asked)}" if self._asked else "it has no settings"
        return error("E0181", title, name.span, did_you_mean(closest(name.text, self._asked)), notes=[known])

    def _bad(self, word: Word, name: str, expected: str, example: str, instead: Value) -> Value:
        """Reports a value, and gives one to go on with."""
        title = f"`{name}` cannot be {word.span.text}"
        helps = [replacing(f"write `{example}`", self.span(name), example)] if example else []
        self.problems.append(error("E0181", title, word.span, f"expected {expected}", helps=helps))
        return instead


def setting_alone(statement: Span, settings: Sequence[Span], number: int) -> Span:
    """What goes if one of the settings of a statement is deleted: its comma too, and `with` before the only one."""
    span = settings[number]
    if number:
        return Span(span.file, settings[number - 1].end, span.end)
    if len(settings) > 1:
        return Span(span.file, span.start, settings[1].start)
    before = span.file.text[statement.start : span.start]
    return Span(span.file, statement.start + len(before[: before.rindex("with")].rstrip()), span.end)


def duration(word: Word, problems: list[Diagnostic]) -> tuple[float, int]:
    """Seconds and steps, one of them 0."""
    text = word.text
    match = QUANTITY.match(text)
    number = match["number"] if match is not None and match["unit"] in STEPS else ""
    if number.isdigit() and len(number) < DIGIT_LIMIT and 1 <= int(number) <= LARGEST:
        return 0.0, int(number)
    amount = _quantity(text, SECONDS)
    if amount is not None and 0 < amount <= LARGEST:
        return float(amount), 0
    title = f'"{text}" is no interval'
    expected = 'expected a time such as "10 min", or a number of steps such as "100 steps"'
    problems.append(error("E0181", title, word.span, expected, notes=["units: s, min, h, steps"]))
    return 0.0, 1


def _quantity(text: str, units: dict[str, int]) -> float | int | None:
    match = QUANTITY.match(text)
    if match is None or match["unit"] not in units:
        return None
    number = float(match["number"])
    amount = number * units[match["unit"]]
    return amount if math.isfinite(amount) else None


def _likely_amount(word: Word) -> str:
    """The amount of memory that was probably meant."""
    match = QUANTITY.match(str(word.value))
    unit = "" if match is None else closest(match["unit"], BYTES)
    return f"{match['number']} {unit}" if match is not None and unit else ""


def _likely_whole(value: Setting, least: int, default: int) -> int | None:
    """The whole number that was probably meant, if there is one."""
    if isinstance(value, bool):
        return int(value) if value >= default else None
    if isinstance(value, int):
        return max(least, default) if value < least else None
    number = float(value) if isinstance(value, float) or DIGITS.fullmatch(value) else math.nan
    return int(number) if number.is_integer() and least <= number <= LARGEST else None


def _abbreviated(text: str, choices: Sequence[str]) -> str:
    """The choice that was probably meant: one that is written nearly so, or in full (`synchronous`)."""
    near = closest(text, choices)
    return near or next((each for each in choices if text.lower().startswith(each)), "")


_MODES = {"bound": "stale", "backups": "backup"}
_MISSING = {
    "bound": "it is not said how many steps a task may be ahead of the others",
    "backups": "it is not said how many tasks are not waited for",
}


def apart_mistakes(each: Replicate, tasks: int, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with settings of modes in which tasks do not wait for each other: how far ahead one may be, and how
    many are not waited for. `backups` of a step that all take together are reported with the entry."""
    for name, mode in _MODES.items():
        written = settings.find(name)
        if each.mode == mode and written is None:
            helps = [settings.added(f"{name} = 1")]
            yield error("E0181", _MISSING[name], each.setting_span("mode"), helps=helps)
        elif each.mode not in (mode, "independent") and written is not None and name == "bound":
            helps = [settings.without(name, f"delete `{name}`")]
            yield error("E0181", f"`{name}` is for the mode `{mode}`", each.setting_span(name), helps=helps)
    if each.mode == "backup" and each.backups:
        yield from _backup_mistakes(each, tasks)


def _backup_mistakes(each: Replicate, tasks: int) -> Iterator[Diagnostic]:
    if each.backups >= tasks:
        title = f"`{each.job}` has {counted(tasks, 'task')}, and steps wait for all but {each.backups}: for none"
        yield error("E0181", title, each.setting_span("backups"))
    elif each.blocks % tasks:
        title = f"`{each.job}` has {counted(tasks, 'task')}, which do not share {counted(each.blocks, 'block')} evenly"
        near = each.blocks // tasks * tasks
        helps = [replacing(f"write `blocks = {near}`", each.setting_span("blocks"), f"blocks = {near}")]
        yield error("E0181", title, each.setting_span("blocks"), helps=helps)
