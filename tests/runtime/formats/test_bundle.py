from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import dfc_runtime
from dfc_runtime import observation
from dfc_runtime.errors import BundleError, FileError
from dfc_runtime.formats import manifest_reading, manifest_writing, strict_json
from tests.support.bundles import sealed, with_manifest
from tests.support.natives import program


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = program().manifest()
    data = strict_json.parse(strict_json.dump(manifest_writing.to_json(manifest)))
    assert manifest_reading.from_json(data) == manifest


def test_the_tools_that_made_the_code_are_named_if_they_are_known() -> None:
    manifest = replace(program().manifest(), compilers={"LLVM": "20.1.8", "llvmlite": "0.50.0"})
    data = manifest_writing.to_json(manifest)
    assert manifest_reading.from_json(strict_json.parse(strict_json.dump(data))) == manifest
    assert "compilers" not in manifest_writing.to_json(program().manifest())
    with pytest.raises(ValueError, match="compilers"):
        manifest_reading.from_json({**data, "compilers": {"LLVM": 20}})


def test_equal_programs_have_equal_bytes() -> None:
    assert program().to_bytes() == program().to_bytes()


def test_hashes_are_checked_before_the_schema_and_code_is_mapped_last(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(observation, "listeners", [events.append])
    dfc_runtime.loads(program().to_bytes())
    order = ["lengths", "hash code/fake", "hash constants", "hash source", "schema", "processor", "map code/fake"]
    assert events == order


def test_code_with_a_wrong_hash_is_never_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(observation, "listeners", [events.append])
    data = bytearray(program().to_bytes())
    place = data.index(bytes(range(64)))
    data[place] ^= 1
    with pytest.raises(BundleError, match="code/fake does not have its hash"):
        dfc_runtime.loads(bytes(data))
    assert events == ["lengths"]


def test_inspection_tells_what_is_inside(tmp_path: Path) -> None:
    path = tmp_path / "model.bundle"
    path.write_bytes(program().to_bytes())
    found = dfc_runtime.inspect(path)
    assert found.file_size == path.stat().st_size
    assert [t.name for t in found.tensors] == ["code/fake", "constants", "source"]
    assert found.source.startswith("entry add")
    assert (found.parameters, found.state_size) == (6 + 1 + 4, 24 + 8 + 16)
    assert str(found.manifest.entries[1]) == "entry add(x: f32, y: f32) -> f32"
    assert str(found.manifest.entries[2].arena) == "B * 4 * 4"
    assert dfc_runtime.verify(path) == found.manifest


FORBIDDEN = """
import sys
events = []
def hook(event, arguments):
    if event.startswith(("ctypes", "subprocess", "socket", "os.exec", "os.fork", "os.spawn", "pickle", "mmap")):
        events.append(event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        events.append(event)
    if event in ("exec", "compile") and armed:
        events.append(event)
armed = False
import dfc_runtime.inspection, encodings.idna
from dfc_runtime.formats import manifest_reading
sys.addaudithook(hook)
armed = True
try:
    dfc_runtime.inspection.inspect(sys.argv[1])
    dfc_runtime.inspection.verify(sys.argv[1])
except dfc_runtime.errors.BundleError:
    pass
assert not events, events
assert "numpy" not in sys.modules
"""


@pytest.mark.parametrize("damage", [False, True])
def test_looking_at_a_bundle_executes_and_writes_nothing(tmp_path: Path, damage: bool) -> None:
    path = tmp_path / "model.bundle"
    path.write_bytes(program().to_bytes()[: -1 if damage else None])
    script = FORBIDDEN.replace("import dfc_runtime.inspection", "import dfc_runtime.errors, dfc_runtime.inspection")
    environment = {**os.environ, "PYTHONPATH": str(Path(dfc_runtime.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", script, path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(format=1), "its format is 1, this version of dfc reads 2"),
        (lambda m: m.pop("faults"), "manifest lacks faults"),
        (lambda m: m.update(more=1), "unknown key more"),
        (lambda m: m["tensors"].pop("source"), "not those the manifest lists"),
        (lambda m: m["tensors"].update(source="0" * 64), "source does not have its hash"),
        (lambda m: m["entries"][0].update(name="add"), "entries has add twice"),
        (lambda m: m["entries"][0].update(reads=["v"]), "uses state v"),
        (lambda m: m["images"][0]["symbols"].pop("entry_0_0"), "image fake lacks entry init"),
        (lambda m: m["entries"][2].update(dims=[]), "uses the dim B"),
        (lambda m: m["entries"][2]["parameters"][0].update(type="f33"), "unknown element type f33"),
        (lambda m: m["entries"][2]["parameters"][0].update(shape=[["$B", "+"]]), "not a formula"),
        (lambda m: m["entries"][2]["parameters"][0].update(shape=[-1.5]), "not a list"),
        (lambda m: m["sites"][0]["attributes"].update(path=3), "checkpoint_save in entry save has no path"),
        (lambda m: m["sites"][1]["attributes"].pop("path"), "checkpoint_restore in entry restore has no path"),
        (lambda m: m["sites"][0].update(entry="add"), "checkpoint_save in entry add has no path"),
        (lambda m: m["sites"][0]["attributes"].update(resources=["rm"]), "entry save is of unknown state"),
        (lambda m: m["sites"][0]["attributes"].update(resources="w"), "entry save is of unknown state"),
        (lambda m: m["entries"][6].update(steps=[{"native": 0}, {"host": "checkpoint_save"}]), "an earlier version"),
        (lambda m: m["state"][0].update(shape=[2**40, 2**40]), "too large"),
        (lambda m: m["state"][0].update(shape=[-1]), "not a whole number"),
        (lambda m: m["images"][0]["symbols"].update(entry_0_0=64), "lies outside the code"),
        (lambda m: m.update(constant_offsets=[99]), "lies outside the constants"),
        (lambda m: m["images"][0].update(isa="other"), "are missing"),
        (lambda m: m["images"][0]["symbols"].update(entry_0_0=8), "not the one that code/fake was compiled with"),
        (lambda m: m["entries"][2].update(arena=0), "not the one that code/fake was compiled with"),
        (lambda m: m.update(name="x\ny"), None),
        ("[]", "manifest is not an object"),
        ('{"format":1,"format":1}', "key twice"),
        ("[" * 10**6, "nested too deeply|no valid JSON"),
        ('{"format":1e400}', "too large"),
    ],
)
def test_a_manifest_that_is_not_right_is_refused_though_its_hash_is(change: object, words: str | None) -> None:
    data = with_manifest(program().to_bytes(), change)
    if words is None:
        dfc_runtime.verify(sealed(data))
        return
    with pytest.raises(BundleError, match=words) as caught:
        dfc_runtime.verify(data)
    assert caught.value.exit_code == 4
    assert "\n" not in caught.value.message and len(caught.value.message) <= 200


def test_messages_stay_short_and_printable(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 50)
    path.write_bytes(with_manifest(program().to_bytes(), lambda m: m.update({"\x1b[31m\n" * 99: 1})))
    with pytest.raises(BundleError) as caught:
        dfc_runtime.load(path)
    assert len(caught.value.message) <= 200
    assert caught.value.message.isprintable()


def test_files_that_cannot_be_read_are_file_errors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "absent", "No such file"), (tmp_path, "not a regular file"),
                        (tmp_path / "pipe", "not a regular file"), ("a\0b", "null")):  # fmt: skip
        with pytest.raises(FileError, match=words):
            dfc_runtime.load(path)


def test_a_program_in_place_of_its_bundle_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # messages cut long paths short
    Path("line.dfg").write_text("dfg 1\n\nparam w: f32 = 1\n")
    with pytest.raises(BundleError, match=r"line\.dfg is not a usable bundle: it is a program, of which `dfc compile`"):
        dfc_runtime.load("line.dfg")


def test_a_safetensors_file_of_somebody_else_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="without the mark of a bundle"):
        dfc_runtime.loads((2).to_bytes(8, "little") + b"{}")
