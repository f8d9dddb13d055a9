from __future__ import annotations

import array as standard_arrays
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.calls import feeds
from dfc_runtime.errors import FeedError
from tests.support.bundles import entry


def taken(value: object, type_: str = "f32[B, 4]") -> np.ndarray:
    made = entry("train", {"images": type_}, dims=["B"])
    return feeds.array(made, made.parameters[0], value)


def refusal(value: object, type_: str = "f32[B, 4]") -> str:
    with pytest.raises(FeedError) as caught:
        taken(value, type_)
    assert caught.value.code == "E0901"
    return caught.value.message


GOOD = np.arange(8, dtype="f4").reshape(2, 4)


def test_the_message_for_a_wrong_shape_is_the_one_promised() -> None:
    made = entry("train", {"images": "f32[B, 784]"}, dims=["B"])
    with pytest.raises(FeedError) as caught:
        feeds.array(made, made.parameters[0], np.zeros((64, 28, 28), "f4"))
    assert caught.value.message == (
        "`train` wants images: f32[B, 784], but got float32 of shape (64, 28, 28)\n"
        "  the entry is declared at model.dfg:31\n"
        "  rank 3 instead of 2; 28 * 28 is 784, so perhaps images.reshape(-1, 784)"
    )


def test_a_fitting_array_is_not_copied() -> None:
    assert taken(GOOD) is GOOD
    frozen = GOOD.copy()
    frozen.flags.writeable = False
    assert np.shares_memory(taken(frozen), frozen)


@pytest.mark.parametrize(
    "value",
    [np.asfortranarray(GOOD), np.repeat(GOOD, 2, axis=0)[::2], GOOD[::-1][::-1], GOOD[:, ::-1], GOOD.T.copy().T],
)
def test_other_layouts_are_copied_with_the_same_numbers(value: np.ndarray) -> None:
    found = taken(value)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, value)


def test_unaligned_arrays_are_copied() -> None:
    raw = np.zeros(33, np.uint8)
    shifted = raw[1:].view("f4").reshape(2, 4)
    shifted[:] = GOOD
    assert taken(shifted).flags.aligned
    np.testing.assert_array_equal(taken(shifted), GOOD)


class HasInterface:
    def __init__(self, array: np.ndarray) -> None:
        self.kept = array
        self.__array_interface__ = array.__array_interface__


class HasDlpack:
    def __init__(self, array: np.ndarray) -> None:
        self.kept = array

    def __dlpack__(self, **options: object) -> object:
        return self.kept.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kept.__dlpack_device__()


@pytest.mark.parametrize("wrap", [memoryview, HasInterface, HasDlpack])
def test_other_kinds_of_arrays_share_their_memory(wrap: type) -> None:
    assert np.shares_memory(taken(wrap(GOOD)), GOOD)


def test_buffers_of_the_standard_library_are_arrays() -> None:
    np.testing.assert_array_equal(taken(standard_arrays.array("f", [1, 2]), "f32[N]"), [1, 2])
    np.testing.assert_array_equal(taken(b"ab", "u8[N]"), [97, 98])


def test_arrays_of_no_elements_fit() -> None:
    assert taken(np.zeros((0, 4), "f4")).shape == (0, 4)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (GOOD.astype("f8"), ["float64 of shape (2, 4)", "images.astype(np.float32)"]),
        (GOOD.astype(">f4"), ["big-endian float32", "order of other machines"]),
        (GOOD.astype(object), ["object", "an array of objects has no numbers"]),
        (np.ma.masked_array(GOOD, GOOD > 3), ["MaskedArray", "a mask would be lost"]),
        (GOOD.tolist(), ["a list", "np.asarray(images, np.float32)"]),
        (np.zeros((2, 5), "f4"), ["axis 1 has size 5 instead of 4"]),
        (np.zeros((4, 2), "f4"), ["axis 1 has size 2 instead of 4", "images.T"]),
        (np.zeros(8, "f4"), ["rank 1 instead of 2", "images.reshape(-1, 4)"]),
        (np.float32(1), ["float32 1.0"]),
        (1.5, ["got 1.5"]),
        (None, ["got None"]),
        ("x", ["got 'x'"]),
        (object(), ["an object"]),
        (np.array("2020-01-01", "M8[D]"), ["datetime64"]),
        (np.zeros(2, [("a", "f4")]), ["void"]),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(value: object, words: list[str]) -> None:
    message = refusal(value)
    assert message.startswith("`train` wants images: f32[B, 4], but got ")
    for word in words:
        assert word in message


def test_no_reshape_is_proposed_that_would_not_work() -> None:
    assert "reshape" not in refusal(np.zeros((3, 3), "f4"))
    assert "reshape" not in refusal(np.zeros(7, "f4"))


def test_a_bfloat16_array_needs_its_own_type() -> None:
    import ml_dtypes

    value = np.ones(3, ml_dtypes.bfloat16)
    assert taken(value, "bf16[N]") is value
    assert "ml_dtypes.bfloat16" in refusal(np.ones(3, "f2"), "bf16[N]")


def test_a_path_is_a_text() -> None:
    made = entry("save", {"path": "text"})
    assert feeds.text(made, made.parameters[0], Path("a/b")) == "a/b"
    with pytest.raises(FeedError, match="a text is wanted"):
        feeds.text(made, made.parameters[0], b"a/b")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_of_thousands_of_digits_is_told_by_its_length(sign: int) -> None:
    made, number = entry("train", {"rate": "i32"}), sign * 10**5000
    with pytest.raises(FeedError, match="got a number of 16610 bits"):
        feeds.scalar(made, made.parameters[0], number)
