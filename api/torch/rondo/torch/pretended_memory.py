# SPDX-License-Identifier: Apache-2.0
"""Statistics of GPU memory where every GPU is the CPU: the allocator of torch.cuda holds nothing.

All names of torch.cuda exist, so that programs which print them run. All values are 0.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

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


def total() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_and_total(*_: Any) -> tuple[int, int]:
    return total(), total()


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


ANSWERS = {
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
OF_ACCELERATOR = {
    "get_memory_info": free_and_total,
    "memory_stats": ANSWERS["memory_stats"],
    **dict.fromkeys(
        (
            "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        ),
        none_used,
    ),
}  # fmt: skip
