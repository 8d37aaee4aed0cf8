# SPDX-License-Identifier: Apache-2.0
"""Ordered sums: the bits of a recursive sum in NumPy, on any number of ranks; DDP and FSDP2 with
MicroBatches end with equal bits on 1, 2, 4 and 8 ranks."""

import copy
import functools
import hashlib
import json
import subprocess
import sys

import numpy
import pytest
import torch
import torch.distributed as dist
from models import Transformer, sentence_loss, sentences
from ranks import ranks, run
from rondo.torch import (
    MicroBatches,
    Options,
    all_reduce_ordered,
    ordered_sums,
    reduce_scatter_ordered,
)
from rondo.torch.ordered import ROUNDINGS, rounding_of, share
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, MICRO_BATCHES = 10, 8


def tree(leaves):
    """Of a list with a power of two of arrays; every addition rounds to their type."""
    while len(leaves) > 1:
        leaves = [left + right for left, right in zip(leaves[::2], leaves[1::2])]
    return leaves[0]


def leaves_of(total, count, dtype):
    random = numpy.random.default_rng(total * 1000 + count)
    exponents = random.integers(-6, 6, (total, count))
    return (random.standard_normal((total, count)) * 2.0**exponents).astype(dtype)


@ranks(1, 2, 3, 5, 8, hosts=(1, 2))
def test_sums_equal_numpys(rank, size):
    for total in (8, 64):
        for count in (1, 67, 3001):
            for dtype, wide in (("float32", "float64"), ("float16", "float32")):
                whole = leaves_of(total, count, dtype)
                first, n = share(total, rank, size)
                mine = torch.from_numpy(whole[first : first + n].copy())
                node = tree(list(whole))
                once = tree(list(whole.astype(wide))).astype(dtype)
                for rounding, wanted in (("node", node), ("once", once)):
                    got = all_reduce_ordered(mine, total, rounding=rounding)
                    assert got.numpy().tobytes() == wanted.tobytes(), (total, count, dtype)
                default = once if dtype == "float16" else node
                assert all_reduce_ordered(mine, total).numpy().tobytes() == default.tobytes()


@ranks(3)
def test_any_run_of_leaves_and_operation(rank, size):
    whole = leaves_of(16, 300, "float32")
    first, n = [(9, 7), (0, 9), (9, 0)][rank]
    mine = torch.from_numpy(whole[first : first + n].copy())
    for op, wanted in (
        (dist.ReduceOp.MAX, whole.max(axis=0)),
        (dist.ReduceOp.AVG, tree(list(whole)) * numpy.float32(1 / 16)),
        (dist.ReduceOp.SUM, tree(list(whole))),
    ):
        got = all_reduce_ordered(mine, 16, first, op)
        assert got.numpy().tobytes() == wanted.tobytes()
    part = reduce_scatter_ordered(mine.reshape(n, 3, 100), 16, first)
    assert part.numpy().tobytes() == tree(list(whole)).reshape(3, 100)[rank].tobytes()


@ranks(2)
def test_wrong_leaves(rank, size):
    with pytest.raises(ValueError, match=r"3 leaves on rank \d, whose share of 8 is 4"):
        all_reduce_ordered(torch.ones(3, 4), 8)
    with pytest.raises(ValueError, match="rounding 'twice': write 'node' or 'once'"):
        all_reduce_ordered(torch.ones(4, 4), 8, rounding="twice")
    with pytest.raises(dist.DistBackendError, match="leaf 2 is given twice: rank 0 has leaves 0"):
        all_reduce_ordered(torch.ones(3 - rank, 4), 4, first=2 * rank)
    with pytest.raises(ValueError, match="6 micro-batches on 2 ranks: give a power of two"):
        MicroBatches(DDP(torch.nn.Linear(2, 2)), 6)
    assert all_reduce_ordered(torch.ones(2, 4), 4).tolist() == [4.0] * 4


@ranks(1, 2, 4, 8, hosts=(1, 2))
def test_plain_calls_in_order(rank, size):
    """Each rank's tensor is a leaf; or the subtree of its leaves, if it sums them in pairs."""
    for dtype, wide in (("float32", "float64"), ("float16", "float32")):
        whole = leaves_of(8, 24 * 7, dtype)
        mine = torch.from_numpy(tree(list(whole[share(8, rank, size)[0] :][: 8 // size])))
        wanted = torch.from_numpy(tree(list(whole)))
        with ordered_sums(rounding="node"):
            total = mine.clone()
            dist.all_reduce(total)
            queued = mine.clone()
            work = dist.all_reduce(queued, async_op=True)
            work.wait()
            at_root = mine.clone()
            dist.reduce(at_root, size - 1)
            part = mine.new_empty(len(mine) // size)
            dist.reduce_scatter_tensor(part, mine)
            listed = torch.empty_like(part)
            dist.reduce_scatter(listed, list(mine.chunk(size)))
        rows = wanted.chunk(size)[rank]
        for got, want in (
            (total, wanted), (queued, wanted), (part, rows), (listed, rows),
            (at_root, wanted if rank == size - 1 else at_root),
        ):  # fmt: skip
            assert got.numpy().tobytes() == want.numpy().tobytes(), dtype
        leaf = torch.from_numpy(whole[rank].copy())
        once = tree(list(whole[:size].astype(wide))).astype(dtype)
        with ordered_sums(rounding="once"):
            dist.all_reduce(leaf)
        assert leaf.numpy().tobytes() == once.tobytes(), dtype


@ranks(4)
def test_a_group_of_ordered_sums(rank, size):
    group = dist.new_group(backend="rondo", pg_options=Options(ordered_sums=True, rounding="once"))
    whole = leaves_of(4, 300, "float32")
    leaf = torch.from_numpy(whole[rank].copy())
    dist.all_reduce(leaf, group=group)
    wanted = tree(list(whole.astype("float64"))).astype("float32")
    assert leaf.numpy().tobytes() == wanted.tobytes()
    assert group._ordered is not None and dist.group.WORLD._ordered is None
    with ordered_sums():
        assert dist.group.WORLD._ordered is not None
    assert dist.group.WORLD._ordered is None


@ranks(2)
def test_sparse_tensors_have_no_ordered_sums(rank, size):
    sparse = torch.ones(3).to_sparse()
    with ordered_sums():
        with pytest.raises(ValueError, match=r"sparse tensors has no ordered sums: call to_dense"):
            dist.all_reduce(sparse)
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [2.0] * 3


def test_narrow_parts_of_complex_numbers_round_once():
    for dtype, word in (
        (torch.complex32, "once"), (torch.float16, "once"), (torch.complex64, "node"),
        (torch.float32, "node"), (torch.int8, "node"),
    ):  # fmt: skip
        assert rounding_of(dtype, None) == ROUNDINGS[word], dtype


@ranks(3)
def test_ordered_sums_that_are_refused(rank, size):
    with pytest.raises(ValueError, match="3 ranks are no power of two; all_reduce_ordered"):
        with ordered_sums():
            pass
    with pytest.raises(ValueError, match="rounding 'twice'"):
        with ordered_sums(rounding="twice"):
            pass
    assert dist.group.WORLD._ordered is None


def train(model, micro, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        batch = sentences(count=2 * MICRO_BATCHES).roll(step, 0)
        for part in micro.mine(batch.chunk(MICRO_BATCHES)):
            sentence_loss(model, part).backward()
        optimizer.step()
        optimizer.zero_grad()


def digest(parameters):
    state = hashlib.sha256()
    for parameter in parameters:
        state.update(parameter.detach().numpy().tobytes())
    return state.hexdigest()


def keep(folder, name, rank, text):
    if rank == 0:
        (folder / name).write_text(text)


SMALL_BUCKETS = {"bucket_cap_mb": 0.002, "gradient_as_bucket_view": True}


@pytest.mark.parametrize("options, steps", [({}, 100), (SMALL_BUCKETS, 10)])
def test_ddp_on_any_number_of_ranks(options, steps, tmp_path):
    def trained(rank, size):
        model = DDP(Transformer(layers=1), **options)
        train(model, MicroBatches(model, MICRO_BATCHES), steps)
        keep(tmp_path, f"{size}", rank, digest(model.parameters()))

    for size in (1, 2, 4, 8):
        run(trained, size)
    digests = {size: (tmp_path / f"{size}").read_text() for size in (1, 2, 4, 8)}
    assert len(set(digests.values())) == 1, digests


def test_plain_ddp_differs(tmp_path):
    """What MicroBatches is for: else the test above would prove nothing."""

    def trained(rank, size):
        model = DDP(Transformer(layers=1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for step in range(5):
            parts = sentences(count=2 * MICRO_BATCHES).roll(step, 0).chunk(MICRO_BATCHES)
            first, n = share(MICRO_BATCHES, rank, size)
            for at in range(first, first + n):
                model.require_backward_grad_sync = at == first + n - 1
                (sentence_loss(model, parts[at]) / n).backward()
            optimizer.step()
            optimizer.zero_grad()
        keep(tmp_path, f"{size}", rank, digest(model.parameters()))

    for size in (2, 8):
        run(trained, size)
    assert (tmp_path / "2").read_text() != (tmp_path / "8").read_text()


def test_fsdp_on_any_number_of_ranks(tmp_path):
    def trained(rank, size):
        model = Transformer()
        mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        train(model, MicroBatches(model, MICRO_BATCHES), STEPS)
        whole = [parameter.full_tensor() for parameter in model.parameters()]
        keep(tmp_path, f"{size}", rank, digest(whole))

    for size in (2, 4, 8):
        run(trained, size)
    digests = {size: (tmp_path / f"{size}").read_text() for size in (2, 4, 8)}
    assert len(set(digests.values())) == 1, digests


@ranks(2)
def test_an_fsdp_root_may_have_no_parameters_of_its_own(rank, size):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    one, parts = copy.deepcopy(model), torch.arange(24.0).reshape(4, 2, 3).unbind()
    for module in (*model, model):
        fully_shard(module, mesh=dist.device_mesh.init_device_mesh("cpu", (size,)))
    for part in MicroBatches(model, 4).mine(parts):
        model(part).sum().backward()
    for part in parts:
        (one(part).sum() / 4).backward()
    for ours, alone in zip(model.parameters(), one.parameters()):
        assert torch.allclose(ours.grad.full_tensor(), alone.grad)


@ranks(4)
def test_fsdp_on_other_meshes_is_refused(rank, size):
    hybrid = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("again", "shard"))
    half = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    fully_shard(half[0], mesh=hybrid["shard"])
    fully_shard(half[1], mesh=hybrid["again"])
    for model in (fully_shard(torch.nn.Linear(4, 4), mesh=hybrid), fully_shard(half)):
        with pytest.raises(ValueError, match="one mesh of one dimension, and here is .*no HSDP"):
            MicroBatches(model, 4)
    empty = fully_shard(torch.nn.Sequential(), mesh=hybrid["shard"])
    with pytest.raises(ValueError, match="Sequential has no parameter under fully_shard"):
        MicroBatches(empty, 4)


def test_an_interrupted_step_is_reported(tmp_path):
    def interrupted(rank, size):
        model = DDP(Transformer(layers=1), bucket_cap_mb=0.002)
        micro = MicroBatches(model, MICRO_BATCHES)
        train(model, micro, 1)
        micro._kept[id(model.module.head.weight)].count = 1  # as after a failed backward
        with pytest.raises(ValueError, match=r"call forget\(\) before the step is tried again"):
            train(model, micro, 1)

    run(functools.partial(interrupted), 1)


def probe(*arguments):
    command = [sys.executable, "-m", "rondo.torch.probe", "--json", "--seconds", "300", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout or done.stderr


def test_probe():
    for arguments, changing in (
        (["--backend", "gloo", "--ranks", "4"], {"position in the buffer"}),
        (["--ordered", "--dtype", "bfloat16", "--ranks", "2", "4"], set()),
    ):
        code, out = probe(*arguments)
        assert code == 0, out
        rows = {row["what"]: row["bits_change"] for row in json.loads(out)["changes"]}
        assert {what for what, changes in rows.items() if changes == "yes"} >= changing, rows
        if not changing:
            assert set(rows.values()) == {"no"}, rows
    code, out = probe("--ranks", "3")
    assert code == 2 and "--ranks 3: 2, 4 or 8 ranks share the 8 summands" in out
    code, out = probe("--backend", "gloo", "--ordered")
    assert code == 2 and "only the backend rondo has it, not gloo" in out
