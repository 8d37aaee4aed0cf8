# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel in its variants takes the same steps as one process with the whole
batch."""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from models import pair_loss, pairs, perceptron, share, train
from ranks import ranks, run
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 4


def whole(steps=STEPS):
    model = perceptron()
    losses = train(model, [pairs()] * steps, pair_loss)
    return model, losses


def mean_over_ranks(losses):
    tensor = torch.tensor(losses)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return tensor


def check(model, losses=None, **tolerance):
    wanted, wanted_losses = whole()
    for mine, theirs in zip(model.parameters(), wanted.parameters()):
        torch.testing.assert_close(mine, theirs, **tolerance)
    if losses is not None:
        torch.testing.assert_close(
            mean_over_ranks(losses), torch.tensor(wanted_losses), **tolerance
        )


@ranks(2, 4)
def test_variants(rank, size):
    batches = [share(pairs(), rank, size)] * STEPS
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"bucket_cap_mb": 1e-4},
        {"broadcast_buffers": False},
    ):
        model = DDP(perceptron(seed=rank), **options)  # rank 0's initial model is used
        if rank == 0:
            assert torch.equal(model.module[0].weight, perceptron(0)[0].weight)
        model.module.load_state_dict(perceptron().state_dict())
        check(model, train(model, batches, pair_loss))


@ranks(2)
def test_unused_parameters_and_no_sync(rank, size):
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.left, self.right = nn.Linear(4, 1), nn.Linear(4, 1)

        def forward(self, x, left):
            return self.left(x) if left else self.right(x)

    model = DDP(TwoHeads(), find_unused_parameters=True)
    model(torch.ones(2, 4), left=rank == 0).sum().backward()
    assert torch.equal(model.module.left.weight.grad, torch.ones(1, 4))
    model = DDP(perceptron())
    with model.no_sync():
        pair_loss(model, share(pairs(), rank, size)).backward()
    mine = model.module[0].weight.grad.clone()
    pair_loss(model, share(pairs(), rank, size)).backward()
    twice = torch.zeros_like(mine)
    twice += mine * 2
    dist.all_reduce(twice, dist.ReduceOp.AVG)
    torch.testing.assert_close(model.module[0].weight.grad, twice)


@ranks(2)
def test_hooks(rank, size):
    batches = [share(pairs(), rank, size)] * STEPS
    for hook, tolerance in (
        (default_hooks.allreduce_hook, {}),
        (default_hooks.fp16_compress_hook, {"rtol": 1e-2, "atol": 1e-3}),
    ):
        model = DDP(perceptron(), bucket_cap_mb=1e-4)
        model.register_comm_hook(None, hook)
        check(model, train(model, batches, pair_loss), **tolerance)


WIDTH, LAYERS = 64, 8


def tower():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def power_sgd(buckets, matrix_rank, compression, seen):
    """The tower under PowerSGD; `seen` gets the numbers of the buckets in order."""

    def hook(state, bucket):
        seen.append(bucket.index())
        return powerSGD_hook.powerSGD_hook(state, bucket)

    model = DDP(tower(), bucket_cap_mb=WIDTH * WIDTH * 4 / 2**20 * LAYERS / buckets)
    state = powerSGD_hook.PowerSGDState(
        None,
        matrix_approximation_rank=matrix_rank,
        start_powerSGD_iter=2,
        min_compression_rate=compression,
    )
    model.register_comm_hook(state, hook)
    return model


@pytest.mark.parametrize("buckets", [1, 2, 8])
def test_power_sgd(buckets):
    def rough(rank, size):
        """Two numbers per row and column: all ranks have the same gradients."""
        seen = []
        model = power_sgd(buckets, 2, 1, seen)
        torch.manual_seed(rank)
        for _ in range(5):
            seen.clear()
            model(torch.randn(4, WIDTH)).square().sum().backward()
            gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
            other = gradients.clone()
            dist.broadcast(other, 0)
            torch.testing.assert_close(gradients, other)
        assert sorted(seen) == list(range(buckets))

    def exact(rank, size):
        """Full rank: the steps of one process with the whole batch."""
        x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(2))

        def loss_of(model, batch):
            return (model(batch) - 1).square().mean()

        model = power_sgd(buckets, WIDTH, 0.1, [])
        losses = train(model, [x.chunk(size)[rank]] * STEPS, loss_of)
        wanted = train(tower(), [x] * STEPS, loss_of)
        torch.testing.assert_close(
            mean_over_ranks(losses), torch.tensor(wanted), rtol=1e-4, atol=1e-5
        )

    for body in (rough, exact):
        assert run(body, 2) == [0, 0]


@ranks(2)
def test_uneven_inputs_join(rank, size):
    model = DDP(perceptron())
    with Join([model]):
        train(model, [share(pairs(), rank, size)] * (3 + 2 * rank), pair_loss)

    # Ranks that have ended count as ranks with zero gradients.
    def half_the_loss(alone, batch):
        return pair_loss(alone, batch) / size

    alone = perceptron()
    train(alone, [pairs()] * 3, pair_loss)
    train(alone, [share(pairs(), 1, size)] * 2, half_the_loss)
    for mine, wanted in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(mine, wanted)


@ranks(2)
def test_sparse_embedding(rank, size):
    torch.manual_seed(0)
    model = DDP(nn.Embedding(10, 3, sparse=True))
    model(torch.tensor([rank, 5])).sum().backward()
    gradient = model.module.weight.grad.to_dense()
    assert gradient[:, 0].tolist() == [0.5, 0.5, 0, 0, 0, 1, 0, 0, 0, 0]


@ranks(2)
def test_checkpoint_saved_by_rank_0_and_loaded_by_all(rank, size):
    path = f"/tmp/rondo-checkpoint-{os.getppid()}"
    model = DDP(perceptron())
    train(model, [share(pairs(), rank, size)] * STEPS, pair_loss)
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    fresh = DDP(perceptron(seed=99))
    fresh.load_state_dict(torch.load(path, map_location="cpu"))
    check(fresh)
    dist.barrier()
    if rank == 0:
        os.unlink(path)


@ranks(2)
def test_model_over_two_devices_of_the_cpu(rank, size):
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = perceptron()

        def forward(self, x):
            return self.parts[2](self.parts[1](self.parts[0](x)).to("cpu"))

    model = DDP(Split())
    check(model, train(model, [share(pairs(), rank, size)] * STEPS, pair_loss))


@ranks(2)
def test_batch_norm_synchronises_its_buffers(rank, size):
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    for _ in range(3):
        pair_loss(model, share(pairs(), rank, size)).backward()
    model(share(pairs(), rank, size)[0])  # buffers travel at the start of a forward pass
    assert model.module[1].num_batches_tracked.item() == 4


@ranks(2)
def test_zero_redundancy_optimizer(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DDP(perceptron())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    losses = train(model, [share(pairs(), rank, size)] * STEPS, pair_loss, optimizer=optimizer)
    check(model, losses)


def losses_of_epochs(data, batches_of_epoch, model, epochs=2):
    """What a program logs: the sum of an epoch's losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        total = torch.zeros(())
        for batch in batches_of_epoch(epoch):
            optimizer.zero_grad()
            loss = pair_loss(model, batch)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        yield total


@ranks(2)
def test_epochs_with_sampler_and_four_workers_are_those_of_one_process(rank, size):
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    data = TensorDataset(*pairs(32))
    sampler = DistributedSampler(data, shuffle=True, seed=4)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=4)

    def own_batches(epoch):
        sampler.set_epoch(epoch)
        return loader

    def whole_batches(epoch):
        """The batches of all ranks, step by step."""
        orders = []
        for r in range(size):
            other = DistributedSampler(data, size, r, shuffle=True, seed=4)
            other.set_epoch(epoch)
            orders.append(list(other))
        assert sorted(sum(orders, [])) == list(range(32))
        for first in range(0, len(orders[0]), 4):
            yield data[sum([order[first : first + 4] for order in orders], [])]

    log = []
    for epoch, total in enumerate(losses_of_epochs(data, own_batches, DDP(perceptron()))):
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            log.append(f"epoch {epoch}: {total.item() / size:.4f}")
    alone = losses_of_epochs(data, whole_batches, perceptron())
    wanted = [f"epoch {epoch}: {total.item():.4f}" for epoch, total in enumerate(alone)]
    assert log == (wanted if rank == 0 else [])
    assert list(iter(sampler)) != list(range(rank, 32, size))


def test_a_rank_killed_in_a_backward_pass_is_named_by_ddp():
    """torch's C++ waits for the Future of the call, and would take the error for tensors."""

    def body(rank, size):
        model = DDP(torch.nn.Linear(4, 1))
        model(torch.ones(2, 4)).sum().backward()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(2):  # the second time, the call fails at once
            with pytest.raises(RuntimeError, match=r"rondo: rank 1 \(pid"):
                model(torch.ones(2, 4)).sum().backward()

    assert run(body, 2) == [0, -signal.SIGKILL]
