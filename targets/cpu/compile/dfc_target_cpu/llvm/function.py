"""One LLVM function, written as text instruction by instruction.

Assumes that the caller keeps types right (the verifier of LLVM has the last word). Guarantees unique register and
block names, no fast-math flag anywhere, and multiply-add contraction only where `fma` is called.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from dfc_target_cpu.llvm.memory import MemoryInstructions
from dfc_target_cpu.llvm.values import (
    Value,
    constant,
    element_type,
    intrinsic_suffix,
    is_floating,
    lane_count,
    like,
    literal_int,
    poison,
    vector_constant,
    vector_type,
)


class Parameter(NamedTuple):
    """A formal parameter; `attributes` is text such as `noalias readonly`."""

    type: str
    name: str
    attributes: str = ""


_Method = Callable[[MemoryInstructions, Value, Value], Value]


def _binary(opcode: str) -> _Method:
    """The instruction of two operands of one type, which is that of the result."""

    def instruction(f: MemoryInstructions, a: Value, b: Value) -> Value:
        return f.assign(a.type, f"{opcode} {a.type} {a.text}, {b.text}")

    return instruction


class FunctionText(MemoryInstructions):
    """A function under construction. Instructions go to the end of the block last begun."""

    def __init__(
        self,
        declare: Callable[[str, str, Sequence[str]], None],
        hint: str,
        result: str,
        parameters: Sequence[Parameter],
        linkage: str = "internal",
        attributes: str = "nounwind",
    ) -> None:
        super().__init__(declare)
        self.hint = hint
        self.result = result
        self.parameters = tuple(parameters)
        self.linkage = linkage
        self.attributes = attributes
        self.arguments = tuple(Value(p.type, f"%{p.name}") for p in parameters)
        self.begin("entry")

    def argument(self, name: str) -> Value:
        return next(value for value in self.arguments if value.text == f"%{name}")

    def signature(self) -> str:
        """All of the head but the name: with the body it decides whether two functions are the same."""
        formals = ", ".join(" ".join(filter(None, (p.type, p.attributes, f"%{p.name}"))) for p in self.parameters)
        return f"({formals}) {self.attributes}"

    # --- integer and floating-point arithmetic

    def add(self, a: Value, b: Value) -> Value:
        return self._folded("add", a, b, 0)

    def sub(self, a: Value, b: Value) -> Value:
        return self._folded("sub", a, b, 0)

    def mul(self, a: Value, b: Value) -> Value:
        if literal_int(a) == 1:
            return b
        return self._folded("mul", a, b, 1)

    def _folded(self, opcode: str, a: Value, b: Value, neutral: int) -> Value:
        """Arithmetic on 64-bit literals is done here: addresses of unrolled code are mostly such."""
        right = literal_int(b)
        if right == neutral:
            return a
        left = literal_int(a)
        if right is None or left is None or a.type != "i64":
            return self.binary(opcode, a, b)
        number = {"add": left + right, "sub": left - right, "mul": left * right}[opcode]
        return Value("i64", str(number))

    def udiv(self, a: Value, b: Value) -> Value:
        left, right = literal_int(a), literal_int(b)
        if left is None or not right or a.type != "i64":
            return self.binary("udiv", a, b)
        return Value("i64", str(left // right))

    sdiv: ClassVar[_Method] = _binary("sdiv")
    srem: ClassVar[_Method] = _binary("srem")
    urem: ClassVar[_Method] = _binary("urem")
    bit_and: ClassVar[_Method] = _binary("and")
    bit_or: ClassVar[_Method] = _binary("or")
    bit_xor: ClassVar[_Method] = _binary("xor")
    shl: ClassVar[_Method] = _binary("shl")
    lshr: ClassVar[_Method] = _binary("lshr")
    ashr: ClassVar[_Method] = _binary("ashr")
    fadd: ClassVar[_Method] = _binary("fadd")
    fsub: ClassVar[_Method] = _binary("fsub")
    fmul: ClassVar[_Method] = _binary("fmul")
    fdiv: ClassVar[_Method] = _binary("fdiv")

    def fneg(self, a: Value) -> Value:
        return self.assign(a.type, f"fneg {a.type} {a.text}")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """`a * b + c` with one rounding (needs a machine with the instruction)."""
        return self.intrinsic("fma", a, b, c)

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """`a * b + c`, fused where the machine has the instruction: the same choice everywhere in one variant."""
        return self.intrinsic("fmuladd", a, b, c)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        return self.assign(a.type, f"{opcode} {a.type} {a.text}, {b.text}")

    def minimum(self, a: Value, b: Value, *, signed: bool = True) -> Value:
        """Integer minimum."""
        return self.intrinsic("smin" if signed else "umin", a, b)

    def maximum(self, a: Value, b: Value, *, signed: bool = True) -> Value:
        """Integer maximum."""
        return self.intrinsic("smax" if signed else "umax", a, b)

    # --- comparison, choice, conversion

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.assign(like(a.type, "i1"), f"icmp {predicate} {a.type} {a.text}, {b.text}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.assign(like(a.type, "i1"), f"fcmp {predicate} {a.type} {a.text}, {b.text}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.assign(a.type, f"select {condition}, {a}, {b}")

    def cast(self, opcode: str, a: Value, type_text: str) -> Value:
        """`opcode` is the LLVM cast (`zext`, `sitofp`, `fptrunc`, `bitcast`, `ptrtoint` ...); equal types: nothing."""
        if a.type == type_text:
            return a
        return self.assign(type_text, f"{opcode} {a} to {type_text}")

    def resize(self, a: Value, type_text: str, *, signed: bool = True) -> Value:
        """Integer to integer, or floating point to floating point, of any other width."""
        source, target = _width_rank(a.type), _width_rank(type_text)
        if is_floating(a.type):
            return self.cast("fpext" if source < target else "fptrunc", a, type_text)
        widen = "sext" if signed else "zext"
        return self.cast(widen if source < target else "trunc", a, type_text)

    # --- vectors

    def splat(self, scalar: Value, lanes: int) -> Value:
        if lanes == 1:
            return scalar
        type_text = vector_type(lanes, scalar.type)
        one = self.insert(poison(type_text), scalar, 0)
        return self.assign(type_text, f"shufflevector {one}, {poison(type_text)}, <{lanes} x i32> zeroinitializer")

    def insert(self, vector: Value, scalar: Value, lane: int | Value) -> Value:
        index = lane if isinstance(lane, Value) else Value("i32", str(lane))
        return self.assign(vector.type, f"insertelement {vector}, {scalar}, {index}")

    def extract(self, vector: Value, lane: int | Value) -> Value:
        if not vector.type.startswith("<"):
            return vector
        index = lane if isinstance(lane, Value) else Value("i32", str(lane))
        return self.assign(element_type(vector.type), f"extractelement {vector}, {index}")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes of `a` followed by `b`, chosen by number."""
        mask = vector_constant("i32", lanes)
        mask_text = str(mask) if len(lanes) > 1 else f"<1 x i32> <{mask}>"
        if len(lanes) == 1:
            vector = self.assign(f"<1 x {element_type(a.type)}>", f"shufflevector {a}, {b}, {mask_text}")
            return self.assign(element_type(a.type), f"extractelement {vector}, i32 0")
        return self.assign(vector_type(len(lanes), element_type(a.type)), f"shufflevector {a}, {b}, {mask_text}")

    def lane_numbers(self, lanes: int, element: str) -> Value:
        return vector_constant(element, range(lanes))

    def tail_mask(self, count: Value, lanes: int) -> Value:
        """The mask of the first `count` lanes (`count` may be beyond `lanes`; negative counts as none)."""
        limit = self.minimum(self.maximum(count, constant(count.type, 0)), constant(count.type, lanes))
        narrow = self.resize(limit, "i32")
        return self.icmp("ult", self.lane_numbers(lanes, "i32"), self.splat(narrow, lanes))

    # --- calls

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """`llvm.<name>` overloaded on the type of the first operand, which is also the type of the result."""
        type_text = operands[0].type
        full = f"llvm.{name}.{intrinsic_suffix(type_text)}"
        self.declare(full, type_text, [operand.type for operand in operands])
        return self.assign(type_text, f"call {type_text} @{full}({', '.join(map(str, operands))})")

    def reduce(self, operation: str, vector: Value) -> Value:
        """Integer or mask lanes folded by `and`, `or`, `add`, `umax` ...: exact, so the order does not matter."""
        if lane_count(vector.type) == 1:
            return vector
        full = f"llvm.vector.reduce.{operation}.{intrinsic_suffix(vector.type)}"
        self.declare(full, element_type(vector.type), [vector.type])
        return self.assign(element_type(vector.type), f"call {element_type(vector.type)} @{full}({vector})")

    def call(self, function: str, result: str, arguments: Sequence[Value]) -> Value:
        """Call by name (a function of this module, see `ModuleText.add`)."""
        return self._call(f"@{function}", result, arguments)

    def call_pointer(self, pointer: Value, result: str, arguments: Sequence[Value]) -> Value:
        return self._call(pointer.text, result, arguments)

    def _call(self, target: str, result: str, arguments: Sequence[Value]) -> Value:
        text = f"call {result} {target}({', '.join(map(str, arguments))})"
        if result == "void":
            self.line(text)
            return Value("void", "")
        return self.assign(result, text)


def _width_rank(type_text: str) -> int:
    element = element_type(type_text)
    ranks = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
    return ranks[element] if element in ranks else int(element[1:])
