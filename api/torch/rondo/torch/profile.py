# SPDX-License-Identifier: Apache-2.0
"""One event per call in torch.profiler's traces: "rondo:all_reduce", with the input shapes.

As with gloo and nccl, an event begins with the call and ends when the call is done, on another
thread. Under rondo.torch.run it is named after the backend that the script asked for, with nccl's
names if that is nccl. While no profiler is on, a usual call checks one flag (usual.py).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

from rondo.torch import completer
from rondo.torch.hooks import Completion, hooked
from rondo.torch.usual import usually

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
            completer.elsewhere(lambda: self._ends.set_result(None))


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
