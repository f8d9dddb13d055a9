"""Checkpoints of shuffled queues without their elements, which are read again from the reader they came from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.checkpoints import store
from dfc_runtime.errors import CheckpointError
from dfc_runtime.module import Module
from dfc_runtime.runners.refilling import Refilling
from tests.support.pipelines import compiled, drained, eventually, numbers_of
from tests.support.record_files import framed

ROWS = 90
TEXT = """
var files = array_files("*.npy", (x = i32), passes = 4, shuffle = "records", seed = 3, on_error = "skip"PART)
queue pool: (x: i32, y: f32) = shuffle_queue(capacity = CAPACITY, ready = READY, seed = 5)
var total: i64 = 0
var seen: i64 = 0
var dice: rng = philox(seed = 4)
runner read with copies = 3 {
  let row = files.next()
  let thrown = dice.uniform(f32[])
  pool.put(row.x, row.x as f32 / 7)
  seen := seen * 3 + (row.x as i64) + ((thrown * 10) as i64)
}
entry batch() -> (x: i32[4], y: f32[4]) {
  let x, y = pool.take(4)
  total += sum(x as i64)
  return x, y
}
"""
POSITIONS, ELEMENTS = {"pool/@positions"}, {"pool/x", "pool/y"}


def text(part: str = "", capacity: int = 40, ready: int = 30) -> str:
    return TEXT.replace("PART", part).replace("READY", str(ready)).replace("CAPACITY", str(capacity))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.random.default_rng(number).integers(0, 10**6, ROWS // 2, np.int32))
    return tmp_path


def anew(folder: Path, program: str = "", pattern: str = "*.npy") -> Module:
    return dfc.loads(compiled(program or text()), threads=1, data={"files": str(folder / pattern)})


def batches(model: Module, count: int) -> list[bytes]:
    taken = [model.batch() for _ in range(count)]
    return [each.x.tobytes() + each.y.tobytes() for each in taken]


def rest(model: Module) -> list[bytes]:
    return [each.x.tobytes() + each.y.tobytes() for each in drained(model.batch)]


def inside(folder: Path) -> set[str]:
    return {name for name in store.find(folder).checkpoint.state if name.startswith("pool/")}


def has_elements(model: Module) -> bool:
    """Whether there is anything whose position could be saved."""
    put, taken, _ = numbers_of(model, "pool")
    return put > taken


def goes_on(make: Callable[[], Module], folder: Path, whole: list[bytes], cuts: tuple[int, ...]) -> None:
    """One process after the other goes on where the one before was saved, and at each cut one sees the rest."""
    done: list[bytes] = []
    seen: set[int] = set()
    for cut in cuts:
        model = make()
        if done:
            model.restore(folder / "state")
        done += batches(model, cut - len(done))
        eventually(partial(has_elements, model))
        model.save(folder / "state")
        assert inside(folder / "state") == POSITIONS
        assert done + rest(model) == whole
        seen.add(int(model.state["seen"]))
        model.close()
    model = make()
    model.restore(folder / "state")
    assert done + rest(model) == whole
    assert seen == {int(model.state["seen"])}  # whatever else the runner does is done once for each record


SHUFFLED = "shuffle_queue(capacity = 40, ready = 30, seed = 5)"


@pytest.mark.parametrize("made", [SHUFFLED, "fifo(capacity = 9)"])
@pytest.mark.parametrize("part", ["", ", part = 1, parts = 3"])
def test_who_reads_elements_again_sees_the_same_stream(part: str, made: str, rows: Path) -> None:
    """From the first batch on, and at the end, when the runner has read all and the queue is closed."""
    program = text(part).replace(SHUFFLED, made)
    whole = rest(anew(rows, program))
    assert len(whole) == 4 * ROWS // (12 if part else 4)
    goes_on(lambda: anew(rows, program), rows, whole, (1, len(whole) // 2, len(whole) - 2))


def test_damaged_records_are_left_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dfc_runtime.runners.refilling._MANY", 5)
    records = [framed(b"%03d" % number) for number in range(ROWS)]
    for number in (0, 41, 42):
        records[number] = records[number][:-1] + b"?"
    (tmp_path / "a.rec").write_bytes(b"".join(records))
    put = "let [N] x: u8[N] = decode_raw(row, u8)\n  pool.put(sum(cumsum(x as i32)), N as f32)"
    program = text().replace("array_files", "record_files").replace("(x = i32), ", "")
    program = program.replace("pool.put(row.x, row.x as f32 / 7)", put).replace("row.x as i64", "N")
    whole = rest(anew(tmp_path, program, "*.rec"))
    assert len(whole) == 4 * (ROWS - 3) // 4
    goes_on(lambda: anew(tmp_path, program, "*.rec"), tmp_path, whole, (1, 13, 40, 60))


def test_a_checkpoint_with_elements_is_restored_and_later_ones_have_none(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, model = rest(anew(rows)), anew(rows)
    batches(model, 5)
    with monkeypatch.context() as patched:
        patched.setattr(Refilling, "positions", lambda _: None)
        model.save(rows / "old")
    assert inside(rows / "old") == ELEMENTS
    again = anew(rows)
    again.restore(rows / "old")
    again.save(rows / "state")
    assert inside(rows / "state") == ELEMENTS  # they cannot be read again by their numbers
    assert batches(again, 60) == whole[5:65]
    again.save(rows / "state")
    assert inside(rows / "state") == POSITIONS
    third = anew(rows)
    third.restore(rows / "state")
    assert rest(third) == whole[65:]


def test_the_queue_may_be_another_one_when_elements_are_read_again(rows: Path) -> None:
    """With other room, and with other takes from then on, after which it is saved and restored as before."""
    whole, model = rest(anew(rows)), anew(rows)
    batches(model, 9)
    model.save(rows / "state")
    roomy = anew(rows, text(capacity=64))
    roomy.restore(rows / "state")
    assert rest(roomy) == whole[9:]
    streams: list[list[bytes]] = []
    for _ in range(2):
        other = anew(rows, text(ready=20))
        other.restore(rows / "state")
        first = batches(other, 1)
        other.save(rows / "other")
        assert inside(rows / "other") == ELEMENTS  # takes of another kind do not say what is inside of these
        first += batches(other, 49)
        other.save(rows / "other")
        streams.append(first + rest(other))
    assert streams[0] == streams[1] and sorted(streams[0]) != sorted(whole[9:])
    assert inside(rows / "other") == POSITIONS
    other = anew(rows, text(ready=20))
    other.restore(rows / "other")
    assert rest(other) == streams[0][50:]
    straight = anew(rows, text().replace(SHUFFLED, "fifo(capacity = 40)"))
    with pytest.raises(CheckpointError, match="they were in a queue that was shuffled"):
        straight.restore(rows / "state", only="pool")
    small = anew(rows, text(capacity=23, ready=20))
    with pytest.raises(CheckpointError, match=r"room for 26: a larger capacity has room; nothing was restored"):
        small.restore(rows / "state")


def changed(rows: Path) -> None:
    np.save(rows / "1.npy", np.arange(ROWS // 2, dtype=np.int32))


def shrunk(rows: Path) -> None:
    np.save(rows / "1.npy", np.load(rows / "1.npy")[:-1])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed, "they are not those that were saved: files have changed"),
        (shrunk, "`files` has 89 records, and had 90 when they were saved"),
    ],
)
def test_where_files_are_others_nothing_is_restored_and_nothing_lost(
    change: Callable[[Path], None], reason: str, rows: Path
) -> None:
    model = anew(rows)
    batches(model, 9)
    model.save(rows / "state")
    change(rows)
    whole, working = rest(anew(rows)), anew(rows)
    done = batches(working, 20)
    eventually(lambda: numbers_of(working, "pool")[0] - numbers_of(working, "pool")[1] == 40)  # records are in hand
    with pytest.raises(CheckpointError, match=reason) as caught:
        working.restore(rows / "state")
    assert "cannot be read again from `files`; nothing was restored" in str(caught.value)
    working.save(rows / "other")
    assert inside(rows / "other") == POSITIONS and done + rest(working) == whole
    (rows / "none").mkdir()
    fresh = anew(rows / "none")
    with pytest.raises(CheckpointError, match=r"nothing was restored\n  no file is called"):
        fresh.restore(rows / "state")
    for number in range(2):
        (rows / f"{number}.npy").rename(rows / "none" / f"{number}.npy")
    done = batches(fresh, 1)
    fresh.save(rows / "other")
    assert done + rest(fresh) == whole


def test_elements_are_saved_where_draws_or_the_reader_have_been_touched(rows: Path) -> None:
    for name, word in (("files", 0), ("pool.order", 2), ("pool.order", 0)):
        model = anew(rows)
        batches(model, 3)
        model.save(rows / "before")
        value = np.array(model.state[name])
        value[word] += 1
        model.state[name] = value
        model.save(rows / "state")
        assert inside(rows / "before") == POSITIONS and inside(rows / "state") == ELEMENTS, name
        model.restore(rows / "before", only="pool")  # without what belongs to it
        model.save(rows / "state")
        assert inside(rows / "state") == ELEMENTS, name
        model.restore(rows / "before")
        model.save(rows / "state")
        assert inside(rows / "state") == POSITIONS, name
        model.close()


def test_elements_are_saved_while_some_are_inside_since_a_record_was_left_out(rows: Path) -> None:
    """The third record of the first pass alone: later on it is known again which record became which element."""
    put = "pool.put(row.x, row.x as f32 / 7)"
    program = text().replace(put, f"let at = files.position()\n  if at != 3 {{ {put} }} else {{ total -= 1 }}")
    whole = rest(anew(rows, program))
    assert len(whole) == (4 * ROWS - 1) // 4
    model = anew(rows, program)
    assert batches(model, 3) == whole[:3]
    model.save(rows / "3")
    model.close()
    model = anew(rows, program)
    model.restore(rows / "3")
    assert batches(model, 10) == whole[3:13]
    model.save(rows / "13")
    assert batches(model, 57) == whole[13:70]
    model.save(rows / "70")
    assert [inside(rows / cut) for cut in ("3", "13", "70")] == [ELEMENTS, ELEMENTS, POSITIONS]
    model = anew(rows, program)
    model.restore(rows / "70")
    assert rest(model) == whole[70:]


def test_a_program_that_does_not_make_its_elements_of_records_says_so(rows: Path) -> None:
    model = anew(rows)
    batches(model, 3)
    model.save(rows / "state")
    other = anew(rows, text().replace("row.x as f32 / 7", "seen as f32"))
    reason = "what the runner `read` puts in depends on `seen`"
    with pytest.raises(CheckpointError, match=f"does not read them; nothing was restored\n  {reason}"):
        other.restore(rows / "state")
    sorted_ = anew(rows, text().replace(SHUFFLED, 'priority_queue(capacity = 40, ready = 30, by = "x")'))
    with pytest.raises(CheckpointError, match=r"nothing was restored\n  it gives elements by a key, or by their len"):
        sorted_.restore(rows / "state", only="pool")


def test_a_checkpoint_does_not_grow_with_the_elements(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(3).random((3000, 500), np.float32))
    program = """
    var files = array_files("*.npy", (x = f32[500]), passes = 2, shuffle = "records")
    queue pool: f32[500] = shuffle_queue(capacity = 3_000, ready = 2_900)
    runner read {
      let row = files.next()
      pool.put(row.x)
    }
    entry batch() -> f32[8, 500] { return pool.take(8) }
    """
    model = anew(tmp_path, program)
    model.batch()
    model.save(tmp_path / "state")
    assert sum(each.stat().st_size for each in (tmp_path / "state").rglob("*")) < 10_000
    again = anew(tmp_path, program)
    again.restore(tmp_path / "state")
    np.testing.assert_array_equal(again.batch(), model.batch())
