"""`load` and `loads`: from a bundle to a module, on one rank (`one_rank`) or on many (`distributed.loading`).

Assumes nothing of the bytes. Programs on one rank import nothing of what many ranks need.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, overload

from dfc_runtime.calls.hosts import Handler
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.kinds import require_kind
from dfc_runtime.module import Module
from dfc_runtime.observe.destinations import Destination
from dfc_runtime.one_rank import Answering, Results, Stated, load_alone

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.calls.cluster_module import ClusterModule
    from dfc_runtime.distributed.transport.comm import Comm


@overload
def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    memory_limit: int | None = None,
    initialise: bool = True,
    check_finite: bool = False,
    handlers: Mapping[str, Handler] | None = None,
    summaries: Destination | None = None,
    trace: str | os.PathLike[str] | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
    device: int | None = None,
    results: Results = "host",
) -> Module: ...
@overload
def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    memory_limit: int | None = None,
    initialise: bool = True,
    check_finite: bool = False,
    handlers: Mapping[str, Handler] | None = None,
    summaries: Destination | None = None,
    trace: str | os.PathLike[str] | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
    device: int | None = None,
    comm: Comm | MPI.Intracomm | None,
    jobs: Mapping[str, int] | None = None,
    deadline: float | None = None,
) -> Module | ClusterModule: ...
def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    memory_limit: int | None = None,
    initialise: bool = True,
    check_finite: bool = False,
    handlers: Mapping[str, Handler] | None = None,
    summaries: Destination | None = None,
    trace: str | os.PathLike[str] | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
    device: int | None = None,
    results: Results = "host",
    comm: Comm | MPI.Intracomm | None = None,
    jobs: Mapping[str, int] | None = None,
    deadline: float | None = None,
) -> Module | ClusterModule:
    """A program to call. `threads`: as stated, else `DFC_THREADS`, else one per processor; `memory_limit` in bytes:
    as stated, else `DFC_MEMORY_LIMIT`, else the memory of the machine. Without `initialise`, state is unset until
    `init` or `restore` is called. With `check_finite` a call stops at the first value that is not finite: a bundle that
    was compiled without these checks is compiled again, which needs the compiler. `handlers` answer the requests of
    native code of their kinds, instead of those that dfc has itself. `summaries` is where they go: a file of JSON lines
    (`.jsonl`), a folder for TensorBoard, or a function; without it the latest ones are in `module.summaries`.
    `trace` is a file that `close` writes: what happened when, for Perfetto and `dfc trace`; kernels are in it if the
    bundle was compiled with `--timed`. `data` says which files readers of records read, a pattern by the name of each,
    such as `{"files": "data/*.rec"}`; those that the program names are relative to the folder of the bundle. For a
    program that runs on a GPU, `device` is its number (else `DFC_DEVICE`, else the first one), and with
    `results="device"` tensors that come back stay there, as arrays with
    `__cuda_array_interface__`, `__dlpack__` and `to_host()`.

    On many ranks every rank loads the program with `comm`, a communicator of mpi4py; `jobs` says how many tasks a job
    has, where it is not as written, and `deadline` for how many seconds anything is waited for (else `DFC_DEADLINE`,
    else 60)."""
    require_kind(path, (str, os.PathLike), "load wants the path of a bundle")
    if comm is not None:
        from dfc_runtime.distributed.loading import load_on  # programs on one rank need nothing of it

        if results != "host":
            raise UnsupportedError("on many ranks results come back to the memory of the host", code="E1001")
        limit, answered = memory_limit, handlers
        return load_on(
            path,
            comm,
            jobs=jobs,
            seconds=deadline,
            threads=threads,
            limit=limit,
            initialise=initialise,
            handlers=answered,
            summaries=summaries,
            check_finite=check_finite,
            trace=trace,
            device=device,
            data=data,
        )
    stated = Stated(threads, memory_limit, device, results)
    answering = Answering(handlers, summaries, trace, data)
    return load_alone(path, stated, answering, initialise=initialise, check_finite=check_finite)


def loads(
    bundle: bytes | bytearray | memoryview,
    /,
    threads: int | None = None,
    *,
    memory_limit: int | None = None,
    initialise: bool = True,
    check_finite: bool = False,
    handlers: Mapping[str, Handler] | None = None,
    summaries: Destination | None = None,
    trace: str | os.PathLike[str] | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
    folder: str | os.PathLike[str] | None = None,
    device: int | None = None,
    results: Results = "host",
) -> Module:
    """Like `load`, for a bundle in memory. Files that the program names are relative to `folder`, else to the working
    folder."""
    require_kind(bundle, (bytes, bytearray, memoryview), "loads wants the bytes of a bundle")
    stated = Stated(threads, memory_limit, device, results)
    answering = Answering(handlers, summaries, trace, data, folder)
    return load_alone(bytes(bundle), stated, answering, initialise=initialise, check_finite=check_finite)
