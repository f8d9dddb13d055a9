"""Entry points beside what `importlib.metadata` finds of them, in folders that tests put on the path."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from dfc.deferred.plug_ins import EntryPoint, entry_points

GROUP = "dfc.examples"
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1\n"
POINTS = f"[{GROUP}]\nfirst = some.module\n"


def install(folder: Path, name: str, points: str | None) -> None:
    package = folder / f"{name}-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(METADATA.format(name))
    if points is not None:
        (package / "entry_points.txt").write_text(points)


def as_metadata_says() -> tuple[EntryPoint, ...]:
    return tuple(EntryPoint(each.name, each.value, each.group) for each in metadata.entry_points(group=GROUP))


def test_a_group_that_a_package_names_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "without", None)
    install(tmp_path, "other", "[console_scripts]\nfirst = some.module\n")
    assert tuple(entry_points(GROUP)) == ()
    install(tmp_path, "plugged", POINTS)
    assert tuple(entry_points(GROUP)) == as_metadata_says() != ()


def test_of_packages_of_one_name_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(("My.Package", "my_package")):
        monkeypatch.syspath_prepend(str(tmp_path / str(number)))
        install(
            tmp_path / str(number), name, f"# {number}\n[x]\na = b\n[{GROUP}]\n a = here{number} : b.c [more]\nd=e\n"
        )
    assert tuple(entry_points(GROUP)) == as_metadata_says() != ()
    assert [each.value for each in entry_points(GROUP)] == ["here1 : b.c [more]", "e"]


@pytest.mark.parametrize("value", ["json", "json:dumps", "json.decoder : JSONDecoder.decode [extra]"])
def test_an_entry_point_loads_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "plugged", f"[{GROUP}]\nfirst = {value}\n")
    (point,) = entry_points(GROUP)
    assert point.load() is metadata.EntryPoint("first", value, GROUP).load()
    assert point.dist.name == "plugged"


def test_a_package_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("packed-1.dist-info/METADATA", METADATA.format("packed"))
        written.writestr("packed-1.dist-info/entry_points.txt", POINTS)
    monkeypatch.syspath_prepend(str(archive))
    assert tuple(entry_points(GROUP)) == as_metadata_says() != ()


def test_finders_of_other_packages_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_distributions(context: object = None) -> list[metadata.Distribution]:
            return [Found()]

    class Found(metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return {"entry_points.txt": POINTS, "METADATA": METADATA.format("found")}.get(filename)

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert tuple(entry_points(GROUP)) == as_metadata_says() != ()


def test_metadata_is_not_imported_where_packages_are_files() -> None:
    script = (
        "import sys; sys.modules.pop('importlib.metadata', None)\n"
        "from dfc.deferred.plug_ins import entry_points\n"
        "print(entry_points('dfc.no_such_group'), [each.name for each in entry_points('dfc.targets')])\n"
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "() ['cpu', 'cuda']\nFalse\n"
