"""Products of small matrices by a whole warp, on the device: what tensor cores do, as functions of the prelude.

Assumes compute capability 8.0 or newer, and that all 32 lanes take part. The layouts are those of the PTX instructions
`ldmatrix` and `mma.sync`: lane t of a warp has row t / 4 and columns 2 (t % 4), 2 (t % 4) + 1 of an 8 x 8 matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dfc_target_cuda.kernels.prelude.intrinsics import WORD, fixed, ir, types

_SHARED = 3


def tensor_functions() -> dict[str, Any]:
    """`matrix_load(p, i)`, `matrix_load_turned(p, i)`: four 8 x 8 matrices of u16 in shared memory, as four u32 a lane;
    lane t says where row t % 8 of matrix t / 8 begins, and `turned` exchanges rows and columns.

    `matrix_multiply_T(a0 .. a3, b0, b1, c0 .. c3)` for T = f16, bf16: c + a b of 16 x 16 by 16 x 8 numbers in f32.
    `matrix_multiply_tf32` of the same arguments: 16 x 8 by 8 x 8 numbers of f32 rounded to 11 bits."""
    loads = {"matrix_load": "", "matrix_load_turned": ".trans"}
    functions = {name: _load(turned) for name, turned in loads.items()}
    for name in ("f16", "bf16"):
        functions[f"matrix_multiply_{name}"] = _multiply(f"m16n8k16.row.col.f32.{name}.{name}.f32", types.uint32)
    functions["matrix_multiply_tf32"] = _multiply("m16n8k8.row.col.f32.tf32.tf32.f32", types.uint32)
    return functions | {"tf32_bits": _rounded()}


def _assembly(builder: Any, text: str, results: str, result: Any, arguments: Sequence[Any], inputs: str) -> Any:
    """Inline assembly that is neither moved across other such nor across memory."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(ir.InlineAsm(kind, text, f"{results},{inputs},~{{memory}}", side_effect=True), arguments)


def _load(turned: str) -> Any:
    words = ir.LiteralStructType([WORD] * 4)
    text = f"ldmatrix.sync.aligned.m8n8.x4{turned}.shared.b16 {{$0, $1, $2, $3}}, [$4];"

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pointer = builder.gep(arguments[0], [arguments[1]])
        shared = builder.addrspacecast(pointer, pointer.type.pointee.as_pointer(_SHARED))
        address = builder.ptrtoint(shared, WORD)
        loaded = _assembly(builder, text, "=r,=r,=r,=r", words, [address], "r")
        return context.make_tuple(builder, result, [builder.extract_value(loaded, i) for i in range(4)])

    result = types.UniTuple(types.uint32, 4)
    return fixed("load", result(types.CPointer(types.uint16), types.int64), emit)


def _multiply(shape: str, word: Any) -> Any:
    numbers = ir.LiteralStructType([ir.FloatType()] * 4)
    text = f"mma.sync.aligned.{shape} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
    inputs = ",".join(["r"] * 6 + ["f"] * 4)

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        sums = _assembly(builder, text, "=f,=f,=f,=f", numbers, arguments, inputs)
        return context.make_tuple(builder, result, [builder.extract_value(sums, i) for i in range(4)])

    result = types.UniTuple(types.float32, 4)
    return fixed("multiply", result(*[word] * 6, *[types.float32] * 4), emit)


def _rounded() -> Any:
    """`tf32_bits(x)`: f32 rounded to 11 bits of mantissa, as the word that `matrix_multiply_tf32` takes."""

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        return _assembly(builder, "cvt.rna.tf32.f32 $0, $1;", "=r", WORD, arguments, "f")

    return fixed("rounded", types.uint32(types.float32), emit)
