# SPDX-License-Identifier: Apache-2.0
"""CuPy's arrays and cupyx.distributed: several processes on one GPU.

  LD_PRELOAD=.../libnccl.so.2 python3 with_cupy.py cuda RANKS

Ends with 77 and the reason where CuPy or a device is not there.
"""

import os
import sys

from common import calls_of, free_port, run_ranks


def be_a_rank(rank: int, ranks: int, _: str, board) -> None:
    import cupy
    from cupyx.distributed import NCCLBackend

    cupy.cuda.Device(0).use()
    port = int(board.read("port"))
    # Rank 0 serves the store from which the others read the unique id.
    group = NCCLBackend(ranks, rank, "127.0.0.1", port)
    for kind in "bBiIlLefdFD":
        mine = (cupy.arange(1000) % 5 + rank).astype(kind)
        total = sum((cupy.arange(1000) % 5 + r) for r in range(ranks)).astype(kind)
        out = cupy.zeros_like(mine)
        group.all_reduce(mine, out)
        assert (out == total).all(), kind
        group.reduce(mine, out, root=0)
        assert rank != 0 or (out == total).all(), kind
        group.broadcast(out, root=0)
        assert (out == total).all(), kind
        whole = cupy.zeros((ranks, 1000), kind)
        group.all_gather(mine, whole, 1000)
        assert all((whole[r] == cupy.arange(1000) % 5 + r).all() for r in range(ranks)), kind
        group.reduce_scatter(whole, out, 1000)
        assert (out == whole[rank] * ranks).all(), kind
        columns = cupy.zeros_like(whole)
        group.all_to_all(whole, columns)
        assert (columns == whole[rank]).all(), kind
        group.scatter(whole, out, root=ranks - 1)
        assert (out == whole[rank]).all(), kind
        group.gather(mine, columns, root=0)
        assert rank != 0 or (columns == whole).all(), kind
        with cupy.cuda.Stream(non_blocking=True) as stream:
            group.send_recv(whole[rank], out, rank ^ 1 if rank ^ 1 < ranks else rank)
            stream.synchronize()
    assert calls_of("ncclAllReduce") == 11, "another library is in use"
    group.barrier()
    group.stop()


def post_port(board) -> None:
    board.post("port", str(free_port()).encode())


def reason_to_skip() -> str | None:
    try:
        import cupy

        devices = cupy.cuda.runtime.getDeviceCount()
        if not cupy.cuda.nccl.available:
            return "this CuPy has no NCCL module"
        return None if devices else "CuPy sees no device"
    except Exception as error:  # any error of CuPy without its libraries or the driver
        return str(error).strip().splitlines()[-1]


if __name__ == "__main__":
    if "CLIENT_RANK" not in os.environ:
        reason = reason_to_skip()
        if reason:
            print(f"skipped: {reason}")
            sys.exit(77)
    sys.exit(run_ranks(be_a_rank, prepare=post_port))
