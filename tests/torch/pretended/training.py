# SPDX-License-Identifier: Apache-2.0
"""What GPU trainers use works if every GPU is the CPU: optimizers, schedulers, mixed precision,
averages, loaders, checkpointing, compilation, seeds."""

import inspect
import itertools
import shutil
import warnings

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda:1")


def model():
    torch.cuda.manual_seed_all(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(DEVICE)


def loss_of(net):
    return net(torch.ones(3, 4, device="cuda")).square().mean()


def subclasses(module, base):
    kinds = (getattr(module, name) for name in module.__all__)
    return [k for k in kinds if inspect.isclass(k) and issubclass(k, base) and k is not base]


OPTIMIZERS = subclasses(torch.optim, torch.optim.Optimizer)
OPTIONS = ("foreach", "fused", "capturable", "amsgrad", "maximize")
SPARSE, MATRICES = "SparseAdam", "Muon"


def options_of(kind):
    names = [n for n in OPTIONS if n in inspect.signature(kind.__init__).parameters]
    return [{}, *({name: True} for name in names)]


def step_with(kind, options):
    net = model()
    parameters = list(net.parameters())
    if kind.__name__ == MATRICES:
        parameters = [p for p in parameters if p.ndim == 2]
    if kind.__name__ == SPARSE:
        net = nn.Embedding(5, 4, sparse=True, device="cuda")
        parameters = list(net.parameters())
    optimizer = kind(
        parameters, **({} if kind.__name__ == "Adafactor" else {"lr": 0.01}), **options
    )

    def closure():
        optimizer.zero_grad()
        if kind.__name__ == SPARSE:
            loss = net(torch.tensor([1, 3], device="cuda")).square().sum()
        else:
            loss = loss_of(net)
        loss.backward()
        return loss

    before, first = [p.detach().clone() for p in parameters], closure().item()
    for _ in range(3):
        optimizer.step(closure)
    assert any(not torch.equal(a, b) for a, b in zip(before, parameters))
    if not options.get("maximize"):
        assert closure().item() < first
    optimizer.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize(
    "kind, options",
    [(k, o) for k in OPTIMIZERS for o in options_of(k)],
    ids=lambda value: value.__name__ if inspect.isclass(value) else "-".join(value) or "plain",
)
def test_optimizers_step(kind, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that capturable without a capture is slow
        step_with(kind, options)


def test_all_optimizers_are_here():
    assert len(OPTIMIZERS) > 12 and torch.optim.Adam in OPTIMIZERS


SCHEDULERS = {
    "LambdaLR": lambda o: dict(lr_lambda=lambda epoch: 0.5**epoch),
    "MultiplicativeLR": lambda o: dict(lr_lambda=lambda epoch: 0.5),
    "StepLR": lambda o: dict(step_size=1),
    "MultiStepLR": lambda o: dict(milestones=[1]),
    "ConstantLR": lambda o: dict(factor=0.5, total_iters=2),
    "LinearLR": lambda o: dict(),
    "ExponentialLR": lambda o: dict(gamma=0.5),
    "SequentialLR": lambda o: dict(
        schedulers=[lr_scheduler.ConstantLR(o), lr_scheduler.StepLR(o, 1)], milestones=[1]
    ),
    "CosineAnnealingLR": lambda o: dict(T_max=3),
    "ChainedScheduler": lambda o: dict(schedulers=[lr_scheduler.StepLR(o, 1)]),
    "ReduceLROnPlateau": lambda o: dict(patience=0),
    "CyclicLR": lambda o: dict(base_lr=0.1, max_lr=0.2, step_size_up=1),
    "CosineAnnealingWarmRestarts": lambda o: dict(T_0=3),
    "OneCycleLR": lambda o: dict(max_lr=0.2, total_steps=9),
    "PolynomialLR": lambda o: dict(),
    "SWALR": lambda o: dict(swa_lr=0.05),
}
KINDS = subclasses(lr_scheduler, lr_scheduler.LRScheduler) + [swa_utils.SWALR]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_schedulers_change_the_rate(kind):
    optimizer = torch.optim.AdamW(model().parameters(), lr=0.1)
    options = SCHEDULERS[kind.__name__](optimizer)
    chained = kind is lr_scheduler.ChainedScheduler
    scheduler = kind(**options) if chained else kind(optimizer, **options)
    rates = {optimizer.param_groups[0]["lr"]}
    for _ in range(4):
        optimizer.step()
        scheduler.step(*([1.0] if kind is lr_scheduler.ReduceLROnPlateau else []))
        rates.add(optimizer.param_groups[0]["lr"])
    assert len(rates) > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, None])
def test_autocast_and_scaler(dtype):
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
    before = [p.detach().clone() for p in net.parameters()]
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        with torch.amp.autocast("cuda", dtype=dtype):
            assert torch.is_autocast_enabled("cuda")
            out = net(torch.ones(3, 4, device="cuda"))
            assert out.dtype == (dtype or torch.float16)
            with torch.autocast("cuda", enabled=False):
                assert nn.functional.linear(torch.ones(1, 4), net[0].weight).dtype == torch.float32
            loss = out.float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert not torch.is_autocast_enabled("cuda") and not torch.is_autocast_enabled("cpu")
    assert scaler.get_scale() == 2.0**10
    assert any(not torch.equal(a, b) for a, b in zip(before, net.parameters()))


def test_the_scaler_leaves_out_a_step_that_overflows():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    before = net[0].weight.detach().clone()
    scaler.scale(loss_of(net) * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(before, net[0].weight) and scaler.get_scale() == 2.0


def test_the_older_names_of_mixed_precision():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = torch.cuda.amp.GradScaler()
        with torch.cuda.amp.autocast(dtype=torch.bfloat16):
            out = model()(torch.ones(3, 4).cuda())
    assert out.dtype == torch.bfloat16 and scaler.is_enabled()


def test_gradients_are_clipped():
    net = model()
    (loss_of(net) * 1e4).backward()
    for foreach in (None, True, False):
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=foreach)
    norm = nn.utils.get_total_norm([p.grad for p in net.parameters()])
    assert 0 < norm.item() <= 1.001
    for foreach in (None, True, False):
        nn.utils.clip_grad_value_(net.parameters(), 1e-3, foreach=foreach)
    assert max(p.grad.abs().max() for p in net.parameters()) <= 1e-3


def test_averages_of_weights():
    net = model()
    average = swa_utils.AveragedModel(net, device="cuda:1")
    moving = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    with torch.no_grad():
        net[0].weight.add_(2)
    average.update_parameters(net)
    moving.update_parameters(net)
    moving.update_parameters(net)
    assert torch.allclose(average.module[0].weight, net[0].weight)
    normed = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).cuda()
    swa_utils.update_bn([torch.randn(8, 4).cuda()], normed, device=DEVICE)
    assert normed[1].num_batches_tracked == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_pin(workers):
    data = TensorDataset(torch.arange(12.0), torch.arange(12))
    loader = DataLoader(
        data, batch_size=4, num_workers=workers, pin_memory=True, pin_memory_device="cuda:1"
    )
    seen = [(x.to(DEVICE, non_blocking=True), y.cuda(non_blocking=True)) for x, y in loader]
    assert torch.cat([y for _, y in seen]).tolist() == list(range(12))
    assert torch.ones(2).pin_memory().tolist() == [1, 1]
    assert torch.zeros(2, pin_memory=True).tolist() == [0, 0]


@pytest.mark.parametrize("reentrant", [True, False])
def test_activations_are_computed_again(reentrant):
    drop = nn.Dropout(0.5)
    layers = nn.Sequential(nn.Linear(4, 8), drop, nn.Linear(8, 4)).to("cuda")
    x = torch.ones(2, 4, device="cuda", requires_grad=True)
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        total = checkpoint(layers, x, use_reentrant=reentrant).sum()
        total = total + checkpoint_sequential(layers, 2, x, use_reentrant=reentrant).sum()
    total.backward()
    assert x.grad is not None and layers[0].weight.grad is not None


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_compiled_steps(backend):
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("there is no C++ compiler")
    torch._dynamo.reset()
    plain, net = model(), model()
    compiled = torch.compile(net, backend=backend)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss = compiled(torch.ones(3, 4, device="cuda")).square().mean()
        loss.backward()
    assert loss.item() == pytest.approx(loss_of(plain).item(), rel=1e-3)
    optimizer.step()
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        assert compiled(torch.ones(3, 4, device=DEVICE)).dtype == torch.bfloat16


def test_seeds_and_states():
    device = {"device": "cuda"}
    torch.cuda.manual_seed(7)
    assert torch.cuda.initial_seed() == 7
    first = torch.rand(3, **device)
    torch.cuda.manual_seed_all(7)
    assert torch.equal(first, torch.rand(3, **device))
    state, states = torch.cuda.get_rng_state("cuda:1"), torch.cuda.get_rng_state_all()
    second = torch.rand(3, **device)
    torch.cuda.set_rng_state(state)
    assert torch.equal(second, torch.rand(3, **device))
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(second, torch.rand(3, **device))
    torch.cuda.set_rng_state(state, 1)
    with torch.random.fork_rng(devices=[0, 1]):
        torch.rand(9, **device)
    assert torch.equal(second, torch.rand(3, **device))
    torch.cuda.seed()
    torch.cuda.seed_all()
    generator = torch.Generator(device="cuda:1").manual_seed(1)
    assert torch.rand(2, generator=generator, **device).shape == (2,)


def test_data_parallel_runs_its_module_once():
    net = nn.DataParallel(model(), device_ids=[0, 1]).cuda()
    loss_of(net).backward()
    assert net.module[0].weight.grad is not None


def test_ranges_and_timers():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.nvtx.range("a step"), torch.autograd.profiler.emit_nvtx(enabled=False):
        begin.record()
        loss_of(model())
        end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) > 0


def test_graphs_are_refused():
    for use in (
        torch.cuda.CUDAGraph,
        lambda: torch.cuda.graph(None),
        lambda: torch.cuda.make_graphed_callables(model(), (torch.ones(1, 4),)),
    ):
        with pytest.raises(RuntimeError, match="records no graph of launches"):
            use()


def test_devices_in_every_form():
    forms = ["cuda", "cuda:1", 1, torch.device("cuda"), torch.device("cuda", 1)]
    for form, method in itertools.product(forms, ("to", "cuda")):
        if method == "cuda" and not isinstance(form, int):
            continue
        assert getattr(torch.ones(2), method)(form).tolist() == [1, 1]
        assert getattr(nn.Linear(2, 2), method)(form).weight.shape == (2, 2)
    for form in forms:
        assert torch.zeros(2, device=form).tolist() == [0, 0]
