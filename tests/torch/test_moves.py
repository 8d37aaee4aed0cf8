# SPDX-License-Identifier: Apache-2.0
"""Calls that only move data: broadcast, gather, all_gather, scatter, all_to_all, objects,
coalescing."""

import math

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import ranks

DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64, torch.bool,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
    torch.complex128, torch.complex32, torch.uint32, torch.uint64, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


def of_rank(rank, count, dtype):
    numbers = torch.arange(rank + 1, rank + 1 + count) % (2 if dtype == torch.bool else 16)
    if dtype.itemsize == 1 and dtype.is_floating_point:
        return numbers.to(torch.uint8).view(dtype)  # as bits: torch cannot convert to all of them
    return numbers.to(dtype)


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert bytes(a.contiguous().view(torch.uint8).flatten().tolist()) == bytes(
        b.contiguous().view(torch.uint8).flatten().tolist()
    )


@ranks(2, 3)
def test_every_type_as_bytes(rank, size):
    for dtype in DTYPES:
        for n in (1, 5, 3000):
            tensor = of_rank(rank, n, dtype)
            for root in range(size):
                copy = tensor.clone()
                dist.broadcast(copy, root)
                same(copy, of_rank(root, n, dtype))
            parts = [torch.zeros(n, dtype=dtype) for _ in range(size)]
            dist.all_gather(parts, tensor)
            for r in range(size):
                same(parts[r], of_rank(r, n, dtype))
            flat = torch.zeros(n * size, dtype=dtype)
            dist.all_gather_into_tensor(flat, tensor)
            for r in range(size):
                same(flat[r * n : (r + 1) * n], of_rank(r, n, dtype))
            swapped = torch.zeros(n * size, dtype=dtype)
            sent = torch.cat([of_rank(rank * size + r, n, dtype) for r in range(size)])
            dist.all_to_all_single(swapped, sent)
            for r in range(size):
                same(swapped[r * n : (r + 1) * n], of_rank(r * size + rank, n, dtype))


@ranks(3)
def test_every_type_in_an_all_to_all_of_uneven_parts(rank, size):
    """Rank s sends r + 2 s + 1 rows to rank r, so counts sent and received differ."""
    given = [rank_to + 2 * rank + 1 for rank_to in range(size)]
    taken = [rank + 2 * rank_from + 1 for rank_from in range(size)]
    for dtype in DTYPES:
        for shape in ((), (3,)):
            width = math.prod(shape)
            sent = torch.cat(
                [of_rank(rank * size + r, width * n, dtype) for r, n in enumerate(given)]
            )
            wanted = torch.cat(
                [of_rank(r * size + rank, width * n, dtype) for r, n in enumerate(taken)]
            )
            sent, wanted = sent.view(-1, *shape), wanted.view(-1, *shape)
            got = torch.zeros(sum(taken), *shape, dtype=dtype)
            dist.all_to_all_single(got, sent, taken, given)
            same(got, wanted)
            got = functional.all_to_all_single(sent, taken, given, dist.group.WORLD)
            same(functional.wait_tensor(got), wanted)


@ranks(2)
def test_every_type_from_and_to_one_rank_and_in_lists(rank, size):
    for dtype in DTYPES:
        tensor, n = of_rank(rank, 5, dtype), 5
        parts = [torch.zeros(n, dtype=dtype) for _ in range(size)]
        dist.gather(tensor, parts if rank == 1 else None, dst=1)
        for r in range(size):
            same(parts[r], of_rank(r, n, dtype) if rank == 1 else torch.zeros(n, dtype=dtype))
        output = torch.zeros(n, dtype=dtype)
        dist.scatter(output, [of_rank(r, n, dtype) for r in range(size)] if rank == 0 else None, 0)
        same(output, of_rank(rank, n, dtype))
        dist.all_to_all(parts, [of_rank(rank * size + r, n, dtype) for r in range(size)])
        for r in range(size):
            same(parts[r], of_rank(r * size + rank, n, dtype))


@ranks(2, 3)
def test_any_stride_in_every_call(rank, size):
    def columns(*values):
        """A column for each value, in row-major memory."""
        return torch.tensor([values] * 4, dtype=torch.float64).t()

    def blank(*shape):
        return torch.full((*shape, 2), -1.0, dtype=torch.float64)[..., 0]

    mine = columns(rank, 10 * rank)
    shared = mine.clone().t().contiguous().t()
    dist.broadcast(shared, 1)
    assert torch.equal(shared, columns(1, 10))
    parts = [blank(2, 4) for _ in range(size)]
    dist.all_gather(parts, mine)
    for r in range(size):
        assert torch.equal(parts[r], columns(r, 10 * r))
    flat = blank(2 * size, 4)
    dist.all_gather_into_tensor(flat, mine)
    assert torch.equal(flat, torch.cat(parts))
    gathered = [blank(2, 4) for _ in range(size)]
    dist.gather(mine, gathered if rank == 0 else None)
    assert rank != 0 or torch.equal(torch.cat(gathered), flat)
    part = blank(2, 4)
    dist.scatter(part, [columns(r, 10 * r) for r in range(size)] if rank == 0 else None)
    assert torch.equal(part, mine)
    got = blank(size, 4)
    dist.all_to_all_single(got, columns(*[10 * rank + r for r in range(size)]))
    assert torch.equal(got, columns(*[10 * r + rank for r in range(size)]))
    lists = [blank(1, 4) for _ in range(size)]
    dist.all_to_all(lists, [columns(10 * rank + r) for r in range(size)])
    assert torch.equal(torch.cat(lists), got)
    summed = blank(1, 4)
    dist.reduce_scatter(summed, [columns(r + 1) for r in range(size)])
    assert torch.equal(summed, columns(size * (rank + 1)))
    summed = blank(1, 4)
    dist.reduce_scatter_tensor(summed, columns(*range(size)))
    assert torch.equal(summed, columns(size * rank))
    total = mine.clone().t().contiguous().t()
    dist.reduce(total, 0)
    if rank == 0:
        assert torch.equal(total, columns(sum(range(size)), 10 * sum(range(size))))


@ranks(2)
def test_tensors_gathered_together(rank, size):
    lists = [[torch.empty(3), torch.empty(2)] for _ in range(size)]
    mine = [torch.full((3,), float(rank)), torch.tensor([rank, 2.0])]
    dist.all_gather_coalesced(lists, mine)
    assert lists[1][0].tolist() == [1, 1, 1] and lists[1][1].tolist() == [1, 2]


@ranks(3, hosts=(1, 2))
def test_gather_and_scatter(rank, size):
    for root in range(size):
        outputs = [torch.zeros(4) for _ in range(size)] if rank == root else None
        dist.gather(torch.full((4,), float(rank)), outputs, dst=root)
        if rank == root:
            assert [part[0].item() for part in outputs] == [0, 1, 2]
        inputs = [torch.full((4,), 10.0 * r) for r in range(size)] if rank == root else None
        output = torch.zeros(4, 2)[:, 0]
        dist.scatter(output, inputs, src=root)
        assert output.tolist() == [10.0 * rank] * 4


@ranks(2, 3, hosts=(1, 2))
def test_uneven_all_gather_and_all_to_all(rank, size):
    parts = [torch.empty(r + 1, 2) for r in range(size)]
    dist.all_gather(parts, torch.full((rank + 1, 2), float(rank)))
    for r in range(size):
        assert parts[r].tolist() == [[r, r]] * (r + 1)
    # Rank i sends j + 1 rows to rank j.
    rows = sum(range(1, size + 1))
    sent = torch.full((rows, 3), float(rank), dtype=torch.complex64)
    got = torch.empty((rank + 1) * size, 3, dtype=torch.complex64)
    dist.all_to_all_single(got, sent, [rank + 1] * size, [r + 1 for r in range(size)])
    for r in range(size):
        assert (got[r * (rank + 1) : (r + 1) * (rank + 1)] == r).all()
    outputs = [torch.empty(rank + 1) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((r + 1,), float(rank)) for r in range(size)])
    assert [part[0].item() for part in outputs] == list(range(size))
    # Empty parts are allowed.
    if size == 2:
        got = torch.empty(3 if rank else 0)
        dist.all_to_all_single(
            got,
            torch.ones(0 if rank else 3),
            [3, 0] if rank else [0, 0],
            [0, 0] if rank else [0, 3],
        )
        assert got.tolist() == [1] * len(got)


@ranks(2, 4, hosts=(1, 2))
def test_objects(rank, size):
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * 100 * rank})
    assert [each["rank"] for each in everything] == list(range(size))
    shared = [f"from {rank}", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == ["from 0", 0]
    gathered = [None] * size if rank == 1 else None
    dist.gather_object(rank * 2, gathered, dst=1)
    assert rank != 1 or gathered == [2 * r for r in range(size)]
    scattered = [None]
    dist.scatter_object_list(scattered, [f"to {r}" for r in range(size)] if rank == 0 else None, 0)
    assert scattered == [f"to {rank}"]
    if rank == 0:
        dist.send_object_list(["hello", 3], 1)
    if rank == 1:
        letters = [None, None]
        dist.recv_object_list(letters, 0)
        assert letters == ["hello", 3]


@ranks(2, hosts=(1, 2))
def test_coalescing(rank, size):
    tensors = [torch.full((n,), float(rank + 1)) for n in (1, 10, 1000)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert all((tensor == 3).all() for tensor in tensors)
    outputs = [torch.empty(2 * n) for n in (3, 4)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for n, output in zip((3, 4), outputs):
            dist.all_gather_into_tensor(output, torch.full((n,), float(rank)))
    manager.wait()
    assert outputs[0].tolist() == [0, 0, 0, 1, 1, 1]
    parts = [torch.empty(2), torch.empty(3)]
    with dist._coalescing_manager():
        for part in parts:
            dist.reduce_scatter_tensor(part, torch.ones(2 * len(part)))
    assert parts[1].tolist() == [2, 2, 2]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(tensors[0], 0)
        dist.isend(torch.full((1,), float(rank)), 1 - rank)
        dist.irecv(parts[0][:1], 1 - rank)
    manager.wait()
    assert parts[0][0] == 1 - rank
    dist.all_reduce_coalesced(tensors)


@ranks(2)
def test_wrong_sizes_are_named(rank, size):
    with pytest.raises(ValueError, match="3 outputs for 2 ranks"):
        dist.all_gather([torch.empty(1)] * 3, torch.empty(1))
    with pytest.raises(ValueError, match=r"splits \[1, 1\] do not add up to 3 rows"):
        dist.all_to_all_single(torch.empty(3), torch.empty(3), [1, 1], [1, 2])


@ranks(4)
def test_groups(rank, size):
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[rank // 2]
    tensor = torch.tensor([float(rank)])
    whole = torch.ones(1)
    works = [
        dist.all_reduce(tensor, group=mine, async_op=True),
        dist.all_reduce(whole, async_op=True),
    ]
    for work in works:
        work.wait()
    assert tensor.item() == [1, 1, 5, 5][rank] and whole.item() == 4
    subgroup, _ = dist.new_subgroups(2)
    assert dist.get_world_size(subgroup) == 2
    dist.barrier(subgroup)
    if rank // 2 == 0:
        dist.send(tensor, group=mine, group_dst=1 - rank) if rank == 0 else dist.recv(
            tensor, group=mine, group_src=0
        )
    dist.destroy_process_group(mine)
    dist.barrier()
