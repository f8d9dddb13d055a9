"""A library of C functions that records its calls, argument by argument, in place of cuBLASLt."""

from __future__ import annotations

import ctypes
from typing import Any

from dfc_driver_cuda.libraries.cublaslt import SIGNATURES, TYPES, Heuristic

WORKSPACE = 4096
BROKEN = 99
"""The status of a call that this library itself could not do; `problems` says why."""

ALGORITHM = 0x0123_4567_89AB_CDEF


class RecordingLibrary:
    """Each function is a real C callback, so that arguments are converted as for the library. Handles are numbered;
    `attributes` are what was set on each handle, by number; `fails` the functions that end with a status."""

    def __init__(self, *, offers: int = 1) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.attributes: dict[tuple[int, int], bytes] = {}
        self.fails: dict[str, int] = {}
        self.open: set[int] = set()
        self.problems: list[Exception] = []
        self.offers = offers
        self.scale_bytes: dict[int, int] = {}
        self.matmuls: list[dict[str, Any]] = []
        self._functions = {name: self._function(name, arguments) for name, arguments in SIGNATURES.items()}

    def __getattr__(self, name: str) -> Any:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(name)
        return functions[name]

    def cublasLtGetVersion(self) -> int:
        return 131001

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of all calls of a function."""
        return [arguments for called, arguments in self.calls if called == name]

    def _function(self, name: str, arguments: list[Any]) -> Any:
        def called(*arguments: Any) -> int:
            if name in self.fails:
                return self.fails[name]
            self.calls.append((name, tuple(one for one in arguments if isinstance(one, int) or one is None)))
            try:
                self._answer(name, arguments)
            except Exception as problem:  # nobody sees it behind a C callback
                self.problems.append(problem)
                return BROKEN
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(called)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name.endswith("Create"):
            handle = 1000 + len(self.calls)
            arguments[0][0] = handle
            self.open.add(handle)
            if name == "cublasLtMatmulDescCreate":
                self.scale_bytes[handle] = 8 if arguments[2] == TYPES["f64"] else 4
        elif name.endswith("Destroy"):
            self.open.remove(arguments[0])
        elif name.endswith("SetAttribute"):
            self.attributes[arguments[0], arguments[1]] = ctypes.string_at(arguments[2], arguments[3])
        elif name.endswith("GetHeuristic"):
            result: Heuristic = arguments[8][0]
            result.algorithm[0], result.workspace, result.state = ALGORITHM, WORKSPACE, 0
            arguments[9][0] = self.offers
        elif name == "cublasLtMatmul":
            names = "handle description alpha first a second b beta c_in c result d algorithm workspace size stream"
            matmul: dict[str, Any] = dict(zip(names.split(), arguments, strict=True))
            for scale in ("alpha", "beta"):
                matmul[scale] = ctypes.string_at(matmul[scale], self.scale_bytes[matmul["description"]])
            matmul["algorithm"] = ctypes.c_uint64.from_address(arguments[12]).value
            self.matmuls.append(matmul)
