# SPDX-License-Identifier: Apache-2.0
"""What torch.compile sees of Rondo: functions that it skips, and calls that it can trace.

While a compiled model runs, dynamo inspects every Python function that C++ calls. It cannot handle
ctypes, and torch.compiler.disable would cost each call microseconds. So `untraced` makes it skip
Rondo's functions, and functions that they call.

vLLM and SGLang compile models as one graph, into which no Python object fits: there a call is an
operation of torch's, on tensors and a number. Outside of a graph, the group is called directly.
"""

from __future__ import annotations

import itertools
import types
import weakref

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

try:
    from torch._C._dynamo import eval_frame

    _SKIP = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP,  # the function itself
        eval_frame._FrameAction.SKIP,  # functions that it calls
    )
except (ImportError, AttributeError):  # private: without it, compiled DDP raises an error
    eval_frame = None


def untraced(cls: type) -> type:
    ours = [kind for kind in cls.__mro__ if kind.__module__.startswith("rondo.")]
    for function in [member for kind in ours for member in vars(kind).values()]:
        if eval_frame and isinstance(function, types.FunctionType):
            eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return cls


_groups: weakref.WeakValueDictionary[int, dist.ProcessGroup] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def now(options):
    """These options for a call that returns when it is done."""
    options.asyncOp = False
    return options


REDUCE, ALL_GATHER = now(c10d.AllreduceOptions()), now(c10d.AllgatherOptions())
REDUCE_SCATTER = now(c10d.ReduceScatterOptions())


def number_of(group: dist.ProcessGroup) -> int:
    number = next(_numbers)
    _groups[number] = group
    return number


def _all_reduce(group: int, tensor: torch.Tensor) -> None:
    _groups[group].allreduce([tensor], REDUCE)


def _all_gather(group: int, output: torch.Tensor, tensor: torch.Tensor) -> None:
    _groups[group].all_gather_single(output, tensor, ALL_GATHER)


def _reduce_scatter(group: int, output: torch.Tensor, tensor: torch.Tensor) -> None:
    _groups[group].reduce_scatter_single(output, tensor, REDUCE_SCATTER)


def _gather(group: int, output: torch.Tensor, tensor: torch.Tensor, root: int) -> None:
    """Only the root's output is written; the others pass any tensor."""
    options = now(c10d.GatherOptions())
    options.rootRank = root
    _groups[group].gather_single(output, tensor, options)


LIBRARY = torch.library.Library("rondo", "FRAGMENT")


def operation(function, schema: str):
    """The function itself outside of a graph, an operation of torch's inside."""
    name = function.__name__.lstrip("_")
    LIBRARY.define(f"{name}({schema}) -> ()")
    LIBRARY.impl(name, function, "CPU")
    LIBRARY.impl(name, lambda *arguments: None, "Meta")
    traced = getattr(torch.ops.rondo, name)

    def call(*arguments) -> None:
        (traced if torch.compiler.is_compiling() else function)(*arguments)

    return call


all_reduce = operation(_all_reduce, "int group, Tensor(a!) tensor")
all_gather = operation(_all_gather, "int group, Tensor(a!) output, Tensor tensor")
reduce_scatter = operation(_reduce_scatter, "int group, Tensor(a!) output, Tensor tensor")
gather = operation(_gather, "int group, Tensor(a!) output, Tensor tensor, int root")
