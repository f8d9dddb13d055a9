"""An LLVM module as text: the front door to the text builder. An image may be one module and its parts, modules too.

Assumes one thread builds one module. Guarantees that the text depends only on the calls made (deterministic), that
declarations appear when first needed, and that equal tables and equal functions exist once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from dfc_target_cpu.llvm.blocks import Loop, Phi
from dfc_target_cpu.llvm.function import FunctionText, Parameter
from dfc_target_cpu.llvm.values import Value, constant, vector_constant

__all__ = ["FunctionText", "Loop", "ModuleText", "Parameter", "Phi", "Value", "constant", "vector_constant"]


_REFERENCE = re.compile(r"@([\w.]+)")


class _Finished(NamedTuple):
    """A function as text: its formal parameters and its body follow its name, `types` do in a declaration."""

    linkage: str
    result: str
    formals_and_body: str
    types: str
    attributes: str

    def definition(self, name: str, *, is_shared: bool) -> str:
        linkage = "hidden" if is_shared and self.linkage == "internal" else self.linkage
        return f"define {linkage} {self.result} @{name}{self.formals_and_body}"

    def declaration(self, name: str) -> str:
        return f"declare hidden {self.result} @{name}{self.types}"


_NO_FUNCTIONS: Mapping[str, _Finished] = MappingProxyType({})


class ModuleText:
    """Tables, declarations and functions of one module. `whole` is the module whose part this one is."""

    def __init__(self, triple: str, whole: "ModuleText | None" = None, *, has_parts: bool = False) -> None:
        self.triple = triple
        self._whole = whole
        self._has_parts = has_parts
        self._tables: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._functions: dict[str, _Finished] = {}
        self._names_by_body: dict[str, str] = {}
        self._built: dict[str, str] = {}
        self._heads: dict[str, tuple[str, list[str]]] = {}

    def declare(self, name: str, result: str, parameters: Sequence[str]) -> None:
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} @{name}({', '.join(parameters)})"

    def declare_hidden(self, name: str, result: str, parameters: Sequence[str]) -> None:
        """A function that another object of the same image defines."""
        self._declarations[name] = f"declare hidden {result} @{name}({', '.join(parameters)})"

    def table(self, element: str, values: Sequence[float], align: int = 64, hint: str = "table") -> Value:
        """A read-only array; equal tables share one address."""
        items = ", ".join(str(constant(element, value)) for value in values)
        return self._table(f"[{len(values)} x {element}] [{items}], align {align}", hint)

    def bytes_table(self, data: bytes, align: int = 64, hint: str = "bytes") -> Value:
        """Raw read-only bytes."""
        text = "".join(f"\\{byte:02X}" for byte in data)
        return self._table(f'[{len(data)} x i8] c"{text}", align {align}', hint)

    def _table(self, content: str, hint: str) -> Value:
        name = self._tables.setdefault(content, f"{hint}.{len(self._tables)}")
        return Value("ptr", f"@{name}")

    def function(
        self,
        hint: str,
        result: str,
        parameters: Sequence[Parameter],
        *,
        linkage: str = "internal",
        attributes: str = "nounwind",
    ) -> FunctionText:
        """A new function, not yet in the module: see `add`. `linkage`: `internal`, `hidden`, or `external`."""
        return FunctionText(self.declare, hint, result, parameters, linkage, attributes)

    def add(self, function: FunctionText) -> str:
        """Take a finished function in; an internal one equal to an earlier one is dropped. The name to call it by."""
        body = f"{function.result} {function.signature()}\n{function.body()}"
        if function.linkage == "internal" and body in self._names_by_body:
            return self._names_by_body[body]
        name = self._unique(function.hint)
        if function.linkage != "internal" and name != function.hint:
            raise ValueError(f"two functions named {name} for the outside")
        self._names_by_body.setdefault(body, name)
        linkage = "dso_local" if function.linkage == "external" else function.linkage
        types = f"({', '.join(each.type for each in function.parameters)})"
        text = f"{function.signature()} {{\n{function.body()}\n}}"
        self._functions[name] = _Finished(linkage, function.result, text, types, function.attributes)
        return name

    def define(self, key: str, build: Callable[[], FunctionText]) -> str:
        """The function built under `key`, built on first use only."""
        if key not in self._built:
            self._built[key] = self.add(build())
        return self._built[key]

    def shared(self, key: str, build: "Callable[[ModuleText], FunctionText]") -> str:
        """As `define`, of a function that the whole image has once: in the module that a part belongs to."""
        if self._whole is not None:
            name = self._whole.shared(key, build)
            self.declare_hidden(name, *self._whole.head(name))
            return name
        if key not in self._built:
            function = build(self)
            function.linkage = "hidden" if self._has_parts else function.linkage
            self._built[key] = self.add(function)
            self._heads[self._built[key]] = (function.result, [each.type for each in function.parameters])
        return self._built[key]

    def head(self, name: str) -> tuple[str, list[str]]:
        """Result and parameters of a shared function."""
        return self._heads[name]

    def _unique(self, hint: str) -> str:
        if hint not in self._functions:
            return hint
        number = len(self._functions)
        while f"{hint}.{number}" in self._functions:
            number += 1
        return f"{hint}.{number}"

    def text(self) -> str:
        return self._text(self._functions)

    def divided(self, attributes: str) -> tuple[str, str]:
        """The text without the functions that have these attributes, and that of a module of them alone; empty where
        there are none. A function that is called from the other module is no longer internal, but hidden."""
        apart = {name: one for name, one in self._functions.items() if one.attributes == attributes}
        here = {name: one for name, one in self._functions.items() if name not in apart}
        return (self._text(here, apart), self._text(apart, here)) if apart else (self._text(here), "")

    def _text(self, functions: Mapping[str, _Finished], others: Mapping[str, _Finished] = _NO_FUNCTIONS) -> str:
        """A module of these functions, which call others of another module, and are called by them."""
        known, shared = (_names_in(functions), _names_in(others)) if others else (self._tables.values(), ())
        tables = (f"@{name} = internal unnamed_addr constant {c}" for c, name in self._tables.items() if name in known)
        declared = (one.declaration(name) for name, one in others.items() if name in known)
        defined = (one.definition(name, is_shared=name in shared) for name, one in functions.items())
        head = f'target triple = "{self.triple}"'
        return "\n".join((head, *tables, *self._declarations.values(), *declared, *defined, ""))


def _names_in(functions: Mapping[str, _Finished]) -> set[str]:
    return {name for one in functions.values() for name in _REFERENCE.findall(one.formals_and_body)}
