"""What `--distortions` makes of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dfc.cli.networks.programs import Programs, read_programs
from dfc.cli.networks.zoo import in_zoo
from dfc.driver import api
from dfc.ir.options import CompileOptions
from tests.support.quick_code import quick_code


def test_images_are_changed_by_their_numbers_and_come_through_a_folder(tmp_path: Path) -> None:
    with quick_code():
        data = api.compile_source(api.read(in_zoo("distortions.dfg")), CompileOptions("cpu", (("IMAGE", 8),)))
    Programs(b"network", data.to_bytes()).write(tmp_path)
    programs = read_programs(tmp_path)
    assert programs.network == b"network"
    image = np.random.default_rng(3).integers(0, 256, (8, 8, 3), np.uint8)
    with programs.change(1) as change:
        assert change is not None
        first, second = change(np.stack([image, image]), 5)
        (alone,) = change(image[None], 6)
    assert (first.shape, first.dtype) == ((8, 8, 3), np.float32)
    assert max(np.abs(first).max(), np.abs(second).max()) <= 1
    np.testing.assert_array_equal(alone, second)
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, image / np.float32(127.5) - 1)


def test_without_distortions_nothing_is_changed(tmp_path: Path) -> None:
    Programs(b"network").write(tmp_path)
    programs = read_programs(tmp_path)
    assert programs == Programs(b"network")
    with programs.change(1) as change:
        assert change is None
