"""`dfc run -n`: the same state for any number of ranks, through kills and restarts, and one message where it fails."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.checkpoints import store
from dfc_runtime.distributed.launch import processes
from dfc_runtime.distributed.launch.supervisor import permissions
from tests.support.bundles import roles_of, with_role
from tests.support.mpi import PATHS
from tests.support.rank_launcher import forked_job
from tests.support.sweeping import WHOLE, few

WITHIN = 600
"""Seconds for what ends by itself, which nothing but a hang takes on a machine that has ever so much to do."""
pytestmark = [pytest.mark.timeout(2 * WITHIN)]

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-0.5, 0.5)
param b: f32[3] = 0
var steps: i64 = 0

entry train[B](x: f32[B, 4], y: i32[B], rate: f32) -> (loss: f32) {
  let loss = mean(cross_entropy(x @ w + b, y))
  let dw, db = grad(loss, [w, b])
  w -= rate * dw
  b -= rate * db
  steps += 1
  return loss
}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"

job worker tasks 2

replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
FEEDS = ["--feed", "x=x.npy", "--feed", "y=y.npy", "--feed", "rate=0.1"]


def prepared(folder: Path) -> Path:
    """A folder with the bundle and its feeds."""
    folder.mkdir(exist_ok=True)
    (folder / "model.dfg").write_text(PROGRAM)
    (folder / "model.deploy").write_text(DEPLOYMENT)
    dfc.compile(folder / "model.dfg", deploy=folder / "model.deploy").save(folder / "model.bundle")
    rng = np.random.default_rng(7)
    np.save(folder / "x.npy", rng.normal(size=(64, 4)).astype(np.float32))
    np.save(folder / "y.npy", rng.integers(0, 3, 64).astype(np.int32))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for all tests here."""
    return prepared(tmp_path_factory.mktemp("ranks"))


PATIENCE = ["--silence", 600]
"""Half a minute, which a user waits for, can be less than a rank takes to start on a machine that has more to do."""


def _patient(words: tuple[object, ...]) -> tuple[object, ...]:
    return (*words, *PATIENCE) if "-n" in words and "--silence" not in words else words


def _environment(scratch: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PATHS, "TMPDIR": str(scratch), "DFC_THREADS": "1", "DFC_TEST": str(scratch)}


def _start(folder: Path, scratch: Path, *words: object, bundle: str = "model.bundle") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dfc", "run", bundle, *map(str, _patient(words))],
        env=_environment(scratch),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )


def _run(folder: Path, scratch: Path, *words: object, bundle: str = "model.bundle") -> tuple[int, str, str]:
    """What is run to its end is a fork, as its ranks are; where they cannot be, their environment says what is left."""
    environment = _environment(scratch)
    done = forked_job("run", bundle, *_patient(words), folder=folder, environment=environment, timeout=WITHIN)
    assert _of(scratch) == []
    return done.returncode, done.stdout, done.stderr


def digest(saved: Path) -> str:
    """One hash of all state in the newest checkpoint."""
    found = store.find(saved)
    digest = hashlib.sha256()
    for name, each in sorted(found.checkpoint.state.items()):
        digest.update(name.encode() + each.array.tobytes())
    return digest.hexdigest()


def new(saved: Path) -> str:
    """What is told where state is saved in a new folder."""
    return f"{saved} is a new folder: the run starts from initial state\n"


def train(folder: Path, tmp_path: Path, ranks: int, name: str, *words: object, steps: int = 60) -> str:
    saved = tmp_path / name
    asked = [*FEEDS, "--steps", steps, "--state", saved, "-n", ranks, "--job", f"worker={ranks}", *words]
    code, _, err = _run(folder, tmp_path, "train", *asked)
    assert (code, err) == (0, new(saved)), err
    return digest(saved)


def test_any_number_of_ranks_trains_to_the_same_bits(folder: Path, tmp_path: Path) -> None:
    assert len({train(folder, tmp_path, ranks, f"on-{ranks}") for ranks in few((1, 2, 3, 4), 2)}) == 1


def test_a_run_goes_on_from_a_checkpoint_of_another_number_of_ranks(folder: Path, tmp_path: Path) -> None:
    counts = few((3, 1, 2), 2)
    whole = train(folder, tmp_path, 1, "whole", steps=20 * len(counts))
    saved = tmp_path / "changing"
    for ranks in counts:
        asked = [*FEEDS, "--steps", 20, "--state", saved, "-n", ranks, "--job", f"worker={ranks}", "--again"]
        code, _, err = _run(folder, tmp_path, "train", *asked)
        assert code == 0, err
    assert digest(saved) == whole


@pytest.mark.skipif(not WHOLE, reason="test_aimed_kills and test_gate_kills have a few for every change")
@pytest.mark.parametrize(("ranks", "kills"), [(2, 2), (1, 4), (2, 4), (3, 4)])
def test_kills_at_any_moment_change_nothing(folder: Path, tmp_path: Path, ranks: int, kills: int) -> None:
    """As many as one likes: `python -m tests.mpi.kills 40`."""
    steps = {1: 5_000 * kills, 2: 500 * kills, 3: 200 * kills}[ranks]
    whole = train(folder, tmp_path, 1, "whole", steps=steps)
    code, done, err = killed_run(folder, tmp_path, ranks, kills, steps)
    assert code == 0, err
    assert done >= 1, "nothing was killed"
    assert digest(tmp_path / "killed") == whole
    assert not list(tmp_path.glob("dfc-job-*"))


def killed_run(folder: Path, scratch: Path, ranks: int, kills: int, steps: int) -> tuple[int, int, str]:
    """Trains while random ranks are killed at random moments: the exit code, how many were, what was said."""
    seed = ranks * 1000 + kills
    print("seed", seed)
    chance = random.Random(seed)
    asked = [*FEEDS, "--steps", steps, "--state", scratch / "killed", "--save-every", max(steps // 40, 1)]
    process = _start(
        folder, scratch, "train", *asked, "-n", ranks, "--job", f"worker={ranks}", "--max-restarts", kills + 1
    )
    done = 0
    while process.poll() is None and done < kills:
        time.sleep(chance.uniform(0.05, 1.2) if done else 0.01)  # the first as soon as there is somebody to kill
        done += _kill_one(scratch, chance)
    _, err = process.communicate(timeout=WITHIN)
    return process.returncode, done, err


def _kill_one(scratch: Path, chance: random.Random) -> int:
    """Kills a rank of the newest session, if there is one."""
    try:
        beats = sorted(scratch.glob("dfc-job-*/*.beat"))
    except FileNotFoundError:
        return 0  # the job has just ended
    newest = max((int(path.name.split("-")[0]) for path in beats), default=0)
    beats = [path for path in beats if path.name.startswith(f"{newest}-")]
    try:
        pid = json.loads(chance.choice(beats).read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
    except (IndexError, ValueError, OSError):
        return 0
    return 1


def test_a_number_of_ranks_that_does_not_fit_is_one_message(folder: Path, tmp_path: Path) -> None:
    code, out, err = _run(folder, tmp_path, "train", *FEEDS, "-n", 3)
    assert (code, out) == (2, "")
    assert err == (
        "error[E0912]: model is for worker 2 = 2 ranks, but there are 3\n"
        "  start 2, or say how many tasks a job has: --job worker=3\n"
    )


def test_without_ranks_it_is_said_how_to_start_them(folder: Path, tmp_path: Path) -> None:
    code, out, err = _run(folder, tmp_path, "train", *FEEDS, "--job", "worker=1")
    assert (code, out) == (2, "")
    assert err == "error: model.bundle is for 2 ranks: start them with -n 2\n"


def test_a_mistake_is_told_once_with_its_code(folder: Path, tmp_path: Path) -> None:
    code, out, err = _run(folder, tmp_path, "trian", *FEEDS, "-n", 2)
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "error: there is no entry 'trian'; did you mean 'train'?; entries: init, train"
    code, _, err = _run(folder, tmp_path, "train", *FEEDS[:-2], "-n", 2)
    assert code == 2
    assert err.startswith("error[E0901]: ") and err.count("error") == 1


def test_a_role_that_is_damaged_is_told_once_with_the_code_of_bad_bundles(folder: Path, tmp_path: Path) -> None:
    data = (folder / "model.bundle").read_bytes()
    (name, role), *_ = roles_of(data).items()
    (folder / "damaged.bundle").write_bytes(with_role(data, name, role[:-100]))
    code, out, err = _run(folder, tmp_path, "train", *FEEDS, "-n", 2, bundle="damaged.bundle")
    assert (code, out) == (4, "")
    assert err.startswith("error[E0906]: ") and err.count("error") == 1, err


def test_what_standard_output_has_no_room_for_is_an_error(folder: Path, tmp_path: Path) -> None:
    full, words = Path("/dev/full"), ["run", "model.bundle", "train", *FEEDS, "-n", 2]
    done = forked_job(*words, folder=folder, environment=_environment(tmp_path), timeout=WITHIN, output=full)
    assert (done.returncode, done.stderr) == (6, "error: No space left on device\n")


def test_a_batch_that_cannot_be_cut_is_refused_before_anything_runs(folder: Path, tmp_path: Path) -> None:
    np.save(folder / "x63.npy", np.zeros((63, 4), np.float32))
    np.save(folder / "y63.npy", np.zeros(63, np.int32))
    feeds = ["--feed", "x=x63.npy", "--feed", "y=y63.npy", "--feed", "rate=0.1"]
    code, _, err = _run(folder, tmp_path, "train", *feeds, "-n", 2)
    assert code == 2
    assert "63" in err and "8" in err and err.count("error") == 1
    code, out, err = _run(folder, tmp_path, "train", *feeds, "-n", 2, "--batch", 8)
    assert (code, out) == (2, "")
    assert err == (
        "error[E0901]: 63 rows in batches of 8 leave one of 7: `train` is cut into 8 blocks along B, which is 7: less "
        "than one for each\n"
        "  leave it out of every epoch: --last drop\n"
        "  or fill it up with rows that count for nothing: --last pad\n"
    )
    assert _run(folder, tmp_path, "train", *feeds, "-n", 2, "--batch", 8, "--steps", 7)[0] == 0  # it is not reached
    code, out, err = _run(folder, tmp_path, "train", *feeds, "-n", 2, "--batch", 8, "--last", "drop", "--epochs", 2)
    assert code == 0, err
    assert "14 steps" in out + err


def test_a_short_last_batch_is_filled_up_with_rows_that_count_for_nothing(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    np.save(folder / "x21.npy", rng.normal(size=(21, 4)).astype(np.float32))
    np.save(folder / "y21.npy", rng.integers(0, 3, 21).astype(np.int32))
    feeds = ["--feed", "x=x21.npy", "--feed", "y=y21.npy", "--feed", "rate=0.1"]
    dfc.compile(folder / "model.dfg").save(folder / "one.bundle")
    asked = ["--batch", 8, "--last", "pad", "--epochs", 2, "--out", "loss.npz"]
    found = []
    for count in (0, 1, 2):
        words = ["train", *feeds, *asked, "--state", f"pad{count}"]
        where = ["-n", count, "--job", f"worker={count}"] if count else []
        code, out, err = _run(folder, tmp_path, *words, *where, bundle="model.bundle" if count else "one.bundle")
        assert code == 0, err
        assert "6 steps" in out
        module = dfc.load(folder / "one.bundle")
        module.restore(folder / f"pad{count}")
        state = [np.asarray(module.state[name]) for name in ("w", "b", "steps")]
        found.append([*state, np.load(folder / "loss.npz")["loss"]])
    for alone, first, second in zip(*found, strict=True):
        assert first.tobytes() == second.tobytes()
        np.testing.assert_allclose(first, alone, rtol=1e-5, atol=1e-6)


def _launched(folder: Path, scratch: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Two ranks that a plain launcher starts."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    return subprocess.run(
        [str(mpiexec), "-n", "2", sys.executable, "-m", "dfc", "run", *words],
        env={**os.environ, **permissions(), "PYTHONPATH": PATHS, "TMPDIR": str(scratch), "DFC_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )


def test_under_a_plain_launcher_the_same_command_runs(folder: Path, tmp_path: Path) -> None:
    done = _launched(folder, tmp_path, "model.bundle", "train", *FEEDS, "--steps", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("train: 5 steps in ")


def test_what_all_ranks_find_wrong_is_told_once(folder: Path, tmp_path: Path) -> None:
    done = _launched(folder, tmp_path, "nothing.bundle", "train", *FEEDS)
    assert done.returncode == 2
    assert done.stderr.count("error: there is no file nothing.bundle") == 1, done.stderr


def test_processes_that_do_not_know_of_each_other_run_nothing(folder: Path, tmp_path: Path) -> None:
    """As `srun` starts them, where it does not speak to the MPI that is installed."""
    told: list[str] = []
    for rank in (0, 1):
        step = {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
        done = subprocess.run(
            [sys.executable, "-m", "dfc", "run", "model.bundle", "train", *FEEDS, "--state", str(tmp_path / "saved")],
            env={**os.environ, **step, "PYTHONPATH": PATHS, "TMPDIR": str(tmp_path), "DFC_THREADS": "1"},
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        told.append(done.stderr)
    assert told[0].startswith("error: 2 processes were started, but MPI connects 1 of them\n") and told[1] == ""
    assert not (tmp_path / "saved").exists()


def _beats(scratch: Path) -> int:
    """How many ranks have said that they live."""
    return len(list(scratch.glob("dfc-job-*/1-*.beat")))


def _wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def _of(scratch: Path) -> list[int]:
    return processes.of_job(-1, f"DFC_TEST={scratch}")


def test_ranks_save_and_end_when_their_supervisor_is_killed(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    process = _start(folder, tmp_path, "train", *FEEDS, "--steps", 10**7, "--state", saved, "-n", 2, "--json")
    _wait(process, lambda: any('step": 0' not in path.read_text() for path in tmp_path.glob("dfc-job-*/1-0.beat")))
    process.kill()
    end = time.monotonic() + 60
    while left := _of(tmp_path):
        assert time.monotonic() < end, left
        time.sleep(0.05)
    process.communicate()
    assert int(store.find(saved).checkpoint.state["steps"].array) > 0
    assert not list(tmp_path.glob("dfc-job-*"))


@pytest.mark.parametrize(("number", "ready"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGINT, 1)])
def test_a_signal_while_the_ranks_begin_ends_them_without_noise(
    folder: Path, tmp_path: Path, number: signal.Signals, ready: int
) -> None:
    process = _start(folder, tmp_path, "train", *FEEDS, "--steps", 10**7, "-n", 2)
    _wait(process, lambda: bool(list(tmp_path.glob("dfc-job-*/tmp-1"))) and _beats(tmp_path) >= ready)
    process.send_signal(number)
    out, err = process.communicate(timeout=WITHIN)
    assert process.returncode == 128 + number
    assert "Traceback" not in out + err and "mpiexec" not in out + err
    assert err in ("", "dfc: stopping after this step; again to stop now\n")  # the latter where rank 0 is there
    assert _of(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ["--check-finite", "-n", 2],
            3,
            "error[E1001]: --check-finite is for programs on one rank in this version\n"
            "  ranks have it if it was given to `dfc compile --deploy`",
        ),
        (["--set", "rate=2", "-n", 2], 2, "error: settings are fixed in a bundle; give --set when it is compiled"),
        (["--silence", "nan", "-n", 2], 2, "error: --silence wants seconds, at least 2"),
        (["--silence", "-1", "-n", 2], 2, "error: --silence wants seconds, at least 2"),
        (["--min-ranks", 5, "-n", 2], 2, "error: --min-ranks 5 is more than the 2 ranks to begin with"),
        (["--max-restarts", 2], 2, "error: --max-restarts is for ranks that are started here, with -n"),
        (["--min-ranks", 1], 2, "error: --min-ranks is for ranks that are started here, with -n"),
    ],
)
def test_what_would_be_without_effect_is_refused(
    folder: Path, tmp_path: Path, words: list[object], code: int, told: str
) -> None:
    assert _run(folder, tmp_path, "train", *FEEDS, *words) == (code, "", told + "\n")


def test_summaries_are_written_once(folder: Path, tmp_path: Path) -> None:
    (folder / "telling.dfg").write_text(PROGRAM.replace("  steps += 1", '  steps += 1\n  summary.scalar("loss", loss)'))
    (folder / "telling.deploy").write_text(DEPLOYMENT.replace("model.dfg", "telling.dfg"))
    dfc.compile(folder / "telling.dfg", deploy=folder / "telling.deploy").save(folder / "telling.bundle")
    written = tmp_path / "summaries.jsonl"
    words = ["train", *FEEDS, "--steps", 3, "-n", 2, "--summaries", written]
    assert _run(folder, tmp_path, *words, bundle="telling.bundle")[::2] == (0, "")
    assert len(written.read_text().splitlines()) == 3
