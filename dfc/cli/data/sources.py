"""Which way a source is read: by the ending of its name, or as it is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import click

from dfc.cli.data.archives import from_samples
from dfc.cli.data.arrays import from_archives, from_arrays
from dfc.cli.data.columns import from_arrow, from_parquet
from dfc.cli.data.examples import Examples, unusable
from dfc.cli.data.images import from_images
from dfc.cli.data.tables import from_tables
from dfc.cli.data.texts import from_texts
from dfc.cli.values import listed
from dfc_runtime.errors import FileError
from dfc_runtime.terminal import in_one_line

READERS: dict[str, Callable[[Sequence[str]], Examples]] = {
    "npz": from_archives,
    "npy": from_arrays,
    "csv": from_tables,
    "txt": from_texts,
    "tar": from_samples,
    "parquet": from_parquet,
    "arrow": from_arrow,
    "images": from_images,
}
ENDINGS = {"feather": "arrow", "arrows": "arrow"}
"""Other endings of names that say how a file is read."""


def examples_of(paths: Sequence[str], kind: str | None, features: Mapping[str, str]) -> Examples:
    """The examples of files or folders of one kind; `UsageError` where that is not said and cannot be seen. `features`
    are those that there are to be, by what they are called in the source; none of it, all as they are called there."""
    for path in paths:
        if not os.path.exists(path):
            raise FileError(f"cannot read {in_one_line(path)}: there is no such file", code="E0909")
    kinds = sorted({kind or _kind(path) for path in paths})
    if len(kinds) > 1:
        raise click.UsageError(f"sources of different kinds, {', '.join(kinds)}: make a file of each")
    if kinds[0] == "npz":
        return _chosen(from_archives(paths, tuple(features.values())), paths[0], features)
    return _chosen(READERS[kinds[0]](paths), paths[0], features)


def _chosen(examples: Examples, path: str, features: Mapping[str, str]) -> Examples:
    """Examples with these features alone, by their new names."""
    for example in examples:
        missing = next((old for old in features.values() if old not in example), None)
        if missing is not None:
            raise unusable(path, f"it has no feature {missing!r}; it has {listed(sorted(example))}")
        yield {new: example[old] for new, old in features.items()} if features else example


def _kind(path: str) -> str:
    if os.path.isdir(path):
        return "images"
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    ending = ENDINGS.get(ending, ending)
    if ending not in READERS:
        known = ", ".join(READERS)
        raise click.UsageError(f"{in_one_line(path)}: its name does not say how to read it; add --as, one of {known}")
    return ending
