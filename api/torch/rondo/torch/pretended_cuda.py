"""torch.cuda where every GPU is the CPU: what programs ask of streams, events, memory and seeds.

All work on the CPU is done when a call returns: streams and events have nothing to wait for.
"""

from __future__ import annotations

import os
import time
import types
from contextlib import contextmanager
from typing import Any

import torch

NAME = "CPU by rondo.torch.run"


class Stream:
    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device, self.priority = torch.device("cpu"), priority
        self.stream_id = self.cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def query(self) -> bool:
        return True

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


class Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        if self._at is None or end._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._at - self._at) * 1e3

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Stream | None = None) -> None:
        pass


STREAM = Stream()


@contextmanager
def stream_context(stream: Stream | None) -> Any:
    yield stream


def memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def properties(_: Any = None) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=NAME, major=9, minor=0, total_memory=memory(), multi_processor_count=os.cpu_count(),
        warp_size=32, is_integrated=0, is_multi_gpu_board=0, gcnArchName="",
    )  # fmt: skip


def nothing(*_: Any, **__: Any) -> None:
    pass


ANSWERS = {
    "Stream": Stream,
    "Event": Event,
    "stream": stream_context,
    "StreamContext": stream_context,
    "current_stream": lambda *_: STREAM,
    "default_stream": lambda *_: STREAM,
    "get_device_properties": properties,
    "get_device_name": lambda *_: NAME,
    "get_device_capability": lambda *_: (9, 0),
    "is_bf16_supported": lambda *_, **__: True,
    "can_device_access_peer": lambda *_: True,
    "is_initialized": lambda: True,
    "mem_get_info": lambda *_: (memory(), memory()),
    "memory_summary": lambda *_, **__: "no GPU memory: every GPU is the CPU (rondo.torch.run)",
    "manual_seed": lambda seed: torch.default_generator.manual_seed(seed) and None,
    "manual_seed_all": lambda seed: torch.default_generator.manual_seed(seed) and None,
    "get_rng_state": lambda *_: torch.get_rng_state(),
    "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    "get_rng_state_all": lambda: [torch.get_rng_state()],
    "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
    **dict.fromkeys(
        (
            "synchronize", "empty_cache", "init", "ipc_collect", "set_stream",
            "reset_peak_memory_stats", "reset_accumulated_memory_stats",
            "reset_max_memory_allocated", "reset_max_memory_cached",
            "set_per_process_memory_fraction",
        ),
        nothing,
    ),
}  # fmt: skip


def install(current: types.FunctionType, set_current: types.FunctionType) -> None:
    """current() and set_current(index): which GPU the program believes to be on."""

    class device:
        def __init__(self, which: Any) -> None:
            self._which = which

        def __enter__(self) -> None:
            self._before = current()
            set_current(self._which)

        def __exit__(self, *_: Any) -> None:
            set_current(self._before)

    for name, answer in ANSWERS.items():
        setattr(torch.cuda, name, answer)
    torch.cuda.device = torch.accelerator.device_index = device
    torch.accelerator.synchronize = nothing
    torch.accelerator.current_stream = lambda *_: STREAM
    torch.accelerator.empty_cache = nothing
    torch.cuda.nvtx.range_push = torch.cuda.nvtx.mark = torch.cuda.nvtx.range_pop = nothing
    torch.Tensor.record_stream = nothing
