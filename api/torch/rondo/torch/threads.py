# SPDX-License-Identifier: Apache-2.0
"""Threads beside the caller's: torch's pool, those that complete Futures, one that sees Ctrl-C.

torch's pool does large copies and sums. Threads of Rondo's own would take the cores of torch's. So
calls of the thread that makes a group use torch's pool, as torch's operators do. Calls of other
threads use one thread, and so do those with async_op=True that this thread does not run itself in
wait(). RONDO_THREADS in the environment asks for Rondo's threads instead.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import logging
import multiprocessing.util
import os
import pathlib
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import torch

from rondo.torch.library import SUCCESS, check, lib

# ---- torch's pool ----

_forked = False  # since torch was imported: the pool's threads are the parent's


def _note_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_note_fork)


def _find_parallel_for() -> ctypes.c_void_p | None:
    """The C function of libtorch_cpu, if this torch has it."""
    path = pathlib.Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    try:
        return ctypes.cast(ctypes.CDLL(str(path)).torch_parallel_for, ctypes.c_void_p)
    except (OSError, AttributeError):
        return None


_parallel_for = _find_parallel_for()


def share_with_torch(comm: int) -> None:
    if "RONDO_THREADS" not in os.environ:
        check(lib.rondoCommSetParallelFor(comm, None if _forked else _parallel_for))


# ---- Futures ----

# Completes the Futures of queued calls, and ends their events in a profiler. A callback of a Future
# can itself wait for a collective, so before a thread runs callbacks it makes sure that another
# thread is listening. Threads start with the first Future and end with the process, before the
# interpreter does.

STOP = 0
LISTENERS_KEPT = 2
JOIN_SECONDS = 2.0
RUN_SECONDS = 60.0
LISTEN_SECONDS = 3600.0


class Completer:
    def __init__(self) -> None:
        self._queue = ctypes.c_void_p()
        check(lib.rondoCompletionsCreate(ctypes.byref(self._queue)))
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[], object]] = {}
        self._tokens = itertools.count(1)
        self._listening = 0
        self._threads: set[threading.Thread] = set()
        self._stopped = False
        self._listen_if_none_does()
        atexit.register(self.stop)
        multiprocessing.util.Finalize(self, self.stop, exitpriority=100)  # a fork skips atexit

    def watch(self, request: int, then: Callable[[], object]) -> None:
        token = next(self._tokens)
        self._waiting[token] = then
        check(lib.rondoCompletionsWatch(self._queue, request, token))

    def run(self, function: Callable[[], object]) -> None:
        if self._stopped:
            return function()
        done, token = threading.Event(), next(self._tokens)
        self._waiting[token] = lambda: (function(), done.set())
        check(lib.rondoCompletionsPost(self._queue, token))
        done.wait(RUN_SECONDS)

    def _listen_if_none_does(self) -> None:
        with self._lock:
            if self._listening > 0:
                return
            self._listening += 1
            thread = threading.Thread(target=self._serve, name="rondo futures", daemon=True)
            self._threads.add(thread)
        thread.start()

    def _serve(self) -> None:
        token = ctypes.c_uint64()
        while True:
            code = lib.rondoCompletionsNext(self._queue, LISTEN_SECONDS, ctypes.byref(token))
            if code != SUCCESS:
                continue
            if token.value == STOP:
                return
            with self._lock:
                self._listening -= 1
            self._listen_if_none_does()
            try:
                self._waiting.pop(token.value)()
            except Exception:
                logging.getLogger(__name__).exception("rondo: a Future's callback failed")
            with self._lock:
                if self._listening >= LISTENERS_KEPT:
                    self._threads.discard(threading.current_thread())
                    return
                self._listening += 1

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            threads = list(self._threads)
        for _ in threads:
            lib.rondoCompletionsPost(self._queue, STOP)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(JOIN_SECONDS)


_made: tuple[int, Completer] | None = None
_making = threading.Lock()


def _completer() -> Completer:
    global _made
    with _making:
        if _made is None or _made[0] != os.getpid():  # a forked child has no threads
            _made = (os.getpid(), Completer())
    return _made[1]


def when_done(request: int, then: Callable[[], object]) -> None:
    """Calls then() once the request is done, on a thread of this module."""
    _completer().watch(request, then)


def run_elsewhere(function: Callable[[], object]) -> None:
    """Runs the function on a thread of this module, and waits for it. The function must not
    wait."""
    _completer().run(function)


# ---- Ctrl-C ----

# KeyboardInterrupt during a call, within half a second. Python runs handlers of signals between two
# instructions of the main thread, so not before a call of the library returns. Here a thread learns
# of SIGINT from Python's wakeup descriptor. If the main thread then stays in a call of a group, the
# group is aborted: the call ends on all of its ranks, and Python raises KeyboardInterrupt in this
# one.
#
# Where SIGINT has another handler than Python's, which may not raise, or the program has a wakeup
# descriptor of its own, nothing is aborted. Cost: a thread and two descriptors; nothing per call.

STAYS_SECONDS = 0.3  # in one call of the library; longer than a slice of a wait (work.py)
PACKAGE = os.path.dirname(__file__)
_written = -1  # the descriptor that Python writes to, in this process

GroupOf = Callable[[object], Any]  # from a variable of a function: the group whose call it is


def place_of_main_thread() -> tuple[types.FrameType | None, int]:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame, frame.f_lasti if frame else 0


def group_of_call(frame: types.FrameType | None, group_of: GroupOf) -> Any:
    """The group in whose call the innermost frames are, all of them of this package."""
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == PACKAGE:
        for value in frame.f_locals.values():
            if (group := group_of(value)) is not None:
                return group
        frame = frame.f_back
    return None


def end_call(group_of: GroupOf) -> None:
    """Aborts the group in whose call the main thread stays."""
    before = place_of_main_thread()
    if group_of_call(before[0], group_of) is None:
        return
    time.sleep(STAYS_SECONDS)
    frame, instruction = place_of_main_thread()
    if (frame, instruction) == before and (group := group_of_call(frame, group_of)) is not None:
        group.abort()


def serve_interrupts(descriptor: int, group_of: GroupOf) -> None:
    while numbers := os.read(descriptor, 64):
        if (
            signal.SIGINT in numbers
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            end_call(group_of)


def leave_wakeup() -> None:
    """In a forked child: the thread and the pipe's other end are the parent's."""
    global _written
    if _written >= 0 and (current := signal.set_wakeup_fd(-1)) != _written:
        signal.set_wakeup_fd(current)  # the program's own
    _written = -1


os.register_at_fork(after_in_child=leave_wakeup)


def watch_for_interrupts(group_of: GroupOf) -> None:
    """Begins, once in a process. Only the main thread can; later groups try again."""
    global _written
    if _written >= 0 or threading.current_thread() is not threading.main_thread():
        return
    read, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(written)
        return
    _written = written
    threading.Thread(
        target=serve_interrupts, args=(read, group_of), name="rondo interrupts", daemon=True
    ).start()
