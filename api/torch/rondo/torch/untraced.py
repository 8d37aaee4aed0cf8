# SPDX-License-Identifier: Apache-2.0
"""Makes torch.compile skip Rondo's functions, and functions that they call.

While a compiled model runs, dynamo inspects every Python function that C++ calls. It cannot handle
ctypes, and torch.compiler.disable would cost each call microseconds.
"""

from __future__ import annotations

import types

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
