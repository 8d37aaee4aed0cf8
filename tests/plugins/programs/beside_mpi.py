# SPDX-License-Identifier: Apache-2.0
"""A program of mpi4py whose arrays Rondo reduces and moves: every result equals MPI's own.

mpiexec -n 3 python beside_mpi.py [same | halves | late | wheels | fails]
"""

import os
import sys

import numpy as np
import rondo.communicator
from mpi4py import MPI
from rondo.communicator import Communicator, CommunicatorError

WORLD = MPI.COMM_WORLD
DEADLINE_SECONDS = 300  # for busy machines
OPS = {"sum": MPI.SUM, "prod": MPI.PROD, "max": MPI.MAX, "min": MPI.MIN, "bxor": MPI.BXOR}


def expect(mine, theirs, what):
    if not np.array_equal(mine, theirs):
        raise AssertionError(f"{what}: Rondo {mine[:4]}, MPI {theirs[:4]}")


def compare(world, dtype):
    """Every call of a Communicator beside MPI's of the same ranks."""
    rank, size = world.rank, world.size
    given = (np.arange(12 * size) % 7 + rank + 1).astype(dtype)
    part = given[:12].copy()
    with Communicator.of_mpi(world, name="beside MPI", timeout=DEADLINE_SECONDS) as ranks:
        for name, op in OPS.items():
            if name == "bxor" and not np.issubdtype(dtype, np.integer):
                continue
            mine, theirs = given.copy(), np.empty_like(given)
            ranks.all_reduce(mine, name)
            world.Allreduce(given, theirs, op)
            expect(mine, theirs, f"all_reduce {name}")
        mine, theirs = given.copy(), given.copy()
        ranks.reduce(mine, size - 1)
        world.Reduce(given, theirs, root=size - 1)
        expect(mine, theirs if rank == size - 1 else given, "reduce")
        mine, theirs = given.copy(), given.copy()
        ranks.broadcast(mine, size - 1)
        world.Bcast(theirs, size - 1)
        expect(mine, theirs, "broadcast")
        mine, theirs = np.empty_like(given), np.empty_like(given)
        ranks.all_gather(mine, part)
        world.Allgather(part, theirs)
        expect(mine, theirs, "all_gather")
        mine, theirs = np.empty_like(part), np.empty_like(part)
        ranks.reduce_scatter(mine, given)
        world.Reduce_scatter_block(given, theirs)
        expect(mine, theirs, "reduce_scatter")
        mine, theirs = np.empty_like(given), np.empty_like(given)
        ranks.all_to_all(mine, given)
        world.Alltoall(given, theirs)
        expect(mine, theirs, "all_to_all")
        mine, theirs = np.empty_like(part), np.empty_like(part)
        after, before = (rank + 1) % size, (rank - 1) % size
        if size > 1:
            ranks.send(part, after, tag=7)
            ranks.receive(mine, before, tag=7)
            world.Sendrecv(part, after, recvbuf=theirs, source=before)
            expect(mine, theirs, "send and receive")
        ranks.barrier()


def same():
    for dtype in (np.int32, np.int64, np.float32, np.float64):
        compare(WORLD, dtype)


def halves():
    """Communicators of MPI's groups of ranks, two at a time."""
    compare(WORLD.Split(WORLD.rank % 2, -WORLD.rank), np.int64)


def late():
    """Rank 1 waits in MPI until rank 0 has missed it in Rondo."""
    ranks = Communicator.of_mpi(WORLD, timeout=1, init_timeout=DEADLINE_SECONDS)
    if WORLD.rank == 1:
        WORLD.recv(source=0)
        return report("has gone on")
    try:
        ranks.all_reduce(np.ones(4))
    except CommunicatorError as error:
        report(str(error).splitlines()[0])
        WORLD.send(None, 1)
        ranks.abort()


def wheels():
    if WORLD.rank == 1:
        rondo.communicator.version = lambda: "0.0.9"
    try:
        Communicator.of_mpi(WORLD)
    except CommunicatorError as error:
        report(str(error))


def fails():
    """Rank 0 cannot make an id: the others get its error instead of waiting for it."""
    if WORLD.rank == 0:
        os.environ["NCCL_SOCKET_IFNAME"] = "=absent0"
    try:
        Communicator.of_mpi(WORLD)
    except CommunicatorError as error:
        report(str(error))


def report(text):
    """As one write: mpiexec may mix the pieces of several ranks."""
    os.write(1, f"rank {WORLD.rank}: {text}\n".encode())


if __name__ == "__main__":
    what = sys.argv[1]
    {"same": same, "halves": halves, "late": late, "wheels": wheels, "fails": fails}[what]()
    if what in ("same", "halves"):
        report("equal")
