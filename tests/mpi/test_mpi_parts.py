"""Parts of entries on ranks of MPI: compiled by rank 0 or ahead, the same bits on any number of ranks."""

from __future__ import annotations

from pathlib import Path

from tests.mpi.test_mpi_programs import PLACED, PROGRAM, REPLICATED, START
from tests.support.clusters import cluster_bundle
from tests.support.mpi import run_ranks
from tests.support.sweeping import few

VALUES = """
def values(module):
    parts = [*module.run(["train/p", "train/loss", "train/gw"], {"x": x, "y": y})]
    parts.append(module.run("train/loss", {"train/p": parts[0], "y": y}))
    assert parts[3].tobytes() == parts[1].tobytes(), parts[1::2]
    whole = module.train(x, y)
    assert whole.loss.tobytes() == parts[1].tobytes() and whole.p.tobytes() == parts[0].tobytes()
    parts.append(module.run("train/loss", {"x": x, "y": y}))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

"""
STEPS = """
step "train/p", "train/loss", "train/gw" from "x", "y"
step "train/loss" from "train/p", "y"
step "train/loss" from "x", "y"
"""
WITHOUT = """
import dfc_runtime.calls.compiling.partial
dfc_runtime.calls.compiling.partial.COMPILER = "dfc.no_such_module"
"""


def saved(folder: Path, deployment: str) -> Path:
    path = folder / "model.bundle"
    path.write_bytes(cluster_bundle(PROGRAM, deployment))
    return path


def test_parts_have_the_same_bits_on_any_number_of_ranks(tmp_path):
    text = """
module = load_on({path!r}, MPI.COMM_WORLD, jobs={{"worker": MPI.COMM_WORLD.size}}, seconds=120)
if module.rank:
    module.serve()
else:
    print(values(module))
    module.close()
"""
    compiled = START + VALUES + text.format(path=str(saved(tmp_path, REPLICATED)))
    said = [run_ranks(count, compiled).out[0] for count in few((3, 1), 1)]
    ahead = START + WITHOUT + VALUES + text.format(path=str(saved(tmp_path, REPLICATED + STEPS)))
    said.append(run_ranks(2, ahead).out[0])
    assert len(said[0]) == 65
    assert len(set(said)) == 1 < len(said)


def test_ranks_that_call_along_get_the_values_of_parts(tmp_path):
    text = f"""
module = load_on({str(saved(tmp_path, PLACED + STEPS))!r}, MPI.COMM_WORLD)
print(values(module))
module.close()
"""
    first, second = run_ranks(2, START + WITHOUT + VALUES + text).out
    assert len(first) == 65
    assert first == second
