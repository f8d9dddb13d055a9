"""Which systems there are, and what starts a process of each: its environment, its packages, its switches.

`ISA_SWITCHES` restrict a system to an instruction set on a processor that has more. What a system cannot be restricted
by is in `UNRESTRICTED`, and its column says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.limits.processor import X86_64_V2, X86_64_V3, X86_64_V4

DFC, LIMIT = "dfc", "limit"


@dataclass(frozen=True, slots=True)
class System:
    """`module` prepares cases, all variants of a system alike. `environment` is the virtual environment it lives in:
    packages that clash have different ones. Packages are names of the extra `bench`, which pins them."""

    name: str
    title: str
    module: str
    environment: str = ""
    packages: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


_ANEW = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
"""Compiling is timed without what was compiled before, here as in dfc."""
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}

PEERS: dict[str, System] = {
    system.name: system
    for system in (
        System("numpy", "NumPy", "bench.peers.numpy_peer", "numpy", ("numpy",)),
        System("torch", "PyTorch", "bench.peers.torch_peer", "torch", ("torch", "numpy")),
        System("torch_compile", "torch.compile", "bench.peers.torch_peer", "torch", ("torch", "numpy"), _ANEW),
        System("jax", "JAX", "bench.peers.jax_peer", "jax", ("jax", "numpy"), _QUIET),
        System("tf", "TensorFlow", "bench.peers.tensorflow_peer", "tensorflow", ("tensorflow-cpu", "numpy"), _QUIET),
        System("tf_xla", "TF XLA", "bench.peers.tensorflow_peer", "tensorflow", ("tensorflow-cpu", "numpy"), _QUIET),
        System("ort", "ONNX Runtime", "bench.peers.onnx_peer", "onnx", ("onnxruntime", "onnx", "openvino", "numpy")),
        System("openvino", "OpenVINO", "bench.peers.onnx_peer", "onnx", ("onnxruntime", "onnx", "openvino", "numpy")),
    )
}

OWN = System(DFC, "dfc", "bench.peers.dfc_peer", variables={"DFC_CACHE": "0"})
LIMITS = System(LIMIT, "limit", "bench.limits.limit_peer")

_ONEDNN = {X86_64_V2: "SSE41", X86_64_V3: "AVX2", X86_64_V4: "AVX512_CORE"}
_MKL = {X86_64_V2: "SSE4_2", X86_64_V3: "AVX2", X86_64_V4: "AVX512"}
_OPENBLAS = {X86_64_V2: "Nehalem", X86_64_V3: "Haswell", X86_64_V4: "SkylakeX"}
_XLA = {X86_64_V2: "SSE4_2", X86_64_V3: "AVX2", X86_64_V4: "AVX512"}
_ATEN = {X86_64_V2: "default", X86_64_V3: "avx2", X86_64_V4: "avx512"}


def isa_switches(isa: str | None) -> dict[str, str]:
    """Environment variables that restrict the libraries of all systems; nothing for the processor as it is."""
    if isa is None:
        return {}
    return {
        "ONEDNN_MAX_CPU_ISA": _ONEDNN[isa],
        "DNNL_MAX_CPU_ISA": _ONEDNN[isa],
        "MKL_ENABLE_INSTRUCTIONS": _MKL[isa],
        "OPENBLAS_CORETYPE": _OPENBLAS[isa],
        "ATEN_CPU_CAPABILITY": _ATEN[isa],
        "XLA_FLAGS": f"--xla_cpu_max_isa={_XLA[isa]}",
    }


UNRESTRICTED: dict[str, str] = {
    "ort": "not restricted: its own kernels (MLAS) have no switch for the instruction set",
    "openvino": "restricted but for single products of f32, which are ONNX Runtime's (MLAS)",
    "numpy": "restricted in products (OpenBLAS) alone",
}
"""What a system uses of the processor whatever it is told."""
