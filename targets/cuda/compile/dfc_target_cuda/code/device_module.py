"""A kernel text as a module of LLVM code: the kernel, the prelude's functions that it calls, and what describes it.

Assumes text in the names of `prelude`. Guarantees equal modules for equal texts in every process. What the module
defines has names that begin with that of the kernel, so that many modules fit into one.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Mapping, Sequence
from functools import cache

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code.code import Code
from dfc_target_cuda.code.code_types import I64, SCALARS, U8, Function, Name, Pointer, Scalar, Type, Value
from dfc_target_cuda.code.code_writer import KERNEL, returned, write_function
from dfc_target_cuda.code.fragments import TextKey
from dfc_target_cuda.kernels import prelude, prelude_device

_HEAD = """target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-\
v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
"""


class Library:
    """Functions of the prelude's text, each written when it is first called."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, Name] = dict(prelude_device.primitives())
        self._definitions = {one.name: one for one in parsed(text).body if isinstance(one, ast.FunctionDef)}
        self._written: dict[str, tuple[str, Code]] = {}
        for definition in self._definitions.values():
            self.names[definition.name] = _declared(definition)

    def written(self, name: str) -> tuple[str, Code]:
        if name not in self._written:
            function = self.names[name]
            assert isinstance(function, Function)
            definition = self._definitions[name]
            self._written[name] = write_function(
                definition, function.parameters, function.results, self.names, f"{KERNEL}_{name}"
            )
        return self._written[name]


def _declared(definition: ast.FunctionDef) -> Function:
    """As its annotations say."""
    parameters = tuple(_scalar(argument.annotation) for argument in definition.args.args)
    given = definition.returns
    results = tuple(_scalar(one) for one in (given.elts if isinstance(given, ast.Tuple) else [given]))

    def emit(code: Code, arguments: Sequence[Value]) -> Sequence[Value]:
        code.calls.append(definition.name)
        told = ", ".join(f"{one.type.llvm} {one.text}" for one in arguments)
        made = code.let(f"call {returned(results)} @{KERNEL}_{definition.name}({told})")
        if len(results) == 1:
            return [Value(results[0], made)]
        return [
            code.value(one, f"extractvalue {returned(results)} {made}, {position}")
            for position, one in enumerate(results)
        ]

    return Function(definition.name, parameters, results, emit)


_PARSING = threading.Lock()


def parsed(text: str) -> ast.Module:
    """The syntax of a text; of one thread at a time: CPython 3.11 counts how deep it is in one place for all threads,
    and stops with a `SystemError` when they meet (https://github.com/python/cpython/issues/106905)."""
    with _PARSING:
        return ast.parse(text)


def _scalar(annotation: ast.expr | None) -> Scalar:
    assert isinstance(annotation, ast.Name)
    return SCALARS[annotation.id]


@cache
def library() -> Library:
    """The names of the prelude for the device."""
    return Library(prelude.text())


def module(key: TextKey, code_version: Sequence[int]) -> str:
    """The module of one text, whose kernel is called `kernel`."""
    known = library()
    try:
        (definition,) = parsed(key.source).body
    except (SyntaxError, ValueError) as error:
        raise CodeGenerationError(f"kernel text is not one function: {error}\n{key.source}") from error
    assert isinstance(definition, ast.FunctionDef)
    parameters = _parameters(key)
    text, code = write_function(definition, parameters, (), known.names, KERNEL)
    texts, codes = {KERNEL: text}, [code]
    for one in codes:  # grows
        for name in one.calls:
            if name not in texts:
                texts[name], called = known.written(name)
                codes.append(called)
    externals: dict[str, str] = {}
    for one in codes:
        externals |= one.externals
    return "\n".join([_HEAD, *_sorted(externals), "", *texts.values(), _description(key, parameters, code_version)])


def _parameters(key: TextKey) -> list[Type]:
    pointers: list[Type] = [Pointer(SCALARS[name]) for name in key.pointers]
    workspace: list[Type] = [Pointer(U8)] * key.workspace
    return [*pointers, *[I64] * key.sizes, *workspace, Pointer(I64)]


def _sorted(externals: Mapping[str, str]) -> list[str]:
    return [externals[name] for name in sorted(externals)]


def _description(key: TextKey, parameters: Sequence[Type], code_version: Sequence[int]) -> str:
    """That it is a kernel, and of how many threads a block is at most."""
    kind = f"void ({', '.join(one.llvm for one in parameters)})* @{KERNEL}"
    version = ", ".join(f"i32 {one}" for one in code_version)
    return f"""!nvvmir.version = !{{!0}}
!nvvm.annotations = !{{!1, !2}}
!0 = !{{{version}}}
!1 = !{{{kind}, !"kernel", i32 1}}
!2 = !{{{kind}, !"maxntidx", i32 {key.threads}}}
"""
