"""The arguments of a reader: all of them are known when the program is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.state.reader_fields import PACKED_KINDS, fields_of
from dfc.elaborate.types.convert import constant_of
from dfc.ir.dtypes import I64
from dfc.ir.types import TensorType
from dfc.ops.effects.records import STRING, RecordAttributes
from dfc_runtime.records.fields import RecordLayout, field_of
from dfc_runtime.records.formats import FORMATS

ORDERS = {False: "", True: "files", "files": "files", "records": "records"}
"""What `shuffle` says, and what is shuffled then."""
MOST_PASSES = 2**31
MOST_PARTS = 2**20
LARGEST_RECORD = 2**30
IMAGE_FILES = "image_files"
"""The reader whose fields are always the same."""
LONGEST = 1 << 20
"""Room for a record, where the program says nothing."""


@dataclass(frozen=True, slots=True)
class ReaderArguments:
    """The arguments of a declaration, which are known when the program is compiled."""

    context: Context
    function: str
    format: str
    arguments: Mapping[str, Argument]

    def attributes(self, name: str) -> tuple[RecordAttributes, tuple[TensorType | None, ...]]:
        """The reader of that name, and the types of its fields."""
        parts = self._number("parts", 1, (1, MOST_PARTS))
        names, types = self._fields()
        texts = tuple(STRING if each is None else str(each) for each in types)
        attributes = RecordAttributes(
            name,
            self._text("pattern", ""),
            self._number("passes", 1, (1, MOST_PASSES)),
            self._order(),
            self._number("seed", 0, (-(2**63), 2**63 - 1)),
            self._on_error(),
            self._number("part", 0, (0, parts - 1)),
            parts,
            self._room(names, types),
            self.format,
            names,
            texts,
            self._head(),
            self._separator(),
        )
        return attributes, tuple(types)

    def _fields(self) -> tuple[tuple[str, ...], list[TensorType | None]]:
        if self.function == IMAGE_FILES:
            return ("image", "label"), [None, TensorType(I64)]
        argument = self.arguments.get("fields")
        return ((), []) if argument is None else fields_of(self.context, argument, PACKED_KINDS[self.function])

    def _room(self, names: Sequence[str], types: Sequence[TensorType | None]) -> int:
        """Bytes of the longest record, with all fields."""
        longest = self._number("longest", LONGEST, (1, LARGEST_RECORD))
        if not names:
            return longest
        if not all(size.constant is not None for each in types if each is not None for size in each.shape):
            return longest  # in a block that is looked at for any sizes
        texts = [STRING if each is None else str(each) for each in types]
        try:
            layout = RecordLayout(tuple(field_of(name, text) for name, text in zip(names, texts, strict=True)))
        except ValueError:  # one alone is too large
            layout = RecordLayout(())
        if not 0 < layout.size <= LARGEST_RECORD:
            title = f"the fields of `{self.function}` have from 1 to {LARGEST_RECORD:,} bytes together"
            notes = ("a reader has room for one record, with all fields that are wanted",)
            raise mistake("E0315", title, self.arguments["fields"].span, notes=notes)
        return layout.size + longest * layout.has_strings

    def _head(self) -> bool:
        argument = self.arguments.get("head")
        value = self._constant(argument, "head") if argument is not None else True
        if not isinstance(value, bool):
            title = f"the argument `head` of `{self.function}` is `true` or `false`"
            notes = ("`true`: the first line names the columns",)
            raise mistake("E0315", title, self.arguments["head"].span, notes=notes)
        return value

    def _separator(self) -> str:
        value = self._text("separator", ",")
        if len(value) != 1 or not value.isascii() or value in '"\r\n':
            title = f"the argument `separator` of `{self.function}` is one letter that stands between cells"
            raise mistake("E0315", title, self.arguments["separator"].span, helps=('such as `";"`',))
        return value

    def _constant(self, argument: Argument, name: str) -> bool | int | float | str:
        what = f"the argument `{name}` of `{self.function}`"
        return constant_of(self.context, value_of(self.context, argument), argument.span, what)

    def _number(self, name: str, default: int, bounds: tuple[int, int]) -> int:
        argument, (least, most) = self.arguments.get(name), bounds
        if argument is None:
            return default
        value = self._constant(argument, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            title = f"the argument `{name}` of `{self.function}` is a whole number from {least} to {most}"
            raise mistake("E0315", title, argument.span)
        return value

    def _text(self, name: str, default: str) -> str:
        argument = self.arguments.get(name)
        if argument is None:
            return default
        value = self._constant(argument, name)
        if not isinstance(value, str) or not value or "\0" in value:
            title = f"the argument `{name}` of `{self.function}` is a text"
            such = {"pattern": f"data/{FORMATS[self.format].pattern}", "separator": ";"}.get(name, default)
            raise mistake("E0315", title, argument.span, helps=(f'such as `"{such}"`',))
        return value

    def _order(self) -> str:
        argument = self.arguments.get("shuffle")
        if argument is None:
            return ""
        value = self._constant(argument, "shuffle")
        if not isinstance(value, bool | str) or value not in ORDERS:
            title = f'the argument `shuffle` of `{self.function}` is `true`, `false`, `"files"` or `"records"`'
            notes = ("`true` means `files`: their names in another order in each pass",)
            raise mistake("E0315", title, argument.span, notes=notes)
        return ORDERS[value]

    def _on_error(self) -> str:
        value = self._text("on_error", "fail")
        if value not in ("fail", "skip"):
            title = f'the argument `on_error` of `{self.function}` is `"fail"` or `"skip"`'
            notes = ("a damaged record is an error, or it is left out and counted",)
            raise mistake("E0315", title, self.arguments["on_error"].span, notes=notes)
        return value
