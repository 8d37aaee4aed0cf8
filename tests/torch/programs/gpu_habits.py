# SPDX-License-Identifier: Apache-2.0
"""What GPU programs use besides tensors: streams, events, mixed precision, seeds, threads."""

import os
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

rank = int(os.environ["LOCAL_RANK"])
device = torch.device(f"cuda:{rank}")
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
world = dist.get_world_size()
assert torch.cuda.device_count() == world and torch.cuda.current_device() == rank
with torch.cuda.device(1 - rank):
    assert torch.cuda.current_device() == 1 - rank
assert torch.cuda.current_device() == rank
assert torch.cuda.get_device_properties(device).total_memory > 0
assert torch.cuda.is_bf16_supported() and torch.cuda.get_device_capability(rank) >= (7, 0)
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() >= 0

torch.cuda.manual_seed_all(5)
first = torch.randn(3, device="cuda")
torch.cuda.manual_seed(5)
assert torch.equal(first, torch.randn(3, device=device))
order = torch.randperm(9, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda")
assert sorted(order.tolist()) == list(range(9))

side, begin, end = torch.cuda.Stream(), torch.cuda.Event(True), torch.cuda.Event(True)
side.wait_stream(torch.cuda.current_stream())
begin.record()
with torch.cuda.stream(side):
    total = torch.full((1000,), float(rank + 1), device=device)
    dist.all_reduce(total)
    total.record_stream(side)
torch.cuda.current_stream().wait_stream(side)
end.record()
torch.cuda.synchronize()
assert begin.elapsed_time(end) >= 0 and total[0].item() == world * (world + 1) / 2

moved = []
thread = threading.Thread(target=lambda: moved.append(torch.ones(3).to("cuda", torch.float16)))
thread.start()
thread.join()
assert moved[0].device == total.device and moved[0].dtype == torch.float16

data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler, pin_memory=True, num_workers=2)
torch.manual_seed(0)
model = DDP(nn.Linear(4, 1).to(rank), device_ids=[rank], output_device=rank)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda")
before = model.module.weight.detach().clone()
for x, y in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x.to(device, non_blocking=True)), y.cuda(rank))
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
assert not torch.equal(before, model.module.weight)
weights = [torch.empty_like(before) for _ in range(world)]
dist.all_gather(weights, model.module.weight.detach())
assert torch.equal(weights[0], weights[1])

mesh = init_device_mesh("cuda", (world,))
sharded = nn.Linear(4, 4, device="cuda")
fully_shard(sharded, mesh=mesh)
sharded(torch.ones(1, 4, device="cuda")).sum().backward()
assert sharded.weight.grad.full_tensor().shape == (4, 4)
parts = distribute_tensor(torch.ones(2 * world, device="cuda"), mesh, [Shard(0)])
assert parts.to_local().numel() == 2 and parts.sum().full_tensor().item() == 2 * world
dist.barrier(device_ids=[rank])
print("all habits work", flush=True)
dist.destroy_process_group()
