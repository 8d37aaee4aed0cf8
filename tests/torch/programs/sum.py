# SPDX-License-Identifier: Apache-2.0
"""Sums ranks over the backend in the first argument, with env:// or a launcher's variables."""

import sys

import rondo.torch  # noqa: F401  as installed, torch does this by itself
import torch
import torch.distributed as dist

dist.init_process_group(sys.argv[1])
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}", flush=True)
