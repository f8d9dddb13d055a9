"""The run side is distributions of its own: their wheels run bundles in environments that hold no compiler."""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import dfc_runtime
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_target_cuda.target import SIMULATOR
from tests.support.empty_environment import ROOT, Environment, project_wheels

PROGRAM = """dfg 1

param w: f32[3] = 0.5

entry train[B](x: f32[B, 3], y: f32[B]) -> (loss: f32) {
  let loss = mean(square(x @ w - y))
  w -= 0.1 * grad(loss, w)
  return loss
}
"""
COMPILER = ("dfc", "dfc_target_cpu", "dfc_target_cuda", "llvmlite", "click", "rich", "lark", "safetensors")
USE = f"""
import json, sys
from importlib.util import find_spec
import numpy as np
import dfc_runtime

assert dfc_runtime.verify(sys.argv[1]).name == "model"
model = dfc_runtime.load(sys.argv[1])
feeds = np.load(sys.argv[2])
losses = [float(model.train(x=feeds["x"], y=feeds["y"]).loss) for _ in range(3)]
print(json.dumps([losses, [name for name in {COMPILER!r} if find_spec(name)], dfc_runtime.__file__]))
"""


@pytest.fixture(scope="module")
def wheels() -> dict[str, Path]:
    """The wheel of each distribution."""
    return project_wheels()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle for processors and one for GPUs, feeds, and a script that uses them."""
    folder = tmp_path_factory.mktemp("files")
    source = SourceFile("model.dfg", PROGRAM)
    compile_source(source, CompileOptions()).save(folder / "cpu.bundle")
    compile_source(source, CompileOptions("cuda", target_options=TargetOptions((SIMULATOR,)))).save(
        folder / "cuda.bundle"
    )
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(folder / "feeds.npz", x=rows, y=rows[:, 1])
    (folder / "use.py").write_text(USE)
    return folder


def expected(files: Path) -> list[float]:
    """The losses as they are in the process of the test."""
    model, feeds = dfc_runtime.load(files / "cpu.bundle"), np.load(files / "feeds.npz")
    return [float(model.train(x=feeds["x"], y=feeds["y"]).loss) for _ in range(3)]


def used(environment: Environment, files: Path) -> tuple[list[float], list[str], Path]:
    """The losses, which parts of the compiler are installed, and whose runtime it was."""
    out = environment.run("python", "-I", "use.py", "cpu.bundle", "feeds.npz", folder=files)
    losses, found, file = json.loads(out)
    return losses, found, Path(file)


def test_bundles_run_without_the_compiler_where_their_driver_is(
    wheels: dict[str, Path], files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an environment that gets one distribution after the other; what is lacking is said with its remedy."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    environment = Environment(tmp_path / "empty")
    environment.link("numpy", "ml-dtypes", "cuda-bindings")
    environment.run("pip", "install", wheels["dfc-runtime"], folder=tmp_path)
    lacking = "the bundle needs the driver cpu; installed: {}: pip install dfc-driver-cpu"
    assert failures(environment, files, "cpu") == [["E0907", lacking.format("none")]]
    environment.run("pip", "install", wheels["dfc-driver-cuda"], folder=tmp_path)
    [without, (code, message)] = failures(environment, files, "cpu", "cuda")
    assert without == ["E0907", lacking.format("cuda")]
    assert code in ("E0921", "E0922")
    assert "driver" in message or "GPU" in message
    environment.run("pip", "install", wheels["dfc-driver-cpu"], folder=tmp_path)
    losses, found, file = used(environment, files)
    assert losses == expected(files)
    assert found == []
    assert file.is_relative_to(environment.packages)


def failures(environment: Environment, files: Path, *bundles: str) -> list[list[str]]:
    """The messages with which loading these ends."""
    script = (
        "import json, sys, dfc_runtime\n"
        "told = []\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n        dfc_runtime.load(f'{name}.bundle')\n"
        "    except dfc_runtime.DfcError as error:\n        told.append([error.code, error.message])\n"
        "print(json.dumps(told))\n"
    )
    return json.loads(environment.run("python", "-Ic", script, *bundles, folder=files))


@pytest.mark.slow
@pytest.mark.timeout(600)  # two builds by pip
def test_the_compiler_and_the_run_side_share_an_environment(
    wheels: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    """The compiler behind the run side, which its wheel requires from the checkout: one copy of each package, and each
    can go without the other."""
    environment = Environment(tmp_path / "empty")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["requires"]
    environment.link("hatchling", *(Requirement(each).name for each in needed))
    environment.run("pip", "install", wheels["dfc-runtime"], wheels["dfc-driver-cpu"], folder=tmp_path)
    environment.run("pip", "install", wheels["dfc"], folder=tmp_path)
    (files / "again.dfg").write_text(PROGRAM)
    environment.run("dfc", "compile", "again.dfg", "-o", "again.bundle", folder=files)
    assert "gpu" not in environment.run("dfc", "ops", folder=files).splitlines()[-1]
    assert used(environment, files)[0] == expected(files)
    environment.run("pip", "uninstall", "-y", "dfc", folder=ROOT)
    losses, found, _ = used(environment, files)
    assert losses == expected(files)
    assert not {"dfc", "dfc_target_cpu", "dfc_target_cuda"} & set(found)


def test_no_two_distributions_own_a_file(wheels: dict[str, Path]) -> None:
    owners: dict[str, str] = {}
    for name, wheel in wheels.items():
        packages = {member for member in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in member}
        assert packages
        for member in packages:
            assert member not in owners, f"{member} is in {owners[member]} and in {name}"
            owners[member] = name
    assert {member.split("/")[0] for member in owners} == {
        "dfc",
        "dfc_runtime",
        "dfc_driver_cpu",
        "dfc_driver_cuda",
        "dfc_target_cpu",
        "dfc_target_cuda",
    }
    assert {"dfc/grammar/dfg.lark", "dfc/zoo/layers.dfg"} <= set(owners)
