# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that the other ranks of the host access in place: half the copies of a call.

A tensor's memory returns to a pool when its storage is freed, and serves the next tensor of the
same size: FSDP asks for the same sizes in every step, and new memory costs page faults. The pool
never holds more bytes than were in use at the same time.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import OrderedDict

import torch

from rondo.torch.errors import check
from rondo.torch.library import lib

PAGE = 4096


class Pool:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run inside any of these methods
        self._free: OrderedDict[int, int] = OrderedDict()  # size by address, oldest first
        self._used = self._max_used = 0
        self._made_in = os.getpid()

    def take(self, size: int) -> ctypes.Array:
        """Memory that is given back when the array is collected."""
        with self._lock:
            place = next((at for at, free in reversed(self._free.items()) if free == size), None)
            if place is not None:
                del self._free[place]
            self._used += size
            self._max_used = max(self._max_used, self._used)
        if place is None:
            made = ctypes.c_void_p()
            check(lib.rondoMemAllocHost(ctypes.byref(made), size))
            place = made.value
        memory = (ctypes.c_char * size).from_address(place)
        weakref.finalize(memory, self._give_back, place, size).atexit = False
        return memory

    def _give_back(self, place: int, size: int) -> None:
        if self._made_in != os.getpid():
            return  # the memory of a forked child's parent
        with self._lock:
            self._used -= size
            self._free[place] = size
            while self._used + sum(self._free.values()) > self._max_used:
                oldest, _ = self._free.popitem(last=False)
                lib.ncclMemFree(oldest)


_pool = Pool()


def shared_tensor(count: int, dtype: torch.dtype) -> torch.Tensor:
    global _pool
    if _pool._made_in != os.getpid():
        _pool = Pool()
    used = count * dtype.itemsize
    if used == 0:
        return torch.empty(0, dtype=dtype)
    memory = _pool.take(-(-used // PAGE) * PAGE)
    return torch.frombuffer(memory, dtype=torch.uint8, count=used).view(dtype)
