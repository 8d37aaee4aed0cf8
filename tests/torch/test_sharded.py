# SPDX-License-Identifier: Apache-2.0
"""FSDP, meshes, DTensor, tensor and pipeline parallelism, compiled programs, checkpoints."""

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


@ranks(2)
def test_fully_shard_takes_its_buffers_from_the_group(rank, size):
    from rondo.torch import memory

    batches, losses = [share(sentences(), rank, size)] * STEPS, []
    for from_group in (False, True):
        model = Transformer()
        for layer in [*model.layers, model]:
            fully_shard(layer, mesh=init_device_mesh("cpu", (size,)))
            layer.set_allocate_memory_from_process_group_for_comm(from_group)
        losses.append(mean_over_ranks(train(model, batches, sentence_loss)))
        assert (memory._pool._max_used > 0) == from_group
    torch.testing.assert_close(losses[0], losses[1])


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
    assert model[0].weight.to_local().shape == (16 // size, 6)
    losses = train(model, [pairs()] * STEPS, pair_loss)
    alone = train(perceptron(), [pairs()] * STEPS, pair_loss)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(alone))


@ranks(2)
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

    run(body, 2)


@pytest.mark.slow
def test_compiled_ddp_takes_the_steps_of_one_process(tmp_path):
    def body(rank, size):
        compiled_here(f"{tmp_path}/{rank}")
        model = torch.compile(DDP(perceptron()))
        batches = [share(pairs(), rank, size)] * STEPS
        losses = mean_over_ranks(train(model, batches, pair_loss))
        alone = train(perceptron(), [pairs()] * STEPS, pair_loss)
        torch.testing.assert_close(losses, torch.tensor(alone))

    run(body, 2)


@ranks(2)
def test_pipelines_take_the_steps_of_one_process(rank, size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    inputs, targets = pairs()
    whole = perceptron()
    wanted = torch.tensor(train(whole, [(inputs, targets)] * STEPS, pair_loss))
    for kind in (ScheduleGPipe, Schedule1F1B):
        layers = perceptron()
        mine = layers[:2] if rank == 0 else layers[2:]
        stage = PipelineStage(mine, rank, size, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        means = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            losses = []
            if rank == 0:
                schedule.step(inputs)
            else:
                schedule.step(target=targets, losses=losses)
                means.append(sum(loss.item() for loss in losses) / len(losses))
            optimizer.step()
        if rank == 1:
            torch.testing.assert_close(torch.tensor(means), wanted)
        for part, all_of_it in zip(layers.parameters(), whole.parameters()):
            if any(part is own for own in mine.parameters()):
                torch.testing.assert_close(part, all_of_it)


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
