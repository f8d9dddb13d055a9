"""`dfc why`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Command

PROGRAM = """dfg 1

entry scale[B](x: f32[B, 100, 64], v: f32[64]) -> (y: f32[B, 100, 64], largest: f32) {
  let y = x * rsqrt(v)
  return y, max(y)
}

entry other(x: f32[4]) -> (z: f32[4]) {
  return exp(x)
}
"""


@pytest.fixture
def program(folder: Path) -> str:
    (folder / "scaling.dfg").write_text(PROGRAM)
    return "scaling.dfg"


def test_decisions_are_told_with_their_figures(program: str, dfc: Command) -> None:
    ended = dfc("why", program)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "entry scale"
    # both results read it at 64 * 100 * 64 points; an rsqrt has a weight of 4
    once = "scale/y/rsqrt is computed once: "
    (line,) = (line.strip() for line in lines if once in line)
    assert line.endswith(f"saves {4 * (2 * 64 * 100 * 64 - 64) / 1e6:.1f} M operations, with B = 64")
    assert "  kernel 0: scale/y/rsqrt, at least 512 bytes" in lines
    assert "entry other" in lines


def test_a_name_chooses_what_is_told(program: str, dfc: Command) -> None:
    ended = dfc("why", program, "other/z")
    assert ended.out.splitlines()[0] == "entry other"
    assert "scale" not in ended.out


def test_a_name_that_nothing_has_is_refused(program: str, dfc: Command) -> None:
    ended = dfc("why", program, "nowhere")
    assert ended.code == 2
    assert "no kernel of scaling.dfg mentions nowhere\n" in ended.err
    assert "mentions other/zz: did you mean `other/z`?" in dfc("why", program, "other/zz").err


def test_a_program_without_kernels_is_called_that(folder: Path, dfc: Command) -> None:
    (folder / "empty.dfg").write_text("dfg 1\n\nconst N: int = 3\n")
    assert "empty.dfg has no kernels" in dfc("why", "empty.dfg").err


ATTENTION = """dfg 1

readonly entry mixed(q: f32[512, 64], k: f32[512, 64], v: f32[512, 64]) -> (y: f32[512, 64]) {
  return softmax(q @ transpose(k)) @ v
}
"""


def test_kernels_are_those_of_the_target(folder: Path, dfc: Command) -> None:
    (folder / "attention.dfg").write_text(ATTENTION)
    joined, apart = dfc("why", "attention.dfg"), dfc("why", "attention.dfg", "--target", "cuda")
    assert (joined.out.count("  kernel "), apart.out.count("  kernel ")) == (1, 3)
    assert "rows" in joined.out


def test_a_target_that_is_not_there_is_refused(program: str, dfc: Command) -> None:
    ended = dfc("why", program, "--target", "gpu")
    assert ended.code == 3 and "no target 'gpu'" in ended.message


CONVOLUTION = """dfg 1

readonly entry f[B](x: f32[B, 28, 28, 32], w: f32[3, 3, 32, 64]) -> (y: f32[B, 28, 28, 64]) {
  return conv2d(x, w, pad = 1)
}
"""


def test_convolutions_by_winograds_algorithm_are_said_to_be(folder: Path, dfc: Command) -> None:
    (folder / "convolution.dfg").write_text(CONVOLUTION)
    assert (
        "is made by Winograd's algorithm in tiles of 4 x 4, with 4 times fewer products"
        in dfc("why", "convolution.dfg").out
    )
    for suffix, lines in (("", 1), ("-winograd", 0)):
        dfc("compile", "convolution.dfg", "--isa", f"x86-64-v2{suffix}", "-o", "convolution.bundle")
        shown = dfc("inspect", "convolution.bundle").out
        assert shown.count("kernels with convolutions by Winograd's algorithm: 1") == lines
