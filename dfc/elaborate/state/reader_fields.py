"""Fields with their types, `(image = string, label = i64)`: of `parse_example`, and of readers of packed records."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import ElementType, Entity, SpecialType, TupleValue, TypeValue, Unknown
from dfc.ir.dtypes import F32, I64
from dfc.ir.types import TensorType
from dfc.ops.effects.records import PARSE
from dfc_runtime.records.fields import NUMPY_TYPES


@dataclass(frozen=True, slots=True)
class FieldKinds:
    """What holds fields, how a program writes some, and the element types of those that are no strings."""

    function: str
    what: str
    sample: str
    dtypes: frozenset[str]
    has_strings: bool = True
    has_shapes: bool = True


EXAMPLE = FieldKinds(PARSE, "an example", f"{PARSE}(record, (image = string, label = i64))", frozenset({"f32", "i64"}))
_NUMBERS = frozenset(NUMPY_TYPES) - {"bool", "u64"}
_COLUMNS = "(image = string, label = i64, box = f32[4])"
PACKED_KINDS = {
    "csv_files": FieldKinds("csv_files", "a row", 'csv_files("data/*.csv", (label = i64, weights = f32[3]))', _NUMBERS),
    "array_files": FieldKinds(
        "array_files",
        "an array",
        'array_files("data/*.npz", (images = u8[28, 28], labels = i64))',
        frozenset(NUMPY_TYPES),
        has_strings=False,
    ),
    "tar_files": FieldKinds(
        "tar_files", "a sample", 'tar_files("data/*.tar", (jpg = string, cls = i64))', _NUMBERS, has_shapes=False
    ),
    "parquet_files": FieldKinds(
        "parquet_files", "a column", f'parquet_files("data/*.parquet", {_COLUMNS})', frozenset(NUMPY_TYPES)
    ),
    "arrow_files": FieldKinds(
        "arrow_files", "a column", f'arrow_files("data/*.arrow", {_COLUMNS})', frozenset(NUMPY_TYPES)
    ),
}
"""By the function that declares a reader."""


def fields_of(
    context: Context, argument: Argument, kinds: FieldKinds
) -> tuple[tuple[str, ...], list[TensorType | None]]:
    """Names and types of the fields that are wanted; None is a string."""
    entity = value_of(context, argument)
    if isinstance(entity, Unknown):
        raise Abandoned
    if not isinstance(entity, TupleValue) or not entity.names or not all(entity.names):
        helps = (f"write `{kinds.sample}`",)
        title = f"`{kinds.function}` takes names with types"
        raise mistake("E0316", title, argument.span, describe(entity), helps=helps)
    return entity.names, [
        _field(context, name, each, argument.span, kinds) for name, each in zip(entity.names, entity.items, strict=True)
    ]


def _field(context: Context, name: str, entity: Entity, span: Span, kinds: FieldKinds) -> TensorType | None:
    match entity:
        case SpecialType("string") if kinds.has_strings:
            return None
        case ElementType(dtype):
            type_ = TensorType(dtype)
        case TypeValue(type_):
            pass
        case Unknown():
            raise Abandoned
        case _:
            title = f"the field `{name}` of {kinds.what} has a type"
            helps = (
                f"write `{name} = {'string' if kinds.has_strings else 'u8'}`, `{name} = i64` or `{name} = f32[10]`",
            )
            raise mistake("E0316", title, span, f"this is {describe(entity)}", helps=helps)
    if str(type_.dtype) not in kinds.dtypes:
        allowed = ["strings"] * kinds.has_strings + [f"`{each}`" for each in sorted(kinds.dtypes)]
        title = f"{kinds.what} holds {', '.join(allowed[:-1])} and {allowed[-1]}, so `{name}` cannot be {type_}"
        near = F32 if type_.dtype.is_float else I64
        helps = (f"read it as `{near}`, and convert it: `fields.{name} as {type_.dtype}`",)
        raise mistake("E0302", title, span, helps=helps)
    if type_.shape and not kinds.has_shapes:
        title = f"a field of {kinds.what} is a string or one number, so `{name}` cannot be {type_}"
        raise mistake("E0302", title, span, helps=(f"read it as `{name} = string`, and use `decode_raw`",))
    if not context.generic and any(size.constant is None for size in type_.shape):
        raise mistake("E0309", f"the shape of the field `{name}` is known when the program is compiled", span)
    return type_
