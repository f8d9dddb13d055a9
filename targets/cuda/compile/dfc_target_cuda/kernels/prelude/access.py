"""Wide accesses to memory on the device, as functions of the prelude.

Assumes addresses that are multiples of the access. Guarantees one instruction for each access: narrow elements travel
as 32-bit words, since of those of less than that the compiler makes accesses of at most four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dfc_target_cuda.kernels.prelude.intrinsics import WORD, fixed, ir, types


def vector_load(element: Any, lanes: int, size: int) -> Any:
    """`loadN_T(p, i)`: a tuple of N elements, `size` bytes."""
    result = types.UniTuple(element, lanes)

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return context.make_tuple(builder, result, _load(builder, arguments[0], arguments[1], lanes, size))

    return fixed("load", result(types.CPointer(element), types.int64), emit)


def vector_store(element: Any, lanes: int, size: int) -> Any:
    """`storeN_T(p, i, ...)`: N elements."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pointer, index, *values = arguments
        _store(builder, pointer, index, values, size)

    return fixed("store", types.void(types.CPointer(element), types.int64, *[element] * lanes), emit)


def word_functions() -> dict[str, Any]:
    """`load8_u16_words(p, i)` and `store8_u16_words(p, i, ...)`: eight elements as the four u32 that hold them."""
    result, pointer = types.UniTuple(types.uint32, 4), types.CPointer(types.uint16)

    def load(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        loaded = builder.load(_words_at(builder, arguments[0], arguments[1], 4))
        loaded.align = 16
        return context.make_tuple(builder, result, [_element(builder, loaded, lane) for lane in range(4)])

    def store(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pointer = _words_at(builder, arguments[0], arguments[1], 4)
        builder.store(_vector(builder, WORD, arguments[2:]), pointer).align = 16

    stored = types.void(pointer, types.int64, *[types.uint32] * 4)
    return {
        "load8_u16_words": fixed("load", result(pointer, types.int64), load),
        "store8_u16_words": fixed("store", stored, store),
    }


def _words_at(builder: Any, pointer: Any, index: Any, words: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [index]), ir.VectorType(WORD, words).as_pointer())


def _element(builder: Any, vector: Any, lane: int) -> Any:
    return builder.extract_element(vector, ir.Constant(WORD, lane))


def _vector(builder: Any, kind: Any, values: Sequence[Any]) -> Any:
    vector = ir.Constant(ir.VectorType(kind, len(values)), ir.Undefined)
    for lane, value in enumerate(values):
        vector = builder.insert_element(vector, value, ir.Constant(WORD, lane))
    return vector


def _narrow(kind: Any, size: int) -> int:
    """Elements in a 32-bit word, where the access is made of those; else 0."""
    bits = getattr(kind, "width", 0)
    return 32 // bits if 0 < bits < 32 and size >= 4 else 0


def _load(builder: Any, pointer: Any, index: Any, lanes: int, size: int) -> list[Any]:
    kind = pointer.type.pointee
    together = _narrow(kind, size)
    if not together:
        vector = ir.VectorType(kind, lanes).as_pointer()
        loaded = builder.load(builder.bitcast(builder.gep(pointer, [index]), vector))
        loaded.align = size
        return [_element(builder, loaded, lane) for lane in range(lanes)]
    loaded = builder.load(_words_at(builder, pointer, index, lanes // together))
    loaded.align = size
    parts: list[Any] = []
    for lane in range(lanes):
        word = _element(builder, loaded, lane // together)
        shift = lane % together * kind.width
        parts.append(builder.trunc(builder.lshr(word, ir.Constant(WORD, shift)) if shift else word, kind))
    return parts


def _store(builder: Any, pointer: Any, index: Any, values: Sequence[Any], size: int) -> None:
    kind = pointer.type.pointee
    together = _narrow(kind, size)
    if not together:
        element_pointer = builder.bitcast(builder.gep(pointer, [index]), ir.VectorType(kind, len(values)).as_pointer())
        builder.store(_vector(builder, kind, values), element_pointer).align = size
        return
    words: list[Any] = []
    for first in range(0, len(values), together):
        word = builder.zext(values[first], WORD)
        for lane in range(1, together):
            shift = ir.Constant(WORD, lane * kind.width)
            word = builder.or_(word, builder.shl(builder.zext(values[first + lane], WORD), shift))
        words.append(word)
    builder.store(_vector(builder, WORD, words), _words_at(builder, pointer, index, len(words))).align = size
