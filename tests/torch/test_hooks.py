# SPDX-License-Identifier: Apache-2.0
"""torch's hooks around calls, its flight recorder, and what it needs of a group from 2.14 on. Each
test looks up what it needs of torch, because releases add these things one by one."""

import inspect
import json
from datetime import timedelta
from importlib.metadata import entry_points

import pytest
import torch
import torch.distributed as dist
from ranks import (
    DEADLINE_SECONDS,
    free_port,
    impatient_group,
    ranks,
    report,
    run,
    stay_until,
)
from rondo.torch.hooks import HAS_CALL_HOOKS
from torch._C import _distributed_c10d as c10d

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


def needs(owner, name):
    return pytest.mark.skipif(not hasattr(owner, name), reason=f"this torch has no {name}")


needs_call_hooks = needs(dist.ProcessGroup, "register_pre_hook")
needs_recorder = needs(dist.distributed_c10d._world, "pg_flight_recorder_hooks")
CPU = torch.device("cpu")


def sum_of(value, **options):
    tensor = torch.full((4,), float(value))
    return tensor, dist.all_reduce(tensor, **options)


# ---- the flight recorder ----


def recorded():
    trace = json.loads(c10d._dump_fr_trace_json(backend="rondo"))
    return trace, [(e["profiling_name"], e["retired"]) for e in trace.get("entries", [])]


def calls(rank, size):
    """(torch's name of a call, the call)."""
    ones, parts = torch.ones(2), [torch.ones(2) for _ in range(size)]
    at_root = rank == 0
    return [
        ("all_reduce", lambda: dist.all_reduce(ones)),
        ("all_reduce", lambda: dist.all_reduce(ones, async_op=True).wait()),
        ("broadcast", lambda: dist.broadcast(ones, 0)),
        ("reduce", lambda: dist.reduce(ones, 0)),
        ("all_gather", lambda: dist.all_gather(parts, ones)),
        ("_all_gather_base", lambda: dist.all_gather_single(torch.ones(2 * size), ones)),
        ("gather", lambda: dist.gather(ones, parts if at_root else None, 0)),
        ("scatter", lambda: dist.scatter(ones, parts if at_root else None, 0)),
        ("reduce_scatter", lambda: dist.reduce_scatter(ones, parts)),
        ("_reduce_scatter_base", lambda: dist.reduce_scatter_single(ones, torch.ones(2 * size))),
        ("all_to_all", lambda: dist.all_to_all(parts, [ones] * size)),
        ("all_to_all_single", lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size))),
        ("barrier", lambda: dist.barrier()),
        (
            "send" if at_root else "recv",
            lambda: (dist.send if at_root else dist.recv)(ones, 1 - rank),
        ),
    ]


@needs_recorder
@ranks(2)
def test_the_flight_recorder_has_every_call_and_its_group(rank, size):
    for _, call in calls(rank, size):
        call()
    trace, entries = recorded()
    names = [name.partition(":")[2].partition(" ")[0] for name, _ in entries]
    assert all(name.startswith("rondo:") for name, _ in entries), entries
    assert len(names) == len(calls(rank, size)), names
    for (wanted, _), name in zip(calls(rank, size), names):
        assert (
            name.strip("_")
            .replace("alltoall_base", "all_to_all_single")
            .startswith(wanted.strip("_"))
            or name.replace("alltoall", "all_to_all") == wanted
        ), (wanted, name)
    assert all(retired for _, retired in entries), entries
    assert trace["pg_config"]["0"]["ranks"] == "[0, 1]"


@needs_recorder
@ranks(2)
def test_a_call_that_has_not_ended_is_open_in_the_flight_recorder(rank, size):
    group = impatient_group(1)
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="rank 1 .*not entered"):
            dist.all_reduce(torch.ones(3), group=group)
        newest = recorded()[1][-1]
        assert newest == ("rondo:all_reduce", False), newest
        report("received")
    else:
        stay_until("received")


@needs_recorder
@ranks(2)
def test_a_work_is_ours_whether_it_passes_hooks_or_not(rank, size):
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert type(work).__module__.startswith("rondo.")
    work.wait()
    assert work.is_completed() and work.result()[0].item() == 2


# ---- hooks of programs ----


@needs_call_hooks
@ranks(2)
def test_pre_and_post_hooks_run_around_every_call(rank, size):
    group, seen = dist.new_group([0, 1]), []
    group.register_pre_hook(7, lambda call: seen.append((call.name.name, call.op_id)))
    group.register_post_hook(7, lambda call: seen.append(("after", call.op_id)))
    sum_of(1, group=group)
    dist.broadcast(torch.ones(1), 0, group=group)
    parts = [torch.ones(size), torch.ones(2 * size)]
    with dist._coalescing_manager(group, async_ops=True) as manager:
        for part in parts:
            dist.reduce_scatter_single(torch.ones(part.numel() // size), part, group=group)
    manager.wait()
    names = [name for name, _ in seen]
    assert names[:-2] == ["ALLREDUCE", "after", "BROADCAST", "after"], names
    assert names[-2] in ("REDUCE_SCATTER_TENSOR_COALESCED", "REDUCE_SCATTER"), names  # 2.15, 2.14
    assert names[-1] == "after"
    assert [op for _, op in seen[::2]] == [op for _, op in seen[1::2]]
    group.unregister_pre_hook(7)
    group.unregister_post_hook(7)
    sum_of(1, group=group)
    assert len(seen) == 6


@ranks(2)
def test_abort_hooks_run_where_a_call_fails(rank, size):
    group, failed = impatient_group(1), []
    assert group.supports_abort_hooks
    group.register_abort_hook(1, lambda: failed.append("kept"))
    group.register_abort_hook(2, lambda: failed.append("removed"))
    group.unregister_abort_hook(2)
    if rank == 0:
        with pytest.raises(dist.DistBackendError):
            sum_of(1, group=group)
        assert failed == ["kept"]
        report("failed")
    else:
        stay_until("failed")
    group.abort()
    assert failed == ["kept"] * (2 - rank)


@ranks(2)
def test_the_completion_hook_has_every_call_that_succeeded(rank, size):
    group, done = dist.new_group([0, 1]), []
    group._register_on_completion_hook(done.append)
    sum_of(1, group=group)
    sum_of(2, group=group, async_op=True)[1].wait()
    dist.barrier(group)
    kinds = [info.op_type for info in done]
    assert kinds == [c10d.OpType.ALLREDUCE, c10d.OpType.ALLREDUCE, c10d.OpType.BARRIER]
    assert [info.seq for info in done] == [1, 2, 3]
    assert all(info.time_finished >= info.time_started for info in done)


# ---- functions ----


def test_torch_finds_the_backend_by_its_own_group_of_entry_points():
    found = [e for e in entry_points(group="torch.distributed.backends") if e.name == "rondo"]
    if not found:
        pytest.skip("the package is not installed")
    assert found[0].value == "rondo.autoload:register"
    found[0].load()()
    assert "RONDO" in dist.Backend._plugins


@ranks(3)
def test_gather_into_one_tensor(rank, size):
    for gather in ("gather_single", "gather_into_tensor"):
        if not hasattr(dist, gather):
            continue  # torch before 2.15
        flat = torch.zeros(size, 2) if rank == 1 else None
        getattr(dist, gather)(torch.full((2,), float(rank)), flat, dst=1)
        assert rank != 1 or flat.tolist() == [[0, 0], [1, 1], [2, 2]]
    opts = c10d.GatherOptions()
    opts.rootRank = 2
    flat = torch.zeros(size) if rank == 2 else torch.empty(0)
    dist.group.WORLD.gather_single(flat, torch.tensor([float(rank)]), opts).wait()
    assert rank != 2 or flat.tolist() == [0, 1, 2]
    if rank == 2:
        with pytest.raises(ValueError, match="gather of 1 x torch.float32 from 3 ranks into 5"):
            dist.group.WORLD.gather_single(torch.zeros(5), torch.zeros(1), opts)


@ranks(2)
def test_an_older_name_of_a_call_is_the_call(rank, size):
    group, opts = dist.group.WORLD, c10d.AllToAllOptions()
    out = torch.zeros(2)
    for name in ("alltoall_base", "all_to_all_single"):
        group_call = getattr(group, name)
        group_call(out, torch.full((2,), float(rank)), [], [], opts).wait()
        assert out.tolist() == [0, 1]


@ranks(2)
def test_the_timeout_of_a_group_is_that_of_its_calls(rank, size):
    group, limit = dist.new_group([0, 1]), timedelta(seconds=77)
    getattr(dist, "set_timeout", lambda t, g: g.set_timeout(t))(limit, group)
    assert group.seconds == 77
    work = sum_of(1, group=group, async_op=True)[1]
    assert work.timeout == limit
    work.wait()
    message = group.recv([torch.zeros(1)], 1 - rank, 5)
    group.send([torch.zeros(1)], 1 - rank, 5).wait()
    assert message.timeout == limit
    message.wait()


@needs(dist, "get_backend_impl")
@ranks(2)
def test_the_backend_behind_a_group(rank, size):
    backend = dist.get_backend_impl()
    assert isinstance(backend, c10d.Backend) and backend.name() == "rondo"
    assert not (backend.supports_splitting or backend.supports_shrinking)
    assert backend.size() == size and backend.seconds == dist.group.WORLD.seconds
    assert dist.get_backend_impl(device=CPU) is backend
    tensor = torch.ones(2)
    backend.allreduce([tensor]).wait()
    assert tensor.tolist() == [2, 2]


@pytest.mark.skipif(VERSION < (2, 15), reason="older torch binds groups to accelerators only")
def test_a_group_that_is_bound_to_the_cpu():
    port = free_port()

    def body(rank, size):
        store = dist.TCPStore("127.0.0.1", port, None, rank == 0, wait_for_workers=False)
        dist.init_process_group(
            "rondo", store=store, rank=rank, world_size=size, device_id=torch.device("cpu:0")
        )
        assert dist.group.WORLD.bound_device_id == torch.device("cpu:0")
        assert dist.get_backend_impl().name() == "rondo"
        assert sum_of(1)[0].tolist() == [2] * 4
        pair = dist.new_group([0, 1])  # torch would split it, if Rondo supported that
        assert sum_of(1, group=pair)[0].tolist() == [2] * 4
        dist.destroy_process_group()

    assert run(body, 2, group=False) == [0, 0]


@ranks(2)
def test_the_creator_takes_all_options_of_torch(rank, size):
    from rondo.autoload import create

    options = c10d._DistributedBackendOptions()
    options.store = dist.PrefixStore("made by hand", dist.group.WORLD.get_group_store())
    options.group_rank, options.group_size = rank, size
    options.timeout = timedelta(seconds=DEADLINE_SECONDS)
    options.group_id = "made by hand"
    options.global_ranks_in_group = [0, 1]
    if hasattr(options, "split_from"):
        options.process_group = dist.ProcessGroup(options.store, rank, size)
        options.process_group.bound_device_id = torch.device("cpu:0")
        options.split_from = dist.get_backend_impl()
    group = create(options, None)
    tensor = torch.ones(1)
    group.allreduce([tensor]).wait()
    assert tensor.item() == 2
    if hasattr(options, "split_from"):
        assert group.bound_device_id == torch.device("cpu:0")
    group.shutdown()


def test_older_torch_lacks_what_is_skipped_here():
    """Fails if a newer torch renames these functions, so that no test is skipped by mistake."""
    world = dist.distributed_c10d._world
    assert (VERSION >= (2, 14)) == hasattr(dist.ProcessGroup, "register_pre_hook")
    assert (VERSION >= (2, 14)) == HAS_CALL_HOOKS
    assert (VERSION >= (2, 15)) == hasattr(world, "pg_flight_recorder_hooks")
    assert (VERSION >= (2, 14)) == hasattr(dist, "get_backend_impl")
    assert inspect.isfunction(dist.monitored_barrier)
