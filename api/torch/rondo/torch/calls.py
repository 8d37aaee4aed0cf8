# SPDX-License-Identifier: Apache-2.0
"""The way from a method of a group to the C function: torch's fast path, and one for every other.

A usual call has dense CPU tensors of a type that the library has and a built-in operation, in a
group without hooks, coalescing or a profiler. The C module usual_calls makes it, without Python
between the tensor and the library. Every other call, and every call where the package lacks the
module, takes the general path, which also reports errors.

There a call is one event in torch.profiler's traces: "rondo:all_reduce", with the input shapes. As
with gloo and nccl, an event begins with the call and ends when the call is done, on another thread.
Under rondo.torch.run it is named after the backend that the script asked for, with nccl's names if
that is nccl. While no profiler is on, a usual call checks one flag.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

from rondo.torch import threads
from rondo.torch.hooks import Completion, hooked
from rondo.torch.library import OPS, TYPES, Op, lib
from rondo.torch.work import FINISHED

try:
    import rondo.torch.usual_calls as usual_calls
except ImportError:  # a source tree, or another build of Python
    usual_calls = None

LAST_CODE = 255  # larger results are requests
OPERATIONS = 16
SIMPLE = (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG)  # defined for every type but bool
FUNCTIONS = (
    "ncclAllReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather", "ncclAlltoAll",
    "rondoStreamRecord", "rondoRequestRun", "rondoRequestTest", "rondoRequestFree",
)  # fmt: skip


def bind() -> None:
    numbers = [-1] * OPERATIONS
    for op in SIMPLE:
        numbers[int(op)] = OPS[op]
    usual_calls.bind(
        {name: ctypes.cast(getattr(lib, name), ctypes.c_void_p).value for name in FUNCTIONS},
        torch.Tensor,
        torch.nn.Parameter,
        torch.strided,
        TYPES,
        {dtype: number for dtype, number in TYPES.items() if dtype != torch.bool},
        numbers,
    )
    # The same functions without ctypes.
    lib.rondoRequestRun = usual_calls.run
    lib.rondoRequestTest = usual_calls.test
    lib.rondoRequestFree = usual_calls.release


if usual_calls is not None:
    bind()


def usually(name: str, general: Callable, needs_size: bool) -> Callable:
    """Makes usual calls by the C function of this name, all others by `general`. needs_size: the
    function takes the number of ranks, too."""
    if usual_calls is None:
        return general
    function = getattr(usual_calls, name)

    @functools.wraps(general)
    def call(group, *given, **named):
        if profiler._is_profiler_enabled or named or not group.is_plain:
            return general(group, *given, **named)
        if group._unfinished:
            group._finish_earlier()
        more = (group._size,) if needs_size else ()
        result = function(group._comm, group._stream, group._issuing, *given, *more)
        if result is None:
            return general(group, *given)
        if result > LAST_CODE:
            return group._queued(result, given)
        if result:
            group._check(result)
        return FINISHED

    return call


# ---- events ----

_here = threading.local()  # per thread: True inside a call that has its event


class Internode:
    """An event that has begun."""

    def __init__(self, name: str, inputs: list[torch.Tensor]) -> None:
        self._thread, self._left = threading.get_ident(), 1
        self._ends, self._counting = torch.futures.Future(), threading.Lock()
        record = torch.autograd._record_function_with_args_enter(name, *inputs)
        # The thread that sets a Future gets the profiler of the thread where the event began.
        self._event = torch.ops.profiler._call_end_callbacks_on_jit_fut(record, self._ends)

    def of_several(self, works: int) -> None:
        self._left = works

    def end(self, failed: bool = False) -> None:
        """One of its works is done; called before any thread can see that."""
        with self._counting:
            self._left -= 1
            if self._left != 0:
                return
        if threading.get_ident() != self._thread:
            self._ends.set_result(None)
        else:  # torch: asynchronous only if it ends on another thread
            threads.run_elsewhere(lambda: self._ends.set_result(None))


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value or () for tensor in tensors_in(part)]


class Spans:
    """The events that end with one call."""

    def __init__(self, spans: list) -> None:
        self._spans = spans

    def of_several(self, works: int) -> None:
        for span in self._spans:
            span.of_several(works)

    def end(self, failed: bool = False) -> None:
        for span in self._spans:
            span.end(failed)


def recorded(spans: Spans, call: Callable) -> Any:
    _here.inside = True
    try:
        work = call()
    except BaseException:
        spans.end(failed=True)
        raise
    finally:
        _here.inside = False
    work.carry(spans)
    return work


Title = str | Callable[[Any, list], str]  # or a function of the group and the call's arguments


def profiled(
    title: Title,
    inputs: int | None,
    nccl: Title | None = None,
    usual: str | None = None,
    sized: bool = False,
) -> Callable:
    """inputs: which argument holds the input tensors. usual: the C function of a usual call, which
    takes the number of ranks, too, if sized."""

    def decorate(method: Callable) -> Callable:
        def event_of(group, *given) -> tuple[str, list[torch.Tensor]]:
            backend = group.profiled_as
            words = nccl if nccl and backend == "nccl" else title
            name = words if isinstance(words, str) else words(group, given)
            return f"{backend}:{name}", [] if inputs is None else tensors_in(given[inputs])

        @functools.wraps(method)
        def with_event(group, *given, **named):
            profiling, hook = profiler._is_profiler_enabled, group._completion_hook
            if not (profiling or hook) or getattr(_here, "inside", False):
                return method(group, *given, **named)
            spans = [Completion(group, method.__name__)] if hook else []
            if profiling:
                spans.append(Internode(*event_of(group, *given, *named.values())))
            return recorded(Spans(spans), lambda: method(group, *given, **named))

        general = hooked(method, with_event)
        return general if usual is None else usually(usual, general, sized)

    return decorate
