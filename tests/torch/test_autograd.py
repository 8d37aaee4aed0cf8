# SPDX-License-Identifier: Apache-2.0
"""Collectives in autograd graphs: functional ones, ones with gradients."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as autograd
from ranks import ranks


@ranks(2)
def test_functional_collectives(rank, size):
    tensor = torch.full((4,), float(rank))
    group = dist.group.WORLD
    assert functional.all_reduce(tensor, "sum", group).tolist() == [1] * 4
    assert functional.all_gather_tensor(tensor, 0, group).tolist() == [0] * 4 + [1] * 4
    assert functional.reduce_scatter_tensor(tensor, "avg", 0, group).tolist() == [0.5] * 2
    assert functional.all_to_all_single(tensor, None, None, group).tolist() == [0, 0, 1, 1]
    assert functional.broadcast(tensor, 1, group).tolist() == [1] * 4
    pair = functional.all_reduce_coalesced([tensor, tensor * 2], "max", group)
    assert [each.tolist() for each in pair] == [[1] * 4, [2] * 4]
    assert tensor.tolist() == [rank] * 4  # functions do not change their arguments


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


@ranks(2, 3)
def test_gradients_pass_through_every_collective(rank, size):
    """Each rank multiplies its result by its number plus one."""
    weight, all_weights = rank + 1, size * (size + 1) // 2

    x = leaf(3)
    (autograd.all_reduce(x) * weight).sum().backward()
    assert x.grad.tolist() == [all_weights] * 3

    x = leaf(3)
    (autograd.broadcast(x, 1) * weight).sum().backward()
    assert x.grad.tolist() == [all_weights if rank == 1 else 0] * 3

    x = leaf(3)
    (torch.stack(autograd.all_gather(x)) * weight).sum().backward()
    assert x.grad.tolist() == [all_weights] * 3

    parts = [leaf(2) for _ in range(size)]
    (autograd.reduce_scatter(torch.empty(2), parts) * weight).sum().backward()
    assert [part.grad.tolist() for part in parts] == [[r + 1] * 2 for r in range(size)]

    x = leaf(2 * size)
    (autograd.all_to_all_single(torch.empty(2 * size), x) * weight).sum().backward()
    assert x.grad.tolist() == [r + 1 for r in range(size) for _ in range(2)]

    parts = [leaf(2) for _ in range(size)]
    received = autograd.all_to_all([torch.empty(2) for _ in range(size)], parts)
    (torch.stack(received) * weight).sum().backward()
    assert [part.grad.tolist() for part in parts] == [[r + 1] * 2 for r in range(size)]

    x = leaf(3)
    (autograd.reduce(x, 0) * weight).sum().backward()
    assert x.grad.tolist() == [1] * 3  # the weight of rank 0

    x = leaf(3)
    gathered = autograd.gather(x, 0)
    (torch.stack(gathered) * torch.arange(1, size + 1)[:, None] * weight).sum().backward()
    assert x.grad.tolist() == [weight] * 3

    parts = [leaf(2) for _ in range(size)]
    (autograd.scatter(parts, 0) * weight).sum().backward()
    wanted = [[r + 1.0] * 2 if rank == 0 else [0.0] * 2 for r in range(size)]
    assert [part.grad.tolist() for part in parts] == wanted
