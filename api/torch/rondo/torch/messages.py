# SPDX-License-Identifier: Apache-2.0
"""Point to point: sends and receives with tags, beside the collectives of the group."""

from __future__ import annotations

import ctypes
from typing import Callable

import torch
import torch.distributed as dist

from rondo.torch.buffers import Buffers
from rondo.torch.elements import moved
from rondo.torch.errors import check
from rondo.torch.library import lib
from rondo.torch.profile import profiled
from rondo.torch.untraced import untraced
from rondo.torch.work import QueuedWork

ANY_SOURCE = -1


@untraced
class MessageWork(QueuedWork):
    """A send is done when its bytes are buffered or sent, a receive when they have arrived."""

    _source = ANY_SOURCE

    def _at_end(self, request: int) -> None:
        source = ctypes.c_int()
        check(lib.rondoRequestSource(request, ctypes.byref(source)))
        self._source = source.value

    def _expire(self, seconds: float) -> None:
        request = self._request
        if request is not None:
            lib.rondoRequestCancel(request, seconds)

    def _source_rank(self) -> int:
        return self._source

    def source_rank(self) -> int:
        return self._source


class Messages:
    @profiled("send", 0, nccl=lambda group, given: f"send {group.rank()}->{given[1]}")
    def send(self, tensors: list[torch.Tensor], destination: int, tag: int = 0) -> dist.Work:
        buffers = Buffers()
        return self._message(lib.rondoIsend, buffers.read(*tensors), destination, tag, buffers, [])

    @profiled("recv", 0, nccl=lambda group, given: f"recv {group.rank()}<-{given[1]}")
    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> dist.Work:
        buffers = Buffers()
        dense = buffers.written(*tensors)
        return self._message(lib.rondoIrecv, dense, source, tag, buffers, tensors)

    @profiled("recvAnySource", 0)
    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> dist.Work:
        return self.recv(tensors, ANY_SOURCE, tag)

    def _message(
        self,
        start: Callable[..., int],
        dense: torch.Tensor,
        peer: int,
        tag: int,
        buffers: Buffers,
        results: list[torch.Tensor],
    ) -> dist.Work:
        request = ctypes.c_void_p()
        count, kind = moved(dense)
        check(start(dense.data_ptr(), count, kind, peer, tag, self._comm, ctypes.byref(request)))
        work = MessageWork(request.value, results, self._seconds)
        work.buffers, work.others_need_it = buffers, start is lib.rondoIsend
        return self._keep(work)
