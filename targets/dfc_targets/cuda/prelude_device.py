"""The primitives of the prelude on the device: intrinsics of numba.cuda.

Assumes numba-cuda (the extra `cuda`); only `prelude.device()` imports this. Guarantees one instruction or a few each:
16-byte accesses are vector instructions, shared memory is addressed as such, nothing throws and nothing checks bounds.
Square root, division and conversions round once; subnormal numbers are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

from dfc_targets.cuda.prelude_access import vector_load, vector_store, word_functions
from dfc_targets.cuda.prelude_tensor import tensor_functions
from dfc_targets.math_coefficients import TWO_OVER_PI_WORDS

# None of these describes its types.
ir: Any = import_module("llvmlite.ir")
cuda: Any = import_module("numba.cuda")
types: Any = import_module("numba.cuda.types")
intrinsic: Any = import_module("numba.cuda.extending").intrinsic
RequireLiteralValue: Any = import_module("numba.cuda.core.errors").RequireLiteralValue

SIMULATES = not hasattr(cuda, "syncthreads")
"""Whether numba stands for a device itself (NUMBA_ENABLE_CUDASIM), in which case it compiles nothing."""

TYPES: dict[str, Any] = {
    "boolean": types.boolean,
    "f32": types.float32,
    "f64": types.float64,
    **{f"{kind[0]}{bits}": getattr(types, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
_I32, _I64, _U64 = types.int32, types.int64, types.uint64
_WORD = ir.IntType(32)
_LONG = ir.IntType(64)
_HALF = ir.HalfType()
_SHARED = 3
_CONSTANT = 4
_FORMATS = {"f32": (ir.FloatType(), _WORD, "i32", "f"), "f64": (ir.DoubleType(), _LONG, "i64", "d")}

Emit = Callable[[Any, Any, Sequence[Any]], Any]
"""(context, builder, arguments) -> the value."""


def primitives() -> dict[str, Any]:
    """Every name of the prelude that is not defined by its text."""
    names: dict[str, Any] = {**TYPES, "inf": float("inf"), "nan": float("nan")}
    names |= {"barrier": cuda.syncthreads, "fence": _fence()}
    names |= {"barrier_any": _barrier_any(), "warp_barrier": _warp_barrier()}
    names |= {name: _special(register) for name, register in _REGISTERS.items()}
    names |= _floating() | _whole() | _memory() | _shuffles() | tensor_functions(_intrinsic)
    return names


def function(name: str, python: FunctionType) -> Any:
    """A function of the prelude's text as a device function; its annotations are its types."""
    hints = dict(python.__annotations__)
    result = hints.pop("return")
    result = types.Tuple(result) if isinstance(result, tuple) else result
    signature = result(*hints.values())

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return context.compile_internal(builder, python, signature, arguments)

    return _intrinsic(name, signature, emit)


def _intrinsic(name: str, signature: Any, emit: Emit) -> Any:
    """An intrinsic of a fixed signature. Numba wants the arguments by name."""
    parameters = ", ".join(f"a{i}" for i in range(len(signature.args)))

    def generate(context: Any, builder: Any, _: Any, arguments: Sequence[Any]) -> Any:
        return emit(context, builder, arguments)

    return _with_parameters(name, parameters, lambda *_: (signature, generate))


def _with_parameters(name: str, parameters: str, typing: Callable[..., Any]) -> Any:
    """An intrinsic whose typing function has these parameters."""
    place: dict[str, Any] = {"typing": typing}
    every = f"context, {parameters}" if parameters else "context"
    exec(f"def {name}({every}):\n    return typing({every})\n", place)
    return intrinsic(place[name])


# --- where a thread is

_REGISTERS = {"thread": "tid.x", "block_index": "ctaid.x", "block_size": "ntid.x", "block_count": "nctaid.x"}


def _special(register: str) -> Any:
    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return builder.zext(_call(builder, f"llvm.nvvm.read.ptx.sreg.{register}", _WORD), _LONG)

    return _intrinsic("special", _I64(), emit)


def _barrier_any() -> Any:
    """`barrier_any(flag)`: the barrier of the block, and whether the flag of any lane is set."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        found = _call(builder, "llvm.nvvm.barrier0.or", _WORD, [builder.zext(arguments[0], _WORD)])
        return builder.icmp_unsigned("!=", found, ir.Constant(_WORD, 0))

    return _intrinsic("barrier_any", types.boolean(types.boolean), emit)


def _fence() -> Any:
    """Memory as a lane sees it, to all blocks; and what it reads afterwards is not older."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        _call(builder, "llvm.nvvm.membar.gl", ir.VoidType())
        return context.get_dummy_value()

    return _intrinsic("fence", types.void(), emit)


def _warp_barrier() -> Any:
    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        _call(builder, "llvm.nvvm.bar.warp.sync", ir.VoidType(), [ir.Constant(_WORD, 0xFFFFFFFF)])
        return context.get_dummy_value()

    return _intrinsic("warp_barrier", types.void(), emit)


def _call(builder: Any, name: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
    """A call of a function of this name, declared at first use."""
    known = builder.module.globals.get(name)
    if known is None:
        known = ir.Function(builder.module, ir.FunctionType(result, [a.type for a in arguments]), name)
    return builder.call(known, arguments)


# --- arithmetic


def _floating() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, (real, integer, integer_name, letter) in _FORMATS.items():
        made |= _float_functions(name, real, integer, integer_name, letter)
    half = _intrinsic(
        "f16_load", types.float32(types.uint16), lambda c, b, a: b.fpext(b.bitcast(a[0], _HALF), ir.FloatType())
    )
    narrow = _intrinsic(
        "f16_store", types.uint16(types.float32), lambda c, b, a: b.bitcast(b.fptrunc(a[0], _HALF), ir.IntType(16))
    )
    return made | {"f16_load": half, "f16_store": narrow}


_LIBRARY = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "abs": "fabs"}


def _float_functions(name: str, real: Any, integer: Any, integer_name: str, letter: str) -> dict[str, Any]:
    value, bits = TYPES[name], TYPES[integer_name]
    suffix = "f" if letter == "f" else ""

    def unary(emit: Emit) -> Any:
        return _intrinsic("unary", value(value), emit)

    made = {
        f"{name}_{function}": unary(lambda c, b, a, n=library: _call(b, f"__nv_{n}{suffix}", real, a))
        for function, library in _LIBRARY.items()
    }
    made[f"{name}_sqrt"] = unary(lambda c, b, a: _call(b, f"llvm.nvvm.sqrt.rn.{letter}", real, a))
    made[f"{name}_copysign"] = _intrinsic(
        "copysign", value(value, value), lambda c, b, a: _call(b, f"__nv_copysign{suffix}", real, a)
    )
    made[f"{name}_fma"] = _intrinsic("fma", value(value, value, value), lambda c, b, a: b.fma(*a))
    made[f"{name}_bits"] = _intrinsic("bits", bits(value), lambda c, b, a: b.bitcast(a[0], integer))
    made[f"{name}_from_bits"] = _intrinsic("from_bits", value(bits), lambda c, b, a: b.bitcast(a[0], real))
    return made


def _whole() -> dict[str, Any]:
    high = _intrinsic("high", _U64(_U64, _U64), lambda c, b, a: _call(b, "llvm.nvvm.mulhi.ull", _LONG, a))
    zeros = _intrinsic("zeros", _I64(_U64), lambda c, b, a: b.sext(_call(b, "__nv_clzll", _WORD, a), _LONG))
    return _divisions() | {"mul_high_u64": high, "leading_zeros_u64": zeros, "two_over_pi_word": _table()}


def _divisions() -> dict[str, Any]:
    """Of i64 that are not negative, by what is above 0; with `32` both surely fit into 31 bits."""

    def narrow(divide: str) -> Emit:
        def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
            words = [builder.trunc(one, _WORD) for one in arguments]
            return builder.zext(getattr(builder, divide)(*words), _LONG)

        return emit

    made: dict[str, Any] = {}
    for name, divide in (("quotient", "udiv"), ("remainder", "urem")):
        made[name] = _intrinsic(name, _I64(_I64, _I64), lambda c, b, a, d=divide: getattr(b, d)(*a))
        made[f"{name}32"] = _intrinsic(name, _I64(_I64, _I64), narrow(divide))
    return made


def _table() -> Any:
    """Bits of 2 / pi, 32 to a word behind two words of zeros, in constant memory."""
    kind = ir.ArrayType(_LONG, len(TWO_OVER_PI_WORDS) + 2)

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        table = builder.module.globals.get("two_over_pi_words")
        if table is None:
            table = ir.GlobalVariable(builder.module, kind, "two_over_pi_words", addrspace=_CONSTANT)
            table.linkage, table.global_constant, table.align = "internal", True, 8
            table.initializer = ir.Constant(kind, [0, 0, *TWO_OVER_PI_WORDS])
        return builder.load(builder.gep(table, [ir.Constant(_WORD, 0), arguments[0]]))

    return _intrinsic("word", _U64(_I64), emit)


# --- memory

_ELEMENTS = {"f32": 4, "i32": 4, "u32": 4, "f64": 2, "i64": 2, "u64": 2, "i16": 8, "u16": 8, "i8": 16, "u8": 16}
"""Elements of a 16-byte access; there are narrower ones too."""


def _memory() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, most in _ELEMENTS.items():
        for lanes in (lanes for lanes in (2, 4, 8, 16) if lanes <= most):
            made[f"load{lanes}_{name}"] = vector_load(_intrinsic, TYPES[name], lanes, 16 * lanes // most)
            made[f"store{lanes}_{name}"] = vector_store(_intrinsic, TYPES[name], lanes, 16 * lanes // most)
        made[f"shared_{name}"] = _shared(name)
    made |= {f"atomic_add_{name}": _atomic_add(TYPES[name]) for name in ("u32", "i64")}
    made |= word_functions(_intrinsic)
    return made | {"report": _report(), **{f"{name}_pointer": _view(name) for name in _ELEMENTS}}


def _shared(name: str) -> Any:
    """`shared_T(count)`: memory of the block, 16-byte aligned; each call in a text is memory of its own."""
    element = TYPES[name]

    def typing(_: Any, count: Any) -> Any:
        if not isinstance(count, types.IntegerLiteral):
            raise RequireLiteralValue(count)
        size = count.literal_value

        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            kind = ir.ArrayType(context.get_data_type(element), size)
            unique = builder.module.get_unique_name("tile")
            tile = ir.GlobalVariable(builder.module, kind, unique, addrspace=_SHARED)
            tile.linkage, tile.align = "internal", 16
            tile.initializer = ir.Constant(kind, ir.Undefined)
            first = builder.gep(tile, [ir.Constant(_WORD, 0)] * 2)
            return builder.addrspacecast(first, kind.element.as_pointer(), "generic")

        return types.CPointer(element)(count), generate

    return _with_parameters(f"shared_{name}", "count", typing)


def _view(name: str) -> Any:
    """`T_pointer(bytes, offset)`: the memory at a byte offset of a u8 pointer, as elements."""
    element = TYPES[name]

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        return builder.bitcast(place, context.get_data_type(element).as_pointer())

    return _intrinsic("view", types.CPointer(element)(types.CPointer(types.uint8), _I64), emit)


def _atomic_add(element: Any) -> Any:
    """`atomic_add_T(p, i, value)`: what was there before."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        return builder.atomic_rmw("add", place, arguments[2], "monotonic")

    return _intrinsic("atomic", element(types.CPointer(element), _I64, element), emit)


def _report() -> Any:
    """`report(error, site, value0, value1)`: the first fault wins."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        error, site, *values = arguments
        zero = ir.Constant(_LONG, 0)
        number = builder.add(site, ir.Constant(_LONG, 1))
        won = builder.cmpxchg(error, zero, number, "monotonic", "monotonic")
        with builder.if_then(builder.extract_value(won, 1)):
            for position, value in enumerate(values, start=1):
                builder.store(value, builder.gep(error, [ir.Constant(_LONG, position)]))
        return context.get_dummy_value()

    return _intrinsic("report", types.void(types.CPointer(_I64), _I64, _I64, _I64), emit)


# --- between the lanes of a warp


def _shuffles() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, element in TYPES.items():
        made[f"shuffle_xor_{name}"] = _shuffle("bfly", element)
        made[f"shuffle_{name}"] = _shuffle("idx", element)
    return made


def _shuffle(mode: str, element: Any) -> Any:
    """`shuffle_xor_T(value, mask)` and `shuffle_T(value, lane)`: a value of another lane; all lanes take part."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        value, lane = arguments[0], builder.trunc(arguments[1], _WORD)
        kind = value.type
        width = {"float": 32, "double": 64}.get(str(kind)) or kind.width
        bits = builder.bitcast(value, ir.IntType(width)) if isinstance(kind, ir.FloatType | ir.DoubleType) else value
        if width == 64:
            parts = [builder.trunc(bits, _WORD), builder.trunc(builder.lshr(bits, ir.Constant(_LONG, 32)), _WORD)]
        else:
            parts = [bits if width == 32 else builder.zext(bits, _WORD)]
        moved = [_exchange(builder, mode, part, lane) for part in parts]
        if width == 64:
            high = builder.shl(builder.zext(moved[1], _LONG), ir.Constant(_LONG, 32))
            whole = builder.or_(builder.zext(moved[0], _LONG), high)
        else:
            whole = moved[0] if width == 32 else builder.trunc(moved[0], ir.IntType(width))
        return builder.bitcast(whole, kind)

    return _intrinsic("shuffle", element(element, _I64), emit)


def _exchange(builder: Any, mode: str, value: Any, lane: Any) -> Any:
    """One 32-bit word between all 32 lanes."""
    constants = [ir.Constant(_WORD, number) for number in (0xFFFFFFFF, 31)]
    return _call(builder, f"llvm.nvvm.shfl.sync.{mode}.i32", _WORD, [constants[0], value, lane, constants[1]])
