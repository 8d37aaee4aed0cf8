# SPDX-License-Identifier: Apache-2.0
"""What torch's C++ sees of a group: a backend, and hooks around its calls.

RondoBackend is a backend in torch's sense, which passes every call to a RondoProcessGroup. torch's
own ProcessGroup chooses a backend by device; Python can subclass Backend from torch 2.14 on. It
serves a group with other backends (beside.py), and the hooks: torch's flight recorder, and those
that programs register.

From 2.14 on, torch runs hooks in the C++ behind the methods of its ProcessGroup. While a group has
hooks, each call passes through that C++ and returns through Inside; without hooks a call stays in
Python. From 2.15 on the flight recorder is such a hook, and on unless TORCH_FR_BUFFER_SIZE=0. Only
C++ backends can report to it that a call has ended: here the entry of a blocking call is retired
when the call returns, that of an asynchronous call when it is issued.

Abort hooks run when a call fails, and before abort(). The completion hook (torch's
_register_on_completion_hook) runs when a call has succeeded.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import types
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import Backend

from rondo.torch.traced import untraced

FORWARDED = (
    "_allgather_base", "_end_coalescing", "_get_sequence_number_for_group",
    "_reduce_scatter_base", "_set_sequence_number_for_group", "_start_coalescing",
    "all_gather_single", "all_gather_single_coalesced", "all_to_all_single", "allgather",
    "allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced",
    "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "gather_single",
    "monitored_barrier", "recv", "recv_anysource", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
    "scatter", "send", "set_timeout",
)  # fmt: skip

# A Python backend must define these. Otherwise torch's C++ calls Python again, without limit.
UNSUPPORTED = (
    "_supports_time_estimate", "supports_coalescing", "supports_shrinking", "supports_splitting",
    "supports_window",
)  # fmt: skip


def has_python_backends() -> bool:
    try:
        Backend(0, 1)
    except TypeError:  # its constructor is C++'s alone
        return False
    return True


HAS_PYTHON_BACKENDS = has_python_backends()  # torch 2.14 or newer


class RondoBackend(Backend):
    def __init__(self, group: Hooks) -> None:
        super().__init__(group.rank(), group.size())
        self._rondo = group

    def name(self) -> str:
        return "rondo"

    getBackendName = _get_backend_name = name

    def shutdown(self) -> None:
        self._rondo.shutdown()

    def abort(self) -> None:
        self._rondo.abort()

    def get_error(self) -> c10d.ErrorType:
        return self._rondo.get_error()

    @property
    def supports_reconfigure(self) -> bool:
        return self._rondo.supports_reconfigure

    def get_reconfigure_handle(self) -> str:
        return self._rondo.get_reconfigure_handle()

    def reconfigure(self, options: Any) -> dist.Work:
        return self._done(self._rondo.reconfigure(options))

    def allreduce_sparse(self, tensors: list[torch.Tensor], *opts: Any) -> dist.Work:
        return self._done(self._rondo.allreduce(tensors, *opts))

    def supports_tensor_alloc(self, device: Any) -> bool:
        return self._rondo.supports_tensor_alloc(device)

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        return self._rondo.allocate_tensor(size, dtype=dtype, device=device)

    def _done(self, work: Any) -> Any:
        return work


def forwarded(name: str) -> Any:
    def method(self, *arguments, **named):
        return self._done(getattr(self._rondo, name)(*arguments, **named))

    method.__name__ = name
    return method


for _name in FORWARDED:
    setattr(RondoBackend, _name, forwarded(_name))
for _name in UNSUPPORTED:
    setattr(RondoBackend, _name, property(lambda backend: False))
untraced(RondoBackend)


# ---- hooks ----

# Releases add these one by one, so each is looked up by itself.
HAS_CALL_HOOKS = HAS_PYTHON_BACKENDS and hasattr(dist.ProcessGroup, "register_pre_hook")
_here = threading.local()  # per thread: True while a call passes through torch's C++; its Work


@untraced
class Inside(RondoBackend):
    """The backend that torch's C++ calls after the hooks."""

    def __init__(self, group: Hooks) -> None:
        self._group = weakref.ref(group)
        super().__init__(group)

    @property
    def _rondo(self) -> Any:
        return self._group()

    @_rondo.setter
    def _rondo(self, group: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """Attributes that a group of Rondo has and torch's backends lack."""
        return getattr(self._rondo, name)

    def _done(self, work: Any) -> Any:
        _here.work = work
        return work


class Older:
    """An older name of a method. C++ looks it up after the newer name. While a call passes through
    torch's C++, it is torch's own method, which leads to the hooks."""

    def __init__(self, name: str, newer: Callable) -> None:
        self._name, self._newer = name, newer

    def __get__(self, group: Any, kind: type) -> Callable:
        if group is not None and getattr(_here, "through", False):
            return getattr(dist.ProcessGroup, self._name).__get__(group)
        return self._newer.__get__(group, kind)


def older(name: str, newer: Callable) -> Any:
    return Older(name, newer) if HAS_CALL_HOOKS else newer


def has_flight_recorder(group: Any) -> bool:
    """True if torch records the calls of this group."""
    return group in getattr(dist.distributed_c10d._world, "pg_flight_recorder_hooks", ())


# torch's operation types whose names differ from its methods'.
OP_TYPES = {
    "all_gather_single": "_ALLGATHER_BASE",
    "all_gather_single_coalesced": "ALLGATHER_INTO_TENSOR_COALESCED",
    "all_to_all_single": "ALLTOALL_BASE",
    "recv_anysource": "RECVANYSOURCE",
    "reduce_scatter_single": "_REDUCE_SCATTER_BASE",
    "reduce_scatter_single_coalesced": "REDUCE_SCATTER_TENSOR_COALESCED",
}


class Completion:
    """Reports to a group's completion hook that one call has succeeded."""

    def __init__(self, group: Hooks, method: str) -> None:
        self._hook, self._left, self._failed = group._completion_hook, 1, False
        self._info = types.SimpleNamespace(
            op_type=getattr(c10d.OpType, OP_TYPES.get(method, method.upper()), c10d.OpType.UNKNOWN),
            seq=group._next_completion(),
            time_started=timedelta(seconds=time.monotonic()),
        )

    def of_several(self, works: int) -> None:
        self._left = works

    def end(self, failed: bool = False) -> None:
        self._left, self._failed = self._left - 1, self._failed or failed
        if self._left == 0 and not self._failed:
            info, now = self._info, timedelta(seconds=time.monotonic())
            info.time_finished, info.active_duration = now, now - info.time_started
            self._hook(info)


class Hooks:
    has_torch_hooks: bool | None = None if HAS_CALL_HOOKS else False  # None: unknown
    is_plain = False
    _completion_hook: Callable[[Any], None] | None = None
    _completions = 0
    _inside: Inside | None = None

    def _open_to_hooks(self) -> None:
        """torch's C++ gets the name and the devices of a group from its backends."""
        self._abort_hooks: dict[int, Callable[[], None]] = {}
        if HAS_PYTHON_BACKENDS:
            custom = dist.ProcessGroup.BackendType.CUSTOM
            self._inside = Inside(self)
            self._register_backend(torch.device("cpu"), custom, self._inside)
            self._set_default_backend(custom)

    def serves_torch(self) -> None:
        """torch's own ProcessGroup contains this one, and runs the hooks."""
        self.has_torch_hooks = False
        self._see_if_plain()

    def passes_hooks(self) -> bool:
        """True if the call that begins must go through torch's C++."""
        if getattr(_here, "through", False):
            return False
        if self.has_torch_hooks is None:
            if self not in dist.distributed_c10d._world.pg_map:
                return False  # torch is still creating the group
            self.has_torch_hooks = (
                has_flight_recorder(self) or os.environ.get("TORCH_DIST_NAN_CHECK") == "1"
            )
            self._see_if_plain()
        return self.has_torch_hooks

    def register_pre_hook(self, hook_id: int, hook: Callable) -> None:
        dist.ProcessGroup.register_pre_hook(self, hook_id, hook)
        self.has_torch_hooks = True
        self._see_if_plain()

    def register_post_hook(self, hook_id: int, hook: Callable) -> None:
        dist.ProcessGroup.register_post_hook(self, hook_id, hook)
        self.has_torch_hooks = True
        self._see_if_plain()

    # ---- ends of calls ----

    @property
    def supports_abort_hooks(self) -> bool:
        return True

    def register_abort_hook(self, hook_id: int, hook: Callable[[], None]) -> None:
        self._abort_hooks[hook_id] = hook

    def unregister_abort_hook(self, hook_id: int) -> None:
        self._abort_hooks.pop(hook_id, None)

    def run_abort_hooks(self) -> None:
        for hook in list(self._abort_hooks.values()):
            hook()

    def _register_on_completion_hook(self, hook: Callable[[Any], None]) -> None:
        self._completion_hook = hook
        self._see_if_plain()

    def _has_hooks(self) -> bool:
        return self._completion_hook is not None

    def _next_completion(self) -> int:
        self._completions += 1
        return self._completions


def is_elsewhere(value: Any) -> bool:
    """True if a tensor is on a device for which torch's C++ would choose another backend."""
    if isinstance(value, torch.Tensor):
        return not value.is_cpu
    return isinstance(value, (list, tuple)) and any(map(is_elsewhere, value))


def hooked(method: Callable, call: Callable) -> Callable:
    """Wraps `call`, which makes the method's call, in torch's hooks if the group has any."""
    name, code = method.__name__, method.__code__
    parameters = code.co_varnames[1 : code.co_argcount]
    defaults = dict(zip(reversed(parameters), reversed(method.__defaults__ or ())))
    theirs = getattr(dist.ProcessGroup, name, None)
    if not HAS_CALL_HOOKS or theirs is None or name == "gather_single":
        return call

    @functools.wraps(call)
    def with_hooks(self, *given, **named):
        if self.has_torch_hooks is False or not self.passes_hooks():
            return call(self, *given, **named)
        values = defaults | dict(zip(parameters, given)) | named
        if any(map(is_elsewhere, values.values())):
            return call(self, *given, **named)  # raises an error
        _here.through = True
        try:
            theirs(self, *[values[parameter] for parameter in parameters])
            return _here.work
        finally:
            _here.through, _here.work = False, None

    # pybind11 detects an override that calls its base class by this name and the first argument.
    with_hooks.__code__ = with_hooks.__code__.replace(co_name=name)
    return with_hooks
