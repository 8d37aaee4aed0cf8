# SPDX-License-Identifier: Apache-2.0
"""RondoBackend: a backend in torch's sense, which passes every call to a RondoProcessGroup.

torch's own ProcessGroup chooses a backend by device; Python can subclass Backend from torch 2.14
on. RondoBackend serves a group with other backends (beside.py), and torch's hooks (hooks.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from rondo.torch.untraced import untraced

if TYPE_CHECKING:
    from rondo.torch.process_group import RondoProcessGroup

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
    def __init__(self, group: RondoProcessGroup) -> None:
        super().__init__(group.rank(), group.size())
        self._rondo = group

    def name(self) -> str:
        return "rondo"

    getBackendName = _get_backend_name = name

    def shutdown(self) -> None:
        self._rondo.shutdown()

    def abort(self) -> None:
        self._rondo.abort()

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
