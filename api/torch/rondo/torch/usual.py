# SPDX-License-Identifier: Apache-2.0
"""Usual calls without Python between the tensor and the library (the C module usual_calls).

A usual call has dense CPU tensors of a type that the library has and a built-in operation, in a
group without hooks, coalescing or a profiler. Every other call, and every call where the package
lacks the module, takes the general path, which also reports errors.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import torch
from torch.autograd import profiler

from rondo.torch.elements import OPS, TYPES, Op
from rondo.torch.library import lib
from rondo.torch.work import FINISHED

try:
    from rondo.torch import usual_calls
except ImportError:  # a source tree, or another build of Python
    usual_calls = None

LAST_CODE = 255  # larger results are requests
OPERATIONS = 16
SIMPLE = (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG)  # defined for every type but bool
FUNCTIONS = (
    "ncclAllReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather", "ncclAlltoAll",
    "rondoStreamRecord", "rondoRequestRun", "rondoRequestTest", "rondoRequestFree",
)  # fmt: skip


def bind() -> None:
    numbers = [-1] * OPERATIONS
    for op in SIMPLE:
        numbers[int(op)] = OPS[op]
    usual_calls.bind(
        {name: ctypes.cast(getattr(lib, name), ctypes.c_void_p).value for name in FUNCTIONS},
        torch.Tensor,
        torch.nn.Parameter,
        torch.strided,
        TYPES,
        {dtype: number for dtype, number in TYPES.items() if dtype != torch.bool},
        numbers,
    )
    # The same functions without ctypes.
    lib.rondoRequestRun = usual_calls.run
    lib.rondoRequestTest = usual_calls.test
    lib.rondoRequestFree = usual_calls.release


if usual_calls is not None:
    bind()


def usually(name: str, general: Callable, needs_size: bool) -> Callable:
    """Makes usual calls by the C function of this name, all others by `general`. needs_size: the
    function takes the number of ranks, too."""
    if usual_calls is None:
        return general
    function = getattr(usual_calls, name)

    @functools.wraps(general)
    def call(group, *given, **named):
        if profiler._is_profiler_enabled or named or not group.is_plain:
            return general(group, *given, **named)
        if group._unfinished:
            group._finish_earlier()
        more = (group._size,) if needs_size else ()
        result = function(group._comm, group._stream, group._issuing, *given, *more)
        if result is None:
            return general(group, *given)
        if result > LAST_CODE:
            return group._queued(result, given)
        if result:
            group._check(result)
        return FINISHED

    return call
