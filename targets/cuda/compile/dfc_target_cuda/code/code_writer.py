"""Kernel text to LLVM code: one function of the small language of `prelude`, statement by statement.

Assumes text that Python can parse. Guarantees that what is not of that language is refused with the text that is not,
that a name has one type, and that the order of effects is that of Python; what has none may be computed though its
result is not used. Names that are set once, before all uses, are registers; others are places on the stack, which the
optimiser turns into registers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from dfc_target_cuda.code.code import Code
from dfc_target_cuda.code.code_numbers import adapt, binary, cast, compare, number, refuse, unary
from dfc_target_cuda.code.code_scopes import registers
from dfc_target_cuda.code.code_types import BOOLEAN, I64, Function, Name, Pointer, Scalar, Shared, Type, Value

KERNEL = "kernel"
"""What the function is called that is launched."""

Results = tuple[Scalar | Pointer, ...]


def returned(results: Results) -> str:
    """The LLVM type of what a function gives."""
    if len(results) <= 1:
        return results[0].llvm if results else "void"
    return f"{{{', '.join(one.llvm for one in results)}}}"


class Writer:
    """Writes one function."""

    def __init__(self, definition: ast.FunctionDef, names: Mapping[str, Name], results: Results) -> None:
        self.definition, self.names, self.results = definition, names, results
        self.code = Code()
        self.registers = registers(definition)
        self.known: dict[str, Value] = {}
        self.places: dict[str, tuple[Type, str]] = {}

    def write(self, parameters: Sequence[Type]) -> Code:
        for argument, kind in zip(self.definition.args.args, parameters, strict=True):
            self._assign(argument.arg, Value(kind, f"%{argument.arg}_"), self.definition)
        self._block(self.definition.body)
        if self.code.open:
            if self.results:
                refuse(self.definition, "a function ends without a result")
            self.code.end("ret void")
        return self.code

    # --- statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if not self.code.open:
                refuse(statement, "nothing comes here")
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, self.value(value), node)
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                self._assign_several(elements, value)
            case ast.Assign(targets=[ast.Subscript(value=memory, slice=index)], value=value):
                self._store(memory, index, self.value(value), node)
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.If():
                self._if(node)
            case ast.While(orelse=[]):
                self._while(node)
            case ast.For(target=ast.Name(id=name), orelse=[]):
                self._for(node, name)
            case ast.Return():
                self._return(node)
            case _:
                refuse(node, "no statement of kernel text")

    def _assign(self, name: str, value: Value, node: ast.AST) -> None:
        if name in self.registers:
            self.known[name] = value
            return
        kind, place = self.places.get(name, (value.type, ""))
        if not place:
            place = self.code.reserve(kind)
            self.places[name] = kind, place
        value = adapt(self.code, value, kind, node)
        self.code.do(f"store {kind.llvm} {value.text}, {kind.llvm}* {place}")

    def _assign_several(self, elements: Sequence[ast.expr], value: ast.expr) -> None:
        values = self._call(value) if isinstance(value, ast.Call) else self._elements(value)
        if len(values) != len(elements):
            refuse(value, f"{len(values)} values for {len(elements)} names")
        for element, one in zip(elements, values, strict=True):
            if not isinstance(element, ast.Name):
                refuse(element, "not a name")
            self._assign(element.id, one, element)

    def _store(self, memory: ast.expr, index: ast.expr, value: Value, node: ast.AST) -> None:
        pointer, place = self._place(memory, index)
        assert isinstance(pointer.type, Pointer)
        self.code.store(pointer, place, adapt(self.code, value, pointer.type.element, node))

    def _place(self, memory: ast.expr, index: ast.expr) -> tuple[Value, Value]:
        pointer = self.value(memory)
        if not isinstance(pointer.type, Pointer):
            refuse(memory, f"{pointer.type.name} is no memory")
        return pointer, adapt(self.code, self.value(index), I64, index)

    def _if(self, node: ast.If) -> None:
        code = self.code
        yes, no, after = (code.fresh(stem) for stem in ("then", "else", "after"))
        code.branch(self._condition(node.test), yes, no if node.orelse else after)
        ended = [self._inside(yes, node.body, after)]
        if node.orelse:
            ended.append(self._inside(no, node.orelse, after))
        if not node.orelse or not all(ended):
            code.begin(after)

    def _inside(self, name: str, body: Sequence[ast.stmt], after: str) -> bool:
        """Whether the function ends in it."""
        self.code.begin(name)
        self._block(body)
        ended = not self.code.open
        self.code.jump(after)
        return ended

    def _while(self, node: ast.While) -> None:
        code = self.code
        test, body, after = (code.fresh(stem) for stem in ("test", "body", "after"))
        code.jump(test)
        code.begin(test)
        code.branch(self._condition(node.test), body, after)
        self._inside(body, node.body, test)
        code.begin(after)

    def _for(self, node: ast.For, name: str) -> None:
        """Over `range(count)`."""
        code = self.code
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=[bound], keywords=[]):
                count = adapt(code, self.value(bound), I64, node.iter)
            case _:
                refuse(node.iter, "loops are over range(count)")
        place = code.reserve(I64)
        code.do(f"store i64 0, i64* {place}")
        test, body, after = (code.fresh(stem) for stem in ("test", "body", "after"))
        code.jump(test)
        code.begin(test)
        position = code.value(I64, f"load i64, i64* {place}")
        code.branch(code.value(BOOLEAN, f"icmp slt i64 {position.text}, {count.text}"), body, after)
        code.begin(body)
        self._assign(name, position, node)
        self._block(node.body)
        if code.open:
            code.do(f"store i64 {code.let(f'add nsw i64 {position.text}, 1')}, i64* {place}")
        code.jump(test)
        code.begin(after)

    def _return(self, node: ast.Return) -> None:
        values = [] if node.value is None else self._elements(node.value)
        if len(values) != len(self.results):
            refuse(node, f"{len(self.results)} results are expected")
        values = [adapt(self.code, one, kind, node) for one, kind in zip(values, self.results, strict=True)]
        if len(values) <= 1:
            self.code.end(f"ret {values[0].type.llvm} {values[0].text}" if values else "ret void")
            return
        whole_type, made = returned(self.results), "undef"
        for position, one in enumerate(values):
            made = self.code.let(f"insertvalue {whole_type} {made}, {one.type.llvm} {one.text}, {position}")
        self.code.end(f"ret {whole_type} {made}")

    # --- expressions

    def value(self, node: ast.expr, *, wraps: bool = False) -> Value:
        """`wraps`: a cast takes what comes of it."""
        code = self.code
        match node:
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.Constant(value=bool() | int() | float() as told):
                return number(told, node)
            case ast.BinOp(left=left, op=operator, right=right):
                x, y = self.value(left), self.value(right)
                return binary(code, operator, x, y, node, wraps=wraps)
            case ast.UnaryOp(op=operator, operand=operand):
                return unary(code, operator, self.value(operand), node)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                x, y = self.value(left), self.value(right)
                return compare(code, operator, x, y, node)
            case ast.Subscript(value=memory, slice=index):
                return code.load(*self._place(memory, index))
            case ast.Call():
                values = self._call(node)
                return values[0] if len(values) == 1 else refuse(node, f"{len(values)} values where one is expected")
            case ast.IfExp():
                return self._choice(node)
            case ast.BoolOp():
                return self._logic(node)
            case _:
                refuse(node, "no expression of kernel text")

    def _name(self, name: str, node: ast.AST) -> Value:
        if name in self.known:
            return self.known[name]
        if name in self.places:
            kind, place = self.places[name]
            return self.code.value(kind, f"load {kind.llvm}, {kind.llvm}* {place}")
        found = self.names.get(name)
        if isinstance(found, Value):
            return found
        refuse(node, "not a name of the prelude" if found is None else "not a value")

    def _elements(self, node: ast.expr) -> list[Value]:
        if isinstance(node, ast.Tuple):
            return [self.value(one) for one in node.elts]
        return list(self._call(node)) if isinstance(node, ast.Call) else [self.value(node)]

    def _condition(self, node: ast.expr) -> Value:
        found = self.value(node)
        return found if found.type == BOOLEAN else refuse(node, f"a condition is a boolean, and this {found.type.name}")

    def _call(self, node: ast.Call) -> Sequence[Value]:
        if not isinstance(node.func, ast.Name) or node.keywords:
            refuse(node, "no call of kernel text")
        name = node.func.id
        if name in ("min", "max") and len(node.args) == 2:
            return [self._extreme(name, node)]
        found = self.names.get(name)
        if isinstance(found, Scalar) and len(node.args) == 1:
            return [cast(self.code, self.value(node.args[0], wraps=True), found, node)]
        if isinstance(found, Shared):
            return [self._shared(found, node)]
        if not isinstance(found, Function):
            refuse(node, f"{name} is not a function of the prelude")
        if len(node.args) != len(found.parameters):
            refuse(node, f"{name} has {len(found.parameters)} parameters")
        values = [self.value(one) for one in node.args]
        pairs = zip(values, found.parameters, strict=True)
        return found.emit(self.code, [adapt(self.code, one, kind, node) for one, kind in pairs])

    def _shared(self, found: Shared, node: ast.Call) -> Value:
        match node.args:
            case [ast.Constant(value=int(count))]:
                return self.code.shared(found.element, count)
            case _:
                refuse(node, "the size of shared memory is a number")

    def _extreme(self, name: str, node: ast.Call) -> Value:
        """Of indices."""
        x, y = (adapt(self.code, self.value(one), I64, node) for one in node.args)
        order = ast.Lt() if name == "min" else ast.Gt()
        return self.code.select(compare(self.code, order, x, y, node), x, y)

    # --- what is computed only if it is needed

    def _choice(self, node: ast.IfExp) -> Value:
        condition = self._condition(node.test)
        if _is_simple(node.body) and _is_simple(node.orelse):
            x, y = self.value(node.body), self.value(node.orelse)
            return self.code.select(condition, x, self._like(x, y, node))
        code = self.code
        yes, no, after = (code.fresh(stem) for stem in ("then", "else", "after"))
        code.branch(condition, yes, no)
        code.begin(yes)
        x, first = self.value(node.body), self._leave(after)
        code.begin(no)
        y = self._like(x, self.value(node.orelse), node)
        return self._joined(after, [(x, first), (y, self._leave(after))])

    def _like(self, x: Value, y: Value, node: ast.AST) -> Value:
        return y if x.type == y.type else refuse(node, f"{x.type.name} or {y.type.name}")

    def _logic(self, node: ast.BoolOp) -> Value:
        """`and`, `or`: what follows is computed only if it matters, or if that shows in nothing."""
        code, both = self.code, isinstance(node.op, ast.And)
        found = self._condition(node.values[0])
        for part in node.values[1:]:
            if _is_harmless(part):
                found = code.value(BOOLEAN, f"{'and' if both else 'or'} i1 {found.text}, {self._condition(part).text}")
                continue
            more, after = code.fresh("more"), code.fresh("after")
            before = code.block
            code.branch(found, *((more, after) if both else (after, more)))
            code.begin(more)
            other = self._condition(part)
            decided = Value(BOOLEAN, "false" if both else "true")
            found = self._joined(after, [(decided, before), (other, self._leave(after))])
        return found

    def _leave(self, target: str) -> str:
        """The block that ends here."""
        block = self.code.block
        self.code.jump(target)
        return block

    def _joined(self, name: str, ways: Sequence[tuple[Value, str]]) -> Value:
        self.code.begin(name)
        kind = ways[0][0].type
        told = ", ".join(f"[ {value.text}, %{block} ]" for value, block in ways)
        return self.code.value(kind, f"phi {kind.llvm} {told}")


def _is_simple(node: ast.expr) -> bool:
    """A name, a number, or a cast number."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Call) and len(node.args) == 1:
        inside = node.args[0].operand if isinstance(node.args[0], ast.UnaryOp) else node.args[0]
        return isinstance(inside, ast.Constant) or (isinstance(inside, ast.Name) and inside.id in ("inf", "nan"))
    return isinstance(node, ast.Name | ast.Constant)


def _is_harmless(node: ast.expr) -> bool:
    """Whether computing it in vain shows in nothing: comparisons of names and numbers."""
    if isinstance(node, ast.Compare):
        return all(_is_simple(one) for one in (node.left, *node.comparators))
    if isinstance(node, ast.BoolOp):
        return all(_is_harmless(one) for one in node.values)
    return _is_harmless(node.operand) if isinstance(node, ast.UnaryOp) else _is_simple(node)


def write_function(
    definition: ast.FunctionDef, parameters: Sequence[Type], results: Results, names: Mapping[str, Name], symbol: str
) -> tuple[str, Code]:
    """The function's LLVM text, and what it refers to. `symbol` is its name there."""
    code = Writer(definition, names, results).write(parameters)
    told = ", ".join(
        f"{kind.llvm} %{argument.arg}_" for argument, kind in zip(definition.args.args, parameters, strict=True)
    )
    linkage = "" if symbol == KERNEL else "internal "
    head = f"define {linkage}{returned(results)} @{symbol}({told}) {{\nentry:"
    return "\n".join([head, *code.memory, *code.lines, "}"]) + "\n", code
