"""What a bundle tells of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfc
from dfc.cli.commands import inspect_command
from dfc.ir.options import TargetOptions
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.observe.kernel_reports import call_reports, kernel_reports
from dfc_target_cuda.code.assemble import find_ptxas
from dfc_target_cuda.target import architectures

TEXT = """dfg 1

readonly entry scale[N](x: f32[4 * N], rate: f32) -> (y: f32[4 * N]) {
  let y = x * rate
  return y
}

readonly entry total[N](x: f32[N]) -> (s: f32) {
  let e = exp(x)
  return sum(e)
}
"""


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return dfc.compile(text=TEXT, target="cuda", variants=["sm_80", "sm_90"]).to_bytes()


def test_a_kernel_is_told_by_name_line_geometry_and_wide_accesses(bundle: bytes) -> None:
    scale, total = kernel_reports(dfc.verify(bundle))
    assert (scale.name, scale.line, scale.values) == ("k0", "<text>:3:16", ("scale/y",))  # its entry
    assert (total.name, total.line, total.values[0]) == ("k1", "<text>:10:10", "total/e")
    assert scale.wide >= 2  # a load and a store of four numbers
    assert scale.geometry == "256 threads x (d0) / 256 blocks, at most 2048"


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas here")
def test_a_kernel_tells_what_it_takes_of_each_architecture(bundle: bytes) -> None:
    scale, total = kernel_reports(dfc.verify(bundle))
    assert set(scale.taken) == {"sm_80", "sm_90"}
    assert all(0 < each.registers <= 255 and each.spilled == each.shared == 0 for each in scale.taken.values())
    assert all(each.shared > 0 for each in total.taken.values())  # warps give their sums to each other


def test_inspect_prints_it(bundle: bytes, tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scale.bundle").write_bytes(bundle)
    inspect_command.command.callback(str(tmp_path / "scale.bundle"), source=False, size_pairs=())
    told = capsys.readouterr().out
    assert "k0     <text>:3:16  scale/y" in told and "accesses of 16 bytes" in told
    assert "compute_80" in told and "needs compute_80" in told
    assert "a call: 1 launch, 1 kernel or copy, at least 32 * N + 4 bytes moved; feeds 16 * N + 4 bytes" in told


def test_work_of_the_host_cuts_a_call_into_launches() -> None:
    text = """dfg 1

entry told[N](x: f32[N]) -> f32[N] {
  let y = x * 2
  debug.print("half way: {}", sum(y))
  return exp(y)
}
"""
    calls = call_reports(dfc.verify(dfc.compile(text=text, target="cuda", variants=["sm_80"]).to_bytes()))
    assert calls["told"].launches == 2


def test_inspect_says_who_may_make_a_product_and_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "dfg 1\nreadonly entry f[N, K](x: f32[N, K], w: f32[K, 512], v: f32[512, 4])"
    text += " -> (y: f32[N, 4], n: i32[K, K]) {\n"
    text += "  return exp(relu(x @ w) @ v) @ ones(f32[4, 4]), (ones(i32[K, N]) @ ones(i32[N, K]))\n}\n"
    made = dfc.compile(text=text, target="cuda", variants=["sm_80"]).to_bytes()
    kernels = kernel_reports(dfc.verify(made))
    told = [kernel.maker for kernel in kernels if kernel.maker]
    assert told == [
        "cuBLASLt may make the product, and k6 the rest, where sizes make it worth while: "
        "what follows is more than a library does: maximum",
        "no library makes it: what follows is more than a library does: exp, and it is too small to be made apart",
        "cuBLASLt may make it",
        "no library makes it: it multiplies i32, summed in i32",
        "takes on what libraries make of k0",
    ]
    assert kernels[-1].wide >= 2, "four sums at once, and four results"
    (tmp_path / "f.bundle").write_bytes(made)
    inspect_command.command.callback(str(tmp_path / "f.bundle"), source=False, size_pairs=())
    printed = capsys.readouterr().out
    assert all(f"\n         {line}\n" in printed for line in told)


def test_a_kernel_that_goes_on_with_several_products_names_all() -> None:
    text = "dfg 1\nreadonly entry f[N, K](x: f32[N, K], w: f32[K, 512], v: f32[512, K])"
    text += " -> (y: f32[N, 512], z: f32[N, 512]) {\n  return tanh(x @ w), tanh(x @ transpose(v))\n}\n"
    kernels = kernel_reports(dfc.verify(dfc.compile(text=text, target="cuda", variants=["sm_80"]).to_bytes()))
    (last,) = (kernel for kernel in kernels if kernel.maker.startswith("takes on"))
    assert last.maker == "takes on what libraries make of k0, k1"
    assert last.line == kernels[0].line


def test_a_part_of_a_program_that_runs_as_ptx_is_compiled_for_its_architecture() -> None:
    assert architectures(TargetOptions(("compute_80",))) == ("sm_80",)
    assert architectures(TargetOptions(("sm_90", "compute_80"))) == ("sm_80", "sm_90")
    with pytest.raises(UnsupportedError, match=r"no instruction-set variant 'sm90': did you mean `sm_90`\?"):
        architectures(TargetOptions(("sm90",)))
