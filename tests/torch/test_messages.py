# SPDX-License-Identifier: Apache-2.0
"""send, recv, isend, irecv, tags, any source, batches; and they do not block collectives."""

import os
import re
import tempfile
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import impatient_group, ranks

BEYOND_EAGER = 6 << 20  # bytes


@ranks(2, hosts=(1, 2))
def test_order_is_kept_per_peer_and_tag(rank, size):
    sizes = [0, 1, 1000, 100_000, 1 << 20]
    if rank == 0:
        for tag in (0, 5):
            for k, n in enumerate(sizes):
                dist.send(torch.full((n,), k, dtype=torch.int32), 1, tag=tag)
    else:
        for tag in (5, 0):  # tags match out of order
            for k, n in enumerate(sizes):
                tensor = torch.empty(n, dtype=torch.int32)
                dist.recv(tensor, 0, tag=tag)
                assert (tensor == k).all()


@ranks(2, hosts=(1, 2))
def test_both_send_first_then_receive(rank, size):
    mine = torch.full((1 << 18,), float(rank))
    theirs = torch.empty_like(mine)
    for _ in range(3):  # 1 MiB is buffered
        dist.send(mine, 1 - rank)
        dist.recv(theirs, 1 - rank)
        assert (theirs == 1 - rank).all()


@ranks(2, hosts=(1, 2))
def test_what_send_buffers_is_four_mebibytes(rank, size):
    mine = torch.full((4 << 20,), rank, dtype=torch.uint8)
    theirs = torch.empty_like(mine)
    dist.send(mine, 1 - rank)
    mine.fill_(7)  # the message has been sent with the old value
    dist.recv(theirs, 1 - rank)
    assert (theirs == 1 - rank).all()


@ranks(2, group=False)
def test_what_send_buffers_is_an_option(rank, size):
    os.environ["RONDO_EAGER_BYTES"] = "1000"
    store = f"file://{tempfile.gettempdir()}/rondo-eager-{os.getppid()}"
    dist.init_process_group("rondo", init_method=store, rank=rank, world_size=size)
    theirs = torch.empty(250)
    dist.send(torch.zeros(250), 1 - rank)
    dist.recv(theirs, 1 - rank)
    both_wait_in_send(rank, 251)
    dist.destroy_process_group()


def both_wait_in_send(rank, count):
    """Again with longer times, while the other rank of a busy machine is late."""
    for seconds in (3, 12, 48, 120):
        group = impatient_group(seconds)
        with pytest.raises(dist.DistBackendError) as error:
            dist.send(torch.zeros(count), 1 - rank, group=group)
        named = f"rank {rank} waited {seconds} s to send .* to rank {1 - rank} .*"
        is_named = re.search(named + "each waits for the other", str(error.value)) is not None
        both = torch.tensor([int(is_named)])
        dist.all_reduce(both)  # and the other rank does not see this one leave
        if both.item() == 2:
            return
    pytest.fail(f"rank {rank}: {error.value}")


@ranks(2, hosts=(1, 2))
def test_two_sends_beyond_it_that_wait_for_each_other_name_both(rank, size):
    both_wait_in_send(rank, BEYOND_EAGER)


@ranks(2, hosts=(1, 2))
def test_a_send_beyond_it_waits_for_its_receiver(rank, size):
    big = torch.zeros(BEYOND_EAGER // 4)
    if rank == 0:
        sent = dist.isend(big + 1, 1)
        time.sleep(0.2)
        assert not sent.is_completed()
    dist.barrier()
    if rank == 0:
        sent.wait()
        assert sent.is_completed()
    else:
        dist.recv(big, 0)
        assert (big == 1).all()


@ranks(2, hosts=(1, 2))
def test_large_messages_both_ways_with_isend(rank, size):
    mine = torch.full((BEYOND_EAGER // 4,), float(rank))
    theirs = torch.empty_like(mine)
    sent = dist.isend(mine, 1 - rank, tag=3)
    dist.recv(theirs, 1 - rank, tag=3)
    sent.wait()
    assert (theirs == 1 - rank).all()


@ranks(3, hosts=(1, 2))
def test_any_source(rank, size):
    if rank > 0:
        dist.send(torch.tensor([rank]), 0, tag=9)
        return
    seen = set()
    for _ in range(size - 1):
        tensor = torch.zeros(1, dtype=torch.int64)
        source = dist.recv(tensor, tag=9)
        assert source == tensor.item()
        seen.add(source)
    assert seen == {1, 2}


@ranks(3)
def test_irecv_from_any_source(rank, size):
    if rank > 0:
        return dist.isend(torch.tensor([rank]), 0).wait()
    tensors = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
    works = [dist.irecv(tensor) for tensor in tensors]
    for work, tensor in zip(works, tensors):
        work.wait()
        assert work.is_completed() and work._source_rank() == tensor.item()
    assert {tensor.item() for tensor in tensors} == {1, 2}


@ranks(2, hosts=(1, 2))
def test_a_receive_that_waits_holds_up_no_collective(rank, size):
    late = torch.zeros(4)
    work = dist.irecv(late, 1 - rank, tag=1)
    assert not work.is_completed()
    total = torch.ones(1000)
    dist.all_reduce(total)
    assert total[0] == 2
    dist.isend(torch.full((4,), float(rank)), 1 - rank, tag=1).wait()
    work.wait()
    assert work.is_completed() and late.tolist() == [1.0 - rank] * 4


@ranks(2, hosts=(1, 2))
def test_a_large_send_and_a_collective_pass_each_other(rank, size):
    big = torch.zeros(BEYOND_EAGER // 4)
    if rank == 0:
        work = dist.isend(torch.ones_like(big), 1)
    total = torch.ones(1)
    dist.all_reduce(total)
    if rank == 0:
        work.wait()
    else:
        dist.recv(big, 0)
        assert (big == 1).all()


@ranks(4, hosts=(1, 2))
def test_ring_of_batches(rank, size):
    for _ in range(5):
        out, back = torch.full((300,), float(rank)), torch.empty(300)
        operations = [
            dist.P2POp(dist.isend, out, (rank + 1) % size),
            dist.P2POp(dist.irecv, back, (rank - 1) % size),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert (back == (rank - 1) % size).all()


@ranks(2, hosts=(1, 2))
def test_any_type_and_stride(rank, size):
    columns = torch.arange(12.0).reshape(3, 4)
    if rank == 0:
        dist.send(columns.t(), 1)
        dist.send(torch.tensor([1 + 2j, 3j]), 1)
        dist.send(torch.tensor([True, False]), 1)
    else:
        target = torch.zeros(8, 3)[::2]
        dist.recv(target, 0)
        assert torch.equal(target, columns.t())
        numbers = torch.zeros(2, dtype=torch.complex64)
        dist.recv(numbers, 0)
        assert numbers.tolist() == [1 + 2j, 3j]
        truth = torch.zeros(2, dtype=torch.bool)
        dist.recv(truth, 0)
        assert truth.tolist() == [True, False]


@ranks(2, hosts=(1, 2))
def test_different_sizes_name_both(rank, size):
    if rank == 0:
        dist.send(torch.zeros(3), 1, tag=4)
        with pytest.raises(dist.DistBackendError, match="sends .* which receives 4"):
            dist.isend(torch.zeros(BEYOND_EAGER // 4), 1, tag=4).wait()
    else:
        for _ in range(2):
            with pytest.raises(
                dist.DistBackendError, match="receives .*4 bytes .*rank 0, which sent"
            ):
                dist.recv(torch.zeros(1), 0, tag=4)


@ranks(2, hosts=(1, 2))
def test_wait_with_a_timeout_names_what_has_come(rank, size):
    if rank == 0:
        dist.send(torch.zeros(3), 1, tag=8)
    else:
        come = None
        end = time.monotonic() + 300
        while come is None:  # send() does not wait until its bytes have arrived
            work = dist.irecv(torch.zeros(3), 0, tag=7)
            with pytest.raises(dist.DistBackendError, match="tag 7 from rank 0") as error:
                work.wait(timedelta(seconds=0.3))
            come = re.search("tag 7 from rank 0.*12 bytes with tag 8", str(error.value))
            assert come or time.monotonic() < end, error.value
        dist.recv(torch.zeros(3), 0, tag=8)
    dist.barrier()
