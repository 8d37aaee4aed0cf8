# SPDX-License-Identifier: Apache-2.0
"""rondo ps names the rank that the others wait for in jobs on torch's own gloo, under rondo watch.

The ranks' results are gloo's, and a library that is not there leaves the job as it was.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import DEADLINE_SECONDS, run
from rondo import library
from rondo.torch import watch

# That of the wheel; or of a build, for work on the test itself.
RONDO = os.environ.get("COMMAND_UNDER_TEST") or shutil.which(
    "rondo", path=str(Path(sys.executable).parent)
)

pytestmark = pytest.mark.skipif(RONDO is None, reason="the wheel has no command rondo")


def gloo(rank, size, folder):
    watch.install()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/watched",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=DEADLINE_SECONDS),
    )


def shown():
    """What rondo ps says of this process."""
    words = [RONDO, "ps", str(os.getpid()), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def eventually(holds):
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end, shown()
        time.sleep(0.05)


def every_call(rank, size):
    """(name, result, expected) of each call of torch.distributed that gloo has."""
    mine = torch.arange(4.0) + rank
    total = sum(torch.arange(4.0) + r for r in range(size))
    each = [torch.arange(4.0) + r for r in range(size)]

    summed = mine.clone()
    dist.all_reduce(summed)
    yield "all_reduce", summed, total
    sent = mine.clone()
    dist.broadcast(sent, 1)
    yield "broadcast", sent, each[1]
    reduced = mine.clone()
    dist.reduce(reduced, 0)
    yield "reduce", reduced if rank == 0 else total, total
    lists = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(lists, mine)
    yield "all_gather", torch.cat(lists), torch.cat(each)
    flat = torch.zeros(4 * size)
    dist.all_gather_into_tensor(flat, mine)
    yield "all_gather_into_tensor", flat, torch.cat(each)
    gathered = [torch.zeros(4) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, gathered)
    yield "gather", torch.cat(gathered or each), torch.cat(each)
    part = torch.zeros(4)
    dist.scatter(part, each if rank == 0 else None)
    yield "scatter", part, each[rank]
    own = torch.zeros(4)
    dist.reduce_scatter_tensor(own, torch.cat([mine] * size))
    yield "reduce_scatter_tensor", own, total
    swapped = torch.zeros(4 * size)
    dist.all_to_all_single(swapped, torch.cat([mine] * size))
    yield "all_to_all_single", swapped, torch.cat(each)
    work = dist.all_reduce(part.fill_(1.0), async_op=True)
    work.wait()
    yield "an asynchronous all_reduce", part, torch.full((4,), float(size))
    dist.barrier()
    if rank == 0:
        dist.send(mine, 1)
    if rank == 1:
        dist.recv(part, 0)
        yield "recv", part, each[0]


def test_calls_have_the_results_of_gloo_and_are_recorded(tmp_path):
    def body(rank, size):
        gloo(rank, size, tmp_path)
        for name, result, expected in every_call(rank, size):
            torch.testing.assert_close(result, expected, msg=name)
        module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
        module(torch.full((2, 3), rank + 1.0)).sum().backward()
        mean = sum(r + 1.0 for r in range(size)) / size
        torch.testing.assert_close(module.module.weight.grad, torch.full((1, 3), 2 * mean))
        dist.barrier()
        communicator = shown()["communicators"][0]
        assert communicator["name"] == "default_pg" and communicator["size"] == size
        states = communicator["ranks_here"]
        assert len(states) == size
        # Eleven calls above, two barriers, and what DDP makes when it is built and in backward.
        assert all(state["call"] >= 14 for state in states), states

        def has_finished():
            own = shown()["communicators"][0]["ranks_here"][rank]
            return own["rank"] == rank and own["finished_call"] == own["call"]

        eventually(has_finished)
        dist.barrier()
        dist.destroy_process_group()

    assert run(body, 3, group=False) == [0, 0, 0]


def backward(rank):
    module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    loss = module(torch.ones(2, 3)).sum()
    yield
    loss.backward()


def call(make):
    def steps(rank):
        yield
        make(rank)

    return steps


HANGS = {
    "all_reduce": (call(lambda rank: dist.all_reduce(torch.ones(4))), "AllReduce(count 4"),
    "all_to_all": (
        call(lambda rank: dist.all_to_all_single(torch.ones(6), torch.ones(6))),
        "AlltoAll",
    ),
    "barrier": (call(lambda rank: dist.barrier()), "Barrier"),
    "backward of DDP": (backward, "AllReduce"),
}


@pytest.mark.parametrize("what", HANGS)
def test_the_rank_that_does_not_enter_a_call_is_named(what, tmp_path):
    make, text = HANGS[what]

    def body(rank, size):
        gloo(rank, size, tmp_path)
        store = dist.distributed_c10d._get_default_store()
        steps = make(rank)
        next(steps)
        if rank == 1:
            store.wait(["named"], timedelta(seconds=DEADLINE_SECONDS))
        asker = threading.Thread(target=wait_until_named, args=(store, text))
        if rank == 0:
            asker.start()
        for _ in steps:
            pass
        if rank == 0:
            asker.join()
        dist.barrier()
        dist.destroy_process_group()

    assert run(body, 3, group=False) == [0, 0, 0]


def wait_until_named(store, text):
    def is_named():
        blamed = shown()["blamed"]
        return [one["rank"] for one in blamed] == [1] and text in blamed[0]["text"]

    eventually(is_named)
    store.set("named", "")


def test_no_rank_waits_for_one_that_is_not_watched(tmp_path):
    def body(rank, size):
        if rank == 0:
            options = {"rank": rank, "world_size": size}
            dist.init_process_group("gloo", f"file://{tmp_path}/watched", **options)
        else:
            gloo(rank, size, tmp_path)
        total = torch.ones(4)
        dist.all_reduce(total)
        assert total.tolist() == [2.0] * 4
        dist.destroy_process_group()

    assert run(body, 2, group=False) == [0, 0]


def test_groups_with_other_backends_are_left_alone():
    assert watch.is_gloo_alone("gloo") and watch.is_gloo_alone("cpu:gloo")
    assert not watch.is_gloo_alone("cpu:gloo,cuda:nccl")
    assert not watch.is_gloo_alone("nccl") and not watch.is_gloo_alone("rondo")


def test_a_job_without_the_library_goes_on(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(
        "import torch, torch.distributed as dist\n"
        f"dist.init_process_group('gloo', init_method='file://{tmp_path}/store',"
        " rank=0, world_size=1)\n"
        "dist.all_reduce(torch.ones(1))\n"
        "print('went on')\n"
    )
    library_alone = tmp_path / "librondo.so.1"
    library_alone.symlink_to(library.path())
    environment = os.environ | {"RONDO_TORCH_WATCH": "1", "RONDO_LIBRARY": str(library_alone)}
    code = "import rondo.autoload as a; a.autoload(); exec(open(%r).read())" % str(program)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and "went on" in done.stdout, done.stderr
    assert "librondo-watch.so" in done.stderr
