"""FSDP, meshes, DTensor, tensor parallel, functional and autograd collectives, checkpoints."""

import math
import os
import tempfile

import pytest
import torch
import torch.distributed as dist
from models import Transformer, pair_loss, pairs, perceptron, sentence_loss, sentences, share, train
from ranks import ranks, run
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 3


def mean_over_ranks(losses):
    tensor = torch.tensor(losses)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return tensor


@ranks(2, 4)
def test_fully_shard_has_the_losses_of_ddp(rank, size):
    batches = [share(sentences(), rank, size)] * STEPS
    ddp = mean_over_ranks(train(DDP(Transformer()), batches, sentence_loss))
    mesh = init_device_mesh("cpu", (size,))
    model = Transformer()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    sharded = mean_over_ranks(train(model, batches, sentence_loss))
    torch.testing.assert_close(sharded, ddp)


@ranks(2)
def test_fully_shard_with_a_bf16_policy(rank, size):
    batches = [share(sentences(), rank, size)] * STEPS
    ddp = mean_over_ranks(train(DDP(Transformer()), batches, sentence_loss))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = Transformer()
    for layer in model.layers:
        fully_shard(layer, mesh=init_device_mesh("cpu", (size,)), mp_policy=policy)
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)), mp_policy=policy)
    sharded = mean_over_ranks(train(model, batches, sentence_loss))
    torch.testing.assert_close(sharded, ddp, rtol=2e-2, atol=2e-2)


@ranks(4)
def test_mesh_of_two_dimensions(rank, size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    total = torch.tensor([float(rank)])
    dist.all_reduce(total, group=mesh.get_group("rows"))
    assert total.item() == [2, 4, 2, 4][rank]
    model = Transformer()
    fully_shard(model, mesh=mesh)  # replicas of shards
    losses = train(model, [share(sentences(), rank, size)] * STEPS, sentence_loss)
    alone = train(Transformer(), [sentences()] * STEPS, sentence_loss)
    torch.testing.assert_close(mean_over_ranks(losses), torch.tensor(alone))


@ranks(2)
def test_dtensor_redistribute(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    full = torch.arange(24.0).reshape(6, 4)
    rows = distribute_tensor(full, mesh, [Shard(0)])
    assert rows.to_local().shape == (3, 4)
    columns = rows.redistribute(mesh, [Shard(1)])
    assert torch.equal(columns.to_local(), full.chunk(2, dim=1)[rank])
    assert torch.equal(columns.redistribute(mesh, [Replicate()]).to_local(), full)
    turned = distribute_tensor(full.t().contiguous(), mesh, [Replicate()])
    torch.testing.assert_close((rows @ turned).full_tensor(), full @ full.t())
    summed = torch.distributed.tensor.DTensor.from_local(full, mesh, [Partial()])
    assert torch.equal(summed.redistribute(mesh, [Shard(0)]).full_tensor(), full * 2)


@ranks(2)
def test_tensor_parallel(rank, size):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (size,))
    model = parallelize_module(perceptron(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x), perceptron()(x))


@ranks(2)
def test_functional_and_autograd_collectives(rank, size):
    import torch.distributed._functional_collectives as functional
    import torch.distributed.nn.functional as autograd

    tensor = torch.full((4,), float(rank))
    group = dist.group.WORLD
    assert functional.all_reduce(tensor, "sum", group).tolist() == [1] * 4
    assert functional.all_gather_tensor(tensor, 0, group).tolist() == [0] * 4 + [1] * 4
    assert functional.reduce_scatter_tensor(tensor, "avg", 0, group).tolist() == [0.5] * 2
    assert functional.all_to_all_single(tensor, None, None, group).tolist() == [0, 0, 1, 1]
    assert functional.broadcast(tensor, 1, group).tolist() == [1] * 4
    x = torch.ones(3, requires_grad=True)
    (autograd.all_reduce(x) * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [3] * 3


@ranks(2, deadline=150)
def test_compile_to_a_graph(rank, size):
    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x):
        dist.all_reduce(x)
        return x * 2

    assert step(torch.ones(3)).tolist() == [4] * 3


def compiled_here(folder):
    """For torch.compile in forked ranks: a cache of this test, and no compiling processes."""
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


@pytest.mark.slow
def test_compile_to_machine_code(tmp_path):
    def body(rank, size):
        compiled_here(f"{tmp_path}/{rank}")

        @torch.compile(fullgraph=True)
        def step(x, parts):
            y = x.sin() + 1
            dist.all_reduce(y)
            dist.all_gather_into_tensor(parts, y * 2)
            return parts.sum() + y

        x = torch.full((4,), float(rank))
        wanted = sum(math.sin(r) + 1 for r in range(size))
        for _ in range(3):
            got = step(x, torch.empty(4 * size))
            torch.testing.assert_close(got, torch.full((4,), 2 * 4 * size * wanted + wanted))

    run(body, 2, deadline=200)


@pytest.mark.slow
def test_compiled_ddp_takes_the_steps_of_one_process(tmp_path):
    def body(rank, size):
        compiled_here(f"{tmp_path}/{rank}")
        model = torch.compile(DDP(perceptron()))
        batches = [share(pairs(), rank, size)] * STEPS
        losses = mean_over_ranks(train(model, batches, pair_loss))
        alone = train(perceptron(), [pairs()] * STEPS, pair_loss)
        torch.testing.assert_close(losses, torch.tensor(alone))

    run(body, 2, deadline=200)


@ranks(2)
def test_pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(0)
    layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
    x = torch.randn(8, 4)
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4)
    if rank == 0:
        schedule.step(x)
    else:
        torch.testing.assert_close(schedule.step(), layers[1](layers[0](x)))


@ranks(2)
def test_distributed_checkpoint(rank, size):
    import torch.distributed.checkpoint as dcp

    holder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(holder)
    mesh = init_device_mesh("cpu", (size,))
    model = fully_shard(Transformer(), mesh=mesh)
    dcp.save({"model": model.state_dict()}, checkpoint_id=holder[0])
    fresh = fully_shard(Transformer(seed=50), mesh=mesh)
    state = {"model": fresh.state_dict()}
    dcp.load(state, checkpoint_id=holder[0])
    fresh.load_state_dict(state["model"])
    for mine, wanted in zip(fresh.parameters(), model.parameters()):
        assert torch.equal(mine.full_tensor(), wanted.full_tensor())


@ranks(2)
def test_profiler_shows_an_event_per_call(rank, size):
    with torch.profiler.profile() as profile:
        dist.all_reduce(torch.ones(4))
        dist.broadcast(torch.ones(4), 0)
    names = [event.key for event in profile.key_averages()]
    assert "rondo:allreduce" in names and "rondo:broadcast" in names
