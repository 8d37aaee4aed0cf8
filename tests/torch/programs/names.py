# SPDX-License-Identifier: Apache-2.0
"""What a script can ask torch.distributed under rondo.torch.run, and the answers."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

assert dist.is_nccl_available() and dist.is_gloo_available()
assert not dist.distributed_c10d.is_mpi_available()  # torch's internal answer stays true
assert not dist.is_mpi_available()  # programs prefer MPI if it is available, as accelerate does
dist.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device("cuda:0"))
rank = dist.get_rank()
assert dist.get_backend() == "cpu:gloo,cuda:nccl"


def check(group, profiled_as="gloo"):
    total = torch.full((4,), rank + 1, dtype=torch.int16)  # gloo does not support int16
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(total, group=group)
    assert total.tolist() == [3] * 4
    names = [e.name for e in profiler.events() if "all_reduce" in e.name]
    assert names == [f"{profiled_as}:all_reduce"], names


for name in ("gloo", "nccl", "nccl2", "nccl-legacy", "nccl-lazy", "mpi", None):
    group = dist.new_group([0, 1], backend=name)
    check(group, "nccl" if name and name.startswith("nccl") else name or "gloo")
    assert dist.get_backend(group) == (name or "cpu:gloo,cuda:nccl"), dist.get_backend(group)
    dist.destroy_process_group(group)
assert dist.is_mpi_available()  # the script has asked for it
dist.monitored_barrier(timeout=timedelta(seconds=300))
dist.monitored_barrier(None, 300.0)  # seconds
# Rank 0 is in one more group from here on. For the other rank this is no call.
dist.monitored_barrier(dist.new_group([0]), 300.0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Linear(2, 2), process_group=dist.new_group([0, 1], backend="gloo")
)
logged = model._get_ddp_logging_data()
assert (logged["backend_name"], logged["gloo_num_threads"]) == ("gloo", 2), logged
alone = dist.split_group(split_ranks=[[0], [1]])
assert dist.get_world_size(alone) == 1
check(dist.split_group(split_ranks=[[0, 1]]))
dist.destroy_process_group()

dist.init_process_group()
check(None)
dist.destroy_process_group()
print("all names work", flush=True)
