# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during a call: KeyboardInterrupt within half a second.

Python runs handlers of signals between two instructions of the main thread, so not before a call of
the library returns. Here a thread learns of SIGINT from Python's wakeup descriptor. If the main
thread then stays in a call of a group, the group is aborted: the call ends on all of its ranks, and
Python raises KeyboardInterrupt in this one.

Where SIGINT has another handler than Python's, which may not raise, or the program has a wakeup
descriptor of its own, nothing is aborted. Cost: a thread and two descriptors; nothing per call.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import types

STAYS_SECONDS = 0.3  # in one call of the library; longer than a slice of a wait (work.py)
PACKAGE = os.path.dirname(__file__)
_written = -1  # the descriptor that Python writes to, in this process


def place_of_main_thread() -> tuple[types.FrameType | None, int]:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame, frame.f_lasti if frame else 0


def group_of_call(frame: types.FrameType | None) -> object | None:
    """The group in whose call the innermost frames are, all of them of this package."""
    from rondo.torch.process_group import RondoProcessGroup
    from rondo.torch.work import QueuedWork

    while frame is not None and os.path.dirname(frame.f_code.co_filename) == PACKAGE:
        for value in frame.f_locals.values():
            if isinstance(value, RondoProcessGroup):
                return value
            if isinstance(value, QueuedWork):
                return value.group()
        frame = frame.f_back
    return None


def end_call() -> None:
    """Aborts the group in whose call the main thread stays."""
    before = place_of_main_thread()
    if group_of_call(before[0]) is None:
        return
    time.sleep(STAYS_SECONDS)
    frame, instruction = place_of_main_thread()
    if (frame, instruction) == before and (group := group_of_call(frame)) is not None:
        group.abort()


def serve(descriptor: int) -> None:
    while numbers := os.read(descriptor, 64):
        if (
            signal.SIGINT in numbers
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            end_call()


def after_fork() -> None:
    """The thread and the pipe's other end are the parent's."""
    global _written
    if _written >= 0 and (current := signal.set_wakeup_fd(-1)) != _written:
        signal.set_wakeup_fd(current)  # the program's own
    _written = -1


os.register_at_fork(after_in_child=after_fork)


def watch() -> None:
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
    threading.Thread(target=serve, args=(read,), name="rondo interrupts", daemon=True).start()
