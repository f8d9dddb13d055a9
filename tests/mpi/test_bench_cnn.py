"""`dfc bench cnn` on ranks that it starts: parameter servers and two workers, as in the guide, at tiny width."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from dfc.cli.networks.variables import MODES
from tests.support.rank_launcher import forked_job
from tests.support.sweeping import WHOLE

pytestmark = [pytest.mark.timeout(120)]

TINY = (
    "--narrow=32",
    "--image_size=71",
    "--num_classes=10",
    "--batch_size=4",
    "--num_batches=3",
    "--threads=1",
    "--json",
)
WORKERS = "--worker_hosts=localhost:50002,localhost:50003"
SERVERS = "localhost:50000,localhost:50001" if WHOLE else "localhost:50000"
ONE_SERVER = ("--ps_hosts=localhost:50000", WORKERS)
WAYS = {
    "async": (*ONE_SERVER, "--nocross_replica_sync"),
    "backup": (*ONE_SERVER, "--backup_workers=1"),
    "staged": (*ONE_SERVER, "--staged_vars"),
    "parameter_server": (f"--ps_hosts={SERVERS}", WORKERS),
    "distributed_replicated": (f"--ps_hosts={SERVERS}", WORKERS),
    "replicated": (WORKERS,),
    "independent": (WORKERS,),
}
RUN = [("overfeat", mode) for mode in WAYS] + [("resnet50", "parameter_server")]


@pytest.mark.parametrize(("model", "mode"), RUN if WHOLE else RUN[:1])
def test_ranks_are_started_and_their_rate_is_printed(model: str, mode: str, tmp_path: Path) -> None:
    update = mode if mode in MODES else "parameter_server"
    words = ["bench", "cnn", f"--model={model}", f"--variable_update={update}", *WAYS[mode], *TINY]
    done = forked_job(*words, folder=tmp_path, environment={**os.environ, "TMPDIR": str(tmp_path)}, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    timings = 2 if mode == "independent" else 1
    assert (found["ranks"], found["devices"]) == (" ".join(WAYS[mode]).count(":5000"), 2)
    assert len(found["step_seconds"]) == timings
    images = 4 if mode == "backup" else 8 // timings
    assert found["images_per_second"] == pytest.approx(sum(images * 3 / sum(steps) for steps in found["step_seconds"]))
    if mode in ("async", "backup"):  # 10 + 3 steps of two workers, or of the first one to be done
        assert sum(found["staleness"].values()) == (26 if mode == "async" else 13)
    if mode == "independent":
        assert len(set(found["last_loss"])) == 2  # each has learned of images of its own, and no other one did
    assert all(math.isfinite(loss) and 0 < loss < 10 for loss in found["last_loss"])
