"""The run half by itself: what it imports, what it refuses, faults per thread."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from dfc.ir.dtypes import I32
from dfc_driver_cpu.context import ABI_VERSION, LARGE_PAGE
from dfc_driver_cpu.driver import CpuDriver, ImageMemory
from dfc_driver_cpu.runners import CLOSE_ENTRY
from tests.support.programs import Runner
from tests.targets.cpu.compile.elementwise.test_kernels import binary

ROOT = Path(__file__).parents[4]
COMPILE_HALF = ("llvmlite", "lark", "dfc", "elftools", "click", "rich")


def test_the_compile_half_is_not_imported() -> None:
    code = "import sys; import dfc_driver_cpu.driver; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    paths = f"import sys; sys.path[:0] = [{str(ROOT / 'targets')!r}, {str(ROOT / 'runtime')!r}]; "
    done = subprocess.run([sys.executable, "-c", paths + code], capture_output=True, text=True, check=True)
    assert not set(COMPILE_HALF) & set(done.stdout.split())


def load(notes: dict[str, object], **symbols: int) -> CpuDriver:
    image = Runner([]).lowered.images[0]
    return CpuDriver(
        image=image.code,
        symbols={**image.symbols, **symbols},
        notes=notes,
        constants=np.zeros(64, np.uint8),
        resources={},
        threads=1,
    )


@pytest.mark.parametrize("notes", [{"containers": 3}, {"containers": [1]}, {"spill_bytes": "x"}, {"abi": None}])
def test_damaged_notes_are_refused(notes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="damaged"):
        load(notes)


def test_code_that_shares_other_memory_is_refused() -> None:
    newer = rf"version {ABI_VERSION + 1} .* this driver of 1 to {ABI_VERSION}: install a newer dfc-driver-cpu"
    with pytest.raises(ValueError, match=newer):
        load({"abi": ABI_VERSION + 1})
    with pytest.raises(ValueError, match=rf"version 1 .* this driver of 2 to {ABI_VERSION}: compile"):
        load({"abi": 1}, **{CLOSE_ENTRY: 0})


def test_older_code_without_queues_still_runs() -> None:
    load({"abi": 1}).close()
    load({}).close()


def test_much_scratch_memory_begins_with_a_large_page() -> None:
    context, scratch = ImageMemory(np.zeros(64, np.uint8), {}, []).context(3 * LARGE_PAGE, 1, None)
    assert context.scratch == scratch.ctypes.data and context.scratch % LARGE_PAGE == 0
    assert scratch.nbytes == context.scratch_bytes == 3 * LARGE_PAGE


def test_faults_belong_to_the_thread_that_called() -> None:
    runner = Runner([binary("floordiv", I32, fault=2), binary("mod", I32, fault=3)])
    one, zero, out = np.ones(4, np.int32), np.zeros(4, np.int32), np.zeros(4, np.int32)
    assert runner.run(0, [one, zero, out], [4]) != 0
    seen: list[int] = []

    def other() -> None:
        assert runner.run(1, [one, zero, out], [4]) != 0
        seen.append(runner.drivers[1].last_fault()[0])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [3] and runner.drivers[1].last_fault()[0] == 2
