# SPDX-License-Identifier: Apache-2.0
"""Shares large copies and sums among torch's own threads.

Threads of Rondo's own would take the cores of torch's. So calls of the thread that makes a group
use its pool, as torch's operators do. Calls of other threads use one thread, and so do those with
async_op=True that this thread does not run itself in wait(). RONDO_THREADS in the environment asks
for Rondo's threads instead.
"""

from __future__ import annotations

import ctypes
import os
import pathlib

import torch

from rondo.torch.errors import check
from rondo.torch.library import lib

_forked = False  # since torch was imported: the pool's threads are the parent's


def _after_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


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
