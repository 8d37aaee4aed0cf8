# SPDX-License-Identifier: Apache-2.0
"""Tables of torch's element types and reductions with their names in the C interface."""

import ctypes

import torch
import torch.distributed as dist

from rondo.torch.errors import check
from rondo.torch.library import lib

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
