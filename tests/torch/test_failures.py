# SPDX-License-Identifier: Apache-2.0
"""Errors name the rank and the call, within the limit; and processes always exit."""

import os
import pathlib
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import (
    DEADLINE_SECONDS,
    impatient_group,
    ranks,
    report,
    run,
    stay_until,
    with_enough_time,
)
from rondo.torch import process_group
from torch._C._distributed_c10d import ErrorType

PROGRAMS = pathlib.Path(__file__).parent / "programs"


@ranks(2)
def test_a_straggler_is_named_after_the_groups_timeout(rank, size):
    group = impatient_group(1)
    if rank == 1:
        return stay_until("named")
    with pytest.raises(dist.DistBackendError, match="waited 1 s for rank 1 .*AllReduce"):
        dist.all_reduce(torch.ones(4), group=group)
    report("named")


@ranks(2)
def test_every_kind_of_timeout_bounds_its_call(rank, size):
    if rank == 1:
        return stay_until("bounded")
    for limited in (
        lambda: dist.barrier(timeout=timedelta(seconds=0.5)),
        lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(timedelta(seconds=0.5)),
    ):
        with pytest.raises(dist.DistBackendError, match="rank 1|rank 0 waited"):
            limited()  # the group's limit is above that of this test
    report("bounded")


def test_torchs_timeouts_replace_rondos(tmp_path):
    def attempt(seconds):  # for both ranks to join, and for each call
        def body(rank, size):
            os.environ["RONDO_TIMEOUT"] = "0.2" if rank else "600"
            dist.init_process_group(
                "rondo", init_method=f"file://{tmp_path}/store-{seconds}", rank=rank,
                world_size=size, timeout=timedelta(seconds=seconds),
            )  # fmt: skip
            if rank == 0:
                time.sleep(0.7)  # longer than rank 1 would wait with RONDO_TIMEOUT
            dist.all_reduce(torch.ones(1))
            if rank == 1:
                return stay_until("named")
            with pytest.raises(dist.DistBackendError, match=f"waited {seconds} s for rank 1"):
                dist.all_reduce(torch.ones(1))
            report("named")

        assert run(body, 2, group=False) == [0, 0]

    with_enough_time(8, attempt)


@ranks(2)
def test_set_timeout(rank, size):
    dist.group.WORLD.set_timeout(timedelta(seconds=0.5))
    if rank == 1:
        return stay_until("named")
    with pytest.raises(dist.DistBackendError, match="waited 0.5 s for rank 1"):
        dist.broadcast(torch.ones(4), 1)
    report("named")


@ranks(2)
def test_another_collective_names_both_calls(rank, size):
    with pytest.raises(dist.DistBackendError, match="rank . called .* and rank . called"):
        if rank == 0:
            dist.all_reduce(torch.ones(4))
        else:
            dist.broadcast(torch.ones(4), 0)


@pytest.mark.parametrize("message", [False, True])
def test_a_killed_rank_is_named(message):
    def body(rank, size):
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if message:
            with pytest.raises(dist.DistBackendError, match="rank 1 .*ended.* receives .*16 bytes"):
                dist.recv(torch.ones(4), 1)
        else:
            with pytest.raises(dist.DistBackendError, match="rank 1 .*ended before .*AllReduce"):
                dist.all_reduce(torch.ones(4))
        assert dist.get_rank() == 0

    assert run(body, 2) == [0, -signal.SIGKILL]


def test_a_rank_killed_while_its_loader_workers_live():
    from torch.utils.data import DataLoader

    def body(rank, size):
        loader = iter(DataLoader(list(range(1000)), batch_size=2, num_workers=2))
        next(loader)
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(dist.DistBackendError, match="rank 1 .*ended before .*AllReduce"):
            dist.all_reduce(torch.ones(4))

    assert run(body, 2) == [0, -signal.SIGKILL]


PROGRAM = """
import sys, torch, torch.distributed as dist
import rondo.torch
rank = int(sys.argv[1])
dist.init_process_group("rondo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(20)]
if sys.argv[3] == "future":
    works[-1].get_future().then(lambda f: None)
if sys.argv[3] == "waited":
    for work in works: work.wait()
if sys.argv[3] == "message":
    dist.isend(torch.ones(1 << 20), 1 - rank)
    pending = dist.irecv(torch.ones(3), 1 - rank, tag=5)
"""


@pytest.mark.parametrize("how", ["waited", "not", "future", "message"])
def test_processes_exit_without_destroy_process_group(how, tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), f"{tmp_path}/store", how],
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, errors.decode()


@pytest.mark.parametrize("message", [False, True])
def test_forked_children_finish_what_they_have_queued(message, tmp_path):
    def body(rank, size):
        dist.init_process_group(
            "rondo", init_method=f"file://{tmp_path}/store", rank=rank, world_size=size
        )
        process_group.DRAIN_SECONDS = DEADLINE_SECONDS
        big = torch.ones(2 << 20)
        if rank == 0:  # leaves at once
            dist.isend(big, 1) if message else dist.all_reduce(big, async_op=True)
            return
        time.sleep(1)
        dist.recv(big, 0) if message else dist.all_reduce(big)
        assert (big == (1 if message else 2)).all()

    assert run(body, 2, group=False) == [0, 0]


def test_restart_by_torchrun_resumes_from_the_checkpoint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         "--max-restarts=1", PROGRAMS / "restarted.py", tmp_path / "checkpoint"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "rank 0 begins at step 0" in done.stdout
    assert "rank 0 begins at step 3" in done.stdout
    assert "rank 1 ends at step 6" in done.stdout


@ranks(2, hosts=(1, 2))
def test_abort_ends_what_runs_here_and_there(rank, size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        time.sleep(0.3)
        dist.distributed_c10d._abort_process_group()
        with pytest.raises(dist.DistBackendError, match="abort"):
            work.wait()
        store.set("aborted", "")
    else:
        stay_until("aborted")
        with pytest.raises(dist.DistBackendError, match="abort|rank 0"):
            for _ in range(2):  # the first may be satisfied by what rank 0 sent before it aborted
                dist.all_reduce(torch.ones(4))


def errors_of(group):
    """As the group says, and as its backend does."""
    return {group.get_error(), group._get_backend(torch.device("cpu")).get_error()}


@ranks(2, hosts=(1, 2))
def test_get_error_is_what_ended_the_group(rank, size):
    late, lost = impatient_group(1), dist.new_group([0, 1])
    assert errors_of(late) == errors_of(lost) == {ErrorType.SUCCESS}
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="waited 1 s for rank 1"):
            dist.all_reduce(torch.ones(4), group=late)
        assert errors_of(late) == {ErrorType.TIMEOUT}
    with pytest.raises(dist.DistBackendError, match="rank . called .* and rank . called"):
        dist.all_reduce(torch.ones(4 + rank), group=lost)
    assert errors_of(lost) == {ErrorType.COMM_ERROR}
    for group in (late, lost):
        group.abort()
        assert errors_of(group) == {ErrorType.SUCCESS}


def threads():
    return len(os.listdir("/proc/self/task"))


@ranks(2)
def test_aborted_groups_keep_no_threads(rank, size):
    counts = []
    for _ in range(12):
        group = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(1), group=group, async_op=True).wait()
        dist.barrier()
        group.abort()
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(1), group=group, async_op=True).wait()
        counts.append(threads())
    ends = time.monotonic() + DEADLINE_SECONDS / 2
    while threads() > max(counts[:4]):
        assert time.monotonic() < ends, counts
        time.sleep(0.01)


@ranks(3)
def test_shrink_group_after_a_rank_has_left(rank, size):
    if rank == 2:
        return
    survivors = dist.shrink_group([2])
    tensor = torch.tensor([rank + 1])
    dist.all_reduce(tensor, group=survivors)
    assert tensor.item() == 3 and dist.get_world_size() == 2


@ranks(2)
def test_monitored_barrier_and_split_group(rank, size):
    import rondo.torch as rondo_torch

    rondo_torch.monitored_barrier(timeout=timedelta(seconds=DEADLINE_SECONDS))
    mine = rondo_torch.split_group(split_ranks=[[0], [1]])
    assert mine.size() == 1
    both = rondo_torch.split_group(split_ranks=[[1, 0]])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=both)
    assert tensor.item() == 2
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="Rank 1 failed to pass monitoredBarrier"):
            rondo_torch.monitored_barrier(timeout=timedelta(seconds=0.5))
        with pytest.raises(dist.DistBackendError, match="Rank 0 timed out in monitoredBarrier"):
            dist.group.WORLD.monitored_barrier(timedelta(0))
    dist.barrier()


@ranks(3)
def test_all_ranks_that_miss_a_monitored_barrier_are_named(rank, size):
    import rondo.torch as rondo_torch

    limit = 0.5  # seconds; torch accepts it too
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="Ranks 1, 2 failed to pass"):
            rondo_torch.monitored_barrier(None, limit, wait_all_ranks=True)
    dist.barrier()
    pair = dist.new_group([0, 2])
    if rank == 2:
        with pytest.raises(dist.DistBackendError, match="Rank 1 successfully reached monitored"):
            rondo_torch.monitored_barrier(pair, limit)
    elif rank == 1:
        rondo_torch.monitored_barrier(pair, limit)  # outside of the group: no call
    dist.barrier()


@ranks(2)
def test_a_tensor_on_another_device_is_an_error_that_names_the_way(rank, size):
    with pytest.raises(RuntimeError, match="LD_PRELOAD"):
        dist.all_reduce(torch.ones(4, device="meta"))
