# SPDX-License-Identifier: Apache-2.0
"""Rondo as a backend of ray.util.collective: actors exchange NumPy arrays and CPU tensors of torch.

    ray.init(runtime_env={"worker_process_setup_hook": "rondo.ray.register"})
    rondo.ray.register()                                    # the driver
    ray.util.collective.create_collective_group(actors, 2, [0, 1], backend="rondo")

Ray asks each process, driver and actors, to register a backend; its setup hook does so in all of
them. The ranks of a group meet in Ray's own key-value store. If an actor dies while the others wait
for it there, they raise an error with its rank, without waiting for the limit (RONDO_INIT_TIMEOUT).
torch is not needed.
"""

from __future__ import annotations

from typing import Any

import ray

try:
    from ray.util.collective import is_backend_available, register_collective_backend
except ImportError as error:
    raise ImportError(
        f"rondo: Ray {ray.__version__} has no ray.util.collective.register_collective_backend "
        f"({error}); install Ray 2.56 or newer: pip install -U ray"
    ) from None
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

from rondo.communicator import Communicator
from rondo.library import init_seconds
from rondo.ray_meeting import Meeting

NAME = "RONDO"
OPS = {ReduceOp.SUM: "sum", ReduceOp.PRODUCT: "prod", ReduceOp.MIN: "min", ReduceOp.MAX: "max"}


def register() -> None:
    """Makes backend "rondo" known to ray.util.collective in this process. Further calls do
    nothing."""
    if not is_backend_available(NAME):
        register_collective_backend(NAME, RondoGroup)


class RondoGroup(BaseGroup):
    """Ray passes each tensor in a list of one. Calls block."""

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        meeting = Meeting(group_name, rank, world_size, init_seconds())
        ticket, left = meeting.meet()
        try:
            self._ranks = meeting.connect(
                lambda: Communicator(rank, world_size, ticket, group_name, init_timeout=left)
            )
        finally:
            meeting.leave()

    @classmethod
    def backend(cls) -> str:
        return NAME

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True  # without the library, this module cannot be imported, and the error says why

    def destroy_group(self) -> None:
        self._ranks.close()

    def allreduce(self, tensor: list, options: Any = AllReduceOptions) -> None:
        self._ranks.all_reduce(one(tensor), OPS[options.reduceOp])

    def barrier(self, options: Any = BarrierOptions) -> None:
        self._ranks.barrier()

    def reduce(self, tensor: list, options: Any = ReduceOptions) -> None:
        self._ranks.reduce(one(tensor), options.root_rank, OPS[options.reduceOp])

    def allgather(self, tensors: list, tensor: list, options: Any = AllGatherOptions) -> None:
        self._ranks.all_gather(one(tensors), one(tensor))

    def broadcast(self, tensor: list, options: Any = BroadcastOptions) -> None:
        self._ranks.broadcast(one(tensor), options.root_rank)

    def reducescatter(
        self, tensor: list, tensors: list, options: Any = ReduceScatterOptions
    ) -> None:
        self._ranks.reduce_scatter(one(tensor), one(tensors), OPS[options.reduceOp])

    def send(self, tensor: list, options: SendOptions) -> None:
        self._ranks.send(one(tensor), options.dst_rank)

    def recv(self, tensor: list, options: RecvOptions) -> None:
        self._ranks.receive(one(tensor), options.src_rank)


def one(given: list) -> Any:
    """The functions for several GPUs of a process (allreduce_multigpu) pass more."""
    if len(given) != 1:
        raise TypeError(
            f"rondo: {len(given)} tensors of one process in one call; the backend 'rondo' takes one"
            " for each call, in host memory"
        )
    return given[0]
