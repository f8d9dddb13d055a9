"""Wide accesses to memory on the device, as functions of the prelude.

Assumes addresses that are multiples of the access. Guarantees one instruction for each access: narrow elements travel
as 32-bit words, since of those of less than that the compiler makes accesses of at most four.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc_target_cuda.code.code import Code
from dfc_target_cuda.code.code_types import I64, U16, U32, Function, Pointer, Scalar, Value


def vector_load(name: str, element: Scalar, lanes: int, size: int) -> Function:
    """`loadN_T(p, i)`: N elements, `size` bytes."""

    def emit(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        place = code.address(arguments[0], arguments[1])
        together = _narrow(element, size)
        if not together:
            return [Value(element, one) for one in _load(code, element.llvm, element.llvm, place, lanes, size)]
        words = _load(code, element.llvm, "i32", place, lanes // together, size)
        parts: list[Value] = []
        for lane in range(lanes):
            word, shift = words[lane // together], lane % together * element.bits
            word = code.let(f"lshr i32 {word}, {shift}") if shift else word
            parts.append(code.value(element, f"trunc i32 {word} to {element.llvm}"))
        return parts

    return Function(f"load{lanes}_{name}", (Pointer(element), I64), (element,) * lanes, emit)


def vector_store(name: str, element: Scalar, lanes: int, size: int) -> Function:
    """`storeN_T(p, i, ...)`: N elements."""

    def emit(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        pointer, index, *values = arguments
        texts, kind = [one.text for one in values], element.llvm
        if together := _narrow(element, size):
            texts = [_word(code, texts[first : first + together], element) for first in range(0, lanes, together)]
            kind = "i32"
        _store(code, element.llvm, kind, code.address(pointer, index), texts, size)
        return []

    return Function(f"store{lanes}_{name}", (Pointer(element), I64, *[element] * lanes), (), emit)


def word_functions() -> list[Function]:
    """`load8_u16_words(p, i)` and `store8_u16_words(p, i, ...)`: eight elements as the four u32 that hold them."""

    def load(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        words = _load(code, "i16", "i32", code.address(arguments[0], arguments[1]), 4, 16)
        return [Value(U32, word) for word in words]

    def store(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        words = [one.text for one in arguments[2:]]
        _store(code, "i16", "i32", code.address(arguments[0], arguments[1]), words, 16)
        return []

    place = (Pointer(U16), I64)
    return [
        Function("load8_u16_words", place, (U32,) * 4, load),
        Function("store8_u16_words", (*place, *[U32] * 4), (), store),
    ]


def _narrow(kind: Scalar, size: int) -> int:
    """Elements in a 32-bit word, where the access is made of those; else 0."""
    return 32 // kind.bits if kind.bits < 32 and size >= 4 else 0


def _word(code: Code, values: Sequence[str], kind: Scalar) -> str:
    word = code.let(f"zext {kind.llvm} {values[0]} to i32")
    for lane, value in enumerate(values[1:], start=1):
        upper = code.let(f"shl i32 {code.let(f'zext {kind.llvm} {value} to i32')}, {lane * kind.bits}")
        word = code.let(f"or i32 {word}, {upper}")
    return word


def _vector(code: Code, element: str, kind: str, place: str, lanes: int) -> tuple[str, str]:
    """The type of the access, and the address as one of that."""
    vector = f"<{lanes} x {kind}>"
    return vector, code.let(f"bitcast {element}* {place} to {vector}*")


def _load(code: Code, element: str, kind: str, place: str, lanes: int, size: int) -> list[str]:
    vector, address = _vector(code, element, kind, place, lanes)
    loaded = code.let(f"load {vector}, {vector}* {address}, align {size}")
    return [code.let(f"extractelement {vector} {loaded}, i32 {lane}") for lane in range(lanes)]


def _store(code: Code, element: str, kind: str, place: str, values: Sequence[str], size: int) -> None:
    vector, address = _vector(code, element, kind, place, len(values))
    made = "undef"
    for lane, value in enumerate(values):
        made = code.let(f"insertelement {vector} {made}, {kind} {value}, i32 {lane}")
    code.do(f"store {vector} {made}, {vector}* {address}, align {size}")
