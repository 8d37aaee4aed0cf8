# SPDX-License-Identifier: Apache-2.0
"""Record: reports the calls of a rank to librondo-watch.so, by NCCL's profiler plugin interface.

    record = Record(number, "default_pg", rank, size)     # a number that all ranks share
    end = record.begin(b"AllReduce", 4, b"ncclFloat32", -1)
    ...
    end()

Guarantees: what the plugin does not understand it ignores. Cost: two calls of C for each call.
Source: version 5 of the interface, plugin/profiler/profiler_v5.h of NVIDIA's published headers.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint64, c_void_p
from typing import Any

import torch

from rondo import library

COLL, P2P, KERNEL = 1 << 1, 1 << 2, 1 << 6  # kinds of events


class Coll(ctypes.Structure):
    _fields_ = [
        ("sequence", c_uint64), ("function", c_char_p), ("send", c_void_p), ("receive", c_void_p),
        ("count", c_size_t), ("root", c_int), ("type", c_char_p), ("channels", c_uint8),
        ("warps", c_uint8), ("algorithm", c_char_p), ("protocol", c_char_p), ("group", c_void_p),
    ]  # fmt: skip


class P2p(ctypes.Structure):
    _fields_ = [
        ("function", c_char_p), ("buffer", c_void_p), ("type", c_char_p), ("count", c_size_t),
        ("peer", c_int), ("channels", c_uint8), ("group", c_void_p),
    ]  # fmt: skip


class AnyOf(ctypes.Union):
    _fields_ = [("coll", Coll), ("p2p", P2p)]


class Event(ctypes.Structure):
    _fields_ = [("kind", c_uint64), ("parent", c_void_p), ("rank", c_int), ("of", AnyOf)]


assert ctypes.sizeof(Event) == 112 and Event.of.offset == 24

_init = ctypes.CFUNCTYPE(
    c_int, POINTER(c_void_p), c_uint64, POINTER(c_int), c_char_p, c_int, c_int, c_int, c_void_p
)
_start = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(Event))
_stop = ctypes.CFUNCTYPE(c_int, c_void_p)


class Table(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("init", _init), ("start", _start), ("stop", _stop),
        ("record", c_void_p), ("finish", _stop),
    ]  # fmt: skip


@functools.cache
def plugin() -> Table:
    """It stays loaded: events may come until the process ends."""
    beside = pathlib.Path(library.path()).with_name("librondo-watch.so")
    return Table.in_dll(ctypes.CDLL(str(beside)), "ncclProfiler_v5")


TYPES = {
    torch.int8: b"ncclInt8", torch.uint8: b"ncclUint8", torch.int32: b"ncclInt32",
    torch.int64: b"ncclInt64", torch.float16: b"ncclFloat16", torch.float32: b"ncclFloat32",
    torch.float64: b"ncclFloat64", torch.bfloat16: b"ncclBfloat16",
}  # fmt: skip


def elements(data: Any) -> tuple[int, bytes]:
    """The count and type of a call's data: a tensor, or a list of tensors; others as bytes."""
    tensors = [data] if isinstance(data, torch.Tensor) else list(data)
    if tensors and isinstance(tensors[0], list):
        tensors = tensors[0]
    count = sum(tensor.numel() for tensor in tensors)
    if not tensors or tensors[0].dtype in TYPES:
        return count, TYPES[tensors[0].dtype] if tensors else b"ncclUint8"
    return count * tensors[0].element_size(), b"ncclUint8"


class Record:
    """The calls of one rank of a group, as rondo ps reads them."""

    def __init__(self, group_hash: int, name: str, rank: int, size: int) -> None:
        self._table, self._rank = plugin(), rank
        self._context, mask = c_void_p(), c_int(0)
        self._table.init(
            byref(self._context), group_hash, byref(mask), name.encode(), 0, size, rank, None
        )

    def _begin(self, event: Event) -> c_void_p:
        handle = c_void_p()
        self._table.start(self._context, byref(handle), byref(event))
        return handle

    def begin(self, function: bytes, count: int, kind: bytes, root: int) -> Callable[[], None]:
        """A collective has been entered. Returns what ends it."""
        coll = Coll(function=function, count=count, root=root, type=kind, channels=1)
        handle = self._begin(Event(COLL, None, self._rank, AnyOf(coll=coll)))
        return functools.partial(self._table.stop, handle)

    def begin_message(self, function: bytes, count: int, kind: bytes, peer: int) -> Callable:
        """The same for a message: its end is that of a kernel, as in NCCL."""
        p2p = P2p(function=function, count=count, type=kind, peer=peer, channels=1)
        message = self._begin(Event(P2P, None, self._rank, AnyOf(p2p=p2p)))
        kernel = self._begin(Event(KERNEL, message, self._rank, AnyOf()))
        self._table.stop(message)
        return functools.partial(self._table.stop, kernel)

    def end(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            self._table.finish(context)
