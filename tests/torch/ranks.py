# SPDX-License-Identifier: Apache-2.0
"""Ranks for tests: forked processes that each make a process group, and report errors.

    @ranks(2)
    def test_sum(rank, size):
        dist.all_reduce(...)

Every rank has a group of backend "rondo" unless group=False, and a deadline. With hosts=(1, 2) the
test runs twice, the second time as if the ranks were on two hosts.
"""

import functools
import itertools
import os
import pathlib
import socket
import sys
import tempfile
from datetime import timedelta

import pytest
import rondo.torch  # noqa: F401  where the package is not installed
import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import forked

torch.set_num_threads(1)  # forked children may not use a pool of their parent
FORK = forked.FORK
DEADLINE_SECONDS = 300  # for busy machines
PATIENCE_SECONDS = float(os.environ.get("RONDO_TEST_PATIENCE", "60"))


_turns = itertools.count()


def free_port() -> int:
    """A free port outside the kernel's ephemeral range: no connection that another program opens
    can take it before its use, and no rank that connects early connects to itself."""
    for turn in _turns:
        port = 15000 + (os.getpid() * 37 + turn) % 15000
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port


def serve(function, rank, size, folder, group, hosts):
    if hosts > 1:
        os.environ["NCCL_HOSTID"] = f"host{rank % hosts}"
    if group:
        dist.init_process_group(
            "rondo", init_method=f"file://{folder}/store", rank=rank, world_size=size
        )
    function(rank, size)
    if group and dist.is_initialized():
        dist.destroy_process_group()


def run(function, size, group=True, deadline=DEADLINE_SECONDS, hosts=1):
    """Runs function(rank, size) on forked ranks and returns their exit codes; fails with the errors
    of ranks, soon after the first one."""
    with tempfile.TemporaryDirectory() as folder:
        return forked.run(
            lambda rank: serve(function, rank, size, folder, group, hosts), size, deadline
        )


def ranks(*sizes, group=True, deadline=DEADLINE_SECONDS, hosts=(1,)):
    def decorate(function):
        @pytest.mark.parametrize("hosts", hosts)
        @pytest.mark.parametrize("size", sizes)
        @functools.wraps(function)
        def test(size, hosts):
            codes = run(function, size, group, deadline, hosts)
            assert codes == [0] * size

        del test.__wrapped__  # pytest would look for fixtures named rank and size
        return test

    return decorate


def with_enough_time(seconds, attempt):
    """Calls attempt(seconds), again with longer times while it fails: on a busy machine not only
    the rank that the test holds up is late."""
    while True:
        try:
            return attempt(seconds)
        except (AssertionError, pytest.fail.Exception):
            if seconds > PATIENCE_SECONDS:
                raise
            seconds *= 4


def environment(rank, size, port):
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )


def impatient_group(seconds, size=2):
    """A group whose calls time out after this time; creating it may take longer."""
    group = dist.new_group(list(range(size)))
    dist.barrier(group)
    group.set_timeout(timedelta(seconds=seconds))
    return group


def report(what):
    dist.distributed_c10d._get_default_store().set(what, "")


def stay_until(what):
    """Waits until another rank reports it."""
    limit = timedelta(seconds=DEADLINE_SECONDS)
    dist.distributed_c10d._get_default_store().wait([what], limit)
