# SPDX-License-Identifier: Apache-2.0
"""A group with another backend for other devices: "cpu:rondo,cuda:nccl" (here cuda:gloo)."""

import gc
import os

import pytest
import torch
import torch.distributed as dist
from ranks import ranks, report, stay_until
from rondo.torch.beside import mirror

BESIDE = "cpu:rondo,cuda:gloo"
since_2_14 = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14), reason="torch before 2.14"
)
before_2_14 = pytest.mark.skipif(since_2_14.args[0] is False, reason="torch 2.14 or newer")


@ranks(3)
def test_a_mirror_names_the_ranks_that_do_not_come(rank, size):
    """As vLLM, with Rondo on one host of two."""
    os.environ["RONDO_INIT_TIMEOUT"] = "0.5"
    group = dist.new_group(backend="gloo")
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match=r"0 waited 0.5 s .* for ranks 1, 2 to use"):
            mirror(group)
        report("named")
    stay_until("named")


@before_2_14
@ranks(2)
def test_older_torch_is_an_error_that_names_the_way(rank, size):
    with pytest.raises(RuntimeError, match="beside 'cuda:gloo'.*torch 2.14.*new_group"):
        dist.new_group([0, 1], backend=BESIDE)


@since_2_14
@ranks(2)
def test_rondo_serves_the_cpu_tensors(rank, size):
    group = dist.new_group([0, 1], backend=BESIDE)
    gc.collect()
    assert group._get_backend(torch.device("cpu")).name() == "rondo"
    assert group._get_backend(torch.device("cuda")).name() == "gloo"
    total = torch.full((5,), rank + 1, dtype=torch.int16)  # gloo does not support int16
    dist.all_reduce(total, group=group)
    assert total.tolist() == [3] * 5
    work = dist.all_reduce(total, group=group, async_op=True)
    work.wait()
    assert total.tolist() == [6] * 5
    parts = [torch.empty(1), torch.empty(2)]
    dist.all_gather(parts, torch.full((rank + 1,), float(rank)), group=group)
    assert parts[1].tolist() == [1, 1]
    flat = torch.empty(4)
    dist.all_gather_into_tensor(flat, torch.full((2,), float(rank)), group=group)
    assert flat.tolist() == [0, 0, 1, 1]
    half = torch.empty(2)
    dist.reduce_scatter_tensor(half, torch.ones(4), group=group)
    assert half.tolist() == [2, 2]
    if rank == 0:
        dist.send(total, 1, group=group, tag=3)
    else:
        dist.recv(total.zero_(), 0, group=group, tag=3)
        assert total.tolist() == [6] * 5
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    assert objects[1] == {"rank": 1}
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2), process_group=group)
    model(torch.full((1, 3), float(rank))).sum().backward()
    assert torch.equal(model.module.weight.grad, torch.full((2, 3), 0.5))
    with pytest.raises(dist.DistBackendError, match="rank . called .* and rank . called"):
        if rank == 0:
            dist.all_reduce(torch.ones(4), group=group)
        else:
            dist.broadcast(torch.ones(4), 0, group=group)
