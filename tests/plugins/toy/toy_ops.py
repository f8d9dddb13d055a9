"""An op of another package: softplus(x) = log(1 + exp(x)), whose gradient is the sigmoid of x."""

import numpy as np

from dfc.ops.elementwise.unary import unary

unary(
    "softplus",
    "float",
    "log(1 + exp(x)), without overflow.",
    lambda x: np.logaddexp(x, x.dtype.type(0)),
    lambda builder, x, _y, dy: builder.apply("mul", dy, builder.apply("sigmoid", x)),
    emit=lambda body, x: body.apply(
        "add",
        body.apply("maximum", x, body.number(0, body.dtype(x))),
        body.apply("log1p", body.apply("exp", body.apply("neg", body.apply("abs", x)))),
    ),
)
