# SPDX-License-Identifier: Apache-2.0
"""Under rondo.torch.run: Rondo serves a script that asks for other backends.

Only public names of torch.distributed change. get_backend returns what the script asked for;
torch's own code still sees "rondo".
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rondo.torch import groups, launchers

NCCL = ("nccl", "nccl2", "nccl-legacy", "nccl-lazy")  # the last two: torch 2.15 or newer
SERVED = ("gloo", "mpi", "undefined", *NCCL)
GLOO_LOGS, GLOO_THREADS = ("gloo_socket_ifname", "gloo_device_transport"), 2
_asked: dict[str, str] = {}  # requested backend by group name


def on_rondo(backend: Any, cuda_stays: bool) -> str | None:
    """The backend that runs instead of the requested one."""
    name = "undefined" if backend is None else str(backend).lower()
    if ":" in name:
        parts = dict(part.split(":", 1) for part in name.split(","))
        if not cuda_stays or set(parts) == {"cpu"}:
            return "rondo"
        return ",".join(f"{d}:{'rondo' if d == 'cpu' else b}" for d, b in parts.items())
    if cuda_stays and name in ("undefined", *NCCL):
        return backend
    return "rondo" if name in SERVED else backend


def of_one_device(backend: str) -> str:
    """For "cpu:gloo,cuda:nccl": the backend of the device that the program believes to use."""
    parts = dict(part.split(":", 1) for part in backend.split(",") if ":" in part)
    devices = ("cuda", "cpu") if os.environ.get("RONDO_TORCH_DEVICE") else ("cpu", "cuda")
    return next((parts[device] for device in devices if device in parts), backend)


def logged_by(backend: str) -> dict[str, Any]:
    """The backend fields in the log of DistributedDataParallel."""
    if backend != "gloo":
        return {"backend_name": backend}
    asked = {name: os.environ.get(name.upper(), "N/A") for name in GLOO_LOGS}  # "N/A" as in torch
    return {"backend_name": backend, "gloo_num_threads": GLOO_THREADS, **asked}


def rename(cuda_stays: bool) -> None:
    """cuda_stays: the script uses a GPU, and LD_PRELOAD makes its nccl Rondo."""
    make_world, make_group, backend_of = (
        dist.init_process_group,
        dist.new_group,
        dist.get_backend,
    )

    @functools.wraps(make_world)
    def init_process_group(backend=None, init_method=None, *rest, **named):
        mine = on_rondo(backend, cuda_stays)
        device = named.get("device_id")
        if mine == "rondo" and getattr(device, "type", None) != "cpu":
            named.pop("device_id", None)
        if backend is not None and str(backend).lower() == "mpi":
            rest = rest[:1]  # rank and size are mpirun's, not the script's
            named = {k: v for k, v in named.items() if k not in ("rank", "world_size")}
            launchers.set_variables()
            if init_method not in (None, "env://"):
                named.update(rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
        made = make_world(mine, init_method, *rest, **named)
        remember(dist.group.WORLD, backend)
        return made

    @functools.wraps(make_group)
    def new_group(ranks=None, timeout=None, backend=None, *rest, **named):
        if named.pop("device_id", None) is not None and cuda_stays:
            named["device_id"] = None
        mine = on_rondo(backend, cuda_stays) if backend is not None else None
        made = make_group(ranks, timeout, mine, *rest, **named)
        remember(made, backend)
        return made

    def remember(group: Any, backend: Any) -> None:
        if backend is not None and hasattr(group, "group_name"):
            _asked[group.group_name] = str(backend).lower()
        if (asked := asked_for(group)) and hasattr(group, "profiled_as"):
            called = of_one_device(asked)
            group.profiled_as = "nccl" if called in NCCL else called

    def asked_for(group: Any) -> str | None:
        world = dist.group.WORLD
        return _asked.get(getattr(group, "group_name", "")) or _asked.get(world.group_name)

    @functools.wraps(backend_of)
    def get_backend(group=None):
        actual = backend_of(group)
        return asked_for(group or dist.group.WORLD) or actual

    ddp = torch.nn.parallel.DistributedDataParallel
    theirs = ddp._get_ddp_logging_data

    @functools.wraps(theirs)
    def logging_data(self):
        data = theirs(self)
        if data.get("backend_name") == "rondo":
            data |= logged_by(get_backend(self.process_group))
        return data

    ddp._get_ddp_logging_data = logging_data
    for module in (dist, c10d):
        module.init_process_group = init_process_group
        module.new_group = new_group
    dist.get_backend = get_backend
    dist.is_nccl_available = dist.is_gloo_available = lambda: True
    dist.is_mpi_available = lambda: "mpi" in _asked.values()
    dist.monitored_barrier = groups.monitored_barrier
    dist.split_group = groups.split_group
