# SPDX-License-Identifier: Apache-2.0
"""all_reduce, reduce and reduce_scatter, mapped to C calls on suitable memory.

Methods have torch's names; names differ between torch versions, so both are here. An all_reduce of
sparse COO tensors gathers and sums the entries of all ranks, as gloo does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from rondo.torch.calls import profiled
from rondo.torch.hooks import older
from rondo.torch.library import (
    TYPES,
    Op,
    as_real,
    check,
    kind_of,
    lib,
    pre_mul_sum,
    reduction,
)
from rondo.torch.memory import Buffers, counts_of, expect, same_sizes
from rondo.torch.work import FinishedWork

Rounding = Callable[[torch.dtype], int]  # rondoRounding_t for a type
ALLREDUCE, REDUCE = c10d.AllreduceOptions(), c10d.ReduceOptions()
REDUCE_SCATTER = c10d.ReduceScatterOptions()


def sum_of(_, arguments) -> str:
    """The event of an all_reduce."""
    return "sparse_all_reduce" if arguments[0][0].is_sparse else "all_reduce"


def gathered(group, tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """The tensors of all ranks, concatenated along the first dimension."""
    options = c10d.AllgatherOptions()
    options.asyncOp = False
    parts = [tensor.new_empty((count, *tensor.shape[1:])) for count in rows]
    group.allgather([parts], [tensor], options)
    return torch.cat(parts)


def all_reduce_sparse(group, tensors: list[torch.Tensor], opts) -> dist.Work:
    """On the caller's thread: ranks must exchange their numbers of entries first."""
    (tensor,) = tensors
    if kind_of(opts.reduceOp) not in (Op.SUM, Op.AVG):
        raise TypeError("rondo: sparse tensors can only be summed and averaged (SUM, AVG)")
    mine = tensor.coalesce()
    indices, values = mine.indices().t().contiguous(), mine.values()
    sizes = gathered(group, torch.tensor([len(indices)]), [1] * group.size()).tolist()
    total = torch.sparse_coo_tensor(
        gathered(group, indices, sizes).t(), gathered(group, values, sizes), tensor.shape
    ).coalesce()
    if kind_of(opts.reduceOp) == Op.AVG:
        total = total / group.size()
    tensor.copy_(total)
    return FinishedWork(tensors)


class Reductions:
    _ordered: Rounding | None = None  # plain sums go along a tree, where each rank is a leaf

    def sum_in_order(self, rounding: Rounding | None) -> Rounding | None:
        """Returns how sums were made until now, for the next call; None: as usual."""
        expect(
            rounding is None or self._size & (self._size - 1) == 0,
            f"ordered sums take one leaf of each rank, and {self._size} ranks are no power of two; "
            "all_reduce_ordered() takes any number of ranks",
        )
        before, self._ordered = self._ordered, rounding
        self._see_if_plain()
        return before

    def _leaf(self, dtype: torch.dtype) -> tuple[int, int, int, int] | None:
        """The arguments of an ordered call for this rank's leaf."""
        if self._ordered is None:
            return None
        return self._size, self._rank, 1, self._ordered(dtype)

    def _reduce_with(self, op, dtype: torch.dtype, call, opts, buffers, results) -> dist.Work:
        """call(number, stream), with the number of the operation in this communicator."""
        if kind_of(op) != Op.PREMUL_SUM:
            number = reduction(dtype, op)
            return self._run(opts, lambda stream: call(number, stream), buffers, results)
        number = pre_mul_sum(dtype, op.__getstate__()[1], self._comm)
        try:
            return self._run(opts, lambda stream: call(number, stream), buffers, results)
        finally:
            check(lib.ncclRedOpDestroy(number, self._comm))  # issued calls have a copy

    @profiled(sum_of, 0, usual="all_reduce")
    def allreduce(self, tensors: list[torch.Tensor], opts=ALLREDUCE) -> dist.Work:
        if tensors[0].is_sparse:
            expect(
                self._ordered is None,
                "an all_reduce of sparse tensors has no ordered sums: call to_dense() first, or "
                "leave ordered_sums()",
            )
            return all_reduce_sparse(self, tensors, opts)
        comm, buffers, calls = self._comm, Buffers(), []
        for tensor in tensors:
            dense = buffers.written(as_real(tensor))
            calls.append((dense.data_ptr(), dense.numel(), TYPES.get(dense.dtype)))

        leaf = self._leaf(tensors[0].dtype)

        def call(op: int, stream) -> int:
            for place, count, kind in calls:
                given = place, place, count, kind, op
                if leaf is not None:
                    code = lib.rondoAllReduceOrdered(*given, *leaf, comm, stream)
                else:
                    code = lib.ncclAllReduce(*given, comm, stream)
                if code:
                    return code
            return 0

        return self._reduce_with(opts.reduceOp, tensors[0].dtype, call, opts, buffers, tensors)

    @profiled("all_reduce", 0, nccl="allreduce_coalesced")
    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts=ALLREDUCE) -> dist.Work:
        expect(len({t.dtype for t in tensors}) == 1, "coalesced tensors are of different types")
        return self.allreduce(tensors, opts)

    @profiled("reduce", 0)
    def reduce(self, tensors: list[torch.Tensor], opts=REDUCE) -> dist.Work:
        comm, buffers, root = self._comm, Buffers(), opts.rootRank
        (tensor,) = tensors
        at_root = self._rank == root
        dense = (buffers.written if at_root else buffers.read)(as_real(tensor))
        place, count, kind = dense.data_ptr(), dense.numel(), TYPES.get(dense.dtype)
        out = place if at_root else None

        leaf = self._leaf(tensor.dtype)

        def call(op: int, stream) -> int:
            given = place, out, count, kind, op, root
            if leaf is not None:
                return lib.rondoReduceOrdered(*given, *leaf, comm, stream)
            return lib.ncclReduce(*given, comm, stream)

        return self._reduce_with(opts.reduceOp, tensor.dtype, call, opts, buffers, tensors)

    # ---- reduce_scatter ----

    @profiled("reduce_scatter", 1)
    def reduce_scatter(self, outputs, inputs, opts=REDUCE_SCATTER) -> dist.Work:
        (output,), (parts,) = outputs, inputs
        expect(len(parts) == self._size, f"{len(parts)} inputs for {self._size} ranks")
        expect(
            parts[self._rank].numel() == output.numel(),
            f"reduce_scatter of {parts[self._rank].numel()} elements for rank {self._rank} into "
            f"{output.numel()}",
        )
        comm, buffers = self._comm, Buffers()
        flat = buffers.read_all([as_real(part) for part in parts])
        target = buffers.written(as_real(output))
        place, out, kind = flat.data_ptr(), target.data_ptr(), TYPES.get(target.dtype)
        count = target.numel()
        even = same_sizes(parts)
        counts, _ = counts_of([as_real(part).numel() for part in parts])

        leaf = self._leaf(output.dtype)
        expect(leaf is None or even, "a reduce_scatter of unequal parts has no ordered sums")

        def call(op: int, stream) -> int:
            if leaf is not None:
                return lib.rondoReduceScatterOrdered(
                    place, out, count, kind, op, *leaf, comm, stream
                )
            if even:
                return lib.ncclReduceScatter(place, out, count, kind, op, comm, stream)
            return lib.rondoReduceScatterv(place, out, counts, kind, op, comm, stream)

        return self._reduce_with(opts.reduceOp, output.dtype, call, opts, buffers, [output])

    @profiled("reduce_scatter", 1, nccl="_reduce_scatter_base", usual="reduce_scatter", sized=True)
    def reduce_scatter_single(self, output, tensor, opts=REDUCE_SCATTER) -> dist.Work:
        expect(
            tensor.numel() == output.numel() * self._size and output.dtype == tensor.dtype,
            f"reduce_scatter of {tensor.numel()} x {tensor.dtype} over {self._size} ranks into "
            f"{output.numel()} x {output.dtype}",
        )
        comm, buffers = self._comm, Buffers()
        source, target = buffers.read(as_real(tensor)), buffers.written(as_real(output))
        place, out, kind = source.data_ptr(), target.data_ptr(), TYPES.get(target.dtype)
        count = target.numel()

        leaf = self._leaf(output.dtype)

        def call(op: int, stream) -> int:
            given = place, out, count, kind, op
            if leaf is not None:
                return lib.rondoReduceScatterOrdered(*given, *leaf, comm, stream)
            return lib.ncclReduceScatter(*given, comm, stream)

        return self._reduce_with(opts.reduceOp, output.dtype, call, opts, buffers, [output])

    _reduce_scatter_base = reduce_scatter_single

    @profiled("reduce_scatter", 1, nccl="reduce_scatter_tensor_coalesced")
    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=REDUCE_SCATTER) -> dist.Work:
        return self._join([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs)])

    reduce_scatter_tensor_coalesced = older(
        "reduce_scatter_tensor_coalesced", reduce_scatter_single_coalesced
    )
