# SPDX-License-Identifier: Apache-2.0
"""Calls in torch.profiler: events named after the backend, with shapes, as with gloo."""

import time
import warnings

import pytest
import torch
import torch.distributed as dist
from models import perceptron
from ranks import ranks
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

warnings.simplefilter("ignore")  # of names that torch renames


def recorded(call, seconds_after=0):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        work = call()
        for one in work if isinstance(work, list) else [work]:
            if isinstance(one, dist.Work):
                one.wait()
        time.sleep(seconds_after)
    return profiler.events()


def calls_in(events, backend):
    """(name without the backend, shapes) of each call."""
    mine = [event for event in events if event.name.startswith(f"{backend}:")]
    assert all(event.is_async and event.count == 1 for event in mine)
    return [(event.name.partition(":")[2], event.input_shapes) for event in mine]


def ones(*shape):
    return torch.ones(*shape)


def parts(size):
    return [ones(3, 4) for _ in range(size)]


def coalesced(function, arguments, group):
    with dist._coalescing_manager(group, async_ops=True) as manager:
        for tensors in arguments:
            function(*tensors, group=group)
    manager.wait()


def collectives(rank, size, group, options):
    at_root = rank == 0
    return {
        "all_reduce": lambda: dist.all_reduce(ones(3, 4), **options),
        "broadcast": lambda: dist.broadcast(ones(3, 4), 0, **options),
        "reduce": lambda: dist.reduce(ones(5), 0, **options),
        "all_gather": lambda: dist.all_gather(parts(size), ones(3, 4), **options),
        "all_gather_into": lambda: dist.all_gather_into_tensor(
            ones(3 * size, 4), ones(3, 4), **options
        ),
        "gather": lambda: dist.gather(ones(3, 4), parts(size) if at_root else None, 0, **options),
        "scatter": lambda: dist.scatter(ones(3, 4), parts(size) if at_root else None, 0, **options),
        "all_to_all": lambda: dist.all_to_all(parts(size), parts(size), **options),
        "all_to_all_single": lambda: dist.all_to_all_single(ones(12), ones(12), **options),
        "barrier": lambda: dist.barrier(**options),
        "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([ones(3), ones(2)], **options),
    }


def others(rank, size, group):
    """Calls without async_op, or that are always asynchronous."""
    peer, options = 1 - rank, {"group": group}
    send_or_receive = dist.send if rank == 0 else dist.recv
    later = dist.isend if rank == 0 else dist.irecv
    batch = [dist.P2POp(op, ones(3), peer, group) for op in (dist.isend, dist.irecv)]
    mine, all_of_them = {"of": rank}, [None] * size
    return {
        "sparse": lambda: dist.all_reduce(ones(3).to_sparse(), **options),
        "send": lambda: send_or_receive(ones(3, 4), peer, **options),
        "isend": lambda: later(ones(3, 4), peer, **options),
        "from any": lambda: (
            dist.send(ones(2), peer, **options) if rank == 0 else dist.recv(ones(2), **options)
        ),
        "batch": lambda: dist.batch_isend_irecv(batch),
        "all_gather_object": lambda: dist.all_gather_object(all_of_them, mine, **options),
        "gather_object": lambda: dist.gather_object(
            mine, all_of_them if rank == 0 else None, **options
        ),
        "broadcast_object_list": lambda: dist.broadcast_object_list([mine], **options),
        "scatter_object_list": lambda: dist.scatter_object_list([None], [mine] * size, **options),
        "many all_reduce": lambda: coalesced(
            dist.all_reduce, [(ones(k + 1),) for k in range(3)], group
        ),
        "many all_gather": lambda: coalesced(
            dist.all_gather_into_tensor, [(ones((k + 1) * size), ones(k + 1)) for k in range(3)],
            group,
        ),
    }  # fmt: skip


def agreed(value):
    """True if it is true on all ranks."""
    yes = torch.tensor([bool(value)])
    dist.all_reduce(yes, dist.ReduceOp.PRODUCT)
    return yes.item()


# gloo wakes waiting threads before it ends the event. A profile that ends first loses the event,
# and one that ends at the same time may fail in PyTorch itself.
SECONDS_AFTER = [0.1, 0.3, 1, 3, 10, 60]


def calls_of_gloo(call, seconds_after):
    try:
        return calls_in(recorded(call, seconds_after), "gloo")
    except RuntimeError as error:
        if "AppendOnlyList" not in str(error):
            raise
        return None


@ranks(2)
def test_events_are_those_of_gloo(rank, size):
    def table(group):
        options = [{"group": group, "async_op": on} for on in (False, True)]
        pairs = [pair for o in options for pair in collectives(rank, size, group, o).items()]
        return [*pairs, *others(rank, size, group).items()]

    of_gloo, world = table(dist.new_group(backend="gloo")), table(dist.group.WORLD)
    for (name, on_gloo), (_, on_rondo) in zip(of_gloo, world, strict=True):
        ours = calls_in(recorded(on_rondo), "rondo")
        for seconds in SECONDS_AFTER:
            theirs = calls_of_gloo(on_gloo, seconds)
            if agreed(ours == theirs):
                break
        assert ours and ours == theirs, name


@ranks(2)
def test_what_gloo_has_under_other_names(rank, size):
    """In gloo a reduce_scatter is several all_reduce calls."""
    events = recorded(lambda: dist.reduce_scatter(ones(3, 4), parts(size)))
    assert calls_in(events, "rondo") == [("reduce_scatter", [[3, 4]] * size)]
    events = recorded(lambda: dist.reduce_scatter_tensor(ones(3), ones(3 * size)))
    assert calls_in(events, "rondo") == [("reduce_scatter", [[3 * size]])]
    several = [(ones(k + 1), ones((k + 1) * size)) for k in range(2)]
    events = recorded(lambda: coalesced(dist.reduce_scatter_tensor, several, None))
    assert calls_in(events, "rondo") == [("reduce_scatter", [[size], [2 * size]])]


@ranks(2)
def test_words_of_nccl_where_the_script_asked_for_nccl(rank, size):
    dist.group.WORLD.profiled_as = "nccl"
    several = [(ones((k + 1) * size), ones(k + 1)) for k in range(2)]
    calls = {
        "_all_gather_base": lambda: dist.all_gather_into_tensor(ones(size), ones(1)),
        "_reduce_scatter_base": lambda: dist.reduce_scatter_tensor(ones(1), ones(size)),
        "all_gather_into_tensor_coalesced": lambda: coalesced(
            dist.all_gather_into_tensor, several, None
        ),
        f"{'send' if rank == 0 else 'recv'} {rank}{'<-' if rank else '->'}{1 - rank}": lambda: (
            dist.send(ones(1), 1) if rank == 0 else dist.recv(ones(1), 0)
        ),
        "all_reduce": lambda: dist.all_reduce(ones(1)),
    }
    for name, call in calls.items():
        assert [seen for seen, _ in calls_in(recorded(call), "nccl")] == [name]


@ranks(2)
def test_an_event_ends_when_its_call_does(rank, size):
    store = dist.distributed_c10d._get_default_store()

    def body():
        if rank == 1:
            store.wait(["released"])
            return dist.all_reduce(ones(4))
        work = dist.all_reduce(ones(4), async_op=True)
        with record_function("released"):
            store.set("released", "")
        while not work.is_completed():
            time.sleep(0.001)
        with record_function("seen"):
            return work

    events = {event.name: event.time_range for event in recorded(body)}
    if rank == 0:
        call = events["rondo:all_reduce"]
        assert call.start <= events["released"].start <= call.end <= events["seen"].start


@ranks(2)
def test_futures_and_events_of_one_call(rank, size):
    def body():
        works = [dist.all_reduce(ones(2), async_op=True) for _ in range(20)]
        values = [work.get_future().then(lambda f: f.value()[0].sum()).wait() for work in works]
        assert [value.item() for value in values] == [4] * 20
        for work in works:
            assert work.get_future().wait()[0].tolist() == [2, 2]

    assert calls_in(recorded(body), "rondo") == [("all_reduce", [[2]])] * 20


@ranks(2)
def test_data_parallel_in_a_profile(rank, size):
    model = DistributedDataParallel(perceptron())
    numbers = sum(p.numel() for p in model.parameters())
    events = recorded(lambda: model(ones(4, 6)).sum().backward())
    assert calls_in(events, "rondo") == [("all_reduce", [[numbers]])]


@ranks(2)
def test_a_refused_call_leaves_the_profile_whole(rank, size):
    def body():
        with pytest.raises(ValueError):
            dist.all_gather_into_tensor(ones(1), ones(3))
        dist.all_reduce(ones(3))

    names = [name for name, _ in calls_in(recorded(body), "rondo")]
    assert names == ["all_gather", "all_reduce"]


@ranks(2)
def test_as_torch_counts_them_in_its_own_tests(rank, size):
    with torch.autograd.profiler.profile(record_shapes=True) as profiler:
        for work in [dist.all_reduce(ones(2, 2), async_op=True) for _ in range(2)]:
            work.wait()
    mine = [e for e in profiler.function_events if e.name.startswith("rondo:all_reduce")]
    assert len(mine) == 2
    assert all(e.is_async and e.count == 1 and e.input_shapes == [[2, 2]] for e in mine)


@ranks(2)
def test_no_event_without_a_profiler(rank, size):
    before = recorded(lambda: None)
    dist.all_reduce(ones(1))
    assert not calls_in(before, "rondo") and not calls_in(recorded(lambda: None), "rondo")
