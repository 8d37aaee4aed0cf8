# SPDX-License-Identifier: Apache-2.0
"""Features of GPU trainers besides tensors, for the CPU: autocast, capturable optimizers,
DataParallel."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch


def autocast_too() -> None:
    """Under autocast("cuda") the CPU computes in the type that the GPU would have used."""
    kind = torch.amp.autocast_mode.autocast
    enter, leave = kind.__enter__, kind.__exit__

    @functools.wraps(enter)
    def enter_both(self):
        if self.device == "cuda":
            inner = kind("cpu", self.fast_dtype, self._enabled, self._cache_enabled)
            if not hasattr(self, "_rondo_inner"):
                self._rondo_inner = []
            self._rondo_inner.append(inner)
            inner.__enter__()
        return enter(self)

    @functools.wraps(leave)
    def leave_both(self, *what):
        left = leave(self, *what)
        if self.device == "cuda":
            self._rondo_inner.pop().__exit__(*what)
        return left

    kind.__enter__, kind.__exit__ = enter_both, leave_both


def capturable_here() -> None:
    """Optimizers with capturable=True refuse parameters on the CPU; here they are allowed."""
    name = "_get_capturable_supported_devices"  # private: without it they raise an error
    supported = getattr(sys.modules.get("torch.optim.optimizer"), name, None)
    if supported is None:
        return

    @functools.wraps(supported)
    def with_cpu(*arguments, **named):
        return [*supported(*arguments, **named), "cpu"]

    for module in [m for n, m in list(sys.modules.items()) if n.startswith("torch.optim")]:
        if getattr(module, name, None) is supported:
            setattr(module, name, with_cpu)


def one_replica() -> None:
    """All GPUs of DataParallel are the CPU: its module runs once."""

    def init(self, module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        torch.nn.Module.__init__(self)
        self.module, self.device_ids, self.dim = module, [], dim

    torch.nn.DataParallel.__init__ = init


def install() -> None:
    autocast_too()
    capturable_here()
    one_replica()
