"""What `dfc inspect` says of convolutions: who may make them, and why nobody else makes one."""

from __future__ import annotations

from dfc.kernels.form import ContractKernel
from dfc.lower.threads.schedule import SIMULATED
from dfc_target_cuda.kernels.kernel_code import kernel_code
from dfc_target_cuda.plan.convolution_report import convolution_makers
from tests.support.simulated_programs import interpreted_text, program_of


def told(text: str) -> list[str]:
    """What there is to say of each kernel, those of sums first."""
    program = program_of(text)
    found = convolution_makers(program, kernel_code(program, SIMULATED, interpreted_text))
    return [said for _, said in sorted(found.items(), key=lambda each: not is_sum(program.kernels[each[0]]))]


def is_sum(kernel: object) -> bool:
    return isinstance(kernel, ContractKernel)


FEEDS = "readonly entry f[B](x: {0}[B, 6, 6, 2], w: {0}[3, 3, 2, 3], b: {0}[3])"


def test_a_convolution_with_its_bias() -> None:
    text = FEEDS.format("f32") + " -> (y: f32[B, 6, 6, 3]) { return conv2d(x, w, pad = 1) + b }"
    assert told(text) == ["a convolution with its bias: cuDNN may make it"]


def test_a_convolution_that_a_kernel_goes_on_with() -> None:
    text = FEEDS.format("f32") + " -> (y: f32[B, 6, 6, 3]) { return relu(conv2d(x, w, pad = 1) * b) }"
    assert told(text)[0] == "a convolution: cuDNN may make it, and k1 the rest"


def test_gradients() -> None:
    text = (
        FEEDS.format("f32")
        + """ -> (dx: f32[B, 6, 6, 2], dw: f32[3, 3, 2, 3]) {
      let loss = sum(square(conv2d(x, w, stride = 2)))
      return grad(loss, x), grad(loss, w) }"""
    )
    said = told(text)
    assert "a gradient by the image: cuDNN may make it" in said
    assert "a gradient by the filter: cuDNN may make it" in said


def test_short_sums_are_rounded_before_a_kernel_goes_on_with_them() -> None:
    text = FEEDS.format("bf16") + " -> (y: bf16[B, 6, 6, 3]) { return conv2d(x, w, pad = 1) + b }"
    assert told(text) == ["a convolution: cuDNN may make it, and k1 the rest"]


def test_why_not() -> None:
    text = FEEDS.format("i32") + " -> (y: i32[B, 6, 6, 3]) { return conv2d(x, w, pad = 1) }"
    assert told(text) == ["a convolution, but cuDNN does not make it: it works on i32"]


def test_products_are_not_spoken_of() -> None:
    assert told("readonly entry f[B](x: f32[B, 8], w: f32[8, 4]) -> (y: f32[B, 4]) { return x @ w }") == []
