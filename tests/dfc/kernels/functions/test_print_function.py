"""Kernel functions as text."""

from dfc.ir.dtypes import F32, I64
from dfc.kernels.functions.print_function import print_function
from dfc.kernels.terms import Term, call, function, repeat, where

PRINTED = """\
function twice(x: f32) -> f32, f32
  %1 = add(x, x)
  give %1, x

function double(x: f32) -> f32
  %1 = add(x, x)
  give %1

function f(x: f32, n: i64) -> f32
  %2 = twice(x)
  %3 = part 0 of %2
  %4 = part 1 of %2
  %5 = 0.0 as f32
  %6 = less(%3, %5)
  %7 = twice(%3) where %6, else x, x
  %8 = part 0 of %7
  %9 = part 1 of %7
  %10 = n times double(%8; )
  %11 = convert(%10) as i64
  %12 = convert(%11) as f32
  give %12
"""


def test_a_function_stands_behind_those_it_calls() -> None:
    twice = function("twice", lambda x: (x + x, x), F32)
    step = function("double", lambda x: x + x, F32)

    def build(x: Term, n: Term) -> Term:
        y = call(twice, x)[0]
        z = where(y.less(0.0), twice, [y], [x, x])[0]
        return repeat(n, step, [z])[0].to(I64).to(F32)

    assert print_function(function("f", build, F32, I64)) == PRINTED
