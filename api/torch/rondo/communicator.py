# SPDX-License-Identifier: Apache-2.0
"""Communicator: collectives on NumPy arrays and CPU tensors, without torch.distributed.

    from rondo.communicator import Communicator, unique_id

    ticket = unique_id() if rank == 0 else None       # in one process
    ticket = ...                                      # the others get these bytes, by any way
    with Communicator(rank, size, ticket) as ranks:
        ranks.all_reduce(array, "max")

Calls block, and results are in the caller's arrays when they return. Arrays of any strides are
accepted; those that are not dense are copied. All ranks make the same calls in the same order, each
from one thread at a time. A failed call raises CommunicatorError, which names the rank at fault;
then close() the communicator and make a new one. Limits: RONDO_TIMEOUT and RONDO_INIT_TIMEOUT, or
the arguments.
"""

from __future__ import annotations

import ctypes
from typing import Any

from rondo.arrays import Dense, Parts, expect_alike
from rondo.library import (
    IN_PROGRESS,
    SUCCESS,
    UNIQUE_ID_BYTES,
    CommOptions,
    NamedConfig,
    UniqueId,
    last_error,
    lib,
    version,
)

SLICE_SECONDS = 0.2  # a wait for a message checks Python's signals this often
UNDEFINED = CommOptions.UNDEFINED_SECONDS


class CommunicatorError(RuntimeError):
    """A call failed; the text names the rank and the call."""


def check(code: int) -> None:
    if code != SUCCESS:
        raise CommunicatorError(f"rondo: {last_error()} (result {code})")


def unique_id() -> bytes:
    """What the ranks of one new communicator share. One process makes it; the others get it."""
    ticket = UniqueId()
    check(lib.ncclGetUniqueId(ctypes.byref(ticket)))
    return bytes(ticket)


class Communicator:
    def __init__(
        self,
        rank: int,
        size: int,
        ticket: bytes,
        name: str = "",
        timeout: float = UNDEFINED,
        init_timeout: float = UNDEFINED,
    ) -> None:
        """Collective over all ranks. name: in `rondo ps` and traces. Times are seconds."""
        if len(ticket) != UNIQUE_ID_BYTES:
            raise ValueError(
                f"rondo: a ticket has {UNIQUE_ID_BYTES} bytes, this has {len(ticket)}; pass what "
                "unique_id() returned in one process"
            )
        self.rank, self.size = rank, size
        comm, named = ctypes.c_void_p(), NamedConfig(name)
        options = CommOptions(timeout, init_timeout)
        check(
            lib.rondoCommInitRankOptions(
                ctypes.byref(comm),
                size,
                UniqueId.from_buffer_copy(ticket),
                rank,
                ctypes.byref(named),
                ctypes.byref(options),
            )
        )
        self._comm: int | None = comm.value
        check(lib.rondoCommOpenMessages(self._comm))

    @classmethod
    def of_mpi(cls, world: Any, **named: Any) -> Communicator:
        """The ranks of a communicator of mpi4py, with the same numbers. Collective over it."""
        given = None
        if world.Get_rank() == 0:
            try:
                given = unique_id()
            except Exception as error:
                given = error  # on all ranks, which would wait otherwise
        given, theirs = world.bcast((given, version()), root=0)
        versions = dict(enumerate(world.allgather(version())))
        other = next((rank for rank, its in versions.items() if its != theirs), None)
        if other is not None:
            raise CommunicatorError(
                f"rondo: rank 0 has rondo {theirs}, rank {other} has {versions[other]}; install "
                "the same wheel on all hosts"
            )
        if isinstance(given, Exception):
            raise given
        return cls(world.Get_rank(), world.Get_size(), given, **named)

    # ---- collectives ----

    def all_reduce(self, array: Any, op: str = "sum") -> None:
        """op: sum, prod, max, min, avg, and for integers band, bor, bxor."""
        data = Dense(array, written=True)
        count, kind, number = data.reduced_by(op)
        place = data.place
        check(lib.ncclAllReduce(place, place, count, kind, number, self._open(), None))
        data.finish()

    def reduce(self, array: Any, root: int = 0, op: str = "sum") -> None:
        """Only the root's array changes."""
        data = Dense(array, written=self.rank == root)
        count, kind, number = data.reduced_by(op)
        place, out = data.place, data.place if self.rank == root else None
        check(lib.ncclReduce(place, out, count, kind, number, root, self._open(), None))
        if out is not None:
            data.finish()

    def broadcast(self, array: Any, root: int = 0) -> None:
        data = Dense(array, written=self.rank != root)
        place = data.place
        check(lib.ncclBroadcast(place, place, data.count, data.type, root, self._open(), None))
        if self.rank != root:
            data.finish()

    def all_gather(self, outputs: Any, array: Any) -> None:
        """outputs: a list with an array for each rank, or one array of size times the elements."""
        data = Dense(array, written=False)
        parts = Parts(outputs, self.size, data, True, "all_gather")
        check(lib.ncclAllGather(data.place, parts.place, data.count, data.type, self._open(), None))
        parts.finish()

    def reduce_scatter(self, output: Any, inputs: Any, op: str = "sum") -> None:
        """inputs: as outputs of all_gather; rank r receives the reduction of all parts r."""
        data = Dense(output, written=True)
        parts = Parts(inputs, self.size, data, False, "reduce_scatter")
        count, kind, number = data.reduced_by(op)
        check(
            lib.ncclReduceScatter(parts.place, data.place, count, kind, number, self._open(), None)
        )
        data.finish()

    def all_to_all(self, output: Any, array: Any) -> None:
        """Part r of the array goes to rank r, and the output's part r comes from it."""
        given, taken = Dense(array, written=False), Dense(output, written=True)
        expect_alike(taken, given, 1, "all_to_all")
        if given.elements % self.size:
            raise ValueError(
                f"rondo: all_to_all: {given.elements} elements do not divide by {self.size} ranks"
            )
        count = given.count // self.size
        check(lib.ncclAlltoAll(given.place, taken.place, count, given.type, self._open(), None))
        taken.finish()

    def barrier(self) -> None:
        check(lib.rondoBarrier(self._open(), None))

    # ---- messages ----

    def send(self, array: Any, peer: int, tag: int = 0) -> None:
        """Returns when the array may be used again: a small one at once, a large one when the
        receiver has it."""
        data = Dense(array, written=False)
        self._pass(lib.rondoIsend, data, peer, tag)

    def receive(self, array: Any, peer: int, tag: int = 0) -> None:
        data = Dense(array, written=True)
        self._pass(lib.rondoIrecv, data, peer, tag)
        data.finish()

    def _pass(self, begin: Any, data: Dense, peer: int, tag: int) -> None:
        request = ctypes.c_void_p()
        check(
            begin(data.place, data.count, data.type, peer, tag, self._open(), ctypes.byref(request))
        )
        try:
            while (code := lib.rondoRequestWait(request, SLICE_SECONDS)) == IN_PROGRESS:
                pass
            check(code)
        except KeyboardInterrupt:
            lib.rondoRequestCancel(request, 0.0)  # the array is the caller's again
            raise
        finally:
            lib.rondoRequestFree(request)

    # ---- the end ----

    def _open(self) -> int:
        if self._comm is None:
            raise CommunicatorError(
                f"rondo: rank {self.rank} has closed this communicator; make a new one"
            )
        return self._comm

    def ended(self) -> list[int]:
        """The ranks whose processes have ended, as far as this host knows. Does not wait."""
        ranks, count = (ctypes.c_int * self.size)(), ctypes.c_int()
        check(lib.rondoCommGetEnded(self._open(), ranks, ctypes.byref(count)))
        return list(ranks[: count.value])

    def close(self) -> None:
        """Each rank calls it after its last call. Further calls do nothing."""
        comm, self._comm = self._comm, None
        if comm is not None:
            check(lib.ncclCommDestroy(comm))

    def abort(self) -> None:
        """Ends running calls, here and on the other ranks."""
        comm, self._comm = self._comm, None
        if comm is not None:
            check(lib.ncclCommAbort(comm))

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close() if kind is None else self.abort()
