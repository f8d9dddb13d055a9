"""The kernels of `dfc_runtime.graphs.control` as PTX.

The second module calls `cudaGraphSetConditional`, which the driver itself provides (12.4 and later): it is loaded as
PTX, and only where a plan has control flow.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc_runtime.graphs.control import BEGIN, CHECK, COPY, NEXT, SET
from dfc_runtime.plans.plan import INDICES

INTEGERS = {name: name.replace("i", "s") for name in INDICES}
"""Integer types of the language by their names in PTX."""

_HEAD = ".version {0}\n.target sm_75\n.address_size 64\n"
_EXTERN = ".extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);\n"

_REPORT = """
    ld.global.u8 low, [condition];
    setp.ne.u32 fine, low, 0;
    @fine ret;
    ld.global.u64 fault, [error];
    setp.ne.u64 fine, fault, 0;
    @fine ret;
    st.global.u64 [error], code;
    ret;"""

_COPY = """
    ld.global.u64 fault, [error];
    setp.ne.u64 done, fault, 0;
    @done ret;
    mov.u32 low, %ctaid.x;
    mov.u32 width, %ntid.x;
    mov.u32 lane, %tid.x;
    mul.wide.u32 place, low, width;
    cvt.u64.u32 step, lane;
    add.u64 place, place, step;
    mov.u32 low, %nctaid.x;
    mul.wide.u32 step, low, width;
    or.b64 fault, target, source;
    or.b64 fault, fault, bytes;
    and.b64 fault, fault, 15;
    setp.ne.u64 done, fault, 0;
    @done bra narrow;
    shl.b64 place, place, 4;
    shl.b64 step, step, 4;
wide:
    setp.ge.u64 done, place, bytes;
    @done ret;
    add.u64 from, source, place;
    add.u64 to, target, place;
    ld.global.v2.u64 {first, second}, [from];
    st.global.v2.u64 [to], {first, second};
    add.u64 place, place, step;
    bra wide;
narrow:
    setp.ge.u64 done, place, bytes;
    @done ret;
    add.u64 from, source, place;
    add.u64 to, target, place;
    ld.global.u8 low, [from];
    st.global.u8 [to], low;
    add.u64 place, place, step;
    bra narrow;"""

_DECIDE = """
    ld.global.u64 fault, [error];
    setp.eq.u64 fine, fault, 0;
    and.pred runs, runs, fine;
    selp.u32 low, 1, 0, runs;"""

_CALL = """
    {
        .param .b64 node;
        .param .b32 value;
        st.param.b64 [node], handle;
        st.param.b32 [value], low;
        call.uni cudaGraphSetConditional, (node, value);
    }
    ret;"""

_SET = """
    ld.global.u8 low, [condition];
    setp.ne.u32 fine, low, 0;
    selp.u64 fault, 1, 0, fine;
    setp.eq.u64 runs, fault, wanted;"""

_BEGIN = """
    ld.global.{0} here, [start];
    ld.global.{0} end, [stop];
    st.global.u64 [counter], here;
    st.global.u64 [counter+8], end;"""

_NEXT = """
    ld.global.u64 here, [counter];
    ld.global.u64 end, [counter+8];
    add.u64 here, here, 1;
    st.global.u64 [counter], here;"""

_ROUND = """
    setp.lt.{0} runs, here, end;"""

_INDEX = """
    @runs st.global.{0} [index], here;"""


def plain_module() -> str:
    """Checks and copies."""
    return "\n".join(
        (
            _HEAD.format("7.0"),
            _kernel(CHECK, ("condition", "error", "code"), _REPORT),
            _kernel(COPY, ("target", "source", "bytes", "error"), _COPY),
        )
    )


def conditional_module() -> str:
    """What decides whether a conditional node runs."""
    kernels = [_kernel(SET, ("handle", "condition", "wanted", "error"), _SET + _DECIDE + _CALL)]
    for name, short in INTEGERS.items():
        tail = _ROUND.format("u64" if short[0] == "u" else "s64") + _DECIDE + _INDEX.format(f"b{short[1:]}") + _CALL
        begin = ("handle", "start", "stop", "counter", "index", "error")
        kernels.append(_kernel(BEGIN + name, begin, _BEGIN.format(short) + tail))
        kernels.append(_kernel(NEXT + name, ("handle", "counter", "index", "error"), _NEXT + tail))
    return "\n".join((_HEAD.format("8.3"), _EXTERN, *kernels))


_NUMBERS = ("handle", "code", "bytes", "wanted")
"""Parameters that are no addresses."""


def _kernel(name: str, parameters: Sequence[str], body: str) -> str:
    declared = ", ".join(f".param .u64 p{number}" for number in range(len(parameters)))
    lines = [
        f".visible .entry {name}({declared})",
        "{",
        "    .reg .pred fine, runs, done;",
        "    .reg .b32 low, width, lane;",
        f"    .reg .b64 {', '.join(parameters)};",
        "    .reg .b64 fault, place, step, from, to, first, second, here, end;",
    ]
    for number, parameter in enumerate(parameters):
        lines.append(f"    ld.param.u64 {parameter}, [p{number}];")
        if parameter not in _NUMBERS:
            lines.append(f"    cvta.to.global.u64 {parameter}, {parameter};")
    return "\n".join(lines) + body + "\n}\n"
