# SPDX-License-Identifier: Apache-2.0
"""all_reduce, reduce and reduce_scatter: every type and operation, compared with torch in one
process."""

import itertools

import pytest
import torch
import torch.distributed as dist
from ranks import ranks
from torch.distributed import ReduceOp

INTEGERS = [
    torch.int8, torch.uint8, torch.int16, torch.uint16,
    torch.int32, torch.uint32, torch.int64, torch.uint64,
]  # fmt: skip
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NARROW = [torch.float8_e4m3fn, torch.float8_e5m2]
COUNTS = [1, 3, 1000, 40_000]
FOLDS = {
    ReduceOp.SUM: torch.Tensor.add,
    ReduceOp.PRODUCT: torch.Tensor.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}
BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def sample(rank, count, dtype):
    """Small whole numbers: sums and products of four of them are exact in every type."""
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randint(0, 4, (count,), generator=generator).to(dtype)


def expected(op, size, count, dtype):
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    parts = [sample(rank, count, dtype).to(wide) for rank in range(size)]
    if op == ReduceOp.AVG:
        total = sum(parts)
        mean = total / size if dtype.is_floating_point else total // size
        return mean.to(dtype)
    result = parts[0]
    for part in parts[1:]:
        result = FOLDS[op](result, part)
    return result.to(dtype)


def same(actual, wanted, dtype):
    if dtype.is_floating_point:
        torch.testing.assert_close(actual.double(), wanted.double(), rtol=2e-2, atol=1e-2)
    else:
        assert actual.tolist() == wanted.tolist()


@ranks(2, 3)
def test_every_type_and_operation(rank, size):
    for dtype, op, count in itertools.product(
        INTEGERS + FLOATS + NARROW, [*FOLDS, ReduceOp.AVG], COUNTS
    ):
        if op in BITWISE and dtype.is_floating_point:
            continue
        tensor = sample(rank, count, dtype)
        dist.all_reduce(tensor, op)
        same(tensor, expected(op, size, count, dtype), dtype)


@ranks(2, 3)
def test_reduce_and_reduce_scatter_of_every_type_and_operation(rank, size):
    for dtype, op, count in itertools.product(
        INTEGERS + FLOATS + NARROW, [*FOLDS, ReduceOp.AVG], (1, 700)
    ):
        if op in BITWISE and dtype.is_floating_point:
            continue
        tensor = sample(rank, count, dtype)
        dist.reduce(tensor, size - 1, op)
        wanted = (
            expected(op, size, count, dtype) if rank == size - 1 else sample(rank, count, dtype)
        )
        same(tensor, wanted, dtype)
        output = torch.empty(count, dtype=dtype)
        work = dist.reduce_scatter_tensor(
            output, sample(rank, count * size, dtype), op, async_op=True
        )
        work.wait()
        same(output, expected(op, size, count * size, dtype).chunk(size)[rank], dtype)


@ranks(2, 3)
def test_averages_of_integers_are_truncated_sums(rank, size):
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        tensor = torch.tensor([-3, -2, 5, 7 * rank - 4], dtype=dtype)
        wanted = [-3, -2, 5, int(sum(7 * r - 4 for r in range(size)) / size)]
        dist.all_reduce(tensor, ReduceOp.AVG)
        assert tensor.tolist() == wanted


@ranks(2)
def test_least_and_greatest_of_signed_and_unsigned(rank, size):
    for dtype in INTEGERS + FLOATS:
        signed = dtype.is_signed
        mine = torch.tensor([-1 if signed else 200, 1] if rank else [1, 0]).to(dtype)
        least, greatest = mine.clone(), mine.clone()
        dist.all_reduce(least, ReduceOp.MIN)
        dist.all_reduce(greatest, ReduceOp.MAX)
        if dtype == torch.int8 or dtype.is_signed:
            assert (least.tolist(), greatest.tolist()) == ([-1, 0], [1, 1])
        else:
            assert (least.tolist(), greatest.tolist()) == ([1, 0], [200, 1])


@ranks(2)
def test_bool_is_logical_and_never_holds_a_two(rank, size):
    mine = (
        torch.tensor([False, True, False, True]) if rank else torch.tensor([False] * 2 + [True] * 2)
    )
    either, both = [False, True, True, True], [False, False, False, True]
    for op, wanted in [
        (ReduceOp.SUM, either), (ReduceOp.MAX, either), (ReduceOp.BOR, either),
        (ReduceOp.PRODUCT, both), (ReduceOp.MIN, both), (ReduceOp.BAND, both),
        (ReduceOp.BXOR, [False, True, True, False]),
    ]:  # fmt: skip
        tensor = mine.clone()
        dist.all_reduce(tensor, op)
        assert tensor.tolist() == wanted
        assert tensor.view(torch.uint8).max() <= 1
    with pytest.raises(TypeError, match="AVG.*bool"):
        dist.all_reduce(mine, ReduceOp.AVG)


@ranks(2)
def test_what_has_no_meaning_is_refused_by_name(rank, size):
    with pytest.raises(TypeError, match="BXOR.*float32"):
        dist.all_reduce(torch.ones(4), ReduceOp.BXOR)
    with pytest.raises(TypeError, match="BAND.*bfloat16"):
        dist.reduce(torch.ones(4, dtype=torch.bfloat16), 0, ReduceOp.BAND)
    with pytest.raises((TypeError, ValueError), match="PRODUCT.*complex"):  # torch checks first
        dist.all_reduce(torch.ones(4, dtype=torch.complex64), ReduceOp.PRODUCT)
    with pytest.raises(TypeError, match="PREMUL_SUM.*int32"):
        dist.all_reduce(torch.ones(4, dtype=torch.int32), dist._make_nccl_premul_sum(0.5))


@ranks(2, 3)
def test_complex(rank, size):
    for dtype in (torch.complex64, torch.complex128):
        tensor = torch.full((5,), complex(rank + 1, -rank), dtype=dtype)
        dist.all_reduce(tensor)
        wanted = complex(sum(range(1, size + 1)), -sum(range(size)))
        assert tensor.tolist() == [wanted] * 5
        part = torch.empty(2, dtype=dtype)
        mine = [torch.full((2,), complex(r, rank), dtype=dtype) for r in range(size)]
        dist.reduce_scatter(part, mine)
        assert part.tolist() == [complex(size * rank, sum(range(size)))] * 2
        dist.reduce(part, 0)
        assert rank != 0 or part[0] == size * sum(range(size)) * (1 + 1j)
        tensor = torch.full((5,), complex(rank + 1, -rank), dtype=dtype)
        dist.all_reduce(tensor, ReduceOp.AVG)
        torch.testing.assert_close(tensor, torch.full((5,), wanted / size, dtype=dtype))


@ranks(2)
def test_pre_mul_sum(rank, size):
    half = dist._make_nccl_premul_sum(0.5)
    for dtype in FLOATS:
        tensor = torch.full((7,), float(rank + 1)).to(dtype)
        dist.all_reduce(tensor, half)
        assert tensor.tolist() == [1.5] * 7
        dist.all_reduce(tensor, half, async_op=True).wait()
        assert tensor.tolist() == [1.5] * 7
        part = torch.empty(3, dtype=dtype)
        dist.reduce_scatter_tensor(part, torch.full((6,), float(rank + 1)).to(dtype), half)
        assert part.tolist() == [1.5] * 3
        dist.reduce(part, 1, half)
        assert part.tolist() == [1.5] * 3


@ranks(2, 3, hosts=(1, 2))
def test_any_stride(rank, size):
    every_second = torch.ones(8)[::2]
    dist.all_reduce(every_second)
    assert every_second.tolist() == [size] * 4
    grid = torch.arange(12.0).reshape(3, 4)
    turned = grid.clone().t()
    dist.all_reduce(turned, async_op=True).wait()
    assert torch.equal(turned, grid.t() * size)


@ranks(3, hosts=(1, 2))
def test_reduce_reaches_the_root_alone(rank, size):
    for root in range(size):
        tensor = torch.full((9,), float(rank))
        dist.reduce(tensor, root)
        assert tensor.tolist() == [float(sum(range(size))) if rank == root else rank] * 9


@ranks(2, 3, hosts=(1, 2))
def test_reduce_scatter_list_single_and_uneven(rank, size):
    output = torch.empty(4)
    dist.reduce_scatter(output, [torch.full((4,), float(r + rank)) for r in range(size)])
    assert output.tolist() == [size * rank + sum(range(size))] * 4
    dist.reduce_scatter_tensor(output, torch.arange(4.0 * size), ReduceOp.AVG)
    assert output.tolist() == list(range(4 * rank, 4 * rank + 4))
    uneven = torch.empty(rank + 1, dtype=torch.int64)
    dist.reduce_scatter(uneven, [torch.full((r + 1,), r, dtype=torch.int64) for r in range(size)])
    assert uneven.tolist() == [rank * size] * (rank + 1)


@ranks(2)
def test_sparse(rank, size):
    tensor = torch.sparse_coo_tensor([[rank, 2]], [1.0, 10.0], (4,))
    dist.all_reduce(tensor)
    assert tensor.to_dense().tolist() == [1, 1, 20, 0]
    rows = torch.sparse_coo_tensor([[rank]], [[1.0, 2.0]], (2, 2))
    dist.all_reduce(rows, ReduceOp.AVG)
    assert rows.to_dense().tolist() == [[0.5, 1], [0.5, 1]]
    nothing = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (3,))
    dist.all_reduce(nothing)
    assert nothing.to_dense().tolist() == [0] * 3
    with pytest.raises(TypeError, match="sparse tensors can only be summed"):
        dist.all_reduce(tensor, ReduceOp.MAX)
