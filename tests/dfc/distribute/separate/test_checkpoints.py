"""What programs with copies of variables save and restore goes on as if it had never stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.clusters import cluster_bundle, on_cluster

PROGRAM = """
dfg 1
param w: f64[2] = 1
var steps: i64 = 0
entry train[B](x: f64[B, 2]) {
  steps += 1
  w -= 0.125 * grad(mean(square(x * w)), w)
}
entry save(path: string) { checkpoint.save(path, program) }
entry restore(path: string) { checkpoint.restore(path, program) }
entry save_count(path: string) { checkpoint.save(path, steps) }
"""
JOBS = 'job ps tasks 1\njob worker tasks 2\nplace "**" on worker\nplace "w" on ps\nplace "steps" on ps\n'


@pytest.mark.parametrize(("mode", "copy"), [("staged", "staged[w]"), ("mirrored", "copy[w]")])
def test_copies_are_saved_and_restored_with_their_variables(mode: str, copy: str, tmp_path: Path) -> None:
    line = f'replicate train over worker with mode = "{mode}", split = "B", blocks = 4\n'
    x, y = np.arange(16.0).reshape(8, 2) / 8, np.ones((8, 2))

    def train(module: object) -> None:
        module.train(x)
        module.train(y)
        module.save(str(tmp_path / "all"))
        module.save_count(str(tmp_path / "count"))
        saved = {name: np.asarray(module.state[name]) for name in ("w", copy)}
        assert (saved["w"].tobytes() == saved[copy].tobytes()) == (mode == "mirrored")
        module.train(x)
        behind = module.state["w"].tobytes()
        module.train(y)
        module.restore(str(tmp_path / "all"))
        assert {name: module.state[name].tobytes() for name in saved} == {
            name: value.tobytes() for name, value in saved.items()
        }
        module.train(x)
        assert module.state["w"].tobytes() == behind

    on_cluster(cluster_bundle(PROGRAM, JOBS + line), 3, train)
