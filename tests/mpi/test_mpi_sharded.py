"""Tables in rows over real ranks: the same bits as on ranks that are threads."""

from __future__ import annotations

import hashlib
from inspect import getsource

import numpy as np

from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.mpi import ROOT, run_ranks
from tests.support.sweeping import few


def digest(module):
    random = np.random.default_rng(0)
    parts = []
    for _ in range(3):
        center = random.integers(0, 2000, 1000).astype(np.int32)
        parts.append(module.train(center, center ^ 1, 0.5).loss.tobytes())
    parts += [module.state[name].tobytes() for name in ("table", "output", "bias")]
    parts.append(module.neighbours(word=3, K=4).words.tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()


RUN = """
import hashlib
import numpy as np
from mpi4py import MPI
from dfc_runtime.distributed.loading import load_on
module = load_on({path!r}, MPI.COMM_WORLD)

{digest}
if module.rank:
    module.serve()
else:
    print(digest(module))
    module.close()
"""


def test_a_sharded_program_has_the_bits_of_threads_on_three_ranks(tmp_path):
    said = []
    names = few(("skipgram_two_workers.deploy", "skipgram.deploy"), 1)
    for name in names:
        places = (ROOT / "samples" / name).read_text().split("\n", 1)[1]
        data = cluster_bundle((ROOT / "samples" / "skipgram.dfg").read_text(), places)
        path = tmp_path / f"{name}.bundle"
        path.write_bytes(data)
        said += run_ranks(3, RUN.format(path=str(path), digest=getsource(digest))).out[:1]
    assert said == [on_cluster(data, 3, digest) + "\n"] * len(names)


TABLE = """dfg 1
param table: f32[30_000, 17] = normal(0, 0.5)
var speed: f32[30_000, 17] = 0

entry train[B](ids: i32[B], rate: f32) -> (loss: f32, table: f32[30_000, 17], norms: f32[30_000]) {
  let loss = mean(square(sum(table[ids], axis = 1))) + 0.01 * mean(square(table))
  let d = grad(loss, table)
  speed := 0.9 * speed + d / maximum(norm(d), 1.0)
  let t = loop t: f32[30_000, 17] = table for k in 0..3 { t = t - rate * speed }
  table := t
  return loss, table, norm(t, axis = 1)
}
"""
PLACES = """
job worker tasks 1
job ps tasks 2
shard "table" axis 0 over ps by hash
shard "speed" axis 0 over ps by hash
place "**" on worker
"""


def whole_tables(module):
    random = np.random.default_rng(3)
    parts = []
    for _ in range(4):
        made = module.train(random.integers(0, 30_000, 64).astype(np.int32), 0.5)
        assert np.array_equal(made.table, module.state["table"])
        parts += [each.tobytes() for each in made]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_a_table_that_is_returned_has_the_bits_of_threads_on_three_ranks(tmp_path):
    """Its rows are long messages behind the answers."""
    data = cluster_bundle(TABLE, PLACES)
    path = tmp_path / "table.bundle"
    path.write_bytes(data)
    code = getsource(whole_tables) + "\ndigest = whole_tables"
    said = run_ranks(3, RUN.format(path=str(path), digest=code)).out[0]
    assert said == on_cluster(data, 3, whole_tables) + "\n"
