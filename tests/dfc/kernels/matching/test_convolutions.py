"""Contractions that are convolutions: what a kernel is matched to is what it means.

The reference is the interpreter of kernels, which knows nothing of matches; memory of the call begins as NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dfc.kernels.matching.convolution import SUMS
from dfc.kernels.matching.convolutions import convolutions
from tests.support.convolving import run_convolving
from tests.support.kernel_interpreter import run
from tests.support.simulated_programs import program_of
from tests.support.sweeping import few

X2, X1 = "7, 6, 4", "9, 4"
FORMS = {
    "valid": (X2, "3, 2, 4, 5", "5, 5, 5", ""),
    "same": (X2, "3, 3, 4, 5", "7, 6, 5", ', pad = "same"'),
    "steps": (X2, "3, 2, 4, 2", "4, 3, 2", ', stride = 2, pad = "same"'),
    "other steps": (X2, "2, 3, 4, 2", "3, 6, 2", ", stride = [3, 1], pad = 1"),
    "dilations": (X2, "3, 2, 4, 3", "5, 5, 3", ", dilation = [2, 3], pad = 1"),
    "uneven zeros": (X2, "2, 2, 4, 3", "8, 9, 3", ", pad = [[2, 0], [1, 3]]"),
    "groups": (X2, "3, 3, 2, 6", "7, 6, 6", ', pad = "same", groups = 2'),
    "groups and steps": (X2, "2, 2, 2, 4", "4, 4, 4", ", stride = 2, pad = 1, groups = 2"),
    "one element": (X2, "1, 1, 4, 3", "4, 3, 3", ", stride = 2"),
    "one axis": (X1, "3, 4, 2", "5, 2", ", stride = 2, pad = 1"),
    "one axis in groups": (X1, "3, 2, 6", "9, 6", ", pad = 1, groups = 2"),
    "one channel": ("6, 6, 1", "3, 3, 1, 3", "6, 6, 3", ", pad = 1"),
    "one channel out": (X2, "3, 3, 4, 1", "7, 6, 1", ", pad = 1"),
    "patches": ("6, 6, 2", "3, 3, 2, 5", "2, 2, 5", ", stride = 3"),
}
WHAT = ("forward", "data", "weights")
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
"""Sums of at most a few hundred products of about 1, in f32."""


def text_of(form: str, what: str) -> str:
    """An entry that gives a convolution, or its gradient by the image or the weights for cotangents `dy`."""
    x, w, y, options = FORMS[form]
    call = f"conv{x.count(',')}d(x, w{options})"
    made, value = {
        "forward": (f"B, {y}", f"{call} + 0 * dy"),
        "data": (f"B, {x}", f"grad(sum({call} * dy), x)"),
        "weights": (w, f"grad(sum({call} * dy), w)"),
    }[what]
    value = call if what == "forward" else value
    return (
        f"readonly entry f[B](x: f32[B, {x}], w: f32[{w}], dy: f32[B, {y}]) -> (made: f32[{made}]) {{ return {value} }}"
    )


def numbers(shape: str, batch: int) -> np.ndarray:
    sizes = tuple(batch if one == "B" else int(one) for one in shape.split(", "))
    return np.random.default_rng(sizes).normal(size=sizes).astype(np.float32)


def agree(text: str, feeds: list[Any], sizes: dict[str, int], state: dict[str, Any] | None = None) -> Any:
    """The entry with its convolutions made as matched means the same; the machine that ran it so."""
    first, second = ({name: np.array(one) for name, one in (state or {}).items()} for _ in range(2))
    program = program_of(text)
    wanted = run(program, "f", feeds, first, sizes)
    found, machine = run_convolving(program, "f", feeds, sizes, second)
    for one, other in zip((*found, *second.values()), (*wanted.results, *first.values()), strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), **CLOSE)
    return machine


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("form", few(FORMS, 7))
def test_every_form_is_one_convolution(form: str, what: str) -> None:
    x, w, y, _ = FORMS[form]
    machine = agree(text_of(form, what), [numbers(f"B, {x}", 2), numbers(w, 2), numbers(f"B, {y}", 2)], {"B": 2})
    assert [one.what.kind for one in machine.computed] == [what]
    cut = (form, what) == ("uneven zeros", "data")  # more zeros than a window reaches: they are cut off afterwards
    assert machine.launches == cut, "nothing else is left to do"


def test_what_is_added_to_results_is_part_of_the_convolution() -> None:
    text = """readonly entry f[B](x: f32[B, 5, 5, 2], w: f32[3, 3, 2, 3], b: f32[3], r: f32[B, 5, 5, 3])
      -> (y: f32[B, 5, 5, 3]) { return r + (conv2d(x, w, pad = 1) + b) }"""
    feeds = [numbers(one, 2) for one in ("B, 5, 5, 2", "3, 3, 2, 3", "3", "B, 5, 5, 3")]
    machine = agree(text, feeds, {"B": 2})
    (one,) = machine.computed
    assert one.what.bias is not None and one.what.added is not None and machine.launches == 0


def test_a_bias_of_grouped_channels() -> None:
    text = """readonly entry f[B](x: f32[B, 5, 5, 4], w: f32[3, 3, 2, 6], b: f32[6]) -> (y: f32[B, 5, 5, 6]) {
      return conv2d(x, w, pad = 1, groups = 2) + b }"""
    agree(text, [numbers(one, 2) for one in ("B, 5, 5, 4", "3, 3, 2, 6", "6")], {"B": 2})


def test_sums_are_made_apart_where_more_is_done_to_them() -> None:
    text = """readonly entry f[B](x: f32[B, 5, 5, 2], w: f32[3, 3, 2, 3], b: f32[3]) -> (y: f32[B, 5, 5, 3]) {
      return relu(conv2d(x, w, pad = 1) * b) }"""
    machine = agree(text, [numbers(one, 2) for one in ("B, 5, 5, 2", "3, 3, 2, 3", "3")], {"B": 2})
    (one,) = machine.computed
    assert one.slots[one.what.output.operand] == SUMS


def test_other_layouts_are_strides() -> None:
    text = """readonly entry f[B](x: f32[B, 4, 6, 5], w: f32[3, 2, 4, 3]) -> (y: f32[B, 3, 4, 4]) {
      return transpose(conv2d(transpose(x, [0, 2, 3, 1]), w), [0, 3, 1, 2]) }"""
    machine = agree(text, [numbers(one, 2) for one in ("B, 4, 6, 5", "3, 2, 4, 3")], {"B": 2})
    (one,) = machine.computed
    assert [str(each) for each in one.what.image.strides] == ["120", "30", "5", "1"]
    assert machine.launches == 1, "the transpose behind it"


def test_zeros_are_around_an_image_of_any_layout() -> None:
    text = """readonly entry f[B](x: f32[B, 4, 6, 5], w: f32[3, 2, 4, 3]) -> (y: f32[B, 6, 6, 3]) {
      return conv2d(transpose(x, [0, 2, 3, 1]), w, pad = 1) }"""
    machine = agree(text, [numbers(one, 2) for one in ("B, 4, 6, 5", "3, 2, 4, 3")], {"B": 2})
    assert len(machine.computed) == 1 and machine.launches == 0


def test_zeros_are_around_an_image_that_is_turned_round() -> None:
    text = """readonly entry f[B](x: f32[B, 6, 5, 2], w: f32[3, 2, 2, 3]) -> (y: f32[B, 6, 6, 3]) {
      return conv2d(reverse(x, axis = 1), w, pad = 1) }"""
    agree(text, [numbers(one, 2) for one in ("B, 6, 5, 2", "3, 2, 2, 3")], {"B": 2})


def test_sizes_that_only_a_call_knows() -> None:
    text = """readonly entry f[B, H](x: f32[B, H, 6, 2], w: f32[3, 3, 2, 3], dy: f32[B, H, 6, 3])
      -> (dw: f32[3, 3, 2, 3], dx: f32[B, H, 6, 2]) {
        let loss = sum(conv2d(x, w, pad = "same") * dy)
        return grad(loss, w), grad(loss, x) }"""
    for height in (1, 5):
        feeds = [numbers(one.replace("H", str(height)), 2) for one in ("B, H, 6, 2", "3, 3, 2, 3", "B, H, 6, 3")]
        machine = agree(text, feeds, {"B": 2, "H": height})
        assert len(machine.computed) >= 1


TRAINED = """
var w: f32[3, 3, 2, 4] = 0
var v: f32[3, 3, 4, 2] = 0
entry f[B](x: f32[B, 6, 6, 2]) -> (loss: f32) {
  let loss = mean(square(conv2d(relu(conv2d(x, w, pad = 1)), v, stride = 2, pad = 1)))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  return loss
}"""


def test_training_makes_all_gradients_and_keeps_what_they_need() -> None:
    state = {"w": numbers("3, 3, 2, 4", 2), "v": numbers("3, 3, 4, 2", 2)}
    machine = agree(TRAINED, [numbers("B, 6, 6, 2", 2)], {"B": 2}, state)
    kinds = sorted(one.what.kind for one in machine.computed)
    assert kinds == ["data", "forward", "forward", "weights", "weights"]


def test_state_that_was_written_in_between_is_not_read_again() -> None:
    text = """
var s: f32[2, 6, 6, 2] = 0
entry f(u: f32[2, 6, 6, 2], w: f32[3, 3, 2, 4]) -> (y: f32[2, 6, 6, 4]) {
  let seen = s
  s := u
  return conv2d(seen, w, pad = 1)
}"""
    feeds = [numbers(one, 2) for one in ("2, 6, 6, 2", "3, 3, 2, 4")]
    machine = agree(text, feeds, {}, {"s": 1 + numbers("2, 6, 6, 2", 3)})
    assert machine.computed


def test_windows_that_others_read_too() -> None:
    text = """readonly entry f[B](x: f32[B, 5, 5, 2], w: f32[3, 3, 2, 3]) -> (y: f32[B, 3, 3, 3], s: f32) {
      let seen = windows(x, axis = [1, 2], size = 3)
      return conv2d(x, w), sum(square(seen)) }"""
    agree(text, [numbers(one, 2) for one in ("B, 5, 5, 2", "3, 3, 2, 3")], {"B": 2})


UNLIKE = {
    "a product": "readonly entry f[B](x: f32[B, 8], w: f32[8, 4]) -> (y: f32[B, 4]) { return x @ w }",
    "a batch of products": """readonly entry f[B](x: f32[B, 3, 8], w: f32[B, 8, 4]) -> (y: f32[B, 3, 4]) {
      return x @ w }""",
    "pointwise": """readonly entry f[B](x: f32[B, 4, 4, 3], w: f32[1, 1, 3, 5]) -> (y: f32[B, 4, 4, 5]) {
      return conv2d(x, w) }""",
    "a loop": """readonly entry f[B](x: f32[B, 6, 6, 2], w: f32[3, 3, 2, 2], n: i64) -> (y: f32[B, 6, 6, 2]) {
      return loop h: f32[B, 6, 6, 2] = x for i in 0..n { h = conv2d(h, w, pad = 1) } }""",
}


@pytest.mark.parametrize("name", UNLIKE)
def test_what_is_no_convolution_of_a_call_is_not_matched(name: str) -> None:
    assert not convolutions(program_of(UNLIKE[name]))
