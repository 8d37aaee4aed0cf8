# SPDX-License-Identifier: Apache-2.0
"""Counts the calls of torch's pool that collectives make; checks sums.

A blocking call uses the pool. An asynchronous one does so only where wait() runs it on this thread,
before the stream's thread has taken it.
"""

import contextlib
import ctypes
import pathlib
import sys
from ctypes import c_int, c_int64, c_void_p

import torch
import torch.distributed as dist
from rondo.torch import threads

calls = 0
kind = ctypes.CFUNCTYPE(c_int, c_int64, c_int64, c_int64, c_void_p, c_void_p)
of_torch = kind(threads._parallel_for.value)


@kind
def counted(begin, end, grain, range_, context):
    global calls
    calls += 1
    return of_torch(begin, end, grain, range_, context)


def calls_during(asynchronous):
    before, count = calls, (1 << 20) + 7
    tensor = torch.arange(count, dtype=torch.float64)
    parts = torch.empty(dist.get_world_size() * count, dtype=torch.float64)
    for work in (
        dist.all_gather_into_tensor(parts, tensor, async_op=asynchronous),
        dist.all_reduce(tensor, async_op=asynchronous),
    ):
        if work is not None:
            work.wait()
    whole = torch.arange(count, dtype=torch.float64)
    assert all(torch.equal(part, whole) for part in parts.chunk(dist.get_world_size()))
    assert torch.equal(tensor, dist.get_world_size() * whole)
    return calls - before


threads._parallel_for = counted
dist.init_process_group("rondo")
blocking = calls_during(False)
calls_during(True)  # only the sums are checked
own = 0
for task in pathlib.Path("/proc/self/task").iterdir():
    with contextlib.suppress(OSError):  # a thread that has just ended
        own += (task / "comm").read_text().strip() == "rondo-helper"
# One write: torchrun runs Python unbuffered, where print() writes the line and its end apart.
sys.stdout.write(f"pool {blocking > 0}, {own} threads of Rondo\n")
dist.destroy_process_group()
