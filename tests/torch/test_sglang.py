# SPDX-License-Identifier: Apache-2.0
"""rondo.sglang in the groups of SGLang's own GroupCoordinator; needs SGLang 0.5.23's sources."""

import os

import pytest
import torch
import torch.distributed as dist
from ranks import environment, free_port, run

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
STATE = "sglang.srt.distributed.parallel_state"
parallel = pytest.importorskip(STATE, exc_type=ImportError)


def in_sglang(size):
    """This rank's tensor-parallel group, and the groups of gloo with the same ranks."""
    from rondo.sglang import register
    from sglang.srt.plugins.hook_registry import HookRegistry

    register()
    register()
    HookRegistry.apply_hooks()
    lists = [[0, 1], [2, 3]] if size == 4 else [[0, 1]]
    gloo = [dist.new_group(ranks, backend="gloo") for ranks in lists][dist.get_rank() // 2]
    return gloo, parallel.GroupCoordinator(
        lists, dist.get_rank(), "gloo", False, False, False, False, False, False, False,
        group_name="tp",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("size", [2, 4])
def test_groups_of_sglang(size, hosts):
    port = free_port()

    def body(rank, size):
        environment(rank, size, port)
        dist.init_process_group("gloo")
        gloo, group = in_sglang(size)
        assert dist.get_backend(group.device_group) == "rondo"
        assert dist.get_backend(group.cpu_group) == "gloo"
        mine = (torch.arange(12 * 64).reshape(12, 64) % 13 + rank).to(torch.bfloat16)
        parts = [torch.empty_like(mine) for _ in range(group.world_size)]
        dist.all_gather(parts, mine, group=gloo)
        total = sum(part.float() for part in parts).to(torch.bfloat16)
        assert torch.equal(group.all_reduce(mine.clone()), total)
        assert torch.equal(group.all_gather(mine), torch.cat(parts, -1))
        share = total.chunk(group.world_size)[group.rank_in_group]
        assert torch.equal(group.reduce_scatter_along_dim(mine, 0), share)
        assert torch.equal(group.broadcast(mine.clone(), 1), parts[1])
        compiled = torch.compile(lambda x: group.all_reduce(x * 2) + 1, backend="aot_eager")
        assert torch.equal(compiled(mine), total * 2 + 1)
        dist.barrier()  # rank 0 serves the store in which the other groups meet

    assert run(body, size, group=False, hosts=hosts) == [0] * size
