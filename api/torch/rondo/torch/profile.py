"""An event per call in torch.profiler's traces: "rondo:allreduce"."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

enabled = torch.autograd._profiler_enabled


def profiled(method: Callable) -> Callable:
    label = f"rondo:{method.__name__}"

    @functools.wraps(method)
    def with_event(*arguments, **named):
        if not enabled():
            return method(*arguments, **named)
        with torch.profiler.record_function(label):
            return method(*arguments, **named)

    return with_event
