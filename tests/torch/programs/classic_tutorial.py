# SPDX-License-Identifier: Apache-2.0
"""PyTorch's "Writing Distributed Applications": fork, MASTER_ADDR, a backend by name."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, size):
    group = dist.new_group(list(range(size)))
    tensor = torch.ones(1)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    print(f"Rank {rank} has data {tensor[0]} by {dist.get_backend()}", flush=True)


def init_process(rank, size, fn, backend):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = sys.argv[2]
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


if __name__ == "__main__":
    size = 2
    processes = []
    mp.set_start_method("spawn" if len(sys.argv) > 3 else "fork")
    for rank in range(size):
        p = mp.Process(target=init_process, args=(rank, size, run, sys.argv[1]))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
    sys.exit(max(p.exitcode for p in processes))
