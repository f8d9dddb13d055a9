"""Names that an author knows from elsewhere: from NumPy and Python, or from a module of `std` that is not imported."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STD = Path(__file__).parents[2] / "std"
_DECLARED = re.compile(r"^(?:fn|proc|block|const|type) ([A-Za-z]\w*)", re.MULTILINE)

SIZE = "the size of an axis is a dimension: declare it, as in `fn f[N](x: f32[N])`, and use `N`"
NOTHING = "there is no such function in this version"
RANDOM = "declare `var dice: rng = philox(seed = 1)` at the top of the file, and draw: "

RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "average": "mean",
    "avg_pool": "mean_pool", "bitwise_and": "bit_and", "bitwise_not": "bit_not", "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor", "cat": "concat", "clip": "clamp", "concatenate": "concat", "det": "determinant",
    "erfinv": "erf_inverse", "expit": "sigmoid", "fabs": "abs", "fix": "trunc", "inv": "inverse",
    "isfinite": "is_finite", "isinf": "is_infinite", "isnan": "is_nan", "left_shift": "shift_left",
    "logsigmoid": "log_sigmoid", "moveaxis": "move_axis", "movedim": "move_axis",
    "permute": "transpose", "reduce_all": "all", "reduce_any": "any", "reduce_logsumexp": "logsumexp",
    "reduce_max": "max", "reduce_mean": "mean", "reduce_min": "min", "reduce_prod": "prod", "reduce_sum": "sum",
    "reversed": "reverse", "right_shift": "shift_right", "rint": "round", "searchsorted": "search", "sgn": "sign",
    "signbit": "sign_bit", "sorted": "sort", "std": "deviation", "swapaxes": "swap_axes", "swish": "silu",
    "take_along_axis": "gather_along", "topk": "top_k",
}  # fmt: skip
"""Functions of NumPy, PyTorch, TensorFlow and JAX that have another name here; the operands stand in the same order."""

ELSEWHERE_IN_STD = {
    "batch_norm": ("std.nn", "BatchNorm"), "BatchNorm1d": ("std.nn", "BatchNorm"),
    "BatchNorm2d": ("std.nn", "BatchNorm"), "BatchNormalization": ("std.nn", "BatchNorm"),
    "GRU": ("std.nn", "GruCell"), "GRUCell": ("std.nn", "GruCell"), "group_norm": ("std.nn", "GroupNorm"),
    "hardsigmoid": ("std.activations", "hard_sigmoid"), "hardswish": ("std.activations", "hard_swish"),
    "hardtanh": ("std.activations", "hard_tanh"), "huber_loss": ("std.losses", "huber"),
    "smooth_l1_loss": ("std.losses", "huber"), "kl_div": ("std.losses", "kl_divergence"),
    "l1_loss": ("std.losses", "mae"), "layer_norm": ("std.nn", "LayerNorm"),
    "LayerNormalization": ("std.nn", "LayerNorm"), "Linear": ("std.nn", "Dense"), "LSTM": ("std.nn", "LstmCell"),
    "LSTMCell": ("std.nn", "LstmCell"), "mse_loss": ("std.losses", "mse"), "MSELoss": ("std.losses", "mse"),
    "L1Loss": ("std.losses", "mae"), "rms_norm": ("std.nn", "RmsNorm"), "RMSNorm": ("std.nn", "RmsNorm"),
    "RMSprop": ("std.optim", "RMSProp"), "Adagrad": ("std.optim", "AdaGrad"), "Adadelta": ("std.optim", "AdaDelta"),
    "SGD": ("std.optim", "Sgd"), "clip_grad_norm_": ("std.optim", "clip_by_global_norm"),
    "confusion_matrix": ("std.metrics", "confusion"), "accuracy_score": ("std.metrics", "accuracy"),
    "embedding": ("std.nn", "Embedding"), "linear": ("std.nn", "Dense"),
}  # fmt: skip
"""What `std` offers under another name."""

ELEMENT_TYPES = {
    "float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "single": "f32", "float64": "f64",
    "double": "f64", "int8": "i8", "short": "i16", "int16": "i16", "int32": "i32", "int64": "i64", "long": "i64",
    "uint8": "u8", "byte": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "boolean": "bool", "fp16": "f16",
    "fp32": "f32", "fp64": "f64",
}  # fmt: skip
"""Element types under the names that they have elsewhere."""

CLASSES_OF_NUMBERS = {"float": "f32", "int": "i64"}
"""Kinds of constants, which elsewhere are element types: what to write where a tensor is meant."""

MISSING = ("fft", "ifft", "rfft", "interp", "lgamma", "gammaln", "digamma", "kron", "meshgrid", "polyfit", "trapz")

FOREIGN_NAMES = {
    **dict.fromkeys(MISSING, NOTHING),
    "print": 'write `debug.print("{}", x)`',
    "len": SIZE,
    "shape": SIZE,
    "size": SIZE,
    "ndim": SIZE,
    "numel": SIZE,
    "np": "functions need no prefix: write `exp(x)`",
    "jnp": "functions need no prefix: write `exp(x)`",
    "tf": "functions need no prefix: write `exp(x)`",
    "torch": "functions need no prefix: write `exp(x)`",
    "self": "inside a block its members are used by their names",
    "None": "there is no missing value in .dfg",
    "True": "write `true`",
    "False": "write `false`",
    "pi": "write `from std.schedules import PI` at the top of the file, or the number: `3.141592653589793`",
    "e": "write the number: `2.718281828459045`, or `exp(x)` for a power of it",
    "inf": "there is no literal for it: write a number that is large enough, such as `3e38`",
    "newaxis": "write `new` between brackets: `x[:, new]`",
    "T": "write `transpose(x)`",
    "add": "write `a + b`",
    "subtract": "write `a - b`",
    "multiply": "write `a * b`",
    "divide": "write `a / b`",
    "true_divide": "write `a / b`",
    "floor_divide": "write `a // b`",
    "power": "write `a ** b`",
    "pow": "write `a ** b`",
    "float_power": "write `a ** b`",
    "mod": "write `a % b`",
    "remainder": "write `a % b`",
    "negative": "write `-x`",
    "reciprocal": "write `1 / x`",
    "equal": "write `a == b`",
    "greater": "write `a > b`",
    "less": "write `a < b`",
    "greater_equal": "write `a >= b`",
    "less_equal": "write `a <= b`",
    "not_equal": "write `a != b`",
    "logical_and": "write `a and b`",
    "logical_not": "write `not a`",
    "logical_or": "write `a or b`",
    "logical_xor": "write `a != b`, for bools",
    "array_equal": "write `all(a == b)`",
    "isclose": "write `abs(a - b) <= 1e-8 + 1e-5 * abs(b)`",
    "allclose": "write `all(abs(a - b) <= 1e-8 + 1e-5 * abs(b))`",
    "fmax": "write `maximum(a, b)`, which is NaN if one of them is",
    "fmin": "write `minimum(a, b)`, which is NaN if one of them is",
    "erfc": "write `1 - erf(x)`",
    "cbrt": "write `sign(x) * abs(x) ** (1.0 / 3.0)`",
    "deg2rad": "write `x * (3.141592653589793 / 180)`",
    "radians": "write `x * (3.141592653589793 / 180)`",
    "rad2deg": "write `x * (180 / 3.141592653589793)`",
    "degrees": "write `x * (180 / 3.141592653589793)`",
    "logit": "write `log(x) - log1p(-x)`",
    "softmin": "write `softmax(-x)`",
    "tanhshrink": "write `x - tanh(x)`",
    "prelu": "write `maximum(x, 0) + slope * minimum(x, 0)`",
    "glu": "write `a * sigmoid(b)`, for the two halves `let a, b = split(x, 2)`",
    "sinc": "write `select(x == 0, 1, sin(3.141592653589793 * x) / (3.141592653589793 * x))`",
    "heaviside": "write `select(x > 0, 1, select(x == 0, b, 0))`",
    "nan_to_num": "write `select(is_nan(x), 0, x)`",
    "copysign": "write `select(sign_bit(b), -abs(a), abs(a))`",
    "count_nonzero": "write `sum((x != 0) as i64)`",
    "nansum": "write `sum(select(is_nan(x), 0, x))`",
    "vdot": "write `dot(a, b)`",
    "inner": "write `dot(a, b)`",
    "tensordot": 'write `einsum("ij,jk->ik", [a, b])`, with the letters of your axes',
    "slogdet": "write `log_determinant(a)` for the logarithm of its size; there is no sign",
    "eig": "there is only `eigh`, for symmetric matrices: `let w, v = eigh(a)`",
    "eigvalsh": "write `let w, v = eigh(a)`",
    "pinv": NOTHING + ": to solve least squares, write `solve(transpose(a) @ a, transpose(a) @ b)`",
    "lstsq": "write `solve(transpose(a) @ a, transpose(a) @ b)`",
    "expm": NOTHING + ": `expm1(x)` is exp(x) - 1",
    "take": "write `x[ids]`",
    "gather": "write `x[ids]` for rows, or `gather_along(x, ids, axis = 1)` for single elements",
    "gather_nd": "write `x[ids]`",
    "index_select": "write `x[ids]`",
    "embedding_lookup": "write `x[ids]`",
    "boolean_mask": "write `x[mask]`",
    "masked_select": "write `x[mask]`",
    "masked_fill": "write `select(mask, value, x)`",
    "argwhere": "write `nonzero(x)`, one tensor for each axis",
    "flatnonzero": "write `nonzero(x)`",
    "expand_dims": "write `x[:, new]`",
    "unsqueeze": "write `x[:, new]`",
    "flatten": "write `reshape(x, [...])`",
    "ravel": "write `reshape(x, [...])`",
    "view": "write `reshape(x, [...])`",
    "flip": "write `reverse(x, axis = 0)`",
    "flipud": "write `reverse(x, axis = 0)`",
    "fliplr": "write `reverse(x, axis = 1)`",
    "vstack": "write `stack([a, b])` for rows, `concat([a, b], axis = 0)` for matrices",
    "hstack": "write `concat([a, b], axis = 1)`, or `axis = 0` for vectors",
    "dstack": "write `concat([a, b], axis = 2)`",
    "column_stack": "write `stack([a, b], axis = 1)`",
    "unstack": "write `split(x, 2)` for equal parts, or `x[0]`, `x[1]`, ... for rows",
    "unbind": "write `x[0]`, `x[1]`, ... for rows",
    "chunk": "write `split(x, 2)`",
    "array_split": "write `split(x, 2)`, for parts of one size",
    "hsplit": "write `split(x, 2, axis = 1)`",
    "vsplit": "write `split(x, 2, axis = 0)`",
    "repeat_interleave": "write `repeat(x, 2)`",
    "broadcast_to": "write `broadcast(x, [...])`",
    "expand": "write `broadcast(x, [...])`",
    "full_like": "write `full(f32[N], value)`, with the type of `x`",
    "empty": "write `zeros(f32[N])`: there is no memory that holds nothing",
    "empty_like": "write `zeros_like(x)`",
    "identity": "write `eye(f32[N, N])`",
    "diagflat": "write `diag(x)`",
    "arange": "write `iota(i64[N])`, which counts from 0",
    "linspace": "write `low + (high - low) * iota(f32[N]) / (N - 1)`",
    "array": "a list of numbers is a tensor where one is needed: `[1.0, 2.0]`",
    "asarray": "a list of numbers is a tensor where one is needed: `[1.0, 2.0]`",
    "tensor": "a list of numbers is a tensor where one is needed: `[1.0, 2.0]`",
    "Tensor": "types are written with their sizes: `f32[B, 10]`",
    "constant": "write the number: it takes the type that is needed, or declare `const NAME = ...`",
    "Variable": "declare `var name: f32[...] = 0` at the top of the file, or `param` for what is trained",
    "placeholder": "make it a parameter of an `entry`",
    "assign": "write `name := value`",
    "assign_add": "write `name += value`",
    "cast": "write `x as f32`",
    "astype": "write `x as f32`",
    "to": "write `x as f32`",
    "double": "write `x as f64`",
    "half": "write `x as f16`",
    "long": "write `x as i64`",
    "rand": RANDOM + "`dice.uniform(f32[N])`",
    "random": RANDOM + "`dice.uniform(f32[N])`",
    "randn": RANDOM + "`dice.normal(f32[N])`",
    "bernoulli": RANDOM + "`dice.bernoulli(bool[N], 0.5)`",
    "categorical": RANDOM + "`dice.categorical(...)`",
    "multinomial": RANDOM + "`dice.categorical(...)`",
    "randint": RANDOM + "`(dice.uniform(f32[N]) * 6) as i32`, for 0 to 5",
    "permutation": RANDOM + "`dice.permutation(...)`",
    "randperm": RANDOM + "`dice.permutation(...)`",
    "shuffle": RANDOM + "`x[dice.permutation(...)]`",
    "choice": RANDOM + "`dice.categorical(...)`",
    "seed": "write `philox(seed = 1)` where the rng is declared; initial values take `--set SEED=1`",
    "manual_seed": "write `philox(seed = 1)` where the rng is declared; initial values take `--set SEED=1`",
    "PRNGKey": "declare `var dice: rng = philox(seed = 1)` at the top of the file",
    "conv3d": NOTHING + ": `conv1d` and `conv2d` exist",
    "conv_transpose": NOTHING + ": put zeros between the elements, and use `conv2d`, or use `resize`",
    "conv_transpose2d": NOTHING + ": put zeros between the elements, and use `conv2d`, or use `resize`",
    "conv2d_transpose": NOTHING + ": put zeros between the elements, and use `conv2d`, or use `resize`",
    "ConvTranspose2d": NOTHING + ": put zeros between the elements, and use `conv2d`, or use `resize`",
    "Conv1d": "`conv1d(x, kernel)` is the function; declare the kernel with `param`",
    "depthwise_conv2d": "write `conv2d(x, kernel, groups = C)`, with a group for each of the C channels",
    "avg_pool2d": "write `mean_pool(x, 2)`; the channels are the last axis",
    "AvgPool2d": "write `mean_pool(x, 2)`; the channels are the last axis",
    "max_pool2d": "write `max_pool(x, 2)`; the channels are the last axis",
    "MaxPool2d": "write `max_pool(x, 2)`; the channels are the last axis",
    "adaptive_avg_pool2d": "for one element an image, write `mean(x, axis = [1, 2])`",
    "global_average_pooling": "write `mean(x, axis = [1, 2])`",
    "interpolate": "write `resize(x, [...])`",
    "upsample": "write `resize(x, [...])`",
    "normalize": "write `x / norm(x, axis = 1, keep_dims = true)`",
    "cosine_similarity": "write `sum(a * b, axis = 1) / (norm(a, axis = 1) * norm(b, axis = 1))`",
    "cond": "write `if c then a else b`",
    "softmax_cross_entropy": "write `cross_entropy(scores, labels)` for whole numbers as labels; "
    "`from std.losses import soft_cross_entropy` takes chances",
    "softmax_cross_entropy_with_logits": "write `from std.losses import soft_cross_entropy` at the top of the file",
    "sparse_softmax_cross_entropy_with_logits": "write `cross_entropy(scores, labels)`",
    "CrossEntropyLoss": "write `mean(cross_entropy(scores, labels))`",
    "binary_cross_entropy": "for scores, write `mean(sigmoid_cross_entropy(scores, truth))`; "
    "for chances, `-mean(truth * log(p) + (1 - truth) * log(1 - p))`",
    "BCEWithLogitsLoss": "write `mean(sigmoid_cross_entropy(scores, truth))`",
    "sigmoid_cross_entropy_with_logits": "write `sigmoid_cross_entropy(scores, truth)`",
    "nll_loss": "write `mean(cross_entropy(scores, labels))`, of the scores before `log_softmax`",
    "NLLLoss": "write `mean(cross_entropy(scores, labels))`, of the scores before `log_softmax`",
    "unsorted_segment_sum": "write `segment_sum(rows, ids, count)`",
    "scatter": "write `name[ids] := rows` for a variable, or `segment_sum(rows, ids, count)` for sums",
    "bincount": "write `segment_sum(ones_like(ids), ids, count)`",
    "gradients": "write `grad(loss, [a, b])`",
    "backward": "write `grad(loss, w)`: gradients are values",
    "value_and_grad": "write `grad(loss, w)`: the loss is there anyway",
    "jacfwd": "write `jacobian(y, x)`",
    "jacrev": "write `jacobian(y, x)`",
    "hessian": "write `jacobian(grad(loss, x), x)`",
    "no_grad": "write `stop_gradient(x)`",
    "detach": "write `stop_gradient(x)`",
    "remat": "write `with recompute = true` behind an instance of a block, or `with recompute = 4` behind a `for`",
    "scan": "write `loop h = h0 for x in xs { ... emit h }`",
    "fori_loop": "write `loop x = x0 for i in 0..n { ... x = ... }`",
    "while_loop": "write `loop x = x0 while ... { ... x = ... }`",
    "vmap": "write `for x in xs { emit ... }`, or the function for a whole batch",
    "map": "write `for x in xs { emit ... }`",
    "enumerate": "write `for i in 0..N, x in xs { ... }`",
    "zip": "write `for x in xs, y in ys { ... }`",
    "jit": "leave it out: all is compiled",
    "function": "declare it: `fn name(x: f32) -> f32 = ...`",
    "Sequential": "write `x |> first |> second`",
    "ReLU": "write `relu(x)`",
    "Softmax": "write `softmax(x)`",
    "Flatten": "write `reshape(x, [...])`",
    "fold": "write `loop s = s0 for x in xs { s = ... }`",
}


def has_effect(name: str) -> bool:
    """Whether what to write for a name prints or draws random numbers."""
    words = FOREIGN_NAMES.get(name, "")
    return "debug.print" in words or words.startswith(RANDOM)


def known_elsewhere(name: str) -> str:
    """What to write for a name that is not known here, or the empty string."""
    if name in FOREIGN_NAMES:
        return FOREIGN_NAMES[name]
    if name in RENAMED:
        return f"change `{name}` to `{RENAMED[name]}`"
    if name in ELSEWHERE_IN_STD:
        module, own = ELSEWHERE_IN_STD[name]
        return f"use `{own}`: write `from {module} import {own}` at the top of the file"
    modules = _library().get(name, ())
    return f"write `from {modules[0]} import {name}` at the top of the file" if modules else ""


def imported(name: str) -> str:
    """The import that makes a name of `std` known, or the empty string."""
    modules = _library().get(name, ()) if name not in FOREIGN_NAMES and name not in RENAMED else ()
    return f"from {modules[0]} import {name}" if modules else ""


@cache
def _library() -> dict[str, tuple[str, ...]]:
    """The modules of `std` that declare a name."""
    libraries: dict[str, tuple[str, ...]] = {}
    for path in sorted(STD.glob("*.dfg")):
        for name in _DECLARED.findall(path.read_text(encoding="utf-8")):
            libraries[name] = (*libraries.get(name, ()), f"std.{path.stem}")
    return libraries
