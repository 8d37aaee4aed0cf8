# SPDX-License-Identifier: Apache-2.0
"""check_dlopen.py: under LD_PRELOAD of our libnccl.so.2, dlopen("libnccl.so.2") returns ours, and
NVIDIA's is never mapped."""
import ctypes
import os
import sys

ours = os.path.realpath(os.environ["LD_PRELOAD"])
library = ctypes.CDLL("libnccl.so.2")
version = ctypes.c_int()
assert library.ncclGetVersion(ctypes.byref(version)) == 0
assert version.value == int(os.environ.get("RONDO_VERSION_CODE", "22809")), version.value
library.rondoGetVersion.restype = ctypes.c_char_p
print("rondo", library.rondoGetVersion().decode(), "answers as NCCL", version.value)
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libnccl" in line}
assert {os.path.realpath(path) for path in mapped} == {ours}, mapped

# The functions that vLLM's pynccl looks up.
for name in ("ncclGetErrorString ncclGetUniqueId ncclCommInitRank ncclAllReduce ncclReduce "
             "ncclAllGather ncclReduceScatter ncclSend ncclRecv ncclBroadcast ncclCommDestroy "
             "ncclGroupStart ncclGroupEnd ncclCommWindowRegister "
             "ncclCommWindowDeregister").split():
    getattr(library, name)
library.ncclGetErrorString.restype = ctypes.c_char_p
assert library.ncclGetErrorString(5) == b"invalid usage (run with NCCL_DEBUG=WARN for details)"
sys.exit(0)
