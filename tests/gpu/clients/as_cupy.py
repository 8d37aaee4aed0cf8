# SPDX-License-Identifier: Apache-2.0
"""What programs do with cupy.cuda.nccl, and cupyx.distributed with it: CuPy's own module where it
is installed (it needs no device), the same C calls where it is not.

  LD_PRELOAD=.../libnccl.so.2 python3 as_cupy.py LIBCUDART RANKS [--real]

The process that makes the unique id is no rank. Ranks use CuPy's default stream, which is 0, then
one of their own. A process with two devices makes its communicators by initAll, where there are
two devices.
--real: an error where CuPy's module is not there.
"""

import ctypes
import sys
from contextlib import contextmanager

from common import Runtime, calls_of, run_ranks
from cupy_calls import is_real, nccl

FLOAT, SUM = nccl.NCCL_FLOAT32, nccl.NCCL_SUM
COUNT = 100


def make_id(board) -> None:
    board.post("id", nccl.get_unique_id())


def be_a_rank(rank: int, ranks: int, libcudart: str, board) -> None:
    runtime = Runtime(libcudart)
    comm = nccl.NcclCommunicator(ranks, board.read("id"), rank)
    assert (comm.size(), comm.rank_id()) == (ranks, rank)
    assert comm.device_id() == (-1 if runtime.host else 0)
    for stream in (0, runtime.stream()):
        collectives(comm, runtime, stream, rank, ranks)
        messages(comm, runtime, stream, rank, ranks)
    comm.check_async_error()
    assert calls_of("ncclAllReduce") == 2 * 2 and calls_of("ncclBcast") == 2
    assert calls_of("ncclCommInitRank") + calls_of("ncclCommInitRankConfig") == 1
    children(comm, runtime, rank, ranks)
    comm.destroy()
    if rank == 0 and not runtime.host:
        devices_of_one_process(runtime)


def collectives(comm, runtime, stream: int, rank: int, ranks: int) -> None:
    mine, everybody = [rank + i for i in range(COUNT)], range(ranks)
    total = [sum(r + i for r in everybody) for i in range(COUNT)]
    data, out = runtime.array(mine), runtime.array([-1] * COUNT)
    comm.allReduce(data.pointer, out.pointer, COUNT, FLOAT, SUM, stream)
    runtime.wait(stream)
    assert out.get() == total
    # A complex number counts as two real ones.
    pairs = runtime.array([rank, 1] * COUNT, ctypes.c_double)
    comm.allReduce(pairs.pointer, pairs.pointer, 2 * COUNT, nccl.NCCL_FLOAT64, SUM, stream)
    runtime.wait(stream)
    assert pairs.get() == [sum(everybody), ranks] * COUNT

    out.set([-1] * COUNT)
    comm.reduce(data.pointer, out.pointer, COUNT, FLOAT, SUM, ranks - 1, stream)
    runtime.wait(stream)
    assert out.get() == (total if rank == ranks - 1 else [-1] * COUNT)

    out.set(mine)
    comm.broadcast(out.pointer, out.pointer, COUNT, FLOAT, 0, stream)
    runtime.wait(stream)
    assert out.get() == list(range(COUNT))
    out.set(mine)
    comm.bcast(out.pointer, COUNT, FLOAT, ranks - 1, stream)
    runtime.wait(stream)
    assert out.get() == [ranks - 1 + i for i in range(COUNT)]

    whole = runtime.array([-1] * COUNT * ranks)
    comm.allGather(data.pointer, whole.pointer, COUNT, FLOAT, stream)
    runtime.wait(stream)
    assert whole.get() == [r + i for r in everybody for i in range(COUNT)]
    comm.reduceScatter(whole.pointer, out.pointer, COUNT, FLOAT, SUM, stream)
    runtime.wait(stream)
    assert out.get() == [ranks * (rank + i) for i in range(COUNT)]


@contextmanager
def one_group(runtime, stream: int):
    """The calls inside, issued together and waited for."""
    nccl.groupStart()
    yield
    nccl.groupEnd()
    runtime.wait(stream)


def messages(comm, runtime, stream: int, rank: int, ranks: int) -> None:
    """send_recv, scatter, gather and all_to_all: groups of messages, to oneself too."""
    kind, peers, root = nccl.NCCL_INT64, range(ranks), ranks - 1
    rows = runtime.array([100 * rank + i for i in peers for _ in range(3)], ctypes.c_int64)
    columns = runtime.array([-1] * 3 * ranks, ctypes.c_int64)
    own = runtime.array([-1] * 3, ctypes.c_int64)
    with one_group(runtime, stream):  # all_to_all
        for peer in peers:
            comm.send(rows.at(3 * peer), 3, kind, peer, stream)
            comm.recv(columns.at(3 * peer), 3, kind, peer, stream)
    assert columns.get() == [100 * r + rank for r in peers for _ in range(3)]

    with one_group(runtime, stream):  # scatter
        for peer in peers if rank == root else ():
            comm.send(rows.at(3 * peer), 3, kind, peer, stream)
        comm.recv(own.pointer, 3, kind, root, stream)
    assert own.get() == [100 * root + rank] * 3

    with one_group(runtime, stream):  # gather
        for peer in peers if rank == root else ():
            comm.recv(columns.at(3 * peer), 3, kind, peer, stream)
        comm.send(own.pointer, 3, kind, root, stream)
    if rank == root:
        assert columns.get() == [100 * root + r for r in peers for _ in range(3)]

    with one_group(runtime, stream):  # send_recv
        comm.send(rows.pointer, 1, kind, (rank + 1) % ranks, stream)
        comm.recv(own.pointer, 1, kind, (rank - 1) % ranks, stream)
    assert own.get()[0] == 100 * ((rank - 1) % ranks)


def children(comm, runtime, rank: int, ranks: int) -> None:
    """commSplit: rank 0 stays outside, with color -1, and gets None."""
    child = comm.commSplit(-1 if rank == 0 else 1, rank)
    assert (child is None) == (rank == 0)
    if child is not None:
        one = runtime.array([1])
        child.allReduce(one.pointer, one.pointer, 1, FLOAT, SUM, 0)
        runtime.wait()
        assert one.get() == [ranks - 1]
        child.destroy()


def devices_of_one_process(first: Runtime) -> None:
    count = ctypes.c_int()
    first.call("cudaGetDeviceCount", ctypes.byref(count))
    if count.value < 2:
        print("initAll over two devices: not run, there is one", flush=True)
        return
    comms = nccl.NcclCommunicator.initAll(2)
    arrays = []
    for device in range(2):
        first.call("cudaSetDevice", ctypes.c_int(device))
        arrays.append(first.array([device + 1] * COUNT))
    nccl.groupStart()
    for device, (comm, array) in enumerate(zip(comms, arrays)):
        first.call("cudaSetDevice", ctypes.c_int(device))
        comm.allReduce(array.pointer, array.pointer, COUNT, FLOAT, SUM, 0)
    nccl.groupEnd()
    for device, (comm, array) in enumerate(zip(comms, arrays)):
        first.call("cudaSetDevice", ctypes.c_int(device))
        first.wait()
        assert array.get() == [3] * COUNT
        assert comm.device_id() == device
    for comm in comms:
        comm.destroy()


if __name__ == "__main__":
    if "--real" in sys.argv and not is_real:
        sys.exit("CuPy's module cupy.cuda.nccl is not available in this Python")
    sys.exit(run_ranks(be_a_rank, prepare=make_id))
