"""Constants from outside the text: `setting("NAME", default)` and `load("x.npy")`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.entities import Constant, Entity, LiteralTensor
from dfc.ir.attributes import Literal
from dfc.ir.dims import dim
from dfc.ir.dtypes import from_numpy
from dfc.ir.types import TensorType

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_FILE = 1 << 30
Arguments = Mapping[str, Argument]


def make_setting(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """A constant that can be given when the program is compiled: `--set NAME=value`."""
    del expected
    name = constant_of(context, value_of(context, arguments["name"]), arguments["name"].span, "the name of a setting")
    default = constant_of(
        context, value_of(context, arguments["default"]), arguments["default"].span, "the default of a setting"
    )
    if not isinstance(name, str):
        raise mistake("E0315", "the name of a setting is a string", arguments["name"].span)
    program = context.program
    value = program.settings.get(name, default)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(default):
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
        raise mistake("E0315", f"the setting `{name}` must be {words[type(default)]}, not {value!r}", span)
    program.graph.settings[name] = value
    return Constant(value)


def make_load(context: Context, arguments: Arguments, span: Span, expected: Expected) -> Entity:
    """An array from a `.npy` file beside the program."""
    del expected
    argument = arguments["path"]
    name = constant_of(context, value_of(context, argument), argument.span, "the path of a file")
    if not isinstance(name, str):
        raise mistake("E0315", "the path of a file is a string", argument.span)
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or pure.suffix != ".npy":
        raise mistake("E0318", "`load` reads a `.npy` file beside the program or below it", argument.span)
    path = Path(span.name).parent / pure
    array = _read(path, argument.span)
    dtype = from_numpy(array.dtype)
    if dtype is None or dtype.is_complex:
        raise mistake("E0318", f"`{name}` holds elements of type {array.dtype}", argument.span)
    return LiteralTensor(Literal(array), TensorType(dtype, tuple(dim(n) for n in array.shape)))


def _read(path: Path, span: Span) -> NDArray[np.generic]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise mistake("E0318", f"`{path.name}` is larger than a constant may be", span)
        return np.load(path, allow_pickle=False)
    except OSError as problem:
        raise mistake("E0318", f"`{path.name}` cannot be read", span, problem.strerror or "") from None
    except (ValueError, EOFError) as problem:
        reason = str(problem).splitlines()[0][:80] if str(problem) else ""
        raise mistake("E0318", f"`{path.name}` is not a `.npy` file of numbers", span, reason) from None
