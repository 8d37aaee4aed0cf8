# SPDX-License-Identifier: Apache-2.0
"""The C library through ctypes: the declarations of rondo.h and nccl.h that Python uses.

Imports nothing of other distributions: programs without torch use it as well.
"""

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from datetime import timedelta

from rondo import system

SUCCESS, IN_PROGRESS, TIMEOUT = 0, 7, 8
UNIQUE_ID_BYTES = 128
DEFAULT_INIT_SECONDS = 60.0  # the library's


def init_seconds() -> float:
    """RONDO_INIT_TIMEOUT, for ranks that Python lets meet."""
    text = os.environ.get("RONDO_INIT_TIMEOUT") or str(DEFAULT_INIT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < timedelta.max.total_seconds():
        raise RuntimeError(
            f"rondo: RONDO_INIT_TIMEOUT={text} is no number of seconds above 0; for example 60"
        )
    return seconds


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", c_char * UNIQUE_ID_BYTES)]


class CommOptions(ctypes.Structure):
    """rondoCommOptions_t, with everything but the device taken from the environment."""

    _fields_ = [
        ("size", c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("device", c_int),
        ("reproducible", c_int),
        ("timeout", c_double),
        ("initTimeout", c_double),
    ]
    MAGIC, UNDEFINED, HOST = 0x526F4F70, -(2**31), 1

    UNDEFINED_SECONDS = -1.0

    def __init__(self, timeout: float, init_timeout: float | None = None) -> None:
        init = timeout if init_timeout is None else init_timeout
        size = ctypes.sizeof(CommOptions)
        super().__init__(size, self.MAGIC, 1, self.HOST, self.UNDEFINED, timeout, init)


class NamedConfig(ctypes.Structure):
    """ncclConfig_t up to commName, which is all that it sets."""

    _fields_ = [
        ("size", c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", c_int),
        ("cgaClusterSize", c_int),
        ("minCTAs", c_int),
        ("maxCTAs", c_int),
        ("netName", c_char_p),
        ("splitShare", c_int),
        ("trafficClass", c_int),
        ("commName", c_char_p),
    ]
    MAGIC, VERSION, UNDEFINED = 0xCAFEBEEF, 22700, -(2**31)

    def __init__(self, name: str) -> None:
        size, undefined = ctypes.sizeof(NamedConfig), self.UNDEFINED
        super().__init__(
            size, self.MAGIC, self.VERSION, undefined, undefined, undefined, undefined, None,
            undefined, undefined, name.encode() or None,
        )  # fmt: skip


class Launched(ctypes.Structure):
    """rondoLaunched_t."""

    _fields_ = [
        ("bytes", c_size_t),
        ("rank", c_int),
        ("size", c_int),
        ("localRank", c_int),
        ("localSize", c_int),
        ("masterPort", c_int),
        ("masterAddr", c_char * 256),
        ("source", c_char_p),
    ]

    def __init__(self) -> None:
        super().__init__(ctypes.sizeof(Launched))


BUFFER, HANDLE, STREAM, COUNT, TYPE, OP, RANK = (
    c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int)  # fmt: skip
COUNTS = POINTER(c_size_t)
LEAVES = (c_int, c_int, c_int, c_int)  # of all ranks, first, n, rounding

SIGNATURES = {
    "rondoLaunchRead": (POINTER(Launched),),
    "rondoLaunchMeet": (POINTER(HANDLE), c_int, c_int, c_int, ctypes.c_uint, c_double),
    "rondoLaunchExchange": (HANDLE, c_char_p, c_size_t, POINTER(c_void_p), COUNTS, c_double),
    "rondoLaunchLeave": (HANDLE,),
    "ncclGetUniqueId": (POINTER(UniqueId),),
    "rondoCommInitRankOptions": (
        POINTER(HANDLE),
        c_int,
        UniqueId,
        RANK,
        c_void_p,
        POINTER(CommOptions),
    ),
    "rondoCommSetTimeout": (HANDLE, c_double),
    "rondoCommSetParallelFor": (HANDLE, c_void_p),
    "ncclCommShrink": (HANDLE, POINTER(c_int), c_int, POINTER(HANDLE), c_void_p, c_int),
    "ncclCommSplit": (HANDLE, c_int, c_int, POINTER(HANDLE), c_void_p),
    "rondoCommGetEnded": (HANDLE, POINTER(c_int), POINTER(c_int)),
    "ncclCommDestroy": (HANDLE,),
    "ncclCommAbort": (HANDLE,),
    "ncclCommGetAsyncError": (HANDLE, POINTER(c_int)),
    "rondoMemAllocHost": (POINTER(BUFFER), c_size_t),
    "ncclMemFree": (BUFFER,),
    "ncclAllReduce": (BUFFER, BUFFER, COUNT, TYPE, OP, HANDLE, STREAM),
    "ncclReduce": (BUFFER, BUFFER, COUNT, TYPE, OP, RANK, HANDLE, STREAM),
    "ncclBroadcast": (BUFFER, BUFFER, COUNT, TYPE, RANK, HANDLE, STREAM),
    "ncclAllGather": (BUFFER, BUFFER, COUNT, TYPE, HANDLE, STREAM),
    "ncclReduceScatter": (BUFFER, BUFFER, COUNT, TYPE, OP, HANDLE, STREAM),
    "ncclAlltoAll": (BUFFER, BUFFER, COUNT, TYPE, HANDLE, STREAM),
    "ncclGather": (BUFFER, BUFFER, COUNT, TYPE, RANK, HANDLE, STREAM),
    "ncclScatter": (BUFFER, BUFFER, COUNT, TYPE, RANK, HANDLE, STREAM),
    "rondoAllToAllv": (BUFFER, COUNTS, COUNTS, BUFFER, COUNTS, COUNTS, TYPE, HANDLE, STREAM),
    "rondoAllGatherv": (BUFFER, COUNT, BUFFER, COUNTS, COUNTS, TYPE, HANDLE, STREAM),
    "rondoReduceScatterv": (BUFFER, BUFFER, COUNTS, TYPE, OP, HANDLE, STREAM),
    "rondoAllReduceOrdered": (BUFFER, BUFFER, COUNT, TYPE, OP, *LEAVES, HANDLE, STREAM),
    "rondoReduceOrdered": (BUFFER, BUFFER, COUNT, TYPE, OP, c_int, *LEAVES, HANDLE, STREAM),
    "rondoReduceScatterOrdered": (BUFFER, BUFFER, COUNT, TYPE, OP, *LEAVES, HANDLE, STREAM),
    "rondoBarrier": (HANDLE, STREAM),
    "ncclRedOpCreatePreMulSum": (POINTER(OP), c_void_p, TYPE, c_int, HANDLE),
    "ncclRedOpDestroy": (OP, HANDLE),
    "rondoStreamCreate": (POINTER(STREAM),),
    "rondoStreamDestroy": (STREAM,),
    "rondoStreamRecord": (STREAM, POINTER(HANDLE)),
    "rondoRequestTest": (HANDLE,),
    "rondoRequestWait": (HANDLE, c_double),
    "rondoRequestRun": (HANDLE, c_double),
    "rondoRequestFree": (HANDLE,),
    "rondoRequestSource": (HANDLE, POINTER(c_int)),
    "rondoRequestCancel": (HANDLE, c_double),
    "rondoCommOpenMessages": (HANDLE,),
    "rondoIsend": (BUFFER, COUNT, TYPE, RANK, c_int, HANDLE, POINTER(HANDLE)),
    "rondoIrecv": (BUFFER, COUNT, TYPE, RANK, c_int, HANDLE, POINTER(HANDLE)),
    "rondoCommFlushMessages": (HANDLE, c_double),
    "rondoCompletionsCreate": (POINTER(HANDLE),),
    "rondoCompletionsWatch": (HANDLE, HANDLE, c_uint64),
    "rondoCompletionsPost": (HANDLE, c_uint64),
    "rondoCompletionsNext": (HANDLE, c_double, POINTER(c_uint64)),
    "rondoCompletionsDestroy": (HANDLE,),
}


def path() -> str:
    """RONDO_LIBRARY, else the library of this package."""
    inside = pathlib.Path(__file__).with_name("lib") / "librondo.so.1"
    return os.environ.get("RONDO_LIBRARY") or str(inside)


def load() -> ctypes.CDLL:
    where = path()
    try:
        library = ctypes.CDLL(where)
    except OSError as error:
        remedy = "install the package (pip install ./api/torch) or name a library in RONDO_LIBRARY"
        reason = system.lack(str(error)) or f"{error}; {remedy}"
        raise ImportError(f"rondo: cannot load {where}: {reason}") from None
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int
    library.ncclGetLastError.argtypes = (c_void_p,)
    library.ncclGetLastError.restype = c_char_p
    library.rondoGetVersion.argtypes = ()
    library.rondoGetVersion.restype = c_char_p
    return library


lib = load()


def version() -> str:
    """Of the loaded library: that of its wheel, unless RONDO_LIBRARY names another."""
    return lib.rondoGetVersion().decode()


def last_error() -> str:
    """Why the last call of this thread failed."""
    text = lib.ncclGetLastError(None)
    return text.decode(errors="replace").rstrip() if text else "no explanation was given"
