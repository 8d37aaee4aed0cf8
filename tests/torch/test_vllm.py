# SPDX-License-Identifier: Apache-2.0
"""rondo.vllm in the place of vLLM's CPU communicator; groups as vLLM's GroupCoordinator makes them:
for each list of ranks a group of gloo for the device and one for control."""

import inspect
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading

import pytest
import torch
import torch.distributed as dist
import vllm_interface  # before rondo.vllm: it stands in for vLLM
from ranks import DEADLINE_SECONDS, environment, free_port, run
from rondo import vllm as plugin
from rondo.vllm.communicator import RondoCommunicator
from rondo.vllm.peers import Peers
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase


def as_in_vllm(*sizes, hosts=(1, 2)):
    def decorate(function):
        @pytest.mark.parametrize("hosts", hosts)
        @pytest.mark.parametrize("size", sizes)
        def test(size, hosts):
            port = free_port()

            def body(rank, size):
                environment(rank, size, port)
                dist.init_process_group("gloo")
                function(rank, size)
                dist.barrier()  # rank 0 serves the store in which the other groups meet

            assert run(body, size, group=False, hosts=hosts) == [0] * size

        test.__name__ = function.__name__
        return test

    return decorate


def coordinate(lists_of_ranks, name, use_all2all=False):
    """This rank's communicator, and the group of gloo with the same ranks."""
    for ranks in lists_of_ranks:
        device_group = dist.new_group(ranks, backend="gloo")
        cpu_group = dist.new_group(ranks, backend="gloo")
        if dist.get_rank() in ranks:
            mine = (
                device_group,
                RondoCommunicator(
                    cpu_group=cpu_group,
                    device=torch.device("cpu"),
                    device_group=device_group,
                    unique_name=name,
                    use_all2all=use_all2all,
                ),
            )
    return mine


def grids(size):
    """Tensor-parallel and pipeline groups of a job of 2 or 4 ranks."""
    if size == 2:
        return [[0, 1]], [[0, 1]]
    return [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def numbers(*shape, dtype=torch.float32):
    """Different on each rank, and exact in every sum."""
    count = torch.Size(shape).numel()
    values = torch.arange(count).remainder(13).add(dist.get_rank() * 3 + 1)
    return values.reshape(shape).to(dtype)


def of_gloo(group, tensor):
    parts = [torch.empty_like(tensor) for _ in range(group.size())]
    dist.all_gather(parts, tensor, group=group)
    return parts


@as_in_vllm(2, 4)
def test_tensor_parallel_layers(rank, size):
    """All-reduce after a layer, all-gather and gather of logits, in groups of part of the ranks."""
    gloo, tp = coordinate(grids(size)[0], "tp:0")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for tokens in (1, 7, 600):
            mine = numbers(tokens, 96, dtype=dtype)
            expected = mine.clone()
            dist.all_reduce(expected, group=gloo)
            result = tp.all_reduce(tensor := mine.clone())
            assert result is tensor and torch.equal(result, expected)
            parts = of_gloo(gloo, mine)
            for dim in (0, 1, -1):
                assert torch.equal(tp.all_gather(mine, dim), torch.cat(parts, dim))
                gathered = tp.gather(mine, dst=1, dim=dim)
                assert (gathered is None) == (tp.rank_in_group != 1)
                assert gathered is None or torch.equal(gathered, torch.cat(parts, dim))
    turned = numbers(6, 8).t()
    assert torch.equal(tp.all_gather(turned, 0), torch.cat(of_gloo(gloo, turned.contiguous())))


@as_in_vllm(2, 4)
def test_reduce_scatter_and_broadcast(rank, size):
    gloo, tp = coordinate(grids(size)[0], "tp:0")
    mine = numbers(12, 4 * size)
    total = mine.clone()
    dist.all_reduce(total, group=gloo)
    for dim in (0, -1):
        expected = total.chunk(tp.world_size, dim)[tp.rank_in_group]
        assert torch.equal(tp.reduce_scatter(mine, dim), expected)
        assert torch.equal(tp.reduce_scatterv(mine, dim), expected)
    with pytest.raises(ValueError, match="13 rows of dimension 0 do not divide by 2 ranks"):
        tp.reduce_scatter(numbers(13, 2), 0)
    assert torch.equal(tp.broadcast(mine.clone(), 1), of_gloo(gloo, mine)[1])
    tp.destroy()


@as_in_vllm(2, 4)
def test_stages_of_a_pipeline(rank, size):
    _, pp = coordinate(grids(size)[1], "pp:0")
    assert pp.supports_tensor_dict
    hidden = torch.arange(5 * 64.0).reshape(5, 64).to(torch.bfloat16)
    large = torch.arange(3 << 20, dtype=torch.int32)  # beyond the eager limit
    values = {"hidden_states": hidden.t(), "none": torch.empty(0, 4), "step": 7, "large": large}
    if pp.rank_in_group == 0:
        pp.send_tensor_dict(values, 1)
        assert torch.equal(pp.recv(torch.Size([3]), torch.int64), torch.tensor([1, 2, 3]))
    else:
        came = pp.recv_tensor_dict(0)
        assert list(came) == list(values) and came["step"] == 7
        for key in ("hidden_states", "none", "large"):
            assert came[key].dtype == values[key].dtype and torch.equal(came[key], values[key])
        pp.send(torch.tensor([1, 2, 3]))


@pytest.mark.skipif(vllm_interface.INSTALLED, reason="vLLM's own manager needs an engine")
@as_in_vllm(2, 4)
def test_experts_of_unequal_ranks(rank, size):
    gloo, ep = coordinate([list(range(size))], "ep:0", use_all2all=True)
    sizes = [rank + 1 for rank in range(size)]
    manager = ep.all2all_manager
    manager.communicator, manager.sizes = ep, sizes
    hidden, weights, ids = numbers(rank + 1, 8), numbers(rank + 1, 2), numbers(rank + 1, 2).long()
    everyone = [torch.empty(n, 8) for n in sizes]
    dist.all_gather_object(objects := [None] * size, pickle.dumps((hidden, weights, ids)), gloo)
    everyone = [torch.cat(parts) for parts in zip(*map(pickle.loads, objects))]
    for came, expected in zip(ep.dispatch(hidden, weights, ids), everyone):
        assert torch.equal(came, expected)
    assert torch.equal(ep.dispatch_router_logits(hidden, weights)[1], everyone[1])
    computed = everyone[0] * (rank + 1)
    total = computed.clone()
    dist.all_reduce(total, group=gloo)
    assert torch.equal(ep.combine(computed), total.split(sizes)[rank])


@as_in_vllm(2, hosts=(1,))
def test_calls_in_a_compiled_graph(rank, size):
    """vLLM compiles with fullgraph: a call that torch cannot trace would be an error."""
    gloo, tp = coordinate([[0, 1]], "tp:0")

    def layer(x):
        y = tp.all_reduce(x * 2) + 1
        return tp.all_gather(y, -1), tp.reduce_scatter(y, 0)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for got, expected in zip(compiled(numbers(4, 6)), layer(numbers(4, 6))):
        assert torch.equal(got, expected)


def workers(size, hosts, body):
    """body(rank, its communicator) on processes with the names of vLLM's workers; exit codes."""
    port = free_port()

    def worker(rank, size):
        environment(rank, size, port)
        dist.init_process_group("gloo")
        _, tp = coordinate([list(range(size))], "tp:0")
        multiprocessing.current_process().name = f"VllmWorker-{rank}"
        dist.barrier()
        body(rank, tp)

    return run(worker, size, group=False, hosts=hosts)


def stay():
    """As a worker that waits for orders: only a signal ends it."""
    threading.Event().wait(DEADLINE_SECONDS)
    raise AssertionError("nothing has ended this process")


def test_a_fault_ends_a_worker_of_vllm(tmp_path):
    """Its signals come from rondo.vllm: vLLM itself would let it wait for orders without limit, and
    its shutdown, which SIGTERM starts, may not end."""

    def body(rank, tp):
        signal.signal(signal.SIGTERM, lambda *_: (tmp_path / f"{rank}").touch())
        with pytest.raises(dist.DistBackendError, match="rank . called .* and rank . called"):
            tp.all_reduce(torch.ones(rank + 4))
        stay()

    assert workers(2, 1, body) == [-signal.SIGKILL] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_while_no_call_runs_ends_the_other_workers(victim, hosts, tmp_path):
    def body(rank, tp):
        signal.signal(signal.SIGTERM, lambda *_: None)  # vLLM's shutdown does not end
        sys.stderr = open(tmp_path / f"{rank}", "w")
        tp.all_reduce(torch.ones(4))
        if rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        stay()

    assert workers(3, hosts, body) == [-signal.SIGKILL] * 3
    for rank in {0, 1, 2} - {victim}:
        (line,) = (tmp_path / f"{rank}").read_text().splitlines()
        assert re.match(rf"rondo: .*rank {victim} \(pid \d+ on ", line), line


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_rank_that_leaves_ends_no_other(hosts, tmp_path, monkeypatch):
    seen, ended = threading.Event(), Peers._ended
    monkeypatch.setattr(Peers, "_ended", lambda *given: (ended(*given), seen.set()))

    def body(rank, tp):
        sys.stderr = open(tmp_path / f"{rank}", "w")
        if rank == 1:
            tp.destroy()
            os._exit(0)
        assert seen.wait(DEADLINE_SECONDS)
        tp.destroy()
        os._exit(0)

    assert workers(2, hosts, body) == [0, 0]
    assert not any(path.read_text() for path in tmp_path.iterdir())


def parameters_of(function):
    """Names and defaults, without types."""
    return [(p.name, p.default, p.kind) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", vllm_interface.SIGNATURES)
def test_methods_take_what_vllm_passes(name):
    written = eval(f"lambda{vllm_interface.SIGNATURES[name][1:-1].replace('self', ' self', 1)}: 0")
    wanted, ours = parameters_of(written), parameters_of(getattr(RondoCommunicator, name))
    if name == "__init__":
        assert ours[-1][2] is inspect.Parameter.VAR_KEYWORD
        assert ours[:-1] == wanted[: len(ours) - 1]
    else:
        assert ours == wanted
    if vllm_interface.INSTALLED:
        from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

        assert parameters_of(getattr(CpuCommunicator, name)) == wanted


def test_no_other_public_method_of_vllms_class_stays_with_gloo():
    """Methods that this class inherits must not communicate, or be known to."""
    inherited = {
        name
        for name, value in vars(DeviceCommunicatorBase).items()
        if inspect.isfunction(value) and name not in vars(RondoCommunicator)
    }
    assert inherited <= {
        "checkpoint_prepare", "checkpoint_restore", "suspend", "resume",  # nothing to do
        "get_symmetric_memory_buffer", "allocate_combine_input",  # none
        "combine_into_output", "reduce_scatterv_into_output",  # by methods of this class
        "batch_isend_irecv",  # not supported on CPUs
    }  # fmt: skip


@pytest.fixture
def platform():
    from vllm.platforms import current_platform

    kind = type(current_platform)
    before = kind.__dict__["get_device_communicator_cls"]
    yield current_platform
    kind.get_device_communicator_cls = before


def test_registering_twice_is_registering_once(platform):
    plugin.register()
    plugin.register()
    assert platform.get_device_communicator_cls() == plugin.COMMUNICATOR
    module, _, name = plugin.COMMUNICATOR.rpartition(".")
    assert getattr(sys.modules[module], name) is RondoCommunicator


def test_other_platforms_keep_theirs(platform, monkeypatch):
    before = platform.get_device_communicator_cls()
    monkeypatch.setattr(type(platform), "is_cpu", lambda self: False)
    plugin.register()
    assert platform.get_device_communicator_cls() == before


WITHOUT_LIBRARY = """
import sys
sys.path.insert(0, {folder!r})
import vllm_interface
from vllm.platforms import current_platform
before = current_platform.get_device_communicator_cls()
from rondo.vllm import register
register()
assert current_platform.get_device_communicator_cls() == before
"""


def test_without_the_library_vllm_keeps_its_own():
    code = WITHOUT_LIBRARY.format(folder=os.path.dirname(__file__))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "RONDO_LIBRARY": "/nowhere"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("rondo")]
    assert len(lines) == 1 and "vLLM keeps its own communicator" in lines[0], done.stderr
    assert "cannot load /nowhere" in lines[0]
