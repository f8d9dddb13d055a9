"""A disk that remembers what was done to it, and what a loss of power might leave at any moment.

POSIX promises little: bytes of a file are on the disk after `sync` of the file, names in a folder after `sync_folder`
of the folder; whatever was done since may be there, not be there, or be there in part, and in any order. `states`
enumerates such outcomes after every prefix of what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dfc_runtime.checkpoints.files import Disk

Data = Callable[["File"], bytes]


@dataclass(eq=False)
class File:
    """`safe` is what is on the disk for sure."""

    data: bytes = b""
    safe: bytes = b""


@dataclass(eq=False)
class Folder:
    """`safe` are the names on the disk for sure; `changes` what was done to them since, in order."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    safe: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[tuple[str, File | Folder | None]] = field(default_factory=list)

    def put(self, name: str, item: File | Folder | None) -> None:
        self.changes.append((name, item))
        _apply(self.names, name, item)


def _apply(names: dict[str, File | Folder], name: str, item: File | Folder | None) -> None:
    if item is None:
        names.pop(name, None)
    else:
        names[name] = item


class Recorder(Disk):
    """A real disk below `root` that writes down each change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[tuple[object, ...]] = []
        self._files: dict[int, int] = {}
        self._folders: dict[int, Path] = {}

    def _path(self, path: Path) -> tuple[str, ...]:
        return path.relative_to(self.root).parts

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self.log.append(("make_folder", self._path(path)))

    def create(self, path: Path) -> int:
        file = super().create(path)
        self._files[file] = len(self.log)
        self.log.append(("create", self._path(path), len(self.log)))
        return file

    def write(self, file: int, piece: bytes | memoryview) -> None:
        super().write(file, piece)
        self.log.append(("write", self._files[file], bytes(piece)))

    def sync(self, file: int) -> None:
        super().sync(file)
        self.log.append(("sync", self._files[file]))

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.log.append(("sync_folder", self._path(path)))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.log.append(("rename", self._path(old), self._path(new)))

    def open_folder(self, path: Path) -> int:
        folder = super().open_folder(path)
        self._folders[folder] = path
        return folder

    def open_inside(self, folder: int, name: str) -> int:
        inner = super().open_inside(folder, name)
        self._folders[inner] = self._folders[folder] / name
        return inner

    def rename_inside(self, folder: int, old: str, new: str) -> None:
        super().rename_inside(folder, old, new)
        path = self._folders[folder]
        self.log.append(("rename", self._path(path / old), self._path(path / new)))

    def remove(self, folder: int, name: str) -> None:
        super().remove(folder, name)
        self.log.append(("remove", self._path(self._folders[folder] / name)))

    def remove_folder(self, folder: int, name: str) -> None:
        super().remove_folder(folder, name)
        self.log.append(("remove", self._path(self._folders[folder] / name)))

    def reported(self, what: object) -> None:
        """Notes that whoever uses the disk was told that something is safe."""
        self.log.append(("reported", what))


class Model:
    """What is on the disk, and what will be there if nothing goes wrong."""

    def __init__(self) -> None:
        self.root = Folder()
        self._files: dict[object, File] = {}

    def _folder(self, parts: tuple[str, ...]) -> Folder:
        current = self.root
        for part in parts:
            item = current.names[part]
            assert isinstance(item, Folder)
            current = item
        return current

    def _put(self, parts: tuple[str, ...], item: File | Folder | None) -> None:
        self._folder(parts[:-1]).put(parts[-1], item)

    def apply(self, entry: tuple[object, ...]) -> None:
        match entry:
            case ("make_folder", tuple() as path):
                self._put(path, Folder())
            case ("create", tuple() as path, file):
                self._put(path, self._files.setdefault(file, File()))
            case ("write", file, bytes() as data):
                self._files[file].data += data
            case ("sync", file):
                self._files[file].safe = self._files[file].data
            case ("sync_folder", tuple() as path):
                folder = self._folder(path)
                folder.safe = dict(folder.names)
                folder.changes.clear()
            case ("rename", tuple() as old, tuple() as new):
                item = self._folder(old[:-1]).names[old[-1]]
                self._put(old, None)
                self._put(new, item)
            case ("remove", tuple() as path):
                self._put(path, None)
            case _:
                assert entry[0] == "reported", entry

    def tree(self, data: Data, names: Callable[[Folder], dict[str, File | Folder]]) -> Tree:
        """One outcome: what each path is."""
        tree: dict[tuple[str, ...], bytes | None] = {(): None}
        pending: list[tuple[Folder, tuple[str, ...]]] = [(self.root, ())]
        while pending:
            folder, path = pending.pop()
            for name, item in names(folder).items():
                inner = (*path, name)
                if isinstance(item, Folder):
                    pending.append((item, inner))
                tree[inner] = None if isinstance(item, Folder) else data(item)
        return frozenset(tree.items())


Tree = frozenset[tuple[tuple[str, ...], bytes | None]]
"""Paths below a root, and the bytes of those that are files."""


def _write(tree: Tree, target: Path) -> None:
    """Makes real files of it."""
    for parts, content in sorted(tree):  # folders before what they hold
        path = target.joinpath(*parts)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)


def _half(file: File) -> bytes:
    return file.data[: (len(file.safe) + len(file.data)) // 2]


DATA: dict[str, Data] = {
    "kept": lambda file: file.data,
    "dropped": lambda file: file.safe,
    "cut": _half,
    "zeroed": lambda file: file.safe + bytes(len(file.data) - len(file.safe)),
}


def _some(random: Random) -> Callable[[Folder], dict[str, File | Folder]]:
    """Any part of the changes since the folder was safe."""

    def names(folder: Folder) -> dict[str, File | Folder]:
        current = dict(folder.safe)
        for name, item in folder.changes:
            if random.random() < 0.5:
                _apply(current, name, item)
        return current

    return names


@dataclass(frozen=True)
class Outcome:
    """What a loss of power left in `path`; `reported` is all that was told to be safe before it."""

    path: Path
    reported: tuple[object, ...]
    what: str


def states(log: list[tuple[object, ...]], target: Path, seed: int = 0) -> Iterator[Outcome]:
    """Outcomes after every prefix of a log, in folders below `target`; one that came before, with as much reported,
    does not come again."""
    model, reported = Model(), []
    random = Random(seed)
    seen: set[tuple[Tree, int]] = set()
    for count in range(len(log) + 1):
        if count:
            model.apply(log[count - 1])
            if log[count - 1][0] == "reported":
                reported.append(log[count - 1][1])
        for data_name, data in DATA.items():
            for names_name, names in {
                "kept": lambda folder: folder.names,
                "undone": lambda folder: folder.safe,
                "some": _some(random),
            }.items():
                tree = model.tree(data, names)
                if (tree, len(reported)) in seen:
                    continue
                seen.add((tree, len(reported)))
                path = target / f"{count}-{data_name}-{names_name}"
                _write(tree, path)
                what = f"{count} of {len(log)}, data {data_name}, names {names_name}"
                yield Outcome(path, tuple(reported), what)
