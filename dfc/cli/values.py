"""Text of the command line as values: settings and feeds."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
import numpy as np

from dfc_runtime.errors import CheckpointError, FileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Setting = int | float | bool | str
Feed: TypeAlias = "int | float | bool | str | NDArray[np.generic]"

_FULL = re.compile(r"[^\W\d][^\s=]*")
JSON_ELEMENTS = 1000
MOST_LISTED, LONGEST_NAME = 20, 80
LONGEST_SIZE = 18
"""Digits: any such number fits a word."""


def pair(text: str, what: str, *, full: bool = False) -> tuple[str, str]:
    """`NAME=VALUE` as two words; with `full` the name may be that of a value: `train/h.sum:1`."""
    name, equals, value = text.partition("=")
    if not equals or not (_FULL.fullmatch(name) if full else name.isidentifier()):
        raise click.UsageError(f"{what} {text!r} is not of the form NAME=VALUE")
    return name, value


def variants(target: str, isas: Sequence[str], archs: Sequence[str], *, is_deployed: bool = False) -> tuple[str, ...]:
    """What a target is to make code for: `--isa` names processors, `--arch` GPU architectures. A program with a
    deployment file may run on both."""
    if is_deployed and target == "cuda":
        text = "a deployment file says what runs on GPUs"
        raise click.UsageError(f'{text}, with lines such as `place "**" on worker any gpu`: leave --target out')
    if archs and target == "cpu" and not is_deployed:
        raise click.UsageError("--arch names GPU architectures: give --target cuda, too")
    if isas and target == "cuda":
        raise click.UsageError("--isa names processors: GPU architectures are given by --arch sm_80,sm_90")
    return (*isas, *(name.strip() for group in archs for name in group.split(",") if name.strip()))


def require_folder(path: str) -> None:
    """`FileError` if the folder of a file to be written is not there, the file is a folder itself, or may not be
    written: said before a long run, not after it."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {folder}", code="E0909")
    if Path(path).is_dir():
        raise FileError(f"cannot write {path}: it is a folder; name a file", code="E0909")
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise FileError(f"cannot write {path}: {os.strerror(errno.EACCES)}", code="E0909")


def require_no_file(folder: str) -> None:
    """`CheckpointError` if something else lies where state is to be saved: before ranks are started."""
    if Path(folder).exists() and not Path(folder).is_dir():
        raise CheckpointError(f"{folder} is no folder, and checkpoints lie in folders", code="E0908")


def setting(text: str) -> Setting:
    """A number, `true`, `false`, or else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def settings(pairs: tuple[str, ...]) -> dict[str, Setting]:
    """Every `--set NAME=VALUE`; the same name twice is a mistake."""
    values: dict[str, Setting] = {}
    for text in pairs:
        name, value = pair(text, "setting")
        if name in values:
            raise click.UsageError(f"the setting {name} is given twice")
        values[name] = setting(value)
    return values


def sizes(pairs: tuple[str, ...]) -> dict[str, int]:
    """Every `--size NAME=N`; the same name twice is a mistake."""
    values: dict[str, int] = {}
    for text in pairs:
        name, value = pair(text, "size")
        if name in values:
            raise click.UsageError(f"the size {name} is given twice")
        if not value.isascii() or not value.isdigit() or len(value) > LONGEST_SIZE or not int(value):
            raise click.UsageError(f"the size {text!r} is not a whole number from 1")
        values[name] = int(value)
    return values


def named(pairs: tuple[str, ...], option: str = "feed", *, full: bool = False) -> dict[str, str]:
    """Every `--feed NAME=VALUE`, or what the option is, as text; the same name twice is a mistake."""
    values: dict[str, str] = {}
    for text in pairs:
        name, value = pair(text, option, full=full)
        if name in values:
            raise click.UsageError(f"the {option} {name} is given twice")
        values[name] = value
    return values


def feeds(assignments: Mapping[str, str], texts: Container[str]) -> dict[str, Feed]:
    """Feeds as values: a number, `file.npy`, `file.npz:key`; those in `texts` stay as they are."""
    return {name: text if name in texts else _feed(name, text) for name, text in assignments.items()}


def _feed(name: str, text: str) -> Feed:
    stem, mark, key = text.partition(".npz:")  # keys may have colons, too
    if mark:
        return _from_archive(name, f"{stem}.npz", key)
    if text.endswith(".npz"):
        raise click.UsageError(f"the feed {name} names an archive without a key; write {name}={text}:KEY")
    if text.endswith(".npy"):
        return _array(name, text)
    value = setting(text)
    if isinstance(value, str):
        raise click.UsageError(f"the feed {name}: {text!r} is no number; write a number, FILE.npy or FILE.npz:KEY")
    return value


def _array(name: str, path: str) -> NDArray[np.generic]:
    from dfc.cli.array_files import read_array

    try:
        return read_array(path)
    except FileNotFoundError:
        raise _missing(name, path) from None
    except (ValueError, OSError, OverflowError) as damage:
        raise click.UsageError(f"the feed {name}: {path} is not a usable array file: {_reason(damage)}") from None


def _from_archive(name: str, path: str, key: str) -> NDArray[np.generic]:
    from dfc.cli.array_files import Archive

    try:
        with Archive(path) as archive:
            try:
                return archive.read(key)
            except KeyError:
                held = listed(archive.keys) or "nothing"
                raise click.UsageError(f"the feed {name}: {path} has no array {key!r}; it holds {held}") from None
            except (ValueError, OverflowError) as damage:
                text = f"the feed {name}: {key!r} in {path} is not a usable array: {_reason(damage)}"
                raise click.UsageError(text) from None
    except FileNotFoundError:
        raise _missing(name, path) from None
    except (ValueError, OSError, OverflowError) as damage:
        raise click.UsageError(f"the feed {name}: {path} is not a usable archive: {_reason(damage)}") from None


def _missing(name: str, path: str) -> click.UsageError:
    return click.UsageError(f"the feed {name}: there is no file {path}")


def listed(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - MOST_LISTED
    shown = ", ".join(f"{name[:LONGEST_NAME]}..." if len(name) > LONGEST_NAME else name for name in names[:MOST_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def _reason(failure: Exception) -> str:
    text = failure.strerror if isinstance(failure, OSError) else ""
    return text or (str(failure).splitlines() or [type(failure).__name__])[0]


def write_arrays(path: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Results as one file of arrays."""
    with open(path, "wb") as written:  # given a name, NumPy would add an ending to it
        np.savez(written, allow_pickle=False, **arrays)


def plain(value: object) -> object:
    """A result as JSON: all elements if there are few, else what it is. Not-a-number and infinities become text."""
    array = np.asarray(value)
    if array.size > JSON_ELEMENTS:
        return {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind not in "biu":
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            return np.array(array, dtype=str).tolist()
    return array.tolist()
