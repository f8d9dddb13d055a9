"""What `--target cuda` makes: which images, for which devices and drivers, and equal bytes for equal programs."""

from __future__ import annotations

import re

import pytest

from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc_driver_cuda.libcuda import capability_bits
from dfc_runtime.errors import BundleError, UnsupportedError
from dfc_runtime.formats.manifest import ImageEntry
from dfc_runtime.processor import choose_image
from dfc_target_cuda.code.assemble import assembler_release, find_ptxas
from dfc_target_cuda.images import portable
from dfc_target_cuda.target import CudaTarget, architectures
from tests.support.simulated_programs import program_of

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
TEXT = "readonly entry scale[B](x: f32[B], k: f32) -> (y: f32[B]) { return x * k }"


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(TEXT)


@needs_ptxas
def test_machine_code_comes_first_and_ptx_last(program: Program) -> None:
    lowered = CudaTarget().lower(program, TargetOptions(("sm_90", "sm_80")))
    release = f"cuda_{assembler_release()}"
    assert assembler_release() >= 12
    assert [(image.isa, image.required_bits) for image in lowered.images] == [
        ("sm_90", ("sm_90", release)), ("sm_80", ("sm_80", release)), ("compute_80", ("compute_80",)),
    ]  # fmt: skip
    assert all(image.symbols.keys() == {"k0", "entry_0_0"} for image in lowered.images)
    assert lowered.images[0].code.startswith(b"\x7fELF") and lowered.images[-1].code.startswith(b".version 8.0\n")
    again = CudaTarget().lower(program, TargetOptions(("sm_80", "sm_90")))
    assert again == lowered


@needs_ptxas
@pytest.mark.parametrize(
    ("capability", "drivers", "chosen"),
    [
        ((9, 0), (12, 13), "sm_90"), ((8, 6), (12, 13), "sm_80"), ((10, 0), (12, 13), "compute_80"),
        ((9, 0), (12,), "compute_80"), ((7, 5), (12, 13), None),
    ],
)  # fmt: skip
def test_each_device_gets_the_best_code_that_its_driver_takes(
    program: Program, capability: tuple[int, int], drivers: tuple[int, ...], chosen: str | None
) -> None:
    if assembler_release() != 13:
        pytest.skip("the assembler is of another release")
    lowered = CudaTarget().lower(program, TargetOptions())
    images = [ImageEntry(i.isa, dict(i.symbols), i.required_bits) for i in lowered.images]
    bits = capability_bits(*capability) | {f"cuda_{release}" for release in drivers}
    if chosen is None:
        with pytest.raises(BundleError):
            choose_image(images, bits)
    else:
        assert choose_image(images, bits).isa == chosen


def test_architectures_are_those_asked_for_oldest_first() -> None:
    assert architectures(TargetOptions(("sm_120", "sm_80", "sm_80"))) == ("sm_80", "sm_120")
    assert architectures(TargetOptions()) == ("sm_80", "sm_90")
    with pytest.raises(UnsupportedError, match="known: sm_75"):  # numbers have no spelling to go by
        architectures(TargetOptions(("sm_91",)))
    with pytest.raises(UnsupportedError, match="stands alone"):
        architectures(TargetOptions(("simulator", "sm_80")))


def test_ptx_states_the_oldest_version_that_will_do() -> None:
    module = ".version 9.5\n.target sm_80\n.visible .entry k0()\n"
    assert [re.findall(r"\.version ([\d.]+)", portable(module, newest)) for newest in (75, 90, 100, 120)] == [
        ["8.0"], ["8.0"], ["8.6"], ["8.8"],
    ]  # fmt: skip


def test_a_program_without_kernels_is_still_a_bundle() -> None:
    lowered = CudaTarget().lower(Program("empty"), TargetOptions(("sm_80",)))
    assert [image.isa for image in lowered.images] == ["compute_80"]
    assert lowered.images[0].code


PRODUCT = "readonly entry f(x: f32[256, 256], y: f32[256, 256]) -> (z: f32[256, 256]) { return x @ y }"


@needs_ptxas
def test_products_round_their_factors_only_where_every_architecture_says_so() -> None:
    program = program_of(PRODUCT)
    exact = CudaTarget().lower(program, TargetOptions(("sm_80",)))
    rounded = CudaTarget().lower(program, TargetOptions(("sm_80+tf32", "sm_90+tf32")))
    assert [(image.isa, image.required_bits[0]) for image in rounded.images] == [
        ("sm_90+tf32", "sm_90"), ("sm_80+tf32", "sm_80"), ("compute_80+tf32", "compute_80"),
    ]  # fmt: skip
    assert b"tf32" in rounded.images[-1].code and b"tf32" not in exact.images[-1].code
    again = CudaTarget().lower(program, TargetOptions((rounded.images[-1].isa,)))  # as parts of a program ask for it
    assert again.images[-1] == rounded.images[-1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("sm_80+tf32", "sm_90"), r"write sm_90\+tf32, too"),
        (("sm_75+tf32",), "sm_75 has no tensor cores for tf32: they begin with sm_80"),
        (("sm_80+fast",), "there is no instruction-set variant 'sm_80.fast'"),
    ],
)
def test_what_cannot_round_is_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        CudaTarget().lower(program_of(TEXT), TargetOptions(names))
