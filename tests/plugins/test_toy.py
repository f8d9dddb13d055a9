"""An op, a pass and a target from another package work like those of the set: nothing in dfc names them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import fork

ROOT = Path(__file__).resolve().parents[2]
TOY = Path(__file__).resolve().parent / "toy"
PROGRAM = """dfg 1

readonly entry f[N](x: f64[N]) -> (y: f64[N], slope: f64[N], half: f64[N]) {
  let y = softplus(x)
  return y, grad(sum(y), x), x / 2
}
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Ask = Callable[[Sequence[str], Path], Ended]
Dfc = Callable[..., Ended]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """A process with the package on its path, which has imported what commands need."""
    paths = os.pathsep.join([str(TOY), *(str(ROOT / p) for p in (".", "runtime", "targets"))])
    command = [sys.executable, "-m", "tests.plugins.toy_process"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def ask(words: Sequence[str], folder: Path) -> Ended:
            print(json.dumps([words, str(folder)]), file=requests, flush=True)
            return Ended(*json.loads(answers.readline()))

        yield ask
        requests.close()


@pytest.fixture
def dfc(ask: Ask, folder: Path) -> Dfc:
    """The command where the package is installed."""
    return lambda *words: ask(words, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy.dfg").write_text(PROGRAM)
    return tmp_path


def test_the_op_is_listed(dfc: Dfc, folder: Path) -> None:
    assert "log(1 + exp(x))" in dfc("ops", "softplus").stdout


def test_the_op_is_compiled_and_has_its_gradient(dfc: Dfc, folder: Path) -> None:
    x = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    np.save(folder / "x.npy", x)
    done = dfc("run", "toy.dfg", "f", "--feed", "x=x.npy", "--out", "out.npz")
    assert done.returncode == 0, done.stderr
    results = np.load(folder / "out.npz")
    np.testing.assert_allclose(results["y"], np.logaddexp(x, 0), rtol=1e-14)
    np.testing.assert_allclose(results["slope"], 0.5 * (1 + np.tanh(x / 2)), rtol=1e-13, atol=1e-300)
    assert results["half"].tolist() == (x / 2).tolist()


@pytest.fixture(scope="module")
def faults(ask: Ask, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is wrong with each claim of `toy_rules` and `toy_kernels`."""
    found = ask((), tmp_path_factory.mktemp("claims"))
    assert found.returncode == 0
    return json.loads(found.stdout)


@pytest.mark.parametrize("claim", ["replicated", "judged", "sharded", "sparse", "placed", "scanned"])
def test_an_op_with_rules_of_its_own_is_known_to_every_pass(claim: str, faults: dict[str, str]) -> None:
    assert faults[claim] == ""


@pytest.mark.parametrize("claim", ["moved", "picked", "generated", "multiplied", "looped", "divided"])
def test_an_op_of_any_form_becomes_the_kernels_of_that_form(claim: str, faults: dict[str, str]) -> None:
    assert faults[claim] == ""


def test_the_pass_runs_where_it_asks_to(dfc: Dfc, folder: Path) -> None:
    before = dfc("show", "toy.dfg", "--after", "autodiff")
    after = dfc("show", "toy.dfg", "--after", "halve")
    assert " / " in before.stdout
    assert after.returncode == 0 and " / " not in after.stdout, after.stderr


def test_the_target_makes_bundles_that_its_driver_runs(dfc: Dfc, folder: Path) -> None:
    made = dfc("compile", "toy.dfg", "-o", "toy.bundle", "--target", "portable")
    assert made.returncode == 0, made.stderr
    assert "x86-64-v2" in dfc("inspect", "toy.bundle").stdout
    run = (
        "import sys, numpy as np, dfc_runtime; m = dfc_runtime.load('toy.bundle');"
        "print(m.f(np.zeros(1)).y[0], 'llvmlite' in sys.modules, 'dfc' in sys.modules)"
    )
    paths = os.pathsep.join([str(TOY), str(ROOT / "runtime"), str(ROOT / "targets")])
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, cwd=folder, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.stdout.startswith("0.693147180559945") and done.stdout.endswith("False False\n"), done.stderr


def test_without_the_package_its_op_is_unknown(folder: Path) -> None:
    done = fork("check", "toy.dfg", folder=folder)
    assert done.code == 2
    assert "E0201" in done.err and "softplus" in done.err


def test_the_guide_shows_the_very_files_of_the_package() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"<!-- (tests/plugins/toy/\S+) -->\n```python\n(.*?)```", guide, re.DOTALL)
    assert {path for path, _ in shown} == {f"tests/plugins/toy/{p.name}" for p in TOY.glob("*.py")}
    for path, text in shown:
        assert (ROOT / path).read_text() == text, path
