"""Machine descriptions: what the lowering needs to know of a processor family, as data.

Assumes one description per instruction-set variant. Guarantees that `features` holds instruction-set bits only
(tuning is kept apart, since it never decides whether code runs).
"""

from dataclasses import replace

import llvmlite.binding as llvm

from dfc.deferred.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """One processor family. Sizes in bytes, per core except `l3_bytes`; `required_bits` are the names of `features` in
    `/proc/cpuinfo`, which code images state. `winograd`: whether convolutions may be made by Winograd's algorithm,
    which rounds otherwise than one chain of multiply-adds."""

    name: str
    triple: str
    llvm_cpu: str
    features: str
    required_bits: tuple[str, ...]
    tuning: str
    vector_bits: int
    vector_registers: int
    fused_multiply_add: bool
    fma_ports: int
    fma_latency: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int
    winograd: bool = True

    @property
    def llvm_features(self) -> str:
        return ",".join(filter(None, (self.features, self.tuning)))

    def lanes(self, element_bits: int) -> int:
        """Elements of a vector register."""
        return self.vector_bits // element_bits


_X86_TRIPLE = "x86_64-unknown-linux-gnu"

X86_64_V2 = Machine(
    name="x86-64-v2",
    triple=_X86_TRIPLE,
    llvm_cpu="x86-64-v2",
    features="+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2",
    required_bits=("cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"),
    tuning="",
    vector_bits=128,
    vector_registers=16,
    fused_multiply_add=False,
    fma_ports=1,
    fma_latency=8,
    l1_bytes=32 << 10,
    l2_bytes=256 << 10,
    l3_bytes=4 << 20,
    cores=2,
)

X86_64_V3 = replace(
    X86_64_V2,
    name="x86-64-v3",
    llvm_cpu="x86-64-v3",
    features=X86_64_V2.features + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe",
    required_bits=(*X86_64_V2.required_bits, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"),
    vector_bits=256,
    fused_multiply_add=True,
    fma_ports=2,
    fma_latency=4,
    l2_bytes=512 << 10,
    l3_bytes=16 << 20,
)

X86_64_V4 = replace(
    X86_64_V3,
    name="x86-64-v4",
    llvm_cpu="x86-64-v4",
    features=X86_64_V3.features + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl",
    required_bits=(*X86_64_V3.required_bits, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    tuning="-prefer-256-bit",
    vector_bits=512,
    vector_registers=32,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
)

AARCH64 = Machine(
    name="aarch64",
    triple="aarch64-unknown-linux-gnu",
    llvm_cpu="generic",
    features="+fp-armv8,+neon",
    required_bits=("fp", "asimd"),
    tuning="",
    vector_bits=128,
    vector_registers=32,
    fused_multiply_add=True,
    fma_ports=2,
    fma_latency=4,
    l1_bytes=64 << 10,
    l2_bytes=512 << 10,
    l3_bytes=8 << 20,
    cores=4,
)

MACHINES: dict[str, Machine] = {m.name: m for m in (X86_64_V4, X86_64_V3, X86_64_V2, AARCH64)}
"""Variant name -> description; better variants of a family first."""


WITHOUT_WINOGRAD = "-winograd"
"""Behind the name of a variant: its convolutions are chains of multiply-adds, all of them."""


def machine_named(name: str) -> Machine | None:
    """The description that a variant is made for."""
    machine = MACHINES.get(name.removesuffix(WITHOUT_WINOGRAD))
    if machine is None or not name.endswith(WITHOUT_WINOGRAD):
        return machine
    return replace(machine, name=name, winograd=False)


def detect_host() -> Machine | None:
    """The best description this processor satisfies, by the instruction-set bits LLVM reads from it."""
    triple = llvm.get_process_triple()
    present = llvm.get_host_cpu_features()
    for machine in MACHINES.values():
        if machine.triple.split("-")[0] != triple.split("-")[0]:
            continue
        if all(present.get(bit[1:], False) for bit in machine.features.split(",")):
            return machine
    return None
