# SPDX-License-Identifier: Apache-2.0
"""What the backend takes from the C library: rondo.library's declarations, result codes as
exceptions with the library's message, and the tables of torch's element types and reductions with
their numbers in C, by rondo.arrays' names.
"""

import ctypes

import torch
import torch.distributed as dist
from torch.distributed import DistBackendError

from rondo import arrays
from rondo import library as c_library
from rondo.library import *  # noqa: F403
from rondo.library import SUCCESS, lib

# ---- errors ----

# torch's timeout replaces the library's, so messages must name torch's.
LIMITS = ("RONDO_TIMEOUT sets this limit", "the communicator's timeout sets this limit")
LIMIT_HERE = "the timeout of the group or of this call sets this limit"


def last_error() -> str:
    sentence = c_library.last_error()
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

TYPES = {getattr(torch, name): number for name, number in arrays.TYPES.items()}

Op = dist.ReduceOp.RedOpType
OP_NAMES = {
    Op.SUM: "sum", Op.PRODUCT: "prod", Op.MIN: "min", Op.MAX: "max", Op.AVG: "avg",
    Op.BAND: "band", Op.BOR: "bor", Op.BXOR: "bxor",
}  # fmt: skip
OPS = {op: arrays.OPS[name] for op, name in OP_NAMES.items()}
BOOL_OPS = {op: arrays.BOOL_OPS[n] for op, n in OP_NAMES.items() if n in arrays.BOOL_OPS}
SUM, AVG = OPS[Op.SUM], OPS[Op.AVG]
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
    return (arrays.UINT8, dtype.itemsize) if known is None else (known, 1)


def moved(tensor: torch.Tensor) -> tuple[int, int]:
    """Count and type under which a tensor is moved."""
    kind, scale = moved_as(tensor.dtype)
    return tensor.numel() * scale, kind
