# SPDX-License-Identifier: Apache-2.0
"""A loop of Hugging Face's accelerate on CPUs, which asks for gloo. Prints what a run on one rank
prints, whatever the number of ranks."""

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, set_seed
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
ranks = accelerator.num_processes
if ranks > 1:
    assert dist.get_backend() == "gloo" and type(dist.group.WORLD).__name__ == "RondoProcessGroup"
set_seed(3)
inputs = torch.randn(64, 6)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=16 // ranks)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
seen = 0
for _ in range(2):
    for batch, target in loader:
        with accelerator.accumulate(model):
            loss = (model(batch) - target).square().mean()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        seen += accelerator.gather_for_metrics(target).shape[0]
assert seen == 128
mean = accelerator.reduce(loss.detach(), reduction="mean")
assert sorted(gather_object([accelerator.process_index])) == list(range(ranks))
assert broadcast_object_list([accelerator.process_index], from_process=ranks - 1) == [ranks - 1]
accelerator.wait_for_everyone()
weights = sum(p.double().abs().sum() for p in accelerator.unwrap_model(model).parameters())
every = accelerator.gather(weights.float().reshape(1))
assert every.eq(every[0]).all(), every
accelerator.print(f"loss {mean:.4f} weights {weights:.4f}\n", end="")  # one write
accelerator.end_training()
