# SPDX-License-Identifier: Apache-2.0
"""RondoCommunicator: the interface of vLLM's CpuCommunicator, on a group of Rondo.

vLLM makes one for each of its groups (tensor, pipeline, data and expert parallel) of more than one
rank, on one host or several. Ranks of peers in arguments count within the group. vLLM's group of
gloo stays for control messages; it also gives the store in which the ranks meet and the timeout.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase

from rondo.torch import traced
from rondo.torch.beside import mirror
from rondo.vllm import tensor_dicts
from rondo.vllm.peers import Peers

FAULT_SECONDS = 1.0  # for a worker's answer, which names the lost rank, to reach vLLM's engine
SHUTDOWN_SECONDS = 1.0  # for a worker, from SIGTERM to SIGKILL


def end_worker() -> None:
    """On SIGTERM vLLM frees what it has, which may wait for the lost rank."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def end_worker_soon() -> None:
    """vLLM's worker catches the error of a call, answers with it, and waits for the next order. On
    another host than the engine's, which ends then, it would wait without limit, as would its node:
    that only sees if its own workers end."""
    if multiprocessing.current_process().name.startswith("VllmWorker"):
        end = threading.Timer(FAULT_SECONDS, end_worker)
        end.daemon = True
        end.start()


def joined(parts: torch.Tensor, dim: int) -> torch.Tensor:
    """parts[rank] is a rank's tensor: all of them, one behind the other along dim."""
    shape = list(parts.shape[1:])
    shape[dim] *= parts.shape[0]
    return parts.movedim(0, dim).reshape(shape)


class RondoCommunicator(DeviceCommunicatorBase):
    supports_tensor_dict = True

    def __init__(
        self,
        cpu_group: dist.ProcessGroup,
        device: torch.device | None = None,
        device_group: dist.ProcessGroup | None = None,
        unique_name: str = "",
        **more: Any,
    ) -> None:
        super().__init__(cpu_group, device, device_group, unique_name, **more)
        self.group = mirror(cpu_group)
        self.group.register_abort_hook(0, end_worker_soon)  # after a fault
        self.peers = Peers(self.group, end_worker_soon)  # while no call runs
        self.number = traced.number_of(self.group)
        if self.use_all2all:
            from vllm.distributed.device_communicators.all2all import AgRsAll2AllManager

            self.all2all_manager = AgRsAll2AllManager(self.cpu_group)

    def destroy(self) -> None:
        self.peers.leave()
        self.group.shutdown()

    # ---- collectives ----

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """In place."""
        traced.all_reduce(self.number, input_)
        return input_

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        parts = input_.new_empty((self.world_size, *input_.shape))
        traced.all_gather(self.number, parts, input_.contiguous())
        return joined(parts, dim % input_.dim())

    def gather(self, input_: torch.Tensor, dst: int = 0, dim: int = -1) -> torch.Tensor | None:
        at_root = self.rank_in_group == dst
        parts = input_.new_empty((self.world_size if at_root else 0, *input_.shape))
        traced.gather(self.number, parts, input_.contiguous(), dst)
        return joined(parts, dim % input_.dim()) if at_root else None

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        dim %= input_.dim()
        parts = input_.movedim(dim, 0).contiguous()
        if parts.shape[0] % self.world_size != 0:
            raise ValueError(
                f"rondo: {parts.shape[0]} rows of dimension {dim} do not divide by "
                f"{self.world_size} ranks"
            )
        output = parts.new_empty((parts.shape[0] // self.world_size, *parts.shape[1:]))
        traced.reduce_scatter(self.number, output, parts)
        return output.movedim(0, dim).contiguous()

    def all_gatherv(
        self,
        input_: torch.Tensor | list[torch.Tensor],
        dim: int = 0,
        sizes: list[int] | None = None,
    ) -> torch.Tensor | list[torch.Tensor]:
        """Each rank has sizes[rank] rows."""
        if dim != 0:
            raise NotImplementedError(f"rondo: all_gatherv of dimension {dim}: only 0 is supported")
        if not isinstance(input_, torch.Tensor):
            return [self.all_gatherv(each, dim, sizes) for each in input_]
        sizes = sizes or [input_.shape[0]] * self.world_size
        output = input_.new_empty((sum(sizes), *input_.shape[1:]))
        self.group.allgather([list(output.split(sizes))], [input_], traced.ALL_GATHER)
        return output

    def reduce_scatterv(
        self, input_: torch.Tensor, dim: int = -1, sizes: list[int] | None = None
    ) -> torch.Tensor:
        """Each rank gets sizes[rank] rows of the sum."""
        if sizes is None:
            return self.reduce_scatter(input_, dim)
        dim %= input_.dim()
        parts = input_.movedim(dim, 0).contiguous()
        output = parts.new_empty((sizes[self.rank_in_group], *parts.shape[1:]))
        self.group.reduce_scatter([output], [list(parts.split(sizes))], traced.REDUCE_SCATTER)
        return output.movedim(0, dim).contiguous()

    def broadcast(self, tensor: torch.Tensor, src: int = 0) -> torch.Tensor:
        options = traced.now(c10d.BroadcastOptions())
        options.rootRank = src
        self.group.broadcast([tensor], options)
        return tensor

    # ---- messages; without a peer, to the next rank and from the one before ----

    def send(self, tensor: torch.Tensor, dst: int | None = None) -> None:
        peer = (self.rank_in_group + 1) % self.world_size if dst is None else dst
        self.group.send([tensor], peer).wait()

    def recv(self, size: torch.Size, dtype: torch.dtype, src: int | None = None) -> torch.Tensor:
        peer = (self.rank_in_group - 1) % self.world_size if src is None else src
        tensor = torch.empty(size, dtype=dtype, device=self.device)
        self.group.recv([tensor], peer).wait()
        return tensor

    def send_tensor_dict(self, tensor_dict: dict[str, torch.Tensor | Any], dst: int) -> None:
        tensor_dicts.send(self.group, tensor_dict, dst)

    def recv_tensor_dict(self, src: int) -> dict[str, torch.Tensor | Any]:
        return tensor_dicts.receive(self.group, src)

    # ---- experts: vLLM's all-to-all by all_gatherv and reduce_scatterv of this class ----

    def dispatch_router_logits(
        self,
        hidden_states: torch.Tensor,
        router_logits: torch.Tensor,
        is_sequence_parallel: bool = False,
        extra_tensors: list[torch.Tensor] | None = None,
    ) -> Any:
        return self.all2all_manager.dispatch_router_logits(
            hidden_states, router_logits, is_sequence_parallel, extra_tensors
        )

    def dispatch(
        self,
        hidden_states: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        is_sequence_parallel: bool = False,
        extra_tensors: list[torch.Tensor] | None = None,
    ) -> Any:
        return self.all2all_manager.dispatch(
            hidden_states, topk_weights, topk_ids, is_sequence_parallel, extra_tensors
        )

    def combine(
        self, hidden_states: torch.Tensor, is_sequence_parallel: bool = False
    ) -> torch.Tensor:
        return self.all2all_manager.combine(hidden_states, is_sequence_parallel)
