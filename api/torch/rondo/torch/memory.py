# SPDX-License-Identifier: Apache-2.0
"""Tensors' memory: dense for the C interface, or shared with the other ranks of the host.

`Buffers` collects what a call needs besides the tensors: dense copies of tensors that are not
dense, and the copies back into them after the call.

`shared_tensor` makes a tensor that the other ranks of the host access in place: half the copies of
a call. Its memory returns to a pool when its storage is freed, and serves the next tensor of the
same size: FSDP asks for the same sizes in every step, and new memory costs page faults. The pool
never holds more bytes than were in use at the same time.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from rondo.torch.library import check, lib

PAGE = 4096
ELSEWHERE = (
    "rondo: this tensor is on {device}, and the backend 'rondo' serves CPU tensors. For GPUs keep "
    "backend='nccl' and start the program with LD_PRELOAD=.../libnccl.so.2 of Rondo. To use both "
    "in one group ('cpu:rondo,cuda:nccl') torch 2.14 or newer is needed."
)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu":
        raise RuntimeError(ELSEWHERE.format(device=tensor.device))
    if tensor.is_sparse:
        raise RuntimeError("rondo: only all_reduce takes sparse tensors")
    return tensor


def same_sizes(tensors: Sequence[torch.Tensor]) -> bool:
    return all(tensor.numel() == tensors[0].numel() for tensor in tensors)


def expect(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(f"rondo: {text}")


def counts_of(sizes: Sequence[int]) -> tuple[ctypes.Array, ctypes.Array]:
    """Counts and displacements of consecutive parts, as C arrays."""
    array = ctypes.c_size_t * len(sizes)
    starts, total = [], 0
    for size in sizes:
        starts.append(total)
        total += size
    return array(*sizes), array(*starts)


class Buffers:
    """Keeps its tensors alive; finish() makes results visible in the caller's tensors."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []
        self.copies_back: list[Callable[[], object]] = []

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        dense = on_host(tensor).contiguous()
        self.kept.append(dense)
        return dense

    def written(self, tensor: torch.Tensor) -> torch.Tensor:
        """Dense memory with the tensor's contents, copied back to the tensor after the call."""
        dense = self.read(tensor)
        if dense is not tensor:
            self.copies_back.append(lambda: tensor.copy_(dense))
        return dense

    def read_all(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """All tensors in consecutive memory."""
        flat = as_one(tensors)
        if flat is None:
            flat = torch.cat([on_host(t).reshape(-1) for t in tensors])
        self.kept.append(flat)
        return flat

    def written_all(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        flat = as_one(tensors)
        if flat is None:
            flat = torch.empty(sum(t.numel() for t in tensors), dtype=tensors[0].dtype)
            self.copies_back.append(lambda: split_into(flat, tensors))
        self.kept.append(flat)
        return flat

    def finish(self) -> None:
        for copy in self.copies_back:
            copy()
        self.copies_back.clear()


def as_one(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The memory of dense tensors that are already consecutive, else None."""
    first = on_host(tensors[0])
    place, total = first.data_ptr(), 0
    for tensor in tensors:
        on_host(tensor)
        if not tensor.is_contiguous() or tensor.data_ptr() != place or tensor.dtype != first.dtype:
            return None
        if tensor.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return None
        place += tensor.numel() * tensor.element_size()
        total += tensor.numel()
    return first.as_strided((total,), (1,))


def split_into(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    for part, tensor in zip(flat.split([t.numel() for t in tensors]), tensors):
        tensor.copy_(part.view(tensor.shape))


# ---- memory that ranks share ----


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
