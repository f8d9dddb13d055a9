"""Queues in checkpoints: what is damaged, foreign or chosen in part, and entries that save and restore."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.checkpoints import files, store
from dfc_runtime.errors import CheckpointError, FileError
from dfc_runtime.module import Module
from tests.support.pipelines import COUNT, drained, eventually, loaded, numbers_of

TEXT = f"""
queue numbers: i64 = fifo(capacity = 3)
queue words: (word: i32[?], k: i64) = bucket_queue(capacity = 7, bounds = [2, 4])
var w: f64 = 0
{COUNT.format(last=40)}
runner spell with copies = 2 {{
  let k = numbers.take()
  let [L] word: i64[L] = range(k % 5, 4)
  words.put(word as i32, k)
}}
entry next() -> i64 {{
  let word, k, length = words.take()
  w += 1
  return k
}}
entry save(path: string) {{ checkpoint.save(path, program) }}
entry restore(path: string) {{ checkpoint.restore(path, program) }}
entry step(path: string, saves: bool) -> i64 {{
  let word, k, length = words.take()
  w += 1
  if saves {{ checkpoint.save(path, program) }}
  return k
}}
"""


def saved(folder: Path, count: int = 5) -> tuple[Module, list[object]]:
    """A program of which so many batches were taken before a checkpoint, with a full queue, and the rest of its
    stream."""
    model = loaded(TEXT)
    for _ in range(count):
        model.next()
    eventually(lambda: numbers_of(model, "words")[0] - numbers_of(model, "words")[1] == 7)
    Module.save(model, folder)
    return model, drained(loaded(TEXT).next)[count:]


def test_a_queue_is_a_tensor_for_each_field_in_the_order_of_its_elements(tmp_path: Path) -> None:
    model, rest = saved(tmp_path)
    state = store.find(tmp_path).checkpoint.state
    inside = state["words/k"].array.tolist()
    assert inside == rest[: len(inside)] and 7 <= len(inside) <= 7 + 2
    lengths = state["words/word_length"].array
    assert lengths.tolist() == [k % 5 for k in inside]
    rows = [np.pad(np.arange(k % 5), (0, 4 - k % 5)).tolist() for k in inside]
    assert state["words/word"].array.tolist() == rows  # and nothing of what was there before
    model.close()


@pytest.mark.parametrize("in_a_call", [False, True])
def test_restoring_replaces_what_is_in_queues_and_runners_go_on_from_there(in_a_call: bool, tmp_path: Path) -> None:
    model, rest = saved(tmp_path)
    assert [model.next() for _ in range(7)] == rest[:7]
    if in_a_call:
        model.entries["restore"](str(tmp_path))
    else:
        Module.restore(model, tmp_path)
    assert drained(model.next) == rest
    assert model.state["w"] == 40
    model.close()


def test_an_entry_saves_in_the_midst_of_a_call(tmp_path: Path) -> None:
    """What it has taken by then is not in the queues, and what it has written is in the state."""
    model = loaded(TEXT)
    stream = [model.step(str(tmp_path), k == 6) for k in range(12)]
    model.close()
    again = loaded(TEXT)
    again.entries["restore"](str(tmp_path))
    assert again.state["w"] == 7
    assert [again.next() for _ in range(5)] == stream[7:]
    again.close()


def test_only_some_state_leaves_queues_alone(tmp_path: Path) -> None:
    model, rest = saved(tmp_path)
    assert [model.next() for _ in range(4)] == rest[:4]
    Module.restore(model, tmp_path, only="w")
    assert model.state["w"] == 5
    assert drained(model.next) == rest[4:]


OTHERS = {
    "another type": ("word: i32[?]", "word: i64[?]", "type differs words/word i32["),
    "another shape": ("bounds = [2, 4]", "bounds = [2, 9]", "shape differs words/word i32["),
    "another name": ("k: i64) = b", "n: i64) = b", "not in file words/n i64["),
    "no such queue": ("queue numbers: i64 = fifo(capacity = 3)", "", "not in program numbers/value i64["),
}


@pytest.mark.parametrize(("old", "new", "message"), OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_other_queues_is_refused_as_a_whole(old: str, new: str, message: str, tmp_path: Path) -> None:
    model, _ = saved(tmp_path)
    model.close()
    text = TEXT.replace(old, new)
    if "type" in message:
        text = text.replace("word as i32", "word")
    if not new:
        text = text.replace(COUNT.format(last=40), "var n: i64 = 0\n").replace("numbers.take()", "n\n  n += 1")
    other = loaded(text)
    before = other.next()
    with pytest.raises(CheckpointError, match="nothing was restored") as caught:
        Module.restore(other, tmp_path)
    assert message in re.sub(" +", " ", str(caught.value))
    assert (before, other.next(), other.state["w"]) == (0, 1, 2)  # it goes on
    other.close()


def test_more_elements_than_there_is_room_for_are_refused_and_fewer_slots_are_enough(tmp_path: Path) -> None:
    model, rest = saved(tmp_path)
    model.close()
    small = loaded(TEXT.replace("capacity = 7", "capacity = 8").replace("copies = 2", "copies = 1"))
    Module.restore(small, tmp_path)
    assert drained(small.next) == rest
    small.close()
    tiny = loaded(TEXT.replace("capacity = 7", "capacity = 2").replace("copies = 2", "copies = 1"))
    with pytest.raises(CheckpointError, match=r"lacks room +words/word +i32\[., 4\] in the ch.*\[3, 4\]") as caught:
        Module.restore(tiny, tmp_path)
    assert "\n  a larger capacity has room for the elements of a queue; only=" in caught.value.message
    tiny.close()


def test_lengths_that_no_element_can_have_are_refused(tmp_path: Path) -> None:
    """Whoever made the checkpoint: code copies as many bytes as a length says."""
    model, rest = saved(tmp_path)
    found = store.find(tmp_path).checkpoint
    found.state["words/word_length"].array[0] = 5
    store.publish(tmp_path / "made", found.about, list(found.state.values()))
    with pytest.raises(CheckpointError, match="words/word_length is not from 0 to 4; nothing was restored"):
        Module.restore(model, tmp_path / "made")
    assert drained(model.next) == rest
    model.close()


def test_a_damaged_file_is_skipped_for_an_older_checkpoint(tmp_path: Path) -> None:
    model, rest = saved(tmp_path)
    first = [model.next(), model.next()]
    newest = Module.save(model, tmp_path) / "task-0.safetensors"
    data = bytearray(newest.read_bytes())
    data[-9] ^= 1
    newest.write_bytes(data)
    with pytest.warns(UserWarning, match=r"skipped the checkpoint .*step-2"):
        Module.restore(model, tmp_path)
    assert first == rest[:2] and drained(model.next) == rest
    model.close()


def test_a_full_disk_is_one_message_and_the_program_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rest = saved(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.Disk, "write", full)
        with pytest.raises(FileError, match=r"cannot save a checkpoint in .*: No space left on device"):
            Module.save(model, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["step-1"]
    assert drained(model.next) == rest
    model.close()
