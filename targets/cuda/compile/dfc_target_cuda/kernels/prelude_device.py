"""The primitives of the prelude on the device: each call as a few instructions of LLVM.

Guarantees that 16-byte accesses are vector instructions, that shared memory is addressed as such, that nothing throws
and nothing checks bounds. Square root, division and conversions round once; subnormal numbers are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.kernels.math_coefficients import TWO_OVER_PI_WORDS
from dfc_target_cuda.code.code import CONSTANT, Code, constant
from dfc_target_cuda.code.code_types import (
    BOOLEAN,
    F32,
    F64,
    I32,
    I64,
    SCALARS,
    U8,
    U16,
    U32,
    U64,
    Function,
    Name,
    Pointer,
    Scalar,
    Shared,
    Type,
    Value,
)
from dfc_target_cuda.kernels.prelude_access import vector_load, vector_store, word_functions
from dfc_target_cuda.kernels.prelude_tensor import tensor_functions

Emit = Callable[[Code, Sequence[Value]], str]
"""The call's result, as the name of a register; of none if there is no result."""

ELEMENTS = {"f32": 4, "i32": 4, "u32": 4, "f64": 2, "i64": 2, "u64": 2, "i16": 8, "u16": 8, "i8": 16, "u8": 16}
"""Elements of a 16-byte access; there are narrower ones too."""


def primitives() -> dict[str, Name]:
    """Every name of the prelude that is not defined by its text."""
    names: dict[str, Name] = {**SCALARS}
    names |= {name: constant(F64, float(name)) for name in ("inf", "nan")}
    made = _places() + _barriers() + _floating() + _whole() + _memory() + _shuffles() + tensor_functions()
    names |= {one.name: one for one in made}
    return names | {f"shared_{name}": Shared(SCALARS[name]) for name in ELEMENTS}


def _function(name: str, parameters: Sequence[Type], result: Type | None, emit: Emit) -> Function:
    def call(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        made = emit(code, arguments)
        return [] if result is None else [Value(result, made)]

    return Function(name, tuple(parameters), () if result is None else (result,), call)


def _typed(arguments: Sequence[Value]) -> list[tuple[str, str]]:
    return [(one.type.llvm, one.text) for one in arguments]


# --- where a thread is, and where threads meet

_REGISTERS = {"thread": "tid.x", "block_index": "ctaid.x", "block_size": "ntid.x", "block_count": "nctaid.x"}


def _places() -> list[Function]:
    def read(register: str) -> Emit:
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        return lambda code, _: code.let(f"zext i32 {code.call(name, 'i32')} to i64")

    return [_function(name, [], I64, read(register)) for name, register in _REGISTERS.items()]


def _barriers() -> list[Function]:
    """`fence()`: memory as a lane sees it, to all blocks; and what it reads afterwards is not older.
    `barrier_any(flag)`: the barrier of the block, and whether the flag of any lane is set."""

    def barrier_any(code: Code, arguments: Sequence[Value]) -> str:
        flag = code.let(f"zext i1 {arguments[0].text} to i32")
        return code.let(f"icmp ne i32 {code.call('llvm.nvvm.barrier0.or', 'i32', [('i32', flag)])}, 0")

    warp = [("i32", "-1")]
    return [
        _function("barrier", [], None, lambda code, _: code.call("llvm.nvvm.barrier0", "void")),
        _function("fence", [], None, lambda code, _: code.call("llvm.nvvm.membar.gl", "void")),
        _function("warp_barrier", [], None, lambda code, _: code.call("llvm.nvvm.bar.warp.sync", "void", warp)),
        _function("barrier_any", [BOOLEAN], BOOLEAN, barrier_any),
    ]


# --- arithmetic

_FORMATS = ((F32, I32, "f", "f32"), (F64, I64, "d", "f64"))


def _floating() -> list[Function]:
    made: list[Function] = []
    for one, bits, letter, suffix in _FORMATS:
        called = {
            **{f"{one.name}_{name}": f"llvm.{name}.{suffix}" for name in ("floor", "ceil", "trunc")},
            f"{one.name}_round": f"llvm.nvvm.round.{letter}",
            f"{one.name}_abs": f"llvm.nvvm.fabs.{letter}",
            f"{one.name}_sqrt": f"llvm.nvvm.sqrt.rn.{letter}",
        }
        made += [_function(name, [one], one, _calling(target, one)) for name, target in called.items()]
        made.append(_function(f"{one.name}_copysign", [one] * 2, one, _calling(f"llvm.copysign.{suffix}", one)))
        made.append(_function(f"{one.name}_fma", [one] * 3, one, _calling(f"llvm.fma.{suffix}", one)))
        made.append(_function(f"{one.name}_bits", [one], bits, _converting("bitcast", bits)))
        made.append(_function(f"{one.name}_from_bits", [bits], one, _converting("bitcast", one)))
    return [*made, *_halves()]


def _calling(name: str, result: Type) -> Emit:
    return lambda code, arguments: code.call(name, result.llvm, _typed(arguments))


def _converting(instruction: str, target: Scalar) -> Emit:
    def emit(code: Code, arguments: Sequence[Value]) -> str:
        return code.let(f"{instruction} {arguments[0].type.llvm} {arguments[0].text} to {target.llvm}")

    return emit


def _halves() -> list[Function]:
    def load(code: Code, arguments: Sequence[Value]) -> str:
        return code.let(f"fpext half {code.let(f'bitcast i16 {arguments[0].text} to half')} to float")

    def store(code: Code, arguments: Sequence[Value]) -> str:
        return code.let(f"bitcast half {code.let(f'fptrunc float {arguments[0].text} to half')} to i16")

    return [_function("f16_load", [U16], F32, load), _function("f16_store", [F32], U16, store)]


def _whole() -> list[Function]:
    """`quotient`, `remainder`: of i64 that are not negative, by what is above 0; with `32` both fit into 31 bits."""

    def zeros(code: Code, arguments: Sequence[Value]) -> str:
        return code.call("llvm.ctlz.i64", "i64", [("i64", arguments[0].text), ("i1", "false")])

    def divide(instruction: str) -> Emit:
        return lambda code, values: code.let(f"{instruction} i64 {values[0].text}, {values[1].text}")

    def narrow(instruction: str) -> Emit:
        def emit(code: Code, arguments: Sequence[Value]) -> str:
            x, y = (code.let(f"trunc i64 {one.text} to i32") for one in arguments)
            return code.let(f"zext i32 {code.let(f'{instruction} i32 {x}, {y}')} to i64")

        return emit

    made = [_function("leading_zeros_u64", [U64], I64, zeros), _function("two_over_pi_word", [I64], U64, _word)]
    made.append(_function("mul_high_u64", [U64, U64], U64, _calling("llvm.nvvm.mulhi.ull", U64)))
    for name, instruction in (("quotient", "udiv"), ("remainder", "urem")):
        made.append(_function(name, [I64, I64], I64, divide(instruction)))
        made.append(_function(f"{name}32", [I64, I64], I64, narrow(instruction)))
    return made


def _word(code: Code, arguments: Sequence[Value]) -> str:
    """Bits of 2 / pi, 32 to a word behind two words of zeros, in constant memory."""
    words = (0, 0, *TWO_OVER_PI_WORDS)
    kind, space = f"[{len(words)} x i64]", f"addrspace({CONSTANT})"
    told = ", ".join(f"i64 {word}" for word in words)
    name = "kernel_two_over_pi_words"
    code.externals[name] = f"@{name} = internal {space} constant {kind} [{told}], align 8"
    place = code.let(f"getelementptr {kind}, {kind} {space}* @{name}, i32 0, i64 {arguments[0].text}")
    return code.let(f"load i64, i64 {space}* {place}")


# --- memory


def _memory() -> list[Function]:
    made = [*word_functions(), _report()]
    for name, most in ELEMENTS.items():
        for lanes in (lanes for lanes in (2, 4, 8, 16) if lanes <= most):
            made.append(vector_load(name, SCALARS[name], lanes, 16 * lanes // most))
            made.append(vector_store(name, SCALARS[name], lanes, 16 * lanes // most))
        made.append(_view(SCALARS[name]))
    return [*made, _atomic_add(U32), _atomic_add(I64)]


def _view(element: Scalar) -> Function:
    """`T_pointer(bytes, offset)`: the memory at a byte offset of a u8 pointer, as elements."""

    def emit(code: Code, arguments: Sequence[Value]) -> str:
        return code.let(f"bitcast i8* {code.address(*arguments)} to {element.llvm}*")

    return _function(f"{element.name}_pointer", [Pointer(U8), I64], Pointer(element), emit)


def _atomic_add(element: Scalar) -> Function:
    """`atomic_add_T(p, i, value)`: what was there before."""

    def emit(code: Code, arguments: Sequence[Value]) -> str:
        kind, value = element.llvm, arguments[2].text
        return code.let(f"atomicrmw add {kind}* {code.address(*arguments[:2])}, {kind} {value} monotonic")

    return _function(f"atomic_add_{element.name}", [Pointer(element), I64, element], element, emit)


def _report() -> Function:
    """`report(error, site, value0, value1)`: the first fault wins."""

    def emit(code: Code, arguments: Sequence[Value]) -> str:
        error, site, *values = arguments
        number = code.let(f"add i64 {site.text}, 1")
        found = code.let(f"cmpxchg i64* {error.text}, i64 0, i64 {number} monotonic monotonic")
        won = Value(BOOLEAN, code.let(f"extractvalue {{i64, i1}} {found}, 1"))
        first, after = code.fresh("won"), code.fresh("after")
        code.branch(won, first, after)
        code.begin(first)
        for position, value in enumerate(values, start=1):
            code.store(error, Value(I64, str(position)), value)
        code.jump(after)
        code.begin(after)
        return ""

    return _function("report", [Pointer(I64), I64, I64, I64], None, emit)


# --- between the lanes of a warp


def _shuffles() -> list[Function]:
    """`shuffle_xor_T(value, mask)` and `shuffle_T(value, lane)`: a value of another lane; all lanes take part."""
    kinds = [("shuffle_xor", "bfly"), ("shuffle", "idx")]
    return [
        _function(f"{name}_{one.name}", [one, I64], one, _shuffle(mode, one))
        for name, mode in kinds
        for one in SCALARS.values()
    ]


def _shuffle(mode: str, kind: Scalar) -> Emit:
    """By one exchange of a 32-bit word, or two."""

    def exchange(code: Code, word: str, lane: str) -> str:
        arguments = [("i32", "-1"), ("i32", word), ("i32", lane), ("i32", "31")]
        return code.call(f"llvm.nvvm.shfl.sync.{mode}.i32", "i32", arguments)

    def emit(code: Code, arguments: Sequence[Value]) -> str:
        lane = code.let(f"trunc i64 {arguments[1].text} to i32")
        bits, value = f"i{kind.bits}", arguments[0].text
        if kind.is_float:
            value = code.let(f"bitcast {kind.llvm} {value} to {bits}")
        if kind.bits == 64:
            low = exchange(code, code.let(f"trunc i64 {value} to i32"), lane)
            upper = code.let(f"lshr i64 {value}, 32")
            high = exchange(code, code.let(f"trunc i64 {upper} to i32"), lane)
            shifted = code.let(f"shl i64 {code.let(f'zext i32 {high} to i64')}, 32")
            moved = code.let(f"or i64 {code.let(f'zext i32 {low} to i64')}, {shifted}")
        elif kind.bits == 32:
            moved = exchange(code, value, lane)
        else:
            moved = exchange(code, code.let(f"zext {bits} {value} to i32"), lane)
            moved = code.let(f"trunc i32 {moved} to {bits}")
        return code.let(f"bitcast {bits} {moved} to {kind.llvm}") if kind.is_float else moved

    return emit
