# SPDX-License-Identifier: Apache-2.0
"""The C library through ctypes: the declarations of rondo.h and nccl.h that the backend uses.

Below them: result codes as exceptions with the library's message, and the tables of torch's element
types and reductions with their numbers in C.
"""

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p

import torch
import torch.distributed as dist
from torch.distributed import DistBackendError

SUCCESS, IN_PROGRESS, TIMEOUT = 0, 7, 8
UNIQUE_ID_BYTES = 128


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

    def __init__(self, timeout: float) -> None:
        size = ctypes.sizeof(CommOptions)
        super().__init__(size, self.MAGIC, 1, self.HOST, self.UNDEFINED, timeout, timeout)


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
    inside = pathlib.Path(__file__).parents[1] / "lib" / "librondo.so.1"
    return os.environ.get("RONDO_LIBRARY") or str(inside)


def load() -> ctypes.CDLL:
    where = path()
    try:
        library = ctypes.CDLL(where)
    except OSError as error:
        raise ImportError(
            f"rondo: cannot load {where}: {error}; install the package (pip install ./api/torch) "
            "or name a library in RONDO_LIBRARY"
        ) from None
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int
    library.ncclGetLastError.argtypes = (c_void_p,)
    library.ncclGetLastError.restype = c_char_p
    return library


lib = load()

# ---- errors ----

# torch's timeout replaces the library's, so messages must name torch's.
LIMITS = ("RONDO_TIMEOUT sets this limit", "the communicator's timeout sets this limit")
LIMIT_HERE = "the timeout of the group or of this call sets this limit"


def last_error() -> str:
    text = lib.ncclGetLastError(None)
    if not text:
        return "no explanation was given"
    sentence = text.decode(errors="replace").rstrip()
    for limit in LIMITS:
        sentence = sentence.replace(limit, LIMIT_HERE)
    return sentence


def error_now(result: int) -> DistBackendError:
    """The error of the last call of this thread."""
    return DistBackendError(f"rondo: {last_error()} (result {result})")


def check(result: int) -> None:
    if result != SUCCESS:
        raise error_now(result)


# ---- element types and reductions ----

INT8, UINT8, INT32, UINT32, INT64, UINT64, F16, F32, F64, BF16, E4M3, E5M2 = range(12)
INT16, UINT16 = 64, 65

TYPES = {
    torch.int8: INT8, torch.uint8: UINT8, torch.bool: UINT8,
    torch.int16: INT16, torch.uint16: UINT16, torch.int32: INT32, torch.uint32: UINT32,
    torch.int64: INT64, torch.uint64: UINT64,
    torch.float16: F16, torch.bfloat16: BF16, torch.float32: F32, torch.float64: F64,
    torch.float8_e4m3fn: E4M3, torch.float8_e5m2: E5M2,
}  # fmt: skip

SUM, PROD, MAX, MIN, AVG = range(5)
BAND, BOR, BXOR = 0x7FFFFFF0, 0x7FFFFFF1, 0x7FFFFFF2

Op = dist.ReduceOp.RedOpType
OPS = {
    Op.SUM: SUM, Op.PRODUCT: PROD, Op.MIN: MIN, Op.MAX: MAX, Op.AVG: AVG,
    Op.BAND: BAND, Op.BOR: BOR, Op.BXOR: BXOR,
}  # fmt: skip
# True is stored as 1, so `or` is MAX and `and` is MIN.
BOOL_OPS = {
    Op.SUM: MAX, Op.MAX: MAX, Op.BOR: MAX,
    Op.PRODUCT: MIN, Op.MIN: MIN, Op.BAND: MIN, Op.BXOR: BXOR,
}  # fmt: skip
COMPLEX_OPS = {Op.SUM: SUM, Op.AVG: AVG}


# Fast path: pairs that need no further checks.
SIMPLE = {
    (dtype, op): OPS[op]
    for dtype in TYPES
    for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG)
    if dtype != torch.bool
}


def kind_of(op) -> Op:
    """Callers may pass a ReduceOp or its plain enumerator."""
    return op if isinstance(op, Op) else op.op


def reduction(dtype: torch.dtype, op) -> int:
    """The number of a built-in reduction; TypeError if the type does not support it."""
    kind = kind_of(op)
    if (known := SIMPLE.get((dtype, kind))) is not None:
        return known
    if dtype not in TYPES and not dtype.is_complex:
        raise TypeError(f"rondo: {dtype} cannot be reduced; convert it, for example to float32")
    table = BOOL_OPS if dtype == torch.bool else COMPLEX_OPS if dtype.is_complex else OPS
    bitwise = kind in (Op.BAND, Op.BOR, Op.BXOR)
    if kind not in table or (bitwise and dtype.is_floating_point):
        raise TypeError(f"rondo: ReduceOp.{kind.name} is not defined for {dtype}")
    return table[kind]


def pre_mul_sum(dtype: torch.dtype, factor, comm) -> int:
    """An operation for one call; the caller destroys it after issuing the call."""
    if dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise TypeError(f"rondo: ReduceOp.PREMUL_SUM is not defined for {dtype}")
    scalar = torch.as_tensor(factor).reshape(()).to(dtype).contiguous()
    number = ctypes.c_int()
    host_immediate = 1
    check(
        lib.ncclRedOpCreatePreMulSum(
            ctypes.byref(number), scalar.data_ptr(), TYPES[dtype], host_immediate, comm
        )
    )
    return number.value


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def moved_as(dtype: torch.dtype) -> tuple[int, int]:
    """The type under which elements are moved, and its count per element. Any type can be moved."""
    known = TYPES.get(dtype)
    return (UINT8, dtype.itemsize) if known is None else (known, 1)


def moved(tensor: torch.Tensor) -> tuple[int, int]:
    """Count and type under which a tensor is moved."""
    kind, scale = moved_as(tensor.dtype)
    return tensor.numel() * scale, kind
