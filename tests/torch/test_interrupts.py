# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a call that cannot end by itself, with KeyboardInterrupt."""

import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import DEADLINE_SECONDS, FORK, run

CALLS = {
    "a usual call": lambda group: dist.all_reduce(torch.ones(4), group=group),
    "a call with split sizes": lambda group: dist.all_to_all_single(
        torch.ones(2), torch.ones(2), [1, 1], [1, 1], group=group
    ),
    "barrier": lambda group: dist.barrier(group),
    "recv": lambda group: dist.recv(torch.ones(4), 1, group=group),
    "wait": lambda group: dist.all_reduce(torch.ones(4), group=group, async_op=True).wait(),
}


@pytest.mark.parametrize("name, hosts", [("a usual call", 2), *((name, 1) for name in CALLS)])
def test_ctrl_c_ends_a_call(name, hosts):
    begins, over, pid = FORK.Event(), FORK.Event(), FORK.Value("i", 0)

    def body(rank, size):
        group = dist.new_group([0, 1])
        if rank == 0:
            pid.value = os.getpid()
        dist.barrier(group)
        if rank == 0:
            with pytest.raises(KeyboardInterrupt):
                begins.set()
                CALLS[name](group)
            over.set()
            group.abort()
        else:
            assert begins.wait(DEADLINE_SECONDS)
            time.sleep(1)  # then rank 0 is in its call, if it has run since
            os.kill(pid.value, signal.SIGINT)
            assert over.wait(DEADLINE_SECONDS)
            with pytest.raises(dist.DistBackendError, match="abort|rank 0"):
                for _ in range(2):  # the first may be satisfied by what rank 0 sent before
                    dist.all_reduce(torch.ones(4), group=group)
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == 2  # other groups go on

    assert run(body, 2, hosts=hosts) == [0, 0]


def test_a_handler_of_the_program_aborts_nothing():
    seen = FORK.Event()

    def body(rank, size):
        if rank == 0:
            signal.signal(signal.SIGINT, lambda *_: seen.set())
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            time.sleep(3)  # longer than the time after which a call is aborted
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == 2
        if rank == 0:
            end = time.monotonic() + DEADLINE_SECONDS
            while not seen.is_set() and time.monotonic() < end:
                time.sleep(0.05)
            assert seen.is_set()
        dist.barrier()

    assert run(body, 2) == [0, 0]
