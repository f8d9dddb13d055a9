"""Values that are longer than one message of MPI can be: here of 128 KiB, where it is 1 GiB otherwise."""

from __future__ import annotations

import hashlib
from inspect import getsource

import numpy as np

from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.mpi import run_ranks

PROGRAM = """dfg 1

param table: f32[5000, 8] = uniform(-1.0, 1.0)
param v: f32[500, 300] = uniform(-0.1, 0.1)
param far: f16[400, 300] = 2
var flags: bool[300000] = true

entry train[B](x: f32[B, 500]) -> (loss: f32, y: f32[B, 300]) {
  let y = tanh(x @ v)
  let loss = mean(square(y))
  v -= 0.1 * grad(loss, v)
  return loss, y
}

entry touch[B](ids: i32[B]) -> f32 {
  let loss = mean(square(sum(table[ids], axis = 1)))
  table -= 0.1 * grad(loss, table)
  return loss
}

readonly entry fetch(scale: f16) -> (a: f16[400, 300], b: bool[300000]) {
  return far * scale, not flags
}
"""
DEPLOYMENT = """
job worker tasks 1
job ps tasks 2
place "**" on worker
place "far" on ps task 1
place "flags" on ps task 0
place "v" on ps task 0
shard "table" axis 0 over ps by modulo
"""


def digest(module):
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 500)).astype(np.float32)
    ids = random.integers(0, 5000, 50_000).astype(np.int32)
    parts = []
    for _ in range(2):
        parts += [module.train(x).y.tobytes(), module.touch(ids).tobytes()]
        parts += [each.tobytes() for each in module.fetch(0.5)]
        module.state["v"] = module.state["v"] + 1
    parts += [module.state[name].tobytes() for name in ("table", "v", "far")]
    return hashlib.sha256(b"".join(parts)).hexdigest()


RUN = """
import hashlib
import numpy as np
from mpi4py import MPI
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.mpi import MpiComm
module = load_on({path!r}, MpiComm(MPI.COMM_WORLD, piece=128 << 10))

{digest}
if module.rank:
    module.serve()
else:
    print(digest(module))
    module.close()
"""


def test_a_program_whose_values_travel_in_pieces_has_the_same_bits(tmp_path):
    data = cluster_bundle(PROGRAM, DEPLOYMENT)
    path = tmp_path / "model.bundle"
    path.write_bytes(data)
    said = run_ranks(3, RUN.format(path=str(path), digest=getsource(digest))).out[0]
    assert said == str(on_cluster(data, 3, digest)) + "\n"


def test_large_sums_in_pieces_have_the_bits_of_the_definition():
    done = run_ranks(
        2,
        """
        import numpy as np
        from mpi4py import MPI
        from dfc_runtime.distributed.transport.buffers import Pool
        from dfc_runtime.distributed.transport.mpi import MpiComm
        from dfc_runtime.distributed.reduce.operation import Group, Operation
        from dfc_runtime.distributed.reduce.reducer import Reducer
        from tests.support.combining import sequential
        from tests.support.ranks import spin

        comm = MpiComm(MPI.COMM_WORLD, piece=100_000)
        random = np.random.default_rng(0)
        for how in ("sum", "concat"):
            arrays = [random.normal(size=700_001).astype(np.float32) for _ in range(2)]
            reducer = Reducer(comm, Pool(), spin(comm))
            reducer.declare("g", Operation(2, (16, 17), 0, how), Group((0, 1), comm.rank))
            reducer.contribute("g", comm.rank, arrays[comm.rank])
            expected = sequential(arrays) if how == "sum" else np.concatenate(arrays)
            out = np.empty_like(expected)
            reducer.combined("g", out)
            reducer.finish()
            assert out.tobytes() == expected.tobytes(), how
        print("rank", comm.rank)
        """,
    )
    assert done.out == ["rank 0\n", "rank 1\n"]


def test_a_large_value_reaches_a_receiver_that_comes_late():
    done = run_ranks(
        2,
        """
        import numpy as np
        from mpi4py import MPI
        from dfc_runtime.distributed.transport.buffers import Pool
        from dfc_runtime.distributed.transport.comm import as_bytes
        from dfc_runtime.distributed.transport.mpi import MpiComm
        from dfc_runtime.distributed.transport.sending import PIECE, Sender, pieces
        from tests.support.ranks import spin

        comm = MpiComm(MPI.COMM_WORLD)
        wait = spin(comm)
        value = np.random.default_rng(0).integers(0, 255, 9 * PIECE + 5, np.uint8)
        if comm.rank == 0:
            sender = Sender(comm, Pool(), lambda condition, key, rank: wait(condition))
            given = value.copy()
            sender.send("large", given, [1], 20)
            given.fill(0)
            sender.send("small", given[:9], [1], 21)
            sender.finish()
        else:
            small, large = np.ones(9, np.uint8), np.empty_like(value)
            wait(comm.irecv(small, 0, 21).test)  # so it comes for the large one when the sender has given it up
            for piece in pieces(large):
                wait(comm.irecv(piece, 0, 20).test)
            assert not small.any() and (large == value).all()
        print("rank", comm.rank)
        """,
    )
    assert done.out == ["rank 0\n", "rank 1\n"]
