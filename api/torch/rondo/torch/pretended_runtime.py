# SPDX-License-Identifier: Apache-2.0
"""Streams, events and statistics of memory where every GPU is the CPU.

All work on the CPU is done when a call returns, so streams and events never wait. Streams are
distinct objects, and each thread has a current one, as on a GPU.

The allocator of torch.cuda holds nothing: all names of its statistics exist, so that programs which
print them run, and all values are 0.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from collections import OrderedDict
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


# ---- memory ----

COUNTS = (
    "num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free",
    "max_split_size",
)  # fmt: skip
SIZES = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
    "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
OVERSIZE = ("oversize_allocations", "oversize_segments")
HOST = ("allocations", "allocated_bytes", "active_requests", "active_bytes", "segments")
TIMES = ("host_alloc_time", "host_free_time")
POOLS, NUMBERS = ("all", "small_pool", "large_pool"), ("current", "peak", "allocated", "freed")


def total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_and_total(*_: Any) -> tuple[int, int]:
    return total_memory(), total_memory()


def zeros(names: tuple[str, ...]) -> dict[str, int]:
    return dict.fromkeys(names, 0)


def nested(*_: Any) -> dict[str, Any]:
    pools = {name: {pool: zeros(NUMBERS) for pool in POOLS} for name in SIZES}
    return {**zeros(COUNTS), **{name: zeros(NUMBERS) for name in OVERSIZE}, **pools}


def nested_of_host(*_: Any) -> dict[str, Any]:
    times = {name: zeros(("total", "max", "min", "count", "avg")) for name in TIMES}
    return {**{name: zeros(NUMBERS) for name in HOST}, **times}


def flat(values: dict[str, Any], prefix: str = "") -> OrderedDict[str, int]:
    """{"a": {"b": 0}} as {"a.b": 0}."""
    result: OrderedDict[str, int] = OrderedDict()
    for name, value in values.items():
        if isinstance(value, dict):
            result.update(flat(value, f"{prefix}{name}."))
        else:
            result[f"{prefix}{name}"] = value
    return result


def none_used(*_: Any, **__: Any) -> int:
    return 0


MEMORY_ANSWERS = {
    "mem_get_info": free_and_total,
    "memory_summary": lambda *_, **__: "no GPU memory: every GPU is the CPU (rondo.torch.run)",
    "memory_stats": lambda *_: flat(nested()),
    "memory_stats_as_nested_dict": nested,
    "host_memory_stats": lambda *_: flat(nested_of_host()),
    "host_memory_stats_as_nested_dict": nested_of_host,
    "memory_snapshot": lambda *_, **__: [],
    "list_gpu_processes": lambda *_: "no GPU: every GPU is the CPU (rondo.torch.run)",
    "get_allocator_backend": lambda: "native",
    "get_per_process_memory_fraction": lambda *_: 1.0,
    **dict.fromkeys(
        (
            "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
            "memory_cached", "max_memory_cached", "device_memory_used",
        ),
        none_used,
    ),
}  # fmt: skip
MEMORY_OF_ACCELERATOR = {
    "get_memory_info": free_and_total,
    "memory_stats": MEMORY_ANSWERS["memory_stats"],
    **dict.fromkeys(
        (
            "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        ),
        none_used,
    ),
}  # fmt: skip
