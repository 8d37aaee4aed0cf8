# SPDX-License-Identifier: Apache-2.0
"""How ranks meet in torch's store: who does not come, joins twice or differs is named by all."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import DEADLINE_SECONDS, FORK, environment, free_port, run, with_enough_time
from rondo.torch import meeting
from rondo.torch.library import check, lib
from rondo.torch.meeting import Meeting


def test_the_store_keeps_no_ticket():
    port = free_port()

    def body(rank, size):
        store = dist.TCPStore("127.0.0.1", port, None, rank == 0, wait_for_workers=False)
        limit = timedelta(seconds=DEADLINE_SECONDS)
        comm = Meeting(store, rank, size, limit).meet()
        if rank == 0:  # it removes the ticket before it returns
            assert store.check(["rondo/0/2/1/all"]) and not store.check(["rondo/0/2/1/ticket"])
            store.set("looked", "1")
            store.wait(["seen"], limit)  # the store ends with this process
        else:
            store.wait(["looked"], limit)
            store.set("seen", "1")
        check(lib.ncclCommDestroy(comm))

    assert run(body, 2, group=False) == [0, 0]


def test_two_world_sizes_are_both_named():
    port = free_port()

    def body(rank, size):
        environment(rank, size, port)
        store = dist.TCPStore("127.0.0.1", port, None, rank == 0, wait_for_workers=False)
        with pytest.raises(dist.DistBackendError, match="world size: .*2.*3|world size: .*3.*2"):
            dist.init_process_group(
                "rondo", store=store, rank=rank, world_size=2 + rank,
                timeout=timedelta(seconds=DEADLINE_SECONDS),
            )  # fmt: skip
        if rank == 1:
            store.set("named", "")
        else:  # the store ends with this process
            store.wait(["named"], timedelta(seconds=DEADLINE_SECONDS))

    assert run(body, 2, group=False) == [0, 0]


def end_both_ranks(sizes, seconds, named, stay_here=lambda: None):
    """Ranks that join with these world sizes fail with the texts `named`."""
    port = free_port()

    def body(rank, size):
        with pytest.raises(dist.DistError, match=named[rank]):
            dist.init_process_group(
                "rondo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=sizes[rank],
                timeout=timedelta(seconds=seconds),
            )  # fmt: skip
        stay_here()

    assert run(body, 2, group=False) == [0, 0]


def test_world_sizes_that_differ_end_both_ranks():
    both = FORK.Barrier(2)  # the store ends with rank 0
    named = "world size: .*2.*3|world size: .*3.*2"
    end_both_ranks((2, 3), DEADLINE_SECONDS, (named, named), lambda: both.wait(DEADLINE_SECONDS))


def test_a_world_size_of_rank_0_that_is_larger_ends_both_ranks():
    """torch's own store waits for the clients of rank 0's world, and names their number."""
    named = ("2/3 clients", "world size of 2|lost the rendezvous store")
    with_enough_time(8, lambda seconds: end_both_ranks((3, 2), seconds, named))


def test_a_rank_that_joins_twice_is_named_by_both(tmp_path):
    def body(rank, size):
        with pytest.raises(dist.DistBackendError, match="rank 0 joined twice: pid .* and pid"):
            dist.init_process_group(
                "rondo", init_method=f"file://{tmp_path}/store", rank=0, world_size=2,
                timeout=timedelta(seconds=DEADLINE_SECONDS),
            )  # fmt: skip

    assert run(body, 2, group=False) == [0, 0]


def test_ranks_that_do_not_come_are_named(tmp_path):
    def body(rank, size):
        with pytest.raises(dist.DistBackendError, match="1 of 2 ranks that did not join: 1"):
            dist.init_process_group(
                "rondo", init_method=f"file://{tmp_path}/store", rank=0, world_size=2,
                timeout=timedelta(seconds=1),
            )  # fmt: skip

    assert run(body, 1, group=False) == [0]


def test_a_master_that_is_not_there_is_named():
    port = free_port()

    def body(rank, size):
        with pytest.raises(dist.DistError, match=f"127.0.0.1.*{port}|{port}"):
            dist.init_process_group(
                "rondo", init_method=f"tcp://127.0.0.1:{port}", rank=1, world_size=2,
                timeout=timedelta(seconds=2),
            )  # fmt: skip

    assert run(body, 1, group=False) == [0]


def test_a_master_that_dies_while_others_wait_is_named():
    port = free_port()

    def body(rank, size):
        if rank == 0:
            store = dist.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False)
            while store.num_keys() < 5:  # until rank 1 is registered and waits
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(dist.DistBackendError, match="lost the rendezvous store.*MASTER_ADDR"):
            dist.init_process_group(
                "rondo", init_method=f"tcp://127.0.0.1:{port}", rank=1, world_size=3,
                timeout=timedelta(seconds=DEADLINE_SECONDS),
            )  # fmt: skip

    assert run(body, 2, group=False) == [-signal.SIGKILL, 0]


@pytest.mark.parametrize("method", ["tcp", "store"])
def test_other_ways_to_meet(method):
    port = free_port()

    def body(rank, size):
        if method == "tcp":
            dist.init_process_group(
                "rondo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
            )
        else:
            store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
            dist.init_process_group("rondo", store=store, rank=rank, world_size=size)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size
        dist.destroy_process_group()

    assert run(body, 2, group=False) == [0, 0]


@pytest.mark.parametrize("newer", [0, 1])
def test_two_versions_are_named_by_all_ranks(newer, tmp_path, monkeypatch):
    """One of three ranks has another wheel; rank 0 may be that one."""

    def body(rank, size):
        if rank == newer:
            monkeypatch.setattr(meeting, "version", lambda: "9.9.9")
        one = r"\d+\.\d+\.\d+ for rank \d \(pid \d+ on [^ ]+\)"
        text = f"different versions of rondo: {one}, {one}; install the same wheel on all hosts"
        with pytest.raises(dist.DistBackendError, match=text) as caught:
            dist.init_process_group(
                "rondo", init_method=f"file://{tmp_path}/store", rank=rank, world_size=size,
                timeout=timedelta(seconds=DEADLINE_SECONDS),
            )  # fmt: skip
        assert f"9.9.9 for rank {newer} (" in str(caught.value)
        assert f"{lib.rondoGetVersion().decode()} for rank " in str(caught.value)

    assert run(body, 3, group=False) == [0, 0, 0]
