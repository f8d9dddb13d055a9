"""The primitives of the prelude on the device: functions of numba.cuda with instructions of their own.

Assumes numba-cuda (the extra `cuda`); only what makes code for devices imports this. Guarantees one instruction or a
few each: 16-byte accesses are vector instructions, shared memory is addressed as such, nothing throws and nothing
checks bounds. Square root, division and conversions round once; subnormal numbers are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from dfc.kernels.math_coefficients import TWO_OVER_PI_WORDS
from dfc_target_cuda.kernels.prelude.access import vector_load, vector_store, word_functions
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
from dfc_target_cuda.kernels.prelude.tensor import tensor_functions

RequireLiteralValue: Any = import_module("numba.cuda.core.errors").RequireLiteralValue

_I64, _U64 = types.int64, types.uint64
_HALF = ir.HalfType()
_SHARED = 3
_CONSTANT = 4
_FORMATS = {"f32": (ir.FloatType(), WORD, "i32", "f"), "f64": (ir.DoubleType(), LONG, "i64", "d")}


def primitives() -> dict[str, Any]:
    """Every name of the prelude that is not defined by its text."""
    names: dict[str, Any] = {**TYPES, "boolean": _truth(), "inf": float("inf"), "nan": float("nan")}
    names |= {name: _special(register) for name, register in _REGISTERS.items()}
    return names | _barriers() | _floating() | _whole() | _memory() | _shuffles() | tensor_functions()


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


def _floating() -> dict[str, Any]:
    functions: dict[str, Any] = {}
    for name, (real, integer, integer_name, letter) in _FORMATS.items():
        functions |= _float_functions(name, real, integer, integer_name, letter)
    half = fixed(
        "f16_load", types.float32(types.uint16), lambda c, b, a: b.fpext(b.bitcast(a[0], _HALF), ir.FloatType())
    )
    narrow = fixed(
        "f16_store", types.uint16(types.float32), lambda c, b, a: b.bitcast(b.fptrunc(a[0], _HALF), ir.IntType(16))
    )
    return functions | {"f16_load": half, "f16_store": narrow}


def _float_functions(name: str, real: Any, integer: Any, integer_name: str, letter: str) -> dict[str, Any]:
    value, bits = TYPES[name], TYPES[integer_name]

    def calling(count: int, target: str) -> Any:
        return fixed(target, value(*[value] * count), lambda c, b, a: call(b, target, real, a))

    suffix = f"f{32 if letter == 'f' else 64}"
    return {
        **{f"{name}_{each}": calling(1, f"llvm.{each}.{suffix}") for each in ("floor", "ceil", "trunc")},
        f"{name}_round": calling(1, f"llvm.nvvm.round.{letter}"),
        f"{name}_abs": calling(1, f"llvm.nvvm.fabs.{letter}"),
        f"{name}_sqrt": calling(1, f"llvm.nvvm.sqrt.rn.{letter}"),
        f"{name}_copysign": calling(2, f"llvm.copysign.{suffix}"),
        f"{name}_fma": calling(3, f"llvm.fma.{suffix}"),
        f"{name}_bits": fixed("bits", bits(value), lambda c, b, a: b.bitcast(a[0], integer)),
        f"{name}_from_bits": fixed("from_bits", value(bits), lambda c, b, a: b.bitcast(a[0], real)),
    }


def _whole() -> dict[str, Any]:
    def zeros(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return call(builder, "llvm.ctlz.i64", LONG, [arguments[0], ir.Constant(ir.IntType(1), 0)])

    high = fixed("high", _U64(_U64, _U64), lambda c, b, a: call(b, "llvm.nvvm.mulhi.ull", LONG, a))
    functions = {
        "mul_high_u64": high,
        "leading_zeros_u64": fixed("zeros", _I64(_U64), zeros),
        "two_over_pi_word": _table(),
    }
    return functions | _divisions() | {"min": _extreme("<"), "max": _extreme(">")}


def _truth() -> Any:
    """`boolean(x)`: whether a number is not zero."""

    def typing(_: Any, operand_types: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            (x,) = arguments
            compare = builder.fcmp_unordered if isinstance(signature.args[0], types.Float) else builder.icmp_signed
            return compare("!=", x, ir.Constant(x.type, 0))

        return types.boolean(plain(operand_types)), generate

    return with_parameters("boolean", 1, typing)


def _extreme(order: str) -> Any:
    """`min`, `max` of indices."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        x, y = arguments
        return builder.select(builder.icmp_signed(order, x, y), x, y)

    return fixed("extreme", _I64(_I64, _I64), emit)


def _divisions() -> dict[str, Any]:
    """Of i64 that are not negative, by what is above 0; with `32` both surely fit into 31 bits."""

    def narrow(divide: str) -> Emit:
        def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
            words = [builder.trunc(one, WORD) for one in arguments]
            return builder.zext(getattr(builder, divide)(*words), LONG)

        return emit

    functions: dict[str, Any] = {}
    for name, divide in (("quotient", "udiv"), ("remainder", "urem")):
        functions[name] = fixed(name, _I64(_I64, _I64), lambda c, b, a, d=divide: getattr(b, d)(*a))
        functions[f"{name}32"] = fixed(name, _I64(_I64, _I64), narrow(divide))
    return functions


def _table() -> Any:
    """Bits of 2 / pi, 32 to a word behind two words of zeros, in constant memory."""
    kind = ir.ArrayType(LONG, len(TWO_OVER_PI_WORDS) + 2)

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        table = builder.module.globals.get("two_over_pi_words")
        if table is None:
            table = ir.GlobalVariable(builder.module, kind, "two_over_pi_words", addrspace=_CONSTANT)
            table.linkage, table.global_constant, table.align = "internal", True, 8
            table.initializer = ir.Constant(kind, [0, 0, *TWO_OVER_PI_WORDS])
        return builder.load(builder.gep(table, [ir.Constant(WORD, 0), arguments[0]]))

    return fixed("word", _U64(_I64), emit)


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
    functions |= {f"atomic_add_{name}": _atomic_add(TYPES[name]) for name in ("u32", "i64")}
    functions |= word_functions()
    return functions | {"report": _report(), **{f"{name}_pointer": _view(name) for name in ELEMENTS}}


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


def _shuffles() -> dict[str, Any]:
    functions: dict[str, Any] = {}
    for name, element in TYPES.items():
        functions[f"shuffle_xor_{name}"] = _shuffle("bfly", element)
        functions[f"shuffle_{name}"] = _shuffle("idx", element)
    return functions


def _shuffle(mode: str, element: Any) -> Any:
    """`shuffle_xor_T(value, mask)` and `shuffle_T(value, lane)`: a value of another lane; all lanes take part."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        value, lane = arguments[0], builder.trunc(arguments[1], WORD)
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

    return fixed("shuffle", element(element, _I64), emit)


def _exchange(builder: Any, mode: str, value: Any, lane: Any) -> Any:
    """One 32-bit word between all 32 lanes."""
    constants = [ir.Constant(WORD, number) for number in (0xFFFFFFFF, 31)]
    return call(builder, f"llvm.nvvm.shfl.sync.{mode}.i32", WORD, [constants[0], value, lane, constants[1]])
