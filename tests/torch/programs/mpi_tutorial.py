# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tutorial for MPI: mpirun sets ranks and sizes, the script's own values are ignored.

mpi_tutorial.py [PORT]: with a port it sets MASTER_ADDR, as the tutorial does.
"""

import os
import sys

import torch
import torch.distributed as dist


def run():
    total = torch.tensor([dist.get_rank()])
    dist.all_reduce(total)
    where = f"rank {dist.get_rank()} of {dist.get_world_size()} by {dist.get_backend()}"
    print(f"{where}: {total.item()}", flush=True)


def init_process(rank, size, fn, backend):
    if len(sys.argv) > 1:
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = sys.argv[1]
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn()


if __name__ == "__main__":
    init_process(0, 0, run, backend="mpi")
