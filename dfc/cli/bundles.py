"""Bundles and programs as loaded modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

import dfc_runtime
from dfc.cli.values import Setting


def open_module(
    path: str, settings: Mapping[str, Setting], threads: int | None = None, *, check_finite: bool = False
) -> dfc_runtime.Module:
    """A loaded bundle; a `.dfg` file is compiled in memory first."""
    if path.endswith(".dfg") or path == "-":
        # The compiler is imported only where a program has to be compiled.
        from dfc import api
        from dfc.cli.programs import print_warnings, source_of
        from dfc.options import CompileOptions

        options = CompileOptions(settings=tuple(settings.items()), check_finite=check_finite)
        bundle = api.compile_source(source_of(path), options)
        print_warnings(bundle.diagnostics)
        return dfc_runtime.loads(bundle.to_bytes(), threads=threads)
    if settings:
        raise click.UsageError("settings are fixed in a bundle; give --set when it is compiled")
    existing(path)
    return dfc_runtime.load(path, threads=threads, check_finite=check_finite)


def existing(path: str) -> Path:
    """The path of a file that is there."""
    found = Path(path)
    if not found.exists():
        raise click.UsageError(f"there is no file {path}")
    if found.is_dir():
        raise click.UsageError(f"{path} is a folder, not a bundle")
    return found
