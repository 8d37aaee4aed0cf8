# SPDX-License-Identifier: Apache-2.0
"""Sums with the same bits on any number of ranks: along a fixed tree over leaves.

A leaf is one contribution: the gradient of one micro-batch, the partial product of one block of a
matrix. The ranks share `total` leaves among them, and the result is a function of the leaves alone
(rondoAllReduceOrdered in rondo.h).

    total = rondo.torch.all_reduce_ordered(leaves, 64)   # [n, ...] of this rank -> [...]

    with rondo.torch.ordered_sums():                     # plain calls: each rank's tensor is a leaf
        dist.all_reduce(tensor)

    model = DistributedDataParallel(net)
    micro = rondo.torch.MicroBatches(model, 8)      # on 1, 2, 4 or 8 ranks
    for batch in batches:                           # the same on all ranks
        for part in micro.mine(batch.chunk(8)):
            loss(model(part)).backward()
        optimizer.step()
        optimizer.zero_grad()
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from rondo.torch.library import TYPES, Op, as_real, lib
from rondo.torch.memory import Buffers, expect
from rondo.torch.process_group import RondoProcessGroup

ROUNDINGS = {"node": 0, "once": 1}


def share(total: int, rank: int, size: int) -> tuple[int, int]:
    """This rank's run of leaves, (first, n): equal ones, the remainder with the first ranks."""
    each, more = divmod(total, size)
    return each * rank + min(rank, more), each + (rank < more)


def rounding_of(dtype: torch.dtype, rounding: str | None) -> int:
    if rounding is None:
        part = dtype.to_real() if dtype.is_complex else dtype
        narrow = part.is_floating_point and part.itemsize < 4
        return ROUNDINGS["once" if narrow else "node"]
    expect(rounding in ROUNDINGS, f"rounding {rounding!r}: write 'node' or 'once'")
    return ROUNDINGS[rounding]


def rounding_for(rounding: str | None) -> Callable[[torch.dtype], int]:
    """By type; a wrong word is an error at once."""
    rounding_of(torch.float32, rounding)
    return functools.partial(rounding_of, rounding=rounding)


def rondo_group(group: dist.ProcessGroup | None) -> RondoProcessGroup:
    group = group or dist.group.WORLD
    if not isinstance(group, RondoProcessGroup):
        raise TypeError(
            f"rondo: the backend of this group is {dist.get_backend(group)!r}; ordered sums run in "
            "groups of backend 'rondo', for example new_group(backend='rondo')"
        )
    return group


def issue(
    function: Any,
    group: RondoProcessGroup,
    leaves: torch.Tensor,
    output: torch.Tensor,
    total: int,
    first: int | None,
    op: Any,
    rounding: str | None,
    asynchronous: bool,
) -> dist.Work:
    expect(leaves.dim() > 0, "leaves has no dimension; the first one counts the leaves")
    run = share(total, group.rank(), group.size())
    if first is not None:
        run = (first, len(leaves))
    expect(
        run[1] == len(leaves),
        f"{len(leaves)} leaves on rank {group.rank()}, whose share of {total} is {run[1]}; pass "
        "first= for another share",
    )
    buffers = Buffers()
    source, target = buffers.read(as_real(leaves)), buffers.written(as_real(output))
    place, out, count = source.data_ptr(), target.data_ptr(), target.numel()
    kind, rounds, comm = TYPES.get(target.dtype), rounding_of(output.dtype, rounding), group._comm

    def call(number: int, stream: int | None) -> int:
        return function(place, out, count, kind, number, total, *run, rounds, comm, stream)

    options = c10d.AllreduceOptions()
    options.asyncOp = asynchronous
    return group._reduce_with(op, output.dtype, call, options, buffers, [output])


def all_reduce_ordered(
    leaves: torch.Tensor,
    total: int,
    first: int | None = None,
    op: Any = Op.SUM,
    rounding: str | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """The reduction of all ranks' leaves, on every rank.

    leaves: [n, ...], this rank's leaves first .. first + n - 1 of `total`, a power of two; n may be
    0. Without `first`, n is the rank's equal share. rounding: "node", every node of the tree
    rounds to the type; "once", sums are of a wider float (the default below 32 bits). op AVG
    divides by `total`.
    """
    output = leaves.new_empty(leaves.shape[1:])
    issue(
        lib.rondoAllReduceOrdered, rondo_group(group), leaves, output, total, first, op, rounding,
        False,
    )  # fmt: skip
    return output


def reduce_scatter_ordered(
    leaves: torch.Tensor,
    total: int,
    first: int | None = None,
    op: Any = Op.SUM,
    rounding: str | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """This rank's part of what all_reduce_ordered gives: leaves [n, size * k, ...] -> [k, ...]."""
    ours = rondo_group(group)
    expect(leaves.dim() > 1, "leaves needs two dimensions: leaves, and what is scattered")
    expect(
        leaves.shape[1] % ours.size() == 0,
        f"{leaves.shape[1]} rows cannot be scattered over {ours.size()} ranks",
    )
    output = leaves.new_empty((leaves.shape[1] // ours.size(), *leaves.shape[2:]))
    issue(lib.rondoReduceScatterOrdered, ours, leaves, output, total, first, op, rounding, False)
    return output


@contextmanager
def ordered_sums(
    group: dist.ProcessGroup | None = None, rounding: str | None = None
) -> Iterator[None]:
    """Here all_reduce, reduce and reduce_scatter of the group go along the tree: each rank's tensor
    is a leaf, in rank order. On all ranks of the group, a power of two.

    A rank may add up more leaves of its own, in pairs and in the type: it gives the sum of a
    subtree, and the results are those of more ranks with one leaf each.
    """
    ours = rondo_group(group)
    before = ours.sum_in_order(rounding_for(rounding))
    try:
        yield
    finally:
        ours.sum_in_order(before)


@dataclass
class Options:
    """pg_options of init_process_group() and new_group(), for the backend rondo.

    ordered_sums: always as in ordered_sums(). rounding: "node" or "once", as there.
    """

    ordered_sums: bool = False
    rounding: str | None = None

    def apply(self, group: RondoProcessGroup) -> None:
        if self.ordered_sums:
            group.sum_in_order(rounding_for(self.rounding))


class Kept:
    """The gradients of the micro-batches of one step, a row for each."""

    def __init__(self, rows: int) -> None:
        self.rows, self.count = rows, 0
        self.data: torch.Tensor | None = None

    def add(self, gradient: torch.Tensor) -> None:
        if self.data is None or self.data.shape[1] != gradient.numel():
            self.data = gradient.new_empty((self.rows, gradient.numel()))
        # A gradient that was added to a zero has no -0, the first one of a rank may: + 0 on all.
        torch.add(gradient, 0.0, out=self.data[self.count])
        self.count += 1


class MicroBatches:
    """Averages gradients over micro-batches, with the same bits on any number of ranks.

    model: a DistributedDataParallel, or a module under FSDP2's fully_shard() (from 2 ranks on).
    total: micro-batches of a step, a power of two and a multiple of the number of ranks. A rank
    runs forward and backward once for each of mine(...), without no_sync(), and then has the mean
    gradient; before that its gradients are zero. Costs a copy of the gradients for each of the
    rank's micro-batches.
    """

    def __init__(self, model: torch.nn.Module, total: int, rounding: str | None = None) -> None:
        self.total, self.rounding = total, rounding
        self._kept: dict[int, Kept] = {}
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            self._take(rondo_group(model.process_group))
            model.register_comm_hook(self, MicroBatches._of_bucket)
        else:
            self._serve_shards(model)

    def _take(self, group: RondoProcessGroup) -> None:
        size, total = group.size(), self.total
        expect(
            total >= size and total & (total - 1) == 0 and total % size == 0,
            f"{total} micro-batches on {size} ranks: give a power of two that {size} divides",
        )
        self.group = group
        self.first, self.n = share(total, group.rank(), size)

    def mine(self, parts: Sequence[Any]) -> Sequence[Any]:
        """This rank's share of a step's micro-batches."""
        expect(len(parts) == self.total, f"{len(parts)} micro-batches, not {self.total}")
        return parts[self.first : self.first + self.n]

    def forget(self) -> None:
        """Drops what an interrupted step has kept."""
        self._kept.clear()

    def _keep(self, key: int, gradient: torch.Tensor) -> Kept:
        kept = self._kept.setdefault(key, Kept(self.n))
        kept.add(gradient)
        return kept

    # ---- DistributedDataParallel ----

    def _of_bucket(self, bucket):  # DDP takes no annotations that are strings
        """By parameter: DDP forms new buckets after the first backward."""
        flat, at, kept = bucket.buffer(), 0, []
        for parameter in bucket.parameters():
            kept.append(self._keep(id(parameter), flat[at : at + parameter.numel()]))
            at += parameter.numel()
        counts = {one.count for one in kept}
        expect(
            len(counts) == 1,
            f"a backward pass ended early: parameters of one bucket have {sorted(counts)} "
            "micro-batches; call forget() before the step is tried again",
        )
        if counts != {self.n}:
            future: torch.futures.Future = torch.futures.Future()
            future.set_result(flat.zero_())
            return future
        leaves = torch.cat([one.data for one in kept], dim=1)
        for one in kept:
            one.count = 0
        work = issue(
            lib.rondoAllReduceOrdered, self.group, leaves, flat, self.total, self.first, Op.AVG,
            self.rounding, True,
        )  # fmt: skip
        return work.get_future().then(lambda done: done.value()[0])

    # ---- FSDP2 ----

    def _serve_shards(self, model: torch.nn.Module) -> None:
        from torch.distributed.fsdp import FSDPModule

        shards = [module for module in model.modules() if isinstance(module, FSDPModule)]
        expect(
            bool(shards),
            f"{type(model).__name__} is neither a DistributedDataParallel nor under fully_shard()",
        )
        meshes = [mesh for module in shards for mesh in meshes_of(module)]
        expect(bool(meshes), f"{type(model).__name__} has no parameter under fully_shard()")
        for mesh in meshes:
            expect(
                mesh.ndim == 1 and mesh == meshes[0],
                "MicroBatches takes fully_shard() on one mesh of one dimension, and here is "
                f"{mesh}: no HSDP (replicas of shards), nor modules or parameters with meshes of "
                "their own",
            )
        self._take(rondo_group(meshes[0].get_group()))
        expect(self.group.size() > 1, "fully_shard() on 1 rank reduces nothing: use more ranks")
        for module in shards:
            module.set_custom_reduce_scatter(ScatteredGradients(self, id(module)))


def meshes_of(module: Any) -> list[dist.DeviceMesh]:
    """Of the parameters that FSDP2 manages at this module; none where its children have all."""
    state = module._get_fsdp_state()
    if hasattr(state, "_fsdp_param_groups"):
        groups = state._fsdp_param_groups
    else:  # torch 2.12
        groups = [state._fsdp_param_group] if state._fsdp_param_group else []
    return [group.mesh_info.mesh for group in groups]


class ScatteredGradients:
    """FSDP2's ReduceScatter of one module."""

    def __init__(self, micro: MicroBatches, key: int) -> None:
        self._micro, self._key = micro, key

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        kind = op if isinstance(op, Op) else op.op
        expect(
            kind == Op.AVG,
            f"FSDP2 asks for {kind} where MicroBatches averages: gradients must be reduced in "
            "float32 or bfloat16, without set_gradient_divide_factor()",
        )
        micro = self._micro
        kept = micro._keep(self._key, input_tensor)
        if kept.count < micro.n:
            output_tensor.zero_()
            return None
        kept.count = 0
        work = issue(
            lib.rondoReduceScatterOrdered, rondo_group(group), kept.data, output_tensor,
            micro.total, micro.first, Op.AVG, micro.rounding, async_op,
        )  # fmt: skip
        return work if async_op else None
