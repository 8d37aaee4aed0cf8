# SPDX-License-Identifier: Apache-2.0
"""Streams and events where every GPU is the CPU.

All work on the CPU is done when a call returns, so streams and events never wait. Streams are
distinct objects, and each thread has a current one, as on a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import Any

import torch

REAL_STREAM, REAL_EVENT = torch.Stream, torch.Event
NO_IPC = "rondo: events of the CPU have no handles for other processes (--device cpu)"
NOT_RECORDED = "Both events must be recorded before calculating elapsed time."
_numbers = itertools.count(1)
_of_thread = threading.local()


class StreamKind(type(REAL_STREAM)):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, REAL_STREAM)


class EventKind(type(REAL_EVENT)):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, REAL_EVENT)


class Stream(REAL_STREAM, metaclass=StreamKind):
    """Replaces torch.Stream and torch.cuda.Stream."""

    def __new__(cls, *_: Any, **__: Any) -> Stream:
        return super().__new__(cls, device="cpu")

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.priority, self._number = priority, next(_numbers)
        self._before: list[Stream] = []

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, 0

    @property
    def stream_id(self) -> int:
        return self._number

    cuda_stream = native_handle = stream_id

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._number)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._number

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __ne__(self, other: Any) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"<stream {self._number} of the CPU>"

    def __enter__(self) -> Stream:
        self._before.append(current_stream())
        set_stream(self)
        return self

    def __exit__(self, *_: Any) -> None:
        set_stream(self._before.pop())

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        pass


class ExternalStream(Stream):
    def __init__(self, stream_ptr: int = 0, device: Any = None, **_: Any) -> None:
        super().__init__(device)


class Event(REAL_EVENT, metaclass=EventKind):
    """Replaces torch.Event and torch.cuda.Event."""

    def __new__(cls, *_: Any, **__: Any) -> Event:
        return super().__new__(cls, device="cpu")

    def __init__(self, *_: Any, **__: Any) -> None:
        self._at: float | None = None

    @property
    def event_id(self) -> int:
        return id(self)

    cuda_event = event_id

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.event_id)

    def record(self, stream: Stream | None = None) -> None:
        self._at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        if self._at is None or end._at is None:
            raise RuntimeError(NOT_RECORDED)
        return (end._at - self._at) * 1e3

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Stream | None = None) -> None:
        pass

    def ipc_handle(self) -> None:
        raise RuntimeError(NO_IPC)

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> None:
        raise RuntimeError(NO_IPC)

    def __repr__(self) -> str:
        return "<event of the CPU>"


class StreamContext:
    """torch.cuda.stream(stream); None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__()


DEFAULT = Stream()


def current_stream(device: Any = None) -> Stream:
    return getattr(_of_thread, "stream", DEFAULT)


def set_stream(stream: Stream | None) -> None:
    if stream is not None:
        _of_thread.stream = stream
