# SPDX-License-Identifier: Apache-2.0
"""torchrun's way: LOCAL_RANK, set_device, DistributedSampler, a loader with pinned memory."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(backend="nccl", device_id=torch.device("cuda", local_rank))
    assert torch.cuda.current_device() == local_rank
    data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    loader = DataLoader(
        data, batch_size=4, sampler=DistributedSampler(data), pin_memory=True, num_workers=1
    )
    model = DDP(torch.nn.Linear(4, 1).cuda(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.to(f"cuda:{local_rank}")
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    loss = torch.zeros(1, device="cuda")
    dist.all_reduce(loss)
    torch.cuda.synchronize()
    print(f"rank {dist.get_rank()} done with {dist.get_backend()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
