"""What native code asks of the run side: requests, and the handlers that answer them.

Assumes native code that fills a frame as its sites say. Guarantees that a handler is called once a request, in the
thread of the call and in the order of the program; that whatever it raises stops the call and reaches the caller of the
entry; and that nobody is called for a kind without a handler: such a program is not loaded.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.gate import Serving
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import has_queues
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import HANDED, NATIVE_KINDS, HostSite, Manifest, SiteOperand
from dfc_runtime.observe.summaries import Sink

Array = NDArray[np.generic]
Memory = ctypes.Array[ctypes.c_char]


@dataclass(slots=True)
class Calling:
    """A call of an entry that makes requests: how many calls of it began before, its feeds that are texts by the number
    of the parameter, and its options."""

    number: int = 0
    texts: Mapping[int, str] = field(default_factory=dict[int, str])
    options: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(slots=True)
class HostRequest:
    """One request. `inputs` are arrays to read and `outputs` arrays to fill: both are memory of the program that means
    something else as soon as the handler is done, so copy what is kept. `site` says where in the program it comes from,
    `module` is the name of the program, `call` the call that makes the request."""

    site: HostSite
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    module: str
    call: Calling

    @property
    def entry(self) -> str:
        """The entry that is running."""
        return self.site.entry


Handler = Callable[[HostRequest], None]
"""Answers requests, of several threads at once where calls overlap. It must not call the program it serves,
nor read, save or close it: that is a `RunError`."""


class _Local(threading.local):
    """What a thread is at: its call, and what stopped it. Ticks also come from threads that a driver has made."""

    call: Calling = Calling()


class Hosts:
    """The requests of one program, and what they raised: kept for each thread until its call takes it."""

    def __init__(
        self, manifest: Manifest, handlers: Mapping[str, Handler], summaries: Sink, serving: Serving | None = None
    ) -> None:
        self.handlers = handlers
        self.serving = Serving() if serving is None else serving
        self.summaries = summaries
        self._module = manifest.name
        answered = native_kinds(manifest)
        self._sites = [_AnsweredSite(site, _handler(site, handlers, answered)) for site in manifest.sites]
        self._asks = {site.entry for site in manifest.sites if site.kind not in answered}
        self._local = _Local()

    def __bool__(self) -> bool:
        """Whether the program asks for anything."""
        return bool(self._asks)

    def of(self, manifest: Manifest, handlers: Mapping[str, Handler] | None = None) -> Hosts:
        """The same handlers for another program, but for those of some kinds."""
        return Hosts(manifest, {**self.handlers, **(handlers or {})}, self.summaries, self.serving)

    def call(self, number: int, frame: int) -> None:
        """What native code calls. The first word of its frame says that the request failed until it is cleared: an
        exception may come before the first line here, from a signal, and native code must see that as well."""
        site = self._sites[number]
        words = site.words(frame)
        try:
            inputs, outputs = site.operands(words)
            self.serving.request = site.description
            site.handler(HostRequest(site.site, inputs, outputs, self._module, self._local.call))
            words[0] = 0
        except BaseException as problem:
            words[0] = 1
            _note(problem, site.site)
            self._local.problem = problem
        finally:
            self.serving.request = ""

    def counted(self, entry: str, function: Callable[..., object]) -> Callable[..., object]:
        """The function of an entry, with its calls counted if they make requests."""
        if entry not in self._asks:
            return function
        numbers, local = itertools.count(), self._local

        def call(*feeds: object, **named: object) -> object:
            outer = local.call
            local.call = Calling(next(numbers))
            try:
                return function(*feeds, **named)
            finally:
                local.call = outer

        return call

    def handed(
        self, entry: str, variables: Mapping[str, Array], calling: Calling
    ) -> Sequence[tuple[Handler, HostRequest]]:
        """All requests of an entry that does nothing but hand over variables; none of any other entry."""
        pairs: list[tuple[Handler, HostRequest]] = []
        for each in self._sites:
            names = each.site.attributes.get(HANDED)
            if each.site.entry == entry and isinstance(names, tuple):
                inputs = [_read_only(variables[name]) for name in names]
                pairs.append((each.handler, HostRequest(each.site, inputs, (), self._module, calling)))
        return pairs

    def hand(self, requests: Sequence[tuple[Handler, HostRequest]]) -> None:
        """Makes requests one after the other."""
        request = None
        try:
            for handler, request in requests:
                self.serving.request = _site_text(request.site)
                handler(request)
        except BaseException as problem:
            if request is not None:
                _note(problem, request.site)
            raise
        finally:
            self.serving.request = ""

    def set_call_context(self, texts: Mapping[int, str], options: Mapping[str, object]) -> None:
        """More about the call that this thread makes."""
        self._local.call.texts, self._local.call.options = texts, options

    def ask_in(self, iteration: int, number: int, frame: int) -> None:
        """What the native code of a runner calls, in a thread of its own."""
        self._local.call = Calling(iteration)
        self.call(number, frame)

    def take_failure(self) -> BaseException | None:
        """What a request of this thread raised, if one did."""
        problem: BaseException | None = self._local.__dict__.pop("problem", None)
        return problem

    def take(self) -> BaseException:
        """What stopped the last call of this thread. A signal that came before the handler has left nothing."""
        return self.take_failure() or KeyboardInterrupt()


def _site_text(site: HostSite) -> str:
    return f"`{shown(site.kind)}` of `{shown(site.entry)}` at {site.location}"


def _note(problem: BaseException, site: HostSite) -> None:
    problem.add_note(f"in `{shown(site.kind)}` at {site.location}")


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def native_kinds(manifest: Manifest) -> frozenset[str]:
    """Kinds of requests that the native code of a program answers itself."""
    asks = any(site.kind in NATIVE_KINDS for site in manifest.sites)
    return NATIVE_KINDS if asks and has_queues(manifest.driver) else frozenset()


def _native(request: HostRequest) -> None:
    raise AssertionError(f"native code answers `{request.site.kind}` itself")


def _handler(site: HostSite, handlers: Mapping[str, Handler], answered: Set[str]) -> Handler:
    handler = _native if site.kind in answered else handlers.get(site.kind)
    if handler is None and site.kind in NATIVE_KINDS:
        text = f"`{shown(site.entry)}` uses a queue at {site.location}, and the program is not for the processor"
        helps = "queues and runners work there only: compile with --target cpu"
        raise UnsupportedError(f"{text}\n  {helps}", code="E1001", spans=[site.location])
    if handler is None:
        text = f"`{shown(site.entry)}` asks for `{shown(site.kind)}` at {site.location}, and nothing here answers that"
        raise UnsupportedError(text, code="E1001")
    return handler


Words = ctypes.Array[ctypes.c_int64]
Operands = tuple[Sequence[Array], Sequence[Array]]


class _AnsweredSite:
    """A site with all that can be known before a call. What a program passes is mostly the same in call after call, so
    the last words and operands are kept: each in one tuple, as several threads may be here."""

    __slots__ = ("_frame", "_inputs", "_last", "_last_words", "_operands", "description", "handler", "site")

    def __init__(self, site: HostSite, handler: Handler) -> None:
        self.site = site
        self.description = _site_text(site)
        self.handler = handler
        operands = (*site.inputs, *site.outputs)
        self._inputs = len(site.inputs)
        self._operands = [_Operand(each, writeable=index >= self._inputs) for index, each in enumerate(operands)]
        extents = sum(isinstance(axis, str) for each in operands for axis in each.shape)
        self._frame: type[Words] = ctypes.c_int64 * (1 + len(operands) + extents)
        self._last_words: tuple[int, Words | None] = (0, None)
        self._last: tuple[list[int], Operands] = ([], ((), ()))

    def words(self, frame: int) -> Words:
        """The words of a frame."""
        address, words = self._last_words
        if words is None or address != frame:
            words = self._frame.from_address(frame)
            self._last_words = frame, words
        return words

    def operands(self, words: Words) -> Operands:
        """Inputs and outputs of the request in a frame."""
        values = words[1:]
        last, operands = self._last
        if values == last:
            return operands
        extents = iter(values[len(self._operands) :])
        arrays = [each.array(address, extents) for each, address in zip(self._operands, values, strict=False)]
        operands = arrays[: self._inputs], arrays[self._inputs :]
        self._last = values, operands
        return operands


_MOST_KNOWN = 64
"""Arrays that are kept for one operand."""


class _Operand:
    """Memory as an array. A program uses the same memory in call after call, so arrays are kept by their address."""

    __slots__ = ("_dtype", "_fixed", "_known", "_shape", "_writeable")

    def __init__(self, operand: SiteOperand, *, writeable: bool) -> None:
        self._dtype = numpy_dtype(operand.dtype)
        self._shape: Sequence[int | str] = operand.shape
        self._writeable = writeable
        self._fixed = all(isinstance(axis, int) for axis in operand.shape)
        self._known: dict[object, Array] = {}

    def array(self, address: int, extents: Iterator[int]) -> Array:
        """The array at an address; axes of no fixed size take the next of the extents."""
        if self._fixed:
            cached = self._known.get(address)
            return cached if cached is not None else self._array_at(address, address, self._shape)
        shape = tuple(axis if isinstance(axis, int) else next(extents) for axis in self._shape)
        key = address, shape
        cached = self._known.get(key)
        return cached if cached is not None else self._array_at(key, address, shape)

    def _array_at(self, key: object, address: int, shape: Sequence[int | str]) -> Array:
        sizes = cast("Sequence[int]", shape)
        buffer = _memory(self._dtype, sizes).from_address(address)
        array = np.ndarray(sizes, self._dtype, cast("bytearray", buffer))  # NumPy takes any writable buffer
        array.flags.writeable = self._writeable
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = array
        return array


def _memory(dtype: np.dtype[np.generic], shape: Sequence[int]) -> type[Memory]:
    return ctypes.c_char * (math.prod(shape) * dtype.itemsize)
