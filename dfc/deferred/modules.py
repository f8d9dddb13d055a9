"""Modules that are executed when something of them is first used.

`dfc check` works on types and sizes, and on numbers of Python: NumPy, whose import takes as long as all of that, is
for programs that hold arrays, for folding and for running. Assumes that one thread uses a module first. Guarantees that
a deferred module is what a plain import gives, from its first use on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


def defer(name: str) -> None:
    """Lets `import name` give a module that is executed on its first use. One that was imported stays as it is, and one
    that is not installed is missed where it is imported."""
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    module.__class__ = _Deferred
    sys.modules[name] = module


class _Deferred(ModuleType):
    """A module before its first use. (`importlib.util.LazyLoader` takes a second `import` statement for a use.)"""

    def __getattribute__(self, attribute: str) -> Any:
        if attribute in ("__spec__", "__class__"):  # what an `import` statement asks for
            return super().__getattribute__(attribute)
        object.__setattr__(self, "__class__", ModuleType)
        spec = self.__spec__
        assert spec is not None and spec.loader is not None, "`defer` has looked"
        try:
            spec.loader.exec_module(self)
        except BaseException:
            sys.modules.pop(spec.name, None)  # as an import that fails
            raise
        return getattr(self, attribute)


def numpy_function(name: str) -> Callable[..., Any]:
    """The function `np.NAME`, or `np.NAME.METHOD`, without importing NumPy before it is called."""

    def call(*arguments: Any, **named: Any) -> Any:
        import numpy as np

        function: Any = np
        for part in name.split("."):
            function = getattr(function, part)
        return function(*arguments, **named)

    call.__name__ = call.__qualname__ = name
    return call
