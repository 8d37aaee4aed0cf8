"""Rondo for the CPU tensors of a group that has another backend for its GPUs.

    init_process_group("cpu:rondo,cuda:nccl")

torch asks such a group's backends by device only if each is a c10d::Backend. Python can subclass
that from torch 2.14 on; a ProcessGroup, which serves a group of Rondo alone on every torch with a
step less per call, would take the tensors of all devices.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from rondo.torch.process_group import RondoProcessGroup
from rondo.torch.untraced import untraced

FORWARDED = (
    "_allgather_base", "_end_coalescing", "_get_sequence_number_for_group",
    "_reduce_scatter_base", "_set_sequence_number_for_group", "_start_coalescing",
    "all_gather_single", "all_gather_single_coalesced", "all_to_all_single", "allgather",
    "allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced",
    "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced", "scatter", "send", "set_timeout",
)  # fmt: skip


def other_devices() -> dict[str, str]:
    """Of the group that torch is making: devices that have another backend than rondo.

    torch tells the function that makes a backend nothing of this, so it is read where it stands.
    """
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_new_process_group_helper":
        frame = frame.f_back
    config = frame and frame.f_locals.get("backend_config")
    if not isinstance(config, dist.BackendConfig):
        return {}
    return {d: b for d, b in config.get_device_backend_map().items() if b != "rondo"}


class RondoBackend(Backend):
    """Hands every call to a RondoProcessGroup."""

    def __init__(self, group: RondoProcessGroup) -> None:
        super().__init__(group.rank(), group.size())
        self._rondo = group
        in_use.add(self)  # C++ alone holds it from now on

    def name(self) -> str:
        return "rondo"

    getBackendName = _get_backend_name = name

    def shutdown(self) -> None:
        self._rondo.shutdown()
        in_use.discard(self)

    def abort(self) -> None:
        self._rondo.abort()
        in_use.discard(self)

    @property
    def supports_coalescing(self) -> bool:
        return False

    def allreduce_sparse(self, tensors: list[torch.Tensor], *opts: Any) -> dist.Work:
        return self._rondo.allreduce(tensors, *opts)


in_use: set[RondoBackend] = set()


def forwarded(name: str) -> Any:
    def method(self, *arguments, **named):
        return getattr(self._rondo, name)(*arguments, **named)

    method.__name__ = name
    return method


for _name in FORWARDED:
    setattr(RondoBackend, _name, forwarded(_name))
untraced(RondoBackend)


def create_beside(
    others: dict[str, str], store: dist.Store, rank: int, size: int, timeout: timedelta
) -> RondoBackend:
    try:
        Backend(0, 1)
    except TypeError:
        names = ",".join(f"{device}:{backend}" for device, backend in others.items())
        raise RuntimeError(
            f"rondo: 'cpu:rondo' beside '{names}' in one group needs torch 2.14 or newer, this is "
            f"{torch.__version__}; make two groups instead, new_group(backend='rondo') for CPU "
            "tensors and one for the others"
        ) from None
    return RondoBackend(RondoProcessGroup(store, rank, size, timeout))
