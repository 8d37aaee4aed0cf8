# SPDX-License-Identifier: Apache-2.0
"""All ways to start ranks: torchrun with one and two agents, launch, spawn, DETAIL."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import environment, free_port, ranks, run

SUM = pathlib.Path(__file__).parent / "programs" / "sum.py"
CLEAN = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def start(*command):
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=CLEAN,
    )


def output(process):
    text, _ = process.communicate(timeout=600)
    assert process.returncode == 0, text
    return text


def test_torchrun():
    text = output(
        start("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SUM, "rondo")
    )
    assert "rank 0 of 2: 1" in text and "rank 1 of 2: 1" in text


@pytest.mark.slow
def test_two_agents_with_elastic_rendezvous():
    port = free_port()
    agents = [
        start(
            "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", "--rdzv-id=pair",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
            "--rdzv-conf=read_timeout=300,keep_alive_max_attempt=60",
            SUM, "rondo",
        )
        for _ in range(2)
    ]  # fmt: skip
    text = "".join(output(agent) for agent in agents)
    assert all(f"rank {rank} of 4: 6" in text for rank in range(4))


@pytest.mark.slow
def test_launch_with_local_rank(tmp_path):
    program = tmp_path / "launched.py"
    program.write_text(
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--local-rank', '--local_rank', type=int)\n"
        "rank = parser.parse_args().local_rank\n"
        "import rondo.torch, torch, torch.distributed as dist\n"
        "dist.init_process_group('rondo')\n"
        "total = torch.ones(1)\n"
        "dist.all_reduce(total)\n"
        "print(f'local rank {rank}: {total.item()}', flush=True)\n"
    )
    port = f"--master-port={free_port()}"
    text = output(start("-m", "torch.distributed.launch", "--nproc-per-node=2", port, program))
    assert "local rank 0: 2.0" in text and "local rank 1: 2.0" in text


def spawned(rank, size, port):
    import rondo.torch  # noqa: F401

    environment(rank, size, port)
    dist.init_process_group("rondo")
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == size


@pytest.mark.slow
def test_spawn():
    torch.multiprocessing.spawn(spawned, args=(2, free_port()), nprocs=2)


def test_detailed_debugging(tmp_path):
    def body(rank, size):
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        dist.set_debug_level_from_env()
        dist.init_process_group(
            "rondo", init_method=f"file://{tmp_path}/store", rank=rank, world_size=size
        )
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
        model(torch.ones(1, 3)).sum().backward()
        assert torch.equal(model.module.weight.grad, torch.ones(2, 3))
        dist.destroy_process_group()

    assert run(body, 2, group=False) == [0, 0]


@ranks(4)
def test_groups_of_groups_at_once(rank, size):
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    works, tensors = [], []
    for turn in range(20):
        for group in (rows[rank // 2], columns[rank % 2], dist.group.WORLD):
            tensors.append(torch.full((turn * 50 + 1,), float(rank)))
            works.append(dist.all_reduce(tensors[-1], group=group, async_op=True))
    for work in reversed(works):
        work.wait()
    wanted = [[1, 1, 5, 5][rank], [2, 4, 2, 4][rank], 6]
    for index, tensor in enumerate(tensors):
        assert (tensor == wanted[index % 3]).all()
