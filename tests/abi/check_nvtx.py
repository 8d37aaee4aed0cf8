# SPDX-License-Identifier: Apache-2.0
"""check_nvtx.py LIBRARY TOOL: a profiler gets the right events of a program, and none if they are
switched off. TOOL is nvtx_tool.c, built as a library.
"""
import ctypes
import os
import subprocess
import sys

FLOAT32, INT64, SUM, MAX = 7, 4, 0, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def program():
    """Prints the communicator, then makes calls of several kinds."""
    nccl = ctypes.CDLL(sys.argv[1])
    unique, comm = UniqueId(), ctypes.c_void_p()
    nccl.ncclGetUniqueId(ctypes.byref(unique))
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0
    print(f"comm {comm.value:#x}", flush=True)
    place = (ctypes.c_int64 * 8)()
    size = ctypes.c_size_t
    assert nccl.ncclAllReduce(place, place, size(4), FLOAT32, MAX, comm, None) == 0
    assert nccl.ncclBroadcast(place, place, size(5), INT64, 0, comm, None) == 0
    nccl.ncclGroupStart()
    nccl.ncclSend(place, size(1), INT64, 0, comm, None)
    nccl.ncclRecv(place, size(1), INT64, 0, comm, None)
    assert nccl.ncclGroupEnd() == 0
    assert nccl.ncclReduce(place, place, size(2), FLOAT32, SUM, 9, comm, None) == 4  # no such root
    assert nccl.ncclCommDestroy(comm) == 0


def run(**environment):
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "program"], check=True, text=True,
        stdout=subprocess.PIPE, env={**os.environ, **environment})
    return done.stdout.splitlines()


def main():
    assert os.path.exists(sys.argv[2]), f"{sys.argv[2]} is not built: NVTX would run without a tool"
    lines = run(NVTX_INJECTION64_PATH=sys.argv[2])
    (comm,) = [line.split()[1] for line in lines if line.startswith("comm")]

    def call(name, facts=""):
        return [f"push NCCL {name}" + (f" comm={comm} {facts}" if facts else ""), "pop"]

    seen = [line for line in lines if line.startswith(("push", "pop"))]
    wanted = sum([
        call("ncclGetUniqueId"), call("ncclCommInitRank"),
        call("ncclAllReduce", "count=4 type=7 op=2 root=-1"),
        call("ncclBroadcast", "count=5 type=4 op=-1 root=0"),
        call("ncclGroupStart"), call("ncclSend", "count=1 type=4 op=-1 root=0"),
        call("ncclRecv", "count=1 type=4 op=-1 root=0"), call("ncclGroupEnd"),
        call("ncclReduce", "count=2 type=7 op=0 root=9"), call("ncclCommDestroy")], [])
    assert seen == wanted, "\n".join(lines)
    schema = [line for line in lines if line.startswith("schema")]
    assert schema == ["schema Call 32 bytes: [Communicator at 0] [Count at 8] [Datatype at 16] "
                      "[Reduction operation at 20] [Root or peer at 24]"], schema
    # Only the program's own line.
    for quiet in ({}, {"NVTX_INJECTION64_PATH": sys.argv[2], "NCCL_NVTX_DISABLE": "1"}):
        lines = run(**quiet)
        assert len(lines) == 1 and lines[0].startswith("comm"), lines
    print("a profiler sees every call, and none where it is told so")


if sys.argv[-1] == "program":
    program()
else:
    main()
