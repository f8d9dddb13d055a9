"""Programs that decode images: equal batches for any number of copies, and damaged images as the program asks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dfc
from dfc_runtime.errors import FileError, RecordError, RunError, UnsupportedError
from dfc_runtime.module import Module
from dfc_runtime.records.example import encode_example
from dfc_runtime.records.images.decoding import decode
from tests.support.image_files import jpeg, png, smooth, write_samples
from tests.support.pipelines import compiled, drained
from tests.support.record_files import write_records

HEIGHT, WIDTH = 6, 8
FLAGGED = """
var files = tar_files("*.tar", (jpg = string, cls = i64), passes = 2)
queue ready: (image: u8[6, 8, 3], label: i64) = fifo(capacity = 4)
var broken: i64 = 0
runner read with copies = COPIES {
  let sample = files.next()
  let image = decode_image(sample.jpg, HEIGHT, WIDTH, on_error = "flag")
  if image.intact { ready.put(image.pixels, sample.cls) } else { broken += 1 }
}
entry next() -> (image: u8[6, 8, 3], label: i64) { return ready.take() }
entry damaged() -> i64 { return broken }
""".replace("HEIGHT, WIDTH", f"{HEIGHT}, width = {WIDTH}")
FATAL = """
var files = record_files("*.rec", longest = 4_096)
entry next() -> (image: u8[6, 8, 3], label: i64) {
  let record = files.next()
  let fields = parse_example(record, (image = string, label = i64))
  return decode_image(fields.image, 6, 8), fields.label
}
"""
GOOD = [jpeg(smooth(21, 30, 1)), png(smooth(9, 8, 2)), jpeg(smooth(6, 8, 3)), png(smooth(50, 50, 4))]
IMAGES = [*GOOD[:2], GOOD[0][:200], *GOOD[2:], b"no image"]
"""Those that are damaged have the numbers 2 and 5."""


def flagged(folder: Path, copies: int = 1) -> Module:
    write_samples(folder / "a.tar", IMAGES)
    return dfc.loads(compiled(FLAGGED.replace("COPIES", str(copies))), threads=1, folder=folder)


@pytest.mark.parametrize("copies", [1, 3])
def test_damaged_images_are_left_out_and_counted_by_the_program(tmp_path: Path, copies: int) -> None:
    model = flagged(tmp_path, copies)
    got = drained(model.next)
    assert [each.label for each in got] == [0, 1, 3, 4] * 2
    expected = [decode(data, HEIGHT, WIDTH) for data in GOOD] * 2
    np.testing.assert_array_equal([each.image for each in got], expected)
    assert model.damaged() == 4


def test_a_damaged_image_is_an_error_with_its_file_number_and_offset(tmp_path: Path) -> None:
    path = write_records(
        tmp_path / "a.rec",
        [encode_example({"image": data, "label": np.array([n])}) for n, data in enumerate([GOOD[0], b"no image"])],
    )
    model = dfc.loads(compiled(FATAL), threads=1, folder=tmp_path)
    np.testing.assert_array_equal(model.next().image, decode(GOOD[0], HEIGHT, WIDTH))
    size = len(encode_example({"image": GOOD[0], "label": np.array([0])})) + 16
    with pytest.raises(
        RecordError, match=rf"the image in record 1 of .*a\.rec, at byte {size}, is damaged: it is nei"
    ) as caught:
        model.next()
    error = caught.value
    assert (error.code, error.file, error.record, error.offset) == ("E0914", str(path), 1, size)


def test_code_resizes_images_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [decode(data, HEIGHT, WIDTH) for data in GOOD] * 2
    monkeypatch.delattr(Image.Image, "resize")
    np.testing.assert_array_equal([each.image for each in drained(flagged(tmp_path).next)], expected)


def test_images_of_folders_have_the_number_of_their_folder(tmp_path: Path) -> None:
    text = FATAL.replace('record_files("*.rec"', 'image_files("*/*"').replace("fields.", "record.")
    text = text.replace("  let fields = parse_example(record, (image = string, label = i64))\n", "")
    for number, name in enumerate(("b/1.jpg", "b/0.png", "a/7.jpg", "c/x")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes([*GOOD[:3], b"no image"][number])
    model = dfc.loads(compiled(text), threads=1, folder=tmp_path)
    got = [model.next() for _ in range(3)]
    assert [each.label for each in got] == [0, 1, 1]
    expected = [decode(GOOD[number], HEIGHT, WIDTH) for number in (2, 1, 0)]
    np.testing.assert_array_equal([each.image for each in got], expected)
    with pytest.raises(RecordError, match=r"the image in the file .*c/x, at byte 0, is damaged: it is neither"):
        model.next()
    with pytest.raises(FileError, match=r"wants files\n  name them: --data 'files=.*/\*/\*\.jpg'"):
        dfc.loads(compiled(text), threads=1, data={"files": tmp_path}).next()
    with pytest.raises(FileError, match=r"has none\n  name others: --data files=GLOB"):
        dfc.loads(compiled(text), threads=1, data={"files": tmp_path / "x" / "*"}).next()


def test_a_runner_that_meets_a_damaged_image_fails_with_it(tmp_path: Path) -> None:
    text = FLAGGED.replace(', on_error = "flag"', "").replace("COPIES", "3")
    text = text.replace(
        "if image.intact { ready.put(image.pixels, sample.cls) } else { broken += 1 }", "ready.put(image, sample.cls)"
    )
    write_samples(tmp_path / "a.tar", IMAGES)
    model = dfc.loads(compiled(text), threads=1, folder=tmp_path)
    with pytest.raises(
        RunError, match=r"(?s)the runner `read` has failed in iteration 2: the image in sample 2 of .*a\.tar"
    ):
        for _ in range(3):
            model.next()


def test_a_program_that_goes_on_from_a_checkpoint_gives_the_images_that_would_have_come(tmp_path: Path) -> None:
    model = flagged(tmp_path, 3)
    whole = [(each.label, each.image.tobytes()) for each in drained(model.next)]
    model = flagged(tmp_path, 3)
    first = [model.next() for _ in range(3)]
    model.save(tmp_path / "saved")
    other = flagged(tmp_path)
    other.restore(tmp_path / "saved")
    rest = drained(other.next)
    assert [(each.label, each.image.tobytes()) for each in (*first, *rest)] == whole
    assert other.damaged() == 4


def test_a_program_with_images_is_not_loaded_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedError, match="pip install 'dfc-runtime"):
        dfc.loads(compiled(FATAL), threads=1, folder=tmp_path)
