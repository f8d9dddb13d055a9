"""The names of the prelude on the device: functions of numba.cuda with instructions of their own.

Assumes numba-cuda (the extra `cuda`); only what makes code for devices imports this. Guarantees one instruction or a
few each: 16-byte accesses are vector instructions, shared memory is addressed as such, nothing throws and nothing
checks bounds. Square root, division and conversions round once; subnormal numbers are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

from dfc.ir.dtypes import BOOL, F32, F64, I32, I64, DType
from dfc.kernels.primitives import (
    COMPARISONS,
    FLOAT_BINARY,
    INTEGER_BINARY,
    LOGIC,
    PRIMITIVES,
    WIDE_BINARY,
    WIDE_UNARY,
    fits,
)
from dfc.lower.legalise.library import REGISTERS, library
from dfc.lower.legalise.meaning import meaning
from dfc_target_cuda.kernels.prelude.access import vector_load, vector_store, word_functions
from dfc_target_cuda.kernels.prelude.function_code import called, device_function
from dfc_target_cuda.kernels.prelude.intrinsics import (
    LONG,
    TYPES,
    WORD,
    Emit,
    call,
    fixed,
    ir,
    plain,
    types,
    with_parameters,
)
from dfc_target_cuda.kernels.prelude.primitive_code import primitive
from dfc_target_cuda.kernels.prelude.tensor import tensor_functions

RequireLiteralValue: Any = import_module("numba.cuda.core.errors").RequireLiteralValue

_I64 = types.int64
_SHARED = 3
_OF_FUNCTIONS = INTEGER_BINARY - FLOAT_BINARY | WIDE_UNARY | WIDE_BINARY | {"convert", "bits", "multiply_add"}
"""Primitives that no kernel has by themselves, or under another name."""


@cache
def names() -> dict[str, Any]:
    """Every name that a text may use."""
    names: dict[str, Any] = {**TYPES, "boolean": _truth(), "inf": float("inf"), "nan": float("nan")}
    names |= {name: _special(register) for name, register in _REGISTERS.items()}
    names |= {name: device_function(function) for name, function in library().items()}
    return names | _barriers() | _arithmetic() | _indices() | _memory() | _shuffles() | tensor_functions()


# --- where a thread is

_REGISTERS = {"thread": "tid.x", "block_index": "ctaid.x", "block_size": "ntid.x", "block_count": "nctaid.x"}


def _special(register: str) -> Any:
    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return builder.zext(call(builder, f"llvm.nvvm.read.ptx.sreg.{register}", WORD), LONG)

    return fixed("special", _I64(), emit)


def _barriers() -> dict[str, Any]:
    """`fence()`: memory as a lane sees it, to all blocks; and what it reads afterwards is not older.
    `barrier_any(flag)`: the barrier of the block, and whether the flag of any lane is set."""

    def barrier_any(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        is_any = call(builder, "llvm.nvvm.barrier0.or", WORD, [builder.zext(arguments[0], WORD)])
        return builder.icmp_unsigned("!=", is_any, ir.Constant(WORD, 0))

    def meeting(name: str, *constants: Any) -> Any:
        def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
            call(builder, name, ir.VoidType(), constants)

        return fixed("meeting", types.void(), emit)

    return {
        "barrier": meeting("llvm.nvvm.barrier0"),
        "fence": meeting("llvm.nvvm.membar.gl"),
        "warp_barrier": meeting("llvm.nvvm.bar.warp.sync", ir.Constant(WORD, 0xFFFFFFFF)),
        "barrier_any": fixed("barrier_any", types.boolean(types.boolean), barrier_any),
    }


# --- arithmetic


def _arithmetic() -> dict[str, Any]:
    """`T_add(x, y)` and so on: the primitive instructions that kernels have by themselves, each of one type."""
    functions = {
        f"{_name(kind)}_{name}": _primitive(name, [kind] * count, result)
        for kind, name, count in product(REGISTERS, sorted(PRIMITIVES - _OF_FUNCTIONS), (1, 2, 3))
        for result in ([BOOL] if name in COMPARISONS else [kind])
        if fits(name, [kind] * count, result)
    }
    functions |= {f"{_name(kind)}_select": _primitive("select", [BOOL, kind, kind], kind) for kind in REGISTERS}
    for real, bits in ((F32, I32), (F64, I64)):
        functions[f"{real}_bits"] = _primitive("bits", [real], bits)
        functions[f"{real}_from_bits"] = _primitive("bits", [bits], real)
    return functions | {"both": _primitive("and", [BOOL, BOOL], BOOL)}


def _primitive(name: str, operands: Sequence[DType], result: DType) -> Any:
    signature = TYPES[_name(result)](*(TYPES[_name(one)] for one in operands))
    return fixed(name, signature, lambda c, b, a: primitive(b, name, a, operands[0], result))


def _name(dtype: DType) -> str:
    return "boolean" if dtype.is_bool else dtype.name


def _truth() -> Any:
    """`boolean(x)`: whether a number is not zero."""

    def typing(_: Any, operand_types: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            (x,) = arguments
            compare = builder.fcmp_unordered if isinstance(signature.args[0], types.Float) else builder.icmp_signed
            return compare("!=", x, ir.Constant(x.type, 0))

        return types.boolean(plain(operand_types)), generate

    return with_parameters("boolean", 1, typing)


def _indices() -> dict[str, Any]:
    """`min`, `max` of i64; `quotient`, `remainder` of those that are not negative, by what is above 0; with `32` both
    surely fit into 31 bits."""

    def extreme(order: str) -> Any:
        return fixed("extreme", _I64(_I64, _I64), lambda c, b, a: b.select(b.icmp_signed(order, *a), *a))

    def narrow(divide: str) -> Emit:
        def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
            words = [builder.trunc(one, WORD) for one in arguments]
            return builder.zext(getattr(builder, divide)(*words), LONG)

        return emit

    functions: dict[str, Any] = {"min": extreme("<"), "max": extreme(">")}
    for name, divide in (("quotient", "udiv"), ("remainder", "urem")):
        functions[name] = fixed(name, _I64(_I64, _I64), lambda c, b, a, d=divide: getattr(b, d)(*a))
        functions[f"{name}32"] = fixed(name, _I64(_I64, _I64), narrow(divide))
    return functions


# --- memory

ELEMENTS = {"f32": 4, "i32": 4, "u32": 4, "f64": 2, "i64": 2, "u64": 2, "i16": 8, "u16": 8, "i8": 16, "u8": 16}
"""Elements of a 16-byte access; there are narrower ones too."""


def _memory() -> dict[str, Any]:
    functions: dict[str, Any] = {}
    for name, most in ELEMENTS.items():
        for lanes in (lanes for lanes in (2, 4, 8, 16) if lanes <= most):
            functions[f"load{lanes}_{name}"] = vector_load(TYPES[name], lanes, 16 * lanes // most)
            functions[f"store{lanes}_{name}"] = vector_store(TYPES[name], lanes, 16 * lanes // most)
        functions[f"shared_{name}"] = _shared(name)
        functions |= {f"{name}_load_if": _load_if(TYPES[name]), f"{name}_store_if": _store_if(TYPES[name])}
    functions |= {f"atomic_add_{name}": _atomic_add(TYPES[name]) for name in ("u32", "i64")}
    functions |= word_functions()
    return functions | {"report": _report(), **{f"{name}_pointer": _view(name) for name in ELEMENTS}}


def _load_if(element: Any) -> Any:
    """`T_load_if(p, i, test, otherwise)`: nothing is read where the test fails."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pointer, index, test, otherwise = arguments
        before = builder.block
        with builder.if_then(test):
            value = builder.load(builder.gep(pointer, [index]))
            inside = builder.block
        merged = builder.phi(value.type)
        merged.add_incoming(otherwise, before)
        merged.add_incoming(value, inside)
        return merged

    return fixed("load_if", element(types.CPointer(element), _I64, types.boolean, element), emit)


def _store_if(element: Any) -> Any:
    """`T_store_if(p, i, value, test)`."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> None:
        pointer, index, value, test = arguments
        with builder.if_then(test):
            builder.store(value, builder.gep(pointer, [index]))

    return fixed("store_if", types.void(types.CPointer(element), _I64, element, types.boolean), emit)


def _shared(name: str) -> Any:
    """`shared_T(count)`: memory of the block, 16-byte aligned; each call in a text is memory of its own."""
    element = TYPES[name]

    def typing(_: Any, count: Any) -> Any:
        if not isinstance(count, types.IntegerLiteral):
            raise RequireLiteralValue("the size of shared memory is a number")
        size = count.literal_value

        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            kind = ir.ArrayType(context.get_data_type(element), size)
            unique = builder.module.get_unique_name("tile")
            tile = ir.GlobalVariable(builder.module, kind, unique, addrspace=_SHARED)
            tile.linkage, tile.align = "internal", 16
            tile.initializer = ir.Constant(kind, ir.Undefined)
            first = builder.gep(tile, [ir.Constant(WORD, 0)] * 2)
            return builder.addrspacecast(first, kind.element.as_pointer(), "generic")

        return types.CPointer(element)(count), generate

    return with_parameters(f"shared_{name}", 1, typing)


def _view(name: str) -> Any:
    """`T_pointer(bytes, offset)`: the memory at a byte offset of a u8 pointer, as elements."""
    element = TYPES[name]

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pointer = builder.gep(arguments[0], [arguments[1]])
        return builder.bitcast(pointer, context.get_data_type(element).as_pointer())

    return fixed("view", types.CPointer(element)(types.CPointer(types.uint8), _I64), emit)


def _atomic_add(element: Any) -> Any:
    """`atomic_add_T(p, i, value)`: what was there before."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pointer = builder.gep(arguments[0], [arguments[1]])
        return builder.atomic_rmw("add", pointer, arguments[2], "monotonic")

    return fixed("atomic", element(types.CPointer(element), _I64, element), emit)


def _report() -> Any:
    """`report(error, site, value0, value1)`: the first fault wins."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        error, site, *values = arguments
        zero = ir.Constant(LONG, 0)
        number = builder.add(site, ir.Constant(LONG, 1))
        won = builder.cmpxchg(error, zero, number, "monotonic", "monotonic")
        with builder.if_then(builder.extract_value(won, 1)):
            for position, value in enumerate(values, start=1):
                builder.store(value, builder.gep(error, [ir.Constant(LONG, position)]))

    return fixed("report", types.void(types.CPointer(_I64), _I64, _I64, _I64), emit)


# --- between the lanes of a warp

_FOLDS = ("add", "mul", "minimum", "maximum", "and", "or")


def _shuffles() -> dict[str, Any]:
    functions: dict[str, Any] = {}
    for dtype in REGISTERS:
        name = _name(dtype)
        functions[f"shuffle_xor_{name}"] = _shuffle("bfly", TYPES[name])
        functions[f"shuffle_{name}"] = _shuffle("idx", TYPES[name])
        for step in _FOLDS:
            if not (dtype.is_bool and step not in LOGIC) and not (dtype.is_float and step in LOGIC):
                functions[f"{name}_warp_{step}"] = _fold(step, dtype)
    return functions


def _fold(name: str, dtype: DType) -> Any:
    """`T_warp_NAME(x, mask)`: lanes whose numbers differ in bits up to that of `mask`, which is a number of the text,
    fold their values. All have the same afterwards (but for the sign of a zero that is the minimum or maximum): the
    steps are the same from both sides."""
    element, step = TYPES[_name(dtype)], meaning(name, [dtype, dtype], dtype)

    def typing(_: Any, x: Any, mask: Any) -> Any:
        if not isinstance(mask, types.IntegerLiteral):
            raise RequireLiteralValue("the mask of a fold is a number")

        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            kept, distance = arguments[0], mask.literal_value
            while distance > 0:
                other = _exchanged(builder, "bfly", kept, ir.Constant(WORD, distance))
                sides = [other, kept] if name in ("minimum", "maximum") else [kept, other]
                (kept,) = called(builder, step, sides)
                distance //= 2
            return kept

        return element(element, mask), generate

    return with_parameters(f"{_name(dtype)}_warp_{name}", 2, typing)


def _shuffle(mode: str, element: Any) -> Any:
    """`shuffle_xor_T(value, mask)` and `shuffle_T(value, lane)`: a value of another lane; all lanes take part."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return _exchanged(builder, mode, arguments[0], builder.trunc(arguments[1], WORD))

    return fixed("shuffle", element(element, _I64), emit)


def _exchanged(builder: Any, mode: str, value: Any, lane: Any) -> Any:
    """A value of any type, by words."""
    kind = value.type
    width = {"float": 32, "double": 64}.get(str(kind)) or kind.width
    bits = builder.bitcast(value, ir.IntType(width)) if isinstance(kind, ir.FloatType | ir.DoubleType) else value
    if width == 64:
        parts = [builder.trunc(bits, WORD), builder.trunc(builder.lshr(bits, ir.Constant(LONG, 32)), WORD)]
    else:
        parts = [bits if width == 32 else builder.zext(bits, WORD)]
    moved = [_exchange(builder, mode, part, lane) for part in parts]
    if width == 64:
        high = builder.shl(builder.zext(moved[1], LONG), ir.Constant(LONG, 32))
        whole = builder.or_(builder.zext(moved[0], LONG), high)
    else:
        whole = moved[0] if width == 32 else builder.trunc(moved[0], ir.IntType(width))
    return builder.bitcast(whole, kind)


def _exchange(builder: Any, mode: str, value: Any, lane: Any) -> Any:
    """One 32-bit word between all 32 lanes."""
    constants = [ir.Constant(WORD, number) for number in (0xFFFFFFFF, 31)]
    return call(builder, f"llvm.nvvm.shfl.sync.{mode}.i32", WORD, [constants[0], value, lane, constants[1]])
