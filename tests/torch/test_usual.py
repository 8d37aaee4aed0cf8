# SPDX-License-Identifier: Apache-2.0
"""Usual calls, which reach the library without Python in between: results, errors, and which calls
are not usual. The general path is the reference."""

import functools
import threading

import pytest
import torch
import torch.distributed as dist
from ranks import impatient_group, ranks, report, stay_until
from torch._C import _distributed_c10d as c10d

usual_calls = pytest.importorskip(
    "rondo.torch.usual_calls", reason="this copy of the package has no C module"
)
Op = dist.ReduceOp


def options(kind, op=Op.SUM, is_async=False):
    made = kind()
    made.asyncOp = is_async
    if hasattr(made, "reduceOp"):
        made.reduceOp = op
    return made


def all_reduce(tensors, op=Op.SUM, is_async=False):
    """None if the call is not usual."""
    group = dist.group.WORLD
    return usual_calls.all_reduce(
        group._comm,
        group._stream,
        group._issuing,
        tensors,
        options(dist.AllreduceOptions, op, is_async),
    )


class Tagged(torch.Tensor):
    pass


@ranks(1)
def test_only_dense_cpu_tensors_with_built_in_operations_are_usual(rank, size):
    whole = torch.ones(4, 4)
    assert all_reduce([whole]) == all_reduce([torch.nn.Parameter(whole)]) == 0
    assert all_reduce([torch.ones(4, dtype=torch.uint16)], Op.MAX) == 0
    for tensors, op in (
        ([whole.t()[::2]], Op.SUM),
        ([whole.to_sparse()], Op.SUM),
        ([whole.to_sparse_csr()], Op.SUM),
        ([whole.to("meta")], Op.SUM),
        ([whole.to(torch.complex64)], Op.SUM),
        ([whole.bool()], Op.SUM),
        ([whole.as_subclass(Tagged)], Op.SUM),
        ([whole.int()], Op.BXOR),
        ([whole], c10d._make_nccl_premul_sum(2.0)),
        ([whole, whole], Op.SUM),
        ([], Op.SUM),
        ([3], Op.SUM),
        ((whole,), Op.SUM),
    ):
        assert all_reduce(tensors, op) is None, (tensors, op)
    assert usual_calls.all_reduce() is None
    assert whole.tolist() == torch.ones(4, 4).tolist()


def both_ways(call, make):
    """The results of a call as a usual one, and on the general path."""
    group = dist.group.WORLD
    for is_plain in (True, False):
        group.is_plain = is_plain
        for is_async in (False, True):
            tensors = make()
            work = call(*tensors, async_op=is_async)
            if is_async:
                work.wait()
                assert work.is_success() and work.exception() is None
            yield tensors
    group._see_if_plain()


TYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int16,
    torch.uint8, torch.bool, torch.complex64,
)  # fmt: skip


@ranks(2, 3)
def test_a_usual_call_has_the_results_of_the_general_path(rank, size):
    dist.all_reduce(torch.ones(1), async_op=True).wait()  # makes the stream

    def numbers(count, dtype):
        return (torch.arange(count) % 5 + rank).to(dtype)

    for dtype in TYPES:
        for call, make in (
            (dist.all_reduce, lambda: [numbers(6, dtype)]),
            (functools.partial(dist.broadcast, src=1), lambda: [numbers(5, dtype)]),
            (
                dist.all_gather_into_tensor,
                lambda: [torch.zeros(3 * size, dtype=dtype), numbers(3, dtype)],
            ),
            (
                dist.reduce_scatter_tensor,
                lambda: [torch.zeros(3, dtype=dtype), numbers(3 * size, dtype)],
            ),
            (
                dist.all_to_all_single,
                lambda: [torch.zeros(2 * size, dtype=dtype), numbers(2 * size, dtype)],
            ),
        ):
            first, *others = both_ways(call, make)
            assert first[0].any()
            for other in others:
                assert [t.tolist() for t in other] == [t.tolist() for t in first], (dtype, call)


@ranks(2)
def test_wrong_sizes_and_operations_have_the_errors_of_the_general_path(rank, size):
    ones = torch.ones
    for call, text in (
        (lambda: dist.all_gather_into_tensor(ones(5), ones(2)), "all_gather of 2 x torch.float32"),
        (lambda: dist.reduce_scatter_tensor(ones(2), ones(5)), "reduce_scatter of 5 x"),
        (lambda: dist.all_to_all_single(ones(3), ones(3)), "is not divisible by 2 ranks"),
        (lambda: dist.all_to_all_single(ones(2), ones(4)), "4 elements into 2"),
        (lambda: dist.all_reduce(ones(2), Op.BXOR), "BXOR is not defined for torch.float32"),
        (lambda: dist.all_reduce(ones(2, device="meta")), "this tensor is on meta"),
    ):
        with pytest.raises(Exception, match=text):
            call()
    dist.barrier()


@ranks(2)
def test_a_usual_call_fails_with_the_error_of_the_library(rank, size):
    group = impatient_group(1)
    if rank == 1:
        return stay_until("raised")
    aborts = []
    group.register_abort_hook(1, lambda: aborts.append(1))
    with pytest.raises(dist.DistBackendError, match="rondo: rank 0 waited 1 s for rank 1"):
        dist.all_reduce(torch.ones(4), group=group)
    assert aborts == [1]
    group._comm, comm = None, group._comm
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(4), group=group)
    group._comm = comm
    report("raised")


@ranks(2)
def test_threads_may_issue_and_wait_at_the_same_time(rank, size):
    groups = [dist.new_group() for _ in range(3)]
    wrong = []

    def calls(group, base):
        for k in range(100):
            one, two = torch.full((3,), float(base)), torch.full((3,), float(k))
            works = [dist.all_reduce(t, group=group, async_op=True) for t in (one, two)]
            dist.all_reduce(two, group=group)
            works[k % 2].wait()
            works[1 - k % 2].wait()
            if one.tolist() != [2.0 * base] * 3 or two.tolist() != [4.0 * k] * 3:
                wrong.append((one, two))

    threads = [threading.Thread(target=calls, args=(g, b)) for b, g in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- memory that peers access in place ----


def is_shared(tensor):
    """True if other processes can map the tensor's memory."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights = line.split()[:2]
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= tensor.data_ptr() < last:
                return rights.endswith("s")
    return False


@ranks(2)
def test_the_allocator_gives_memory_that_peers_can_access(rank, size):
    group, cpu, count = dist.group.WORLD, torch.device("cpu"), 1 << 18
    backend = group._get_backend(cpu)
    assert backend.supports_tensor_alloc(cpu)
    assert not backend.supports_tensor_alloc(torch.device("meta"))
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        tensor = backend.allocate_tensor(count, dtype=dtype, device=cpu)
        assert is_shared(tensor) and not is_shared(torch.empty(count, dtype=dtype))
        assert tensor.shape == (count,) and tensor.dtype == dtype
        tensor.fill_(rank + 1)
        dist.all_reduce(tensor)
        assert tensor.unique().tolist() == [3]


@ranks(1)
def test_memory_is_used_again_and_no_more_is_kept_than_was_in_use(rank, size):
    from rondo.torch import memory

    first = memory.shared_tensor(5000, torch.float32)
    place, part = first.data_ptr(), first[10:20]
    del first
    second = memory.shared_tensor(5000, torch.float32)
    assert second.data_ptr() != place  # `part` still needs it
    del part
    assert memory.shared_tensor(5000, torch.int32).data_ptr() == place
    pool = memory._pool
    for pages in range(1, 50):
        memory.shared_tensor(4096 * pages, torch.uint8)
        assert pool._used + sum(pool._free.values()) <= pool._max_used
    assert memory.shared_tensor(3, torch.bfloat16).dtype == torch.bfloat16
    assert memory.shared_tensor(0, torch.int64).shape == (0,)
