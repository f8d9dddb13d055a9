"""The tools that make code of kernels, with their versions, as bundles name them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from dfc_target_cuda.code.assemble import assembler_version

LIBRARIES = {"numba-cuda": "numba-cuda", "libNVVM": "nvidia-nvvm"}
"""What makes PTX, and the distribution that it comes with; one of the system, which states no version, is `unknown`."""


@cache
def compilers() -> dict[str, str]:
    """Of those that a bundle with kernels was made by; `ptxas` where there is one."""
    return dict(_versions())


def _versions() -> Iterator[tuple[str, str]]:
    for name, distribution in LIBRARIES.items():
        try:
            yield name, version(distribution)
        except PackageNotFoundError:
            yield name, "unknown"
    if assembler := assembler_version():
        yield "ptxas", assembler
