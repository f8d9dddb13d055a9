"""Folders of state and jobs of ranks: what only reads leaves them alone, what is over is not made again, and what
cannot be saved is told before ranks are started."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfc
from tests.mpi.test_run_command import DEPLOYMENT, FEEDS, PROGRAM, _run, prepared, train

pytestmark = [pytest.mark.timeout(180)]

LOOK = """
readonly entry look() -> (steps: i64, total: f32) { return steps, sum(w) }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = prepared(tmp_path_factory.mktemp("states"))
    (made / "looking.dfg").write_text(PROGRAM + LOOK)
    (made / "looking.deploy").write_text(DEPLOYMENT.replace("model.dfg", "looking.dfg"))
    dfc.compile(made / "looking.dfg", deploy=made / "looking.deploy").save(made / "model.bundle")
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_readonly_entry_on_ranks_leaves_the_folder_as_it_was(folder: Path, tmp_path: Path) -> None:
    train(folder, tmp_path, 2, "saved", "--save-every", 10, "--keep", 4)
    before = contents(tmp_path / "saved")
    code, out, err = _run(folder, tmp_path, "look", "--state", tmp_path / "saved", "-n", 2)
    assert (code, err) == (0, "") and out.startswith("steps 60  total ")
    assert contents(tmp_path / "saved") == before
    code, out, err = _run(folder, tmp_path, "look", "--state", tmp_path / "save", "-n", 2)
    assert (code, out) == (5, "") and "save does not exist; did you mean saved?" in err and err.count("error") == 1
    assert not (tmp_path / "save").exists()


def test_the_same_command_on_ranks_is_done_before(folder: Path, tmp_path: Path) -> None:
    train(folder, tmp_path, 2, "saved", steps=20)
    before = contents(tmp_path / "saved")
    words = [*FEEDS, "--steps", 20, "--state", tmp_path / "saved"]
    for ranks in (2, 1):
        code, out, err = _run(folder, tmp_path, "train", *words, "-n", ranks, "--job", f"worker={ranks}")
        assert code == 0 and out.startswith("train: done before, 20 steps  loss "), err
        after = contents(tmp_path / "saved")
        assert {name: data for name, data in after.items() if "epochs" not in name} == {
            name: data for name, data in before.items() if "epochs" not in name
        }


def test_what_cannot_be_saved_is_told_before_ranks_are_started(folder: Path, tmp_path: Path) -> None:
    train(folder, tmp_path, 1, "saved", steps=5)
    inside = tmp_path / "saved" / "step-1"
    code, out, err = _run(folder, tmp_path, "train", *FEEDS, "--state", inside, "-n", 2)
    assert (code, out) == (2, "")
    assert err == (
        f"error: {inside} is one checkpoint, and state is saved beside it\n"
        f"  --from {inside} --state {inside.parent} goes on from it\n"
    )
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "epochs").touch()
    code, out, err = _run(folder, tmp_path, "train", *FEEDS, "--state", tmp_path / "taken", "-n", 2)
    assert (code, out) == (6, "")
    where = tmp_path / "taken"
    assert err == f"error[E0909]: cannot save checkpoints in {where}: {where}/epochs is no folder\n"
