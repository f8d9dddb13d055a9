"""The cases of the GPU benchmark by other libraries, where they are installed and see a GPU. Products in full f32, and
convolutions that give the same numbers each time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.gpu import inputs

Call = Callable[[], object]


class Peer:
    """A library: its arrays on the device, and its functions for the cases. `wait` ends when all is computed."""

    name = ""

    def array(self, feed: np.ndarray) -> Any: ...

    def wait(self, result: Any) -> None: ...

    def functions(self) -> dict[str, Callable[..., Any]]: ...

    def call(self, case: str, feeds: Sequence[np.ndarray]) -> Call | None:
        """A call that is over when its results are there; None for a case that the library does not have."""
        function = self.functions().get(case)
        if function is None:
            return None
        arrays = [self.array(feed) for feed in feeds]
        return lambda: self.wait(function(*arrays))


class Torch(Peer):
    """PyTorch, eager."""

    name = "torch"

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        if not self.torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        self.torch.backends.cuda.matmul.allow_tf32 = False
        self.torch.backends.cudnn.allow_tf32 = False
        self.torch.backends.cudnn.deterministic = True

    def array(self, feed: np.ndarray) -> Any:
        array = self.torch.from_numpy(np.asarray(feed)).cuda()
        return array.long() if feed.dtype == np.int32 else array

    def wait(self, result: Any) -> None:
        self.torch.cuda.synchronize()

    def functions(self) -> dict[str, Callable[..., Any]]:
        f = self.torch.nn.functional
        return {
            "null": lambda a, b: a + b,
            "eltwise": lambda x: f.gelu(x * 1.1 + 0.3) * self.torch.sigmoid(x),
            "softmax": lambda x: self.torch.softmax(x, -1),
            "layernorm": lambda x: f.layer_norm(x, x.shape[-1:]),
            "product": lambda a, b: a @ b,
            "mlp_predict": self._predict(),
            "mlp_train": self._train(),
            "convolve": lambda x, w: self._convolved(x.permute(0, 3, 1, 2), w),
            "convolve_train": self._train_convolutions(),
        }

    def _convolved(self, x: Any, w: Any) -> Any:
        """Channels last, as they lie: only the names of the axes change."""
        return self.torch.nn.functional.conv2d(x, w.permute(3, 2, 0, 1), padding=1)

    def _train_convolutions(self) -> Callable[..., Any]:
        rng = np.random.default_rng(2)
        shape = (3, 3, 64, 64)
        p = [self.array(rng.uniform(-0.05, 0.05, shape).astype(np.float32)).requires_grad_() for _ in range(2)]
        optimiser = self.torch.optim.SGD(p, lr=0.01)

        def step(x: Any) -> Any:
            optimiser.zero_grad()
            hidden = self.torch.relu(self._convolved(x.permute(0, 3, 1, 2), p[0]))
            loss = self._convolved(hidden, p[1]).square().mean()
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step

    def _weights(self) -> list[Any]:
        return [self.torch.from_numpy(w).cuda() for w in inputs.weights()]

    def _forward(self, x: Any, p: Sequence[Any]) -> Any:
        return self.torch.relu(x @ p[0] + p[1]) @ p[2] + p[3]

    def _predict(self) -> Callable[..., Any]:
        p = self._weights()
        return lambda x: self._forward(x, p)

    def _train(self) -> Callable[..., Any]:
        p = [w.requires_grad_() for w in self._weights()]
        optimiser = self.torch.optim.Adagrad(p, lr=0.01, initial_accumulator_value=0.1)

        def step(x: Any, y: Any) -> Any:
            optimiser.zero_grad()
            loss = self.torch.nn.functional.cross_entropy(self._forward(x, p), y)
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step


class TorchCompiled(Torch):
    """The same through `torch.compile`, but for the step of the optimiser."""

    name = "torch.compile"

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {name: self.torch.compile(each) for name, each in super().functions().items() if "train" not in name}


class Jax(Peer):
    """JAX, compiled."""

    name = "jax"

    def __init__(self) -> None:
        self.jax: Any = importlib.import_module("jax")
        if self.jax.default_backend() != "gpu":
            raise ImportError("jax sees no GPU")
        self.jax.config.update("jax_default_matmul_precision", "highest")
        self.numpy: Any = self.jax.numpy

    def array(self, feed: np.ndarray) -> Any:
        return self.numpy.asarray(feed)

    def wait(self, result: Any) -> None:
        self.jax.block_until_ready(result)

    def functions(self) -> dict[str, Callable[..., Any]]:
        np_, nn = self.numpy, self.jax.nn
        functions: dict[str, Callable[..., Any]] = {
            "null": lambda a, b: a + b,
            "eltwise": lambda x: nn.gelu(x * 1.1 + 0.3, approximate=False) * nn.sigmoid(x),
            "softmax": lambda x: nn.softmax(x, -1),
            "layernorm": lambda x: nn.standardize(x, -1),
            "product": lambda a, b: a @ b,
            "convolve": lambda x, w: self.jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
        }
        p = [np_.asarray(w) for w in inputs.weights()]
        functions["mlp_predict"] = lambda x: nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]
        compiled = {name: self.jax.jit(each) for name, each in functions.items()}
        compiled["mlp_train"] = self._train()
        return compiled

    def _train(self) -> Callable[..., Any]:
        state: list[Any] = [[self.numpy.asarray(w) for w in inputs.weights()]]
        state.append([self.numpy.full_like(w, 0.1) for w in state[0]])

        def loss(p: Any, x: Any, y: Any) -> Any:
            scores = self.jax.nn.log_softmax(self.jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3])
            return -self.numpy.take_along_axis(scores, y[:, None], 1).mean()

        def step(p: Any, totals: Any, x: Any, y: Any) -> Any:
            value, gradients = self.jax.value_and_grad(loss)(p, x, y)
            totals = [t + g * g for t, g in zip(totals, gradients, strict=True)]
            moved = [w - 0.01 * g / self.numpy.sqrt(t) for w, g, t in zip(p, gradients, totals, strict=True)]
            return value, moved, totals

        compiled = self.jax.jit(step)

        def train(x: Any, y: Any) -> Any:
            value, *state[:] = compiled(*state, x, y)
            return value

        return train


class Cupy(Peer):
    """CuPy, whose element-wise functions run one by one."""

    name = "cupy"

    def __init__(self) -> None:
        self.cupy: Any = importlib.import_module("cupy")
        if self.cupy.cuda.runtime.getDeviceCount() == 0:
            raise ImportError("cupy sees no GPU")

    def array(self, feed: np.ndarray) -> Any:
        return self.cupy.asarray(feed)

    def wait(self, result: Any) -> None:
        self.cupy.cuda.Stream.null.synchronize()

    def functions(self) -> dict[str, Callable[..., Any]]:
        cp = self.cupy

        def softmax(x: Any) -> Any:
            raised = cp.exp(x - x.max(-1, keepdims=True))
            return raised / raised.sum(-1, keepdims=True)

        def layernorm(x: Any) -> Any:
            mean = x.mean(-1, keepdims=True)
            return (x - mean) / cp.sqrt(cp.square(x - mean).mean(-1, keepdims=True) + 1e-5)

        p = [cp.asarray(w) for w in inputs.weights()]
        return {
            "null": lambda a, b: a + b,
            "softmax": softmax,
            "layernorm": layernorm,
            "product": lambda a, b: a @ b,
            "mlp_predict": lambda x: cp.maximum(x @ p[0] + p[1], 0) @ p[2] + p[3],
        }


def present() -> list[Peer]:
    """Those that are installed and see a GPU."""
    peers: list[Peer] = []
    for kind in (Torch, TorchCompiled, Jax, Cupy):
        try:
            peers.append(kind())
        except Exception:  # not installed, or without a GPU: each library has its own way to say so
            continue
    return peers
