# SPDX-License-Identifier: Apache-2.0
"""Completes the Futures of queued calls, and ends their events in a profiler.

A callback of a Future can itself wait for a collective, so before a thread runs callbacks it makes
sure that another thread is listening. Threads start with the first Future and end with the process,
before the interpreter does.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import logging
import multiprocessing.util
import os
import threading
from collections.abc import Callable

from rondo.torch.errors import check
from rondo.torch.library import SUCCESS, lib

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


def watch(request: int, then: Callable[[], object]) -> None:
    """Calls then() once the request is done, on a thread of this module."""
    _completer().watch(request, then)


def elsewhere(function: Callable[[], object]) -> None:
    """Runs the function on a thread of this module, and waits for it. The function must not
    wait."""
    _completer().run(function)
