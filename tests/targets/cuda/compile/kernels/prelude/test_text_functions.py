"""The grammar of kernel text: what is a function of it, and what is refused before anything runs."""

from typing import Any

import pytest

from dfc.kernels.errors import CodeGenerationError
from tests.support.cuda_simulator.names import define


def test_functions_see_the_names_they_are_given_and_each_other() -> None:
    names: dict[str, Any] = {"twice": lambda x: 2 * x}
    define("def later(a):\n    f(a)\n    a[1] = 7\ndef f(a):\n    a[0] = twice(a[0])\n", "<a text>", names)
    memory = [4, 0]
    names["later"](memory)
    assert memory == [8, 7] and names["f"].__name__ == "f"
    assert names["f"].__code__.co_filename == "<a text>"


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
        ("x, a[0] = f(a)", "several values go to several names"),
        ("x, y = 1, 2", "not of the grammar"),
        ("x = 1 if a[0] < 2 else 3", "not of the grammar"),
        ("x = a[0] < 2 and a[1] < 3", "not of the grammar"),
        ("x = 7 // 2", "not of the grammar"),
        ("for i in range(2):\n        x = i", "not of the grammar"),
        ("return 1", "not of the grammar"),
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
