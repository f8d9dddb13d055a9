"""The table is open: an op from another package works like one of the set; a broken package costs only its own ops."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from dfc.ops import registry, table
from dfc.ops.binding import call
from dfc.ops.documentation import documents
from tests.support.ops import Scratch, backward

PLUG_IN = """
import numpy as np
from dfc.ops.elementwise.unary import unary

unary("softplus", "float", "log(1 + exp(x)).", lambda x: np.logaddexp(x, 0), lambda b, x, _y, dy: b.apply(
    "mul", dy, b.apply("sigmoid", x)), emit=lambda body, x: body.apply("log1p", body.apply("exp", x)))
"""


@pytest.fixture
def fresh_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A table that is loaded again, with plug-ins from a folder of this test."""
    registry.load_all()
    records = dict(table.RECORDS)
    monkeypatch.setattr(table, "_begun", False)
    monkeypatch.setattr(table, "_loaded", False)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    table.RECORDS.clear()  # the registry holds this very table
    table.RECORDS.update(records)


def _offer(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    points = [EntryPoint(name=m, value=m, group=table.PLUG_INS) for m in modules]
    monkeypatch.setattr(table, "entry_points", lambda group: points if group == table.PLUG_INS else [])


def test_an_op_from_another_package(fresh_table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh_table / "softplus_op.py").write_text(PLUG_IN)
    _offer(monkeypatch, "softplus_op")
    record = registry.record("softplus")
    scratch = Scratch()
    x = scratch.feed(np.array([0.0, 1.0, -3.0]))
    y = call(scratch.builder, record, [x], {})
    slope = backward(scratch.builder, scratch.builder.sum(y, (0,)), x)
    assert slope is not None
    got, its_slope = scratch.run([y, slope])
    np.testing.assert_allclose(got, np.log1p(np.exp([0.0, 1.0, -3.0])))
    np.testing.assert_allclose(its_slope, 1 / (1 + np.exp([0.0, -1.0, 3.0])))
    assert "softplus" in [row.name for row in documents()]


def test_a_broken_package_is_named_and_the_rest_works(fresh_table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh_table / "broken_op.py").write_text("raise ImportError('no such library')")
    _offer(monkeypatch, "broken_op")
    with pytest.warns(RuntimeWarning, match=r"broken_op.*no such library"):
        assert registry.find("softplus") is None
    assert registry.record("exp").name == "exp"


def test_a_name_is_given_once(fresh_table: Path) -> None:
    with pytest.raises(ValueError, match="'exp' is registered twice"):
        registry.register(registry.record("exp"))


def test_unknown_names(fresh_table: Path) -> None:
    assert registry.find("no_such_op") is None
    with pytest.raises(KeyError):
        registry.record("no_such_op")


RACE = """
import sys, threading
sys.setswitchinterval(1e-6)
from dfc.ops import registry
start, failed = threading.Barrier(6), []

def ask(name):
    start.wait()
    try:
        registry.record(name)
    except KeyError as problem:
        failed.append(problem)

names = ("constant", "add", "greater", "matmul", "for", "debug_print")
threads = [threading.Thread(target=ask, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_threads_that_ask_first_all_find_their_op() -> None:
    ended = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
