"""DistributedDataParallel in its variants: the steps of one process that has the whole batch."""

import os

import torch
import torch.distributed as dist
from models import pair_loss, pairs, perceptron, share, train
from ranks import ranks
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
        model = DDP(perceptron(seed=rank), **options)  # rank 0's start counts
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


@ranks(2, deadline=120)
def test_power_sgd_with_one_two_and_eight_buckets(rank, size):
    for buckets in (1, 2, 8):
        torch.manual_seed(0)
        layers = [nn.Linear(64, 64, bias=False) for _ in range(8)]
        model = DDP(nn.Sequential(*layers), bucket_cap_mb=64 * 64 * 4 / 2**20 * 8 / buckets)
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        torch.manual_seed(rank)
        for _ in range(5):
            model(torch.randn(4, 64)).square().sum().backward()
            weights = torch.cat([p.grad.flatten() for p in model.parameters()])
            other = weights.clone()
            dist.broadcast(other, 0)
            torch.testing.assert_close(weights, other)


@ranks(2)
def test_uneven_inputs_join(rank, size):
    model = DDP(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([model]):
        for _ in range(3 + 2 * rank):
            optimizer.zero_grad()
            pair_loss(model, pairs()).backward()
            optimizer.step()
    weight = model.module[0].weight.detach().clone()
    dist.broadcast(weight, 0)
    assert torch.equal(weight, model.module[0].weight)


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


@ranks(2)
def test_sampler_loader_and_workers_under_a_live_group(rank, size):
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    data = TensorDataset(torch.arange(32))
    sampler = DistributedSampler(data, shuffle=True, seed=4)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=4)
    orders = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        seen = torch.cat([batch for (batch,) in loader])
        parts = [torch.empty_like(seen) for _ in range(size)]
        dist.all_gather(parts, seen)
        assert torch.cat(parts).sort().values.tolist() == list(range(32))
        orders.append(seen.tolist())
        loss = torch.tensor(float(seen.sum()))
        dist.all_reduce(loss)
        assert loss.item() == sum(range(32))
    assert orders[0] != orders[1]
