# SPDX-License-Identifier: Apache-2.0
"""Groups of Rondo beside other backends: for the CPU tensors of a group, or with a group's ranks.

    init_process_group("cpu:rondo,cuda:nccl")

torch chooses such a group's backends by device only if each is a c10d::Backend, which Python can
subclass from torch 2.14 on. A ProcessGroup would get the tensors of all devices; it serves groups
of Rondo alone, on every torch, with one step less per call.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from rondo.library import init_seconds
from rondo.torch.hooks import HAS_PYTHON_BACKENDS, RondoBackend
from rondo.torch.meeting import MAX_NAMED, of_new_group
from rondo.torch.process_group import RondoProcessGroup
from rondo.torch.traced import untraced


class Beside(RondoBackend):
    def __init__(self, group: RondoProcessGroup) -> None:
        super().__init__(group)
        group.serves_torch()
        in_use.add(self)  # otherwise only C++ would hold a reference

    def shutdown(self) -> None:
        super().shutdown()
        in_use.discard(self)

    def abort(self) -> None:
        super().abort()
        in_use.discard(self)


in_use: set[Beside] = set()
untraced(Beside)


def other_devices() -> dict[str, str]:
    """Devices of the group that torch is creating that have another backend than rondo."""
    config = of_new_group("backend_config")
    if not isinstance(config, dist.BackendConfig):
        return {}
    return {d: b for d, b in config.get_device_backend_map().items() if b != "rondo"}


def create_beside(
    others: dict[str, str], store: dist.Store, rank: int, size: int, timeout: timedelta
) -> Beside:
    if not HAS_PYTHON_BACKENDS:
        names = ",".join(f"{device}:{backend}" for device, backend in others.items())
        raise RuntimeError(
            f"rondo: 'cpu:rondo' beside '{names}' in one group needs torch 2.14 or newer, this is "
            f"{torch.__version__}; make two groups instead, new_group(backend='rondo') for CPU "
            "tensors and one for the others"
        )
    return Beside(RondoProcessGroup(store, rank, size, timeout))


def timeout_of(group: dist.ProcessGroup) -> timedelta:
    backend = group._get_backend(torch.device("cpu"))
    own = getattr(getattr(backend, "options", None), "_timeout", None)
    return own or dist.constants.default_pg_timeout


def wait_for_mirrors(store: dist.Store, rank: int, size: int) -> None:
    """All ranks have just made a group, so one that does not come here has no Rondo. The others
    would wait for it as long as a call may take: half an hour."""
    keys = [f"mirrors/{each}" for each in range(size)]
    store.set(keys[rank], "")
    seconds = init_seconds()
    try:
        store.wait(keys, timedelta(seconds=seconds))
    except RuntimeError as error:
        away = [str(each) for each in range(size) if not store.check([keys[each]])]
        names = f"rank{'s'[: len(away) > 1]} {', '.join(away[:MAX_NAMED])}"
        names += " ..." * (len(away) > MAX_NAMED)
        raise dist.DistBackendError(
            f"rondo: rank {rank} waited {seconds:g} s (RONDO_INIT_TIMEOUT) for {names} to use "
            "Rondo; install the same wheel on all hosts, or turn Rondo off on all"
        ) from error


def mirror(group: dist.ProcessGroup) -> RondoProcessGroup:
    """A group of Rondo with the ranks of a group of another backend, which stays as it is. All
    ranks of the group call this at the same time. They meet in the group's store."""
    _, store = dist.distributed_c10d._world.pg_map[group]
    store = store or dist.distributed_c10d._get_default_store()  # None: split from another group
    own = dist.PrefixStore(f"rondo.mirror/{group.group_name}", store)
    wait_for_mirrors(own, group.rank(), group.size())
    return RondoProcessGroup(own, group.rank(), group.size(), timeout_of(group))
