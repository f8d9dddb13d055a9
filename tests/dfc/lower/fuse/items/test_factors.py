"""Products see through windows, reshapes and zeros to the memory of an image; what others use as well stays memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.ir.dims import product
from dfc.kernels.form import ContractKernel
from dfc.kernels.program import BufferRole, EntryProgram, Program
from tests.support import vgg
from tests.support.building import graph_of
from tests.support.direct_convolution import Form, forward
from tests.support.kernel_interpreter import run

BATCH = 8
LARGEST_WEIGHTS = 9 * 256 * 256


def program_of(text: str) -> Program:
    return pipeline.scheduled(pipeline.optimise(graph_of(text)))


def products(program: Program) -> list[ContractKernel]:
    return [kernel for kernel in program.kernels if isinstance(kernel, ContractKernel)]


def arena_elements(entry: EntryProgram) -> list[int]:
    """Of every planned buffer."""
    sizes = dict.fromkeys(entry.dims, BATCH)
    return [product(b.shape).evaluate(sizes) for b in entry.buffers if b.role is BufferRole.ARENA]


@pytest.mark.parametrize(
    ("text", "largest", "before"),
    [
        (vgg.TEXT, vgg.LARGEST_ACTIVATION, 59_506_688),
        (Path("samples/convnet.dfg").read_text(), 8 * 8 * 16, 590_976),
    ],
    ids=["vgg", "convnet"],
)
def test_training_plans_no_buffer_of_windows(text: str, largest: int, before: int) -> None:
    """`before`: bytes of the arena while windows were copied."""
    program = program_of(text)
    entry = next(entry for entry in program.entries if entry.name == "train")
    assert entry.arena.evaluate(dict.fromkeys(entry.dims, BATCH)) < 0.7 * before
    assert max(arena_elements(entry)) <= max(largest * BATCH, LARGEST_WEIGHTS)


def test_bias_and_activation_follow_in_the_kernel_of_a_convolution() -> None:
    program = program_of(
        "dfg 1\nreadonly entry f[B](x: f32[B, 8, 8, 4], w: f32[3, 3, 4, 16], b: f32[16]) -> (y: f32[B, 8, 8, 16]) {\n"
        '  return relu(conv2d(x, w, pad = "same") + b)\n}\n'
    )
    (kernel,) = program.kernels
    assert isinstance(kernel, ContractKernel)
    assert kernel.a.inside == ((1, 1), (2, 1))
    assert [split.axis for split in kernel.a.splits] == [kernel.m, kernel.k]


def test_windows_that_something_else_needs_in_memory_are_read_from_there() -> None:
    text = """dfg 1
readonly entry f(x: f32[9, 2], w: f32[6, 5]) -> (seen: f32[7, 6], y: f32[7, 5]) {
  let seen = reshape(transpose(windows(x, axis = 0, size = 3), [0, 2, 1]), [7, 6])
  return relu(seen), seen @ w
}
"""
    program = program_of(text)
    assert all(kernel.a.is_strided and kernel.b.is_strided for kernel in products(program))
    x, w = np.arange(18, dtype=np.float32).reshape(9, 2), np.ones((6, 5), np.float32)
    seen, y = run(program, "f", [x, w], {}, {}).results
    np.testing.assert_array_equal(y, seen @ w)


def test_both_gradients_read_the_image_and_the_kernel_where_they_lie() -> None:
    text = """dfg 1
readonly entry f(x: f32[2, 6, 6, 2], w: f32[3, 3, 2, 4]) -> (dx: f32[2, 6, 6, 2], dw: f32[3, 3, 2, 4]) {
  let y = conv2d(x, w, stride = 2, pad = 1)
  let loss = sum(y * y)
  return grad(loss, x), grad(loss, w)
}
"""
    program = program_of(text)
    forms = {(kernel.a.inside, kernel.b.is_strided) for kernel in products(program)}
    assert (((1, 2), (2, 2)), False) in forms, "the gradient by the image reads between zeros"
    assert (((1, 1), (2, 1)), True) in forms, "the gradient by the kernel reads windows of the image"


def test_the_interpreter_reads_through_the_same_maps() -> None:
    form = Form((2, 1), (1, 2), ((1, 2), (0, 3)), 2)
    text = "dfg 1\nreadonly entry f(x: f32[2, 5, 6, 4], w: f32[2, 2, 2, 6]) -> (total: f32[2, 4, 7, 6]) {\n"
    text += f"  return conv2d(x, w, {form.options()})\n}}\n"
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 6, 4), (2, 2, 2, 6)))
    (y,) = run(program_of(text), "f", [x, w], {}, {}).results
    np.testing.assert_allclose(y, forward(form, x, w), rtol=1e-5, atol=1e-5)


def test_zeros_around_one_channel_need_no_memory() -> None:
    """Where all axes but two have one element, nothing but views is between the zeros and the product."""
    text = """dfg 1
readonly entry f(x: f32[2, 1, 3, 1], w: f32[1, 3, 1, 4]) -> (y: f32[2, 1, 1, 4]) {
  return conv2d(x, w, dilation = [1, 2], pad = [[0, 0], [1, 1]])
}
"""
    (kernel,) = products(program_of(text))
    assert kernel.a.inside == ((2, 1),)
