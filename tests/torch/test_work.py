# SPDX-License-Identifier: Apache-2.0
"""Works and Futures that calls return, their errors, and callbacks that make calls themselves."""

import gc
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import impatient_group, ranks, report, run, stay_until, with_enough_time


def summed(number, **options):
    tensor = torch.full((100,), float(number))
    return tensor, dist.all_reduce(tensor, **options)


@ranks(2, 3)
def test_a_callback_may_wait_for_calls_of_its_own(rank, size):
    def next_step(future):
        before = future.value()[0] if isinstance(future.value(), list) else future.value()
        blocking, _ = summed(rank)
        queued, work = summed(before[0].item(), async_op=True)
        work.wait()
        assert blocking[0] == sum(range(size))
        return queued

    for _ in range(10):
        future = summed(1, async_op=True)[1].get_future()
        for _ in range(3):
            future = future.then(next_step)
        assert future.wait().tolist() == [size**4] * 100


@ranks(2, 3)
def test_callbacks_in_callbacks_may_wait_too(rank, size):
    def nested(depth):
        def callback(future):
            if depth == 0:
                return summed(future.value()[0][0].item())[0]
            inner = summed(depth, async_op=True)[1].get_future()
            return inner.then(nested(depth - 1)).wait()

        return callback

    work = summed(0, async_op=True)[1]
    total = work.get_future().then(nested(3)).wait()
    assert total.tolist() == [size**2] * 100  # the innermost sum, summed once more


@ranks(2)
def test_only_finished_works_are_forgotten(rank, size):
    """A callback makes a call while its rank makes the next one: both forget finished works, and
    the next call must still find the one whose callback runs."""
    group = dist.group.WORLD

    class Fake:
        chained = False

        def __init__(self, over, meanwhile=lambda: None):
            self.over, self.meanwhile = over, meanwhile

        def is_over(self):
            self.meanwhile, meanwhile = lambda: None, self.meanwhile
            meanwhile()
            return self.over

        is_completed = is_over

    running = Fake(False)
    group._unfinished.extend([Fake(True, group._forget_finished), Fake(True), running])
    group._forget_finished()
    assert list(group._unfinished) == [running]
    group._unfinished.clear()


@ranks(2)
def test_nobody_has_to_keep_a_work(rank, size):
    tensors = [summed(rank + k, async_op=True)[0] for k in range(50)]
    gc.collect()
    dist.barrier()  # runs after them, in the order of calls
    assert [tensor[0].item() for tensor in tensors] == [2 * k + 1 for k in range(50)]


@ranks(2)
def test_results_are_there_when_is_completed_is_true(rank, size):
    every_second = torch.ones(2000)[::2]  # not dense, so it is copied back at the end
    work = dist.all_reduce(every_second, async_op=True)
    end = time.monotonic() + 300
    while not work.is_completed():
        assert time.monotonic() < end
        time.sleep(0.001)
    assert work.is_success() and every_second.tolist() == [2] * 1000
    future = dist.all_reduce(every_second, async_op=True).get_future()
    assert future.wait()[0].tolist() == [4] * 1000 and every_second.tolist() == [4] * 1000
    assert dist.all_reduce(every_second, async_op=True).result()[0] is every_second


@ranks(2)
def test_errors_are_raised_by_wait_and_by_the_future(rank, size):
    group = impatient_group(1)
    if rank == 1:
        return stay_until("raised")
    work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
    future = work.get_future()
    for _ in range(2):
        with pytest.raises(dist.DistBackendError, match="waited 1 s for rank 1"):
            work.wait()
    with pytest.raises(Exception, match="waited 1 s for rank 1"):
        future.wait()
    assert work.is_completed() and not work.is_success()
    assert isinstance(work.exception(), dist.DistBackendError)
    report("raised")


def test_the_timeout_of_a_barrier_ends_with_it():
    def attempt(seconds):  # for the barrier
        def body(rank, size):
            dist.barrier()
            dist.barrier(timeout=timedelta(seconds=seconds))
            if rank == 1:
                time.sleep(2.5 * seconds)
            total = torch.ones(1)
            dist.all_reduce(total)
            assert total.item() == 2

        assert run(body, 2) == [0, 0]

    with_enough_time(2, attempt)


def test_the_timeout_of_a_wait_ends_with_its_call():
    def attempt(seconds):  # for the wait
        def body(rank, size):
            dist.barrier()
            if rank == 1:
                stay_until("expired")
            total = torch.ones(1)
            work = dist.all_reduce(total, async_op=True)
            if rank == 0:
                work._expire(seconds)  # as wait() does, whose call may still move data
                report("expired")
            work.wait()
            if rank == 1:
                time.sleep(2.5 * seconds)
            dist.all_reduce(total)
            assert total.item() == 4

        assert run(body, 2) == [0, 0]

    with_enough_time(2, attempt)
