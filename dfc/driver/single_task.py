"""The distribution of a program that no deployment file is about, by its target. For one rank and one device nothing
about several is imported."""

from __future__ import annotations

from dfc.driver.pipeline import OneRank
from dfc.driver.pipeline.forms import Distribution
from dfc.ir.options import CompileOptions
from dfc_runtime.formats.manifest import MIXED

GPU_TARGET = "cuda"


def distribution_of(options: CompileOptions) -> Distribution:
    """What cuts the program, if anything does."""
    if options.target not in (GPU_TARGET, MIXED):
        return OneRank()
    from dfc.driver.several_devices import OneTask

    return OneTask(options)
