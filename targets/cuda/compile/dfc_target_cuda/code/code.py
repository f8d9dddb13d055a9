"""The LLVM code of one function in the making: instructions, blocks, and what they refer to outside of the function.

Assumes that each block is ended before another one begins. Guarantees fresh names, and the same text for the same
calls. Arithmetic is as written: nothing here allows contraction or fast math.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dfc_target_cuda.code.code_types import F32, I64, Pointer, Scalar, Type, Value

SHARED = 3
CONSTANT = 4
TILE = "kernel_tile_"


class Code:
    """Instructions of one function. `externals`: what is declared for it, and global variables, by name; `calls`:
    functions of the same module that it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.memory: list[str] = []
        self.externals: dict[str, str] = {}
        self.calls: list[str] = []
        self.block = "entry"
        self.open = True
        self._names = 0

    # --- instructions

    def fresh(self, stem: str = "v") -> str:
        self._names += 1
        return f"{stem}{self._names - 1}"

    def let(self, instruction: str) -> str:
        """Its result, in a register."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def value(self, kind: Type, instruction: str) -> Value:
        return Value(kind, self.let(instruction))

    def call(self, name: str, result: str, arguments: Sequence[tuple[str, str]] = ()) -> str:
        """A call of a function outside, declared at first use; arguments are (type, text)."""
        types = ", ".join(kind for kind, _ in arguments)
        self.externals.setdefault(name, f"declare {result} @{name}({types})")
        text = f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
        if result != "void":
            return self.let(text)
        self.do(text)
        return ""

    # --- blocks

    def begin(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block, self.open = name, True

    def end(self, instruction: str) -> None:
        """The block's last instruction."""
        if self.open:
            self.do(instruction)
        self.open = False

    def jump(self, target: str) -> None:
        self.end(f"br label %{target}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        self.end(f"br i1 {condition.text}, label %{yes}, label %{no}")

    # --- memory

    def reserve(self, kind: Type) -> str:
        """A place for a variable, which the compiler turns into registers."""
        name = f"%{self.fresh('m')}"
        self.memory.append(f"  {name} = alloca {kind.llvm}")
        return name

    def address(self, pointer: Value, index: Value) -> str:
        """Of an element."""
        assert isinstance(pointer.type, Pointer)
        element = pointer.type.element.llvm
        return self.let(f"getelementptr {element}, {element}* {pointer.text}, i64 {index.text}")

    def load(self, pointer: Value, index: Value) -> Value:
        assert isinstance(pointer.type, Pointer)
        element = pointer.type.element
        return self.value(element, f"load {element.llvm}, {element.llvm}* {self.address(pointer, index)}")

    def store(self, pointer: Value, index: Value, value: Value) -> None:
        place = self.address(pointer, index)
        self.do(f"store {value.type.llvm} {value.text}, {value.type.llvm}* {place}")

    def shared(self, element: Scalar, count: int) -> Value:
        """Memory of the block, aligned for the widest access."""
        number = sum(name.startswith(TILE) for name in self.externals)
        name, kind = f"{TILE}{number}", f"[{count} x {element.llvm}]"
        self.externals[name] = f"@{name} = internal addrspace({SHARED}) global {kind} undef, align 16"
        first = f"getelementptr ({kind}, {kind} addrspace({SHARED})* @{name}, i32 0, i32 0)"
        cast = f"addrspacecast {element.llvm} addrspace({SHARED})* {first} to {element.llvm}*"
        return Value(Pointer(element), self.let(cast))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        kind = yes.type.llvm
        return self.value(yes.type, f"select i1 {condition.text}, {kind} {yes.text}, {kind} {no.text}")


def constant(kind: Scalar, number: int | float, *, literal: bool = False) -> Value:
    """A number of this type; integers wrap, numbers of f32 are rounded. LLVM writes floats as the bits of f64."""
    if kind.is_float:
        exact = rounded(float(number)) if kind == F32 else float(number)
        return Value(kind, f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}", exact, literal)
    whole = int(number)
    if kind.kind == "b":
        return Value(kind, "true" if whole else "false", int(bool(whole)), literal)
    whole &= (1 << kind.bits) - 1
    if kind.kind == "i" and whole >> (kind.bits - 1):
        whole -= 1 << kind.bits
    return Value(kind, str(whole), whole, literal)


def whole(number: int) -> Value:
    return constant(I64, number)


def rounded(number: float) -> float:
    """To f32."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
