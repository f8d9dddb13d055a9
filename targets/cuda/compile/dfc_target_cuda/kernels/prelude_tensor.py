"""Products of small matrices by a whole warp, on the device: what tensor cores do, as functions of the prelude.

Assumes compute capability 8.0 or newer, and that all 32 lanes take part. The layouts are those of the PTX instructions
`ldmatrix` and `mma.sync`: lane t of a warp has row t / 4 and columns 2 (t % 4), 2 (t % 4) + 1 of an 8 x 8 matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc_target_cuda.code.code import SHARED, Code
from dfc_target_cuda.code.code_types import F32, I64, U16, U32, Function, Pointer, Scalar, Value


def tensor_functions() -> list[Function]:
    """`matrix_load(p, i)`, `matrix_load_turned(p, i)`: four 8 x 8 matrices of u16 in shared memory, as four u32 a lane;
    lane t says where row t % 8 of matrix t / 8 begins, and `turned` exchanges rows and columns.

    `matrix_multiply_T(a0 .. a3, b0, b1, c0 .. c3)` for T = f16, bf16: c + a b of 16 x 16 by 16 x 8 numbers in f32.
    `matrix_multiply_tf32` of the same arguments: 16 x 8 by 8 x 8 numbers of f32 rounded to 11 bits. `tf32_bits(x)`: f32
    rounded to 11 bits of mantissa, as the word that it takes."""
    made = [_load("matrix_load", ""), _load("matrix_load_turned", ".trans")]
    made += [_multiply(name, f"m16n8k16.row.col.f32.{name}.{name}.f32") for name in ("f16", "bf16")]
    return [*made, _multiply("tf32", "m16n8k8.row.col.f32.tf32.tf32.f32"), _rounded()]


def _assembly(code: Code, text: str, result: str, outputs: str, values: Sequence[tuple[str, str]], inputs: str) -> str:
    """Inline assembly that is neither moved across other such nor across memory."""
    told = ", ".join(f"{kind} {value}" for kind, value in values)
    return code.let(f'call {result} asm sideeffect "{text}", "{outputs},{inputs},~{{memory}}" ({told})')


def _parts(code: Code, found: str, kind: Scalar) -> list[Value]:
    several = f"{{{', '.join([kind.llvm] * 4)}}}"
    return [code.value(kind, f"extractvalue {several} {found}, {position}") for position in range(4)]


def _load(name: str, turned: str) -> Function:
    text = f"ldmatrix.sync.aligned.m8n8.x4{turned}.shared.b16 {{$0, $1, $2, $3}}, [$4];"

    def emit(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        place = code.address(arguments[0], arguments[1])
        shared = code.let(f"addrspacecast i16* {place} to i16 addrspace({SHARED})*")
        address = code.let(f"ptrtoint i16 addrspace({SHARED})* {shared} to i32")
        found = _assembly(code, text, "{i32, i32, i32, i32}", "=r,=r,=r,=r", [("i32", address)], "r")
        return _parts(code, found, U32)

    return Function(name, (Pointer(U16), I64), (U32,) * 4, emit)


def _multiply(name: str, shape: str) -> Function:
    text = f"mma.sync.aligned.{shape} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
    inputs = ",".join(["r"] * 6 + ["f"] * 4)

    def emit(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        values = [(one.type.llvm, one.text) for one in arguments]
        found = _assembly(code, text, "{float, float, float, float}", "=f,=f,=f,=f", values, inputs)
        return _parts(code, found, F32)

    return Function(f"matrix_multiply_{name}", (*[U32] * 6, *[F32] * 4), (F32,) * 4, emit)


def _rounded() -> Function:
    def emit(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        values = [("float", arguments[0].text)]
        return [Value(U32, _assembly(code, "cvt.rna.tf32.f32 $0, $1;", "i32", "=r", values, "f"))]

    return Function("tf32_bits", (F32,), (U32,), emit)
