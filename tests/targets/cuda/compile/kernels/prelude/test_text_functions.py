"""The grammar of kernel text: what is a function of it, and what is refused before anything runs."""

from typing import Any

import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.kernels.prelude.text_functions import called, parse
from tests.support.cuda_simulator.names import define


def test_functions_see_the_names_they_are_given_and_each_other() -> None:
    names: dict[str, Any] = {"twice": lambda x: 2 * x}
    define("def later(x):\n    return f(x) + 1\ndef f(x):\n    return twice(x)\n", "<a text>", names)
    assert names["later"](4) == 9 and names["f"].__name__ == "f"
    assert names["f"].__code__.co_filename == "<a text>"


def test_calls_are_found_wherever_they_stand() -> None:
    (definition,) = parse("def f(a):\n    while g(h(a[i(0)])):\n        a[0] = j(1) if k() else 2\n")
    assert called(definition) == {"g", "h", "i", "j", "k"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import os", "not of the grammar of kernel text: import os"),
        ("a[0] += 1", "not of the grammar"),
        ("x = y = 1", "not of the grammar"),
        ("x = missing", "not a name of the prelude: missing"),
        ("x = missing(1)", "not a name of the prelude: missing"),
        ("x = __import__(1)", "not a name of the prelude: __import__"),
        ("x = open(1)", "not a name of the prelude: open"),
        ("x = a.real", "not of the grammar of kernel text: a.real"),
        ("x = a.sort()", "not of the grammar"),
        ("x = min(a, key=1)", "not of the grammar"),
        ("x = min(*a)", "arguments are written out"),
        ("x = 'text'", "not of the grammar"),
        ("x = None", "not of the grammar"),
        ("x = (1, 2)", "not of the grammar"),
        ("x = [1]", "not of the grammar"),
        ("x, a[0] = 1, 2", "several values go to several names"),
        ("x = 1 < 2 < 3", "not of the grammar"),
        ("x = a[0:1]", "memory has one index"),
        ("x = a[0, 1]", "not of the grammar"),
        ("x = lambda: 0", "not of the grammar"),
        ("x = 2 ** 3", "not of the grammar"),
        ("x = 1j", "not of the grammar"),
        ("x = 999999999999999999999", "no type has this number"),
        ("1", "not of the grammar"),
        ("pass", "not of the grammar"),
        ("for i in (1, 2):\n        x = i", "not of the grammar"),
        ("for i in range(1, 2):\n        x = i", "not of the grammar"),
        ("while a:\n        break", "not of the grammar"),
        ("def g():\n        return", "not of the grammar"),
        ("x = (y := 1)", "not of the grammar"),
        ("global a", "not of the grammar"),
        ("return [1]", "not of the grammar"),
    ],
)
def test_what_is_not_of_the_grammar_is_refused(body: str, why: str) -> None:
    with pytest.raises(CodeGenerationError, match=f"kernel text cannot be compiled: {why}"):
        define(f"def f(a):\n    {body}\n", "<a text>", {})


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def f(:\n", "kernel text is no Python"),
        ("x = 1\n", "a text has functions alone"),
        ("class A:\n    x = 1\n", "a text has functions alone"),
        ("def f(a=1):\n    return a\n", "parameters are plain names"),
        ("def f(*a):\n    return a\n", "parameters are plain names"),
        ("@g\ndef f(a):\n    return a\n", "a function is not decorated"),
    ],
)
def test_a_text_has_plain_functions_alone(source: str, why: str) -> None:
    with pytest.raises(CodeGenerationError, match=why):
        define(source, "<a text>", {"g": None})


def test_annotations_are_never_computed() -> None:
    names: dict[str, Any] = {}
    define("def f(a: 1 // 0) -> open('nothing'):\n    return a\n", "<a text>", names)
    assert names["f"](3) == 3
