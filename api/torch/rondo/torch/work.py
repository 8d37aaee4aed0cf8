# SPDX-License-Identifier: Apache-2.0
"""Work: the result of a call. Either already finished, or a request that the library runs.

Guarantees: wait() raises the call's error. Results are in the caller's tensors once wait() has
returned, is_completed() has returned True or the Future is set. The group keeps a queued Work alive
until it is done, even if no thread waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

from rondo.torch import threads
from rondo.torch.library import IN_PROGRESS, SUCCESS, error_now, lib
from rondo.torch.memory import Buffers
from rondo.torch.traced import untraced

SLICE_SECONDS = 0.2  # a wait checks Python's signals this often
EXPIRY_SECONDS = 60.0  # an expired call fails at once, if its thread runs
NO_LIMIT = timedelta(0)
settling = threading.RLock()


class Span(Protocol):
    """What ends with a call: an event in a profiler, a completion hook."""

    def of_several(self, works: int) -> None: ...

    def end(self, failed: bool = False) -> None: ...


class Group(Protocol):
    """What a Work needs of its group."""

    seconds: float

    def run_abort_hooks(self) -> None: ...


class Running(threading.local):
    """Per thread: the calls whose callbacks are running, and the calls around those."""

    works: frozenset[QueuedWork] = frozenset()


_running = Running()


def seconds_of(options: object) -> float | None:
    """The limit of this call, if it has its own."""
    timeout = getattr(options, "timeout", None)
    return timeout.total_seconds() if timeout is not None and timeout > NO_LIMIT else None


@untraced
class FinishedWork(dist._Work):
    """The Work of a call that ran on the caller's thread."""

    def __init__(self, results: list[torch.Tensor] | None = None) -> None:
        super().__init__()
        self._results = results or []

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> list[torch.Tensor]:
        return self._results

    def get_future(self) -> torch.futures.Future:
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self._results)
        return future

    @property
    def timeout(self) -> timedelta:
        return timedelta(0)  # complete from the start

    def carry(self, span: Span) -> None:
        """The event of the call, which ends with it."""
        span.end()


FINISHED = FinishedWork()


class Failure:
    """The value of a failed Future. Python raises the error when it reads the value. torch's C++
    (DDP's Reducer) takes the value for tensors: it looks for them by pickling it, which raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def raise_error(self) -> None:
        raise self._error

    def __reduce_ex__(self, protocol: object) -> tuple:
        raise self._error


@untraced
class CallFuture(torch.futures.Future):
    """Records if it has callbacks. Callbacks can issue calls, and all ranks must issue calls in the
    same order, so the group lets no other thread issue a call until they have run."""

    def __init__(self, work: QueuedWork) -> None:
        super().__init__()
        self._work = work

    def wait(self):  # type: ignore[no-untyped-def]
        self._work.run_here()
        self._work.complete_future()
        return super().wait()

    def fail(self, error: Exception) -> None:
        self._set_unwrap_func(Failure.raise_error)
        self.set_result(Failure(error))

    def then(self, callback):  # type: ignore[no-untyped-def]
        self._work.chained = True
        return super().then(callback)

    def add_done_callback(self, callback):  # type: ignore[no-untyped-def]
        self._work.chained = True
        super().add_done_callback(callback)


class QueuedWork(dist._Work):
    """The Work of a call that runs beside its caller."""

    others_need_it = True  # the process waits for it before it exits
    runs_on_waiters = False  # a thread that waits for the call may run it
    group: Callable[[], Group | None] = staticmethod(lambda: None)
    buffers: Buffers | None = None  # None: nothing to copy back
    given: tuple = ()  # kept alive
    chained = False  # True if its Future has callbacks

    _error: Exception | None = None
    _future: torch.futures.Future | None = None
    _span: Span | None = None
    _is_watched = _is_future_set = False
    _chain_done: threading.Event  # since it has a Future

    def __init__(
        self, request: int, results: list[torch.Tensor], limit: float | None = None
    ) -> None:
        super().__init__()
        self._request: int | None = request
        self._results, self._limit = results, limit
        self._around = _running.works  # they wait for this Work, so it must not wait for them

    def wait_for_chain(self) -> None:
        """Waits until its callbacks have run, but not for calls that they issue."""
        if self not in _running.works:
            self._chain_done.wait()

    def is_over(self) -> bool:
        return self.is_completed() and (not self.chained or self._chain_done.is_set())

    def settle(self, code: int) -> None:
        """Called when the request is done: makes its results visible, once."""
        error = None if code == SUCCESS else error_now(code)
        with settling:
            request = self._request
            if request is None:
                return
            self._error = error
            if error is None:
                if self.buffers is not None:
                    self.buffers.finish()
            elif (group := self.group()) is not None:
                group.run_abort_hooks()
            self._at_end(request)
            if self._span is not None:
                self._span.end(error is not None)
            self.given = ()
            self._request = None  # tells other threads that all of the above is done
            lib.rondoRequestFree(request)

    def _at_end(self, request: int) -> None:
        pass

    def _expire(self, seconds: float) -> None:
        """Ends a running call that has exceeded the limit of a caller of wait()."""
        raise NotImplementedError

    def is_completed(self) -> bool:
        request = self._request
        if request is None:
            return True
        code = lib.rondoRequestTest(request)
        if code == IN_PROGRESS:
            return False
        self.settle(code)
        return True

    def wait(self, timeout: timedelta = NO_LIMIT) -> bool:
        limit = timeout.total_seconds() if timeout > NO_LIMIT else self._limit
        if limit is None:
            self.run_here()
        elif not self._settled_within(limit):
            self._expire(limit)
            self._settled_within(limit + EXPIRY_SECONDS)  # the error names its peer
        if self._request is not None:
            raise dist.DistBackendError(f"rondo: not done within {limit} s")
        if self._error is not None:
            raise self._error
        return True

    def _settled_within(self, limit: float) -> bool:
        end = time.monotonic() + limit
        while (request := self._request) is not None:
            left = min(SLICE_SECONDS, end - time.monotonic())
            if left < 0:
                return False
            code = lib.rondoRequestWait(request, left)
            if code != IN_PROGRESS:
                self.settle(code)
        return True

    def run_here(self) -> None:
        """Waits without a limit of its own. A collective that has not begun runs on this thread."""
        wait = lib.rondoRequestRun if self.runs_on_waiters else lib.rondoRequestWait
        while (request := self._request) is not None:
            code = wait(request, SLICE_SECONDS)
            if code != IN_PROGRESS:
                self.settle(code)

    def synchronize(self) -> None:
        self.wait()

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._results

    @property
    def timeout(self) -> timedelta:
        """The maximum time of wait(): its own limit, or the group's."""
        group = self.group()
        return timedelta(seconds=self._limit or (group.seconds if group else 0))

    def get_future(self) -> torch.futures.Future:
        with settling:
            if self._future is None:
                self._chain_done = threading.Event()
                self._future = CallFuture(self)
                if self._request is None:
                    self.complete_future()
                else:
                    self._watch()
            return self._future

    def carry(self, span: Span) -> None:
        with settling:
            if self._request is None:
                return span.end(self._error is not None)
            self._span = span
            self._watch()

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            threads.when_done(self._request, self._when_done)

    def _when_done(self) -> None:
        self.is_completed()
        with settling:
            asked = self._future is not None
        if asked:
            self.complete_future()

    def complete_future(self) -> None:
        """Called by a thread of threads.py, or by get_future() itself; callbacks run here."""
        with settling:
            if self._is_future_set:
                return
            self._is_future_set = True
        before, _running.works = _running.works, self._around | {self}
        try:
            if self._error is None:
                self._future.set_result(self._results)
            else:
                self._future.fail(self._error)
        finally:
            _running.works = before
            self._chain_done.set()


@untraced
class CallWork(QueuedWork):
    """The Work of a collective on the group's stream."""

    comm: int | None = None
    runs_on_waiters = True
    _has_expired = False

    def _expire(self, seconds: float) -> None:
        with settling:
            if self._request is not None:
                self._has_expired = True
                lib.rondoCommSetTimeout(self.comm, seconds)  # the error names missing ranks

    def _at_end(self, request: int) -> None:
        """A call that moves data can end well after its limit. Later calls have the group's."""
        if self._has_expired and (group := self.group()) is not None:
            lib.rondoCommSetTimeout(self.comm, group.seconds)


@untraced
class JoinedWork(dist._Work):
    """Several of them as one."""

    def __init__(self, works: list) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return all([work.wait(timeout) for work in self._works])

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Exception | None:
        return next((e for work in self._works if (e := work.exception())), None)

    def result(self) -> list[torch.Tensor]:
        return [tensor for work in self._works for tensor in work.result()]

    @property
    def timeout(self) -> timedelta:
        return max(work.timeout for work in self._works)

    def carry(self, span: Span) -> None:
        span.of_several(len(self._works))
        for work in self._works:
            work.carry(span)

    def get_future(self) -> torch.futures.Future:
        joined = torch.futures.collect_all([work.get_future() for work in self._works])
        return joined.then(lambda done: [t for future in done.value() for t in future.value()])
