"""The linker: what it resolves, what it refuses, memory functions, relocations of the other architecture."""

import ctypes
import io
import struct

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.link.build import build_image
from dfc_target_cpu.link.compile import compile_object
from dfc_target_cpu.link.image import link_image
from dfc_target_cpu.link.memory_functions import memory_functions_text
from dfc_target_cpu.link.relocations import AARCH64 as AARCH64_PATCHES
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.machine import AARCH64, MACHINES
from tests.support.cpu_code import Code, host, load, runnable_machines


def table_module(triple: str) -> ModuleText:
    """A table look-up, a switch over constants and a call: data, jump-table and code references."""
    m = ModuleText(triple)
    table = m.table("double", [1.5, 2.5, 4.0, 8.0])
    helper = m.function("helper", "double", [Parameter("i64", "i")], attributes="nounwind noinline")
    helper.ret(helper.load("double", helper.gep("double", table, helper.arguments[0])))
    name = m.add(helper)
    f = m.function("look_up", "double", [Parameter("i64", "i")], linkage="external")
    value = f.call(name, "double", f.arguments)
    default, cases = f.label("default"), [(i, f.label("case")) for i in range(8)]
    f.switch(f.arguments[0], default, cases)
    for number, label in cases:
        f.begin(label)
        m.declare("llvm.sqrt.f64", "double", ["double"])
        f.ret(f.fmul(value, f.cast("sitofp", f.add(f.arguments[0], i64(number * number + 3)), "double")))
    f.begin(default)
    f.ret(value)
    m.add(f)
    return m


def test_image_resolves_tables_calls_and_switches():
    look_up = load(table_module(host().triple)).function("look_up", ctypes.c_double, ctypes.c_int64)
    assert [look_up(i) for i in range(4)] == [v * (i + i * i + 3) for i, v in enumerate((1.5, 2.5, 4.0, 8.0))]


def test_image_publishes_only_what_is_asked_for():
    texts = [table_module(host().triple).text()]
    assert list(build_image(texts, host()).symbols) == ["look_up"]
    with pytest.raises(CodeGenerationError, match="does not define other"):
        build_image(texts, host(), exports=["look_up", "other"])


def test_undefined_symbol_is_named():
    text = "declare i64 @getpid()\ndefine i64 @f() {\nentry:\n  %x = call i64 @getpid()\n  ret i64 %x\n}\n"
    with pytest.raises(CodeGenerationError, match="getpid"):
        build_image([text], host())


def test_writable_section_is_refused():
    body = "define void @f() {\nentry:\n  store volatile i64 6, ptr @state\n  ret void\n}\n"
    text = "@state = internal global i64 5\n" + body
    with pytest.raises(CodeGenerationError, match="writable section"):
        build_image([text], host())


def test_symbol_defined_in_two_objects_is_refused():
    data = compile_object("define dso_local void @f() {\nentry:\n  ret void\n}\n", host())
    with pytest.raises(CodeGenerationError, match="f is defined twice"):
        link_image([data, data])


@pytest.mark.parametrize("machine", runnable_machines(), ids=lambda m: m.name)
def test_memory_functions_have_the_meaning_of_c(machine):
    exported = memory_functions_text(machine).replace("define hidden", "define dso_local")
    code = Code([exported], machine)
    pointer = ctypes.c_void_p
    memset = code.function("memset", pointer, pointer, ctypes.c_int, ctypes.c_int64)
    memmove = code.function("memmove", pointer, pointer, pointer, ctypes.c_int64)
    memcpy = code.function("memcpy", pointer, pointer, pointer, ctypes.c_int64)
    for size in (0, 1, 15, 16, 63, 64, 65, 127, 128, 200):
        data = np.arange(1024, dtype=np.uint8)
        expected = data.copy()
        assert memset(data.ctypes.data + 3, 0x1AB, size) == data.ctypes.data + 3
        expected[3 : 3 + size] = 0xAB
        memcpy(data.ctypes.data + 700, data.ctypes.data + 400, size)
        expected[700 : 700 + size] = expected[400 : 400 + size]
        for target, source in ((310, 303), (503, 510), (350, 350), (420, 300)):
            memmove(data.ctypes.data + target, data.ctypes.data + source, size)
            expected[target : target + size] = expected[source : source + size].copy()
        np.testing.assert_array_equal(data, expected)


def test_loops_that_llvm_turns_into_memset_stay_inside_the_image():
    m = ModuleText(host().triple)
    f = m.function("clear", "void", [Parameter("ptr", "x"), Parameter("i64", "n")], linkage="external")
    with f.counted_loop(i64(0), f.arguments[1]) as loop:
        f.store(i64(0), f.gep("i64", f.arguments[0], loop.index))
    f.ret()
    m.add(f)
    data = np.ones(100, np.int64)
    load(m).function("clear", None, ctypes.c_void_p, ctypes.c_int64)(data.ctypes.data, 99)
    assert data.sum() == 1 and data[99] == 1


# --- AArch64: every relocation recomputed from the object and compared with the fields decoded from the image


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _reached(kind: int, word: int, place: int) -> int:
    """The address (or its low bits) that the instruction at `place` refers to, decoded from the manual's encodings."""
    if kind == 275:
        return (place & ~0xFFF) + (_signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21) << 12)
    if kind in (282, 283):
        return place + 4 * _signed(word & 0x3FFFFFF, 26)
    if kind == 277:
        return word >> 10 & 0xFFF
    scale = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}[kind]
    return (word >> 10 & 0xFFF) << scale


def _lay_out(files: list[ELFFile]) -> dict[tuple[int, int], int]:
    places, end = {}, 0
    for file_number, elf in enumerate(files):
        for number, section in enumerate(elf.iter_sections()):
            if section["sh_flags"] & 2 and section["sh_size"] and not section.name.startswith(".eh_frame"):
                end += -end % max(section["sh_addralign"], 1)
                places[file_number, number] = end
                end += section["sh_size"]
    return places


def _aarch64_objects() -> list[bytes]:
    """A table more than a page away from its reader, and a call from one object into the other."""
    m = table_module(AARCH64.triple)
    big = m.bytes_table(bytes(9000))
    f = m.function("peek", "i8", [Parameter("i64", "i")], linkage="external")
    f.ret(f.load("i8", f.gep("i8", big, f.add(f.arguments[0], i64(7000)))))
    m.add(f)
    caller = ModuleText(AARCH64.triple)
    caller.declare("look_up", "double", ["i64"])
    g = caller.function("twice", "double", [Parameter("i64", "i")], linkage="external")
    value = g.call("look_up", "double", g.arguments)
    g.ret(g.fadd(value, g.call("look_up", "double", [g.add(g.arguments[0], i64(1))])))
    caller.add(g)
    return [compile_object(text, AARCH64) for text in (caller.text(), m.text())]


def test_aarch64_relocations_reach_their_symbols():
    objects = _aarch64_objects()
    image, files = link_image(objects), [ELFFile(io.BytesIO(data)) for data in objects]
    places, seen = _lay_out(files), set()
    for file_number, section in ((n, s) for n, elf in enumerate(files) for s in elf.iter_sections()):
        if section["sh_type"] != "SHT_RELA" or (file_number, section["sh_info"]) not in places:
            continue
        symbols = files[file_number].get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            base = places.get((file_number, symbol["st_shndx"]))
            start = image.symbols[symbol.name] if base is None else base + symbol["st_value"]
            target = start + relocation["r_addend"]
            place = places[file_number, section["sh_info"]] + relocation["r_offset"]
            kind, word = relocation["r_info_type"], struct.unpack_from("<I", image.code, place)[0]
            seen.add(kind)
            expected = {275: target & ~0xFFF}.get(kind, target if kind in (282, 283) else target & 0xFFF)
            assert _reached(kind, word, place) == expected, (kind, hex(place))
    assert {275, 277, 283} <= seen


@pytest.mark.parametrize("kind, value", [(275, 1 << 40), (283, 1 << 30), (283, 2), (286, 4)])
def test_values_that_do_not_fit_their_field_are_refused(kind: int, value: int):
    with pytest.raises(CodeGenerationError, match="relocation at"):
        AARCH64_PATCHES[kind](bytearray(8), 0, value)


@pytest.mark.parametrize("machine", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_all_variants_are_built_on_any_host(machine: str):
    image = build_image([table_module(MACHINES[machine].triple).text()], MACHINES[machine])
    assert list(image.symbols) == ["look_up"]
