# SPDX-License-Identifier: Apache-2.0
"""Notices that a rank of a group has died while no call runs: an idle server of vLLM has none.

    peers = Peers(group, when_lost)
    ...
    peers.leave()          # before the group ends

Each rank has a receive open from each other one that only leave() there completes. The library ends
it when the peer dies, on any host: then the error, which names the rank, goes to standard error,
and when_lost() runs once, on a thread of rondo.torch.threads. There is no time limit.

Costs a pending receive for each peer, and no thread of its own. Three idle ranks, as if on two
hosts, use up to 2 % of a core each; on one host 0.1 %.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable

import torch

from rondo.torch import threads
from rondo.torch.library import SUCCESS, TYPES, check, last_error, lib
from rondo.torch.process_group import RondoProcessGroup

TAG = 0x5EE  # no other message between these ranks has it
BYTE = TYPES[torch.uint8]


class Peers:
    def __init__(self, group: RondoProcessGroup, when_lost: Callable[[], None]) -> None:
        self._group, self._when_lost = group, when_lost
        self._others = [peer for peer in range(group.size()) if peer != group.rank()]
        self._bytes = (ctypes.c_char * group.size())()  # one for each peer
        self._over = threading.Lock()  # held from the first loss on, or since leave()
        for peer in self._others:
            request = self._start(lib.rondoIrecv, peer)
            threads.when_done(request, lambda request=request: self._ended(request))

    def _start(self, call: Callable[..., int], peer: int) -> int:
        request, place = ctypes.c_void_p(), ctypes.addressof(self._bytes) + peer
        check(call(place, 1, BYTE, peer, TAG, self._group._comm, ctypes.byref(request)))
        return request.value

    def _ended(self, request: int) -> None:
        code = lib.rondoRequestTest(request)
        text = last_error()
        lib.rondoRequestFree(request)
        if code != SUCCESS and self._over.acquire(blocking=False):
            print(f"rondo: {text}", file=sys.stderr, flush=True)
            self._when_lost()

    def leave(self) -> None:
        """Lets the others know that this rank ends as it should."""
        self._over.acquire(blocking=False)
        for peer in self._others:
            try:
                lib.rondoRequestFree(self._start(lib.rondoIsend, peer))
            except RuntimeError:
                pass  # it has ended
