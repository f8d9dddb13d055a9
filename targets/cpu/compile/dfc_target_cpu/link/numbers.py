"""Module texts that differ in numbers alone, as one text: compiled once, and linked with the numbers of each.

before:  %v7 = mul i64 %row, 1024           in one text, and 256 in another
after:   %v7 = mul i64 %row, %number.0      in both: a word of the table `numbers`, of which each has its own

Layers of different widths give kernels of the same loops over other sizes, strides and counts: most of those of a deep
network. Assumes texts of `ModuleText`, an instruction a line. Guarantees the meaning of each text, and the same result
for the same texts. A number stays in the text where machine code is better for knowing it: as divisor, amount of a
shift, size of a vector, operand of an intrinsic. Any other one is read once, where its function starts.
"""

import itertools
import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

NUMBERS = "numbers"
"""The table of a text's own numbers, words of 64 bits."""
NO_TABLES: Mapping[str, bytes] = MappingProxyType({})
ALIGNMENT = 64
"""Of every table."""

_NUMBER = re.compile(r"-?\d+")
_BEFORE_NUMBERS = re.compile(
    "|".join(
        (
            r"  %[\w.]+ = (?:add|sub|mul|icmp \w+) i64 (?:[\w.%-]+, )?",
            r"  %[\w.]+ = select i1 [\w.%]+, (?:i64 [\w.%-]+, )?i64 ",
            r"  %[\w.]+ = getelementptr \w+, ptr [\w.%@]+, i64 ",
            r"  %[\w.]+ = phi i64 (?:\[[\w.%-]+, %[\w.]+\], )*\[",
            r"  %[\w.]+ = call i64 @llvm\.[su](?:min|max)\.i64\((?:i64 [\w.%-]+, )?i64 ",
            r"  (?:%[\w.]+ = )?call \w+ (?:@(?!llvm\.)|%)[\w.]+\((?:\w+ [\w.%@-]+, )*i64 ",
            r"  store i64 ",
        )
    )
)
"""What stands in a line before a number that may as well be in a register."""
_TABLE = re.compile(rf"@([\w.]+) = internal unnamed_addr constant (\[\d+ x i64\]) \[(.*)\], align {ALIGNMENT}")
_FACTOR = re.compile(
    r"(  %[\w.]+ = fmul (?:<(\d+) x (?:float|double)>|float|double) %[\w.]+, )"
    r"(?:splat \((float|double) )?0x([0-9A-F]{16})\)?"
)
"""A product of numbers with one that is known, be it in all lanes."""
_DIGITS = b"-0123456789ABCDEF"
_WORD = "%number."
_USE = re.compile(rf"{_WORD}(\d+)(?:\.(\d+)x(\w+))?")
_START = "entry:"


class Linked(NamedTuple):
    """A text to compile, and the tables that it lacks, by their names: where it is linked, it gets them."""

    text: str
    tables: Mapping[str, bytes] = NO_TABLES


class _Line(NamedTuple):
    """A line that is not the same in all texts: what it is with its numbers in it, the pieces between them, and these
    as words; the table that it defines, which is then declared only."""

    text: str
    pieces: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    table: tuple[str, bytes] | None = None


def share_texts(texts: Sequence[str]) -> list[Linked]:
    """For each text itself, or one that it has in common with others."""
    result = [Linked(text) for text in texts]
    for alike in _groups(text.encode().translate(None, _DIGITS) for text in texts):
        if len(alike) > 1:
            for member, linked in _share([texts[index].split("\n") for index in alike]).items():
                result[alike[member]] = linked
    return result


def _groups(keys: Iterable[object]) -> list[list[int]]:
    """The indices of equal keys."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        groups[key].append(index)
    return list(groups.values())


def _share(texts: Sequence[Sequence[str]]) -> dict[int, Linked]:
    """Of texts in which digits and signs alone differ: those that get a text in common with others."""
    rows = [row for row, line in enumerate(zip(*texts, strict=True)) if len(set(line)) > 1]
    lines = [[_apart(text[row]) for row in rows] for text in texts]
    result: dict[int, Linked] = {}
    for alike in _groups(tuple(line.pieces for line in each) for each in lines):
        if len(alike) > 1:
            shared = _with_words(texts[alike[0]], rows, [lines[index] for index in alike])
            result.update(zip(alike, shared, strict=True))
    return result


def _apart(line: str) -> _Line:
    table = _TABLE.fullmatch(line)
    if table:
        name, shape, items = table.groups()
        words = [int(item.removeprefix("i64 ")) for item in items.split(", ")]
        declared = f"@{name} = external hidden constant {shape}, align {ALIGNMENT}"
        return _Line(declared, (declared,), (), (name, struct.pack(f"<{len(words)}q", *words)))
    factor = _FACTOR.fullmatch(line)
    if factor:
        return _factor_apart(line, *factor.groups())
    pieces, numbers, end = list[str](), list[int](), 0
    for number in _NUMBER.finditer(line):
        if _BEFORE_NUMBERS.fullmatch(line, 0, number.start()):
            pieces.append(line[end : number.start()])
            numbers.append(int(number[0]))
            end = number.end()
    return _Line(line, (*pieces, line[end:]), tuple(numbers))


def _factor_apart(line: str, start: str, lanes: str | None, element: str | None, digits: str) -> _Line:
    """A factor of one is no word: nothing is multiplied by it. Nor is what is no finite number."""
    (value,) = struct.unpack(">d", bytes.fromhex(digits))
    if abs(value) == 1 or not math.isfinite(value):
        return _Line(line, (line,))
    kind = element or start.split()[3]
    packed = struct.pack("<fi" if kind == "float" else "<d", *((value, 0) if kind == "float" else (value,)))
    return _Line(line, (start, f".{lanes or 1}x{kind}"), struct.unpack("<q", packed))


def _with_words(text: Sequence[str], rows: Sequence[int], lines: Sequence[Sequence[_Line]]) -> list[Linked]:
    """What texts have in common, which is one of them with other lines at these rows, and the tables of each. A word
    stands wherever the same numbers are in all texts."""
    words: dict[tuple[int, ...], int] = {}
    shared = list(text)
    for row, versions in zip(rows, zip(*lines, strict=True), strict=True):
        if len({each.numbers for each in versions}) == 1:
            shared[row] = versions[0].text
            continue
        line = [versions[0].pieces[0]]
        for piece, numbers in zip(
            versions[0].pieces[1:], zip(*(each.numbers for each in versions), strict=True), strict=True
        ):
            differs = len(set(numbers)) > 1
            line += [f"{_WORD}{words.setdefault(numbers, len(words))}" if differs else str(numbers[0]), piece]
        shared[row] = "".join(line)
    tables = [dict(line.table for line in each if line.table) for each in lines]
    if words:
        shared[1:1] = [f"@{NUMBERS} = external hidden constant [{len(words)} x i64], align {ALIGNMENT}"]
        shared = [*_reading_words(shared), "!0 = !{}", ""]
        for index, own in enumerate(tables):
            own[NUMBERS] = struct.pack(f"<{len(words)}q", *(numbers[index] for numbers in words))
    joined = "\n".join(shared)
    return [Linked(joined, own) for own in tables]


def _reading_words(text: Sequence[str]) -> list[str]:
    """Each function reads, where it starts, the words that it uses."""
    starts = [row for row, line in enumerate(text) if line == _START]
    result = list(text[: starts[0]])
    for start, end in itertools.pairwise([*starts, len(text)]):
        used = {use for line in text[start:end] if _WORD in line for use in _USE.findall(line)}
        reads = [line for use in sorted(used) for line in _reads(*use)]
        result += [_START, *reads, *text[start + 1 : end]]
    return result


def _reads(word: str, lanes: str, element: str) -> list[str]:
    """A word as a whole number; or as one of `element`, in all lanes."""
    source = f"ptr getelementptr (i64, ptr @{NUMBERS}, i64 {word}), align 8, !invariant.load !0"
    if not element:
        return [f"  {_WORD}{word} = load i64, {source}"]
    name, vector = f"{_WORD}{word}.{lanes}x{element}", f"<{lanes} x {element}>"
    if lanes == "1":
        return [f"  {name} = load {element}, {source}"]
    return [
        f"  {name}.one = load {element}, {source}",
        f"  {name}.first = insertelement {vector} poison, {element} {name}.one, i32 0",
        f"  {name} = shufflevector {vector} {name}.first, {vector} poison, <{lanes} x i32> zeroinitializer",
    ]
