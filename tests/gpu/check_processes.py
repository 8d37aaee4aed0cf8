# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of Rondo: processes on one GPU, by ctypes on libcudart and libnccl.

check_processes.py LIBCUDART LIBNCCL RANKS
"""

import ctypes
import subprocess
import sys

FLOAT32, SUM, TO_DEVICE, TO_HOST = 7, 0, 1, 2
COUNT = 1000


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def run_rank(cudart, nccl, rank, ranks):
    cudart, nccl = ctypes.CDLL(cudart, ctypes.RTLD_GLOBAL), ctypes.CDLL(nccl)
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    cudart.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    cudart.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]

    def check(status):
        if status != 0:
            sys.exit(f"rank {rank}: error {status}: {nccl.ncclGetLastError(None).decode()}")

    unique = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        print(bytes(unique).hex(), flush=True)
    else:
        unique = UniqueId.from_buffer_copy(bytes.fromhex(sys.stdin.readline().strip()))
    comm, memory = ctypes.c_void_p(), ctypes.c_void_p()
    check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank))
    check(cudart.cudaMalloc(ctypes.byref(memory), 4 * COUNT))
    values = (ctypes.c_float * COUNT)(*[rank + 1] * COUNT)
    for _ in range(3):
        check(cudart.cudaMemcpy(memory, values, 4 * COUNT, TO_DEVICE))
        check(nccl.ncclAllReduce(memory, memory, COUNT, FLOAT32, SUM, comm, None))
        check(cudart.cudaDeviceSynchronize())
    check(cudart.cudaMemcpy(values, memory, 4 * COUNT, TO_HOST))
    wanted = ranks * (ranks + 1) / 2
    if list(values) != [wanted] * COUNT:
        sys.exit(f"rank {rank}: {values[0]} ... {values[COUNT - 1]}, not {wanted}")
    calls = ctypes.c_uint64()
    check(nccl.rondoGetCallCount(b"ncclAllReduce", ctypes.byref(calls)))
    if calls.value != 3:
        sys.exit(f"rank {rank}: the library counted {calls.value} calls of 3")
    check(nccl.ncclCommDestroy(comm))


def main():
    cudart, nccl, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if len(sys.argv) > 4:
        return run_rank(cudart, nccl, int(sys.argv[4]), ranks)
    command = [sys.executable, __file__, cudart, nccl, str(ranks)]
    first = subprocess.Popen(command + ["0"], stdout=subprocess.PIPE, text=True)
    unique = first.stdout.readline()
    others = [
        subprocess.Popen(command + [str(r)], stdin=subprocess.PIPE, text=True)
        for r in range(1, ranks)
    ]
    for other in others:
        other.stdin.write(unique)
        other.stdin.close()
    failed = [p.args[-1] for p in [first, *others] if p.wait(timeout=60) != 0]
    if failed:
        sys.exit(f"ranks {', '.join(failed)} failed")
    print(f"{ranks} processes: well")


if __name__ == "__main__":
    main()
