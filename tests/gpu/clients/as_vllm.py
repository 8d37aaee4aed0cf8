# SPDX-License-Identifier: Apache-2.0
"""The calls that vLLM's pynccl makes, and in its order: the C functions by ctypes.

  LD_PRELOAD=.../libnccl.so.2 python3 as_vllm.py LIBCUDART RANKS

A communicator for each worker on a stream of its own, a warm-up, all its collectives, messages
along a pipeline, windows over memory of ncclMemAlloc, all-reduces in a CUDA graph; no
ncclCommDestroy, as vLLM leaves that out too.
"""

import ctypes
import sys

from common import Array, Runtime, calls_of, run_ranks

FLOAT32, INT64, SUM, MAX = 7, 4, 0, 2
SYMMETRIC = 1
COUNT = 1000


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


POINTER, SIZE, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
FUNCTIONS = {
    "ncclGetVersion": [POINTER],
    "ncclGetUniqueId": [POINTER],
    "ncclCommInitRank": [POINTER, INT, UniqueId, INT],
    "ncclAllReduce": [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclReduce": [POINTER, POINTER, SIZE, INT, INT, INT, POINTER, POINTER],
    "ncclAllGather": [POINTER, POINTER, SIZE, INT, POINTER, POINTER],
    "ncclReduceScatter": [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclSend": [POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclRecv": [POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclBroadcast": [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER],
    "ncclCommDestroy": [POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclCommWindowRegister": [POINTER, POINTER, SIZE, POINTER, INT],
    "ncclCommWindowDeregister": [POINTER, POINTER],
    "ncclMemAlloc": [POINTER, SIZE],
}


class Library:
    """Every function is looked up at once, as pynccl does: one that is missing disables it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnccl.so.2")
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        self.library.ncclGetLastError.restype = ctypes.c_char_p
        for name, arguments in FUNCTIONS.items():
            getattr(self.library, name).argtypes = arguments

    def __getattr__(self, name: str):
        function = getattr(self.library, name)

        def call(*arguments) -> None:
            status = function(*arguments)
            if status != 0:
                text = self.library.ncclGetErrorString(status).decode()
                raise RuntimeError(f"{name}: {text}: {self.library.ncclGetLastError(None)}")

        return call


def be_a_rank(rank: int, ranks: int, libcudart: str, board) -> None:
    nccl, runtime = Library(), Runtime(libcudart)
    version = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(version))
    assert len(str(version.value)) == 5, version.value
    unique = UniqueId()
    if rank == 0:
        nccl.ncclGetUniqueId(ctypes.byref(unique))
        board.post("id", bytes(unique))
    unique = UniqueId.from_buffer_copy(board.read("id"))
    comm = ctypes.c_void_p()
    nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank)
    stream = runtime.stream()
    warm = runtime.array([0])
    nccl.ncclAllReduce(warm.pointer, warm.pointer, 1, FLOAT32, SUM, comm, stream)
    runtime.wait(stream)

    everybody = range(ranks)
    mine = [(i + rank) % 7 for i in range(COUNT)]
    total = [sum((i + r) % 7 for r in everybody) for i in range(COUNT)]
    data, out = runtime.array(mine), runtime.array([-1] * COUNT)
    nccl.ncclAllReduce(data.pointer, out.pointer, COUNT, FLOAT32, SUM, comm, stream)
    runtime.wait(stream)
    assert out.get() == total

    gathered = runtime.array([-1] * COUNT * ranks)
    nccl.ncclAllGather(data.pointer, gathered.pointer, COUNT, FLOAT32, comm, stream)
    runtime.wait(stream)
    assert gathered.get() == [(i + r) % 7 for r in everybody for i in range(COUNT)]

    # Unequal sizes: a group of broadcasts, and a group of reductions.
    sizes = [10 + 3 * r for r in everybody]
    starts = [sum(sizes[:r]) for r in everybody]
    parts = runtime.array([-1] * sum(sizes))
    nccl.ncclGroupStart()
    for root in everybody:
        place = parts.at(starts[root])
        nccl.ncclBroadcast(data.pointer, place, sizes[root], FLOAT32, root, comm, stream)
    nccl.ncclGroupEnd()
    runtime.wait(stream)
    assert parts.get() == [(i + r) % 7 for r in everybody for i in range(sizes[r])]
    part = runtime.array([-1] * sizes[rank])
    nccl.ncclGroupStart()
    for root in everybody:
        place = data.at(starts[root])
        nccl.ncclReduce(place, part.pointer, sizes[root], FLOAT32, SUM, root, comm, stream)
    nccl.ncclGroupEnd()
    runtime.wait(stream)
    assert part.get() == total[starts[rank] : starts[rank] + sizes[rank]]

    part = runtime.array([-1] * COUNT)
    nccl.ncclReduceScatter(gathered.pointer, part.pointer, COUNT, FLOAT32, MAX, comm, stream)
    runtime.wait(stream)
    assert part.get() == [(i + rank) % 7 for i in range(COUNT)]

    # A pipeline: each stage forwards what it received, without a group around a message.
    token = runtime.array([41], ctypes.c_int64)
    if rank > 0:
        nccl.ncclRecv(token.pointer, 1, INT64, rank - 1, comm, stream)
        runtime.wait(stream)
        token.set([token.get()[0] + 1])
    if rank < ranks - 1:
        nccl.ncclSend(token.pointer, 1, INT64, rank + 1, comm, stream)
    runtime.wait(stream)
    assert token.get() == [41 + rank]

    # A receiver of a broadcast has nothing to send: NULL.
    word = runtime.array([5 if rank == ranks - 1 else 0])
    source = word.pointer if rank == ranks - 1 else None
    nccl.ncclBroadcast(source, word.pointer, 1, FLOAT32, ranks - 1, comm, stream)
    runtime.wait(stream)
    assert word.get() == [5]

    in_a_window(nccl, runtime, comm, stream, ranks)
    if not runtime.host:
        in_a_graph(nccl, runtime, comm, stream, data, mine, ranks)
    assert calls_of("ncclCommInitRank") == 1
    assert calls_of("ncclBroadcast") == ranks + 1
    assert calls_of("ncclReduce") == ranks
    assert calls_of("ncclAllReduce") == (3 if runtime.host else 4)


def in_a_window(nccl, runtime, comm, stream, ranks: int) -> None:
    window, place = ctypes.c_void_p(), ctypes.c_void_p()
    nccl.ncclMemAlloc(ctypes.byref(place), 4096)
    nccl.ncclCommWindowRegister(comm, place, 4096, ctypes.byref(window), SYMMETRIC)
    ones = Array.over(runtime, place.value, 1024)
    ones.set([1] * 1024)
    nccl.ncclAllReduce(place, place, 1024, FLOAT32, SUM, comm, stream)
    runtime.wait(stream)
    assert ones.get() == [ranks] * 1024
    nccl.ncclCommWindowDeregister(comm, window)


def in_a_graph(nccl, runtime, comm, stream, data, mine: list, ranks: int) -> None:
    data.set(mine)
    out = runtime.array([-1] * COUNT)
    graph = runtime.record(
        stream,
        lambda: nccl.ncclAllReduce(
            data.pointer, out.pointer, COUNT, FLOAT32, SUM, comm, ctypes.c_void_p(stream)
        ),
    )
    for turn in range(3):
        data.set([x + turn for x in mine])
        runtime.replay(graph, stream)
        runtime.wait(stream)
        total = [sum((i + r) % 7 + turn for r in range(ranks)) for i in range(COUNT)]
        assert out.get() == total


if __name__ == "__main__":
    sys.exit(run_ranks(be_a_rank))
