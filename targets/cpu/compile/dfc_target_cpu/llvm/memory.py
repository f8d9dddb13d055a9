"""Loads, stores, addresses and atomics of a function written as text.

Assumes that addresses are valid for the lanes a mask leaves on. Guarantees explicit alignment on every access.
"""

from dfc_target_cpu.llvm.blocks import Blocks
from dfc_target_cpu.llvm.values import Value, byte_size, element_type, intrinsic_suffix, like, literal_int


class MemoryInstructions(Blocks):
    """Memory access on top of blocks."""

    def gep(self, type_text: str, pointer: Value, index: Value) -> Value:
        """The address `index` elements of `type_text` behind `pointer`; nothing for index 0."""
        if literal_int(index) == 0:
            return pointer
        return self.assign("ptr", f"getelementptr {type_text}, {pointer}, {index}")

    def alloca(self, type_text: str, count: int = 1, align: int = 64) -> Value:
        """Stack space for the whole call, wherever it is asked for."""
        return self.entry_assign("ptr", f"alloca {type_text}, i64 {count}, align {align}")

    def load(self, type_text: str, pointer: Value, align: int | None = None) -> Value:
        """Unless stated, the address is aligned for one element only."""
        return self.assign(type_text, f"load {type_text}, {pointer}, align {align or _natural(type_text)}")

    def store(self, value: Value, pointer: Value, align: int | None = None) -> None:
        self.line(f"store {value}, {pointer}, align {align or _natural(value.type)}")

    def masked_load(self, type_text: str, pointer: Value, mask: Value, otherwise: Value) -> Value:
        """Lanes that are off are not touched and read as `otherwise`."""
        name = f"llvm.masked.load.{intrinsic_suffix(type_text)}.p0"
        self.declare(name, type_text, ["ptr", "i32", like(type_text, "i1"), type_text])
        align = f"i32 {_natural(type_text)}"
        return self.assign(type_text, f"call {type_text} @{name}({pointer}, {align}, {mask}, {otherwise})")

    def masked_store(self, value: Value, pointer: Value, mask: Value) -> None:
        name = f"llvm.masked.store.{intrinsic_suffix(value.type)}.p0"
        self.declare(name, "void", [value.type, "ptr", "i32", like(value.type, "i1")])
        self.line(f"call void @{name}({value}, {pointer}, i32 {_natural(value.type)}, {mask})")

    def gather(self, type_text: str, pointers: Value, mask: Value, otherwise: Value) -> Value:
        name = f"llvm.masked.gather.{intrinsic_suffix(type_text)}.{intrinsic_suffix(pointers.type)}"
        self.declare(name, type_text, [pointers.type, "i32", mask.type, type_text])
        align = f"i32 {_natural(type_text)}"
        return self.assign(type_text, f"call {type_text} @{name}({pointers}, {align}, {mask}, {otherwise})")

    def prefetch(self, pointer: Value, locality: int = 3) -> None:
        self.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        self.line(f"call void @llvm.prefetch.p0({pointer}, i32 0, i32 {locality}, i32 1)")

    def copy_memory(self, target: Value, source: Value, size: Value, align: int = 1) -> None:
        """Bytes of two ranges that do not overlap."""
        self.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        operands = f"ptr align {align} {target.text}, ptr align {align} {source.text}, {size}, i1 false"
        self.line(f"call void @llvm.memcpy.p0.p0.i64({operands})")

    def fill_zero(self, target: Value, size: Value, align: int = 1) -> None:
        self.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        self.line(f"call void @llvm.memset.p0.i64(ptr align {align} {target.text}, i8 0, {size}, i1 false)")

    # --- atomics; orders are LLVM's: monotonic, acquire, release, acq_rel, seq_cst

    def atomic_load(self, type_text: str, pointer: Value, order: str = "acquire") -> Value:
        return self.assign(type_text, f"load atomic {type_text}, {pointer} {order}, align {byte_size(type_text)}")

    def atomic_store(self, value: Value, pointer: Value, order: str = "release") -> None:
        self.line(f"store atomic {value}, {pointer} {order}, align {byte_size(value.type)}")

    def atomic_update(self, operation: str, pointer: Value, value: Value, order: str = "acq_rel") -> Value:
        """`add`, `sub`, `xchg`, `or`, `umin` ...; the old value."""
        align = byte_size(value.type)
        return self.assign(value.type, f"atomicrmw {operation} {pointer}, {value} {order}, align {align}")

    def compare_exchange(self, pointer: Value, expected: Value, value: Value) -> tuple[Value, Value]:
        """The old value and whether it was replaced (sequentially consistent)."""
        pair = self.assign(f"{{ {value.type}, i1 }}", f"cmpxchg {pointer}, {expected}, {value} seq_cst seq_cst")
        old = self.assign(value.type, f"extractvalue {pair}, 0")
        return old, self.assign("i1", f"extractvalue {pair}, 1")


def _natural(type_text: str) -> int:
    return byte_size(element_type(type_text))
