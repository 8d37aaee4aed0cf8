# SPDX-License-Identifier: Apache-2.0
"""Groups whose members change: torch.distributed._reconfigure (torch 2.15)."""

import inspect
import os
import random
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ranks import DEADLINE_SECONDS, FORK, free_port, run
from torch._C._distributed_c10d import ErrorType
from torch.nn.parallel import DistributedDataParallel

if "enable_reconfigure" not in inspect.signature(dist.init_process_group).parameters:
    pytest.skip("torch 2.15 or newer", allow_module_level=True)


class Member:
    """A process that can be a member of groups. The others can wait for what it reports."""

    def __init__(self, rank, size, path, seconds=DEADLINE_SECONDS):
        self.rank, self.size = rank, size
        self.store = dist.FileStore(path)
        self.store.set_timeout(timedelta(seconds=DEADLINE_SECONDS))
        dist.init_process_group(
            "rondo",
            store=self.store,
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=seconds),
            enable_reconfigure=True,
        )

    def handles(self, step, ranks):
        """Those of these processes, each of which calls this."""
        self.store.set(f"{step}/{self.rank}", dist._get_reconfigure_handle())
        return [self.store.get(f"{step}/{rank}").decode() for rank in ranks]

    def meet(self, uuid, ranks, step=None):
        """A group of these processes, with ranks by their positions."""
        dist._reconfigure(uuid, self.handles(step or uuid, ranks)).wait()
        assert (dist.get_rank(), dist.get_world_size()) == (ranks.index(self.rank), len(ranks))

    def report(self, what):
        self.store.set(what, "")

    def stay_until(self, what):
        self.store.wait([what], timedelta(seconds=DEADLINE_SECONDS))


def expect_sum():
    """All members contribute, by their new ranks."""
    size = dist.get_world_size()
    tensor = torch.full((5,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size * (size + 1) / 2] * 5


def members(size, seconds=DEADLINE_SECONDS):
    """Runs the body on `size` processes, each with a Member. Those that are killed may be."""

    def decorate(body):
        def test(tmp_path):
            def each(rank, size):
                body(Member(rank, size, str(tmp_path / "store"), seconds))
                dist.destroy_process_group()

            codes = run(each, size, group=False)
            assert set(codes) <= {0, -signal.SIGKILL} and 0 in codes

        test.__doc__ = body.__doc__
        return test

    return decorate


@members(3)
def test_before_the_first_one_there_is_no_group_and_the_error_names_the_call(member):
    assert dist._supports_reconfigure()
    for call in (
        lambda: dist.all_reduce(torch.ones(3)),
        lambda: dist.send(torch.ones(3), 1 - min(1, member.rank)),
        dist.barrier,
    ):
        with pytest.raises(dist.DistBackendError, match="has no members: call torch.*_reconfigure"):
            call()


@members(4)
def test_members_leave_come_back_and_change_their_ranks(member):
    for uuid, ranks in enumerate([[0, 1, 2, 3], [0, 1, 3], [3, 2], [2, 0, 1, 3], [1]]):
        if member.rank in ranks:
            member.meet(uuid, ranks)
            expect_sum()
            root = torch.full((2,), float(dist.get_rank()))
            dist.broadcast(root, group_src=len(ranks) - 1)
            assert root.tolist() == [len(ranks) - 1.0] * 2
        member.report(f"done {uuid}/{member.rank}")
        for rank in range(4):
            member.stay_until(f"done {uuid}/{rank}")


@members(4)
def test_two_groups_become_one_and_messages_work(member):
    half = [0, 1] if member.rank < 2 else [3, 2]
    member.meet(10 + member.rank // 2, half, f"half {member.rank // 2}")
    expect_sum()
    member.meet(12, [0, 1, 2, 3])
    after, received = (member.rank + 1) % 4, torch.zeros(3)
    pending = dist.isend(torch.full((3,), float(member.rank)), after)
    dist.recv(received, (member.rank - 1) % 4)
    pending.wait()
    assert received.tolist() == [float((member.rank - 1) % 4)] * 3


@members(3)
def test_survivors_of_a_killed_member_go_on_and_a_new_process_takes_its_place(member):
    member.meet(20, [0, 1, 2])
    expect_sum()
    if member.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match=r"rank 1 \(pid"):
        while True:
            dist.all_reduce(torch.ones(4))
    member.meet(21, [2, 0])
    expect_sum()


@members(3)
def test_a_call_that_waits_for_a_member_that_is_left_out_is_ended(member):
    """Rank 2 stays outside of the call; the others leave it behind."""
    member.meet(30, [0, 1, 2])
    if member.rank == 2:
        return member.stay_until("gone on")
    waits = dist.all_reduce(torch.ones(4), async_op=True)
    member.meet(31, [0, 1])
    expect_sum()
    with pytest.raises(dist.DistBackendError, match="rondo: .*abort"):
        waits.wait()
    member.report("gone on")


@members(2)
def test_after_abort_the_group_can_be_made_again(member):
    member.meet(40, [0, 1])
    backend = dist.get_backend_impl(None, torch.device("cpu"))
    backend.abort()
    assert backend.get_error() == ErrorType.SUCCESS
    with pytest.raises(dist.DistBackendError, match="has no members"):
        dist.all_reduce(torch.ones(1))
    member.meet(41, [0, 1])
    expect_sum()


@members(2)
def test_a_set_of_handles_gives_each_member_one_rank(member):
    dist._reconfigure(50, set(member.handles("set", [1, 0]))).wait()
    expect_sum()


@members(3)
def test_a_member_that_does_not_come_is_named_and_the_others_keep_their_group(member):
    member.meet(60, [0, 1, 2])
    handles = member.handles("later", [0, 1, 2])
    if member.rank < 2:
        with pytest.raises(dist.DistBackendError, match="1 of 3 ranks that did not join: 2;"):
            dist._reconfigure(61, handles, timeout=timedelta(seconds=1))
        member.report(f"missed {member.rank}")
    for rank in range(2):
        member.stay_until(f"missed {rank}")
    expect_sum()  # of the three, as before
    dist._reconfigure(62, handles).wait()
    expect_sum()


@members(2)
def test_handles_that_cannot_be_a_group_are_refused_with_the_reason(member):
    mine, other = handles = member.handles("right", [member.rank, 1 - member.rank])
    dist._reconfigure(70, sorted(handles)).wait()
    newer = other.replace(other.split()[1], "9.9.9", 1)
    for number, given, text in (
        (70, handles, "uuid 70 was already used"),
        (71, [other], "not among the 1 handles"),
        (72, [mine, mine], "ranks 0 and 1 are the same"),
        (73, ["0:1:localhost:29500", mine], "'0:1:localhost:29500' is no handle of backend 'ron"),
        (74, [mine, newer], r"rank 1 \(pid \d+ on .*\) has rondo 9.9.9, this process 0\.\d.*wheel"),
    ):
        with pytest.raises(dist.DistBackendError, match=text):
            dist._reconfigure(number, given)
    expect_sum()  # nothing has changed


PROGRAM = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo", enable_reconfigure=True)
rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
store.set(f"{rank}", dist._get_reconfigure_handle())
handles = [store.get(f"{other}").decode() for other in range(2)]
assert all(handle.startswith("rondo ") for handle in handles), handles
dist._reconfigure(1, handles[::-1]).wait()
tensor = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(tensor)
line = f"{dist.get_backend()} {rank} is {dist.get_rank()}, sum {tensor.item()}\\n"
os.write(1, line.encode())  # print() may write the newline apart, behind the other rank's text
dist.destroy_process_group()
"""


def test_a_program_that_names_gloo_is_served(tmp_path):
    program = tmp_path / "members.py"
    program.write_text(PROGRAM)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "-m", "rondo.torch.run", str(program)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["gloo 0 is 1, sum 3", "gloo 1 is 0, sum 3"]


def test_members_with_stores_of_their_own_meet_in_that_of_the_first(tmp_path):
    def body(rank, size):
        exchange = dist.FileStore(str(tmp_path / "exchange"))
        dist.init_process_group(
            "rondo",
            init_method=f"tcp://127.0.0.1:{free_port()}",
            rank=0,
            world_size=1,
            enable_reconfigure=True,
        )
        exchange.set(f"{rank}", dist._get_reconfigure_handle())
        handles = [exchange.get(f"{other}").decode() for other in range(size)]
        dist._reconfigure(80, handles).wait()
        expect_sum()
        dist.barrier()
        dist.destroy_process_group()
        exchange.add("left", 1)  # rank 0 serves the store
        while rank == 0 and exchange.add("left", 0) < size:
            pass

    assert run(body, 3, group=False) == [0, 0, 0]


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_a_training_survives_kills_and_its_members_agree(tmp_path, kills):
    """A new process takes the place of each that is killed, and gets the parameters."""
    import torch._dynamo  # noqa: F401  DistributedDataParallel needs it: once, not in each process

    places, steps, path = 3, 5, str(tmp_path / "store")
    generator = random.Random(kills)
    plan = [(generator.randrange(places), generator.randrange(steps)) for _ in range(kills)]

    def train(place, life, outcome):
        member = Member(place, places, path)
        torch.manual_seed(place)  # parameters differ until they are sent
        model = torch.nn.Linear(4, 1)
        for epoch in range(life, kills + 1):
            victim, last_step = plan[epoch] if epoch < kills else (None, None)
            survivor = 0 if epoch == 0 else (plan[epoch - 1][0] + 1) % places
            member.meet(100 + epoch, list(range(places)))
            for tensor in model.parameters():
                dist.broadcast(tensor.data, group_src=survivor)
            parallel = DistributedDataParallel(model, init_sync=False)
            try:
                for step in range(steps):
                    if (place, step) == (victim, last_step):
                        os.kill(os.getpid(), signal.SIGKILL)
                    parallel(torch.ones(2, 4) * (place + step)).sum().backward()
            except RuntimeError as error:
                assert f"rank {victim} " in str(error), error
            for tensor in model.parameters():
                if tensor.grad is not None:
                    tensor.data -= 0.01 * tensor.grad
                    tensor.grad = None
        total = torch.stack([tensor.sum() for tensor in model.parameters()]).sum()
        everything = [torch.zeros(()) for _ in range(places)]
        dist.all_gather(everything, total)
        outcome.put([value.item() for value in everything])
        dist.destroy_process_group()

    outcome = FORK.SimpleQueue()

    def start(place, life):
        process = FORK.Process(target=train, args=(place, life, outcome))
        process.start()
        return process

    running = [start(place, 0) for place in range(places)]
    for epoch, (victim, _) in enumerate(plan):
        running[victim].join(DEADLINE_SECONDS)
        assert running[victim].exitcode == -signal.SIGKILL
        running[victim] = start(victim, epoch + 1)
    for process in running:
        process.join(DEADLINE_SECONDS)
        assert process.exitcode == 0
    for _ in range(places):
        first, *others = outcome.get()
        assert others == [first] * (places - 1)
