# SPDX-License-Identifier: Apache-2.0
"""The shortest programs: meet, sum, broadcast, train."""

import gc
import os
import time

import torch
import torch.distributed as dist
from ranks import DEADLINE_SECONDS, environment, free_port, ranks, run
from rondo.torch.meeting import MAX_KEPT
from torch.nn.parallel import DistributedDataParallel

CYCLES = int(os.environ.get("RONDO_TEST_CYCLES", 3 * MAX_KEPT))


@ranks(1, 2, 4, hosts=(1, 2))
def test_sum_broadcast_barrier(rank, size):
    tensor = torch.full((4,), float(rank + 1))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size * (size + 1) / 2] * 4
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait()
    assert work.is_completed() and work.is_success() and work.exception() is None
    tensor = torch.arange(8.0) if rank == size - 1 else torch.zeros(8)
    dist.broadcast(tensor, size - 1)
    assert tensor.tolist() == list(range(8))
    dist.barrier()
    assert dist.get_backend() == "rondo"


def test_init_destroy_init_five_times_on_one_port():
    port = free_port()

    def cycles(rank, size):
        environment(rank, size, port)
        for cycle in range(5):
            dist.init_process_group("rondo")
            tensor = torch.tensor([cycle + rank])
            dist.all_reduce(tensor)
            assert tensor.item() == 2 * cycle + 1
            dist.destroy_process_group()

    assert run(cycles, 2, group=False) == [0, 0]


def held():
    """Descriptors and threads of this process."""
    gc.collect()
    return [len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task")]


def test_cycles_at_new_ports_keep_no_more_descriptors_and_threads():
    ports = [free_port() for _ in range(CYCLES)]

    def cycles(rank, size):
        counts = []
        for port in ports:
            environment(rank, size, port)
            dist.init_process_group("rondo")
            dist.all_reduce(torch.ones(1))
            dist.all_reduce(torch.ones(1), async_op=True).wait()
            dist.destroy_process_group()
            counts.append(held())
            if len(counts) <= 2 * MAX_KEPT:
                continue
            limits = [max(kind) for kind in zip(*counts[MAX_KEPT : 2 * MAX_KEPT])]
            # A store's server closes the connection of a rank that left when it notices that.
            ends = time.monotonic() + DEADLINE_SECONDS / 2
            while any(now > limit for now, limit in zip(held(), limits)):
                assert time.monotonic() < ends, (counts, held())
                time.sleep(0.01)
        if rank == 0:
            print(f"{len(counts)} cycles; descriptors and threads: {counts[-1]}")

    assert run(cycles, 2, group=False, deadline=max(DEADLINE_SECONDS, 3 * CYCLES)) == [0, 0]


def steps(model, inputs, targets, count=5):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def small_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


@ranks(2, 4, hosts=(1, 2))
def test_ddp_takes_the_steps_of_one_process_with_the_whole_batch(rank, size):
    torch.manual_seed(1)
    inputs, targets = torch.randn(8, 6), torch.randn(8, 2)
    whole = small_model()
    steps(whole, inputs, targets)
    shared = DistributedDataParallel(small_model())
    steps(shared, inputs.chunk(size)[rank], targets.chunk(size)[rank])
    for mine, wanted in zip(shared.module.parameters(), whole.parameters()):
        torch.testing.assert_close(mine, wanted)


def test_init_destroy_init_five_times_on_one_file(tmp_path):
    def cycles(rank, size):
        for cycle in range(5):
            dist.init_process_group(
                "rondo", init_method=f"file://{tmp_path}/store", rank=rank, world_size=size
            )
            tensor = torch.tensor([cycle + rank])
            dist.all_reduce(tensor)
            assert tensor.item() == 2 * cycle + 1
            dist.destroy_process_group()

    assert run(cycles, 2, group=False) == [0, 0]
