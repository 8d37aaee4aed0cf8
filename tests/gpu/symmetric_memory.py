# SPDX-License-Identifier: Apache-2.0
"""Checks of torch_check.py that run by their names only: torch's symmetric memory with its NCCL
back end. Kernels of torch's have inlined NVIDIA's nccl_device.h, and run on our library's windows.
"""

import torch
import torch.distributed as dist
from torch.distributed import _symmetric_memory

NEEDED = {"symmetric": "set_backend", "symmetric_sums": "reduce_scatter_offset"}


def asked(names: list[str]) -> list[str]:
    return [name for name in names if name in NEEDED]


def lacking(names: list[str], device: str) -> str:
    """Why torch cannot run checks of these names; "": it can, or none is of symmetric memory."""
    if device == "cpu":
        return "has no symmetric memory on the CPU" if asked(names) else ""
    absent = [NEEDED[name] for name in asked(names) if not hasattr(_symmetric_memory, NEEDED[name])]
    return f"has no _symmetric_memory.{absent[0]}()" if absent else ""


class Checks:
    rank: int
    size: int
    device: torch.device

    def of(self, rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        raise NotImplementedError

    def symmetric(self) -> None:
        """A kernel of torch's asks NVIDIA's nccl_device.h for the addresses of the peers' windows;
        others load and store there."""
        mine, handle = self.symmetric_tensor(1000)
        assert (handle.rank, handle.world_size) == (self.rank, self.size)
        everything = [self.of(r, 1000, torch.float32) for r in range(self.size)]
        for peer, theirs in enumerate(everything):
            assert torch.equal(handle.get_buffer(peer, (1000,), torch.float32), theirs), peer
        total = sum(everything)
        if self.size > 1:
            group = dist.group.WORLD.group_name
            for _ in range(3):
                assert torch.equal(
                    torch.ops.symm_mem.one_shot_all_reduce(mine, "sum", group), total
                )
        dist.barrier()
        dist.all_reduce(mine)
        assert torch.equal(mine, total)

    def symmetric_sums(self) -> None:
        """A kernel of torch's with barriers and sums of NVIDIA's nccl_device.h."""
        flat, _ = self.symmetric_tensor(self.size * 40 * 96)
        rows, part = flat.view(self.size * 40, 96), torch.empty(40, 96, device=self.device)
        first = sum(self.of(r, flat.numel(), torch.float32) for r in range(self.size))
        for turn in range(3):
            _symmetric_memory.reduce_scatter_offset(
                rows, [part], dist.group.WORLD.group_name, dim=0
            )
            wanted = first.view(self.size, 40, 96)[self.rank] + float(turn * self.size)
            assert torch.equal(part, wanted), turn
            dist.barrier()
            rows.add_(1)
            dist.barrier()

    def symmetric_tensor(self, count: int) -> tuple:
        """of(), in a window that all ranks have opened and filled."""
        _symmetric_memory.set_backend("NCCL")
        dist.barrier()  # some releases of torch want the communicator to be there
        tensor = _symmetric_memory.empty(count, dtype=torch.float32, device=self.device)
        tensor.copy_(self.of(self.rank, count, torch.float32))
        handle = _symmetric_memory.rendezvous(tensor, dist.group.WORLD.group_name)
        dist.barrier()
        return tensor, handle
